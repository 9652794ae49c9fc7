//! The walk of one address through page tables of any format.

use super::fault::WalkFault;
use super::leaf::{Leaf, Rights};
use super::mali;
use crate::json_forms;
use crate::page_table_format::{EntryRule, MemoryName, PageTableFormat, RuleTarget, TableKind};
use crate::recording::{MemoryView, MmuFormat, Page};
use crate::{GpuVa, PhysAddr};
use serde::Serialize;
use std::fmt;

/// Memory with page tables. A frame, 4096 bytes, has content as a whole or not at all.
pub trait PhysMemory {
    /// Returns the little-endian 64-bit word at `at`, a multiple of 8, or `None` without content.
    fn read_u64(&self, at: PhysAddr) -> Option<u64>;

    /// Returns the whole image of a frame (address / 4096), if the memory can lend it: a faster way to many entries.
    /// `None` has no meaning: the caller then reads single words.
    fn table(&self, _frame: u64) -> Option<&Page> {
        None
    }
}

impl PhysMemory for MemoryView<'_> {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        MemoryView::read_u64(self, at)
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.frame(frame)
    }
}

/// Returns the number of 4 or 8 bytes at an address that is a multiple of its size.
#[inline]
pub(super) fn read_entry(mem: &(impl PhysMemory + ?Sized), at: PhysAddr, bytes: u64) -> Option<u64> {
    if bytes == 8 {
        return mem.read_u64(at);
    }
    let word = mem.read_u64(at.align_down(8))?;
    Some(word >> ((at.get() & 4) * 8) & u64::from(u32::MAX))
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Nothing is mapped.
    Invalid,
    /// Points to the table of the next level.
    Table(PhysAddr),
    /// A page: the entry is of a table that holds pages alone.
    Page(PhysAddr),
    /// A block: the entry is of a table that may also point to tables.
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

/// One entry that a walk read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WalkStep {
    /// Level, 0 is the top.
    pub level: u8,
    /// Name of the kind of its table.
    pub table: &'static str,
    /// Index in the table.
    pub index: u32,
    /// Physical address of the entry.
    #[serde(serialize_with = "json_forms::text")]
    pub entry_at: PhysAddr,
    /// The entry; of an entry with parts, the part.
    #[serde(serialize_with = "json_forms::hex")]
    pub raw: u64,
    /// Its kind, and where it points.
    #[serde(serialize_with = "json_forms::text")]
    pub kind: EntryKind,
    /// The memory that it points to; absent if the format has one memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryName>,
    /// Number of the kind of its table in the description of the format.
    #[serde(skip)]
    pub table_kind: u8,
    /// Size of the entry, bytes.
    #[serde(skip)]
    pub entry_bytes: u8,
    /// Size of the addresses that it covers, bytes.
    #[serde(skip)]
    pub span_bytes: u64,
}

/// A walk with all its steps, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The entries read, from the top.
    pub steps: Vec<WalkStep>,
    /// The result.
    pub result: Result<Leaf, WalkFault>,
}

/// Translates one address. Reads one word per level, one more below an entry with two parts, and allocates nothing.
///
/// # Errors
/// The fault that ends the walk.
#[inline]
pub fn translate(
    format: MmuFormat,
    root: PhysAddr,
    va: GpuVa,
    mem: &(impl PhysMemory + ?Sized),
) -> Result<Leaf, WalkFault> {
    match format {
        MmuFormat::Described(described) => walk_with(described.description(), root, va, mem, |_| {}),
        _ => mali::translate(format, root, va, mem),
    }
}

/// Translates one address and returns every entry on the way.
#[must_use]
pub fn walk(format: MmuFormat, root: PhysAddr, va: GpuVa, mem: &(impl PhysMemory + ?Sized)) -> Walk {
    let format = format.description();
    let mut steps = Vec::with_capacity(usize::from(format.levels()) + 1);
    let result = walk_with(format, root, va, mem, |s| steps.push(s));
    Walk { steps, result }
}

/// A table on the way of a walk.
#[derive(Clone, Copy)]
struct WalkTable {
    kind: &'static TableKind,
    number: u8,
    at: PhysAddr,
    level: u8,
    rights: Rights,
}

#[inline]
fn walk_with(
    format: &'static PageTableFormat,
    root: PhysAddr,
    va: GpuVa,
    mem: &(impl PhysMemory + ?Sized),
    mut step: impl FnMut(WalkStep),
) -> Result<Leaf, WalkFault> {
    let too_wide = WalkFault::AddressTooWide {
        bits: format.address_bits() as u8,
    };
    let low = format.translated_bits(va).ok_or(too_wide)?;
    let mut number = format.root();
    let kind = format.tables().get(usize::from(number)).ok_or(too_wide)?;
    let mut table = WalkTable {
        kind,
        number,
        at: root.align_down(format.root_alignment()),
        level: 0,
        rights: ALL_RIGHTS,
    };
    // The table and part that are tried where the first part of an entry leads to nothing.
    let mut alternative: Option<(WalkTable, usize)> = None;
    let mut first_part = 0;
    'tables: loop {
        let (kind, level) = (table.kind, table.level);
        let index = kind.index(low);
        let entry_at = table.at.saturating_add(index << kind.stride().trailing_zeros());
        let parts = kind.parts();
        for (part_number, part) in parts.iter().enumerate().skip(first_part) {
            let at = entry_at.saturating_add(part.offset());
            let missing = WalkFault::TableMissing { level, at: table.at };
            let raw = read_entry(mem, at, part.bytes()).ok_or(missing)?;
            let rule = part.find_rule(raw).map(|(_, rule)| rule);
            let decoded = Decoded::new(kind, rule, raw);
            step(WalkStep {
                level,
                table: kind.name(),
                index: index as u32,
                entry_at: at,
                raw,
                kind: decoded.kind,
                memory: decoded.memory,
                table_kind: table.number,
                entry_bytes: part.bytes() as u8,
                span_bytes: kind.span_bytes(),
            });
            match decoded.kind {
                EntryKind::Reserved => return Err(WalkFault::BadEntry { level, raw }),
                EntryKind::Invalid if decoded.is_hole => return Err(WalkFault::NotMapped { level }),
                EntryKind::Invalid => {}
                // Each table translates lower bits than the one above, so this ends.
                EntryKind::Table(next) => {
                    if let Some(memory) = decoded.elsewhere(format) {
                        return Err(WalkFault::TableElsewhere {
                            level: level + 1,
                            at: next,
                            memory,
                        });
                    }
                    if part_number + 1 < parts.len() {
                        alternative = Some((table, part_number + 1));
                    }
                    number = decoded.table;
                    table = WalkTable {
                        kind: format.tables().get(usize::from(number)).ok_or(too_wide)?,
                        number,
                        at: next,
                        level: level + 1,
                        rights: match format.is_restricting() {
                            true => table.rights.restrict(Rights::from_bits(format.rights(raw))),
                            false => table.rights,
                        },
                    };
                    first_part = 0;
                    continue 'tables;
                }
                EntryKind::Page(pa) | EntryKind::Block(pa) => {
                    if !format.has_access_flag(raw) {
                        return Err(WalkFault::NoAccessFlag { level, raw });
                    }
                    let source = LeafSource {
                        format,
                        kind,
                        number: table.number,
                        level,
                        rights: table.rights,
                    };
                    let leaf = source.leaf(low.get() & !(kind.span_bytes() - 1), pa, raw, decoded.elsewhere(format));
                    return match leaf.elsewhere {
                        Some(memory) => Err(WalkFault::PageElsewhere { leaf, memory }),
                        None => Ok(leaf),
                    };
                }
            }
        }
        match alternative.take() {
            Some((above, part)) => (table, first_part) = (above, part),
            None => return Err(WalkFault::NotMapped { level }),
        }
    }
}

/// Rights that restrict nothing.
pub(super) const ALL_RIGHTS: Rights = Rights {
    read: true,
    write: true,
    execute: true,
};

/// The meaning of an entry.
#[derive(Clone, Copy)]
pub(super) struct Decoded {
    pub kind: EntryKind,
    /// Number of the kind of the next table.
    pub table: u8,
    pub memory: Option<MemoryName>,
    /// Whether other parts of the entry above are not tried.
    pub is_hole: bool,
}

impl Decoded {
    #[inline]
    pub fn new(kind: &TableKind, rule: Option<&EntryRule>, raw: u64) -> Self {
        let mut decoded = Self {
            kind: EntryKind::Reserved,
            table: 0,
            memory: None,
            is_hole: false,
        };
        let Some(rule) = rule else { return decoded };
        decoded.memory = rule.memory();
        decoded.kind = match rule.target() {
            RuleTarget::Invalid => EntryKind::Invalid,
            RuleTarget::Hole => {
                decoded.is_hole = true;
                EntryKind::Invalid
            }
            RuleTarget::Table(number) => {
                decoded.table = number;
                EntryKind::Table(rule.address(raw))
            }
            RuleTarget::Page => {
                let pa = rule.address(raw).align_down(kind.span_bytes());
                match kind.is_last() {
                    true => EntryKind::Page(pa),
                    false => EntryKind::Block(pa),
                }
            }
        };
        decoded
    }

    /// Returns the memory of the target, if it is another one than a dump holds.
    #[inline]
    pub fn elsewhere(&self, format: &PageTableFormat) -> Option<MemoryName> {
        self.memory.filter(|m| Some(*m) != format.memory())
    }
}

/// What the leaves of a table have in common.
#[derive(Clone, Copy)]
pub(super) struct LeafSource<'f> {
    pub format: &'f PageTableFormat,
    pub kind: &'f TableKind,
    pub number: u8,
    pub level: u8,
    pub rights: Rights,
}

impl LeafSource<'_> {
    /// Returns the leaf of an entry; `low` are the translated bits of its first address.
    #[inline]
    pub fn leaf(&self, low: u64, pa: PhysAddr, raw: u64, elsewhere: Option<MemoryName>) -> Leaf {
        let own = Rights::from_bits(self.format.rights(raw));
        Leaf {
            va: self.format.extend(low),
            pa,
            bytes: self.kind.span_bytes(),
            rights: match self.format.is_restricting() {
                true => own.restrict(self.rights),
                false => own,
            },
            attr_index: self.kind.attribute(raw),
            raw,
            level: self.level,
            table: self.number,
            elsewhere,
        }
    }
}

/// Returns the rule of a leaf entry in a table of this kind.
fn leaf_rule(format: MmuFormat, table: u8, raw: u64) -> Option<(&'static TableKind, &'static EntryRule)> {
    let kind = format.description().tables().get(usize::from(table))?;
    // Only the first part of an entry has pages.
    let (_, rule) = kind.parts().first()?.find_rule(raw)?;
    Some((kind, rule))
}

/// Returns the bits of a leaf entry besides its address and its type: rights, attributes and other bits of a driver.
#[must_use]
pub fn other_bits(format: MmuFormat, leaf: &Leaf) -> u64 {
    leaf_rule(format, leaf.table, leaf.raw).map_or(0, |(_, rule)| rule.other_bits(leaf.raw))
}

/// Returns the named fields of a leaf entry with their values, and the bits that no field, address, type or right has.
/// `table` is the number of the kind of its table.
#[must_use]
pub fn entry_fields(format: MmuFormat, table: u8, raw: u64) -> (Vec<(&'static str, String)>, u64) {
    let Some((kind, rule)) = leaf_rule(format, table, raw) else {
        return (Vec::new(), 0);
    };
    let fields = kind.fields().iter();
    let known = fields
        .clone()
        .fold(format.description().rights_mask(), |sum, f| sum | f.bits.mask());
    let described = fields.map(|f| (f.name.as_str(), f.describe(raw))).collect();
    (described, rule.other_bits(raw) & !known)
}

/// Returns the kind of an entry at a level, with the rights of a leaf. If the level has several kinds of tables, the first
/// counts by which the entry is not invalid.
#[must_use]
pub fn decode_entry(format: MmuFormat, level: u8, raw: u64) -> (EntryKind, Option<Rights>) {
    let format = format.description();
    let decoded = format.tables_at(level).flat_map(|(_, kind)| {
        let parts = kind.parts().iter();
        parts.map(move |part| Decoded::new(kind, part.find_rule(raw).map(|(_, r)| r), raw).kind)
    });
    let rank = |kind: &EntryKind| match kind {
        EntryKind::Table(_) | EntryKind::Page(_) | EntryKind::Block(_) => 0,
        EntryKind::Invalid => 1,
        EntryKind::Reserved => 2,
    };
    let kind = decoded.min_by_key(rank).unwrap_or(EntryKind::Reserved);
    let is_leaf = matches!(kind, EntryKind::Page(_) | EntryKind::Block(_));
    (kind, is_leaf.then(|| Rights::from_bits(format.rights(raw))))
}
