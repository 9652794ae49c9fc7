//! Tuning of one recorded launch: it is made again with other dimensions, other bounds or other code, timed, and held
//! against what it has to leave in memory. Nothing here knows a device: what measures a point is an [`Evaluator`].

mod ask;
mod error;
mod known;
mod measured;
mod outputs;
mod point;
mod random;
mod search;
mod space;
mod spread;
mod told;

pub use ask::{Area, Axes, Limits, Replaced, ReplacedKind, Search, Tune};
pub use error::TuneError;
pub use known::{Heard, Resumed, Sofar, resumed};
pub use measured::{Measured, Rejected, Resources};
pub use outputs::{Piece, Wrong, wrong};
pub use point::{Bounds, Cache, Point};
pub use search::{Evaluator, Stop, tune};
pub use space::{MOST_POINTS, Recorded, Space};
pub use spread::Spread;
pub use told::{Ended, Health, Load, Phases, Reference, Tried, Tuned};
