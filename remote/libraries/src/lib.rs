//! Stand-ins for NVIDIA's cuBLAS and cuRAND in a program whose device is in another process.
//!
//! Most functions are lines of the tables of `remote-calls`: [`forwarded`] encodes their arguments and sends them through
//! the program's `libcuda.so.1`, which has the connection. NVIDIA's own libraries run in the worker process. The packages
//! in `cublas-12/`, `cublas-13/` and `curand/` make libraries of this crate with the macros of [`exports`].
//!
//! Only exported functions call the public functions of this crate. They pass pointers of the program, whose validity
//! the program guarantees as NVIDIA's manuals require.

pub mod cublas;
pub mod curand;
mod driver;
pub mod exports;
mod forms;
pub mod forwarded;
mod objects;
mod opening;
mod pointers;
mod request;

pub use remote_calls;
use remote_calls::library::LibraryStatus;

/// Result of the libraries' functions inside this crate: the error is the library's status.
pub type CallResult<T = ()> = Result<T, LibraryStatus>;

/// Takes a lock for reading, even if a thread panicked while it held the lock.
fn read<T>(state: &std::sync::RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes a lock for writing, as [`read`] does.
fn write<T>(state: &std::sync::RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    state.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns the status of a result.
#[must_use]
pub fn status_of(result: CallResult) -> LibraryStatus {
    result.err().unwrap_or(0)
}
