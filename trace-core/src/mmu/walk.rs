//! The page-table walker: one address, all leaves, all tables; limited on hostile tables.

use super::format::{
    EntryKind, LEVELS, PAGE_BYTES, VA_BITS, entry_attr_index, entry_kind, entry_rights, has_access_flag, index_at,
    span_bytes,
};
use super::leaf::{Leaf, Rights};
use crate::json_forms;
use crate::recording::{MemoryView, MmuFormat, Page};
use crate::{GpuVa, PhysAddr};
use serde::Serialize;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Maximum number of tables in a traversal.
pub const MAX_TABLES: usize = 1 << 16;
/// Maximum number of pages and blocks in a traversal: 32 GiB if all are 4 KiB pages. One page image can be in any
/// number of frames, so the file size is no limit.
pub const MAX_LEAVES: u64 = 1 << 23;

/// Memory with page tables.
pub trait PhysMemory {
    /// Returns the little-endian 64-bit word at `at`, a multiple of 8, or `None` without content.
    fn read_u64(&self, at: PhysAddr) -> Option<u64>;

    /// Returns the whole image of a frame (address / 4096), if the memory can lend it: a faster way to 512 entries.
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

/// The reason why an address does not translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkFault {
    /// The entry at this level is invalid.
    #[error("nothing is mapped (level {level})")]
    NotMapped {
        /// Level of the entry, 0 to 3.
        level: u8,
    },
    /// The table has no recorded content.
    #[error("the level {level} table at {at} has no content")]
    TableMissing {
        /// Level of the table, 0 to 3.
        level: u8,
        /// Address of the table.
        at: PhysAddr,
    },
    /// The entry has a type that is invalid at its level.
    #[error("entry {raw:#x} is not valid at level {level}")]
    BadEntry {
        /// Level of the entry, 0 to 3.
        level: u8,
        /// The entry.
        raw: u64,
    },
    /// The leaf lacks the access flag, which the hardware reports as a separate fault.
    #[error("entry {raw:#x} at level {level} lacks the access flag")]
    NoAccessFlag {
        /// Level of the entry, 0 to 3.
        level: u8,
        /// The entry.
        raw: u64,
    },
    /// The address has more bits than the tables translate.
    #[error("the address has more than {VA_BITS} bits")]
    AddressTooWide,
}

/// One entry that a walk read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WalkStep {
    /// Level, 0 to 3.
    pub level: u8,
    /// Index in the table, 0 to 511.
    pub index: u16,
    /// Physical address of the entry.
    #[serde(serialize_with = "json_forms::text")]
    pub entry_at: PhysAddr,
    /// The entry.
    #[serde(serialize_with = "json_forms::hex")]
    pub raw: u64,
    /// Its kind, and where it points.
    #[serde(serialize_with = "json_forms::text")]
    pub kind: EntryKind,
}

/// A walk with all its steps, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The entries read, from the top.
    pub steps: Vec<WalkStep>,
    /// The result.
    pub result: Result<Leaf, WalkFault>,
}

/// Translates one address. Reads at most four words and allocates nothing.
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
    walk_with(format, root, va, mem, |_| {})
}

/// Translates one address and returns every entry on the way.
#[must_use]
pub fn walk(format: MmuFormat, root: PhysAddr, va: GpuVa, mem: &(impl PhysMemory + ?Sized)) -> Walk {
    let mut steps = Vec::with_capacity(usize::from(LEVELS));
    let result = walk_with(format, root, va, mem, |s| steps.push(s));
    Walk { steps, result }
}

#[inline]
fn walk_with(
    format: MmuFormat,
    root: PhysAddr,
    va: GpuVa,
    mem: &(impl PhysMemory + ?Sized),
    mut step: impl FnMut(WalkStep),
) -> Result<Leaf, WalkFault> {
    if va.get() >> VA_BITS != 0 {
        return Err(WalkFault::AddressTooWide);
    }
    let mut table = root.align_down(PAGE_BYTES);
    let mut level = 0;
    loop {
        let index = index_at(level, va);
        let entry_at = PhysAddr::new(table.get() | u64::from(index) << 3);
        let raw = mem
            .read_u64(entry_at)
            .ok_or(WalkFault::TableMissing { level, at: table })?;
        let kind = entry_kind(format, level, raw);
        step(WalkStep {
            level,
            index,
            entry_at,
            raw,
            kind,
        });
        match kind {
            EntryKind::Invalid => return Err(WalkFault::NotMapped { level }),
            EntryKind::Reserved => return Err(WalkFault::BadEntry { level, raw }),
            // The last level has no tables, so this ends.
            EntryKind::Table(next) => table = next,
            EntryKind::Page(pa) | EntryKind::Block(pa) => {
                if !has_access_flag(format, raw) {
                    return Err(WalkFault::NoAccessFlag { level, raw });
                }
                return Ok(leaf(format, level, va.get() & !(span_bytes(level) - 1), pa, raw));
            }
        }
        level += 1;
    }
}

#[inline]
fn leaf(format: MmuFormat, level: u8, va: u64, pa: PhysAddr, raw: u64) -> Leaf {
    Leaf {
        va: GpuVa::new(va),
        pa,
        bytes: span_bytes(level),
        rights: entry_rights(format, raw),
        attr_index: entry_attr_index(raw),
        raw,
        level,
    }
}

/// The reason why a table cannot be traversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MmuError {
    /// A table is reached a second time: it is shared, or the tables form a loop.
    #[error(
        "the level {level} table at {at}, for addresses from {va}, was reached before: tables are shared or form a \
             loop"
    )]
    Shared {
        /// Level of the second visit.
        level: u8,
        /// Address of the table.
        at: PhysAddr,
        /// First address that it would translate.
        va: GpuVa,
    },
    /// A table has no recorded content.
    #[error("the level {level} table at {at}, for addresses from {va}, has no content")]
    TableMissing {
        /// Level of the table.
        level: u8,
        /// Address of the table.
        at: PhysAddr,
        /// First address that it would translate.
        va: GpuVa,
    },
    /// An entry has a type that is invalid at its level.
    #[error("entry {raw:#x} for {va} is not valid at level {level}")]
    BadEntry {
        /// Level of the entry.
        level: u8,
        /// First address that the entry covers.
        va: GpuVa,
        /// The entry.
        raw: u64,
    },
    /// There are more tables than the traversal limit.
    #[error("more than {MAX_TABLES} tables")]
    TooManyTables,
    /// There are more pages and blocks than the traversal limit.
    #[error("more than {MAX_LEAVES} pages and blocks are mapped")]
    TooManyLeaves,
}

/// A table that a traversal entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRef {
    /// Level, 0 to 3.
    pub level: u8,
    /// Address of the table.
    pub at: PhysAddr,
    /// First address that it translates.
    pub va: GpuVa,
}

/// An item of a traversal.
#[derive(Clone, Copy, Debug)]
pub enum TableItem {
    /// A table, before its entries.
    Table(TableRef),
    /// A page or block.
    Leaf(Leaf),
    /// An invalid table or entry. A continued traversal skips it.
    Problem(MmuError),
}

/// Visits all tables by ascending address, skips invalid parts, and ends when `visit` breaks. Stores nothing, so it is
/// safe for address spaces of any size that a file describes.
pub fn visit_all(
    format: MmuFormat,
    root: PhysAddr,
    mem: &(impl PhysMemory + ?Sized),
    visit: &mut dyn FnMut(TableItem) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let root = root.align_down(PAGE_BYTES);
    let mut seen = VisitState::default();
    table(
        format,
        TableRef {
            level: 0,
            at: root,
            va: GpuVa::ZERO,
        },
        mem,
        &mut seen,
        visit,
    )
}

/// The state of a traversal.
#[derive(Default)]
struct VisitState {
    tables: HashSet<u64>,
    leaves: u64,
}

/// Visits a table. Recursion depth is limited: a table entry only exists above the last level.
fn table(
    format: MmuFormat,
    this: TableRef,
    mem: &(impl PhysMemory + ?Sized),
    seen: &mut VisitState,
    visit: &mut dyn FnMut(TableItem) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let TableRef { level, at, va } = this;
    if seen.tables.len() >= MAX_TABLES {
        visit(TableItem::Problem(MmuError::TooManyTables))?;
        return ControlFlow::Break(());
    }
    if !seen.tables.insert(at.frame()) {
        return visit(TableItem::Problem(MmuError::Shared { level, at, va }));
    }
    let page = mem.table(at.frame());
    if page.is_none() && mem.read_u64(at).is_none() {
        return visit(TableItem::Problem(MmuError::TableMissing { level, at, va }));
    }
    visit(TableItem::Table(this))?;
    for index in 0..512u64 {
        let entry_va = GpuVa::new(va.get() | index << span_bytes(level).trailing_zeros());
        let raw = match page {
            Some(p) => p.as_chunks::<8>().0.get(index as usize).map(|b| u64::from_le_bytes(*b)),
            None => mem.read_u64(PhysAddr::new(at.get() | index << 3)),
        };
        let Some(raw) = raw else {
            visit(TableItem::Problem(MmuError::TableMissing {
                level,
                at,
                va: entry_va,
            }))?;
            continue;
        };
        match entry_kind(format, level, raw) {
            EntryKind::Invalid => {}
            EntryKind::Reserved => visit(TableItem::Problem(MmuError::BadEntry {
                level,
                va: entry_va,
                raw,
            }))?,
            EntryKind::Table(at) => {
                table(
                    format,
                    TableRef {
                        level: level + 1,
                        at,
                        va: entry_va,
                    },
                    mem,
                    seen,
                    visit,
                )?;
            }
            EntryKind::Page(pa) | EntryKind::Block(pa) => {
                seen.leaves += 1;
                if seen.leaves > MAX_LEAVES {
                    visit(TableItem::Problem(MmuError::TooManyLeaves))?;
                    return ControlFlow::Break(());
                }
                visit(TableItem::Leaf(leaf(format, level, entry_va.get(), pa, raw)))?;
            }
        }
    }
    ControlFlow::Continue(())
}

/// Visits every leaf by ascending address until `visit` breaks. A leaf without access flag is visited too.
///
/// # Errors
///
/// At the first invalid table or entry; earlier leaves were visited. [`super::scan`] continues instead and lists the
/// problems.
pub fn for_each_leaf(
    format: MmuFormat,
    root: PhysAddr,
    mem: &(impl PhysMemory + ?Sized),
    visit: &mut dyn FnMut(Leaf) -> ControlFlow<()>,
) -> Result<(), MmuError> {
    let mut result = Ok(());
    let _ = visit_all(format, root, mem, &mut |found| match found {
        TableItem::Leaf(l) => visit(l),
        TableItem::Table(_) => ControlFlow::Continue(()),
        TableItem::Problem(e) => {
            result = Err(e);
            ControlFlow::Break(())
        }
    });
    result
}

/// Visits every table, each before those that it points to.
///
/// # Errors
///
/// At the first invalid table or entry.
pub fn for_each_table(
    format: MmuFormat,
    root: PhysAddr,
    mem: &(impl PhysMemory + ?Sized),
    visit: &mut dyn FnMut(TableRef),
) -> Result<(), MmuError> {
    let mut result = Ok(());
    let _ = visit_all(format, root, mem, &mut |found| {
        match found {
            TableItem::Leaf(_) => {}
            TableItem::Table(t) => visit(t),
            TableItem::Problem(e) => {
                result = Err(e);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    result
}

/// A run of contiguous pages with the same rights and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub va: GpuVa,
    /// Number of 4 KiB pages; a block counts as all pages that it covers.
    pub pages: u64,
    /// Access rights of the GPU.
    pub rights: Rights,
    /// Index into the memory attributes, 0 to 7.
    pub attr_index: u8,
    /// Physical address of the run, if its pages are physically contiguous too.
    pub contiguous_pa: Option<PhysAddr>,
}

impl Mapping {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BYTES)
    }

    /// Returns the address after the last one.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        self.va.saturating_add(self.bytes())
    }

    /// Whether an address lies in the run.
    #[must_use]
    pub fn contains(&self, va: GpuVa) -> bool {
        self.va <= va && va < self.end()
    }
}

/// Merges leaves, by ascending address, into mappings.
pub(super) fn fold(runs: &mut Vec<Mapping>, leaf: &Leaf) {
    let pages = leaf.bytes / PAGE_BYTES;
    if let Some(last) = runs.last_mut()
        && last.end() == leaf.va
        && last.rights == leaf.rights
        && last.attr_index == leaf.attr_index
    {
        let next = last.contiguous_pa.and_then(|p| p.checked_add(last.bytes()));
        if next != Some(leaf.pa) {
            last.contiguous_pa = None;
        }
        last.pages += pages;
        return;
    }
    runs.push(Mapping {
        va: leaf.va,
        pages,
        rights: leaf.rights,
        attr_index: leaf.attr_index,
        contiguous_pa: Some(leaf.pa),
    });
}

/// Returns all mappings by ascending address.
///
/// # Errors
///
/// At the first invalid table or entry; [`super::scan`] continues instead.
pub fn mappings(format: MmuFormat, root: PhysAddr, mem: &(impl PhysMemory + ?Sized)) -> Result<Vec<Mapping>, MmuError> {
    let mut runs = Vec::new();
    for_each_leaf(format, root, mem, &mut |leaf| {
        fold(&mut runs, &leaf);
        ControlFlow::Continue(())
    })?;
    Ok(runs)
}
