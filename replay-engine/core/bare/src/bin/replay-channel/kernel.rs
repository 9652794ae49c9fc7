//! The system calls of a client, without a C library.
#![allow(
    unsafe_code,
    reason = "an ioctl follows pointers, and a mapping is memory that only its address names"
)]

use core::ffi::CStr;
use nvidia_client::{File, Kernel, Mapping, SystemError};
use replay_bare::system;

/// Open for reading and writing, closed on exec.
const READ_WRITE: usize = 0x8_0002;

/// The kernel of the machine.
pub struct LinuxKernel;

impl Kernel for LinuxKernel {
    fn open(&mut self, path: &CStr) -> Result<File, SystemError> {
        system::open(path, READ_WRITE).map(File).map_err(SystemError)
    }

    fn close(&mut self, file: File) {
        system::close(file.0);
    }

    unsafe fn ioctl(&mut self, file: File, request: u32, argument: &mut [u8]) -> Result<(), SystemError> {
        // SAFETY: as the caller promises.
        unsafe { system::ioctl(file.0, request, argument) }.map_err(SystemError)
    }

    fn map(&mut self, file: File, bytes: usize) -> Result<Mapping, SystemError> {
        let start = system::map_shared(file.0, bytes).map_err(SystemError)?;
        // SAFETY: the kernel mapped `bytes` bytes at a page; `unmap` takes the value.
        Ok(unsafe { Mapping::from_raw(start, bytes) })
    }

    fn unmap(&mut self, mapping: Mapping) {
        // SAFETY: the mapping ends here.
        unsafe { system::unmap(mapping.start(), mapping.len()) };
    }

    fn now_ns(&mut self) -> u64 {
        system::now_ns()
    }
}
