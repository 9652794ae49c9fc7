//! The program's own memory, read so that an address that is gone is an answer and no crash.

use libc::{c_void, iovec};

/// Fills `to` from an address of this process. `false`: not all of it is there.
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
        // SAFETY: the kernel copies into memory of this function as long as it is, and looks itself whether the other
        // side is there.
        let n = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(n) {
            Ok(n) if n > 0 => done += n,
            // Where the system forbids the call to itself, memory is read as the driver has just read it.
            _ if done == 0 && is_forbidden() => {
                // SAFETY: the driver has read these bytes in the call that is recorded.
                unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
                return true;
            }
            _ => return false,
        }
    }
    true
}

fn is_forbidden() -> bool {
    // SAFETY: the C library gives every thread a place for its error number.
    let errno = unsafe { *libc::__errno_location() };
    errno == libc::ENOSYS || errno == libc::EPERM
}
