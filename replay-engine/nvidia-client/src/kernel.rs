//! The system calls that a client makes. A program implements them with its C library, or without one.

use crate::Mapping;
use core::ffi::CStr;

/// An open file of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File(pub i32);

/// The number of an error of the operating system (errno).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemError(pub i32);

/// The system calls that a client makes.
pub trait Kernel {
    /// Opens a file for reading and writing, closed on exec.
    ///
    /// # Errors
    /// The error of the operating system.
    fn open(&mut self, path: &CStr) -> Result<File, SystemError>;

    /// Closes a file.
    fn close(&mut self, file: File);

    /// Makes an ioctl.
    ///
    /// # Errors
    /// The error of the operating system. The driver's own verdict is in the argument.
    ///
    /// # Safety
    /// The driver reads and writes the argument, and the memory that pointers in it name, during the call.
    #[allow(unsafe_code, reason = "the driver follows pointers in the argument")]
    unsafe fn ioctl(&mut self, file: File, request: u32, argument: &mut [u8]) -> Result<(), SystemError>;

    /// Maps the start of a file into memory, shared, for reading and writing. `bytes` is a multiple of 4096.
    ///
    /// # Errors
    /// The error of the operating system.
    fn map(&mut self, file: File, bytes: usize) -> Result<Mapping, SystemError>;

    /// Removes a mapping.
    fn unmap(&mut self, mapping: Mapping);

    /// Returns nanoseconds of a clock that never goes back.
    fn now_ns(&mut self) -> u64;
}
