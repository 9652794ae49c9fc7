//! Maps with frame numbers as keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hasher of frame numbers. A weak hash is enough: they are close together, and there are at most as many as arena
/// frames.
#[derive(Clone, Copy, Default)]
pub(crate) struct FrameHasher(u64);

impl Hasher for FrameHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// Map with frames as keys.
pub(crate) type FrameMap<T> = HashMap<u64, T, BuildHasherDefault<FrameHasher>>;
