//! Addresses in a GPU's address space.

use std::fmt;

/// An address in the GPU's virtual address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GpuVa(pub u64);

impl GpuVa {
    /// Returns the address from its upper and lower words.
    #[must_use]
    pub fn from_words(upper: u32, lower: u32) -> Self {
        Self(u64::from(upper) << 32 | u64::from(lower))
    }

    /// Returns the address that lies `bytes` further, or `None` beyond the end of the address space.
    #[must_use]
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }
}

impl fmt::Display for GpuVa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
