//! Memory trace: memory contents observed on a target while it replayed the recorded calls.
//!
//! A sample is the content of one address range directly before one event. Each range that a traced launch changed has
//! two samples: one before the launch, one after it. A traced range without samples stayed unchanged. Between two
//! samples of a range, only untraced launches may have written it.

use crate::encode::{self, EncodeError};
use crate::{GpuVa, PAGE_SIZE};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The content of one address range directly before one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemorySample {
    /// First address of the range, as recorded.
    pub at: GpuVa,
    /// The event that happens next.
    pub next_event: u64,
    /// Size of the range, 1 to 4096 bytes.
    pub bytes: u32,
    /// Start of the bytes in the content of the [`MemoryTrace`].
    pub content: u64,
}

impl MemorySample {
    fn end(&self) -> GpuVa {
        self.at.saturating_add(u64::from(self.bytes))
    }
}

/// The fields of a memory trace other than the content bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TraceHeader {
    target: String,
    events: Range<u64>,
    whole: bool,
    ranges: Vec<Range<GpuVa>>,
    samples: Vec<MemorySample>,
}

/// A memory trace from one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryTrace {
    header: TraceHeader,
    content: Vec<u8>,
    /// Indices of the samples, sorted by next event.
    by_event: Vec<u32>,
}

/// Why bytes or samples are not a valid memory trace.
#[derive(Debug, thiserror::Error)]
pub enum MemoryTraceError {
    /// The record before the content bytes is invalid.
    #[error(transparent)]
    Record(#[from] EncodeError),
    /// The data ends too early.
    #[error("the memory trace has {bytes} bytes, which is too few")]
    Truncated {
        /// Size of the data, bytes.
        bytes: usize,
    },
    /// A sample or a range is invalid.
    #[error("the memory trace is damaged: {what}, at {at:#x}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Address of the sample or the range.
        at: u64,
    },
}

impl MemoryTrace {
    /// Creates a memory trace of the target with this name. Launches were traced in `events`, in all memory of the
    /// recording or only in `ranges` (ascending, disjoint). The samples need not be sorted.
    ///
    /// # Errors
    /// If ranges overlap or are not ascending. Also if a sample is empty or too large, partly overlaps another range,
    /// has a next event that was not traced, or refers to missing bytes.
    pub fn new(
        target: &str,
        events: Range<u64>,
        whole: bool,
        ranges: Vec<Range<GpuVa>>,
        samples: Vec<MemorySample>,
        content: Vec<u8>,
    ) -> Result<Self, MemoryTraceError> {
        let header = TraceHeader {
            target: target.to_owned(),
            events,
            whole,
            ranges,
            samples,
        };
        Self::checked(header, content)
    }

    fn checked(mut header: TraceHeader, content: Vec<u8>) -> Result<Self, MemoryTraceError> {
        let wrong = |what, at| Err(MemoryTraceError::Damaged { what, at });
        if header.events.start > header.events.end || header.events.end == u64::MAX {
            return wrong("the event range is reversed or has no end", header.events.start);
        }
        let mut last = GpuVa::ZERO;
        for r in &header.ranges {
            if r.start >= r.end || r.start < last {
                return wrong("a range is empty or not in ascending order", r.start.get());
            }
            last = r.end;
        }
        header.samples.sort_unstable();
        for s in &header.samples {
            if s.bytes == 0 || s.bytes as usize > PAGE_SIZE || s.end() == GpuVa::MAX {
                return wrong("a sample has an invalid size", s.at.get());
            }
            if !(header.events.start..=header.events.end).contains(&s.next_event) {
                return wrong("a sample belongs to a moment that was not traced", s.at.get());
            }
            let end = s.content.checked_add(u64::from(s.bytes));
            if end.is_none_or(|end| end > content.len() as u64) {
                return wrong("a sample refers to missing bytes", s.at.get());
            }
        }
        for pair in header.samples.windows(2) {
            let [a, b] = pair else { continue };
            let same = a.at == b.at;
            if same && (a.bytes != b.bytes || a.next_event == b.next_event) || !same && a.end() > b.at {
                return wrong("two samples of one address overlap", b.at.get());
            }
        }
        let Ok(count) = u32::try_from(header.samples.len()) else {
            return wrong("there are too many samples", 0);
        };
        let mut by_event: Vec<u32> = (0..count).collect();
        by_event.sort_by_key(|n| header.samples.get(*n as usize).map(|s| s.next_event));
        Ok(Self {
            header,
            content,
            by_event,
        })
    }

    /// Encodes the trace as bytes: the length of a record, the record, then the content of the samples.
    ///
    /// # Errors
    /// If there are more samples than a record can hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>, MemoryTraceError> {
        let record = encode::to_bytes(&self.header)?;
        let mut bytes = Vec::with_capacity(size_of::<u64>() + record.len() + self.content.len());
        bytes.extend_from_slice(&(record.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&record);
        bytes.extend_from_slice(&self.content);
        Ok(bytes)
    }

    /// Decodes the output of [`MemoryTrace::to_bytes`]; the bytes may come from another machine.
    ///
    /// # Errors
    /// If the bytes are not a valid encoding, or for the reasons of [`MemoryTrace::new`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MemoryTraceError> {
        let cut = || MemoryTraceError::Truncated { bytes: bytes.len() };
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (record, content) = rest.split_at_checked(length).ok_or_else(cut)?;
        Self::checked(encode::from_bytes(record)?, content.to_vec())
    }

    /// Returns the name of the target.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.header.target
    }

    /// Returns the same trace under another target name, the one that the requester uses.
    #[must_use]
    pub fn with_target(mut self, target: &str) -> Self {
        target.clone_into(&mut self.header.target);
        self
    }

    /// Returns the range of events in which launches were traced.
    #[must_use]
    pub fn events(&self) -> Range<u64> {
        self.header.events.clone()
    }

    /// Returns whether all memory of the recording was traced.
    #[must_use]
    pub fn covers_all_memory(&self) -> bool {
        self.header.whole
    }

    /// Returns the samples, sorted by address and next event.
    #[must_use]
    pub fn samples(&self) -> &[MemorySample] {
        &self.header.samples
    }

    /// Returns the size of the content of all samples, bytes.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.content.len() as u64
    }

    /// Returns the bytes of a sample.
    #[must_use]
    pub fn sample_bytes(&self, sample: &MemorySample) -> &[u8] {
        let from = usize::try_from(sample.content).unwrap_or(usize::MAX);
        let to = from.saturating_add(sample.bytes as usize);
        self.content.get(from..to).unwrap_or_default()
    }

    /// Returns whether this trace can answer a request: launches in these events, and memory in `ranges` or in
    /// `look`, each extended to whole pages. An empty list of ranges means all memory.
    #[must_use]
    pub fn is_answer_to(&self, events: &Range<u64>, ranges: &[(GpuVa, u64)], look: &[(GpuVa, u64)]) -> bool {
        let page = PAGE_SIZE as u64;
        let near = |list: &[(GpuVa, u64)], from: GpuVa, to: GpuVa| {
            let within = |(at, bytes): &(GpuVa, u64)| {
                let (first, end) = (at.saturating_sub(page), at.saturating_add(*bytes).saturating_add(page));
                first <= from && to <= end
            };
            list.iter().any(within)
        };
        let whole = ranges.is_empty();
        let seen = |s: &MemorySample| {
            near(ranges, s.at, s.end()) || near(look, s.at, s.end()) || whole && self.is_traced(s.at)
        };
        self.header.events.start == events.start
            && self.header.events.end <= events.end
            && self.header.whole == whole
            && (whole || self.header.ranges.iter().all(|r| near(ranges, r.start, r.end)))
            && self.header.samples.iter().all(seen)
    }

    /// Returns whether an address was traced.
    #[must_use]
    pub fn is_traced(&self, address: GpuVa) -> bool {
        let n = self.header.ranges.partition_point(|r| r.start <= address);
        let range = n.checked_sub(1).and_then(|n| self.header.ranges.get(n));
        range.is_some_and(|r| address < r.end)
    }

    /// Returns whether this trace contains everything that another one contains.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.header.events, &other.header.events);
        let within = |r: &Range<GpuVa>| {
            let n = self.header.ranges.partition_point(|o| o.start <= r.start);
            let range = n.checked_sub(1).and_then(|n| self.header.ranges.get(n));
            range.is_some_and(|o| r.end <= o.end)
        };
        // A sample may cover a range that no launch changed.
        let seen = |s: &MemorySample| self.sample_at(s.at, s.next_event).is_some();
        ours.start <= theirs.start
            && theirs.end <= ours.end
            && other.header.ranges.iter().all(within)
            && other.header.samples.iter().all(seen)
    }

    /// Returns the next address at which a sampled or traced range starts or ends.
    pub(super) fn next_boundary(&self, address: GpuVa) -> GpuVa {
        let n = self.header.ranges.partition_point(|r| r.start <= address);
        let within = n.checked_sub(1).and_then(|n| self.header.ranges.get(n));
        let range = match within.filter(|r| address < r.end) {
            Some(r) => r.end,
            None => self.header.ranges.get(n).map_or(GpuVa::MAX, |r| r.start),
        };
        let n = self.header.samples.partition_point(|s| s.at <= address);
        let within = n.checked_sub(1).and_then(|n| self.header.samples.get(n));
        let place = match within.filter(|s| address < s.end()) {
            Some(s) => s.end(),
            None => self.header.samples.get(n).map_or(GpuVa::MAX, |s| s.at),
        };
        range.min(place)
    }

    /// Returns the samples of the range that contains an address, sorted by next event.
    pub(super) fn samples_at(&self, address: GpuVa) -> &[MemorySample] {
        let all = &self.header.samples;
        let end = all.partition_point(|s| s.at <= address);
        let last = end.checked_sub(1).and_then(|n| all.get(n));
        let Some(last) = last.filter(|s| address < s.end()) else {
            return &[];
        };
        let from = all.partition_point(|s| s.at < last.at);
        all.get(from..end).unwrap_or_default()
    }

    /// Returns the sample that contains an address before `next_event`.
    pub(super) fn sample_at(&self, address: GpuVa, next_event: u64) -> Option<&MemorySample> {
        let place = self.samples_at(address);
        let n = place.binary_search_by_key(&next_event, |s| s.next_event).ok()?;
        place.get(n)
    }

    /// Returns whether the launch at an event changed the range that contains an address.
    pub(super) fn is_changed(&self, address: GpuVa, launch: u64) -> bool {
        let both = || {
            self.sample_at(address, launch)
                .zip(self.sample_at(address, launch.checked_add(1)?))
        };
        self.header.events.contains(&launch)
            && both().is_some_and(|(was, is)| self.sample_bytes(was) != self.sample_bytes(is))
    }

    /// Finds the last launch in a range of events that changed a byte: its event, the byte before it and the byte
    /// after it.
    pub(super) fn find_last_change(
        &self,
        address: GpuVa,
        events: Range<u64>,
        is_launch: impl Fn(u64) -> bool,
    ) -> Option<(u64, u8, u8)> {
        let place = self.samples_at(address);
        let byte = |s: &MemorySample| {
            let by = usize::try_from(address - s.at).ok()?;
            self.sample_bytes(s).get(by).copied()
        };
        let end = place.partition_point(|s| s.next_event <= events.end);
        let pairs = place.get(..end)?.windows(2).rev();
        for pair in pairs {
            let [before, behind] = pair else { continue };
            if before.next_event < events.start {
                return None;
            }
            let launch = before.next_event;
            if launch + 1 != behind.next_event || !self.header.events.contains(&launch) || !is_launch(launch) {
                continue;
            }
            if let (Some(was), Some(is)) = (byte(before), byte(behind))
                && was != is
            {
                return Some((before.next_event, was, is));
            }
        }
        None
    }

    /// Returns the ranges that the launch at an event changed, ascending, as samples before and after it.
    pub(super) fn changes(&self, event: u64) -> impl Iterator<Item = (&MemorySample, &MemorySample)> {
        let sample = |n: &u32| self.header.samples.get(*n as usize);
        let behind = event.saturating_add(1);
        let next_event = |n: &u32| sample(n).map_or(0, |s| s.next_event);
        let from = self.by_event.partition_point(|n| next_event(n) < behind);
        let to = self.by_event.partition_point(|n| next_event(n) <= behind);
        let found = self.by_event.get(from..to).unwrap_or_default();
        let found = found.iter().filter(move |_| self.header.events.contains(&event));
        found.filter_map(move |n| {
            let is = sample(n)?;
            let was = sample(&n.checked_sub(1)?)?;
            (was.at == is.at && was.next_event == event).then_some((was, is))
        })
    }
}
