//! The program's own memory: its addresses, and reads that fail, and do not crash, at an unmapped address.

use libc::{c_void, iovec};
use trace_core::GpuVa;

/// An address in the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct HostAddr(u64);

impl HostAddr {
    /// Address 0, where no memory is.
    pub const NULL: Self = Self(0);

    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    pub fn from_pointer(at: *const c_void) -> Self {
        Self(at as u64)
    }

    /// Returns the host address of memory that host and device share: it is the same as the device's.
    pub const fn from_shared(at: GpuVa) -> Self {
        Self(at.get())
    }

    /// Returns the device address of pinned memory: it is the same as the host's.
    pub const fn to_shared(self) -> GpuVa {
        GpuVa::new(self.0)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    pub const fn pointer(self) -> *const u8 {
        self.0 as *const u8
    }

    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    pub const fn saturating_add(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    pub const fn wrapping_add(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// Fills `to` from an address. Returns `false` if some of it is not readable.
pub(crate) fn read_process_memory(from: HostAddr, to: &mut [u8]) -> bool {
    let mut done = 0;
    while let Some(rest) = to.get_mut(done..).filter(|r| !r.is_empty()) {
        let local = iovec {
            iov_base: rest.as_mut_ptr().cast(),
            iov_len: rest.len(),
        };
        let remote = iovec {
            iov_base: from.wrapping_add(done as u64).pointer().cast_mut().cast::<c_void>(),
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
                unsafe { std::ptr::copy_nonoverlapping(from.pointer(), to.as_mut_ptr(), to.len()) };
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
