"""Exceptions and warnings of Kinescope.

Every exception is an `Error`. Its text says what failed, where, and why; `path` is the recording, if there is one.
"""

from __future__ import annotations

import sys
import warnings

__all__ = [
    "ArgumentError",
    "Error",
    "FilterError",
    "InternalError",
    "OpenError",
    "PlanError",
    "RecordingWarning",
    "ReplayError",
    "TargetError",
]


class Error(Exception):
    """Kinescope could not do its work.

    Attributes:
        path: The recording that the work read, or `None`.
    """

    path: str | None

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class ArgumentError(Error, ValueError):
    """An argument is not valid."""


class OpenError(Error):
    """A recording cannot be opened, or it is damaged."""


class FilterError(ArgumentError):
    """A filter of events is not valid. The text marks the position."""


class PlanError(Error):
    """A recording has no plan for a target, or the plan is refused."""


class TargetError(Error):
    """A target is unknown, does not fit the recording, is busy, or was lost."""


class ReplayError(Error):
    """A replay ended before its end. The text is the reason that the target gave."""


class InternalError(Error):
    """Kinescope itself has an error. Please report it."""


class RecordingWarning(UserWarning):
    """A message about a recording that is no error, such as damage in a part that is left out."""


def warn_caller(message: str) -> None:
    """Gives a `RecordingWarning` at the place of the first caller outside the package.

    The extension module calls it too.
    """
    # Level 1 is this function, whatever called it.
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _is_of_package(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RecordingWarning, stacklevel=level)


def _is_of_package(module: str) -> bool:
    return module == "kinescope" or module.startswith("kinescope.")
