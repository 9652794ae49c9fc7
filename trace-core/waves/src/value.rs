//! Values of signals, of which some bits may be unknown.

/// A value of up to 64 bits, some of which may be unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value {
    pub bits: u64,
    /// Mask of the known bits.
    pub known: u64,
}

impl Value {
    pub fn from_bits(bits: u64) -> Self {
        Self { bits, known: u64::MAX }
    }

    /// Whether all of the lowest `bits` bits are known, 1 to 64.
    pub fn is_known(self, bits: u32) -> bool {
        let mask = lowest(bits);
        self.known & mask == mask
    }

    /// Returns the lowest `bits` bits.
    pub fn low(self, bits: u32) -> u64 {
        self.bits & lowest(bits)
    }
}

fn lowest(bits: u32) -> u64 {
    u64::MAX >> (64 - bits.clamp(1, 64))
}
