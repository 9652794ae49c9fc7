//! A mapped page or block: its addresses and access rights.

use crate::page_table_format::MemoryName;
use crate::{GpuVa, PhysAddr};
use serde::{Deserialize, Serialize};

/// Access rights of the GPU to a mapped page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rights {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable as shader code.
    pub execute: bool,
}

impl Rights {
    /// Read and write.
    pub const RW: Self = Self {
        read: true,
        write: true,
        execute: false,
    };
    /// Read only.
    pub const RO: Self = Self {
        read: true,
        write: false,
        execute: false,
    };
    /// Read and execute.
    pub const RX: Self = Self {
        read: true,
        write: false,
        execute: true,
    };

    /// Creates the rights to read, write and execute.
    #[inline]
    pub(super) fn from_bits((read, write, execute): (bool, bool, bool)) -> Self {
        Self { read, write, execute }
    }

    /// Returns the rights that both have.
    #[inline]
    pub(super) fn restrict(self, other: Self) -> Self {
        Self {
            read: self.read && other.read,
            write: self.write && other.write,
            execute: self.execute && other.execute,
        }
    }
}

impl std::fmt::Display for Rights {
    /// Writes three letters, for example `rw-`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let c = |on: bool, c: char| if on { c } else { '-' };
        write!(f, "{}{}{}", c(self.read, 'r'), c(self.write, 'w'), c(self.execute, 'x'))
    }
}

/// A mapped page or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// First address of the page or block.
    pub va: GpuVa,
    /// Its physical address.
    pub pa: PhysAddr,
    /// Size in bytes, a multiple of 4 KiB.
    pub bytes: u64,
    /// Access rights of the GPU.
    pub rights: Rights,
    /// Attribute number of the entry; for a Mali GPU the index into the memory attributes of the address space, 0 to 7.
    pub attr_index: u8,
    /// The raw entry in the table.
    pub raw: u64,
    /// Level of the entry, 0 is the top.
    pub level: u8,
    /// Number of the kind of its table in the description of the format.
    pub table: u8,
    /// The memory of the page, if it is another one than the recording holds.
    pub elsewhere: Option<MemoryName>,
}

impl Leaf {
    /// Returns the physical address of an address in this leaf, or `None` if it is outside. It is an address of the memory
    /// [`Leaf::elsewhere`], if that is given.
    #[must_use]
    pub fn target(&self, va: GpuVa) -> Option<PhysAddr> {
        let at = va.offset_from(self.va).filter(|d| *d < self.bytes)?;
        self.pa.checked_add(at)
    }
}
