//! The data of a tuning: what is requested, measured and reported. A tuning repeats one recorded launch with other
//! dimensions, bounds or code, times it, and compares its results with the expected memory.

mod measurement;
mod point;
mod report;
mod request;
mod spread;

pub use measurement::{Measurement, OutputMismatch, RejectReason, Resources};
pub use point::{Bounds, Cache, Point, format_dimensions};
pub use report::{Health, Load, Phases, PointResult, Reference, TuneEnd, TuneReport};
pub use request::{Axes, Limits, MemoryArea, OutputTolerance, ReplacementCode, ReplacementKind, Search, TuneRequest};
pub use spread::Spread;
