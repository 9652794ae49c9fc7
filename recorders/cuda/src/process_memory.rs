//! Reads of the program's own memory that fail, and do not crash, at an unmapped address.

use libc::{c_void, iovec};

/// Fills `to` from an address of this process. Returns `false` if some of it is not readable.
pub(crate) fn read_process_memory(from: u64, to: &mut [u8]) -> bool {
    let mut done = 0;
    while let Some(rest) = to.get_mut(done..).filter(|r| !r.is_empty()) {
        let local = iovec {
            iov_base: rest.as_mut_ptr().cast(),
            iov_len: rest.len(),
        };
        let remote = iovec {
            iov_base: (from as usize).wrapping_add(done) as *mut c_void,
            iov_len: rest.len(),
        };
        // SAFETY: the kernel copies into memory of this function and not beyond its length, and checks the other side
        // itself.
        let n = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(n) {
            Ok(n) if n > 0 => done += n,
            // If the system forbids the call on the process itself, memory is read directly, as the driver has just
            // read it.
            _ if done == 0 && is_forbidden() => {
                // SAFETY: the driver has read these bytes in the recorded call.
                unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
                return true;
            }
            _ => return false,
        }
    }
    true
}

fn is_forbidden() -> bool {
    // SAFETY: the C library has an error number for every thread.
    let errno = unsafe { *libc::__errno_location() };
    errno == libc::ENOSYS || errno == libc::EPERM
}
