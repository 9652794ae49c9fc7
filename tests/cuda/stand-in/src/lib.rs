//! A stand-in for NVIDIA's `libcuda` over host memory: the driver API as its manual has it, for tests that need no device.
//!
//! The device's memory is host memory that the program cannot reach at the device's addresses; streams are queues with
//! a thread each; kernels are functions of this crate, found by the names of the entries of a program's PTX. What a
//! wrong call answers was taken from a real device where the manual leaves it open.
//!
//! A program's pointers are taken for what C takes them for: see [`pointers`].
#![allow(unsafe_code, reason = "a driver is called from C, and owns memory that programs name by numbers")]
#![allow(non_snake_case, reason = "the driver's own names")]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod call;
mod calls;
mod code;
mod codes;
mod context;
mod copies;
mod device;
mod fail;
mod graphs;
mod handles;
mod kernels;
mod launch;
mod memory;
mod pointers;
mod procs;
mod streams;

/// What the functions of the driver answer inside of it.
type Answer<T = ()> = Result<T, cuda_driver::CuResult>;

/// A lock that a thread's end by panic leaves as it is.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
