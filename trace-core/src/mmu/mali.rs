//! Entries of the two formats of Mali GPUs, which the program also writes: four levels of 512 entries of eight bytes.
//!
//! The functions that take a format are for [`MmuFormat::WRITTEN`]. A described format has no entries here: its entries
//! are reserved, and those that would be written are zero.

use super::fault::WalkFault;
use super::leaf::{Leaf, Rights};
use super::walk::{EntryKind, PhysMemory};
use crate::recording::MmuFormat;
use crate::{GpuVa, PhysAddr};

/// Number of table levels of the formats of Mali GPUs; level 0 is the top.
pub const LEVELS: u8 = 4;
/// Number of bits of an address of a Mali GPU.
pub const VA_BITS: u32 = 48;
/// Size of a page, the unit of counts; leaves of any format are multiples of it, bytes.
pub const PAGE_BYTES: u64 = 4096;
/// The entry that drivers write for unmapped addresses.
pub const INVALID: u64 = 2;

/// Lowest address bit of the index of each level.
const SHIFTS: [u32; LEVELS as usize] = [39, 30, 21, 12];
const INDEX_MASK: u64 = 511;
const TYPE_MASK: u64 = 3;
/// Bits 47 to 12 of an entry.
const ADDRESS: u64 = ((1 << 48) - 1) & !0xfff;
const NOT_EXECUTABLE: u64 = 1 << 54;
const ACCESS_FLAG: u64 = 1 << 10;
/// Inner-shareable bits of leaves.
const SHAREABLE: u64 = 3 << 8;
/// Type of an entry that points to the next table, levels 0 to 2 of either format.
const TABLE: u64 = 3;
/// Type of a block at levels 1 and 2 of either format.
const BLOCK: u64 = 1;
/// Mode 3 of the root register of the LPAE format: translate by tables; bit 2: table reads may use the inner cache.
const LPAE_ROOT_BITS: u64 = 3 | 1 << 2;

/// Returns the index of `va`'s entry in the table of a level (0 to 3; others count as 3).
#[inline]
#[must_use]
pub const fn index_at(level: u8, va: GpuVa) -> u16 {
    (va.get() >> level_shift(level) & INDEX_MASK) as u16
}

#[inline]
const fn level_shift(level: u8) -> u32 {
    match level {
        0 => SHIFTS[0],
        1 => SHIFTS[1],
        2 => SHIFTS[2],
        _ => SHIFTS[3],
    }
}

/// Returns the size that one entry of a level (0 to 3) covers, bytes.
#[inline]
#[must_use]
pub const fn span_bytes(level: u8) -> u64 {
    1 << level_shift(level)
}

/// Returns the type of a leaf at level 3.
const fn page_type(format: MmuFormat) -> Option<u64> {
    match format {
        MmuFormat::Aarch64_4k => Some(3),
        MmuFormat::MaliLpae => Some(1),
        MmuFormat::Described(_) => None,
    }
}

/// Returns the kind of an entry. A block at level 0 and other types that a format lacks are [`EntryKind::Reserved`].
#[inline]
#[must_use]
pub fn entry_kind(format: MmuFormat, level: u8, raw: u64) -> EntryKind {
    let kind = raw & TYPE_MASK;
    let Some(page) = page_type(format) else {
        return EntryKind::Reserved;
    };
    match level {
        _ if kind & 1 == 0 => EntryKind::Invalid,
        0..=2 if kind == TABLE => EntryKind::Table(PhysAddr::new(raw & ADDRESS)),
        1..=2 if kind == BLOCK => EntryKind::Block(PhysAddr::new(raw & ADDRESS & !(span_bytes(level) - 1))),
        3 if kind == page => EntryKind::Page(PhysAddr::new(raw & ADDRESS)),
        _ => EntryKind::Reserved,
    }
}

/// Returns bits 47 to 12 of an entry, whatever its kind.
#[must_use]
pub const fn entry_address(raw: u64) -> PhysAddr {
    PhysAddr::new(raw & ADDRESS)
}

/// Returns the access rights of a leaf entry.
#[inline]
#[must_use]
pub fn entry_rights(format: MmuFormat, raw: u64) -> Rights {
    let (read, write) = match format {
        // Bit 6: user access at all. Bit 7: no writes.
        MmuFormat::Aarch64_4k => (raw & 1 << 6 != 0, raw & 3 << 6 == 1 << 6),
        MmuFormat::MaliLpae => (raw & 1 << 6 != 0, raw & 1 << 7 != 0),
        MmuFormat::Described(described) => return Rights::from_bits(described.description().rights(raw)),
    };
    Rights {
        read,
        write,
        execute: raw & NOT_EXECUTABLE == 0,
    }
}

/// Returns the memory-attribute index of a leaf entry, 0 to 7.
#[inline]
#[must_use]
pub const fn entry_attr_index(raw: u64) -> u8 {
    (raw >> 2 & 7) as u8
}

/// Whether the hardware accepts the leaf entry's access flag; always true for formats without one.
#[inline]
#[must_use]
pub fn has_access_flag(format: MmuFormat, raw: u64) -> bool {
    match format {
        MmuFormat::Aarch64_4k => raw & ACCESS_FLAG != 0,
        MmuFormat::MaliLpae => true,
        MmuFormat::Described(described) => described.description().has_access_flag(raw),
    }
}

/// Translates one address as the walk by description does: simulated GPUs translate each access.
#[inline]
pub(super) fn translate(
    format: MmuFormat,
    root: PhysAddr,
    va: GpuVa,
    mem: &(impl PhysMemory + ?Sized),
) -> Result<Leaf, WalkFault> {
    if va.get() >> VA_BITS != 0 {
        return Err(WalkFault::AddressTooWide { bits: VA_BITS as u8 });
    }
    let mut table = root.align_down(PAGE_BYTES);
    let mut level = 0;
    loop {
        let entry_at = PhysAddr::new(table.get() | u64::from(index_at(level, va)) << 3);
        let missing = WalkFault::TableMissing { level, at: table };
        let raw = mem.read_u64(entry_at).ok_or(missing)?;
        match entry_kind(format, level, raw) {
            EntryKind::Invalid => return Err(WalkFault::NotMapped { level }),
            EntryKind::Reserved => return Err(WalkFault::BadEntry { level, raw }),
            // The last level has no tables, so this ends.
            EntryKind::Table(next) => table = next,
            EntryKind::Page(pa) | EntryKind::Block(pa) => {
                if !has_access_flag(format, raw) {
                    return Err(WalkFault::NoAccessFlag { level, raw });
                }
                return Ok(Leaf {
                    va: va.align_down(span_bytes(level)),
                    pa,
                    bytes: span_bytes(level),
                    rights: entry_rights(format, raw),
                    attr_index: entry_attr_index(raw),
                    raw,
                    level,
                    // The descriptions list the tables by level.
                    table: level,
                    elsewhere: None,
                });
            }
        }
        level += 1;
    }
}

/// Encodes a 4 KiB page entry at level 3, inner-shareable. The low 12 bits of `pa` and bits over 47 are dropped, as is
/// an attribute index over 7. AArch64 tables cannot express write without read: such rights become read and write.
#[must_use]
pub fn encode_leaf(format: MmuFormat, pa: PhysAddr, rights: Rights, attr_index: u8) -> u64 {
    let (kind, access) = match format {
        MmuFormat::Aarch64_4k => {
            let access = match (rights.read, rights.write) {
                (_, true) => 1 << 6,
                (true, false) => 3 << 6,
                (false, false) => 0,
            };
            (3, access | ACCESS_FLAG)
        }
        MmuFormat::MaliLpae => (1, u64::from(rights.read) << 6 | u64::from(rights.write) << 7),
        MmuFormat::Described(_) => return 0,
    };
    let nx = if rights.execute { 0 } else { NOT_EXECUTABLE };
    pa.get() & ADDRESS | kind | u64::from(attr_index & 7) << 2 | access | SHAREABLE | nx
}

/// Encodes an entry that points to the table at `pa`, for levels 0 to 2.
#[must_use]
pub fn encode_table(format: MmuFormat, pa: PhysAddr) -> u64 {
    let access = match format {
        MmuFormat::Aarch64_4k => ACCESS_FLAG,
        MmuFormat::MaliLpae => 0,
        MmuFormat::Described(_) => return 0,
    };
    pa.get() & ADDRESS | TABLE | access
}

/// Returns the value of an address space's root register for the top table at `root`.
#[must_use]
pub fn root_register(format: MmuFormat, root: PhysAddr) -> u64 {
    let bits = match format {
        MmuFormat::MaliLpae => LPAE_ROOT_BITS,
        MmuFormat::Aarch64_4k | MmuFormat::Described(_) => 0,
    };
    root.get() & ADDRESS | bits
}

/// Returns the address of the top table in a root register value, without the low control bits.
#[must_use]
pub fn root_from_register(_format: MmuFormat, value: u64) -> PhysAddr {
    PhysAddr::new(value & ADDRESS)
}
