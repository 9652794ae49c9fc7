"""Fixtures and assertions for pytest. The package registers them; a test names them as arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import kinescope
from kinescope._calls import Path
from kinescope.recordings import Recording
from kinescope.replay import Outcome


def assert_same(
    recording: Recording | Path,
    outcome: Outcome | Recording | Path,
    tolerance: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
) -> None:
    """Fails if an outcome differs from its recording.

    The message is the summary of the comparison, the list of differences, and a `kinescope:` link to the event where the
    recordings part.

    Args:
        recording: The recording, or its path.
        outcome: The outcome of a replay, or a recording, or its path.
        tolerance: Rules for elements, such as `"buffer logits absolute 1e-5"`.
        ignore: What is not compared, such as `"mappings"`.
    """
    __tracebackhide__ = True
    first = recording if isinstance(recording, Recording) else kinescope.open(recording)
    other = outcome.recording if isinstance(outcome, Outcome) else outcome
    second = other if isinstance(other, Recording) else kinescope.open(other)
    difference = kinescope.diff(first, second, tolerance=tolerance, ignore=ignore)
    if difference.same:
        return
    lines = [difference.summary]
    if difference.event is not None:
        lines.append(f"first difference: {first.link(difference.event)}")
    lines += ["", str(difference).rstrip()]
    pytest.fail("\n".join(lines), pytrace=False)


@pytest.fixture(name="assert_same")
def assert_same_fixture() -> Any:
    """Returns `assert_same`."""
    return assert_same


@pytest.fixture
def replay() -> Any:
    """Returns a function that replays a recording: `replay(path, on="software:mali-g71", image=array)`.

    It returns the outcome.
    """

    def run(path: Path | Recording, /, on: str, **inputs: Any) -> Outcome:
        recording = path if isinstance(path, Recording) else kinescope.open(path)
        return recording.edit(**inputs).plan(on=on).run()

    return run
