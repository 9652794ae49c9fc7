//! User edits of recorded memory, followed through later CPU writes.
//!
//! An edit replaces the first contents that the CPU supplied. These are the contents at the start or, if those are all
//! zero, at the first submit before which the CPU has written something else. While the CPU's contents equal these, the
//! edit replaces them, also when the CPU writes them again. When a chain is submitted with other contents, the edit
//! ends: its bytes are restored, and results of jobs stay. When the first contents return, the edit returns too.

use super::RelocatedMemory;
use crate::plan::{CompileError, PlanPages};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use trace_core::recording::{HostWriteRow, Page, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE};

/// The end of the detail of a rewrite that ends an edit: from this event on, jobs get the CPU's bytes.
pub const EDIT_END: &str = "the CPU writes other bytes; the edit ends";

/// The user's bytes for a range of GPU memory.
pub struct Edit {
    /// Its description for messages: `input `image``.
    pub what: String,
    space: u32,
    va: GpuVa,
    bytes: Vec<u8>,
    /// The first and the last contents that the CPU supplied.
    original: Vec<u8>,
    host: Vec<u8>,
    /// The recorded frame of each page, if it is mapped.
    frames: Vec<Option<u64>>,
    /// Whether a page was ever mapped.
    met: Vec<bool>,
    /// Whether the CPU has supplied anything but zeros.
    met_contents: bool,
    active: bool,
    /// Later changes of the edit: the event and a description.
    pub later: Vec<(u64, &'static str)>,
}

/// The part of an edit in one page: the range in the edit, and the offset in the page.
struct Part {
    range: Range<usize>,
    place: usize,
}

impl Edit {
    /// Applies an edit at the start. Returns it, for updates with CPU writes, and the number of changed pages.
    ///
    /// # Errors
    /// If the address space does not exist, or a byte is not mapped and nothing could map it later.
    pub(crate) fn place(
        what: String,
        space: u32,
        va: GpuVa,
        bytes: &[u8],
        memory: &mut RelocatedMemory<'_>,
    ) -> Result<(Self, u64), CompileError> {
        if memory.written.is_empty() {
            memory.check(&what, space, va, bytes.len() as u64)?;
        }
        let pages = match bytes.len() {
            0 => 0,
            n => (va.in_page() + n).div_ceil(PAGE_SIZE),
        };
        let mut this = Self {
            what,
            space,
            va,
            bytes: bytes.to_vec(),
            original: vec![0; bytes.len()],
            host: vec![0; bytes.len()],
            frames: vec![None; pages],
            met: vec![false; pages],
            met_contents: false,
            active: true,
            later: Vec::new(),
        };
        let mut changed = 0;
        for page in this.find(memory)? {
            let part = this.part(page);
            let frame = this.frames.get(page).copied().flatten();
            let new = frame.and_then(|f| memory.data.get(&f).copied());
            let now = new
                .and_then(|n| memory.page(n))
                .and_then(|p| p.get(part.place..part.place + part.range.len()));
            // An earlier edit may have written here.
            if now != this.bytes.get(part.range.clone()) {
                changed += 1;
                this.patch_all(page, memory);
            }
        }
        this.original.clone_from(&this.host);
        this.met_contents = this.original.iter().any(|b| *b != 0);
        memory.patch_start();
        Ok((this, changed))
    }

    /// Returns a page of the edit that was never mapped.
    #[must_use]
    pub fn find_unmapped_page(&self) -> Option<GpuVa> {
        let page = self.met.iter().position(|m| !m)?;
        Some(GpuVa::new(
            self.va.get().saturating_add(self.part(page).range.start as u64),
        ))
    }

    fn part(&self, page: usize) -> Part {
        let before = self.va.in_page();
        let start = (page * PAGE_SIZE).saturating_sub(before);
        let end = ((page + 1) * PAGE_SIZE - before).min(self.bytes.len());
        Part {
            range: start..end.max(start),
            place: if page == 0 { before } else { 0 },
        }
    }

    /// Finds the edit's pages, and returns those whose frame changed. The CPU's contents of such a page are its
    /// contents of the new frame.
    fn find(&mut self, memory: &RelocatedMemory<'_>) -> Result<Vec<usize>, CompileError> {
        let mut moved = Vec::new();
        for page in 0..self.frames.len() {
            let part = self.part(page);
            let at = self.va.saturating_add(part.range.start as u64);
            let frame = memory.old_frame(&self.what, self.space, at)?;
            let Some(known) = self.frames.get_mut(page).filter(|k| **k != frame) else {
                continue;
            };
            *known = frame;
            let Some(frame) = frame else { continue };
            if let Some(met) = self.met.get_mut(page) {
                *met = true;
            }
            let there = memory.cpu.frame(frame).unwrap_or(&ZERO_PAGE);
            let len = part.range.len();
            if let (Some(to), Some(from)) = (self.host.get_mut(part.range), there.get(part.place..part.place + len)) {
                to.copy_from_slice(from);
            }
            moved.push(page);
        }
        Ok(moved)
    }

    /// Writes the edit's bytes to its whole part of a page.
    fn patch_all(&self, page: usize, memory: &mut RelocatedMemory<'_>) {
        let part = self.part(page);
        self.patch_with(&self.bytes, page, part.range, memory);
    }

    /// Writes some of `bytes`, which is as long as the edit, to their location.
    fn patch_with(&self, bytes: &[u8], page: usize, range: Range<usize>, memory: &mut RelocatedMemory<'_>) {
        let part = self.part(page);
        let place = part.place + range.start.saturating_sub(part.range.start);
        let frame = self.frames.get(page).copied().flatten();
        let new = frame.and_then(|f| memory.data.get(&f).copied());
        if let (Some(new), Some(bytes)) = (new, bytes.get(range)) {
            memory.patch(new, place, bytes);
        }
    }

    /// Processes CPU writes to these pieces, and to tables of these translations, before `event` submits a chain.
    pub(super) fn follow(
        &mut self,
        memory: &mut RelocatedMemory<'_>,
        event: u64,
        pieces: &[(HostWriteRow, &[u8])],
        spaces: &BTreeSet<usize>,
    ) -> Result<(), CompileError> {
        let moved = if spaces.contains(&(self.space as usize)) {
            self.find(memory)?
        } else {
            Vec::new()
        };
        let mut pages_of: HashMap<u64, Vec<usize>> = HashMap::new();
        for (page, frame) in self.frames.iter().enumerate() {
            if let Some(frame) = frame {
                pages_of.entry(*frame).or_default().push(page);
            }
        }
        let mut given: Vec<(usize, Range<usize>)> = Vec::new();
        for (row, bytes) in pieces {
            let (Some(piece), Some(pages)) = (row.piece(), pages_of.get(&row.frame())) else {
                continue;
            };
            for page in pages {
                let part = self.part(*page);
                let end = part.place + part.range.len();
                let (from, to) = (piece.start.max(part.place), piece.end.min(end));
                if from >= to {
                    continue;
                }
                let range = part.range.start + from - part.place..part.range.start + to - part.place;
                if let (Some(host), Some(bytes)) = (
                    self.host.get_mut(range.clone()),
                    bytes.get(from - piece.start..to - piece.start),
                ) {
                    host.copy_from_slice(bytes);
                }
                given.push((*page, range));
            }
        }
        if moved.is_empty() && given.is_empty() {
            return Ok(());
        }
        // Zeros may be the contents from before the first CPU write.
        if !self.met_contents && self.host.iter().any(|b| *b != 0) {
            self.met_contents = true;
            self.original.clone_from(&self.host);
        }
        let now = self.host == self.original;
        let was = std::mem::replace(&mut self.active, now);
        if now {
            for (page, range) in given {
                self.patch_with(&self.bytes, page, range, memory);
            }
            for page in moved {
                self.patch_all(page, memory);
            }
        }
        if was != now {
            // Contents that the recording shows as the original are not a job's.
            self.exchange(memory, event, now);
        }
        self.later.push((
            event,
            match (was, now) {
                (true, true) => "the CPU writes the same bytes again; the edit replaces them",
                (true, false) => EDIT_END,
                (false, true) => "the CPU writes the first bytes again; the edit applies again",
                (false, false) => return Ok(()),
            },
        ));
        Ok(())
    }

    /// Replaces the original by the edit, or the reverse, wherever the recording shows the original.
    fn exchange(&self, memory: &mut RelocatedMemory<'_>, event: u64, edited: bool) {
        let view = memory.recording.memory.at(event);
        for page in 0..self.frames.len() {
            let Some(frame) = self.frames.get(page).copied().flatten() else {
                continue;
            };
            let part = self.part(page);
            let there: Page = *view.frame(frame).or(memory.cpu.frame(frame)).unwrap_or(&ZERO_PAGE);
            let now = there.get(part.place..part.place + part.range.len()).unwrap_or_default();
            let original = self.original.get(part.range.clone()).unwrap_or_default();
            let edit = self.bytes.get(part.range.clone()).unwrap_or_default();
            let differs = |i: usize| now.get(i) == original.get(i) && original.get(i) != edit.get(i);
            let mut from = 0;
            while from < now.len() {
                let to = (from..now.len()).find(|i| !differs(*i)).unwrap_or(now.len());
                if from < to {
                    let range = part.range.start + from..part.range.start + to;
                    let bytes = if edited { &self.bytes } else { &self.original };
                    self.patch_with(bytes, page, range, memory);
                }
                from = to + 1;
            }
        }
    }
}
