"""Recordings: events, jobs, memory and registers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path as FilePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from . import _calls, _kinescope, _words
from ._calls import Path, Progress
from .errors import ArgumentError, OpenError, warn_caller
from .pictures import Picture, PictureOptions

if TYPE_CHECKING:
    from .comparison import Difference
    from .replay import Edits
    from .tuning import Launch

Table = _kinescope.Table
Word = _words.Word
EventBatches = _kinescope.EventBatches


class Signature(NamedTuple):
    """What tells a file from its later versions: device, inode, bytes, and time of the last change in nanoseconds."""

    device: int
    inode: int
    size: int
    modified_ns: int


class Buffer:
    """A named buffer of a recording.

    Attributes:
        name: Its name.
    """

    name: str

    def __init__(self, recording: Recording, name: str) -> None:
        self._recording = recording
        self.name = _words.text(name, "the name of a buffer")

    def numpy(self, event: SupportsIndex | None = None) -> np.ndarray[Any, Any]:
        """Returns the content before an event as an array with the recorded element type and shape.

        Args:
            event: The event, counted from 0. `None`: at the end, or when a buffer of an API trace was freed.

        Returns:
            A new array. Without a recorded shape it has one dimension. Bytes that the recording does not hold are 0, and
            a `RecordingWarning` says so.

        Raises:
            ArgumentError: The event is no whole number from 0.
            Error: The recording has no such buffer, or no such event.
        """
        array: np.ndarray[Any, Any] = self._recording._read([_words.option("--buffer", self.name)], event, ".npy")
        return array

    def __repr__(self) -> str:
        return f"<kinescope.Buffer {self.name!r}>"


class Recording:
    """An open recording. `kinescope.open` opens one.

    It may be used by several threads at the same time. A `with` block closes it at its end; without one, it is closed
    when it is no longer used. A pickled recording is the path of its file, which is opened again.

    Attributes:
        path: Its file or folder.
    """

    path: FilePath
    # A file that cannot be opened leaves an object that tracebacks describe.
    _held: _kinescope.OpenRecording | None = None

    def __init__(self, path: Path, progress: Progress = None) -> None:
        self.path = _words.file_path(path)
        # The word that verbs get: they know the open recording by it.
        self._word = _words.path_word(path)
        self._folder: _calls.TemporaryFolder | None = None
        # Later changes of the current folder have no effect on the file.
        self._absolute = FilePath(os.path.abspath(self.path))
        self._signature = _find_signature(self._absolute)
        with _calls.observe(progress) as observer:
            self._held = _kinescope.OpenRecording(self._word, observer)

    @property
    def _open(self) -> _kinescope.OpenRecording:
        if self._held is None:
            raise ArgumentError(f"{self.path}: the recording is closed", str(self.path))
        # The memory of the file is that of this process: a read beyond its new end would end the process.
        if _has_lost_bytes(self._signature, _find_signature(self._absolute)):
            text = "another program overwrote the file while it was open: open it again"
            raise OpenError(f"{self.path}: {text}", str(self.path))
        return self._held

    @property
    def event_count(self) -> int:
        """The number of events."""
        return self._open.event_count

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._held is None

    def close(self) -> None:
        """Closes the recording. Every later call raises `ArgumentError`; tables that exist keep their rows."""
        self._held = None

    def __enter__(self) -> Recording:
        self._open  # noqa: B018 - a closed recording cannot be entered
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __copy__(self) -> Recording:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Recording:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Recording, (self._absolute,)

    def report(self, verb: str, *arguments: Word, progress: Progress = None) -> Any:
        """Returns the report of any verb that reads a recording, such as `report("last-writer", "c")`.

        The keys are those of `--json` in docs/json.md. Addresses are texts such as `"0x1000"`.

        Args:
            verb: Name of the verb.
            arguments: Its arguments after the recording: texts, numbers and paths, as on the command line. A text that
                begins with `-` is an option, and a path is not.

        Raises:
            ArgumentError: The verb or an argument is not valid.
        """
        words = self._command(verb, arguments)
        return _calls.run(words, path=self.path, progress=progress, held=[self._open])[0]

    def text(self, verb: str, *arguments: Word, progress: Progress = None) -> str:
        """Returns what a verb prints on the command line."""
        words = self._command(verb, arguments)
        text, _ = _calls.run_bytes(words, path=self.path, progress=progress, as_json=False, held=[self._open])
        return text.decode()

    def _command(self, verb: str, arguments: Sequence[Word]) -> list[str]:
        return [_words.text(verb, "the verb"), self._word, *_words.raw_words(arguments, "the arguments")]

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
        """Returns the events, one row for each, as a table in memory.

        The whole table is built before the function returns, on all cores: about 100 bytes for each event. Use it to sort,
        to join, or to read rows more than once. For a recording that is larger than the memory, for the first rows
        only, or to begin before the last row is built, use `stream_events`. `where` and `columns` make both smaller.

        Columns: `event` (index), `kind`, `time_ns` (nanoseconds, or `time_ticks`), `thread`, `space`, `offset` (bytes),
        `register`, `width` (bytes), `value`, `means`.

        Args:
            where: A filter in the language of docs/query.md. `None`: all events.
            columns: Names of columns, in the order of the table. `None`: all columns. Others are not computed.

        Raises:
            FilterError: The filter is not valid.
            ArgumentError: There is no such column, or a column is named twice.
        """
        where, names = _words.optional_text(where, "the filter"), _words.column_names(columns)
        with _calls.observe(progress) as observer:
            return self._open.events(where, names, observer)

    def stream_events(
        self, where: str | None = None, *, columns: Sequence[str] | None = None, progress: Progress = None
    ) -> EventBatches:
        """Returns the rows of `events` in batches that are built while they are read.

        The memory that it takes does not grow with the recording. Use it for one pass over a long recording, and `events`
        for a table in memory. The function returns when the filter has selected its events, before a row is built.

        `for table in recording.stream_events():` gives a table of at most 65,536 rows each time.
        `pyarrow.RecordBatchReader.from_stream` and DuckDB take it as a stream.
        Each loop and each consumer begins with the first event.

        Args:
            where: A filter in the language of docs/query.md. `None`: all events.
            columns: Names of columns, in the order of the table. `None`: all columns. Others are not computed.

        Raises:
            FilterError: The filter is not valid.
            ArgumentError: There is no such column, or a column is named twice.
        """
        where, names = _words.optional_text(where, "the filter"), _words.column_names(columns)
        with _calls.observe(progress) as observer:
            return self._open.stream_events(where, names, observer)

    def table(self, name: str, *, progress: Progress = None) -> Table:
        """Returns a table that `kinescope export` writes.

        Args:
            name: `events`, `jobs`, `registers` (usage), `pages`, `mappings`, `buffers` or `shaders`.

        Raises:
            ArgumentError: There is no such table.
        """
        with _calls.observe(progress) as observer:
            return self._open.table(_words.text(name, "the name of a table"), observer)

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

    def launch(self, place: SupportsIndex | str) -> Launch:
        """Returns a kernel launch for `kinescope.tune`.

        Args:
            place: Its event; or the name of its kernel or a part of it, with `:N` for launch number N of it, from 0.
                `kinescope.tune` raises an `Error` if it does not exist.

        Raises:
            ArgumentError: The place is neither a text nor a whole number from 0.
        """
        from .tuning import Launch

        return Launch(self, place if isinstance(place, str) else _words.number(place, "the event of a launch"))

    def ranges(self) -> Table:
        """Returns the ranges that the recorded program named, one row for each name.

        Columns: `name`, `times` (number of ranges), `first_event` and `last_event` of the first one, `total_ns`
        (nanoseconds in all of them).
        """
        return _calls.table("ranges", self.info().get("ranges", []))

    def references(self, address: SupportsIndex | str, *, space: SupportsIndex = 0) -> Table:
        """Returns what reads, writes, executes or names an address, one row for each reference.

        Args:
            address: GPU address, or the name of a buffer or register, as `kinescope references` takes it.
            space: Index of the address space, from 0.

        Raises:
            ArgumentError: The address or the space is neither a text nor a whole number from 0.
            Error: There is no such buffer, register or address space.
        """
        what = "the address"
        place = _words.text(address, what) if isinstance(address, str) else hex(_words.number(address, what))
        # A name may begin with a minus.
        report = self.report("references", _space_option(space), "--", place)
        return _calls.table("references", report["references"])

    def registers(self, event: SupportsIndex | None = None) -> Table:
        """Returns the last known value of each register before an event.

        Columns: `space`, `offset` (bytes), `register`, `width` (bytes), `value`, `means`, `access` (`read` or `write`),
        `event` (of that access). A register that was not accessed before has no row.

        Args:
            event: The event, counted from 0. `None`: at the end.

        Raises:
            ArgumentError: The event is no whole number from 0.
            Error: The recording has no such event.
        """
        return self._open.registers(_optional_event(event), None)

    def buffer(self, name: str) -> Buffer:
        """Returns a buffer by its name. `Buffer.numpy` raises an `Error` if it does not exist.

        Raises:
            ArgumentError: The name is no text.
        """
        return Buffer(self, name)

    def memory(
        self, va: SupportsIndex, n: SupportsIndex, event: SupportsIndex | None = None, *, space: SupportsIndex = 0
    ) -> bytes:
        """Returns memory before an event.

        Args:
            va: Address of the first byte.
            n: Number of bytes, at most 2^30.
            event: The event, counted from 0. `None`: at the end.
            space: Index of the address space, from 0.

        Returns:
            `n` bytes. Bytes that the recording does not hold are 0, and a `RecordingWarning` says so.

        Raises:
            ArgumentError: A number is no whole number from 0, or the bytes end beyond 64 bits.
            Error: The recording has no such event or address space, or `n` is too large.
        """
        start, count = _words.number(va, "the address"), _words.number(n, "the number of bytes")
        if start + count > 2**64:
            raise ArgumentError(f"{count} bytes at {start:#x} end beyond an address of 64 bits", str(self.path))
        words = [hex(start), _words.option("--bytes", count), _space_option(space)]
        content: bytes = self._read(words, event, ".bin")
        return content

    def _read(self, words: Sequence[str], event: SupportsIndex | None, suffix: str) -> Any:
        at = [] if event is None else [_words.option("--event", _optional_event(event))]
        folder = _calls.TemporaryFolder()
        to = folder.path / f"memory{suffix}"
        report = self.report("memory", *words, *at, "-o", to)
        for hole in report["holes"]:
            text = f"{self.path}: {hole['va']}: {hole['bytes']} bytes {hole['state']}, read as 0"
            warn_caller(text)
        return np.load(to, allow_pickle=False) if suffix == ".npy" else to.read_bytes()

    def picture(
        self,
        panel: str | None = None,
        *,
        event: SupportsIndex | None = None,
        size: tuple[float, float] = (1440.0, 900.0),
        scale: float = 1.0,
        light: bool = False,
    ) -> Picture:
        """Draws a panel of the window, or the whole window.

        The file is opened again. If it has changed, the picture shows the new content, and a `RecordingWarning` says so.

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
        options = PictureOptions.check(panel, _optional_event(event), size, scale, light)
        count = self.event_count
        if options.event is not None and options.event > count:
            counted = f"the recording has {count} events, counted from 0"
            raise ArgumentError(f"{self.path}: event {event} does not exist ({counted})", str(self.path))
        if _find_signature(self._absolute) != self._signature:
            text = f"{self.path}: the file has changed since it was opened: the picture shows the new content"
            warn_caller(text)
        return options.render(self._absolute)

    def link(self, event: SupportsIndex = 0) -> str:
        """Returns a `kinescope:` link that opens the recording at an event.

        Raises:
            ArgumentError: The event is no whole number from 0.
            Error: The recording has no such event.
        """
        link: str = self.report("link", _words.option("--at", _words.number(event, "the event")))["link"]
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

        Raises:
            ArgumentError: There is no such table or format, or the path is no path.
            FilterError: The filter is not valid.
            Error: The file cannot be written.
        """
        words = ["-o", _words.path_word(to)]
        for option, name, value in (("--table", "table", table), ("--to", "format", format), ("--where", "where", where)):
            if value is not None:
                words.append(_words.option(option, _words.text(value, f"the argument '{name}'")))
        report: dict[str, Any] = self.report("export", *words)
        return report

    def edit(self, /, **inputs: Any) -> Edits:
        """Returns new contents of inputs for a replay: `recording.edit(image=array)`.

        An array has the element type of the buffer and as many elements. It is an array of NumPy or of another library,
        as `kinescope.arrays.to_numpy` takes it. Bytes are the content of the memory. Without arguments, the replay is
        unchanged.

        Raises:
            ArgumentError: An array has elements that no buffer has.
        """
        from .replay import Edits

        return Edits(self, inputs)

    def diff(self, other: Recording, **options: Any) -> Difference:
        """Compares with another recording; see `kinescope.diff`."""
        from .comparison import diff

        return diff(self, other, **options)

    def __repr__(self) -> str:
        content = "closed" if self._held is None else f"of {self._held.event_count} events"
        return f"<kinescope.Recording {str(self.path)!r} {content}>"


def _find_signature(path: FilePath) -> Signature | None:
    """Returns what tells a file from its later versions, or `None` if there is no file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _has_lost_bytes(before: Signature | None, now: Signature | None) -> bool:
    """Returns whether a file became shorter. A file that was replaced by another one stays as it was."""
    if before is None or now is None:
        return False
    return (before.device, before.inode) == (now.device, now.inode) and now.size < before.size


def _optional_event(event: SupportsIndex | None) -> int | None:
    return None if event is None else _words.number(event, "the event")


def _space_option(space: SupportsIndex) -> str:
    return _words.option("--space", _words.number(space, "the address space", 2**32 - 1))


def open(path: Path, *, progress: Progress = None) -> Recording:
    """Opens a recording, or imports anything that Kinescope imports.

    Args:
        path: A `.kine` file, or a file or folder of another tool: a text, bytes or a `Path`.
        progress: `True` for a bar of tqdm, or a function of the step and its fraction.

    Raises:
        ArgumentError: The path is no path.
        OpenError: The path cannot be read as a recording.
    """
    return Recording(path, progress)
