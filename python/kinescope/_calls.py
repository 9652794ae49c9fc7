"""Calls of verbs, the progress of long calls, and temporary folders."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any, Union

from . import _kinescope, _words
from .errors import ArgumentError

Observer = Callable[[str, Union[float, None]], object]
Progress = Union[bool, None, Observer]
Path = _words.Path


class TemporaryFolder:
    """A folder that is removed with this object, or when the process ends.

    Attributes:
        path: The folder.
    """

    path: FilePath

    def __init__(self) -> None:
        self.path = FilePath(tempfile.mkdtemp(prefix="kinescope-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(folder: FilePath, owner: int) -> None:
    # A process that was forked has the object too, and must not remove what its parent uses.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def observe(progress: Progress) -> Iterator[Observer | None]:
    """Yields the function that a long call reports to, or `None`.

    `True` shows a bar of tqdm, where tqdm is installed. A function gets the current step and its fraction, 0 to 1, or
    `None` if the fraction is unknown. It is called about twenty times a second. If it raises, the call stops.
    """
    if callable(progress):
        yield progress
        return
    if progress not in (None, False, True):
        raise ArgumentError(f"the progress is {_words.describe(progress)} (expected True, None or a function)")
    if not progress:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=100, unit="%", leave=False) as bar:

        def show(step: str, fraction: float | None) -> None:
            bar.set_description(step, refresh=False)
            bar.n = round((fraction or 0.0) * 100)
            bar.refresh()

        yield show


def run(
    arguments: Sequence[str],
    *,
    path: FilePath | None = None,
    progress: Progress = None,
    held: Sequence[_kinescope.OpenRecording] = (),
) -> tuple[Any, int]:
    """Runs a verb. Returns the value that it prints with `--json`, and its exit code: 0, or 1 for differences."""
    text, code = run_bytes(arguments, path=path, progress=progress, held=held)
    return json.loads(text), code


def run_bytes(
    arguments: Sequence[str],
    *,
    path: FilePath | None = None,
    progress: Progress = None,
    as_json: bool = True,
    held: Sequence[_kinescope.OpenRecording] = (),
) -> tuple[bytes, int]:
    """Runs a verb without opening the files of `held` recordings again.

    Returns what it prints, as JSON or as text, and its exit code.
    """
    with observe(progress) as observer:
        return _kinescope.run_verb(list(arguments), json=as_json, progress=observer, path=path, held=list(held))


def table(name: str, rows: Any) -> _kinescope.Table:
    """Returns the rows of a report as a table with declared columns."""
    return _kinescope.table_of_rows(name, json.dumps(rows).encode())
