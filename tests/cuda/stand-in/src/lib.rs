//! Stand-in for NVIDIA's `libcuda` over host memory, so that tests of the recorder and of the replayer need no device.
//!
//! Device memory is host memory that the program cannot access at the device's addresses. Streams are queues with a
//! thread each. Kernels are functions of this crate, found by the names of the entries in a program's PTX. Environment
//! variables make calls fail, memory dirty and work slow: `README.md` lists them.
//!
//! This crate uses a program's pointers like C code: see [`pointers`].
#![allow(
    unsafe_code,
    reason = "a driver is called from C, and owns memory that programs name by numbers"
)]
#![allow(non_snake_case, reason = "the driver's own names")]
#![allow(
    clippy::unnecessary_wraps,
    reason = "all functions of the driver have the same result type"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod call;
mod calls;
mod capture;
mod code;
mod codes;
mod context;
mod device;
mod fill;
mod graphs;
mod handles;
mod health;
mod kernels;
mod launch;
mod memory;
mod pointers;
mod settings;
mod streams;
#[cfg(test)]
mod tests;
mod textures;
mod transfer;

/// Result of the driver's functions inside this crate.
type Answer<T = ()> = Result<T, cuda_driver::CuResult>;

/// Takes a lock, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
