//! Types of addresses that do not mix.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the address `bytes` further on, or `None` past the end of the range of the type.
            #[must_use]
            pub fn checked_add(self, bytes: $inner) -> Option<Self> {
                self.0.checked_add(bytes).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address!(
    /// A GPU virtual address, as shaders and job descriptors use it, before translation.
    GpuVa,
    u64
);
address!(
    /// A physical address, after translation: the contents of page-table entries and root registers.
    PhysAddr,
    u64
);
address!(
    /// A byte offset from the start of a [`crate::recording::Space`].
    RegOffset,
    u32
);

impl GpuVa {
    /// Returns the number of the 4 KiB page of this address.
    #[must_use]
    pub fn page(self) -> u64 {
        self.0 >> 12
    }

    /// Returns the offset of this address in its 4 KiB page.
    #[must_use]
    pub fn in_page(self) -> usize {
        (self.0 & 0xfff) as usize
    }
}

impl PhysAddr {
    /// Returns the number of the 4 KiB page frame of this address.
    #[must_use]
    pub fn frame(self) -> u64 {
        self.0 >> 12
    }

    /// Returns the offset of this address in its 4 KiB page frame.
    #[must_use]
    pub fn in_page(self) -> usize {
        (self.0 & 0xfff) as usize
    }
}
