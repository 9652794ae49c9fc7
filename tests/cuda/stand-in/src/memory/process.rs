//! The program's own memory, reached through the kernel: an address that is wrong is an error, and no crash.

use std::ffi::c_void;

fn piece(at: u64, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut::<c_void>(at as usize), iov_len: bytes }
}

/// Whether the kernel lets nobody use these calls, as some boxes do.
fn is_forbidden() -> bool {
    let error = std::io::Error::last_os_error().raw_os_error();
    matches!(error, Some(libc::ENOSYS | libc::EPERM))
}

/// Reads bytes of the program.
pub fn read(at: u64, to: &mut [u8]) -> bool {
    let mut done = 0;
    while done < to.len() {
        let Some(rest) = to.get_mut(done..) else { return false };
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let remote = piece(at + done as u64, rest.len());
        // SAFETY: the local piece is a slice that may be written; the remote one is checked by the kernel.
        let count = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            _ if is_forbidden() => {
                // SAFETY: the program promises that its pointers can be read; the kernel cannot be asked.
                unsafe { std::ptr::copy(remote.iov_base.cast(), rest.as_mut_ptr(), rest.len()) };
                return true;
            }
            _ => return false,
        }
    }
    true
}

/// Writes bytes of the program.
pub fn write(at: u64, from: &[u8]) -> bool {
    let mut done = 0;
    while done < from.len() {
        let Some(rest) = from.get(done..) else { return false };
        let local = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        let remote = piece(at + done as u64, rest.len());
        // SAFETY: the local piece is a slice that is only read; the remote one is checked by the kernel.
        let count = unsafe { libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            _ if is_forbidden() => {
                // SAFETY: the program promises that its pointers can be written; the kernel cannot be asked.
                unsafe { std::ptr::copy(rest.as_ptr(), remote.iov_base.cast(), rest.len()) };
                return true;
            }
            _ => return false,
        }
    }
    true
}

/// Whether the first and the last of these bytes can be read.
pub fn is_readable(at: u64, bytes: u64) -> bool {
    let mut byte = [0];
    let Some(last) = bytes.checked_sub(1).and_then(|b| at.checked_add(b)) else { return false };
    read(at, &mut byte) && read(last, &mut byte)
}
