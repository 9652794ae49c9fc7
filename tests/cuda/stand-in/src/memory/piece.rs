//! Pieces of this process's own memory, mapped and unmapped, and the amount of device memory that they represent.

use crate::Answer;
use crate::codes::OUT_OF_MEMORY;
use crate::settings::settings;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of a page of the host, bytes.
pub const PAGE: u64 = 4096;

/// Size of used device memory, bytes.
static USED: AtomicU64 = AtomicU64::new(0);

/// Returns the size of free device memory, bytes.
pub fn free_bytes() -> u64 {
    settings().memory.saturating_sub(USED.load(Ordering::Relaxed))
}

/// A piece of memory or of addresses, released on drop.
#[derive(Debug)]
pub struct Piece {
    at: u64,
    bytes: u64,
    charged: u64,
}

impl Piece {
    fn map(at: u64, bytes: u64, rights: i32, further: i32) -> Option<Self> {
        let length = usize::try_from(bytes).ok()?;
        let hint = std::ptr::with_exposed_provenance_mut::<c_void>(usize::try_from(at).ok()?);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | further;
        // SAFETY: the memory is new and at a free address, so no existing mapping is replaced.
        let got = unsafe { libc::mmap(hint, length, rights, flags, -1, 0) };
        (got != libc::MAP_FAILED).then(|| Self {
            at: got.expose_provenance() as u64,
            bytes,
            charged: 0,
        })
    }

    /// Reserves inaccessible addresses at a fixed address, if nothing is mapped there.
    pub fn addresses_at(at: u64, bytes: u64) -> Option<Self> {
        let piece = Self::map(at, bytes, libc::PROT_NONE, libc::MAP_FIXED_NOREPLACE)?;
        // Kernels that do not know the flag use the address only as a hint.
        (piece.at == at).then_some(piece)
    }

    /// Reserves inaccessible addresses anywhere, at a multiple of `alignment`.
    pub fn addresses(bytes: u64, alignment: u64) -> Option<Self> {
        // Another thread can take the addresses between the release of the larger range and the aligned reservation.
        for _ in 0..16 {
            let room = Self::map(0, bytes.checked_add(alignment)?, libc::PROT_NONE, 0)?;
            let at = room.at.checked_next_multiple_of(alignment)?;
            drop(room);
            if let Some(piece) = Self::addresses_at(at, bytes) {
                return Some(piece);
            }
        }
        None
    }

    /// Allocates host memory that the device can access as well.
    pub fn of_host(bytes: u64) -> Answer<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE).ok_or(OUT_OF_MEMORY)?;
        Self::map(0, bytes, libc::PROT_READ | libc::PROT_WRITE, 0).ok_or(OUT_OF_MEMORY)
    }

    /// Allocates device memory with the content of fresh memory.
    pub fn of_device(bytes: u64) -> Answer<Self> {
        let mut piece = Self::of_host(bytes)?;
        let max = settings().memory;
        let take = |used: u64| used.checked_add(piece.bytes).filter(|all| *all <= max);
        USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map_err(|_| OUT_OF_MEMORY)?;
        piece.charged = piece.bytes;
        if let Some(byte) = settings().poison {
            // SAFETY: the memory belongs to this piece, and no other code knows it yet.
            unsafe { std::ptr::write_bytes(pointer(piece.at), byte, piece.bytes as usize) };
        }
        Ok(piece)
    }

    /// Returns its first address.
    pub fn at(&self) -> u64 {
        self.at
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        USED.fetch_sub(self.charged, Ordering::Relaxed);
        // SAFETY: the mapping is this value's own, and is unused on drop.
        unsafe { libc::munmap(pointer(self.at).cast(), self.bytes as usize) };
    }
}

/// Returns an address of this process as a pointer.
pub fn pointer(at: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(at as usize)
}
