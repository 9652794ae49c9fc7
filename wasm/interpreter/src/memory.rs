//! Global memory of a launch: the trait, and an implementation over byte arrays.

use std::fmt;

/// Address in global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalAddress(pub u64);

impl fmt::Display for GlobalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Size of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
    /// 8 bytes.
    Double,
}

impl Width {
    /// Returns the size, bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
            Self::Double => 8,
        }
    }
}

/// Global memory as a kernel accesses it. Addresses are multiples of the width when the interpreter calls.
pub trait AddressSpace {
    /// Returns the value at an address with its upper bits clear, or `None` if it cannot be read.
    fn load(&mut self, address: GlobalAddress, width: Width) -> Option<u64>;

    /// Stores the low bits of a value. Returns `None` if the address cannot be written.
    fn store(&mut self, address: GlobalAddress, width: Width, value: u64) -> Option<()>;

    /// Adds to a 32-bit or 64-bit word as one step, and returns `None` if the address cannot be written.
    fn add(&mut self, address: GlobalAddress, width: Width, value: u64) -> Option<()> {
        let old = self.load(address, width)?;
        self.store(address, width, old.wrapping_add(value))
    }
}

/// A range of addresses with its bytes.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// First address.
    pub base: GlobalAddress,
    /// Contents.
    pub bytes: Vec<u8>,
    /// Whether a kernel may write it.
    pub writable: bool,
}

/// Address space of a few regions that do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    regions: Vec<Region>,
    /// Index of the region of the last access. The next access is usually in the same region.
    last: usize,
}

impl Regions {
    /// Returns an address space without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a region, and returns `false` if it overlaps another or wraps around the end of the address space.
    pub fn add_region(&mut self, region: Region) -> bool {
        let end = |r: &Region| u64::try_from(r.bytes.len()).ok().and_then(|n| r.base.0.checked_add(n));
        let Some(to) = end(&region) else { return false };
        let overlaps = |r: &Region| r.base.0 < to && region.base.0 < end(r).unwrap_or(u64::MAX);
        if self.regions.iter().any(overlaps) {
            return false;
        }
        self.regions.push(region);
        true
    }

    /// Returns the bytes of the region that begins at `base`.
    #[must_use]
    pub fn bytes(&self, base: GlobalAddress) -> Option<&[u8]> {
        self.regions.iter().find(|r| r.base == base).map(|r| r.bytes.as_slice())
    }

    /// Returns the bytes of the region that begins at `base`, to change them.
    pub fn bytes_mut(&mut self, base: GlobalAddress) -> Option<&mut Vec<u8>> {
        let mut regions = self.regions.iter_mut();
        regions.find(|r| r.base == base).map(|r| &mut r.bytes)
    }

    /// Returns the index of the region that holds an address.
    #[cold]
    fn find(&mut self, address: GlobalAddress) -> Option<()> {
        let holds = |r: &Region| {
            let offset = address.0.checked_sub(r.base.0).and_then(|n| usize::try_from(n).ok());
            offset.is_some_and(|n| n < r.bytes.len())
        };
        self.last = self.regions.iter().position(holds)?;
        Some(())
    }

    fn slice<const N: usize>(&mut self, address: GlobalAddress) -> Option<&mut [u8; N]> {
        for _ in 0..2 {
            let last = self.regions.get(self.last);
            let holds = last.and_then(|r| {
                let offset = usize::try_from(address.0.checked_sub(r.base.0)?).ok()?;
                (offset.checked_add(N)? <= r.bytes.len()).then_some(offset)
            });
            if let Some(offset) = holds {
                let region = self.regions.get_mut(self.last)?;
                return region.bytes.get_mut(offset..)?.first_chunk_mut();
            }
            self.find(address)?;
        }
        None
    }

    fn writable_slice<const N: usize>(&mut self, address: GlobalAddress) -> Option<&mut [u8; N]> {
        self.slice::<N>(address)?;
        self.regions.get(self.last).filter(|r| r.writable)?;
        self.slice::<N>(address)
    }
}

impl AddressSpace for Regions {
    fn load(&mut self, address: GlobalAddress, width: Width) -> Option<u64> {
        Some(match width {
            Width::Byte => u64::from(u8::from_le_bytes(*self.slice(address)?)),
            Width::Half => u64::from(u16::from_le_bytes(*self.slice(address)?)),
            Width::Word => u64::from(u32::from_le_bytes(*self.slice(address)?)),
            Width::Double => u64::from_le_bytes(*self.slice(address)?),
        })
    }

    fn store(&mut self, address: GlobalAddress, width: Width, value: u64) -> Option<()> {
        match width {
            Width::Byte => *self.writable_slice(address)? = (value as u8).to_le_bytes(),
            Width::Half => *self.writable_slice(address)? = (value as u16).to_le_bytes(),
            Width::Word => *self.writable_slice(address)? = (value as u32).to_le_bytes(),
            Width::Double => *self.writable_slice(address)? = value.to_le_bytes(),
        }
        Some(())
    }
}
