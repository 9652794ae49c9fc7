//! Addresses in two methods.

use crate::GpuVa;

/// Two methods that hold the upper and the lower word of an address.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AddressWords {
    pub upper: u32,
    pub lower: u32,
}

impl AddressWords {
    pub(super) fn address(self) -> GpuVa {
        GpuVa::from_words(self.upper, self.lower)
    }
}
