//! A small driver for Mali job-manager GPUs: boots one, lays memory out, submits job chains, and records all of it.
//!
//! It does what the large drivers do, in the order in which they do it, so that what it records looks like what
//! people bring: a reset, power, an address space with page tables of its own, chains with their interrupts, and the
//! way back down. It drives anything that is a [`replay_engine::device::Board`].
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod chains;
mod descriptors;
mod driver;
mod error;
mod layout;
mod memory;
mod offsets;
mod recorder;
mod recording;
pub mod samples;

pub use descriptors::{ChainBuilder, JobSpec};
pub use driver::{Driver, JobEnd, Submission};
pub use error::DriverError;
pub use layout::SpaceId;
pub use recorder::Recorder;
