//! System calls of the recorder itself. They do not go through the hooks, and signal handlers may make them.
#![allow(unsafe_code, reason = "system calls take pointers and addresses")]

use crate::address::HostAddr;
use libc::{c_int, c_long};
use std::ffi::CStr;

/// Error of a system call, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub c_int);

/// Identity of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    number: u64,
}

/// Returns the error number of the calling thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library has an error number for every thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the error number of the calling thread.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: the C library has an error number for every thread.
    unsafe { *libc::__errno_location() = number };
}

fn check(result: c_long) -> Result<c_long, Errno> {
    if result < 0 { Err(Errno(errno())) } else { Ok(result) }
}

/// Returns the id of the calling thread.
pub(crate) fn read_thread_id() -> u32 {
    // SAFETY: the call has no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Returns the id of this process.
pub(crate) fn process_id() -> u32 {
    // SAFETY: the call has no arguments.
    unsafe { libc::syscall(libc::SYS_getpid) as u32 }
}

/// Returns the time of the monotonic clock in nanoseconds.
pub(crate) fn monotonic_time() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure. Signal handlers may call it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let rest = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Gives the processor to another thread.
pub(crate) fn yield_thread() {
    // SAFETY: the call has no arguments.
    unsafe { libc::syscall(libc::SYS_sched_yield) };
}

/// Writes to standard error. A reader that is gone is ignored.
pub(crate) fn write_to_stderr(bytes: &[u8]) {
    let before = errno();
    // SAFETY: the bytes are readable for their length.
    unsafe { libc::syscall(libc::SYS_write, 2, bytes.as_ptr(), bytes.len()) };
    set_errno(before);
}

/// Creates a file for reading and writing, which must not exist. The descriptor has a large number, closes on exec, and
/// stays out of the way of programs that count on small ones.
pub(crate) fn create_file(path: &CStr) -> Result<c_int, Errno> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the path ends in a zero.
    let fd = check(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o644) })?;
    // SAFETY: the call copies a descriptor of this function.
    let high = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, 500) };
    if high < 0 {
        return Ok(fd as c_int);
    }
    // SAFETY: the descriptor belongs to this function.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    Ok(high as c_int)
}

/// Returns the identity of the file of a descriptor.
pub(crate) fn file_identity(fd: c_int) -> Option<FileIdentity> {
    // SAFETY: the structure holds numbers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the structure.
    let result = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut stat) };
    (result == 0).then_some(FileIdentity {
        device: stat.st_dev,
        number: stat.st_ino,
    })
}

/// Reserves a range of a file on the disk, so that a store into its mapping does not fail.
pub(crate) fn reserve_file(fd: c_int, from: u64, bytes: u64) -> Result<(), Errno> {
    // SAFETY: the call has numbers only.
    let result = check(unsafe { libc::syscall(libc::SYS_fallocate, fd, 0, from as i64, bytes as i64) });
    match result {
        Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => set_file_length(fd, from.saturating_add(bytes)),
        other => other.map(drop),
    }
}

/// Sets the length of a file.
pub(crate) fn set_file_length(fd: c_int, bytes: u64) -> Result<(), Errno> {
    // SAFETY: the call has numbers only.
    check(unsafe { libc::syscall(libc::SYS_ftruncate, fd, bytes as i64) }).map(drop)
}

/// Maps a range of a file for reading and writing.
pub(crate) fn map_file(fd: c_int, from: u64, bytes: u64) -> Result<HostAddr, Errno> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses the address, so that the call replaces no mapping.
    let result = unsafe { libc::syscall(libc::SYS_mmap, 0, bytes, rights, libc::MAP_SHARED, fd, from as i64) };
    check(result).map(|at| HostAddr::new(at as u64))
}

/// Makes the pages of a mapping of the recorder present, for writing.
pub(crate) fn populate(at: HostAddr, bytes: u64) -> Result<(), Errno> {
    // SAFETY: the call changes no content.
    check(unsafe { libc::syscall(libc::SYS_madvise, at.get(), bytes, libc::MADV_POPULATE_WRITE) }).map(drop)
}

/// Maps fresh memory, which takes room only where it is written.
pub(crate) fn map_memory(bytes: u64) -> Result<HostAddr, Errno> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses the address, so that the call replaces no mapping.
    let result = unsafe { libc::syscall(libc::SYS_mmap, 0, bytes, rights, flags, -1, 0) };
    check(result).map(|at| HostAddr::new(at as u64))
}

/// Makes a mapping of fresh memory read as zeros in the children of forks.
pub(crate) fn wipe_on_fork(at: HostAddr, bytes: u64) -> Result<(), Errno> {
    // SAFETY: the call changes no content in this process.
    check(unsafe { libc::syscall(libc::SYS_madvise, at.get(), bytes, libc::MADV_WIPEONFORK) }).map(drop)
}

/// Removes a mapping.
///
/// # Safety
/// The range is a mapping of the recorder, and nothing refers to it any more.
pub(crate) unsafe fn unmap(at: HostAddr, bytes: u64) {
    // SAFETY: the caller owns the range.
    unsafe { libc::syscall(libc::SYS_munmap, at.get(), bytes) };
}

/// Sets the rights of the pages of a mapping of the program.
pub(crate) fn protect(at: HostAddr, bytes: u64, rights: c_int) -> Result<(), Errno> {
    // SAFETY: the pages are registers of a device; a denied access to them ends in the handler of the recorder.
    check(unsafe { libc::syscall(libc::SYS_mprotect, at.get(), bytes, rights) }).map(drop)
}

/// Reads the target of a link into `to`. Returns its length, which is at most that of `to`.
pub(crate) fn read_link(path: &CStr, to: &mut [u8]) -> Option<usize> {
    // SAFETY: the path ends in a zero, and the call writes at most the length of the slice.
    let length = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            libc::AT_FDCWD,
            path.as_ptr(),
            to.as_mut_ptr(),
            to.len(),
        )
    };
    usize::try_from(length).ok()
}
