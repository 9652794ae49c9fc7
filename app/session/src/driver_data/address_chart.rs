//! The GPU addresses of buffers over time, in rows that a chart draws: unused addresses between rows are gaps.
//!
//! A row is a range of addresses that has the same neighbours everywhere, so that each buffer is a whole number of rows.
//! The number of rows is limited: then a row holds several such ranges, and the list of ranges stays exact.

use std::collections::BTreeSet;
use std::ops::Range;
use trace_core::GpuVa;
use trace_core::driver_trace::DriverTrace;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{ObjectKind, ObjectRow};

/// Maximum number of rows with addresses.
pub const MAX_ROWS: usize = 4096;
/// Maximum number of segments for each range, on average, before rows become coarser.
const SEGMENTS_PER_RANGE: usize = 64;
/// Minimum of the limit on segments.
const MIN_SEGMENT_LIMIT: usize = 1 << 20;
/// Number of ranges between two checks for cancellation.
const CHECK_INTERVAL: usize = 4096;
/// Weight of a gap, in rows of a page.
const GAP_WEIGHT: f32 = 1.4;

/// Where the memory of a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryPlace {
    /// The memory of the GPU.
    Video,
    /// The memory of the host.
    Host,
    /// A push buffer, whose place the source does not state.
    PushBuffer,
    /// The source does not state it.
    Unknown,
}

impl MemoryPlace {
    /// All places, in the order of legends.
    pub const ALL: [Self; 4] = [Self::Video, Self::Host, Self::PushBuffer, Self::Unknown];

    /// Returns its name in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Video => "video memory",
            Self::Host => "host memory",
            Self::PushBuffer => "push buffer",
            Self::Unknown => "place unknown",
        }
    }
}

/// A range of GPU addresses that belongs to an object for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// Handle of the address space, if known.
    pub space: Option<u32>,
    /// First address.
    pub va: GpuVa,
    /// Number of bytes, at least 1.
    pub bytes: u64,
    /// Offset of the first byte in the object.
    pub offset: u64,
    /// Index of the object in [`DriverTrace::objects`].
    pub object: u32,
    /// First event after which it exists.
    pub from: u64,
    /// Event that ends it, or `None` if it exists at the end.
    pub to: Option<u64>,
    /// Where its memory is.
    pub place: MemoryPlace,
}

impl MappedRange {
    /// Whether the range exists after an event.
    #[must_use]
    pub fn exists_after(&self, event: u64) -> bool {
        self.from <= event && self.to.is_none_or(|to| to > event)
    }

    /// Returns the address after the last byte.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        self.va.saturating_add(self.bytes)
    }
}

/// What a row of the chart holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRowKind {
    /// The name of an address space: its handle, if known.
    Space(Option<u32>),
    /// Addresses that no buffer ever has.
    Gap {
        /// Number of bytes.
        bytes: u64,
    },
    /// Addresses of buffers.
    Addresses {
        /// First address.
        start: GpuVa,
        /// Address after the last byte.
        end: GpuVa,
        /// Its segments in [`AddressChart::segments`].
        segments: Range<u32>,
    },
}

/// A row of the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressRow {
    /// What it holds.
    pub kind: AddressRowKind,
    /// Distance from the top of the chart, in rows of a page.
    pub top: f64,
    /// Height, in rows of a page. It grows with the logarithm of the number of bytes.
    pub weight: f32,
}

/// A part of a row that a range takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSegment {
    /// Index in [`AddressChart::ranges`].
    pub range: u32,
    /// First event after which it exists.
    pub from: u64,
    /// Event that ends it; [`u64::MAX`] if it exists at the end.
    pub to: u64,
    /// Last end of this segment and those before it in the row.
    latest: u64,
}

/// The addresses of buffers over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddressChart {
    /// Ranges by address space, address and event.
    pub ranges: Vec<MappedRange>,
    /// Rows from top to bottom.
    pub rows: Vec<AddressRow>,
    /// Segments of all rows; those of a row are ordered by their first event.
    pub segments: Vec<RowSegment>,
    /// Height of all rows, in rows of a page.
    pub height: f64,
    /// Number of buffers without a known GPU address.
    pub without_address: u64,
}

impl AddressChart {
    /// Builds the chart of a driver trace.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub(super) fn new(trace: &DriverTrace, progress: &Progress) -> Result<Self, Cancelled> {
        let mut chart = Self::default();
        chart.find_ranges(trace);
        progress.check()?;
        chart.build_rows(progress)?;
        Ok(chart)
    }

    fn find_ranges(&mut self, trace: &DriverTrace) {
        let mapped: BTreeSet<usize> = trace.mappings().iter().map(|m| m.object).collect();
        for m in trace.mappings() {
            let flags = trace.objects().get(m.object).map_or(0, |o| o.flags);
            self.ranges.push(MappedRange {
                space: m.space,
                va: m.va,
                bytes: m.bytes.max(1),
                offset: m.offset,
                object: m.object as u32,
                from: m.map_event,
                to: m.unmap_event,
                place: find_place(flags),
            });
        }
        for (n, o) in trace.objects().iter().enumerate() {
            let place = match o.kind {
                Some(ObjectKind::Buffer) => find_place(o.flags),
                Some(ObjectKind::Channel) => MemoryPlace::PushBuffer,
                _ => continue,
            };
            if mapped.contains(&n) {
                continue;
            }
            let (Some(va), Some(bytes)) = (o.address, o.bytes) else {
                self.without_address += u64::from(o.kind == Some(ObjectKind::Buffer));
                continue;
            };
            self.ranges.push(MappedRange {
                space: None,
                va,
                bytes: bytes.max(1),
                offset: 0,
                object: n as u32,
                from: o.alloc_event.unwrap_or(0),
                to: o.free_event,
                place,
            });
        }
        self.ranges.sort_by_key(|r| (r.space, r.va, r.from));
    }

    /// Returns the parts of the addresses that have the same neighbours everywhere, by address space.
    fn find_parts(&self) -> Vec<(Option<u32>, GpuVa, GpuVa)> {
        let mut parts = Vec::new();
        for list in self.ranges.chunk_by(|a, b| a.space == b.space) {
            let Some(space) = list.first().map(|r| r.space) else {
                continue;
            };
            // +1 where a range begins, -1 after it.
            let mut edges: Vec<(GpuVa, i64)> = list.iter().flat_map(|r| [(r.va, 1), (r.end(), -1)]).collect();
            edges.sort_unstable();
            let mut count = 0i64;
            let mut before = GpuVa::new(0);
            for (at, change) in edges {
                if count > 0 && at > before {
                    parts.push((space, before, at));
                }
                count += change;
                before = at;
            }
        }
        parts
    }

    fn build_rows(&mut self, progress: &Progress) -> Result<(), Cancelled> {
        let parts = self.find_parts();
        let limit = self
            .ranges
            .len()
            .saturating_mul(SEGMENTS_PER_RANGE)
            .max(MIN_SEGMENT_LIMIT);
        let mut parts_per_row = parts.len().div_ceil(MAX_ROWS).max(1);
        let (rows, mut segments) = loop {
            let rows = join_parts(&parts, parts_per_row);
            match self.cut_ranges(&rows, limit, progress)? {
                Some(segments) => break (rows, segments),
                None => parts_per_row = parts_per_row.saturating_mul(2),
            }
        };
        segments.sort_by_key(|(row, s)| (*row, s.from, s.range));
        let mut next = 0usize;
        let mut before: Option<(Option<u32>, GpuVa)> = None;
        for (n, (space, start, end)) in rows.into_iter().enumerate() {
            match before {
                Some((s, last)) if s == space => {
                    let bytes = start.offset_from(last).unwrap_or(0);
                    if bytes > 0 {
                        self.push_row(AddressRowKind::Gap { bytes }, GAP_WEIGHT);
                    }
                }
                _ => self.push_row(AddressRowKind::Space(space), 1.0),
            }
            before = Some((space, end));
            let first = next;
            let mut latest = 0;
            while let Some((_, segment)) = segments.get_mut(next).filter(|(row, _)| *row == n) {
                latest = segment.to.max(latest);
                segment.latest = latest;
                next += 1;
            }
            let bytes = end.offset_from(start).unwrap_or(0);
            let segments = first as u32..next as u32;
            self.push_row(AddressRowKind::Addresses { start, end, segments }, row_weight(bytes));
        }
        self.segments = segments.into_iter().map(|(_, s)| s).collect();
        Ok(())
    }

    fn push_row(&mut self, kind: AddressRowKind, weight: f32) {
        let top = self.height;
        self.rows.push(AddressRow { kind, top, weight });
        self.height += f64::from(weight);
    }

    /// Cuts the ranges into segments of rows. Returns `None` if there are more than `limit`.
    #[allow(clippy::type_complexity, reason = "pairs of a row and its segment, used once")]
    fn cut_ranges(
        &self,
        rows: &[(Option<u32>, GpuVa, GpuVa)],
        limit: usize,
        progress: &Progress,
    ) -> Result<Option<Vec<(usize, RowSegment)>>, Cancelled> {
        let mut out = Vec::new();
        for (n, r) in self.ranges.iter().enumerate() {
            if n % CHECK_INTERVAL == 0 {
                progress.check()?;
            }
            let first = rows.partition_point(|(space, _, end)| (*space, *end) <= (r.space, r.va));
            let end = r.end();
            for (at, (space, start, _)) in rows.iter().enumerate().skip(first) {
                if *space != r.space || *start >= end {
                    break;
                }
                let segment = RowSegment {
                    range: n as u32,
                    from: r.from,
                    to: r.to.unwrap_or(u64::MAX),
                    latest: 0,
                };
                out.push((at, segment));
            }
            if out.len() > limit && rows.len() > 1 {
                return Ok(None);
            }
        }
        Ok(Some(out))
    }

    /// Returns the index of the row at a distance from the top, in rows of a page.
    #[must_use]
    pub fn row_at(&self, distance: f64) -> usize {
        self.rows.partition_point(|r| r.top <= distance).saturating_sub(1)
    }

    /// Returns the first segment of a row that may exist after an event, as an index in [`AddressChart::segments`].
    #[must_use]
    pub fn first_segment(&self, segments: &Range<u32>, event: u64) -> u32 {
        let list = self.segments.get(segments.start as usize..segments.end as usize);
        let skipped = list.unwrap_or_default().partition_point(|s| s.latest <= event);
        segments.start.saturating_add(skipped as u32)
    }

    /// Returns the ranges that exist after an event, as indices in [`AddressChart::ranges`]. Takes time proportional to
    /// the number of ranges.
    #[must_use]
    pub fn ranges_after(&self, event: u64) -> Vec<u32> {
        let ranges = (0u32..).zip(&self.ranges);
        ranges.filter(|(_, r)| r.exists_after(event)).map(|(n, _)| n).collect()
    }

    /// Returns the first range of an object that exists after an event, or else its first range of all time.
    #[must_use]
    pub fn range_of(&self, object: u32, event: u64) -> Option<u32> {
        let own = || (0u32..).zip(&self.ranges).filter(|(_, r)| r.object == object);
        let now = own().find(|(_, r)| r.exists_after(event));
        now.or_else(|| own().next()).map(|(n, _)| n)
    }

    /// Returns the row in which a range begins.
    #[must_use]
    pub fn row_of_range(&self, range: u32) -> Option<usize> {
        let r = self.ranges.get(range as usize)?;
        let mut space = None;
        self.rows.iter().position(|row| match &row.kind {
            AddressRowKind::Space(s) => {
                space = Some(*s);
                false
            }
            AddressRowKind::Gap { .. } => false,
            AddressRowKind::Addresses { start, end, .. } => space == Some(r.space) && *start <= r.va && r.va < *end,
        })
    }
}

fn find_place(flags: u32) -> MemoryPlace {
    match flags {
        f if f & ObjectRow::VIDEO_MEMORY != 0 => MemoryPlace::Video,
        f if f & ObjectRow::HOST_MEMORY != 0 => MemoryPlace::Host,
        _ => MemoryPlace::Unknown,
    }
}

/// Returns the height of a row: 1 for a page and less, 4 for 64 MiB.
fn row_weight(bytes: u64) -> f32 {
    let doublings = (bytes.max(1) as f64 / 4096.0).log2().max(0.0);
    1.0 + (doublings * 0.22) as f32
}

/// Joins `count` neighbours to one row. A row never spans address spaces.
fn join_parts(parts: &[(Option<u32>, GpuVa, GpuVa)], count: usize) -> Vec<(Option<u32>, GpuVa, GpuVa)> {
    let mut rows = Vec::new();
    for space in parts.chunk_by(|a, b| a.0 == b.0) {
        for joined in space.chunks(count.max(1)) {
            if let (Some(first), Some(last)) = (joined.first(), joined.last()) {
                rows.push((first.0, first.1, last.2));
            }
        }
    }
    rows
}
