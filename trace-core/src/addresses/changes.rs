//! The event at which the contents of each frame last changed, as far as the recording shows.

use super::FrameValue;
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, MAX_PARENTS, Memory, PageId, PageRun, Recording};
use std::collections::BTreeMap;
use std::ops::Range;

/// Frames whose last change is known, with the event.
#[derive(Default)]
struct FrameEvents(BTreeMap<u64, (u64, u64)>);

impl FrameEvents {
    /// Sets the event of those frames whose event is not known yet.
    fn fill(&mut self, frames: Range<u64>, event: u64) {
        let mut at = frames.start;
        // A range that starts before and reaches into this one.
        if let Some((_, (end, _))) = self.0.range(..=at).next_back() {
            at = at.max(*end);
        }
        while at < frames.end {
            let next = self.0.range(at..).next().map(|(start, (end, _))| (*start, *end));
            let stop = next.map_or(frames.end, |n| n.0.min(frames.end));
            if stop > at {
                self.0.insert(at, (stop, event));
            }
            at = next.map_or(frames.end, |n| n.1.max(stop));
        }
    }
}

/// Returns the run of a snapshot that contains a frame, and the end of its validity.
fn run_at(memory: &Memory, snapshot: usize, frame: u64) -> (Option<PageRun>, u64) {
    let (mut at, mut until) = (snapshot, u64::MAX);
    for _ in 0..=MAX_PARENTS {
        let Some(s) = memory.snapshots.get(at) else { break };
        let n = s.runs.partition_point(|r| r.first_frame <= frame);
        let run = n.checked_sub(1).and_then(|i| s.runs.get(i));
        if let Some(r) = run.filter(|r| frame < r.end_frame()) {
            return (Some(*r), until.min(r.end_frame()));
        }
        until = until.min(s.runs.get(n).map_or(u64::MAX, |r| r.first_frame));
        match s.parent.map(|p| p as usize).filter(|p| *p < at) {
            Some(p) => at = p,
            None => break,
        }
    }
    (None, until)
}

/// Calls `part` with the parts of `frames` in which two runs hold different pages; both runs cover all of them.
fn differ(new: &PageRun, old: &PageRun, frames: Range<u64>, mut part: impl FnMut(Range<u64>)) {
    let (Some(PageId(a)), Some(PageId(b))) = (new.page(frames.start), old.page(frames.start)) else {
        return;
    };
    if new.repeat == old.repeat {
        if a != b {
            part(frames);
        }
        return;
    }
    // One counts up and the other does not: they are equal in at most one frame.
    let by = if new.repeat { a.checked_sub(b) } else { b.checked_sub(a) };
    match by
        .map(|by| frames.start.saturating_add(u64::from(by)))
        .filter(|m| frames.contains(m))
    {
        Some(meet) => {
            part(frames.start..meet);
            part(meet.saturating_add(1)..frames.end);
        }
        None => part(frames),
    }
}

/// Returns the CPU writes up to an event: event and frame, by ascending event.
fn host_writes(recording: &Recording, event: u64, progress: &Progress) -> Result<Vec<(u64, u64)>, Cancelled> {
    let mut out = Vec::new();
    if recording.events.host_writes.is_empty() {
        return Ok(out);
    }
    let end = usize::try_from(event.saturating_add(1)).unwrap_or(usize::MAX);
    let mut at = 0;
    for part in recording.events.kind.slices(0..end.min(recording.events.len())) {
        for kinds in part.chunks(1 << 16) {
            progress.check()?;
            for (i, _) in kinds
                .iter()
                .enumerate()
                .filter(|(_, k)| **k == EventKind::HostWrite as u8)
            {
                if let Some(row) = recording.events.host_write(at + i) {
                    out.push(((at + i) as u64, row.frame()));
                }
            }
            at += kinds.len();
        }
    }
    Ok(out)
}

/// Returns, for each frame with contents at `event`, the event of its last change, by ascending frame. A frame that
/// never changed has the event of the first snapshot.
///
/// A change is a snapshot with another page than the previous snapshot. If the recording has CPU writes, the event is
/// the last write before that snapshot. Changes by a job between two snapshots get the event of the second snapshot.
///
/// # Errors
///
/// When the work was cancelled.
pub fn last_changes(recording: &Recording, event: u64, progress: &Progress) -> Result<Vec<FrameValue>, Cancelled> {
    let memory = &recording.memory;
    let shown = memory.snapshots.partition_point(|s| s.event <= event).max(1) - 1;
    let writes = host_writes(recording, event, progress)?;
    let mut known = FrameEvents::default();
    let mut left = writes.as_slice();
    progress.set_total(shown as u64 + 1);
    for n in (0..=shown).rev() {
        let Some(s) = memory.snapshots.get(n) else { continue };
        // Written since the snapshot, and not in another snapshot yet.
        let (before, since) = left.split_at(left.partition_point(|w| w.0 < s.event));
        since
            .iter()
            .rev()
            .for_each(|(e, f)| known.fill(*f..f.saturating_add(1), *e));
        left = before;
        let Some(previous) = n.checked_sub(1) else {
            left.iter()
                .rev()
                .for_each(|(e, f)| known.fill(*f..f.saturating_add(1), *e));
            for r in &s.runs {
                known.fill(r.first_frame..r.end_frame(), s.event);
            }
            break;
        };
        // CPU writes since the previous snapshot explain the contents of this one.
        let from = memory.snapshots.get(previous).map_or(0, |s| s.event);
        let (before, between) = left.split_at(left.partition_point(|w| w.0 < from));
        between
            .iter()
            .rev()
            .for_each(|(e, f)| known.fill(*f..f.saturating_add(1), *e));
        left = before;
        for run in &s.runs {
            let mut at = run.first_frame;
            while at < run.end_frame() {
                let (old, until) = run_at(memory, previous, at);
                let to = until.min(run.end_frame());
                match old {
                    Some(old) => differ(run, &old, at..to, |part| known.fill(part, s.event)),
                    None => known.fill(at..to, s.event),
                }
                at = to.max(at.saturating_add(1));
            }
        }
        progress.advance(1)?;
    }
    let mut out: Vec<FrameValue> = Vec::new();
    for (start, (end, value)) in known.0 {
        match out.last_mut() {
            Some(last) if last.frames.end == start && last.value == value => last.frames.end = end,
            _ => out.push(FrameValue {
                frames: start..end,
                value,
            }),
        }
    }
    Ok(out)
}
