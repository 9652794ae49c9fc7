//! A stand-in for NVIDIA's `libcuda`: the program runs here, its device is in a worker process or on another machine.
//!
//! Exported functions ([`calls`]) encode their arguments as the table of `remote-calls` says and send them through the
//! shared memory of the [`connection`]. What the program can learn without the device is answered here: devices from the
//! snapshot of the session's start, current contexts, functions' parameters, host memory.
//!
//! This crate uses a program's pointers like C code: see [`pointers`].
#![allow(
    unsafe_code,
    reason = "a driver is called from C, and reads and writes memory of the program"
)]
#![allow(non_snake_case, reason = "the driver's own names")]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod answer;
mod arrays;
mod calls;
mod code;
mod connection;
mod contexts;
mod copier;
mod copies;
mod devices;
mod errors;
mod fills;
mod forms;
mod forwarded;
mod graphs;
mod handles;
mod host_functions;
mod host_memory;
mod jit_options;
mod launches;
mod library_calls;
mod links;
mod memory;
mod memory_copies;
mod memory_hints;
mod message;
mod occupancy;
mod pointer_attributes;
mod pointers;
mod procs;
mod range_allocator;
mod request;
mod runtime_hint;
mod staging;
mod stream_state;
mod streams;
mod textures;
mod thread_state;

/// Result of the driver's functions inside this crate.
type CallResult<T = ()> = Result<T, cuda_driver::CuResult>;

/// Takes a lock, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes a lock for reading, as [`lock`] does.
fn read<T>(state: &std::sync::RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes a lock for writing, as [`lock`] does.
fn write<T>(state: &std::sync::RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    state.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}
