//! CPU writes between two events, as changes of a plan's memory.

use super::{Content, Edit, Patch, RelocatedMemory};
use crate::plan::{CompileError, PlanPages};
use std::ops::Range;
use trace_core::recording::{Digest, FrameRole, HostWriteRow, Page, PageId, ZERO_PAGE};
use trace_core::{PAGE_SIZE, PhysAddr};

/// Maximum number of values for the changes of one frame. With more, an image is used instead.
const MAX_PUTS: usize = 16;

/// One change of the plan's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A value.
    Put { at: PhysAddr, width: u8, value: u64 },
    /// Bytes of an image.
    Copy { at: PhysAddr, bytes: u32, image: u32 },
}

/// Splits a run of bytes into aligned values: offset, width, value.
fn values(page: &Page, run: Range<usize>) -> Vec<(usize, u8, u64)> {
    let mut out = Vec::new();
    let mut at = run.start;
    while at < run.end {
        let fits = |w: &usize| at.is_multiple_of(*w) && at + w <= run.end;
        let width = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let mut bytes = [0; 8];
        if let (Some(to), Some(from)) = (bytes.get_mut(..width), page.get(at..at + width)) {
            to.copy_from_slice(from);
        }
        out.push((at, width as u8, u64::from_le_bytes(bytes)));
        at += width;
    }
    out
}

impl RelocatedMemory<'_> {
    /// Changes some bytes of a new frame, in the pending changes.
    pub(super) fn patch(&mut self, new: u64, from: usize, bytes: &[u8]) {
        let patch = self.patches.entry(new).or_insert_with(Patch::new);
        patch.plain = false;
        patch.set(from, bytes);
    }

    /// Turns CPU writes between two events into changes of the plan's memory. Writes to memory that no chain can have
    /// accessed yet become part of the initial contents. `first` is the event of the first write.
    ///
    /// # Errors
    /// If a write cannot be read, or its effect on page tables cannot be relocated.
    pub(crate) fn host_writes(&mut self, first: u64, rows: &[HostWriteRow]) -> Result<Vec<Change>, CompileError> {
        let before = self.given.len();
        for (event, row) in (first..).zip(rows) {
            let bytes = self.cpu.write(row).ok_or(CompileError::HostWrite { event })?;
            self.given.push((*row, bytes));
        }
        for row in rows {
            if let Some(piece) = row.piece() {
                self.rewrite_tables(row.frame(), &piece)?;
            }
        }
        for (row, bytes) in self.given.iter().skip(before) {
            let (Some(new), Some(piece)) = (self.data.get(&row.frame()).copied(), row.piece()) else {
                continue;
            };
            let patch = self.patches.entry(new).or_insert_with(Patch::new);
            let page = PageId(row.page);
            patch.plain &= patch.stored.is_none_or(|s| s == page);
            patch.stored = Some(page);
            patch.set(piece.start, bytes);
        }
        self.take_changes()
    }

    /// Updates edits before `event` submits a chain, or at the end of the recording. Edits follow the CPU writes since
    /// the last submit, and the resulting memory changes are returned.
    ///
    /// # Errors
    /// If an edit's address space does not exist.
    pub(crate) fn follow(&mut self, event: u64, edits: &mut [Edit]) -> Result<Vec<Change>, CompileError> {
        let given = std::mem::take(&mut self.given);
        let spaces = std::mem::take(&mut self.changed_spaces);
        if given.is_empty() {
            return Ok(Vec::new());
        }
        for edit in edits {
            edit.follow(self, event, &given, &spaces)?;
        }
        self.take_changes()
    }

    /// Returns the pending changes as actions, unless they can be part of the initial contents.
    fn take_changes(&mut self) -> Result<Vec<Change>, CompileError> {
        let mut out = Vec::new();
        for (new, patch) in std::mem::take(&mut self.patches) {
            if self.untouched || self.fresh.contains(&new) {
                self.change_start(new, &patch);
                continue;
            }
            let mut page = Box::new(*self.page(new).unwrap_or(&ZERO_PAGE));
            patch.over(&mut page);
            let at = |place: usize| PhysAddr::new(new.saturating_mul(PAGE_SIZE as u64) | place as u64);
            let runs = patch.runs();
            let puts: Vec<_> = runs.iter().flat_map(|r| values(&page, r.clone())).collect();
            if puts.len() <= MAX_PUTS {
                out.extend(puts.into_iter().map(|(place, width, value)| Change::Put {
                    at: at(place),
                    width,
                    value,
                }));
            } else {
                let image = self.image(&patch, &page)?;
                out.extend(runs.into_iter().map(|r| Change::Copy {
                    at: at(r.start),
                    bytes: r.len() as u32,
                    image,
                }));
            }
            self.now.insert(new, page);
        }
        Ok(out)
    }

    /// Makes the pending changes part of the initial contents.
    pub(super) fn patch_start(&mut self) {
        for (new, patch) in std::mem::take(&mut self.patches) {
            self.change_start(new, &patch);
        }
    }

    fn change_start(&mut self, new: u64, patch: &Patch) {
        let (role, mut page) = match self.content.remove(&new) {
            Some((role, Content::Made(page))) => (role, page),
            Some((role, Content::Stored(page, _))) => (role, Box::new(*page)),
            None => (FrameRole::Data, Box::new(ZERO_PAGE)),
        };
        patch.over(&mut page);
        self.content.insert(new, (role, Content::Made(page)));
    }

    /// Returns the number of an image that has a frame's changed bytes.
    fn image(&mut self, patch: &Patch, page: &Page) -> Result<u32, CompileError> {
        let pages = &self.recording.memory.pages;
        let stored = patch.stored.filter(|_| patch.plain);
        let reported = stored.and_then(|id| Some((pages.digest(id)?, pages.page(id)?)));
        let (digest, page): (Digest, &Page) = reported.unwrap_or_else(|| (*blake3::hash(page).as_bytes(), page));
        if let Some(number) = self.image_numbers.get(&digest) {
            return Ok(*number);
        }
        let number = u32::try_from(self.images.len()).map_err(|_| CompileError::TooManyImages)?;
        self.images.push(digest);
        self.image_numbers.insert(digest, number);
        self.image_pages.insert(digest, (*page).into());
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_the_fewest_aligned_values() {
        let mut page = ZERO_PAGE;
        (0..32).for_each(|i| page[i] = i as u8);
        let widths = |r| values(&page, r).iter().map(|v| (v.0, v.1)).collect::<Vec<_>>();
        assert_eq!(widths(0..8), [(0, 8)]);
        assert_eq!(widths(3..17), [(3, 1), (4, 4), (8, 8), (16, 1)]);
        assert_eq!(widths(6..7), [(6, 1)]);
        assert_eq!(values(&page, 4..8), [(4, 4, 0x0706_0504)]);
        let mut patch = Patch::new();
        patch.set(3, &[1, 2]);
        patch.set(4095, &[9]);
        patch.set(5, &[3]);
        assert_eq!(patch.runs(), [3..6, 4095..4096]);
        let mut over = [7; PAGE_SIZE];
        patch.over(&mut over);
        assert_eq!((over[2], &over[3..6], over[6], over[4095]), (7, &[1, 2, 3][..], 7, 9));
    }
}
