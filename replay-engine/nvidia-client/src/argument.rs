//! Arguments of ioctls as bytes of a fixed size.

/// An argument, zero at first. Places outside it read 0 and take no writes: all offsets are constants of this crate,
/// which the tests compare with the driver's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument<const N: usize>(pub [u8; N]);

impl<const N: usize> Argument<N> {
    /// Returns an argument of zeros.
    pub fn new() -> Self {
        Self([0; N])
    }

    /// Sets a 32-bit field.
    pub fn with_u32(mut self, at: usize, value: u32) -> Self {
        self.put(at, &value.to_le_bytes());
        self
    }

    /// Sets a 64-bit field.
    pub fn with_u64(mut self, at: usize, value: u64) -> Self {
        self.put(at, &value.to_le_bytes());
        self
    }

    /// Sets bytes.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        put(&mut self.0, at, bytes);
    }

    /// Returns a 32-bit field.
    pub fn u32(&self, at: usize) -> u32 {
        u32_at(&self.0, at)
    }

    /// Returns a 64-bit field.
    pub fn u64(&self, at: usize) -> u64 {
        u64_at(&self.0, at)
    }
}

/// Writes bytes into a buffer, if it has them.
pub(crate) fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(slot) = at.checked_add(bytes.len()).and_then(|end| to.get_mut(at..end)) {
        slot.copy_from_slice(bytes);
    }
}

/// Returns a 32-bit field of a buffer, or 0 if the buffer does not have it.
pub(crate) fn u32_at(from: &[u8], at: usize) -> u32 {
    let word = from.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |b| u32::from_le_bytes(*b))
}

/// Returns a 64-bit field of a buffer, or 0 if the buffer does not have it.
pub(crate) fn u64_at(from: &[u8], at: usize) -> u64 {
    let word = from.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |b| u64::from_le_bytes(*b))
}
