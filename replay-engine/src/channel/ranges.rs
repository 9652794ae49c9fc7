//! The memory of a channel plan: ranges of addresses with their places.

use nvidia_client::{Control, Place};
use std::collections::BTreeMap;
use trace_core::GpuVa;

/// Bytes of a large page of the GPU.
const LARGE_PAGE: u64 = 2 << 20;
/// Bytes of a small page of the GPU.
pub const SMALL_PAGE: u64 = 4 << 10;
/// Maximum number of bytes of a range: the driver maps each as one object.
const MAX_RANGE_BYTES: u64 = 1 << 30;
/// Maximum number of bytes that a plan maps, more than a machine with its GPUs has.
pub const MAX_MAPPED_BYTES: u64 = 1 << 41;
/// Addresses below this one are in reach of ring entries.
pub const RING_REACH: u64 = 1 << 40;

/// Ranges of memory with their places. Time and memory depend on the number of ranges, not on their sizes.
#[derive(Clone, Debug, Default)]
pub struct MemoryRanges {
    /// By first address. Two ranges that touch have different places.
    spans: BTreeMap<u64, Span>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    /// Address after the last byte.
    end: u64,
    place: Place,
}

impl MemoryRanges {
    /// Adds the large pages that a recorded mapping touches: the replay maps them as a whole.
    pub fn add_large_pages(&mut self, va: GpuVa, bytes: u64, place: Place) {
        let first = va.get() / LARGE_PAGE * LARGE_PAGE;
        let end = va
            .get()
            .saturating_add(bytes)
            .div_ceil(LARGE_PAGE)
            .saturating_mul(LARGE_PAGE);
        self.add(GpuVa::new(first), end.saturating_sub(first), place);
    }

    /// Adds a range. Memory that is ever on the GPU's board is there in the replay.
    pub fn add(&mut self, va: GpuVa, bytes: u64, place: Place) {
        let (start, end) = (va.get(), va.get().saturating_add(bytes));
        if start >= end {
            return;
        }
        let mut pieces = Pieces::default();
        let mut at = start;
        for (first, span) in self.take_touching(start, end) {
            pieces.push(first, span.end.min(start), span.place);
            pieces.push(at, first.min(end), place);
            let both = match (span.place, place) {
                (Place::System, Place::System) => Place::System,
                _ => Place::Video,
            };
            pieces.push(first.max(start), span.end.min(end), both);
            pieces.push(first.max(end), span.end, span.place);
            at = at.max(span.end.min(end));
        }
        pieces.push(at, end, place);
        for (first, span) in pieces.0 {
            self.bytes = self.bytes.saturating_add(span.end - first);
            self.spans.insert(first, span);
        }
    }

    /// Removes the large page that an address is in.
    pub fn remove_large_page(&mut self, va: GpuVa) {
        let start = va.get() / LARGE_PAGE * LARGE_PAGE;
        let end = start.saturating_add(LARGE_PAGE);
        for (first, span) in self.take_touching(start, end) {
            for (first, end) in [(first, span.end.min(start)), (first.max(end), span.end)] {
                if first < end {
                    self.bytes = self.bytes.saturating_add(end - first);
                    self.spans.insert(first, Span { end, ..span });
                }
            }
        }
    }

    /// Removes the ranges that overlap or touch `start..end`, and returns them in order.
    fn take_touching(&mut self, start: u64, end: u64) -> Vec<(u64, Span)> {
        let before = self.spans.range(..start).next_back().filter(|(_, s)| s.end >= start);
        let first = before.map_or(start, |(first, _)| *first);
        let taken: Vec<(u64, Span)> = self.spans.range(first..=end).map(|(first, s)| (*first, *s)).collect();
        for (first, span) in &taken {
            self.spans.remove(first);
            self.bytes -= span.end - first;
        }
        taken
    }

    /// Returns the total size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the range that an address is in.
    fn span_at(&self, va: u64) -> Option<Span> {
        let (_, span) = self.spans.range(..=va).next_back()?;
        (span.end > va).then_some(*span)
    }

    /// Returns where the memory at an address is, or `None` if none is there.
    #[must_use]
    pub fn place(&self, va: GpuVa) -> Option<Place> {
        self.span_at(va.get()).map(|s| s.place)
    }

    /// Returns whether all of a range is in them. A range without bytes counts as its first byte.
    #[must_use]
    pub fn contain(&self, va: GpuVa, bytes: u64) -> bool {
        let Some(end) = va.get().checked_add(bytes.max(1)) else {
            return false;
        };
        let mut at = va.get();
        while at < end {
            match self.span_at(at) {
                Some(span) => at = span.end,
                None => return false,
            }
        }
        true
    }

    /// Returns whether a part of a range is in them.
    #[must_use]
    pub fn overlap(&self, va: GpuVa, bytes: u64) -> bool {
        self.find_overlap(va.get(), va.get().saturating_add(bytes.max(1)))
            .is_some()
    }

    /// Returns the first address of the lowest range that overlaps `start..end`.
    fn find_overlap(&self, start: u64, end: u64) -> Option<u64> {
        let before = self.spans.range(..start).next_back().filter(|(_, s)| s.end > start);
        before
            .or_else(|| self.spans.range(start..end).next())
            .map(|(first, _)| *first)
    }

    /// Returns the ranges, by ascending address: place, first address, bytes. Long ones are split, as the driver maps them.
    pub fn ranges(&self) -> impl Iterator<Item = (Place, GpuVa, u64)> + '_ {
        self.spans.iter().flat_map(|(first, span)| {
            let (mut at, Span { end, place }) = (*first, *span);
            std::iter::from_fn(move || {
                let bytes = (end - at).min(MAX_RANGE_BYTES);
                let va = GpuVa::new(at);
                at += bytes;
                (bytes > 0).then_some((place, va, bytes))
            })
        })
    }

    /// Returns the highest free window for the player below the reach of ring entries, or `None` if there is none.
    /// `others` are further ranges that it may not touch: first address and bytes.
    #[must_use]
    pub fn find_control(&self, others: &[(u64, u64)]) -> Option<Control> {
        let mut end = RING_REACH;
        while let Some(va) = end.checked_sub(Control::BYTES) {
            let taken = self.find_overlap(va, end);
            let is_hit = |(first, bytes): &&(u64, u64)| *first < end && first.saturating_add(*bytes) > va;
            let window = others.iter().find(is_hit).map(|(first, _)| *first);
            match taken.or(window) {
                None => return Some(Control { va }),
                Some(first) => end = first / LARGE_PAGE * LARGE_PAGE,
            }
        }
        None
    }
}

/// Ranges in order, of which neighbours in one place become one.
#[derive(Default)]
struct Pieces(Vec<(u64, Span)>);

impl Pieces {
    /// Adds a range, if it has bytes.
    fn push(&mut self, first: u64, end: u64, place: Place) {
        if first >= end {
            return;
        }
        match self.0.last_mut() {
            Some((_, last)) if last.end == first && last.place == place => last.end = end,
            _ => self.0.push((first, Span { end, place })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_become_ranges_of_large_pages() {
        let mut ranges = MemoryRanges::default();
        ranges.add_large_pages(GpuVa::new(0x2_0080_0000), 0x40_0000, Place::System);
        ranges.add_large_pages(GpuVa::new(0x2_00c0_0000), 0x1000, Place::Video);
        ranges.add_large_pages(GpuVa::new(0x2_00a0_0000), 1, Place::Video);
        let expected = [
            (Place::System, GpuVa::new(0x2_0080_0000), 0x20_0000),
            (Place::Video, GpuVa::new(0x2_00a0_0000), 0x40_0000),
        ];
        assert_eq!(ranges.ranges().collect::<Vec<_>>(), expected);
        assert_eq!(ranges.bytes(), 0x60_0000);
        assert!(ranges.contain(GpuVa::new(0x2_0080_0000), 0x60_0000));
        assert!(!ranges.contain(GpuVa::new(0x2_0080_0000), 0x60_0001));
        assert!(!ranges.contain(GpuVa::new(u64::MAX), 2));
    }

    #[test]
    fn removed_pages_leave_their_neighbours() {
        let mut ranges = MemoryRanges::default();
        ranges.add(GpuVa::new(0), 3 * LARGE_PAGE, Place::Video);
        ranges.remove_large_page(GpuVa::new(LARGE_PAGE + 0x1000));
        ranges.remove_large_page(GpuVa::new(9 * LARGE_PAGE));
        let expected = [
            (Place::Video, GpuVa::new(0), LARGE_PAGE),
            (Place::Video, GpuVa::new(2 * LARGE_PAGE), LARGE_PAGE),
        ];
        assert_eq!(ranges.ranges().collect::<Vec<_>>(), expected);
        assert_eq!(ranges.bytes(), 2 * LARGE_PAGE);
        ranges.add(GpuVa::new(LARGE_PAGE), LARGE_PAGE, Place::Video);
        assert_eq!(ranges.ranges().count(), 1, "neighbours become one range again");
    }

    #[test]
    fn control_window_avoids_memory_and_other_windows() {
        let mut ranges = MemoryRanges::default();
        let top = RING_REACH - Control::BYTES;
        assert_eq!(ranges.find_control(&[]).unwrap().va, top);
        ranges.add(GpuVa::new(RING_REACH - 0x1000), 1, Place::Video);
        let below = ranges.find_control(&[]).unwrap().va;
        assert_eq!(below, RING_REACH - LARGE_PAGE - Control::BYTES);
        let window = (below + 0x1000, 1 << 32);
        let found = ranges.find_control(&[window]).unwrap().va;
        assert_eq!(found, below - Control::BYTES);
        ranges.add(GpuVa::new(0), RING_REACH, Place::Video);
        assert_eq!(ranges.find_control(&[]), None);
    }

    #[test]
    fn ranges_equal_a_plain_list_of_places() {
        const BYTES: usize = 96;
        let mut ranges = MemoryRanges::default();
        let mut plain = [None; BYTES];
        let mut state = 7u32;
        for _ in 0..400 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (at, len) = ((state >> 8) as usize % BYTES, (state >> 16) as usize % 7);
            let len = len.min(BYTES - at);
            let place = if state >> 30 == 0 { Place::Video } else { Place::System };
            ranges.add(GpuVa::new(at as u64), len as u64, place);
            for slot in &mut plain[at..at + len] {
                let both = if *slot == Some(Place::Video) {
                    Place::Video
                } else {
                    place
                };
                *slot = Some(both);
            }
            for (n, slot) in plain.iter().enumerate() {
                assert_eq!(ranges.place(GpuVa::new(n as u64)), *slot, "byte {n}");
            }
            assert_eq!(ranges.bytes(), plain.iter().flatten().count() as u64);
            let all = plain[at..at + len.max(1)].iter().all(Option::is_some);
            assert_eq!(ranges.contain(GpuVa::new(at as u64), len as u64), all);
            let any = plain[at..(at + 9).min(BYTES)].iter().any(Option::is_some);
            assert_eq!(ranges.overlap(GpuVa::new(at as u64), 9), any);
        }
        let list: Vec<_> = ranges.ranges().collect();
        let touch = |w: &[(Place, GpuVa, u64)]| w[0].0 == w[1].0 && w[0].1.get() + w[0].2 == w[1].1.get();
        assert!(!list.windows(2).any(touch), "{list:?}");
    }

    #[test]
    fn size_of_a_mapping_costs_nothing() {
        let mut ranges = MemoryRanges::default();
        ranges.add(GpuVa::new(0x1000), u64::MAX - 0x1000, Place::System);
        ranges.add_large_pages(GpuVa::new(0x40_0000), u64::MAX, Place::Video);
        assert_eq!(ranges.bytes(), u64::MAX - 0x1000);
        assert_eq!(
            ranges.ranges().nth(1),
            Some((Place::Video, GpuVa::new(0x40_0000), MAX_RANGE_BYTES))
        );
        assert!(ranges.contain(GpuVa::new(0x1000), 1 << 60));
        assert!(!ranges.contain(GpuVa::new(0xfff), 2));
    }
}
