//! Types of addresses that do not mix. JSON and files hold each of them as its number.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Range, Sub};

/// Bits of an address within its 4 KiB page.
const PAGE_BITS: u32 = 12;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Pod, Zeroable,
        )]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name($inner);

        impl $name {
            /// The address 0.
            pub const ZERO: Self = Self(0);
            /// The highest address of the type.
            pub const MAX: Self = Self(<$inner>::MAX);

            /// Creates the address with this number.
            #[must_use]
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }

            /// Returns the number of the address.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }

            /// Creates the addresses with these numbers.
            #[must_use]
            pub const fn new_range(numbers: Range<$inner>) -> Range<Self> {
                Self(numbers.start)..Self(numbers.end)
            }

            /// Returns the numbers of these addresses.
            #[must_use]
            pub const fn get_range(addresses: &Range<Self>) -> Range<$inner> {
                addresses.start.0..addresses.end.0
            }

            /// Returns the address `bytes` further on, or `None` past the end of the range of the type.
            #[must_use]
            pub const fn checked_add(self, bytes: $inner) -> Option<Self> {
                match self.0.checked_add(bytes) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }

            /// Returns the address `bytes` before this one, or `None` below 0.
            #[must_use]
            pub const fn checked_sub(self, bytes: $inner) -> Option<Self> {
                match self.0.checked_sub(bytes) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }

            /// Returns the address `bytes` further on, or the highest address of the type.
            #[must_use]
            pub const fn saturating_add(self, bytes: $inner) -> Self {
                Self(self.0.saturating_add(bytes))
            }

            /// Returns the address `bytes` before this one, or 0.
            #[must_use]
            pub const fn saturating_sub(self, bytes: $inner) -> Self {
                Self(self.0.saturating_sub(bytes))
            }

            /// Returns the address `bytes` further on. The highest address is followed by 0.
            #[must_use]
            pub const fn wrapping_add(self, bytes: $inner) -> Self {
                Self(self.0.wrapping_add(bytes))
            }

            /// Returns the address `bytes` before this one. The address 0 follows the highest one.
            #[must_use]
            pub const fn wrapping_sub(self, bytes: $inner) -> Self {
                Self(self.0.wrapping_sub(bytes))
            }

            /// Returns the number of bytes from `base` to this address, or `None` if `base` is higher.
            #[must_use]
            pub const fn offset_from(self, base: Self) -> Option<$inner> {
                self.0.checked_sub(base.0)
            }

            /// Returns the highest multiple of `bytes`, a power of two, that is not above this address.
            #[must_use]
            pub const fn align_down(self, bytes: $inner) -> Self {
                Self(self.0 & !bytes.wrapping_sub(1))
            }

            /// Returns the lowest multiple of `bytes`, a power of two, that is not below this address, or `None` past
            /// the end of the range of the type.
            #[must_use]
            pub const fn align_up(self, bytes: $inner) -> Option<Self> {
                match self.0.checked_next_multiple_of(bytes) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }

            /// Whether this address is a multiple of `bytes`, which is not 0.
            #[must_use]
            pub const fn is_aligned(self, bytes: $inner) -> bool {
                self.0.is_multiple_of(bytes)
            }
        }

        /// The address a number of bytes further on. It overflows like the addition of numbers.
        impl Add<$inner> for $name {
            type Output = Self;

            fn add(self, bytes: $inner) -> Self {
                Self(self.0 + bytes)
            }
        }

        impl AddAssign<$inner> for $name {
            fn add_assign(&mut self, bytes: $inner) {
                self.0 += bytes;
            }
        }

        /// The number of bytes between two addresses. It overflows like the subtraction of numbers.
        impl Sub for $name {
            type Output = $inner;

            fn sub(self, base: Self) -> $inner {
                self.0 - base.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }

        impl fmt::UpperHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::UpperHex::fmt(&self.0, f)
            }
        }
    };
}

address!(
    /// A GPU virtual address, before translation: shaders, job descriptors and CUDA's device pointers use it.
    GpuVa,
    u64
);
address!(
    /// A physical address, after translation: the contents of page-table entries and root registers.
    PhysAddr,
    u64
);
address!(
    /// An address that a device uses on its bus, before an IOMMU: DMA mappings and base registers of rings hold it.
    BusAddr,
    u64
);
address!(
    /// A byte offset from the start of a [`crate::recording::Space`].
    RegOffset,
    u32
);

macro_rules! pages {
    ($name:ident, $page:ident, $from_page:ident, $what:literal) => {
        impl $name {
            #[doc = concat!("Returns the first address of the 4 KiB ", $what, " with this number, or `None` past the")]
            /// end of the range of the type.
            #[must_use]
            pub const fn $from_page(number: u64) -> Option<Self> {
                match number.checked_mul(1 << PAGE_BITS) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }

            #[doc = concat!("Returns the number of the 4 KiB ", $what, " of this address.")]
            #[must_use]
            pub const fn $page(self) -> u64 {
                self.0 >> PAGE_BITS
            }

            #[doc = concat!("Returns the offset of this address in its 4 KiB ", $what, ", bytes.")]
            #[must_use]
            pub const fn in_page(self) -> usize {
                (self.0 & ((1 << PAGE_BITS) - 1)) as usize
            }
        }
    };
}

pages!(GpuVa, page, from_page, "page");
pages!(PhysAddr, frame, from_frame, "page frame");
pages!(BusAddr, page, from_page, "page");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stays_in_the_range_of_the_type() {
        let va = GpuVa::new(0x1234);
        assert_eq!(va.checked_add(0x10), Some(GpuVa::new(0x1244)));
        assert_eq!(GpuVa::MAX.checked_add(1), None);
        assert_eq!(va.checked_sub(0x1235), None);
        assert_eq!(GpuVa::MAX.saturating_add(1), GpuVa::MAX);
        assert_eq!(va.saturating_sub(0x2000), GpuVa::ZERO);
        assert_eq!(GpuVa::MAX.wrapping_add(2), GpuVa::new(1));
        assert_eq!(GpuVa::ZERO.wrapping_sub(1), GpuVa::MAX);
        assert_eq!(va.offset_from(GpuVa::new(0x1000)), Some(0x234));
        assert_eq!(va.offset_from(GpuVa::new(0x1235)), None);
        assert_eq!(va + 4 - va, 4);
    }

    #[test]
    fn alignment_and_pages_are_of_4_kib() {
        let pa = PhysAddr::new(0x1_2345);
        assert_eq!((pa.frame(), pa.in_page()), (0x12, 0x345));
        assert_eq!(PhysAddr::from_frame(0x12), Some(PhysAddr::new(0x1_2000)));
        assert_eq!(PhysAddr::from_frame(u64::MAX), None);
        assert_eq!(pa.align_down(0x1000), PhysAddr::new(0x1_2000));
        assert_eq!(pa.align_up(0x1000), Some(PhysAddr::new(0x1_3000)));
        assert_eq!(PhysAddr::MAX.align_up(0x1000), None);
        assert!(pa.align_down(8).is_aligned(8) && !pa.is_aligned(8));
    }

    #[test]
    fn json_holds_the_number_and_text_is_hexadecimal() {
        let bus = BusAddr::new(0xF7FF_9000);
        assert_eq!(serde_json::to_string(&bus).unwrap(), "4160720896");
        assert_eq!(serde_json::from_str::<BusAddr>("4160720896").unwrap(), bus);
        assert_eq!(
            format!("{bus} {bus:x} {:08X}", RegOffset::new(0xab)),
            "0xf7ff9000 f7ff9000 000000AB"
        );
    }
}
