"""Kinescope: inspect, edit and replay recordings of GPU work.

    import kinescope

    recording = kinescope.open("digits.kine")
    events = polars.DataFrame(recording.events(where="write"))
    outcome = recording.edit(image=digit).plan(on="software:mali-g71").run()
    scores = outcome.output("logits")

Tables offer the Arrow PyCapsule interface: `polars.DataFrame(table)`, `pyarrow.table(table)` and DuckDB take them.
"""

from ._kinescope import Table
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
from .recordings import Buffer, Picture, Recording, open
from .replay import Edits, Outcome, Plan, targets

__all__ = [
    "ArgumentError",
    "Buffer",
    "Difference",
    "Edits",
    "Error",
    "FilterError",
    "InternalError",
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
    "diff",
    "open",
    "targets",
]
