"""Tuning of a recorded kernel launch: other dimensions, bounds or code, measured and compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from . import _calls
from ._calls import Progress
from ._kinescope import Table
from .errors import ArgumentError
from .recordings import Recording

__all__ = ["Launch", "Tuning", "tune"]

Values = Union[int, str, Iterable[Any]]

# Options of `kinescope tune` that take a list of values, by the name of the axis.
_LISTS = {
    "block": "--block",
    "block_y": "--block-y",
    "block_z": "--block-z",
    "grid": "--grid",
    "grid_y": "--grid-y",
    "grid_z": "--grid-z",
    "shared": "--shared",
    "cache": "--cache",
    "max_registers": "--max-registers",
}


@dataclass(frozen=True)
class Launch:
    """A recorded kernel launch.

    Attributes:
        recording: The recording.
        place: Its event; or the name of its kernel or a part of it, with `:N` for launch number N of it, from 0.
    """

    recording: Recording
    place: int | str


class Tuning:
    """The result of a tuning: one row for each candidate, the best first. It is a table of Arrow.

    Attributes:
        launch: The launch.
        report: The report of `kinescope tune --json`.
    """

    launch: Launch
    report: dict[str, Any]

    def __init__(self, launch: Launch, report: dict[str, Any]) -> None:
        self.launch = launch
        self.report = report
        self._table = _calls.table("tuning", _rank(report))

    @property
    def table(self) -> Table:
        """The candidates: those whose results are right by their median time, then the others in the order of tests.

        Columns: `rank` (from 1; null if the results are not right), `verdict` (`right`, `wrong`, `refused`, `no code`,
        `too slow`, `stuck`, `failed`, `not measured`), `recorded` (whether it is the recorded launch), `code` (file),
        `grid`, `block` (lists of three numbers), `shared` (bytes), `cache`, `max_registers`, `launch_bounds`, `median_ns`,
        `stdev_ns`, `mad_ns` (nanoseconds), `speed_up` (recorded time divided by the median), `times_ns` (list), `why`.
        """
        return self._table

    @property
    def best(self) -> dict[str, Any] | None:
        """The fastest candidate with right results, with the keys of `points` in the report; `None` if there is none."""
        index = self.report["best"]
        return None if index is None else self.report["points"][index]

    @property
    def speed_up(self) -> float | None:
        """The time of the recorded launch divided by that of the best candidate, or `None`."""
        speed_up: float | None = self.report["speed_up"]
        return speed_up

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self._table.__arrow_c_schema__()

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        kernel, points = self.report["kernel"], len(self.report["points"])
        speed = "no candidate is right" if self.speed_up is None else f"speed-up {self.speed_up:.2f}"
        return f"<kinescope.Tuning of {kernel}: {points} candidates, {speed}>"


def tune(
    launch: Launch,
    space: Mapping[str, Values],
    tolerance: str | Iterable[str] = (),
    *,
    on: str = "cuda:0",
    inputs: Mapping[str, Any] | None = None,
    options: Iterable[str] = (),
    progress: Progress = None,
) -> Tuning:
    """Measures a recorded launch with other dimensions, bounds or code, and compares the results with the recorded ones.

    Args:
        launch: The launch, from `Recording.launch`.
        space: Values of each axis: `block`, `block_y`, `block_z`, `grid`, `grid_y`, `grid_z` (numbers of threads and
            blocks), `shared` (bytes), `cache` (`none`, `shared`, `l1`, `equal`), `max_registers`, `launch_bounds` (pairs
            of maximum threads and minimum blocks), `module` (files of other code). A value is a number, a list, a
            `range`, or a text such as `"32..=1024"` (doubling).
        tolerance: Rules for memory, such as `"f32:1e-5"` or `"arg0=f16:2ulp"`. Without one, memory must be equal.
        on: The target, such as `cuda:0` or `agent:NAME/cuda0`.
        inputs: New contents of inputs.
        options: More options of `kinescope tune`, such as `"--repeat", "20"`.
        progress: `True` for a bar of tqdm, or a function of the step and its fraction.

    Raises:
        ArgumentError: An axis, a value or a rule is not valid.
        TargetError: The target cannot be used.
        KeyboardInterrupt: Ctrl-C stopped the work.
    """
    from .replay import Edits

    words = ["--on", on, "--launch", str(launch.place)]
    for axis, values in space.items():
        words += _axis_words(axis, values)
    for rule in [tolerance] if isinstance(tolerance, str) else tolerance:
        words += ["--tolerance", rule]
    # The files of the inputs live as long as the edits.
    edits = Edits(launch.recording, inputs or {})
    report = launch.recording.report("tune", *words, *edits._arguments, *options, progress=progress)
    return Tuning(launch, report)


def _axis_words(axis: str, values: Values) -> list[str]:
    """Returns the options of an axis."""
    if axis in ("launch_bounds", "module"):
        words: list[str] = []
        single: Any = values
        is_single = isinstance(values, (str, int, os.PathLike))
        for value in [single] if is_single else single:
            text = ",".join(str(n) for n in value) if isinstance(value, (tuple, list)) else str(value)
            words += [f"--{axis.replace('_', '-')}", text]
        return words
    option = _LISTS.get(axis)
    if option is None:
        names = ", ".join([*_LISTS, "launch_bounds", "module"])
        raise ArgumentError(f"'{axis}' is no axis of a tuning (expected {names})")
    if isinstance(values, (str, int)):
        return [option, str(values)]
    return [option, ",".join(str(value) for value in values)]


def _rank(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of the table."""
    form = ("code", "grid", "block", "shared", "cache", "max_registers", "launch_bounds")
    baseline = report["baseline"]
    rows = [point | {"recorded": all(point[key] == baseline[key] for key in form)} for point in report["points"]]
    # The recorded launch can also be one of the points.
    if not any(row["recorded"] for row in rows):
        rows.insert(0, baseline | {"recorded": True})
    right = [row for row in rows if row["verdict"] == "right" and row["median_ns"] is not None]
    right.sort(key=lambda row: row["median_ns"])
    others = [row for row in rows if not (row["verdict"] == "right" and row["median_ns"] is not None)]
    return [row | {"rank": n} for n, row in enumerate(right, 1)] + others
