//! Where device memory lies: addresses that the driver gives, apart from those of the host's own memory.

use super::mapping::{Mapping, Reach};
use crate::lock;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

/// Moves the addresses that `cuMemAlloc` gives, in hexadecimal: for tests in which a replay finds them taken.
const BASE_VARIABLE: &str = "KINESCOPE_STAND_IN_BASE";
/// Below where Linux puts libraries and stacks, above heaps.
const BASE: u64 = 0x7c00_0000_0000;
/// From one kind of memory to the next.
const APART: u64 = 1 << 36;
/// Places that are tried before there is no memory left.
const TRIES: u32 = 1 << 14;

/// What memory is for: each kind lies in a region of its own, like on a real device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `cuMemAlloc`.
    Plain,
    /// `cuMemAllocManaged`.
    Managed,
    /// Variables of modules.
    Variables,
    /// `cuMemAllocAsync`.
    Pool,
    /// `cuMemAddressReserve` without a wish.
    Reserved,
}

impl Purpose {
    fn base(self) -> u64 {
        static WANTED: OnceLock<u64> = OnceLock::new();
        let base = *WANTED.get_or_init(|| {
            let text = std::env::var(BASE_VARIABLE).unwrap_or_default();
            let text = text.trim_start_matches("0x");
            u64::from_str_radix(text, 16).ok().filter(|at| *at != 0).map_or(BASE, |at| at & !(super::GRANULE - 1))
        });
        match self {
            Self::Plain => base,
            Self::Managed => base.saturating_add(APART),
            Self::Variables => base.saturating_add(2 * APART),
            Self::Pool => 0x3_0200_0000,
            Self::Reserved => 0x10_0000_0000,
        }
    }
}

/// Addresses that are taken.
pub struct Place {
    mapping: Mapping,
}

/// Where places are, so that looking for another one need not ask the kernel about each.
static TAKEN: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

impl Place {
    /// These addresses, if they are free.
    pub fn exactly(at: u64, bytes: u64, reach: Reach) -> Option<Self> {
        let mapping = Mapping::exactly(at, bytes, reach)?;
        lock(&TAKEN).insert(at, bytes);
        Some(Self { mapping })
    }

    /// The first free addresses for this purpose. `align` is a power of two.
    pub fn find(purpose: Purpose, bytes: u64, align: u64, reach: Reach) -> Option<Self> {
        let mut at = purpose.base().checked_next_multiple_of(align)?;
        for _ in 0..TRIES {
            let end = at.checked_add(bytes)?;
            let taken = lock(&TAKEN).range(..end).next_back().map(|(from, bytes)| from + bytes).filter(|to| *to > at);
            match taken {
                Some(to) => at = to.checked_next_multiple_of(align)?,
                None => match Self::exactly(at, bytes, reach) {
                    Some(place) => return Some(place),
                    None => at = at.checked_add(align)?,
                },
            }
        }
        None
    }

    /// Its first address.
    pub fn at(&self) -> u64 {
        self.mapping.at()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&TAKEN).remove(&self.at());
    }
}
