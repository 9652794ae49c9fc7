//! Tuning of one recorded launch: the launch is repeated with other dimensions, bounds or code, timed, and its results
//! are compared with the expected memory. This module is independent of devices: an [`Evaluator`] measures the points.

mod error;
mod measurement;
mod outputs;
mod point;
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
