"""Tuning of a recorded kernel launch: other dimensions, bounds or code, measured and compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _calls, _words
from ._calls import Progress
from ._kinescope import Table
from .errors import ArgumentError
from .recordings import Recording, Word

__all__ = ["Launch", "Tuning", "tune"]

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

    def __post_init__(self) -> None:
        place = self.place
        what = "the place of a launch"
        checked = _words.text(place, what) if isinstance(place, str) else _words.number(place, what)
        object.__setattr__(self, "place", checked)


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

    def __reduce__(self) -> tuple[Any, ...]:
        return Tuning, (self.launch, self.report)

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
    space: Mapping[str, object],
    tolerance: str | Iterable[str] = (),
    *,
    on: str = "cuda:0",
    inputs: Mapping[str, Any] | None = None,
    options: Iterable[Word] = (),
    progress: Progress = None,
) -> Tuning:
    """Measures a recorded launch with other dimensions, bounds or code, and compares the results with the recorded ones.

    Args:
        launch: The launch, from `Recording.launch`.
        space: Values of each axis: `block`, `block_y`, `block_z`, `grid`, `grid_y`, `grid_z` (numbers of threads and
            blocks), `shared` (bytes), `cache` (`none`, `shared`, `l1`, `equal`), `max_registers`, `launch_bounds`, `module`
            (files of other code). A value is a number, a list, a `range`, or a text such as `"32..=1024"` (doubling).
            A launch bound is what `__launch_bounds__` takes: maximum threads of a block, or a tuple of these and minimum
            blocks on a multiprocessor. So `(256, 4)` is one bound, `[(256, 4), (128, 8)]` are two, and `[256, 128]` are two
            without minimum blocks.
        tolerance: Rules for memory, such as `"f32:1e-5"` or `"arg0=f16:2ulp"`. Without one, memory must be equal.
        on: The target, such as `cuda:0` or `agent:NAME/cuda0`.
        inputs: New contents of inputs.
        options: More options of `kinescope tune`, such as `["--repeat", 20]`.
        progress: `True` for a bar of tqdm, or a function of the step and its fraction.

    Raises:
        ArgumentError: An axis, a value or a rule is not valid.
        TargetError: The target cannot be used.
        KeyboardInterrupt: Ctrl-C stopped the work.
    """
    from .replay import Edits

    if not isinstance(launch, Launch):
        raise ArgumentError(f"{_words.describe(launch)} is no Launch: `Recording.launch` returns one")
    if not isinstance(space, Mapping):
        raise ArgumentError(f"the space is {_words.describe(space)} (expected a dictionary of axes and their values)")
    words = [_words.option("--on", _words.text(on, "the target")), _words.option("--launch", launch.place)]
    for axis, values in space.items():
        words += _axis_words(axis, values)
    words += [_words.option("--tolerance", rule) for rule in _words.texts(tolerance, "the tolerance")]
    more = _words.raw_words(options, "the options")
    # The files of the inputs live as long as the edits.
    edits = Edits(launch.recording, inputs or {})
    report = edits._report("tune", [*words, *edits._arguments, *more], progress)
    return Tuning(launch, report)


def _axis_words(axis: str, values: Any) -> list[str]:
    """Returns the options of an axis."""
    if axis == "launch_bounds":
        return [_words.option("--launch-bounds", _bound_text(bound)) for bound in _find_bounds(values)]
    if axis == "module":
        is_single = isinstance(values, (str, bytes, os.PathLike))
        files = [values] if is_single else _words.items(values, "the axis 'module'", "a path or a list of paths")
        return [_words.option("--module", _words.path_word(file, "a module")) for file in _check_filled(axis, files)]
    option = _LISTS.get(axis)
    if option is None:
        names = ", ".join([*_LISTS, "launch_bounds", "module"])
        raise ArgumentError(f"'{axis}' is no axis of a tuning (expected {names})")
    what = f"the axis '{axis}'"
    if isinstance(values, str):
        return [_words.option(option, _words.text(values, what))]
    if hasattr(values, "__index__") and not isinstance(values, Iterable):
        return [_words.option(option, _words.number(values, what))]
    listed = _words.items(values, what, "a number, a list, a range or a text")
    words = [value if isinstance(value, str) else str(_words.number(value, f"a value of {what}")) for value in listed]
    return [_words.option(option, ",".join(_check_filled(axis, words)))]


def _check_filled(axis: str, values: list[Any]) -> list[Any]:
    if not values:
        raise ArgumentError(f"the axis '{axis}' is empty (expected one value or more)")
    return values


def _find_bounds(values: Any) -> list[Any]:
    """Returns the bounds of an axis: a number, a text and a tuple of numbers are one bound, a list has several."""
    is_pair = isinstance(values, tuple) and not any(isinstance(value, (tuple, list, str)) for value in values)
    if isinstance(values, str) or is_pair or not isinstance(values, Iterable):
        return [values]
    expected = "a number, a tuple of maximum threads and minimum blocks, or a list of these"
    return _check_filled("launch_bounds", _words.items(values, "the axis 'launch_bounds'", expected))


def _bound_text(bound: Any) -> str:
    """Returns a bound as `--launch-bounds` takes it."""
    what = "a launch bound"
    if isinstance(bound, str):
        return _words.text(bound, what)
    if not isinstance(bound, Iterable):
        return str(_words.number(bound, what))
    numbers = _words.items(bound, what, "a number, or a tuple of maximum threads and minimum blocks")
    if len(numbers) not in (1, 2):
        expected = "maximum threads, or maximum threads and minimum blocks; several bounds are a list"
        raise ArgumentError(f"{_words.describe(bound)} is no launch bound (expected {expected})")
    return ",".join(str(_words.number(value, f"a number of {what}")) for value in numbers)


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
