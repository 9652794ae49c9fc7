"""Comparisons of two recordings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _calls, _words
from ._calls import Progress
from .errors import ArgumentError
from .recordings import Recording


class Difference:
    """A comparison of two recordings. It is true if they differ; `str(difference)` lists the differences.

    Attributes:
        a: The first recording.
        b: The second recording.
        report: The report of `kinescope diff --json`.
    """

    a: Recording
    b: Recording
    report: dict[str, Any]

    def __init__(self, a: Recording, b: Recording, words: list[str], progress: Progress) -> None:
        self.a = a
        self.b = b
        self._words = ["diff", a._word, b._word, *words]
        self.report, _ = _calls.run(self._words, path=a.path, progress=progress, held=[a._open, b._open])

    @property
    def same(self) -> bool:
        """Whether no compared part differs."""
        same: bool = self.report["same"]
        return same

    @property
    def summary(self) -> str:
        """The earliest cause and its consequences, in one sentence."""
        summary: str = self.report["summary"]
        return summary

    @property
    def event(self) -> int | None:
        """The event of the first recording where the recordings part, or `None`."""
        first: dict[str, Any] = self.report.get("first_difference") or {}
        event: int | None = first.get("a_event")
        return event

    def __bool__(self) -> bool:
        return not self.same

    def __str__(self) -> str:
        held = [self.a._open, self.b._open]
        text, _ = _calls.run_bytes(self._words, path=self.a.path, as_json=False, held=held)
        return text.decode()

    def __repr__(self) -> str:
        return f"<kinescope.Difference: {self.summary}>"


def diff(
    a: Recording,
    b: Recording,
    *,
    tolerance: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
    progress: Progress = None,
) -> Difference:
    """Compares two recordings.

    Args:
        a: The first recording.
        b: The second recording.
        tolerance: Rules for elements, such as `"buffer logits absolute 1e-5"`.
        ignore: What is not compared, such as `"register JS1_AFFINITY"` or `"mappings"`.

    Raises:
        ArgumentError: A rule is not valid, one of the two is no `Recording`, or they are other files by the same
            path.
        OpenError: A recording is damaged.
    """
    for recording in (a, b):
        if not isinstance(recording, Recording):
            got = _words.describe(recording)
            raise ArgumentError(f"{got} is no Recording: `kinescope.open` opens one, `outcome.recording` is one")
    # A verb knows an open recording by its path: it would compare the first with itself.
    if a._word == b._word and a._signature != b._signature:
        text = "the recordings have the same path and other contents: open one of them by another path"
        raise ArgumentError(f"{a.path}: {text}", str(a.path))
    words = [_words.option("--tolerance", rule) for rule in _words.texts(tolerance, "the tolerance")]
    words += [_words.option("--ignore", rule) for rule in _words.texts(ignore, "the argument 'ignore'")]
    return Difference(a, b, words, progress)
