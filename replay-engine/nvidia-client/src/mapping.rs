//! Memory that a device shares with the program: volatile accesses, checked against the mapping.
#![allow(
    unsafe_code,
    reason = "mapped device memory has no safe interface; each access is checked against the mapping's length"
)]

use core::ptr::NonNull;

/// Mapped memory. It is removed by [`crate::Kernel::unmap`], not when the value ends.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only one owner accesses it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Returns the mapping at an address.
    ///
    /// # Safety
    /// `start` is the first of `bytes` mapped bytes, which stay mapped while the value exists. It is 8-byte aligned.
    #[must_use]
    pub unsafe fn from_raw(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes }
    }

    /// Returns the first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether the mapping has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the place of `bytes` bytes at an offset, or `None` if they are not all mapped.
    fn place(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: the offset is within the mapping.
        (end <= self.bytes).then(|| unsafe { self.start.as_ptr().add(offset) })
    }

    /// Reads a 32-bit word, or returns `None` if it is not mapped or misaligned.
    #[must_use]
    pub fn read_u32(&self, offset: usize) -> Option<u32> {
        let at = self.place(offset, 4).filter(|_| offset.is_multiple_of(4))?;
        // SAFETY: the word is mapped and aligned.
        Some(unsafe { at.cast::<u32>().read_volatile() })
    }

    /// Writes a 32-bit word. Returns whether it is mapped and aligned.
    pub fn write_u32(&mut self, offset: usize, value: u32) -> bool {
        let Some(at) = self.place(offset, 4).filter(|_| offset.is_multiple_of(4)) else {
            return false;
        };
        // SAFETY: the word is mapped and aligned.
        unsafe { at.cast::<u32>().write_volatile(value) };
        true
    }

    /// Writes a 64-bit word. Returns whether it is mapped and aligned.
    pub fn write_u64(&mut self, offset: usize, value: u64) -> bool {
        let Some(at) = self.place(offset, 8).filter(|_| offset.is_multiple_of(8)) else {
            return false;
        };
        // SAFETY: the word is mapped and aligned.
        unsafe { at.cast::<u64>().write_volatile(value) };
        true
    }

    /// Copies bytes into the mapping. Returns whether all of the range is mapped.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let Some(at) = self.place(offset, bytes.len()) else {
            return false;
        };
        // SAFETY: the range is mapped, and no Rust reference to it exists.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        true
    }

    /// Copies bytes out of the mapping. Returns whether all of the range is mapped.
    #[must_use]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(at) = self.place(offset, bytes.len()) else {
            return false;
        };
        // SAFETY: the range is mapped, and no Rust reference to it exists.
        unsafe { core::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), bytes.len()) };
        true
    }

    /// Sets bytes to zero. Returns whether all of the range is mapped.
    pub fn clear(&mut self, offset: usize, bytes: usize) -> bool {
        let Some(at) = self.place(offset, bytes) else {
            return false;
        };
        // SAFETY: the range is mapped, and no Rust reference to it exists.
        unsafe { core::ptr::write_bytes(at, 0, bytes) };
        true
    }
}
