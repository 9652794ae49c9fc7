//! Tuning of one recorded launch: the points, the search, tolerances, and the continuation in another process. An
//! [`Evaluator`] measures the points.

mod error;
mod outputs;
mod resume;
mod search;
mod space;

pub use error::TuneError;
pub use outputs::{MemoryDiff, find_mismatch};
pub use resume::{ProgressLog, ResumeState, TuneProgress, run_with_resume};
pub use search::{Evaluator, Stop, tune};
pub use space::{MAX_POINTS, RecordedLaunch, Space};
