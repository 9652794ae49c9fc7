"""Recordings: events, jobs, memory, registers and pictures."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _calls, _kinescope
from ._calls import Path, Progress
from .errors import ArgumentError, RecordingWarning

if TYPE_CHECKING:
    from .comparison import Difference
    from .replay import Edits
    from .tuning import Launch

Table = _kinescope.Table
EventBatches = _kinescope.EventBatches


def _check_columns(columns: Sequence[str] | None) -> list[str] | None:
    """Returns names of columns as a list. A single text would be a list of letters."""
    if isinstance(columns, str):
        raise ArgumentError(f"the columns are a text (expected a list of names, such as [{columns!r}])")
    return None if columns is None else list(columns)


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
        """Writes the picture to a file."""
        FilePath(path).write_bytes(self.png)

    def __repr__(self) -> str:
        return f"<kinescope.Picture of {len(self.png)} bytes>"


class Buffer:
    """A named buffer of a recording.

    Attributes:
        name: Its name.
    """

    name: str

    def __init__(self, recording: Recording, name: str) -> None:
        self._recording = recording
        self.name = name

    def numpy(self, event: int | None = None) -> np.ndarray[Any, Any]:
        """Returns the content before an event as an array with the recorded element type and shape.

        Args:
            event: The event, counted from 0. `None`: at the end, or when a buffer of an API trace was freed.

        Returns:
            A new array. Without a recorded shape it has one dimension. Bytes that the recording does not hold are 0, and
            a `RecordingWarning` says so.

        Raises:
            Error: The recording has no such buffer.
        """
        array: np.ndarray[Any, Any] = self._recording._read(["--buffer", self.name], event, ".npy")
        return array

    def __repr__(self) -> str:
        return f"<kinescope.Buffer '{self.name}'>"


class Recording:
    """An open recording.

    Attributes:
        path: Its file or folder.
    """

    path: FilePath

    def __init__(self, path: Path, progress: Progress = None) -> None:
        self.path = FilePath(path)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        with _calls.observe(progress) as observer:
            self._open = _kinescope.OpenRecording(os.fspath(path), observer)

    @property
    def event_count(self) -> int:
        """The number of events."""
        return self._open.event_count

    def report(self, verb: str, *arguments: str, progress: Progress = None) -> Any:
        """Returns the report of any verb that reads a recording, such as `report("last-writer", "c")`.

        The keys are those of `--json` in docs/json.md. Addresses are texts such as `"0x1000"`.

        Args:
            verb: Name of the verb.
            arguments: Its arguments after the recording.

        Raises:
            ArgumentError: The verb or an argument is not valid.
        """
        words = [verb, str(self.path), *arguments]
        return _calls.run(words, path=self.path, progress=progress, held=[self._open])[0]

    def text(self, verb: str, *arguments: str, progress: Progress = None) -> str:
        """Returns what a verb prints on the command line."""
        words = [verb, str(self.path), *arguments]
        text, _ = _calls.run_bytes(words, path=self.path, progress=progress, as_json=False, held=[self._open])
        return text.decode()

    def info(self) -> dict[str, Any]:
        """Returns what the recording holds: GPU, recorder, counts. The keys are those of `kinescope info --json`."""
        info: dict[str, Any] = self.report("info")
        return info

    def check(self) -> Table:
        """Returns the findings: `kind`, `severity` (`error`, `warning`, `note`), `place`, `message`."""
        return _calls.table("findings", self.report("check"))

    def events(
        self, where: str | None = None, *, columns: Sequence[str] | None = None, progress: Progress = None
    ) -> Table:
        """Returns the events, one row for each.

        Columns: `event` (index), `kind`, `time_ns` (nanoseconds, or `time_ticks`), `thread`, `space`, `offset` (bytes),
        `register`, `width` (bytes), `value`, `means`.

        Args:
            where: A filter in the language of docs/query.md. `None`: all events.
            columns: Names of columns, in the order of the table. `None`: all columns. Others are not computed.

        Raises:
            FilterError: The filter is not valid.
            ArgumentError: There is no such column, or a column is named twice.
        """
        with _calls.observe(progress) as observer:
            return self._open.events(where, _check_columns(columns), observer)

    def stream_events(
        self, where: str | None = None, *, columns: Sequence[str] | None = None, progress: Progress = None
    ) -> EventBatches:
        """Returns the rows of `events` in batches that are built while they are read.

        The memory that it takes does not grow with the recording. `for table in recording.stream_events():` gives a
        table of at most 65,536 rows each time. `pyarrow.RecordBatchReader.from_stream` and DuckDB take it as a stream.
        Each loop and each consumer begins with the first event.

        Args:
            where: A filter in the language of docs/query.md. `None`: all events.
            columns: Names of columns, in the order of the table. `None`: all columns. Others are not computed.

        Raises:
            FilterError: The filter is not valid.
            ArgumentError: There is no such column, or a column is named twice.
        """
        with _calls.observe(progress) as observer:
            return self._open.stream_events(where, _check_columns(columns), observer)

    def table(self, name: str, *, progress: Progress = None) -> Table:
        """Returns a table that `kinescope export` writes.

        Args:
            name: `events`, `jobs`, `registers` (usage), `pages`, `mappings`, `buffers` or `shaders`.

        Raises:
            ArgumentError: There is no such table.
        """
        with _calls.observe(progress) as observer:
            return self._open.table(name, observer)

    def jobs(self, *, progress: Progress = None) -> Table:
        """Returns the submits, one row for each, with the first job of the chain.

        Columns: `index`, `submit_event`, `done_event`, `head_va`, `type`, `decoded`, `workgroups_x` to `_z`, `size_x` to
        `_z`, `shader_va`, `duration_ns`, `chain_length`. `type` is null for a command stream.
        """
        return self.table("jobs", progress=progress)

    def mappings(self, *, progress: Progress = None) -> Table:
        """Returns runs of pages: `address_space`, `va`, `end` (excluded), `pages` (4 KiB), `rights`, `attribute`, `pa`."""
        return self.table("mappings", progress=progress)

    def buffers(self) -> Table:
        """Returns the named buffers: `name`, `role`, `address_space`, `va`, `bytes`, `type`."""
        return self.table("buffers")

    def launches(self) -> Table:
        """Returns the kernel launches of an API trace, one row for each.

        Times are nanoseconds. `grid`, `block` and `cluster` are lists of three numbers. `arguments` and `changed` are JSON.

        Raises:
            Error: The recording is not an API trace.
        """
        return _calls.table("launches", self.report("launches"))

    def launch(self, place: int | str) -> Launch:
        """Returns a kernel launch for `kinescope.tune`.

        Args:
            place: Its event; or the name of its kernel or a part of it, with `:N` for launch number N of it, from 0.
        """
        from .tuning import Launch

        return Launch(self, place)

    def ranges(self) -> Table:
        """Returns the ranges that the recorded program named, one row for each name.

        Columns: `name`, `times` (number of ranges), `first_event` and `last_event` of the first one, `total_ns`
        (nanoseconds in all of them).
        """
        return _calls.table("ranges", self.info().get("ranges", []))

    def references(self, address: int | str, *, space: int = 0) -> Table:
        """Returns what reads, writes, executes or names an address, one row for each reference.

        Args:
            address: GPU address, or the name of a buffer or register, as `kinescope references` takes it.
            space: Index of the address space, from 0.
        """
        place = hex(address) if isinstance(address, int) else address
        report = self.report("references", place, "--space", str(space))
        return _calls.table("references", report["references"])

    def registers(self, event: int | None = None) -> Table:
        """Returns the last known value of each register before an event.

        Columns: `space`, `offset` (bytes), `register`, `width` (bytes), `value`, `means`, `access` (`read` or `write`),
        `event` (of that access). A register that was not accessed before has no row.

        Args:
            event: The event, counted from 0. `None`: at the end.
        """
        return self._open.registers(event, None)

    def buffer(self, name: str) -> Buffer:
        """Returns a buffer by its name. `Buffer.numpy` raises an `Error` if it does not exist."""
        return Buffer(self, name)

    def memory(self, va: int, n: int, event: int | None = None, *, space: int = 0) -> bytes:
        """Returns memory before an event.

        Args:
            va: Address of the first byte.
            n: Number of bytes, at most 2^30.
            event: The event, counted from 0. `None`: at the end.
            space: Index of the address space, from 0.

        Returns:
            `n` bytes. Bytes that the recording does not hold are 0, and a `RecordingWarning` says so.
        """
        if va < 0 or n < 0:
            raise ArgumentError("an address and a number of bytes are not negative", str(self.path))
        words = [hex(va), "--bytes", str(n), "--space", str(space)]
        content: bytes = self._read(words, event, ".bin")
        return content

    def _read(self, words: Sequence[str], event: int | None, suffix: str) -> Any:
        at = [] if event is None else ["--event", str(event)]
        with tempfile.TemporaryDirectory(prefix="kinescope-") as folder:
            to = FilePath(folder) / f"memory{suffix}"
            report = self.report("memory", *words, *at, "-o", str(to))
            for hole in report["holes"]:
                text = f"{self.path}: {hole['va']}: {hole['bytes']} bytes {hole['state']}, read as 0"
                warnings.warn(text, RecordingWarning, stacklevel=3)
            return np.load(to, allow_pickle=False) if suffix == ".npy" else to.read_bytes()

    def picture(
        self,
        panel: str | None = None,
        *,
        event: int | None = None,
        size: tuple[float, float] = (1440.0, 900.0),
        scale: float = 1.0,
        light: bool = False,
    ) -> Picture:
        """Draws a panel of the window, or the whole window.

        Args:
            panel: Name of the panel, such as `"page-tables"` or `"memory"`. `None`: the window.
            event: The current event. `None`: the one that the window opens at.
            size: Width and height of the window in points, 64 to 8192 each.
            scale: Pixels per point, 0.5 to 4.
            light: Whether the theme is light.

        Raises:
            ArgumentError: There is no such panel, or a number is out of range.
            Error: This machine cannot render.
        """
        return Picture(_kinescope.render(os.fspath(self.path), panel, event, list(size), scale, light))

    def link(self, event: int = 0) -> str:
        """Returns a `kinescope:` link that opens the recording at an event."""
        link: str = self.report("link", "--at", str(event))["link"]
        return link

    def export(
        self, to: Path, *, table: str | None = None, format: str | None = None, where: str | None = None
    ) -> dict[str, Any]:
        """Writes a table, a waveform, a trace or a program.

        Args:
            to: The file or folder. Its name selects the format, as for `kinescope export`.
            table: Name of the table; see `Recording.table`.
            format: `vcd`, `fst`, `perfetto`, `program` or `channel`.
            where: A filter of events.

        Returns:
            The report of `kinescope export --json`.
        """
        words = ["-o", os.fspath(to)]
        for option, value in (("--table", table), ("--to", format), ("--where", where)):
            if value is not None:
                words += [option, value]
        report: dict[str, Any] = self.report("export", *words)
        return report

    def edit(self, **inputs: Any) -> Edits:
        """Returns new contents of inputs for a replay: `recording.edit(image=array)`.

        An array has the element type of the buffer and as many elements. Without arguments the replay is unchanged.
        """
        from .replay import Edits

        return Edits(self, inputs)

    def diff(self, other: Recording, **options: Any) -> Difference:
        """Compares with another recording; see `kinescope.diff`."""
        from .comparison import diff

        return diff(self, other, **options)

    def __repr__(self) -> str:
        return f"<kinescope.Recording '{self.path}' of {self.event_count} events>"


def open(path: Path, *, progress: Progress = None) -> Recording:
    """Opens a recording, or imports anything that Kinescope imports.

    Args:
        path: A `.kine` file, or a file or folder of another tool.
        progress: `True` for a bar of tqdm, or a function of the step and its fraction.

    Raises:
        OpenError: The path cannot be read as a recording.
    """
    return Recording(path, progress)
