//! System calls, made without the C library's functions: a library for `LD_PRELOAD` replaces those.
#![allow(unsafe_code, reason = "system calls take pointers")]

use libc::c_void;
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// An error of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("error {0} of a system call")]
pub struct Errno(
    /// Number of the error, such as `libc::EINVAL`.
    pub i32,
);

/// Small arguments of system calls: each has the size of a register.
const ZERO: libc::c_long = 0;
const ONE: libc::c_long = 1;

/// Returns the value of a system call, or the error that it left.
fn check(value: libc::c_long) -> Result<libc::c_long, Errno> {
    if value >= 0 {
        return Ok(value);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno(error.raw_os_error().unwrap_or(libc::EIO)))
}

/// Creates a file in memory of a size in bytes.
pub fn create_memory_file(name: &CStr, bytes: u64, close_on_exec: bool) -> Result<RawFd, Errno> {
    let flags = if close_on_exec { libc::MFD_CLOEXEC } else { 0 };
    let size = i64::try_from(bytes).map_err(|_| Errno(libc::ENOMEM))?;
    // SAFETY: the name ends with a zero byte, and the call keeps no pointer.
    let fd = check(unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), flags) })?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno(libc::EMFILE))?;
    // SAFETY: the call takes no pointer.
    match check(unsafe { libc::syscall(libc::SYS_ftruncate, fd, size) }) {
        Ok(_) => Ok(fd),
        Err(error) => {
            let _ = close(fd);
            Err(error)
        }
    }
}

/// Writes bytes to a file at its start, and leaves its position there.
pub fn write_file(fd: RawFd, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: the pointer and the size are those of `bytes`.
    check(unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes.as_ptr(), bytes.len(), ZERO) }).map(|_| ())
}

/// Closes a file.
pub fn close(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer. Callers own the descriptor.
    check(unsafe { libc::syscall(libc::SYS_close, fd) }).map(|_| ())
}

/// Returns device and inode of an open file, or `None` if the descriptor is closed.
pub fn file_identity(fd: RawFd) -> Option<(u64, u64)> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the call writes one `stat`.
    check(unsafe { libc::syscall(libc::SYS_fstat, fd, stat.as_mut_ptr()) }).ok()?;
    // SAFETY: all zeros are a valid `stat`, and the call succeeded.
    let stat = unsafe { stat.assume_init() };
    Some((stat.st_dev, stat.st_ino))
}

/// Maps memory or a file.
///
/// # Safety
/// As for `mmap`: with `MAP_FIXED` the range must be the caller's to replace.
pub unsafe fn map(
    address: *mut c_void,
    bytes: usize,
    protection: i32,
    flags: i32,
    fd: RawFd,
    offset: i64,
) -> Result<*mut c_void, Errno> {
    let [protection, flags, fd] = [protection, flags, fd].map(libc::c_long::from);
    // SAFETY: the caller promises the range.
    let address = check(unsafe { libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, fd, offset) })?;
    Ok(std::ptr::with_exposed_provenance_mut(address as usize))
}

/// Removes mappings.
///
/// # Safety
/// As for `munmap`: nothing may use the range afterwards.
pub unsafe fn unmap(address: *mut c_void, bytes: usize) -> Result<(), Errno> {
    // SAFETY: the caller promises the range.
    check(unsafe { libc::syscall(libc::SYS_munmap, address, bytes) }).map(|_| ())
}

/// Direction of a copy between this process and itself through the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyDirection {
    FromAddress,
    ToAddress,
}

/// Copies between a buffer and an address of this process. The kernel checks the address, so that a bad one is the
/// error `EFAULT`.
///
/// # Safety
/// `buffer` must be valid for `bytes` bytes. For `ToAddress`, the bytes at `address` must be the caller's to write.
pub unsafe fn copy_checked(direction: CopyDirection, buffer: *mut u8, address: u64, bytes: usize) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    let remote = usize::try_from(address).map_err(|_| Errno(libc::EFAULT))?;
    let local = libc::iovec {
        iov_base: buffer.cast(),
        iov_len: bytes,
    };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(remote),
        iov_len: bytes,
    };
    let number = match direction {
        CopyDirection::FromAddress => libc::SYS_process_vm_readv,
        CopyDirection::ToAddress => libc::SYS_process_vm_writev,
    };
    // SAFETY: `getpid` has no arguments.
    let process = check(unsafe { libc::syscall(libc::SYS_getpid) })?;
    // SAFETY: both vectors are alive; the caller promises the buffer, and the kernel checks the address.
    let copied = check(unsafe { libc::syscall(number, process, &raw const local, ONE, &raw const remote, ONE, ZERO) })?;
    if copied as usize == bytes {
        return Ok(());
    }
    Err(Errno(libc::EFAULT))
}

/// Blocks all signals of this thread, so that the program's threads receive them.
pub fn block_signals() {
    let mut signals = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both calls write and read one signal set; the old set is not wanted.
    unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), std::ptr::null_mut());
    }
}

/// Returns nanoseconds since 1970.
pub fn wall_clock_ns() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
