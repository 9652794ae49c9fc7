//! The memory of the program that makes a request: raw pointers of arguments, read and written as the kernel does.
#![allow(unsafe_code, reason = "a program passes raw pointers")]

use crate::system::{CopyDirection, Errno, copy_checked};

/// Permission to use the pointers of a program's request.
#[derive(Debug, Clone, Copy)]
pub struct Caller(());

impl Caller {
    /// Returns the permission for a request.
    ///
    /// # Safety
    /// The program must own the memory that the request's pointers name, and expect the driver to write it.
    pub unsafe fn new() -> Self {
        Self(())
    }

    /// Reads memory of the program.
    ///
    /// # Errors
    /// `EFAULT` if a byte is not mapped.
    pub fn read(self, address: u64, out: &mut [u8]) -> Result<(), Errno> {
        // SAFETY: `out` is valid for its size; the kernel checks the address.
        unsafe { copy_checked(CopyDirection::FromAddress, out.as_mut_ptr(), address, out.len()) }
    }

    /// Writes memory of the program.
    ///
    /// # Errors
    /// `EFAULT` if a byte is not mapped or not writable.
    pub fn write(self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let buffer = bytes.as_ptr().cast_mut();
        // SAFETY: `bytes` is valid for its size and only read; whoever made this permission owns the destination.
        unsafe { copy_checked(CopyDirection::ToAddress, buffer, address, bytes.len()) }
    }

    /// Reads a number of bytes of the program.
    pub fn read_vec(self, address: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
        let mut out = vec![0; bytes];
        self.read(address, &mut out)?;
        Ok(out)
    }
}
