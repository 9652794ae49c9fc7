//! The traversal of all tables and leaves by ascending address, limited on hostile tables.

use super::fault::MmuError;
use super::leaf::{Leaf, Rights};
use super::limits::{MAX_ENTRIES, MAX_LEAVES, MAX_TABLES};
use super::walk::{ALL_RIGHTS, Decoded, EntryKind, LeafSource, PhysMemory, read_entry};
use crate::page_table_format::{EntryPart, PageTableFormat, TableKind};
use crate::recording::{MmuFormat, Page};
use crate::{GpuVa, PAGE_SIZE, PhysAddr};
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

/// A table that a traversal entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRef {
    /// Level, 0 is the top.
    pub level: u8,
    /// Address of the table.
    pub at: PhysAddr,
    /// First address that it translates.
    pub va: GpuVa,
    /// Number of its kind in the description of the format.
    pub kind: u8,
    /// Size of the table, bytes.
    pub bytes: u64,
}

impl TableRef {
    /// Returns the frames (address / 4096) that the table lies in.
    #[must_use]
    pub fn frames(&self) -> Range<u64> {
        let last = self.at.saturating_add(self.bytes.saturating_sub(1)).frame();
        self.at.frame()..last.saturating_add(1)
    }
}

/// An item of a traversal.
#[derive(Clone, Copy, Debug)]
pub enum TableItem {
    /// A table, before its entries.
    Table(TableRef),
    /// A page or block.
    Leaf(Leaf),
    /// A page or block in a memory that the recording does not hold, [`Leaf::elsewhere`].
    LeafElsewhere(Leaf),
    /// An invalid table or entry. A continued traversal skips it.
    Problem(MmuError),
}

/// Visits all tables by ascending address, skips invalid parts, and ends when `visit` breaks. Stores nothing, so it is
/// safe for address spaces of any size that a file describes.
///
/// Two tables below one entry are announced before the leaves of both.
pub fn visit_all(
    format: MmuFormat,
    root: PhysAddr,
    mem: &(impl PhysMemory + ?Sized),
    visit: &mut dyn FnMut(TableItem) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let format = format.description();
    let mut traversal = Traversal {
        format,
        mem,
        visit,
        tables: HashSet::new(),
        entries: 0,
        leaves: 0,
    };
    let root = root.align_down(format.root_alignment());
    match traversal.enter(format.root(), root, 0, 0, ALL_RIGHTS)? {
        Some(table) => traversal.entries(&table, 0..table.kind.entries()),
        None => ControlFlow::Continue(()),
    }
}

/// A table whose entries are visited.
#[derive(Clone, Copy)]
struct OpenTable<'f> {
    kind: &'f TableKind,
    number: u8,
    at: PhysAddr,
    level: u8,
    /// Translated bits of the first address.
    low: u64,
    rights: Rights,
    /// Image of the first frame, if the memory lends it.
    first_page: Option<&'f Page>,
}

/// An entry, in its table.
struct Entry {
    index: u64,
    /// Translated bits of its first address.
    low: u64,
}

/// The state of a traversal.
struct Traversal<'f, 'v, M: ?Sized> {
    format: &'f PageTableFormat,
    mem: &'f M,
    visit: &'v mut dyn FnMut(TableItem) -> ControlFlow<()>,
    tables: HashSet<u64>,
    entries: u64,
    leaves: u64,
}

impl<'f, M: PhysMemory + ?Sized> Traversal<'f, '_, M> {
    fn problem(&mut self, error: MmuError) -> ControlFlow<()> {
        (self.visit)(TableItem::Problem(error))
    }

    /// Announces a table. Returns `None` if it cannot be visited.
    fn enter(
        &mut self,
        number: u8,
        at: PhysAddr,
        level: u8,
        low: u64,
        rights: Rights,
    ) -> ControlFlow<(), Option<OpenTable<'f>>> {
        let va = self.format.extend(low);
        let Some(kind) = self.format.tables().get(usize::from(number)) else {
            return ControlFlow::Continue(None);
        };
        if self.tables.len() >= MAX_TABLES {
            self.problem(MmuError::TooManyTables)?;
            return ControlFlow::Break(());
        }
        if !self.tables.insert(at.get()) {
            self.problem(MmuError::Shared { level, at, va })?;
            return ControlFlow::Continue(None);
        }
        let bytes = kind.entries() << kind.stride().trailing_zeros();
        // A table of many frames may have content in some of them.
        let first_page = self.mem.table(at.frame());
        let is_missing =
            bytes <= PAGE_SIZE as u64 && first_page.is_none() && self.mem.read_u64(at.align_down(8)).is_none();
        if is_missing {
            self.problem(MmuError::TableMissing { level, at, va })?;
            return ControlFlow::Continue(None);
        }
        (self.visit)(TableItem::Table(TableRef {
            level,
            at,
            va,
            kind: number,
            bytes,
        }))?;
        ControlFlow::Continue(Some(OpenTable {
            kind,
            number,
            at,
            level,
            low,
            rights,
            first_page,
        }))
    }

    /// Visits a table below an entry. Recursion depth is limited: each table translates lower bits than the one above.
    fn below(
        &mut self,
        above: &OpenTable<'f>,
        entry: &Entry,
        decoded: &Decoded,
        raw: u64,
    ) -> ControlFlow<(), Option<OpenTable<'f>>> {
        let EntryKind::Table(at) = decoded.kind else {
            return ControlFlow::Continue(None);
        };
        let level = above.level + 1;
        if let Some(memory) = decoded.elsewhere(self.format) {
            let va = self.format.extend(entry.low);
            self.problem(MmuError::TableElsewhere { level, at, va, memory })?;
            return ControlFlow::Continue(None);
        }
        let rights = match self.format.is_restricting() {
            true => above.rights.restrict(Rights::from_bits(self.format.rights(raw))),
            false => above.rights,
        };
        self.enter(decoded.table, at, level, entry.low, rights)
    }

    /// Visits entries of a table, frame by frame.
    fn entries(&mut self, table: &OpenTable<'f>, range: Range<u64>) -> ControlFlow<()> {
        match table.kind.parts() {
            [part] => self.each_entry(table, part, range, |this, entry, raw| {
                this.single(table, part, &entry, raw)
            }),
            [first, second] => self.each_entry(table, first, range, |this, entry, raw| {
                this.double(table, (first, second), &entry, raw)
            }),
            _ => ControlFlow::Continue(()),
        }
    }

    /// Calls `each` with the entries of a range that have content. `part` is the part that is read.
    #[inline]
    fn each_entry(
        &mut self,
        table: &OpenTable<'f>,
        part: &'f EntryPart,
        range: Range<u64>,
        mut each: impl FnMut(&mut Self, Entry, u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let kind = table.kind;
        let (stride, mem) = (kind.stride(), self.mem);
        // Zero bits of the first part say nothing about the second one.
        let skips_zero = part.is_zero_invalid() && kind.parts().len() == 1;
        let mut index = range.start;
        let mut was_missing = false;
        while index < range.end {
            let at = table.at.get().checked_add(index << stride.trailing_zeros());
            let Some(at) = at.map(PhysAddr::new) else {
                return ControlFlow::Continue(());
            };
            let in_frame = (PAGE_SIZE - at.in_page()) as u64;
            let end = index.saturating_add(in_frame.div_ceil(stride)).min(range.end);
            let page = match at.frame() == table.at.frame() {
                true => table.first_page,
                false => mem.table(at.frame()),
            };
            let first = at.saturating_add(part.offset());
            let is_missing = page.is_none() && read_entry(mem, first, part.bytes()).is_none();
            if is_missing {
                self.count_entries(1)?;
                if !was_missing {
                    let va = self.format.extend(table.low | index << kind.shift());
                    self.problem(MmuError::TableMissing {
                        level: table.level,
                        at,
                        va,
                    })?;
                }
            } else {
                self.count_entries(end - index)?;
                let mut from = at.in_page() + part.offset() as usize;
                for index in index..end {
                    let raw = match page {
                        Some(page) => entry_in(page, from, part.bytes()),
                        None => {
                            let at = at.align_down(PAGE_SIZE as u64).saturating_add(from as u64);
                            read_entry(mem, at, part.bytes()).unwrap_or(0)
                        }
                    };
                    from += stride as usize;
                    if raw == 0 && skips_zero {
                        continue;
                    }
                    let low = table.low | index << kind.shift();
                    each(self, Entry { index, low }, raw)?;
                }
            }
            was_missing = is_missing;
            index = end;
        }
        ControlFlow::Continue(())
    }

    fn count_entries(&mut self, entries: u64) -> ControlFlow<()> {
        self.entries = self.entries.saturating_add(entries);
        if self.entries > MAX_ENTRIES {
            self.problem(MmuError::TooManyEntries)?;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Visits an entry of one part.
    #[inline]
    fn single(&mut self, table: &OpenTable<'f>, part: &EntryPart, entry: &Entry, raw: u64) -> ControlFlow<()> {
        let decoded = Decoded::new(table.kind, part.find_rule(raw).map(|(_, r)| r), raw);
        match decoded.kind {
            EntryKind::Invalid => ControlFlow::Continue(()),
            EntryKind::Table(_) => match self.below(table, entry, &decoded, raw)? {
                Some(next) => self.entries(&next, 0..next.kind.entries()),
                None => ControlFlow::Continue(()),
            },
            EntryKind::Reserved | EntryKind::Page(_) | EntryKind::Block(_) => self.leaf(table, entry, &decoded, raw),
        }
    }

    /// Visits an entry that is a leaf, or has no meaning.
    #[inline]
    fn leaf(&mut self, table: &OpenTable<'f>, entry: &Entry, decoded: &Decoded, raw: u64) -> ControlFlow<()> {
        let (EntryKind::Page(pa) | EntryKind::Block(pa)) = decoded.kind else {
            let (level, va) = (table.level, self.format.extend(entry.low));
            return self.problem(MmuError::BadEntry { level, va, raw });
        };
        self.leaves += 1;
        if self.leaves > MAX_LEAVES {
            self.problem(MmuError::TooManyLeaves)?;
            return ControlFlow::Break(());
        }
        let source = LeafSource {
            format: self.format,
            kind: table.kind,
            number: table.number,
            level: table.level,
            rights: table.rights,
        };
        let leaf = source.leaf(entry.low, pa, raw, decoded.elsewhere(self.format));
        (self.visit)(match leaf.elsewhere {
            None => TableItem::Leaf(leaf),
            Some(_) => TableItem::LeafElsewhere(leaf),
        })
    }

    /// Visits an entry of two parts. The second counts where the first maps nothing.
    fn double(
        &mut self,
        table: &OpenTable<'f>,
        (first, second): (&'f EntryPart, &'f EntryPart),
        entry: &Entry,
        raw: u64,
    ) -> ControlFlow<()> {
        let decoded = Decoded::new(table.kind, first.find_rule(raw).map(|(_, r)| r), raw);
        match decoded.kind {
            EntryKind::Invalid if decoded.is_hole => return ControlFlow::Continue(()),
            EntryKind::Reserved | EntryKind::Page(_) | EntryKind::Block(_) => {
                return self.leaf(table, entry, &decoded, raw);
            }
            EntryKind::Invalid | EntryKind::Table(_) => {}
        }
        let entry_at = table
            .at
            .saturating_add(entry.index << table.kind.stride().trailing_zeros());
        let second_raw = read_entry(self.mem, entry_at.saturating_add(second.offset()), second.bytes());
        let other = second_raw.map(|raw| (raw, second.find_rule(raw).map(|(_, r)| r)));
        if decoded.kind == EntryKind::Invalid {
            let Some((raw, rule)) = other else {
                return ControlFlow::Continue(());
            };
            let decoded = Decoded::new(table.kind, rule, raw);
            return match decoded.kind {
                EntryKind::Table(_) => match self.below(table, entry, &decoded, raw)? {
                    Some(next) => self.entries(&next, 0..next.kind.entries()),
                    None => ControlFlow::Continue(()),
                },
                EntryKind::Invalid => ControlFlow::Continue(()),
                _ => self.leaf(table, entry, &decoded, raw),
            };
        }
        // Without the first table it is not known which pages of the second count.
        let Some(large) = self.below(table, entry, &decoded, raw)? else {
            return ControlFlow::Continue(());
        };
        let mut small = None;
        if let Some((raw, rule)) = other {
            let decoded = Decoded::new(table.kind, rule, raw);
            match decoded.kind {
                EntryKind::Table(_) => small = self.below(table, entry, &decoded, raw)?,
                EntryKind::Invalid => {}
                _ => self.leaf(table, entry, &decoded, raw)?,
            }
        }
        match small {
            Some(small) => self.merged(&large, &small),
            None => self.entries(&large, 0..large.kind.entries()),
        }
    }

    /// Visits two tables of the same addresses; entries of the second count where the first maps nothing.
    fn merged(&mut self, large: &OpenTable<'f>, small: &OpenTable<'f>) -> ControlFlow<()> {
        let [part] = large.kind.parts() else {
            return ControlFlow::Continue(());
        };
        // Entries of the second table for each of the first, as a base-2 logarithm.
        let log = large.kind.shift().saturating_sub(small.kind.shift());
        let mut index = 0;
        // First entry of the second table that is not visited yet, of those that count.
        let mut pending: Option<u64> = None;
        while index < large.kind.entries() {
            let at = large.at.saturating_add(index << large.kind.stride().trailing_zeros());
            let entry = Entry {
                index,
                low: large.low | index << large.kind.shift(),
            };
            self.count_entries(1)?;
            let raw = read_entry(self.mem, at.saturating_add(part.offset()), part.bytes());
            let decoded = raw.map(|raw| Decoded::new(large.kind, part.find_rule(raw).map(|(_, r)| r), raw));
            let is_open = decoded.is_some_and(|d| d.kind == EntryKind::Invalid && !d.is_hole);
            if is_open {
                pending.get_or_insert(index << log);
            } else {
                if let Some(from) = pending.take() {
                    self.entries(small, from..index << log)?;
                }
                match (raw, decoded) {
                    (Some(raw), Some(decoded)) if decoded.kind != EntryKind::Invalid => {
                        self.leaf(large, &entry, &decoded, raw)?;
                    }
                    (Some(_), _) => {}
                    (None, _) => self.problem(MmuError::TableMissing {
                        level: large.level,
                        at,
                        va: self.format.extend(entry.low),
                    })?,
                }
            }
            index += 1;
        }
        match pending {
            Some(from) => self.entries(small, from..small.kind.entries()),
            None => ControlFlow::Continue(()),
        }
    }
}

/// Returns the number of 4 or 8 bytes in a page; 0 past its end.
#[inline]
fn entry_in(page: &Page, from: usize, bytes: u64) -> u64 {
    let rest = page.get(from..).unwrap_or_default();
    match bytes {
        8 => rest.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b)),
        _ => rest.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b).into()),
    }
}

/// Visits every leaf by ascending address until `visit` breaks. A leaf without access flag is visited too, a leaf in a
/// memory that the recording does not hold is not.
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
        TableItem::Table(_) | TableItem::LeafElsewhere(_) => ControlFlow::Continue(()),
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
            TableItem::Leaf(_) | TableItem::LeafElsewhere(_) => {}
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
