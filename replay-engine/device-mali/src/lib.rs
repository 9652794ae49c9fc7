//! Simulator of a Mali job-manager GPU as its driver sees it, with virtual time and its own memory.
//!
//! It responds to register accesses, walks real page tables in its arena, runs job chains and their compute shaders,
//! and raises interrupts. It never sees the expected values of a recording. Pending work completes only while the
//! caller waits, so the same accesses give the same results bit for bit.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod address_space;
mod anomalies;
pub mod bench_support;
mod budget;
mod chain;
mod compute;
mod compute_job;
mod counters;
pub mod debug;
mod device;
mod fault;
mod frame_map;
mod gpu_control;
mod interrupts;
mod job_slot;
mod job_trace;
mod memory;
mod model;
mod power;
mod registers;
mod shader;
pub mod texture;

pub use anomalies::Anomalies;
pub use budget::Budget;
pub use device::{SoftwareMali, WorkStats, factory};
pub use memory::ArenaMemory;
pub use model::{Model, ModelData};
