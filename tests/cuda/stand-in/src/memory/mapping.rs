//! Pieces of the process's own memory, mapped and unmapped.

use std::ffi::c_void;

/// Bytes of a page of the host.
pub const PAGE: u64 = 4096;

/// Who may reach a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nobody: the addresses are taken, and that is all.
    Nobody,
    /// The whole process.
    Process,
}

/// A piece of memory; dropping it gives it back.
pub struct Mapping {
    at: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory belongs to the process, not to a thread, and nothing is reached through this but its end.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A piece at any place; whole pages.
    pub fn anywhere(bytes: u64, reach: Reach) -> Option<Self> {
        Self::map(std::ptr::null_mut(), bytes, reach, 0)
    }

    /// A piece at this place, if nothing is there.
    pub fn exactly(at: u64, bytes: u64, reach: Reach) -> Option<Self> {
        let wanted = std::ptr::with_exposed_provenance_mut(usize::try_from(at).ok()?);
        let mapping = Self::map(wanted, bytes, reach, libc::MAP_FIXED_NOREPLACE)?;
        // Kernels that do not know the flag take the place for a wish.
        (mapping.at == wanted).then_some(mapping)
    }

    fn map(at: *mut c_void, bytes: u64, reach: Reach, further: i32) -> Option<Self> {
        let bytes = usize::try_from(bytes.max(1).checked_next_multiple_of(PAGE)?).ok()?;
        let rights = match reach {
            Reach::Nobody => libc::PROT_NONE,
            Reach::Process => libc::PROT_READ | libc::PROT_WRITE,
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | further;
        // SAFETY: without MAP_FIXED a new mapping takes the place of no other.
        let at = unsafe { libc::mmap(at, bytes, rights, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        at.expose_provenance();
        Some(Self { at, bytes })
    }

    /// Its first byte.
    pub fn at(&self) -> u64 {
        self.at as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the piece is this one's own, and nothing points into it any more: who reaches it holds it.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}
