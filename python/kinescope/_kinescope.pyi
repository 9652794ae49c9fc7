"""The extension module. It is private to the package; `Table` and `EventBatches` are public in `kinescope`."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

__all__ = [
    "EventBatches",
    "OpenRecording",
    "Table",
    "render",
    "run_command_line",
    "run_verb",
    "set_library_folder",
    "set_program_words",
    "table_of_rows",
]

_Observer = Callable[[str, float | None], object] | None

@final
class Table:
    """Rows of a recording. Other libraries take them through the Arrow PyCapsule interface, without a copy."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
    @property
    def num_columns(self) -> int:
        """The number of columns."""
    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
    @property
    def problems(self) -> list[str]:
        """What the table lacks, in words: page tables with a hole."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Returns the rows as a capsule of an Arrow C stream. A requested schema is not used."""
    def __arrow_c_schema__(self) -> Any:
        """Returns the types of the columns as a capsule of an Arrow C schema."""
    def __len__(self) -> int: ...

@final
class EventBatches:
    """Events in batches of at most 65,536 rows. Each loop and each consumer begins with the first event."""

    @property
    def num_rows(self) -> int:
        """The number of rows in all batches."""
    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Returns the rows as a capsule of an Arrow C stream. A requested schema is not used."""
    def __arrow_c_schema__(self) -> Any:
        """Returns the types of the columns as a capsule of an Arrow C schema."""
    def __iter__(self) -> Iterator[Table]:
        """Returns an iterator of tables, one for each batch: at least one."""
    def __len__(self) -> int: ...

@final
class OpenRecording:
    """A recording that stays open."""

    def __new__(cls, path: str | os.PathLike[str], progress: _Observer = None) -> OpenRecording: ...
    @property
    def event_count(self) -> int: ...
    def events(
        self, filter: str | None = None, columns: Sequence[str] | None = None, progress: _Observer = None
    ) -> Table: ...
    def stream_events(
        self, filter: str | None = None, columns: Sequence[str] | None = None, progress: _Observer = None
    ) -> EventBatches: ...
    def table(self, name: str, progress: _Observer = None) -> Table: ...
    def registers(self, event: int | None = None, progress: _Observer = None) -> Table: ...

def run_verb(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    json: bool = True,
    progress: _Observer = None,
    path: str | os.PathLike[str] | None = None,
    held: Sequence[OpenRecording] = ...,
) -> tuple[bytes, int]:
    """Runs a verb without opening the files of `held` recordings again.

    Returns what it prints and its exit code: 0, or 1 for differences and findings.
    """

def run_command_line(arguments: Sequence[str]) -> int:
    """Runs the command line as a process of its own does, and returns its exit code. The first argument is its name."""

def set_program_words(words: Sequence[str]) -> bool:
    """Sets the words that start the command line in a process of its own. Returns whether they were not set before."""

def set_library_folder(folder: str | os.PathLike[str]) -> bool:
    """Sets the folder of the recorder's library. Returns whether it was not set before."""

def table_of_rows(name: str, rows: bytes) -> Table:
    """Returns a table with declared columns from a JSON array of objects."""

def render(
    path: str | os.PathLike[str],
    panel: str | None,
    event: int | None,
    size: Sequence[float],
    scale: float,
    light: bool,
) -> bytes:
    """Renders the window with a recording, or one of its panels, as PNG."""
