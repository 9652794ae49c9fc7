//! The integration tests of this crate, in one program: it links once.

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
