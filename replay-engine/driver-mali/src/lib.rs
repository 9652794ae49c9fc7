//! Small driver for Mali job-manager GPUs that boots a GPU, sets up memory, submits job chains and records all of it.
//!
//! It does what the large drivers do, in the same order, so that its recordings look like the recordings of users. The
//! steps are a reset, power, an address space with its own page tables, chains with their interrupts, and shutdown. It
//! drives anything that is a [`replay_engine::device::RegisterTarget`].
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

pub use descriptors::{ChainBuilder, JobSpec};
pub use driver::{Driver, JobEnd, Submission};
pub use error::DriverError;
pub use layout::SpaceId;
pub use recorder::Recorder;
