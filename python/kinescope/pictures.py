"""Pictures of the window and its panels."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any, NamedTuple

import numpy as np

from . import _kinescope, _words
from ._calls import Path
from .errors import ArgumentError

__all__ = ["Picture", "PictureOptions"]


class Picture:
    """A picture as PNG. A notebook shows it.

    Attributes:
        png: The bytes of the file.
    """

    png: bytes

    def __init__(self, png: bytes) -> None:
        self.png = png

    def _repr_png_(self) -> bytes:
        return self.png

    def save(self, path: Path) -> None:
        """Writes the picture to a file.

        Raises:
            OSError: The file cannot be written.
        """
        _words.file_path(path).write_bytes(self.png)

    def __repr__(self) -> str:
        return f"<kinescope.Picture of {len(self.png)} bytes>"


class PictureOptions(NamedTuple):
    """Checked options of a picture: panel, current event, width and height in points, pixels per point, theme."""

    panel: str | None
    event: int | None
    size: tuple[float, float]
    scale: float
    is_light: bool

    @classmethod
    def check(cls, panel: Any, event: int | None, size: Any, scale: Any, light: Any) -> PictureOptions:
        """Returns options.

        Raises:
            ArgumentError: One of them has another type. Ranges are checked by `render`.
        """
        panel = _words.optional_text(panel, "the name of a panel")
        try:
            width, height = (float(side) for side in size)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"the size is {_words.describe(size)} (expected width and height in points)") from error
        try:
            pixels = float(scale)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"the scale is {_words.describe(scale)} (expected pixels per point)") from error
        if not isinstance(light, (bool, np.bool_)):
            raise ArgumentError(f"the argument 'light' is {_words.describe(light)} (expected True or False)")
        return cls(panel, event, (width, height), pixels, bool(light))

    def render(self, path: FilePath) -> Picture:
        """Draws a recording.

        Raises:
            ArgumentError: There is no such panel, or a number is out of range.
            Error: This machine cannot render.
        """
        return Picture(_kinescope.render(path, self.panel, self.event, self.size, self.scale, self.is_light))
