//! All memory traces of a recording together: which launches are in doubt at an address, and the samples there.

use super::launch_changes::{BufferChange, LaunchChanges};
use super::memory_trace::{MemorySample, MemoryTrace};
use super::{ApiTrace, KernelLaunch};
use crate::GpuVa;
use crate::progress::{Cancelled, Progress};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of memory traces held; a new one replaces the oldest.
pub const MAX_MEMORY_TRACES: usize = 64;
/// Maximum size of the content of all memory traces except the last, bytes.
const MAX_HELD_BYTES: u64 = 2 << 30;
/// Number of launches between two checks for cancellation.
const STEP: usize = 64;

impl ApiTrace {
    /// Returns a copy with another memory trace added. It replaces traces that it covers, and the oldest traces if
    /// the limits are exceeded.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn with_memory_trace(&self, memory_trace: Arc<MemoryTrace>, progress: &Progress) -> Result<Self, Cancelled> {
        let mut api_trace = self.clone();
        api_trace.memory_traces.retain(|w| !memory_trace.covers(w));
        api_trace.memory_traces.push(memory_trace);
        let held = |c: &Self| c.memory_traces.iter().map(|w| w.content_bytes()).sum::<u64>();
        let mut touched: Vec<Range<u64>> = api_trace.memory_traces.last().map(|w| w.events()).into_iter().collect();
        while api_trace.memory_traces.len() > MAX_MEMORY_TRACES
            || api_trace.memory_traces.len() > 1 && held(&api_trace) > MAX_HELD_BYTES
        {
            touched.push(api_trace.memory_traces.remove(0).events());
        }
        let touched = touched.into_iter().flat_map(|e| api_trace.launches_in(e).to_vec());
        let touched: Vec<KernelLaunch> = touched.collect();
        for (n, launch) in touched.into_iter().enumerate() {
            if n % STEP == 0 {
                progress.check()?;
            }
            // Snapshots from the recorder around the launch take precedence.
            if api_trace.has_snapshot_after(launch.event) {
                continue;
            }
            match api_trace.collect_launch_changes(launch.event) {
                Some(left) => api_trace.left.insert(launch.event, Arc::new(left)),
                None => api_trace.left.remove(&launch.event),
            };
        }
        api_trace.count_complete_changes();
        api_trace.revision += 1;
        Ok(api_trace)
    }

    /// Counts the launches whose changes are completely known.
    pub(super) fn count_complete_changes(&mut self) {
        self.left_whole = self.left.values().filter(|l| l.complete).count();
    }

    /// Returns whether all changes of every launch are known.
    #[must_use]
    pub fn has_all_changes(&self) -> bool {
        self.left_whole == self.launches.len()
    }

    /// Returns a number that increases with every memory trace. A result derived from the traces can use it to detect
    /// that it is out of date.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the memory traces.
    #[must_use]
    pub fn memory_traces(&self) -> &[Arc<MemoryTrace>] {
        &self.memory_traces
    }

    /// Returns whether the effect of the launch at an event on an address is known: a target traced it, or it has
    /// snapshots around it.
    #[must_use]
    pub fn is_traced(&self, address: GpuVa, event: u64) -> bool {
        let describe = |w: &Arc<MemoryTrace>| w.events().contains(&event) && w.is_traced(address);
        self.has_snapshot_after(event) || self.memory_traces.iter().any(describe)
    }

    /// Returns the parts of a range of events, ascending, whose launches are in doubt at an address: no target traced
    /// them there, and they have no snapshots around them.
    #[must_use]
    pub fn find_uncertain_events(&self, address: GpuVa, events: Range<u64>) -> Vec<Range<u64>> {
        let parts = self.find_untraced_events(address, events).into_iter();
        match self.launch_snapshots.is_empty() {
            true => parts.collect(),
            // Few of the launches without snapshots are in doubt.
            false => parts
                .flat_map(|p| self.launches_without_snapshots(&p).iter().map(|e| *e..*e + 1))
                .collect(),
        }
    }

    /// Returns the parts of a range of events, ascending, whose launches no target traced at an address.
    pub(super) fn find_untraced_events(&self, address: GpuVa, events: Range<u64>) -> Vec<Range<u64>> {
        let mut left = vec![events];
        for w in self.memory_traces.iter().filter(|w| w.is_traced(address)) {
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

    /// Returns the next address at which a range of a memory trace starts or ends.
    pub(super) fn next_trace_boundary(&self, address: GpuVa) -> GpuVa {
        self.memory_traces
            .iter()
            .map(|w| w.next_boundary(address))
            .min()
            .unwrap_or(GpuVa::MAX)
    }

    /// Returns the last sample of an address with a next event in this range.
    pub(super) fn find_last_sample(&self, address: GpuVa, next_events: Range<u64>) -> Option<MemorySample> {
        let last = |w: &Arc<MemoryTrace>| {
            let place = w.samples_at(address);
            let n = place
                .partition_point(|s| s.next_event < next_events.end)
                .checked_sub(1)?;
            place.get(n).copied().filter(|s| s.next_event >= next_events.start)
        };
        self.memory_traces.iter().filter_map(last).max_by_key(|s| s.next_event)
    }

    /// Returns the first sample of an address with a next event in this range.
    pub(super) fn find_first_sample(&self, address: GpuVa, next_events: Range<u64>) -> Option<MemorySample> {
        let first = |w: &Arc<MemoryTrace>| {
            let place = w.samples_at(address);
            let n = place.partition_point(|s| s.next_event < next_events.start);
            place.get(n).copied().filter(|s| s.next_event < next_events.end)
        };
        self.memory_traces.iter().filter_map(first).min_by_key(|s| s.next_event)
    }

    /// Reads sampled bytes from an address on, before `next_event`; returns `None` if no samples hold them.
    pub(super) fn read_samples(&self, address: GpuVa, next_event: u64, to: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|r| !r.is_empty()) {
            let at = address.checked_add(done as u64)?;
            // The last trace takes precedence, as in the search for the event.
            let found = self
                .memory_traces
                .iter()
                .rev()
                .find_map(|w| Some((w, w.sample_at(at, next_event)?)));
            let (memory_trace, sample) = found?;
            let from = usize::try_from(at - sample.at).ok()?;
            let held = memory_trace.sample_bytes(sample).get(from..)?;
            let part = held.len().min(rest.len());
            rest.get_mut(..part)?.copy_from_slice(held.get(..part)?);
            done += part;
        }
        Some(())
    }

    /// Returns the launch directly before an event, if it was observed to change the range that contains an address.
    pub(super) fn find_change_before(&self, address: GpuVa, next_event: u64) -> Option<u64> {
        let launch = next_event.checked_sub(1)?;
        self.launch_at(launch)?;
        self.memory_traces
            .iter()
            .any(|w| w.is_changed(address, launch))
            .then_some(launch)
    }

    /// Returns the event after the last launch that was observed to change the range of an address. Only launches whose
    /// next event is in this range count.
    pub(super) fn find_last_change_event(&self, address: GpuVa, next_events: Range<u64>) -> Option<u64> {
        let last = |w: &Arc<MemoryTrace>| {
            let place = w.samples_at(address);
            let n = place.partition_point(|s| s.next_event < next_events.end);
            let behind = place
                .get(..n)?
                .iter()
                .rev()
                .take_while(|s| s.next_event > next_events.start);
            let mut behind = behind
                .filter(|s| self.launch_at(s.next_event - 1).is_some() && w.is_changed(address, s.next_event - 1));
            behind.next().map(|s| s.next_event)
        };
        self.memory_traces.iter().filter_map(last).max()
    }

    /// Returns the first launch in a range of events that was observed to change the range of an address.
    pub(super) fn find_first_changing_launch(&self, address: GpuVa, events: Range<u64>) -> Option<u64> {
        let first = |w: &Arc<MemoryTrace>| {
            let place = w.samples_at(address);
            let n = place.partition_point(|s| s.next_event < events.start);
            let before = place.get(n..)?.iter().take_while(|s| s.next_event < events.end);
            let mut before =
                before.filter(|s| self.launch_at(s.next_event).is_some() && w.is_changed(address, s.next_event));
            before.next().map(|s| s.next_event)
        };
        self.memory_traces.iter().filter_map(first).min()
    }

    /// Finds the last launch in a range of events that was observed to change a byte: its event, the byte before it
    /// and the byte after it.
    pub(super) fn find_last_traced_change(&self, address: GpuVa, events: Range<u64>) -> Option<(u64, u8, u8)> {
        let launch = |event: u64| self.launch_at(event).is_some();
        let changed = |w: &Arc<MemoryTrace>| w.find_last_change(address, events.clone(), launch);
        self.memory_traces.iter().filter_map(changed).max_by_key(|c| c.0)
    }

    /// Returns the changes of the launch at an event, from a memory trace or the recorder's snapshots; `None` if
    /// neither covers it.
    #[must_use]
    pub fn launch_changes(&self, event: u64) -> Option<&Arc<LaunchChanges>> {
        self.left.get(&event)
    }

    /// Returns whether the changes of any launch are known.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.left.is_empty()
    }

    /// Collects the changes of the launch at an event from all memory traces that cover it; the last trace takes
    /// precedence.
    fn collect_launch_changes(&self, event: u64) -> Option<LaunchChanges> {
        let traces: Vec<&Arc<MemoryTrace>> = self
            .memory_traces
            .iter()
            .filter(|w| w.events().contains(&event))
            .collect();
        let whole = traces.iter().rposition(|w| w.covers_all_memory());
        let mut list = Vec::new();
        if let Some(w) = whole.and_then(|n| traces.get(n)) {
            for (was, is) in w.changes(event) {
                self.differences(is.at, w.sample_bytes(was), w.sample_bytes(is), event, &mut list);
            }
        } else {
            let mut places: BTreeMap<GpuVa, (&MemoryTrace, &MemorySample, &MemorySample)> = BTreeMap::new();
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

    /// Adds the bytes that differ, from an address on, to the changes of a launch. Buffers are those live at its
    /// event.
    pub(super) fn differences(&self, from: GpuVa, was: &[u8], is: &[u8], event: u64, to: &mut Vec<BufferChange>) {
        for (by, (a, b)) in (0u64..).zip(was.iter().zip(is)) {
            if a == b {
                continue;
            }
            let at = from + by;
            // Most changed bytes are in the buffer of the byte before. Bytes in no buffer form one entry.
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

    /// Returns all launches in a range of events.
    #[must_use]
    pub fn launches_in(&self, events: Range<u64>) -> &[KernelLaunch] {
        let (from, to) = (self.launches_before(events.start), self.launches_before(events.end));
        self.launches.get(from..to).unwrap_or_default()
    }
}
