//! CUDA programs whose device is on an agent: the client's side ([`AgentPrograms`]), and what an agent runs
//! ([`LiveWorkers`]).
//!
//! The engine authenticates the client and shares the devices. Here, its frames meet the relay and the worker process.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod agent_programs;
mod agent_target;
mod frames;
mod live_workers;
mod local_worker;
mod recording_copy;
mod recording_stream;
mod relayed_worker;
mod worker_recording;
mod worker_start;

pub use agent_programs::{AgentPrograms, ProgramRecording};
pub use agent_target::AgentTarget;
pub use live_workers::{LiveWorkers, WorkerOptions};

/// Takes a lock, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
