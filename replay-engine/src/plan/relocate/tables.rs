//! Page tables of a recording, table by table: their location in the arena, their targets, and their changes.

use super::{Content, RelocatedMemory, Table};
use crate::plan::CompileError;
use std::ops::Range;
use trace_core::mmu::{EntryKind, MAX_TABLES, MmuError, convert_entry, entry_address, entry_kind, span_bytes};
use trace_core::recording::{FrameRole, Page, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

fn word(page: &Page, index: usize) -> u64 {
    page.as_chunks::<8>().0.get(index).map_or(0, |b| u64::from_le_bytes(*b))
}

fn set_word(page: &mut Page, index: usize, value: u64) {
    if let Some(to) = page.as_chunks_mut::<8>().0.get_mut(index) {
        *to = value.to_le_bytes();
    }
}

impl RelocatedMemory<'_> {
    /// Adds a table. Returns its number.
    pub(super) fn add_table(&mut self, table: Table) -> usize {
        let number = self.tables.len();
        self.table_at.insert((table.space, table.old), number);
        self.tables_of.entry(table.old).or_default().push(number);
        self.tables.push(table);
        number
    }

    /// Notes that an entry points at a table. Returns the table's frame in the arena.
    fn link(&mut self, space: usize, old: u64, level: u8, va: GpuVa) -> Result<u64, CompileError> {
        let number = match self.table_at.get(&(space, old)) {
            Some(number) => *number,
            None => {
                if self.tables.len() >= MAX_TABLES {
                    return Err(self.bad_tables(space, MmuError::TooManyTables));
                }
                let new = self.take(1, 1)?;
                self.add_table(Table::new(space, old, new, level, va))
            }
        };
        let at = PhysAddr::new(old.saturating_mul(PAGE_SIZE as u64));
        let shared = MmuError::Shared { level, at, va };
        let mapped = self.mapped.contains_key(&old);
        let Some(t) = self.tables.get_mut(number) else {
            return Err(CompileError::PageMissing { frame: old });
        };
        // A table with two levels can be neither relocated nor proved.
        if t.level != level {
            return Err(self.bad_tables(space, shared));
        }
        t.refs = t.refs.saturating_add(1);
        let new = t.new;
        if t.refs == 1 {
            t.va = va;
            if mapped {
                return Err(CompileError::TableMapped { va });
            }
            self.fill(number)?;
        }
        Ok(new)
    }

    fn bad_tables(&self, space: usize, source: MmuError) -> CompileError {
        let number = self.spaces.get(space).map_or(0, |s| s.number);
        CompileError::Tables { number, source }
    }

    /// Reads a table's contents as the CPU wrote them. The first time they become part of the initial contents.
    pub(super) fn fill(&mut self, number: usize) -> Result<(), CompileError> {
        let Some((old, new, first)) = self.tables.get(number).map(|t| (t.old, t.new, !t.filled)) else {
            return Ok(());
        };
        let raw = Box::new(*self.cpu.frame(old).ok_or(CompileError::PageMissing { frame: old })?);
        let Some(t) = self.tables.get_mut(number) else {
            return Ok(());
        };
        // Its former targets were released when it was removed.
        (t.filled, t.raw) = (true, Box::new(ZERO_PAGE));
        let before = std::mem::replace(&mut t.made, Box::new(ZERO_PAGE));
        self.entries(number, &raw, 0..PAGE_SIZE / 8)?;
        let Some(made) = self.tables.get(number).map(|t| t.made.clone()) else {
            return Ok(());
        };
        if first {
            self.content.insert(new, (FrameRole::Table, Content::Made(made)));
            self.fresh.insert(new);
        } else {
            self.patch_words(new, &before, &made);
        }
        Ok(())
    }

    /// Updates some entries of a table from `now`, and their targets.
    fn entries(&mut self, number: usize, now: &Page, range: Range<usize>) -> Result<(), CompileError> {
        for index in range {
            let Some(t) = self.tables.get(number) else {
                return Ok(());
            };
            let (space, level, va) = (t.space, t.level, t.va);
            let (was, raw) = (word(&t.raw, index), word(now, index));
            if was == raw {
                continue;
            }
            let va = GpuVa::new(va.get() | (index as u64) << span_bytes(level).trailing_zeros());
            let made = self.point(space, level, va, raw)?;
            self.release(space, level, was);
            if let Some(t) = self.tables.get_mut(number) {
                set_word(&mut t.raw, index, raw);
                set_word(&mut t.made, index, made);
            }
        }
        Ok(())
    }

    /// Returns an entry in its relocated form.
    fn point(&mut self, space: usize, level: u8, va: GpuVa, raw: u64) -> Result<u64, CompileError> {
        let Some((format, attributes)) = self.spaces.get(space).map(|s| (s.format, s.memattr)) else {
            return Ok(raw);
        };
        let kind = entry_kind(format, level, raw);
        let last = va.saturating_add(span_bytes(level) - 1);
        if matches!(kind, EntryKind::Page(_) | EntryKind::Block(_))
            && last.get().checked_shr(self.target.va_bits).unwrap_or(0) != 0
        {
            let bits = self.target.va_bits;
            return Err(CompileError::AddressWidth { va, bits });
        }
        let target = match kind {
            EntryKind::Table(at) => self.link(space, at.frame(), level + 1, va)?,
            EntryKind::Page(at) | EntryKind::Block(at) => self.map(va, at.frame(), span_bytes(level))?,
            EntryKind::Invalid => return Ok(raw),
            EntryKind::Reserved => return Err(self.bad_tables(space, MmuError::BadEntry { level, va, raw })),
        };
        let to = self.target.format.unwrap_or(format);
        // In the recorded format, all bits outside the address stay as recorded.
        let made = convert_entry(format, to, level, raw, attributes).map_err(|reason| CompileError::EntryFormat {
            va,
            raw,
            format: to.name(),
            reason,
        })?;
        Ok(made & !entry_address(u64::MAX).get() | target << 12)
    }

    /// Maps a page or block. Returns its first frame in the arena.
    fn map(&mut self, va: GpuVa, old: u64, bytes: u64) -> Result<u64, CompileError> {
        let count = bytes / PAGE_SIZE as u64;
        self.leaves += 1;
        self.visit(count)?;
        self.place_leaf(va, old, count)?;
        let new = *self.data.get(&old).ok_or(CompileError::PageMissing { frame: old })?;
        for i in 0..count {
            let frame = old.saturating_add(i);
            let linked = |n: &usize| self.starting || self.tables.get(*n).is_some_and(|t| t.refs > 0);
            if self.tables_of.get(&frame).is_some_and(|of| of.iter().any(linked)) {
                return Err(CompileError::TableMapped { va });
            }
            let uses = self.mapped.entry(frame).or_insert(0);
            *uses = uses.saturating_add(1);
        }
        Ok(new)
    }

    /// Releases the former target of an entry.
    fn release(&mut self, space: usize, level: u8, was: u64) {
        let Some(format) = self.spaces.get(space).map(|s| s.format) else {
            return;
        };
        match entry_kind(format, level, was) {
            EntryKind::Table(at) => self.unlink(space, at.frame()),
            EntryKind::Page(at) | EntryKind::Block(at) => {
                for i in 0..span_bytes(level) / PAGE_SIZE as u64 {
                    let frame = at.frame().saturating_add(i);
                    if let Some(uses) = self.mapped.get_mut(&frame) {
                        *uses -= 1;
                        if *uses == 0 {
                            self.mapped.remove(&frame);
                        }
                    }
                }
            }
            EntryKind::Invalid | EntryKind::Reserved => {}
        }
    }

    /// Recursion depth is limited: a table entry exists only above the last level.
    fn unlink(&mut self, space: usize, old: u64) {
        let number = self.table_at.get(&(space, old)).copied();
        let Some(t) = number.and_then(|n| self.tables.get_mut(n)) else {
            return;
        };
        t.refs = t.refs.saturating_sub(1);
        if t.refs > 0 {
            return;
        }
        let (level, raw) = (t.level, t.raw.clone());
        for entry in raw.as_chunks::<8>().0 {
            self.release(space, level, u64::from_le_bytes(*entry));
        }
    }

    /// Processes a CPU write to a piece of a frame. If the frame is a table, its entries change.
    pub(super) fn rewrite_tables(&mut self, frame: u64, piece: &Range<usize>) -> Result<(), CompileError> {
        let Some(of) = self.tables_of.get(&frame).cloned() else {
            return Ok(());
        };
        for number in of {
            let Some(t) = self.tables.get_mut(number) else { continue };
            let root = t.level == 0 && self.spaces.get(t.space).is_some_and(|s| s.root.frame() == t.old);
            if root && t.refs == 0 {
                // A translation that is set up only now.
                t.refs = 1;
                self.changed_spaces.insert(t.space);
                self.fill(number)?;
                continue;
            }
            if t.refs == 0 {
                continue;
            }
            self.changed_spaces.insert(t.space);
            let (new, before) = (t.new, t.made.clone());
            let Some(now) = self.cpu.frame(frame).map(|p| Box::new(*p)) else {
                continue;
            };
            self.entries(number, &now, piece.start / 8..piece.end.div_ceil(8))?;
            if let Some(made) = self.tables.get(number).map(|t| t.made.clone()) {
                self.patch_words(new, &before, &made);
            }
        }
        Ok(())
    }

    /// Adds the changed words of a table to the pending changes.
    fn patch_words(&mut self, new: u64, before: &Page, made: &Page) {
        for index in 0..PAGE_SIZE / 8 {
            if word(before, index) != word(made, index) {
                let range = index * 8..index * 8 + 8;
                let bytes = word(made, index).to_le_bytes();
                self.patch(new, range.start, &bytes);
            }
        }
    }
}
