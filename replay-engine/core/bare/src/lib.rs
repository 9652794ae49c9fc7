//! What a program without C library, start files or heap needs: the start, system calls, lines of text.
//!
//! The programs of this package use it under the profile `bare`. Under any other profile the library is empty.
#![cfg_attr(bare, no_std)]

#[cfg(bare)]
pub mod system;

/// Defines the start of a program: a function that takes the path in the first argument, and returns the exit code.
#[cfg(bare)]
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[allow(unsafe_code, reason = "the start of the program calls this name")]
        #[unsafe(no_mangle)]
        fn kinescope_bare_main(path: Option<&'static core::ffi::CStr>) -> u8 {
            $main(path)
        }
    };
}
