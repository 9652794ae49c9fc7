//! Stand-in for NVIDIA's cuBLAS and cuRAND: computes on the CPU, with the memory of whatever `libcuda.so.1` the process
//! has. With the tests' stand-in for the driver, it needs no device.
//!
//! One library plays both parts: tests give it the names of both. It checks arguments as NVIDIA's libraries do. Calls are
//! done when they return. The environment variable `MATH_STAND_IN_FAIL` makes calls fail: `FUNCTION:N=STATUS`.
#![allow(
    unsafe_code,
    reason = "a library is called from C, and reads and writes memory that programs name by numbers"
)]
#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc,
    reason = "the libraries' own functions"
)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod copies;
mod failures;
mod generators;
mod handles;
mod matrices;
mod memory;
mod numbers;
mod random;
mod settings;
mod vectors;

/// Result of functions inside this crate: the error is the library's status.
type Answer<T = ()> = Result<T, i32>;

/// Takes a lock, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Exports functions. A failure that a test has asked for comes before the function itself.
macro_rules! exported {
    ($($name:ident ($($arg:ident: $type:ty),*) => $answer:expr;)*) => {$(
        /// The library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> i32 {
            match $crate::failures::requested(stringify!($name)).and_then(|()| $answer) {
                Ok(()) => 0,
                Err(status) => status,
            }
        }
    )*};
}
use exported;
