//! Hash maps of handles and numbers.

use std::hash::{BuildHasherDefault, Hasher};

/// A fast hash for handles and numbers, of which there are few and which no attacker chooses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HandleHash(u64);

/// Hasher for fast maps of handles.
pub(crate) type ByHandle = BuildHasherDefault<HandleHash>;

impl Hasher for HandleHash {
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }

    fn write_u64(&mut self, n: u64) {
        // The upper bits distinguish handles that are multiples of large numbers.
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
