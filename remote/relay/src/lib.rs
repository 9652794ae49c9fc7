//! Relay of CUDA API remoting: carries a program's calls and memory to a worker process on another machine.
//!
//! A [`ProgramEnd`] stands beside the program, where a worker would be; a [`WorkerEnd`] stands beside the worker, where
//! the program would be. Between them go frames ([`record`]), over any transport that keeps their order. Requests and
//! answers travel as they are. Bytes that a request or an answer names in shared memory travel before it.
//!
//! Memory that kernels use by its address is compared with what the other end has, before launches and after waits.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod arrivals;
mod content_store;
mod error;
mod exposed_memory;
mod frame_sender;
mod host_memory;
mod known_contents;
mod lanes;
mod link;
mod pending_copies;
mod printed_output;
mod program_end;
pub mod record;
mod request_ranges;
mod shared_memory;
mod worker_end;

pub use content_store::{ClientContents, ContentStore};
pub use error::RelayError;
pub use frame_sender::{FrameSender, MARGIN_BYTES, MAX_FRAME_BYTES};
pub use host_memory::HostMemory;
pub use program_end::ProgramEnd;
pub use request_ranges::{RequestRanges, SharedRange};
pub use worker_end::{WorkerEnd, WorkerLimits};

/// Takes a lock, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
