//! The integration tests of this crate, in one program: it links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail so, and say what they skip"
)]

mod arm_shaders;
mod calls;
mod container;
mod kernels;
mod mmio_excerpts;
mod mmio_logs;
mod mmt;
mod named_devices;
mod published;
mod regs_history;
