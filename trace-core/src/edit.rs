//! A recording with edited memory, so that a replay of the saved file equals a replay of the original with the edits.
//!
//! In a register trace, an edit replaces what the CPU first provided, as in a plan. As long as the CPU's own bytes
//! are the original ones, the edit replaces them: in the first snapshot, in later ones, and where the CPU writes them
//! again. In an API trace, an edit replaces what copies to the device carried. Results in the recording stay as they
//! were recorded.

use crate::mmu::PhysMemory;
use crate::progress::{Cancelled, Progress};
use crate::recording::{
    CopyRow, FrameRole, HostWriteRow, Memory, MemoryBuilder, Page, PageId, PageRun, Recording, RunsBuilder, Snapshot,
    TraceKind, ZERO_PAGE, overlay,
};
use crate::registers::RegisterMap;
use crate::timeline;
use crate::{GpuVa, PAGE_SIZE, PhysAddr};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Bytes of GPU memory that replace recorded ones.
#[derive(Clone, Debug)]
pub struct MemoryEdit<'a> {
    /// Label for messages: `input `image``.
    pub label: String,
    /// Address space, an index into the recording's list.
    pub address_space: u32,
    /// First byte.
    pub va: GpuVa,
    /// The replacement bytes.
    pub bytes: &'a [u8],
}

/// Why a recording cannot hold an edit.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The address space is not in the recording.
    #[error("{what}: the recording has no address space {space}")]
    NoSpace {
        /// The edit.
        what: String,
        /// Its address space.
        space: u32,
    },
    /// A byte of the edit is never mapped.
    #[error("{what}: the byte at {va} is not mapped before any work uses it")]
    NotMapped {
        /// The edit.
        what: String,
        /// The byte.
        va: GpuVa,
    },
    /// The CPU later changes a part of the edited bytes, so the rest would have to change with it.
    #[error(
        "{what}: the CPU writes a part of these bytes again before event {event}, so a file cannot hold the edit after \
         that. Save the recording without the edit, and replay it with the edit"
    )]
    Rewritten {
        /// The edit.
        what: String,
        /// The submit.
        event: u64,
    },
    /// A copy of an API trace carries another number of bytes than the edit.
    #[error("the copy at event {event} carries {expected} bytes, but the edit has {given}")]
    CopySize {
        /// The event.
        event: u64,
        /// Size of the copy, bytes.
        expected: u64,
        /// Size of the edit, bytes.
        given: u64,
    },
    /// A page image does not match its digest. Writing it would give it a new, matching digest.
    #[error("the page image at byte {byte:#x} does not match its digest; `kinescope verify` lists all damage")]
    Damaged {
        /// First byte of the image in the file.
        byte: u64,
    },
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Page images of the recording, and those that edits create.
struct Images {
    builder: MemoryBuilder,
    /// New ids of the old images, by the old id minus 1.
    new: Vec<PageId>,
    /// Whether every image kept its id.
    same: bool,
}

impl Images {
    fn new(recording: &Recording, progress: &Progress) -> Result<Self, EditError> {
        if let Some(page) = recording.memory.pages.damaged(progress)? {
            return Err(EditError::Damaged { byte: page.byte });
        }
        let mut builder = MemoryBuilder::new();
        let mut new = Vec::with_capacity(recording.memory.pages.len());
        for (n, page) in recording.memory.pages.iter().enumerate() {
            if n % 256 == 0 {
                progress.check()?;
            }
            new.push(builder.add_page(page));
        }
        let same = new.iter().zip(1u32..).all(|(id, old)| id.0 == old);
        Ok(Self { builder, new, same })
    }

    fn copy_page(&self, old: PageId) -> PageId {
        match (old.0 as usize).checked_sub(1) {
            None => PageId::ZERO,
            Some(at) => self.new.get(at).copied().unwrap_or(PageId::ZERO),
        }
    }

    fn page(&self, id: PageId) -> Page {
        *self.builder.image(id).unwrap_or(&ZERO_PAGE)
    }

    /// Returns runs with the new ids.
    fn runs(&self, old: &[PageRun]) -> Vec<PageRun> {
        if self.same {
            return old.to_vec();
        }
        let mut out = RunsBuilder::default();
        for run in old {
            if run.repeat {
                out.push_run(PageRun {
                    first_page: self.copy_page(run.first_page),
                    ..*run
                });
                continue;
            }
            // Ids are consecutive: a run cannot have more images than exist, whatever its length field says.
            let max = (self.new.len() as u64 + 1).saturating_sub(u64::from(run.first_page.0));
            for frame in run.first_frame..run.end_frame().min(run.first_frame.saturating_add(max)) {
                if let Some(id) = run.page(frame) {
                    out.push(frame, self.copy_page(id), run.role);
                }
            }
        }
        out.finish()
    }
}

/// Applies an edit to a register trace.
///
/// # Errors
/// If the bytes are not mapped, the CPU changes a part of them later, or a page image is damaged.
pub fn with_memory(recording: &Recording, edit: &MemoryEdit<'_>, progress: &Progress) -> Result<Recording, EditError> {
    let mut images = Images::new(recording, progress)?;
    let mut snapshots: Vec<Snapshot> = recording.memory.snapshots.to_vec();
    for s in &mut snapshots {
        s.runs = images.runs(&s.runs);
    }
    let mut writes: Vec<HostWriteRow> = recording.events.host_writes.iter().collect();
    for w in &mut writes {
        w.page = images.copy_page(PageId(w.page)).0;
    }
    let submits = match RegisterMap::built_in_for(recording) {
        Some(map) => timeline::derive(recording, map, progress)?
            .jobs
            .iter()
            .map(|j| j.submit_event)
            .collect(),
        None => HashSet::new(),
    };
    let mut placed = TrackedEdit::new(recording, edit)?;
    placed.start(&mut images, &mut snapshots);
    let mut next = 0;
    for at in 0..recording.events.len() {
        if at % 4096 == 0 {
            progress.check()?;
        }
        let event = at as u64;
        while snapshots.get(next).is_some_and(|s| s.event <= event) {
            placed.snapshot(&mut images, &mut snapshots, next);
            next += 1;
        }
        if recording.events.host_write(at).is_some()
            && let Some(row) = recording.events.payload.get(at)
        {
            placed.host_write(row as usize, &writes, &images);
        }
        if submits.contains(&event) {
            placed.follow(event, &mut images, &mut writes, &mut snapshots)?;
        }
    }
    let end = recording.events.len() as u64;
    placed.follow(end, &mut images, &mut writes, &mut snapshots)?;
    while next < snapshots.len() {
        placed.snapshot(&mut images, &mut snapshots, next);
        next += 1;
    }
    if let Some(va) = placed.find_unmapped() {
        let what = edit.label.clone();
        return Err(EditError::NotMapped { what, va });
    }
    let mut out = recording.clone();
    let mut memory = images.builder.finish();
    memory.snapshots = std::sync::Arc::new(snapshots);
    out.memory = memory;
    out.events.host_writes = writes.into();
    Ok(out)
}

/// Memory as the CPU left it: the initial state and all writes so far.
struct CpuMemory<'a> {
    memory: &'a Memory,
    written: HashMap<u64, Box<Page>>,
}

impl CpuMemory<'_> {
    fn frame(&self, frame: u64) -> Option<&Page> {
        match self.written.get(&frame) {
            Some(page) => Some(page),
            None => self.memory.at(0).frame(frame),
        }
    }
}

impl PhysMemory for CpuMemory<'_> {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let bytes = self.frame(at.frame())?.get(at.in_page()..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.frame(frame)
    }
}

/// An edit and its state while it is followed through a recording.
struct TrackedEdit<'a> {
    recording: &'a Recording,
    edit: &'a MemoryEdit<'a>,
    cpu: CpuMemory<'a>,
    /// The bytes that the CPU provided first, and those that it provided last.
    original: Vec<u8>,
    host: Vec<u8>,
    /// The frame of each page, if it is mapped.
    frames: Vec<Option<u64>>,
    met: Vec<bool>,
    met_contents: bool,
    active: bool,
    /// Rows of host writes since the last submit.
    pending: Vec<usize>,
    /// Frames that the CPU has written, and whether work was submitted.
    touched: HashSet<u64>,
    submitted: bool,
}

/// A part of an edit in one page: range in the edit, offset in the page.
struct Part {
    range: Range<usize>,
    place: usize,
}

impl<'a> TrackedEdit<'a> {
    fn new(recording: &'a Recording, edit: &'a MemoryEdit<'a>) -> Result<Self, EditError> {
        let space = edit.address_space;
        if recording.metadata.address_spaces.get(space as usize).is_none() {
            let what = edit.label.clone();
            return Err(EditError::NoSpace { what, space });
        }
        let pages = match edit.bytes.len() {
            0 => 0,
            n => (edit.va.in_page() + n).div_ceil(PAGE_SIZE),
        };
        Ok(Self {
            recording,
            edit,
            cpu: CpuMemory {
                memory: &recording.memory,
                written: HashMap::new(),
            },
            original: vec![0; edit.bytes.len()],
            host: vec![0; edit.bytes.len()],
            frames: vec![None; pages],
            met: vec![false; pages],
            met_contents: false,
            active: true,
            pending: Vec::new(),
            touched: HashSet::new(),
            submitted: false,
        })
    }

    fn part(&self, page: usize) -> Part {
        let before = self.edit.va.in_page();
        let start = (page * PAGE_SIZE).saturating_sub(before);
        let end = ((page + 1) * PAGE_SIZE - before).min(self.edit.bytes.len());
        Part {
            range: start..end.max(start),
            place: if page == 0 { before } else { 0 },
        }
    }

    fn at(&self, page: usize) -> GpuVa {
        self.edit.va.saturating_add(self.part(page).range.start as u64)
    }

    fn find_unmapped(&self) -> Option<GpuVa> {
        let page = self.met.iter().position(|m| !m)?;
        Some(self.at(page))
    }

    /// Finds the pages of the edit; returns those that are now in another frame.
    fn find(&mut self) -> Vec<usize> {
        let Some(space) = self
            .recording
            .metadata
            .address_spaces
            .get(self.edit.address_space as usize)
        else {
            return Vec::new();
        };
        let mut moved = Vec::new();
        for page in 0..self.frames.len() {
            let va = self.at(page);
            let found = crate::mmu::translate(space.format, space.root, va, &self.cpu);
            let frame = found.ok().and_then(|leaf| leaf.target(va)).map(PhysAddr::frame);
            let Some(known) = self.frames.get_mut(page).filter(|k| **k != frame) else {
                continue;
            };
            *known = frame;
            let Some(frame) = frame else { continue };
            if let Some(met) = self.met.get_mut(page) {
                *met = true;
            }
            let part = self.part(page);
            let there = self.cpu.frame(frame).unwrap_or(&ZERO_PAGE);
            let from = there.get(part.place..part.place + part.range.len());
            if let (Some(to), Some(from)) = (self.host.get_mut(part.range), from) {
                to.copy_from_slice(from);
            }
            moved.push(page);
        }
        moved
    }

    /// Applies the edit to memory before the first event.
    fn start(&mut self, images: &mut Images, snapshots: &mut Vec<Snapshot>) {
        let pages = self.find();
        self.original.clone_from(&self.host);
        self.met_contents = self.original.iter().any(|b| *b != 0);
        self.put_at_start(&pages, images, snapshots);
    }

    /// Writes all bytes of the edit in some pages into the first snapshot.
    fn put_at_start(&self, pages: &[usize], images: &mut Images, snapshots: &mut Vec<Snapshot>) {
        if snapshots.is_empty() {
            snapshots.push(Snapshot {
                event: 0,
                parent: None,
                runs: Vec::new(),
            });
        }
        let Some(first) = snapshots.first_mut() else { return };
        let mut over: BTreeMap<u64, (PageId, FrameRole)> = BTreeMap::new();
        for page in pages {
            let Some(frame) = self.frames.get(*page).copied().flatten() else {
                continue;
            };
            let (id, role) = over
                .get(&frame)
                .copied()
                .or_else(|| find_page(&first.runs, frame))
                .unwrap_or((PageId::ZERO, FrameRole::Data));
            let mut image = images.page(id);
            let part = self.part(*page);
            if let (Some(to), Some(from)) = (
                image.get_mut(part.place..part.place + part.range.len()),
                self.edit.bytes.get(part.range),
            ) {
                to.copy_from_slice(from);
            }
            over.insert(frame, (images.builder.add_page(&image), role));
        }
        first.runs = overlay_runs(&over, &first.runs);
    }

    /// Applies the edit to a snapshot wherever the snapshot holds the bytes that the CPU provided first.
    fn snapshot(&self, images: &mut Images, snapshots: &mut [Snapshot], at: usize) {
        let Some(snapshot) = snapshots.get_mut(at).filter(|_| self.active && at > 0) else {
            return;
        };
        let mut over: BTreeMap<u64, (PageId, FrameRole)> = BTreeMap::new();
        for page in 0..self.frames.len() {
            let Some(frame) = self.frames.get(page).copied().flatten() else {
                continue;
            };
            let known = over.get(&frame).copied().or_else(|| find_page(&snapshot.runs, frame));
            let Some((id, role)) = known else { continue };
            let mut image = images.page(id);
            let part = self.part(page);
            let (original, edit) = (
                self.original.get(part.range.clone()),
                self.edit.bytes.get(part.range.clone()),
            );
            let now = image.get_mut(part.place..part.place + part.range.len());
            let (Some(now), Some(original), Some(edit)) = (now, original, edit) else {
                continue;
            };
            for ((now, original), edit) in now.iter_mut().zip(original).zip(edit) {
                if now == original {
                    *now = *edit;
                }
            }
            over.insert(frame, (images.builder.add_page(&image), role));
        }
        if !over.is_empty() {
            snapshot.runs = overlay_runs(&over, &snapshot.runs);
        }
    }

    /// Handles a CPU write.
    fn host_write(&mut self, row: usize, writes: &[HostWriteRow], images: &Images) {
        let Some(w) = writes.get(row) else { return };
        let Some(piece) = w.piece() else { return };
        let frame = w.frame();
        let mut page = Box::new(*self.cpu.frame(frame).unwrap_or(&ZERO_PAGE));
        let new = images.page(PageId(w.page));
        if let (Some(to), Some(from)) = (page.get_mut(piece.clone()), new.get(piece)) {
            to.copy_from_slice(from);
        }
        self.cpu.written.insert(frame, page);
        self.pending.push(row);
    }

    /// Updates the edit for the CPU writes since the last call. Called when work is about to be submitted or the
    /// recording ends.
    fn follow(
        &mut self,
        event: u64,
        images: &mut Images,
        writes: &mut [HostWriteRow],
        snapshots: &mut Vec<Snapshot>,
    ) -> Result<(), EditError> {
        let pending = std::mem::take(&mut self.pending);
        let end = event >= self.recording.events.len() as u64;
        if !pending.is_empty() {
            let moved = self.find();
            let given = self.given(&pending, writes, images);
            if !given.is_empty() || !moved.is_empty() {
                self.take(event, &moved, given, images, writes, snapshots)?;
            }
        }
        let frames = pending
            .iter()
            .filter_map(|row| writes.get(*row))
            .map(HostWriteRow::frame);
        self.touched.extend(frames);
        self.submitted |= !end;
        Ok(())
    }

    /// Returns the writes of the CPU to the edit's bytes: row, page of the edit, range in the edit.
    fn given(
        &mut self,
        pending: &[usize],
        writes: &[HostWriteRow],
        images: &Images,
    ) -> Vec<(usize, usize, Range<usize>)> {
        let mut given = Vec::new();
        let mut pages_of: HashMap<u64, Vec<usize>> = HashMap::new();
        for (page, frame) in self.frames.iter().enumerate() {
            if let Some(frame) = frame {
                pages_of.entry(*frame).or_default().push(page);
            }
        }
        for row in pending {
            let Some(w) = writes.get(*row) else { continue };
            let (Some(piece), Some(pages)) = (w.piece(), pages_of.get(&w.frame())) else {
                continue;
            };
            for page in pages.iter().copied() {
                let part = self.part(page);
                let (from, to) = (
                    piece.start.max(part.place),
                    piece.end.min(part.place + part.range.len()),
                );
                if from >= to {
                    continue;
                }
                let range = part.range.start + from - part.place..part.range.start + to - part.place;
                let image = images.page(PageId(w.page));
                if let (Some(host), Some(bytes)) = (self.host.get_mut(range.clone()), image.get(from..to)) {
                    host.copy_from_slice(bytes);
                }
                given.push((*row, page, range));
            }
        }
        given
    }

    /// Replaces the bytes that the CPU provided with the edit, or ends the edit.
    fn take(
        &mut self,
        event: u64,
        moved: &[usize],
        given: Vec<(usize, usize, Range<usize>)>,
        images: &mut Images,
        writes: &mut [HostWriteRow],
        snapshots: &mut Vec<Snapshot>,
    ) -> Result<(), EditError> {
        // Zeros may be the state before the CPU provided anything.
        if !self.met_contents && self.host.iter().any(|b| *b != 0) {
            self.met_contents = true;
            self.original.clone_from(&self.host);
        }
        let now = self.host == self.original;
        let was = std::mem::replace(&mut self.active, now);
        let mut covered = vec![false; self.edit.bytes.len()];
        for (_, _, range) in &given {
            if let Some(covered) = covered.get_mut(range.clone()) {
                covered.fill(true);
            }
        }
        // Bytes of newly mapped pages that nobody wrote before are present from the start.
        let fresh = |frame: u64| !self.submitted && !self.touched.contains(&frame);
        let (mut at_start, mut reached) = (Vec::new(), was != now);
        for page in moved {
            match self.frames.get(*page).copied().flatten() {
                Some(frame) if fresh(frame) => {
                    at_start.push(*page);
                    if let Some(covered) = covered.get_mut(self.part(*page).range) {
                        covered.fill(true);
                    }
                }
                _ => reached = true,
            }
        }
        let rest = || covered.iter().zip(&self.original).zip(self.edit.bytes);
        if reached && rest().any(|((covered, original), edit)| !covered && original != edit) {
            let what = self.edit.label.clone();
            return Err(EditError::Rewritten { what, event });
        }
        if !now {
            return Ok(());
        }
        self.put_at_start(&at_start, images, snapshots);
        for (row, page, range) in given {
            let (part, Some(w)) = (self.part(page), writes.get_mut(row)) else {
                continue;
            };
            let mut image = images.page(PageId(w.page));
            let from = part.place + range.start - part.range.start;
            let to = image.get_mut(from..from + range.len());
            if let (Some(to), Some(bytes)) = (to, self.edit.bytes.get(range)) {
                to.copy_from_slice(bytes);
            }
            w.page = images.builder.add_page(&image).0;
        }
        Ok(())
    }
}

/// Returns what a snapshot's own runs hold for a frame.
fn find_page(runs: &[PageRun], frame: u64) -> Option<(PageId, FrameRole)> {
    let before = runs.partition_point(|r| r.first_frame <= frame);
    let run = runs.get(before.checked_sub(1)?)?;
    Some((run.page(frame)?, run.role))
}

/// Returns runs with other pages in some frames.
fn overlay_runs(over: &BTreeMap<u64, (PageId, FrameRole)>, runs: &[PageRun]) -> Vec<PageRun> {
    let mut newer = RunsBuilder::default();
    for (frame, (id, role)) in over {
        newer.push(*frame, *id, *role);
    }
    overlay(&newer.finish(), runs)
}

/// Replaces the bytes that copies of an API trace carried to the device. `contents` maps the event of each copy to
/// its rows, concatenated.
///
/// # Errors
/// If a copy carries another number of bytes, or a page image is damaged.
pub fn with_copies(
    recording: &Recording,
    contents: &BTreeMap<u64, &[u8]>,
    progress: &Progress,
) -> Result<Recording, EditError> {
    let mut images = Images::new(recording, progress)?;
    let mut pages: Vec<u32> = recording.events.call_pages.iter().collect();
    for id in &mut pages {
        *id = images.copy_page(PageId(*id)).0;
    }
    let mut copies: Vec<CopyRow> = recording.events.copies.iter().collect();
    for (event, bytes) in contents {
        progress.check()?;
        let row = usize::try_from(*event)
            .ok()
            .filter(|at| matches!(recording.events.call(*at), Some(crate::recording::CallEvent::Copy(_))))
            .and_then(|at| recording.events.payload.get(at));
        let copy = row.and_then(|row| copies.get_mut(row as usize));
        let expected = copy.as_ref().and_then(|c| c.total()).unwrap_or(0);
        let given = bytes.len() as u64;
        let Some(copy) = copy.filter(|_| expected == given) else {
            return Err(EditError::CopySize {
                event: *event,
                expected,
                given,
            });
        };
        // The copy gets its own pages, because another copy may share the old ones.
        copy.pages_at = pages.len() as u64;
        let mut rest = *bytes;
        let mut place = (copy.device().get() % PAGE_SIZE as u64) as usize;
        while !rest.is_empty() {
            let (now, behind) = rest.split_at(rest.len().min(PAGE_SIZE - place));
            let mut image = ZERO_PAGE;
            if let Some(to) = image.get_mut(place..place + now.len()) {
                to.copy_from_slice(now);
            }
            pages.push(images.builder.add_page(&image).0);
            (rest, place) = (behind, 0);
        }
    }
    let mut out = recording.clone();
    let snapshots = recording.memory.snapshots.iter().map(|s| Snapshot {
        runs: images.runs(&s.runs),
        ..s.clone()
    });
    let snapshots: Vec<Snapshot> = snapshots.collect();
    if !images.same {
        // The code of modules also refers to its pages by their ids.
        if let TraceKind::Api(metadata) = &mut out.metadata.kind {
            for module in &mut metadata.modules {
                let ids = module
                    .pages
                    .iter()
                    .flat_map(|[first, n]| *first..first.saturating_add(*n));
                module.pages = ids.map(|id| [images.copy_page(PageId(id)).0, 1]).collect();
            }
        }
    }
    let mut memory = images.builder.finish();
    memory.snapshots = std::sync::Arc::new(snapshots);
    out.memory = memory;
    out.events.copies = copies.into();
    out.events.call_pages = pages.into();
    Ok(out)
}
