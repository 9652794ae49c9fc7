//! The system calls of a client, through the C library.
#![allow(
    unsafe_code,
    reason = "ioctls follow pointers, and a mapping is memory that only its address names"
)]

use nvidia_client::{File, Kernel, Mapping, SystemError};
use std::ffi::CStr;
use std::ptr::NonNull;
use std::time::Instant;

/// The kernel of this machine. A library that is loaded before the C library can stand in for it.
#[derive(Debug)]
pub struct LibraryKernel {
    start: Instant,
}

impl Default for LibraryKernel {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

fn last_error() -> SystemError {
    SystemError(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

impl Kernel for LibraryKernel {
    fn open(&mut self, path: &CStr) -> Result<File, SystemError> {
        // SAFETY: the path is a string that ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if fd < 0 { Err(last_error()) } else { Ok(File(fd)) }
    }

    fn close(&mut self, file: File) {
        // SAFETY: the client owns the file and does not use it again.
        unsafe { libc::close(file.0) };
    }

    unsafe fn ioctl(&mut self, file: File, request: u32, argument: &mut [u8]) -> Result<(), SystemError> {
        // SAFETY: as the caller promises.
        let result = unsafe { libc::ioctl(file.0, libc::c_ulong::from(request), argument.as_mut_ptr()) };
        if result < 0 { Err(last_error()) } else { Ok(()) }
    }

    fn map(&mut self, file: File, bytes: usize) -> Result<Mapping, SystemError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no memory of this process changes.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.0, 0) };
        if at == libc::MAP_FAILED {
            return Err(last_error());
        }
        let start = NonNull::new(at.cast()).ok_or(SystemError(libc::EFAULT))?;
        // SAFETY: the kernel mapped these bytes, at a page; `unmap` takes the value.
        Ok(unsafe { Mapping::from_raw(start, bytes) })
    }

    fn unmap(&mut self, mapping: Mapping) {
        // SAFETY: the mapping ends here, and nothing else refers to its memory.
        unsafe { libc::munmap(mapping.start().as_ptr().cast(), mapping.len()) };
    }

    fn now_ns(&mut self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
