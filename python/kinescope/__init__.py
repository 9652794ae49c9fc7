"""Kinescope: inspect, edit and replay recordings of GPU work.

    import kinescope

    recording = kinescope.open("digits.kine")
    events = polars.DataFrame(recording.events(where="write"))
    outcome = recording.edit(image=digit).plan(on="software:mali-g71").run()
    scores = outcome.output("logits")

Tables offer the Arrow PyCapsule interface: `polars.DataFrame(table)`, `pyarrow.table(table)` and DuckDB take them.
"""

from pathlib import Path as _Path

from . import _kinescope
from ._kinescope import EventBatches, Table
from ._program import program_words as _program_words
from .annotations import is_recorded, mark, name, range
from .arrays import ArrayComparison
from .comparison import Difference, diff
from .errors import (
    ArgumentError,
    Error,
    FilterError,
    InternalError,
    OpenError,
    PlanError,
    RecordingWarning,
    ReplayError,
    TargetError,
)
from .pictures import Picture
from .recordings import Buffer, Recording, open
from .replay import Edits, Outcome, Plan, targets
from .tuning import Launch, Tuning, tune

__all__ = [
    "ArgumentError",
    "ArrayComparison",
    "Buffer",
    "Difference",
    "Edits",
    "Error",
    "EventBatches",
    "FilterError",
    "InternalError",
    "Launch",
    "OpenError",
    "Outcome",
    "Picture",
    "Plan",
    "PlanError",
    "Recording",
    "RecordingWarning",
    "ReplayError",
    "Table",
    "TargetError",
    "Tuning",
    "diff",
    "is_recorded",
    "mark",
    "name",
    "open",
    "range",
    "targets",
    "tune",
]

# Targets such as cuda:0 need a worker process: this interpreter runs the command line for them.
if _program_words():
    _kinescope.set_program_words(_program_words())

# The recorder that `record --with cuda` loads into programs is in this package.
_kinescope.set_library_folder(_Path(__file__).resolve().parent)
