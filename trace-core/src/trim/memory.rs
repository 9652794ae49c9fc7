//! Memory of a part: the frames that its jobs access, and snapshots with only these frames.

use super::pages::Pages;
use super::{JobParts, Part, TrimError, TrimRequest};
use crate::PAGE_SIZE;
use crate::families::address_spaces;
use crate::mmu::{TableItem, visit_all};
use crate::progress::{Cancelled, Progress};
use crate::recording::{FrameRole, HostWriteRow, Memory, PageRun, Recording, RunsBuilder, Snapshot};
use crate::registers::RegisterMap;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

/// Number of ranges that are stored before they are joined for the first time.
const FIRST_ROOM: usize = 1 << 16;
/// Maximum number of runs of frames in snapshots that lost their base snapshot and must describe all memory themselves.
const MAX_WHOLE_RUNS: u64 = 1 << 24;

/// Returns the number of frames with contents in all snapshots together.
pub(super) fn frames(recording: &Recording) -> u64 {
    let runs = recording.memory.snapshots.iter().flat_map(|s| &s.runs);
    runs.fold(0, |n, r| n.saturating_add(u64::from(r.count)))
}

/// The memory to keep.
pub(super) struct Plan {
    /// Data frames to keep, ascending and disjoint; `None`: all.
    data: Option<Vec<Range<u64>>>,
    /// Frames that are a page table at some time, ascending and disjoint.
    tables: Vec<Range<u64>>,
    /// From this event on only page tables change: the rest is removed work.
    tail: u64,
    /// First event of the part: earlier snapshots are merged into one.
    first: u64,
}

impl Plan {
    pub(super) fn new(
        recording: &Recording,
        request: &TrimRequest,
        parts: &JobParts,
        kept: &[u32],
        progress: &Progress,
    ) -> Result<Self, Cancelled> {
        let mut this = Self {
            data: None,
            tables: Vec::new(),
            tail: u64::MAX,
            first: 0,
        };
        match &request.part {
            Part::Jobs(_) => {
                this.reach(recording, parts, kept, progress)?;
                let last = kept.last().copied().unwrap_or(0);
                if (last as usize).saturating_add(1) < parts.len() {
                    this.tail = parts.end_event(last);
                }
            }
            Part::Events(range) => {
                this.first = *range.start();
                this.tail = range.end().saturating_add(1);
            }
        }
        if let Some(only) = &request.frames {
            let ranges = merged(only.iter().map(|f| *f..f.saturating_add(1)).collect());
            this.data = Some(match this.data.take() {
                Some(reached) => intersect(&reached, &ranges),
                None => ranges,
            });
        }
        Ok(this)
    }

    /// Records the frames that the kept jobs' address spaces map at submission, and every page table.
    fn reach(
        &mut self,
        recording: &Recording,
        parts: &JobParts,
        kept: &[u32],
        progress: &Progress,
    ) -> Result<(), Cancelled> {
        let snapshots = &recording.memory.snapshots;
        let mut tables = Ranges::default();
        for run in snapshots
            .iter()
            .flat_map(|s| &s.runs)
            .filter(|r| r.role == FrameRole::Table)
        {
            tables.add(run.first_frame..run.end_frame());
        }
        let spaces = &recording.metadata.address_spaces;
        let submits: Vec<u64> = kept
            .iter()
            .filter_map(|j| parts.submits().get(*j as usize).copied())
            .collect();
        let Some(map) = RegisterMap::for_jobs_of(recording) else {
            self.tables = tables.finish();
            return Ok(());
        };
        let mut ranges = Ranges::default();
        let mut scanned = BTreeSet::new();
        let scan = |event: u64, index: u32, mut ranges: Option<&mut Ranges>, tables: &mut Ranges| {
            progress.check()?;
            let Some(space) = spaces.get(index as usize) else {
                return Ok(());
            };
            let view = recording.memory.at(event);
            let mut cancelled = Ok(());
            let _ = visit_all(space.format, space.root, &view, &mut |found| {
                match found {
                    TableItem::Table(t) => {
                        tables.add(t.frames());
                        cancelled = progress.check();
                    }
                    TableItem::Leaf(l) => {
                        if let Some(ranges) = &mut ranges {
                            let first = l.pa.frame();
                            ranges.add(first..first.saturating_add(l.bytes / PAGE_SIZE as u64));
                        }
                    }
                    TableItem::LeafElsewhere(_) | TableItem::Problem(_) => {}
                }
                if cancelled.is_err() {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            cancelled
        };
        // Tables of every address space stay: a plan sets all of them up.
        for event in snapshots.iter().map(|s| s.event) {
            for index in 0..u32::try_from(spaces.len()).unwrap_or(u32::MAX) {
                scan(event, index, None, &mut tables)?;
            }
        }
        for (event, space) in submits.iter().zip(address_spaces(recording, map, &submits)) {
            progress.check()?;
            match space {
                Some(index) => {
                    let snapshot = snapshots.partition_point(|s| s.event <= *event);
                    if scanned.insert((snapshot, index)) {
                        scan(*event, index, Some(&mut ranges), &mut tables)?;
                    }
                }
                // Its memory accesses are unknown.
                None => {
                    self.tables = tables.finish();
                    return Ok(());
                }
            }
        }
        self.tables = tables.finish();
        self.data = Some(ranges.finish());
        Ok(())
    }

    /// Whether a CPU write is kept.
    pub(super) fn is_write_kept(&self, event: u64, row: &HostWriteRow) -> bool {
        self.is_kept(row.frame(), event)
    }

    fn is_kept(&self, frame: u64, event: u64) -> bool {
        has(&self.tables, frame) || event < self.tail && self.data.as_ref().is_none_or(|d| has(d, frame))
    }

    /// Returns the parts of a run that are kept.
    fn kept_parts(&self, run: &PageRun, tail: bool) -> Vec<Range<u64>> {
        let all = run.first_frame..run.end_frame();
        if run.role == FrameRole::Table {
            return vec![all];
        }
        let mut keep: Vec<Range<u64>> = intersect(&self.tables, std::slice::from_ref(&all));
        match &self.data {
            _ if tail => {}
            Some(data) => keep.extend(intersect(data, std::slice::from_ref(&all))),
            None => return vec![all],
        }
        merged(keep)
    }

    /// Builds the memory of the part. Returns it with the number of frames with contents before and after. `numbers`:
    /// the new number of the first kept event at or after each event.
    pub(super) fn build(
        &self,
        recording: &Recording,
        numbers: &[u64],
        mut pages: Pages<'_>,
        progress: &Progress,
    ) -> Result<(Memory, [u64; 2]), TrimError> {
        let memory = &recording.memory;
        let stored = memory.pages.len() as u64;
        // A part of the events starts with the memory at its first event.
        let begin = memory
            .snapshots
            .partition_point(|s| s.event <= self.first)
            .saturating_sub(1);
        let mut snapshots: Vec<Snapshot> = Vec::new();
        let mut told_whole = 0u64;
        let before = u32::try_from(begin).unwrap_or(u32::MAX);
        for (n, s) in memory.snapshots.iter().enumerate().skip(begin) {
            progress.check()?;
            // The first snapshot gives the initial state, whenever it was taken.
            let is_first = n == begin;
            // A snapshot that lost its base snapshot describes everything itself.
            let alone = is_first && s.parent.is_some() || s.parent.is_some_and(|p| p < before);
            let whole;
            let runs = if alone {
                whole = memory.at(s.event).runs();
                told_whole = told_whole.saturating_add(whole.len() as u64);
                if !is_first && told_whole > MAX_WHOLE_RUNS {
                    return Err(TrimError::Snapshots { max: MAX_WHOLE_RUNS });
                }
                &whole
            } else {
                &s.runs
            };
            let new = self.snapshot(runs, !is_first && s.event > self.tail, stored, &mut pages);
            snapshots.push(Snapshot {
                event: if is_first && s.event <= self.first {
                    0
                } else {
                    number(numbers, s.event)
                },
                parent: s.parent.filter(|_| !alone).map(|p| p - before),
                runs: new,
            });
        }
        let after = snapshots.iter().flat_map(|s| &s.runs);
        let after = after.fold(0u64, |n, r| n.saturating_add(u64::from(r.count)));
        let mut out = pages.finish();
        out.snapshots = std::sync::Arc::new(snapshots);
        Ok((out, [frames(recording), after]))
    }

    fn snapshot(&self, runs: &[PageRun], tail: bool, stored: u64, pages: &mut Pages<'_>) -> Vec<PageRun> {
        let mut out = RunsBuilder::default();
        for run in runs {
            for part in self.kept_parts(run, tail) {
                if run.repeat {
                    let Ok(count) = u32::try_from(part.end - part.start) else {
                        continue;
                    };
                    out.push_run(PageRun {
                        first_frame: part.start,
                        count,
                        first_page: pages.renumber(run.first_page),
                        repeat: count > 1,
                        role: run.role,
                    });
                    continue;
                }
                // Ids are consecutive, so a run is never longer than the number of images, whatever it says.
                let max = (stored + 1).saturating_sub(u64::from(run.first_page.0));
                let end = part.end.min(run.first_frame.saturating_add(max));
                for frame in part.start..end.max(part.start) {
                    if let Some(id) = run.page(frame) {
                        out.push(frame, pages.renumber(id), run.role);
                    }
                }
            }
        }
        out.finish()
    }
}

fn number(numbers: &[u64], event: u64) -> u64 {
    let at = usize::try_from(event).ok().and_then(|e| numbers.get(e));
    at.or(numbers.last()).copied().unwrap_or(0)
}

/// Ranges in the order of discovery, joined from time to time: page tables may lead to the same frames again and again.
#[derive(Default)]
struct Ranges {
    all: Vec<Range<u64>>,
    /// Maximum number before they are joined.
    room: usize,
}

impl Ranges {
    fn add(&mut self, range: Range<u64>) {
        match self.all.last_mut() {
            Some(r) if r.end == range.start => r.end = range.end.max(r.end),
            Some(r) if r.start <= range.start && range.end <= r.end => {}
            _ => self.all.push(range),
        }
        if self.all.len() > self.room.max(FIRST_ROOM) {
            self.all = merged(std::mem::take(&mut self.all));
            // Twice the remaining number, so that ranges that cannot be joined are not scanned at every addition.
            self.room = self.all.len().saturating_mul(2);
        }
    }

    fn finish(self) -> Vec<Range<u64>> {
        merged(self.all)
    }
}

/// Whether one of these ascending, disjoint ranges contains the frame.
fn has(ranges: &[Range<u64>], frame: u64) -> bool {
    let n = ranges.partition_point(|r| r.end <= frame);
    ranges.get(n).is_some_and(|r| r.start <= frame)
}

/// Sorts ranges and joins those that touch.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|r| r.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    for r in ranges.into_iter().filter(|r| r.start < r.end) {
        match out.last_mut() {
            Some(last) if last.end >= r.start => last.end = last.end.max(r.end),
            _ => out.push(r),
        }
    }
    out
}

/// Returns the intersection of two lists of ascending, disjoint ranges.
fn intersect(a: &[Range<u64>], b: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut out = Vec::new();
    for r in b {
        let first = a.partition_point(|x| x.end <= r.start);
        for x in a.iter().skip(first).take_while(|x| x.start < r.end) {
            out.push(x.start.max(r.start)..x.end.min(r.end));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_ranges_are_joined_and_others_stay_separate() {
        let mut all = Ranges::default();
        for _ in 0..8 {
            // The frames alternate between both ends, so that no frame is next to the previous one.
            for n in 0..FIRST_ROOM as u64 {
                let frame = if n % 2 == 0 { n } else { (1 << 20) - n } * 2;
                all.add(frame..frame + 1);
            }
            assert!(all.all.len() <= 4 * FIRST_ROOM);
        }
        let all = all.finish();
        assert_eq!(all.len(), FIRST_ROOM);
        assert!(has(&all, 0) && has(&all, 4) && !has(&all, 1) && !has(&all, 2));
    }
}
