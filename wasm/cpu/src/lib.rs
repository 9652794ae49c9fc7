//! Programs on all cores of the CPU: an interpreter runs one copy for each input.
//!
//! The system calls are the same WebAssembly module as on every other target. The interpreter makes NaNs canonical, so
//! that results are equal byte for byte.

mod copy;
mod instrument;
mod runner;

pub use runner::CpuBackend;

#[cfg(test)]
mod tests;
