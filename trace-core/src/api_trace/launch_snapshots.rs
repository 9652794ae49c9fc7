//! Launches with a memory snapshot before and after them; the difference is what the launch changed.
//!
//! A snapshot after a launch holds the pages that the launch changed. A snapshot before a launch holds the pages that
//! differ from the previous snapshot. Changes between two such launches are not recorded in any other way
//! (`docs/format.md`).

use super::launch_changes::{BufferChange, LaunchChanges, LaunchSnapshots};
use super::ranges::Entry;
use super::rows::{NOT_RECORDED, copy_at, is_snapshot};
use super::{ApiTrace, DeviceBytes};
use crate::GpuVa;
use crate::progress::{Cancelled, Progress};
use crate::recording::{CallEvent, Recording};
use std::ops::Range;
use std::sync::Arc;

/// Size of one comparison step, bytes.
const PIECE: u64 = 1 << 20;
/// Maximum number of launches that are searched for one that changed a byte.
const MAX_CHECKED_LAUNCHES: usize = 1 << 14;
/// Maximum number of bytes compared in total when a recording is opened.
const MAX_COMPARED_BYTES: u64 = 4 << 30;

impl ApiTrace {
    /// Finds the launches with snapshots around them, by the names of the snapshots.
    pub(super) fn find_launch_snapshots(&mut self, recording: &Recording) {
        let begins: Vec<u64> = self.snapshots_named("snapshot before launch").collect();
        let behinds: Vec<u64> = self.snapshots_named("snapshot after launch").collect();
        let ends = begins.iter().copied().skip(1).chain([self.events]);
        let of = |(begin, end): (u64, u64)| {
            let launch = self.launches_in(begin..end).first()?.event;
            let n = behinds.partition_point(|b| *b < launch);
            let behind = behinds.get(n).copied().filter(|b| *b < end);
            // The pieces of the snapshot follow it, after the allocations and frees. The program's own readbacks come
            // later.
            let is_piece = |e: &u64| match usize::try_from(*e).ok().and_then(|e| recording.events.call(e)) {
                Some(CallEvent::Copy(row)) => is_snapshot(&row),
                Some(CallEvent::Allocation(_) | CallEvent::Order(_)) => true,
                _ => false,
            };
            let behind = behind.map(|b| b..b + 1 + (b + 1..end).take_while(is_piece).count() as u64);
            Some(LaunchSnapshots {
                before: begin,
                launch,
                after: behind,
            })
        };
        self.launch_snapshots = begins.iter().copied().zip(ends).filter_map(of).collect();
        if !self.launch_snapshots.is_empty() {
            let all = self.launches.iter().map(|l| l.event);
            self.open = all.filter(|e| !self.has_snapshot_after(*e)).collect();
            let describe = |e: &Entry| e.tag & NOT_RECORDED == 0 && self.launch_of_snapshot(e.event).is_some();
            self.behind = self.seen.only(describe);
        }
    }

    fn snapshots_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u64> + 'a {
        self.snapshots.iter().filter(move |(_, n)| n == name).map(|(e, _)| *e)
    }

    /// Returns whether any launch has snapshots around it.
    #[must_use]
    pub fn has_launch_snapshots(&self) -> bool {
        !self.launch_snapshots.is_empty()
    }

    /// Returns the launches with snapshots around them in a range of events.
    fn launch_snapshots_in(&self, events: &Range<u64>) -> &[LaunchSnapshots] {
        let at = |event: u64| self.launch_snapshots.partition_point(|a| a.launch < event);
        self.launch_snapshots
            .get(at(events.start)..at(events.end))
            .unwrap_or_default()
    }

    /// Returns the events of launches without snapshots around them in a range of events.
    pub(super) fn launches_without_snapshots(&self, events: &Range<u64>) -> &[u64] {
        let at = |event: u64| self.open.partition_point(|e| *e < event);
        self.open.get(at(events.start)..at(events.end)).unwrap_or_default()
    }

    /// Returns whether a snapshot after the launch at an event holds what it changed.
    pub(super) fn has_snapshot_after(&self, event: u64) -> bool {
        let n = self.launch_snapshots.binary_search_by_key(&event, |a| a.launch);
        n.ok()
            .and_then(|n| self.launch_snapshots.get(n))
            .is_some_and(|a| a.after.is_some())
    }

    /// Returns the launch whose following snapshot contains this event as a piece.
    fn launch_of_snapshot(&self, event: u64) -> Option<u64> {
        let n = self
            .launch_snapshots
            .partition_point(|a| a.before <= event)
            .checked_sub(1)?;
        let a = self.launch_snapshots.get(n)?;
        a.after.as_ref()?.contains(&event).then_some(a.launch)
    }

    /// Returns the event after which a readback gives no information about memory at `next_event`. A snapshot before a
    /// launch holds only what changed since the previous launch.
    pub(super) fn readback_limit(&self, next_event: u64) -> u64 {
        // Before the first of them is the start of the recording.
        let n = self.launch_snapshots.partition_point(|a| a.before < next_event).max(1);
        self.launch_snapshots.get(n).map_or(u64::MAX, |a| a.before)
    }

    /// Finds the last or the first launch in a range of events whose following snapshot contains an address: the
    /// launch changed that page.
    pub(super) fn find_launch_with_changed_page(
        &self,
        address: GpuVa,
        events: &Range<u64>,
        first: bool,
    ) -> Option<u64> {
        let among = self.launch_snapshots_in(events);
        // The snapshots are sorted as the launches are.
        let end = among.iter().rev().find_map(|a| a.after.as_ref()).map_or(0, |b| b.end);
        let of = |e: &Entry| self.launch_of_snapshot(e.event).is_some_and(|l| events.contains(&l));
        let found = match first {
            true => self.behind.first(address, events.start..end, of),
            false => self.behind.last(address, events.start..end, of),
        };
        self.launch_of_snapshot(found?.event)
    }

    /// Finds the last launch in a range of events that changed a byte, as recorded by its snapshots. Returns its
    /// event, the byte before it and the byte after it.
    ///
    /// # Errors
    /// The event before which the search stopped, because too many launches left the byte unchanged.
    pub(super) fn find_last_recorded_change(
        &self,
        recording: &Recording,
        address: GpuVa,
        events: Range<u64>,
    ) -> Result<Option<(u64, u8, u8)>, u64> {
        let mut left = events;
        for _ in 0..MAX_CHECKED_LAUNCHES {
            let Some(launch) = self.find_launch_with_changed_page(address, &left, false) else {
                return Ok(None);
            };
            let byte = |next_event: u64| {
                let read = self.read(recording, address..address.checked_add(1)?, next_event);
                let known = read.pieces.first().is_some_and(|p| p.state.is_known());
                read.bytes.first().copied().filter(|_| known)
            };
            if let (Some(was), Some(is)) = (byte(launch), byte(launch + 1))
                && was != is
            {
                return Ok(Some((launch, was, is)));
            }
            left.end = launch;
        }
        Err(left.end)
    }

    /// Compares the memory before and after each of these launches. Once the total limit is reached, the changes of
    /// the remaining launches stay unknown.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub(super) fn compare_launch_snapshots(
        &mut self,
        recording: &Recording,
        progress: &Progress,
    ) -> Result<(), Cancelled> {
        let mut compared = 0u64;
        for a in self.launch_snapshots.clone() {
            let Some(behind) = a.after else { continue };
            let mut pieces: Vec<Range<GpuVa>> = Vec::new();
            for event in behind {
                let row =
                    copy_at(&recording.events, event).filter(|row| is_snapshot(row) && recording.has_copy_content(row));
                pieces.extend(
                    row.and_then(|row| Some(GpuVa::new(row.from)..GpuVa::new(row.from.checked_add(row.bytes)?))),
                );
            }
            pieces.sort_unstable_by_key(|p| p.start);
            compared = pieces.iter().fold(compared, |n, p| n.saturating_add(p.end - p.start));
            if compared > MAX_COMPARED_BYTES {
                break;
            }
            let mut list: Vec<BufferChange> = Vec::new();
            for piece in pieces {
                let mut at = piece.start;
                while at < piece.end {
                    progress.check()?;
                    let range = at..piece.end.min(at.saturating_add(PIECE));
                    at = range.end;
                    let was = self.read(recording, range.clone(), a.launch);
                    let is = self.read(recording, range.clone(), a.launch + 1);
                    self.collect_known_differences(range.start, (&was, &is), a.launch, &mut list);
                }
            }
            let left = LaunchChanges { complete: true, list };
            self.left.insert(a.launch, Arc::new(left));
        }
        self.count_complete_changes();
        Ok(())
    }

    /// Adds the differences in bytes that are known on both sides.
    fn collect_known_differences(
        &self,
        from: GpuVa,
        (was, is): (&DeviceBytes, &DeviceBytes),
        event: u64,
        to: &mut Vec<BufferChange>,
    ) {
        if was.bytes == is.bytes {
            return;
        }
        for p in was.pieces.iter().filter(|p| p.state.is_known()) {
            for q in is.pieces.iter().filter(|q| q.state.is_known()) {
                let (first, end) = (p.range.start.max(q.range.start), p.range.end.min(q.range.end));
                if first < end {
                    let part = (first - from) as usize..(end - from) as usize;
                    let (a, b) = (was.bytes.get(part.clone()), is.bytes.get(part));
                    self.differences(first, a.unwrap_or_default(), b.unwrap_or_default(), event, to);
                }
            }
        }
    }
}
