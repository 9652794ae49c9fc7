//! Tuning of one recorded launch: it is made again with other dimensions, other bounds or other code, timed, and held
//! against what it has to leave in memory. Nothing here knows a device: what measures a point is an [`Evaluator`].

mod error;
mod measurement;
mod outputs;
mod point;
mod random;
mod report;
mod request;
mod resume;
mod search;
mod space;
mod spread;

pub use error::TuneError;
pub use measurement::{Measurement, RejectReason, Resources};
pub use outputs::{MemoryDiff, OutputMismatch, find_mismatch};
pub use point::{Bounds, Cache, Point};
pub use report::{Health, Load, Phases, PointResult, Reference, TuneEnd, TuneReport};
pub use request::{Axes, Limits, MemoryArea, ReplacementCode, ReplacementKind, Search, TuneRequest};
pub use resume::{ProgressLog, ResumeState, TuneProgress, run_with_resume};
pub use search::{Evaluator, Stop, tune};
pub use space::{MAX_POINTS, RecordedLaunch, Space};
pub use spread::Spread;
