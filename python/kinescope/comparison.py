"""Comparisons of two recordings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _calls
from ._calls import Progress
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
        self._words = ["diff", str(a.path), str(b.path), *words]
        self._held = [a._open, b._open]
        self.report, _ = _calls.run(self._words, path=a.path, progress=progress, held=self._held)

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
        text, _ = _calls.run_bytes(self._words, path=self.a.path, as_json=False, held=self._held)
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
        ArgumentError: A rule is not valid.
        OpenError: A recording is damaged.
    """
    words: list[str] = []
    for option, rules in (("--tolerance", tolerance), ("--ignore", ignore)):
        for rule in [rules] if isinstance(rules, str) else rules:
            words += [option, rule]
    return Difference(a, b, words, progress)
