//! A stand-in for NVIDIA's `libcuda` over host memory: tests of the recorder and of the player need no device.
//!
//! The device's memory is host memory that the program cannot reach at the device's addresses; streams are queues with a
//! thread each; kernels are functions of this crate, found by the names of the entries of a program's PTX. Variables of
//! the environment make calls fail, memory dirty and work slow: `README.md` lists them.
//!
//! A program's pointers are taken for what C takes them for: see [`pointers`].
#![allow(
    unsafe_code,
    reason = "a driver is called from C, and owns memory that programs name by numbers"
)]
#![allow(non_snake_case, reason = "the driver's own names")]
#![allow(
    clippy::unnecessary_wraps,
    reason = "every function of the driver answers in the same form"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod call;
mod calls;
mod code;
mod codes;
mod context;
mod copies;
mod device;
mod fills;
mod graphs;
mod handles;
mod kernels;
mod launch;
mod memory;
mod pointers;
mod procs;
mod settings;
mod streams;
#[cfg(test)]
mod tests;

/// What the functions of the driver answer inside of it.
type Answer<T = ()> = Result<T, cuda_driver::CuResult>;

/// A lock that a thread's end by panic leaves as it is.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
