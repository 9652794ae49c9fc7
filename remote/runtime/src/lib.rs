//! A stand-in for NVIDIA's CUDA runtime library, implemented on the public functions of the driver.
//!
//! It serves programs that `nvcc --cudart=shared` builds. The packages in `version-12/` and `version-13/` make
//! libraries of it: the macros of [`exports`] expand there into the exported functions. Only these functions call the
//! public functions of this crate. They pass pointers of the program, whose validity the program guarantees as
//! NVIDIA's manual requires.
//!
//! The driver is `libcuda.so.1`, loaded at the first call. In a remote program this is `remote/driver`. No private
//! table of the driver is used.

pub mod arrays;
pub mod channels;
pub mod contexts;
pub mod copies;
pub mod device_properties;
pub mod devices;
pub mod driver;
pub mod error_names;
pub mod errors;
pub mod events;
pub mod exports;
pub mod functions;
pub mod graphs;
pub mod last_error;
pub mod launch_configuration;
pub mod launches;
pub mod libraries;
pub mod memory;
pub mod pointer_attributes;
mod pointers;
pub mod pools;
pub mod registration;
pub mod slices;
pub mod streams;
pub mod symbols;
pub mod textures;
mod thread_state;
pub mod version;

/// Result of the runtime's functions inside this crate: the error is the runtime's error code.
pub type CallResult<T = ()> = Result<T, errors::ErrorCode>;

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
