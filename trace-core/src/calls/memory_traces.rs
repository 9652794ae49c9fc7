//! What boards told of memory, all of them together: which launches are in doubt at an address, and what was seen
//! there.

use super::memory_trace::{MemorySample, MemoryTrace};
use super::{Calls, KernelLaunch};
use crate::progress::{Cancelled, Progress};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of answers of boards that are held: the oldest one goes when one more comes.
pub const MAX_MEMORY_TRACES: usize = 64;
/// Bytes of memory that they may tell together, but for the last one.
const MAX_HELD_BYTES: u64 = 2 << 30;
/// Launches between two looks whether somebody still waits.
const STEP: usize = 64;

/// What a launch left changed in one buffer, or outside of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferChange {
    /// The buffer; `None`: in none that the recording tells of.
    pub buffer: Option<u32>,
    /// Bytes that are others than before.
    pub bytes: u64,
    /// From the first of them to behind the last one.
    pub span: Range<u64>,
}

/// What a launch left changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchChanges {
    /// Whether all memory was watched; otherwise there may be more.
    pub complete: bool,
    /// By buffers, by their addresses; what lies in none comes together.
    pub list: Vec<BufferChange>,
}

impl Calls {
    /// The same, with what a board told besides. What it tells better takes the place of what was told before, and the
    /// oldest goes where it becomes too much.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn with_memory_trace(&self, watched: Arc<MemoryTrace>, progress: &Progress) -> Result<Self, Cancelled> {
        let mut calls = self.clone();
        calls.watched.retain(|w| !watched.covers(w));
        calls.watched.push(watched);
        let held = |c: &Self| c.watched.iter().map(|w| w.content_bytes()).sum::<u64>();
        let mut touched: Vec<Range<u64>> = calls.watched.last().map(|w| w.events()).into_iter().collect();
        while calls.watched.len() > MAX_MEMORY_TRACES || calls.watched.len() > 1 && held(&calls) > MAX_HELD_BYTES {
            touched.push(calls.watched.remove(0).events());
        }
        let touched = touched.into_iter().flat_map(|e| calls.launches_in(e).to_vec());
        let touched: Vec<KernelLaunch> = touched.collect();
        for (n, launch) in touched.into_iter().enumerate() {
            if n % STEP == 0 {
                progress.check()?;
            }
            // What the recorder took down around it is what it was.
            if calls.has_snapshot_after(launch.event) {
                continue;
            }
            match calls.collect_launch_changes(launch.event) {
                Some(left) => calls.left.insert(launch.event, Arc::new(left)),
                None => calls.left.remove(&launch.event),
            };
        }
        calls.count_complete_changes();
        calls.revision += 1;
        Ok(calls)
    }

    /// Counts the launches of which all is known that they changed.
    pub(super) fn count_complete_changes(&mut self) {
        self.left_whole = self.left.values().filter(|l| l.complete).count();
    }

    /// Whether it is known of every launch what it changed anywhere.
    #[must_use]
    pub fn has_all_changes(&self) -> bool {
        self.left_whole == self.launches.len()
    }

    /// Rises with every answer of a board: what is made of this can tell by it whether it is of the same answers.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What boards told.
    #[must_use]
    pub fn memory_traces(&self) -> &[Arc<MemoryTrace>] {
        &self.watched
    }

    /// Whether it is known what the launch at an event did to an address: a board watched it, or memory was taken down
    /// around it.
    #[must_use]
    pub fn is_traced(&self, address: u64, event: u64) -> bool {
        let describe = |w: &Arc<MemoryTrace>| w.events().contains(&event) && w.is_traced(address);
        self.has_snapshot_after(event) || self.watched.iter().any(describe)
    }

    /// Parts of some events, rising, whose launches are in doubt at an address: no board watched them there, and memory
    /// was not taken down around them.
    #[must_use]
    pub fn find_uncertain_events(&self, address: u64, events: Range<u64>) -> Vec<Range<u64>> {
        let parts = self.find_untraced_events(address, events).into_iter();
        match self.around.is_empty() {
            true => parts.collect(),
            // Of launches by themselves few are in doubt.
            false => parts
                .flat_map(|p| self.launches_without_snapshots(&p).iter().map(|e| *e..*e + 1))
                .collect(),
        }
    }

    /// Parts of some events, rising, of which no board watched the launches at an address.
    pub(super) fn find_untraced_events(&self, address: u64, events: Range<u64>) -> Vec<Range<u64>> {
        let mut left = vec![events];
        for w in self.watched.iter().filter(|w| w.is_traced(address)) {
            let seen = w.events();
            let without = |r: Range<u64>| {
                let before = r.start..r.end.min(seen.start);
                let behind = r.start.max(seen.end)..r.end;
                [before, behind]
            };
            left = left.into_iter().flat_map(without).filter(|r| r.start < r.end).collect();
        }
        left
    }

    /// The next address at which what boards told begins or ends.
    pub(super) fn next_trace_boundary(&self, address: u64) -> u64 {
        self.watched
            .iter()
            .map(|w| w.next_boundary(address))
            .min()
            .unwrap_or(u64::MAX)
    }

    /// What was seen of an address last, at one of some moments.
    pub(super) fn find_last_sample(&self, address: u64, moments: Range<u64>) -> Option<MemorySample> {
        let last = |w: &Arc<MemoryTrace>| {
            let place = w.samples_at(address);
            let n = place.partition_point(|s| s.moment < moments.end).checked_sub(1)?;
            place.get(n).copied().filter(|s| s.moment >= moments.start)
        };
        self.watched.iter().filter_map(last).max_by_key(|s| s.moment)
    }

    /// What was seen of an address first, at one of some moments.
    pub(super) fn find_first_sample(&self, address: u64, moments: Range<u64>) -> Option<MemorySample> {
        let first = |w: &Arc<MemoryTrace>| {
            let place = w.samples_at(address);
            let n = place.partition_point(|s| s.moment < moments.start);
            place.get(n).copied().filter(|s| s.moment < moments.end)
        };
        self.watched.iter().filter_map(first).min_by_key(|s| s.moment)
    }

    /// Bytes from an address on as they were seen at a moment; `None`: that is not told.
    pub(super) fn read_samples(&self, address: u64, moment: u64, to: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|r| !r.is_empty()) {
            let at = address.checked_add(done as u64)?;
            // The last answer counts, as it does where the moment is looked for.
            let found = self
                .watched
                .iter()
                .rev()
                .find_map(|w| Some((w, w.sample_at(at, moment)?)));
            let (watched, sight) = found?;
            let from = usize::try_from(at - sight.at).ok()?;
            let held = watched.sample_bytes(sight).get(from..)?;
            let part = held.len().min(rest.len());
            rest.get_mut(..part)?.copy_from_slice(held.get(..part)?);
            done += part;
        }
        Some(())
    }

    /// The launch before a moment, where it was seen to change the place that an address is in.
    pub(super) fn find_change_before(&self, address: u64, moment: u64) -> Option<u64> {
        let launch = moment.checked_sub(1)?;
        self.launch_at(launch)?;
        self.watched
            .iter()
            .any(|w| w.is_changed(address, launch))
            .then_some(launch)
    }

    /// The moment behind the last launch that was seen to change the place of an address, among some moments.
    pub(super) fn find_last_change_event(&self, address: u64, moments: Range<u64>) -> Option<u64> {
        let last = |w: &Arc<MemoryTrace>| {
            let place = w.samples_at(address);
            let n = place.partition_point(|s| s.moment < moments.end);
            let behind = place.get(..n)?.iter().rev().take_while(|s| s.moment > moments.start);
            let mut behind =
                behind.filter(|s| self.launch_at(s.moment - 1).is_some() && w.is_changed(address, s.moment - 1));
            behind.next().map(|s| s.moment)
        };
        self.watched.iter().filter_map(last).max()
    }

    /// The first launch among some events that was seen to change the place of an address.
    pub(super) fn find_first_changing_launch(&self, address: u64, events: Range<u64>) -> Option<u64> {
        let first = |w: &Arc<MemoryTrace>| {
            let place = w.samples_at(address);
            let n = place.partition_point(|s| s.moment < events.start);
            let before = place.get(n..)?.iter().take_while(|s| s.moment < events.end);
            let mut before = before.filter(|s| self.launch_at(s.moment).is_some() && w.is_changed(address, s.moment));
            before.next().map(|s| s.moment)
        };
        self.watched.iter().filter_map(first).min()
    }

    /// The last launch among some events that was seen to change a byte: its event, the byte before it, and behind.
    pub(super) fn find_last_traced_change(&self, address: u64, events: Range<u64>) -> Option<(u64, u8, u8)> {
        let launch = |event: u64| self.launch_at(event).is_some();
        let changed = |w: &Arc<MemoryTrace>| w.find_last_change(address, events.clone(), launch);
        self.watched.iter().filter_map(changed).max_by_key(|c| c.0)
    }

    /// What the launch at an event changed, as a board saw it or the recorder took it down; `None`: neither did.
    #[must_use]
    pub fn launch_changes(&self, event: u64) -> Option<&Arc<LaunchChanges>> {
        self.left.get(&event)
    }

    /// Whether it is known of any launch what it changed.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.left.is_empty()
    }

    /// What the launch at an event changed, by all boards that watched it; the last one that was asked counts.
    fn collect_launch_changes(&self, event: u64) -> Option<LaunchChanges> {
        let traces: Vec<&Arc<MemoryTrace>> = self.watched.iter().filter(|w| w.events().contains(&event)).collect();
        let whole = traces.iter().rposition(|w| w.covers_all_memory());
        let mut list = Vec::new();
        if let Some(w) = whole.and_then(|n| traces.get(n)) {
            for (was, is) in w.changes(event) {
                self.differences(is.at, w.sample_bytes(was), w.sample_bytes(is), event, &mut list);
            }
        } else {
            let mut places: BTreeMap<u64, (&MemoryTrace, &MemorySample, &MemorySample)> = BTreeMap::new();
            for w in &traces {
                places.extend(w.changes(event).map(|(was, is)| (is.at, (&***w, was, is))));
            }
            for (at, (w, was, is)) in places {
                self.differences(at, w.sample_bytes(was), w.sample_bytes(is), event, &mut list);
            }
        }
        let whole = whole.is_some();
        (!traces.is_empty()).then_some(LaunchChanges { complete: whole, list })
    }

    /// Adds the bytes from an address on that differ to what a launch changed, by buffers as they are at its event.
    pub(super) fn differences(&self, from: u64, was: &[u8], is: &[u8], event: u64, to: &mut Vec<BufferChange>) {
        for (at, (a, b)) in (from..).zip(was.iter().zip(is)) {
            if a == b {
                continue;
            }
            // Within the buffer of the byte before, as most are; what lies in none is one.
            let within = |l: &BufferChange| match l.buffer.and_then(|n| self.buffers.get(n)) {
                Some(buffer) => at < buffer.end(),
                None => self.buffers.locate(at, event).is_none(),
            };
            match to.last_mut().filter(|l| within(l)) {
                Some(l) => {
                    l.bytes += 1;
                    l.span.end = at + 1;
                }
                None => to.push(BufferChange {
                    buffer: self.buffers.locate(at, event).map(|p| p.buffer),
                    bytes: 1,
                    span: at..at + 1,
                }),
            }
        }
    }

    /// Launches among some events, all of them.
    #[must_use]
    pub fn launches_in(&self, events: Range<u64>) -> &[KernelLaunch] {
        let (from, to) = (self.launches_before(events.start), self.launches_before(events.end));
        self.launches.get(from..to).unwrap_or_default()
    }
}
