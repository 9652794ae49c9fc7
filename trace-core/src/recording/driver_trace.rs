//! Rows of driver traces: objects of a kernel driver, entries of channel rings, saved memory.
//!
//! A driver trace records what a user-space driver asks the kernel driver for, below the API that programs call. An API
//! trace may hold the same rows, if both were recorded at once.

mod event;
mod metadata;
mod rows;

pub use metadata::DriverTraceMetadata;
pub use rows::{ObjectAction, ObjectKind, ObjectRow, RingEntryRow, SaveReason, SavedMemoryRow};
