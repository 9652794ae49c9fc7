//! Entries of page tables: type, address, rights and attribute bits, by the description of the format.

use super::leaf::Rights;
use crate::recording::MmuFormat;
use crate::{GpuVa, PhysAddr};
use std::fmt;

/// Number of table levels; level 0 is the top.
pub const LEVELS: u8 = 4;
/// Number of bits of a GPU virtual address.
pub const VA_BITS: u32 = 48;
/// Size of a page, the smallest leaf, bytes.
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
/// Type of an entry that points to the next table, levels 0 to 2 of either format.
const TABLE: u64 = 3;
/// Type of a block at levels 1 and 2 of either format.
const BLOCK: u64 = 1;

/// A format of page tables with four levels of 512 entries of eight bytes: its names, and how its entries differ from
/// those of other formats. A family lists those that its GPUs have.
#[derive(Debug)]
pub struct PageTableFormat {
    /// The format in recordings.
    pub format: MmuFormat,
    /// Its name in JSON, arguments and plans.
    pub name: &'static str,
    /// Its name in the window.
    pub title: &'static str,
    /// The name of the layout of an entry in register maps.
    pub entry_layout: &'static str,
    /// Type of a leaf at level 3.
    pub(crate) page: u64,
    /// Whether a leaf must carry the access flag; tables get it too.
    pub(crate) access_flag: bool,
    /// Inner-shareable bits of leaves that the project encodes.
    pub(crate) shareable: u64,
    /// Low bits of the root register that are not part of the address.
    pub(crate) root_bits: u64,
    /// Returns whether an entry can be read and written.
    pub(crate) rights: fn(u64) -> (bool, bool),
    /// Returns the bits of an entry with these rights, without the execute right.
    pub(crate) encode_rights: fn(Rights) -> u64,
}

/// Armv8 stage-1 tables with a 4 KiB granule. Families of several vendors have them, and importers generate them for
/// memory without page tables.
pub const AARCH64_4K: PageTableFormat = PageTableFormat {
    format: MmuFormat::Aarch64_4k,
    name: "aarch64-4k",
    title: "AArch64 4 KiB",
    entry_layout: "aarch64-4k-entry",
    page: 3,
    access_flag: true,
    shareable: 3 << 8,
    root_bits: 0,
    // Bit 6: user access at all. Bit 7: no writes.
    rights: |raw| (raw & 1 << 6 != 0, raw & 3 << 6 == 1 << 6),
    encode_rights: |r| match (r.read, r.write) {
        (_, true) => 1 << 6,
        (true, false) => 3 << 6,
        (false, false) => 0,
    },
};

/// The format that derives from LPAE, which mainline Linux uses.
pub const MALI_LPAE: PageTableFormat = PageTableFormat {
    format: MmuFormat::MaliLpae,
    name: "mali-lpae",
    title: "Mali LPAE",
    entry_layout: "mali-lpae-entry",
    page: 1,
    access_flag: false,
    shareable: 3 << 8,
    // Mode 3: translate by tables; bit 2: table reads may use the inner cache.
    root_bits: 3 | 1 << 2,
    rights: |raw| (raw & 1 << 6 != 0, raw & 1 << 7 != 0),
    encode_rights: |r| u64::from(r.read) << 6 | u64::from(r.write) << 7,
};

/// Returns the description of a page-table format. It is a match, because the walkers ask it for each entry.
#[inline]
#[must_use]
pub const fn page_table_format(format: MmuFormat) -> &'static PageTableFormat {
    match format {
        MmuFormat::Aarch64_4k => &AARCH64_4K,
        MmuFormat::MaliLpae => &MALI_LPAE,
    }
}

/// The kind of an entry at its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Nothing is mapped.
    Invalid,
    /// Points to the table of the next level.
    Table(PhysAddr),
    /// A 4 KiB page.
    Page(PhysAddr),
    /// A block: 1 GiB at level 1, 2 MiB at level 2.
    Block(PhysAddr),
    /// A type that is invalid at this level.
    Reserved,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.write_str("invalid"),
            Self::Table(at) => write!(f, "table at {at}"),
            Self::Page(at) => write!(f, "page at {at}"),
            Self::Block(at) => write!(f, "block at {at}"),
            Self::Reserved => f.write_str("reserved"),
        }
    }
}

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

/// Returns the kind of an entry. A block at level 0 and other types that a format lacks are [`EntryKind::Reserved`].
#[inline]
#[must_use]
pub fn entry_kind(format: MmuFormat, level: u8, raw: u64) -> EntryKind {
    let kind = raw & TYPE_MASK;
    match level {
        _ if kind & 1 == 0 => EntryKind::Invalid,
        0..=2 if kind == TABLE => EntryKind::Table(PhysAddr::new(raw & ADDRESS)),
        1..=2 if kind == BLOCK => EntryKind::Block(PhysAddr::new(raw & ADDRESS & !(span_bytes(level) - 1))),
        3 if kind == page_table_format(format).page => EntryKind::Page(PhysAddr::new(raw & ADDRESS)),
        _ => EntryKind::Reserved,
    }
}

/// Returns bits 47 to 12 of an entry, whatever its kind.
#[must_use]
pub const fn entry_address(raw: u64) -> PhysAddr {
    PhysAddr::new(raw & ADDRESS)
}

/// Returns the bits of a leaf entry besides its address and its type: rights, attributes and other bits of a driver.
#[inline]
#[must_use]
pub const fn entry_bits(raw: u64) -> u64 {
    raw & !(ADDRESS | TYPE_MASK)
}

/// Returns the access rights of a leaf entry.
#[inline]
#[must_use]
pub fn entry_rights(format: MmuFormat, raw: u64) -> Rights {
    let (read, write) = (page_table_format(format).rights)(raw);
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
    !page_table_format(format).access_flag || raw & ACCESS_FLAG != 0
}

/// Encodes a 4 KiB page entry at level 3, inner-shareable. The low 12 bits of `pa` and bits over 47 are dropped, as is
/// an attribute index over 7. AArch64 tables cannot express write without read: such rights become read and write.
#[must_use]
pub fn encode_leaf(format: MmuFormat, pa: PhysAddr, rights: Rights, attr_index: u8) -> u64 {
    let s = page_table_format(format);
    let nx = if rights.execute { 0 } else { NOT_EXECUTABLE };
    let af = if s.access_flag { ACCESS_FLAG } else { 0 };
    pa.get() & ADDRESS | s.page | u64::from(attr_index & 7) << 2 | (s.encode_rights)(rights) | s.shareable | af | nx
}

/// Encodes an entry that points to the table at `pa`, for levels 0 to 2.
#[must_use]
pub fn encode_table(format: MmuFormat, pa: PhysAddr) -> u64 {
    let af = if page_table_format(format).access_flag {
        ACCESS_FLAG
    } else {
        0
    };
    pa.get() & ADDRESS | TABLE | af
}

/// Returns the value of an address space's root register for the top table at `root`.
#[must_use]
pub fn root_register(format: MmuFormat, root: PhysAddr) -> u64 {
    root.get() & ADDRESS | page_table_format(format).root_bits
}

/// Returns the address of the top table in a root register value, without the low control bits.
#[must_use]
pub fn root_from_register(_format: MmuFormat, value: u64) -> PhysAddr {
    PhysAddr::new(value & ADDRESS)
}
