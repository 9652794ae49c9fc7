//! How many events of each lane lie in each pixel, at a cost that depends on the pixels and not on the events.
//!
//! Events are counted in blocks of [`BLOCK`], and the counts are summed up from the start, so that any range of whole
//! blocks is one subtraction; what a range has beyond whole blocks is looked at, at most two blocks a pixel. Small
//! things therefore never vanish: a single event in a million is a count of 1 in its pixel.

use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, Events, Recording, SpaceKind};
use crate::registers::RegisterMap;
use rayon::prelude::*;
use std::ops::Range;

/// Events in a block.
const BLOCK: usize = 64;
/// Blocks that one worker counts in one go.
const STRIDE: usize = 1 << 10;

/// What the horizontal axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Events, from 0.
    Ordinal,
    /// Nanoseconds on the recording's clock. Where the clock runs backwards an event stands at the latest time before
    /// it, so that the order is kept.
    Time,
}

/// Counts by block and lane, and the latest time in each block.
type Part = (Vec<u32>, Vec<u64>);

/// One pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Events in it.
    pub events: Range<u64>,
    /// Time of the first and of the last of them on the axis; `None` where there are none.
    pub times: Option<(u64, u64)>,
    /// How many there are of each lane.
    pub counts: Vec<u32>,
}

/// Counts of events by lane, at every scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pyramid {
    lanes: Vec<String>,
    /// Lane of each register, by word.
    words: Vec<u8>,
    /// Lane of accesses to registers that the map does not know.
    unknown: u8,
    /// Lane of everything that is no register access.
    other: u8,
    space: Option<u8>,
    len: usize,
    /// For each block, and one past the last: for each lane, events before it.
    sums: Vec<u32>,
    /// For each block, the latest time before it.
    times: Vec<u64>,
    last_time: u64,
}

impl Pyramid {
    /// Counts the events of a recording. The lanes are the map's register blocks, `unknown` and `other`.
    ///
    /// # Errors
    /// When the work was cancelled.
    pub fn build(recording: &Recording, map: &RegisterMap, progress: &Progress) -> Result<Self, Cancelled> {
        let events = &recording.events;
        let mut p = Self::empty(recording, map);
        let lanes = p.lanes.len();
        let blocks = p.len.div_ceil(BLOCK);
        let parts: Vec<Result<Part, Cancelled>> = (0..blocks.div_ceil(STRIDE))
            .into_par_iter()
            .map(|part| {
                progress.check()?;
                let first = part * STRIDE * BLOCK;
                let end = (first + STRIDE * BLOCK).min(p.len);
                let mut counts = vec![0u32; (end - first).div_ceil(BLOCK) * lanes];
                p.for_each_lane(events, first..end, |event, lane| {
                    let at = (event - first) / BLOCK * lanes + usize::from(lane);
                    if let Some(c) = counts.get_mut(at) {
                        *c += 1;
                    }
                });
                let times: Vec<u64> = events.time.iter_range(first..end).collect();
                let latest = times
                    .chunks(BLOCK)
                    .map(|c| c.iter().copied().max().unwrap_or(0))
                    .collect();
                Ok((counts, latest))
            })
            .collect();
        let mut sum = vec![0u32; lanes];
        let mut latest = events.time.get(0).unwrap_or(0);
        p.sums.reserve((blocks + 1) * lanes);
        for part in parts {
            let (counts, maxima) = part?;
            for (block, maximum) in counts.chunks(lanes).zip(maxima) {
                p.sums.extend(&sum);
                p.times.push(latest);
                sum.iter_mut().zip(block).for_each(|(s, c)| *s += c);
                latest = latest.max(maximum);
            }
        }
        p.sums.extend(&sum);
        p.last_time = latest;
        Ok(p)
    }

    fn empty(recording: &Recording, map: &RegisterMap) -> Self {
        let mut lanes: Vec<String> = Vec::new();
        let mut words = vec![u8::MAX; (map.window_bytes() / 4) as usize];
        for r in map.registers() {
            let lane = lanes.iter().position(|l| *l == r.block).unwrap_or_else(|| {
                lanes.push(r.block.clone());
                lanes.len() - 1
            });
            // A map has a handful of blocks; should it have more than fit, they share the lane of the unknown.
            if let (Some(word), Ok(lane)) = (words.get_mut((r.offset / 4) as usize), u8::try_from(lane)) {
                *word = lane;
            }
        }
        lanes.truncate(250);
        let unknown = lanes.len() as u8;
        lanes.extend(["unknown".to_owned(), "other".to_owned()]);
        words.iter_mut().filter(|w| **w > unknown).for_each(|w| *w = unknown);
        let space = recording
            .facts
            .spaces
            .iter()
            .position(|s| s.kind == SpaceKind::Registers);
        let e = &recording.events;
        Self {
            lanes,
            words,
            unknown,
            other: unknown + 1,
            space: space.and_then(|s| u8::try_from(s).ok()),
            len: e.len().min(e.time.len()).min(e.payload.len()).min(e.space.len()),
            sums: Vec::new(),
            times: Vec::new(),
            last_time: 0,
        }
    }

    /// Names of the lanes.
    #[must_use]
    pub fn lanes(&self) -> &[String] {
        &self.lanes
    }

    /// The whole axis: from the first value to one past the last.
    #[must_use]
    pub fn extent(&self, axis: Axis) -> Range<u64> {
        match axis {
            Axis::Ordinal => 0..self.len as u64,
            Axis::Time if self.len == 0 => 0..0,
            Axis::Time => self.times.first().copied().unwrap_or(0)..self.last_time.saturating_add(1),
        }
    }

    /// Calls back with each event of a range and its lane.
    fn for_each_lane(&self, events: &Events, range: Range<usize>, mut each: impl FnMut(usize, u8)) {
        let range = range.start..range.end.min(self.len);
        let mut kinds = events.kind.iter_range(range.clone());
        let mut spaces = events.space.iter_range(range.clone());
        let mut payloads = events.payload.iter_range(range.clone());
        // Rows of accesses usually follow one another: then their column is walked rather than searched.
        let mut row = usize::MAX;
        let mut offsets = events.offset.iter_range(0..0);
        for event in range {
            let (Some(kind), Some(space), Some(payload)) = (kinds.next(), spaces.next(), payloads.next()) else {
                return;
            };
            let access = kind == EventKind::Read as u8 || kind == EventKind::Write as u8;
            if !access || self.space != Some(space) {
                each(event, self.other);
                continue;
            }
            if payload as usize != row {
                row = payload as usize;
                offsets = events.offset.iter_range(row..events.offset.len());
            }
            row = row.saturating_add(1);
            let lane = offsets
                .next()
                .filter(|o| o % 4 == 0)
                .and_then(|o| self.words.get((o / 4) as usize).copied())
                .unwrap_or(self.unknown);
            each(event, lane);
        }
    }

    fn sum(&self, block: usize) -> Option<&[u32]> {
        let lanes = self.lanes.len();
        self.sums.get(block.checked_mul(lanes)?..)?.get(..lanes)
    }

    /// Events of each lane in a range of events.
    #[must_use]
    pub fn count(&self, events: &Events, range: Range<usize>) -> Vec<u32> {
        let range = range.start..range.end.min(self.len);
        let mut counts = vec![0u32; self.lanes.len()];
        let mut look = |range: Range<usize>| {
            self.for_each_lane(events, range, |_, lane| {
                if let Some(c) = counts.get_mut(usize::from(lane)) {
                    *c += 1;
                }
            });
        };
        let (first, last) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
        if range.start >= range.end {
            return counts;
        }
        if first >= last {
            look(range);
            return counts;
        }
        look(range.start..first * BLOCK);
        look(last * BLOCK..range.end);
        if let (Some(before), Some(upto)) = (self.sum(first), self.sum(last)) {
            for ((c, b), u) in counts.iter_mut().zip(before).zip(upto) {
                *c += u.saturating_sub(*b);
            }
        }
        counts
    }

    /// Time of an event on the axis: the latest up to it.
    #[must_use]
    pub fn time(&self, events: &Events, event: usize) -> Option<u64> {
        if event >= self.len {
            return None;
        }
        let start = event / BLOCK * BLOCK;
        let before = *self.times.get(event / BLOCK)?;
        Some(events.time.iter_range(start..event + 1).fold(before, u64::max))
    }

    /// The first event whose time on the axis is not before `time`; the number of events when there is none.
    #[must_use]
    pub fn first_at(&self, events: &Events, time: u64) -> usize {
        // The latest time before a block is not before `time` in blocks that begin after the event looked for.
        let after = self.times.partition_point(|t| *t < time);
        let block = after.saturating_sub(1);
        let start = block * BLOCK;
        let mut latest = self.times.get(block).copied().unwrap_or(0);
        if latest >= time {
            return 0;
        }
        for (i, t) in events.time.iter_range(start..(start + BLOCK).min(self.len)).enumerate() {
            latest = latest.max(t);
            if latest >= time {
                return start + i;
            }
        }
        (start + BLOCK).min(self.len)
    }

    /// The pixels of a range of the axis, from left to right. A range or a width of nothing gives nothing.
    #[must_use]
    pub fn query(&self, events: &Events, axis: Axis, range: Range<u64>, pixels: u32) -> Vec<Bin> {
        let Some(span) = range.end.checked_sub(range.start).filter(|s| *s > 0) else {
            return Vec::new();
        };
        let edge = |pixel: u32| {
            // Twice 64 bits hold the product.
            let into = u128::from(span) * u128::from(pixel) / u128::from(pixels.max(1));
            let at = range.start.saturating_add(into as u64);
            match axis {
                Axis::Ordinal => usize::try_from(at).unwrap_or(usize::MAX).min(self.len),
                Axis::Time => self.first_at(events, at),
            }
        };
        let mut from = edge(0);
        (0..pixels)
            .map(|pixel| {
                let to = edge(pixel + 1).max(from);
                let bin = Bin {
                    events: from as u64..to as u64,
                    times: to
                        .checked_sub(1)
                        .filter(|last| *last >= from)
                        .and_then(|last| Some((self.time(events, from)?, self.time(events, last)?))),
                    counts: self.count(events, from..to),
                };
                from = to;
                bin
            })
            .collect()
    }
}

/// Where sorted, non-overlapping spans lie on `pixels` pixels: runs of pixels with the first item in each and how
/// many there are. Items that share a pixel are one; none vanishes. The cost depends on the pixels, not on the items.
///
/// `span` gives an item's first and last value on the axis, inclusive.
#[must_use]
pub fn merge_spans<T>(items: &[T], range: Range<u64>, pixels: u32, span: impl Fn(&T) -> (u64, u64)) -> Vec<Merged> {
    let width = u128::from(range.end.saturating_sub(range.start));
    let mut out = Vec::new();
    if width == 0 || pixels == 0 {
        return out;
    }
    let pixel = |v: u64| {
        let into = u128::from(v.clamp(range.start, range.end - 1) - range.start);
        (into * u128::from(pixels) / width) as u32
    };
    // The first value that lies beyond a pixel.
    let beyond = |p: u32| {
        let into = (u128::from(p) + 1) * width;
        range.start.saturating_add(into.div_ceil(u128::from(pixels)) as u64)
    };
    let mut at = items.partition_point(|i| span(i).1 < range.start);
    while let Some(item) = items.get(at).filter(|i| span(i).0 < range.end) {
        let (first, mut last) = (pixel(span(item).0), pixel(span(item).1));
        let mut end = at + 1;
        // Items that begin in this one's last pixel merge with it, and their own last pixels with theirs.
        loop {
            let limit = beyond(last).min(range.end);
            let more = items.get(end..).unwrap_or_default();
            let step = more.partition_point(|i| span(i).0 < limit);
            if step == 0 {
                break;
            }
            end += step;
            last = items.get(end - 1).map_or(last, |i| pixel(span(i).1).max(last));
        }
        out.push(Merged {
            first_pixel: first,
            last_pixel: last,
            first_item: at,
            items: end - at,
        });
        at = end;
    }
    out
}

/// A run of pixels that one or more items cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// First pixel.
    pub first_pixel: u32,
    /// Last pixel, inclusive.
    pub last_pixel: u32,
    /// Index of the first item.
    pub first_item: usize,
    /// How many items there are, at least 1.
    pub items: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Access, EventsBuilder, Space};

    fn map() -> &'static RegisterMap {
        RegisterMap::by_name("mali-jm").unwrap()
    }

    fn recording(n: u64) -> Recording {
        let mut b = EventsBuilder::new();
        let mut x = 1u64;
        for i in 0..n {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let access = Access {
                space: 0,
                write: false,
                offset: ((x >> 40) as u32 % 0x4000) & !3,
                width: 4,
                value: x,
            };
            match x >> 60 {
                0 => b.mark(i * 10, "m"),
                // The clock runs backwards here and there.
                1 => b.access((i * 10).saturating_sub(95), 0, access),
                _ => b.access(i * 10, 0, access),
            }
        }
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        r.facts.spaces.push(Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        });
        r
    }

    #[test]
    fn counts_agree_with_counting() {
        let r = recording(5000);
        let p = Pyramid::build(&r, map(), &Progress::new()).unwrap();
        for range in [0..5000, 0..0, 0..64, 1..63, 63..65, 100..4711, 4999..5000, 4900..9000] {
            let mut expected = vec![0u32; p.lanes().len()];
            p.for_each_lane(&r.events, range.start..range.end.min(5000), |_, l| {
                expected[usize::from(l)] += 1
            });
            assert_eq!(p.count(&r.events, range.clone()), expected, "{range:?}");
        }
        assert_eq!(p.count(&r.events, 0..5000).iter().sum::<u32>(), 5000);
    }

    #[test]
    fn pixels_hold_every_event_once_on_both_axes() {
        let r = recording(3000);
        let p = Pyramid::build(&r, map(), &Progress::new()).unwrap();
        for axis in [Axis::Ordinal, Axis::Time] {
            for pixels in [1, 7, 640, 5000] {
                let bins = p.query(&r.events, axis, p.extent(axis), pixels);
                assert_eq!(bins.len(), pixels as usize);
                assert_eq!(
                    bins.iter().flat_map(|b| &b.counts).sum::<u32>(),
                    3000,
                    "{axis:?} {pixels}"
                );
                assert!(bins.windows(2).all(|w| w[0].events.end == w[1].events.start));
                for b in bins.iter().filter_map(|b| b.times) {
                    assert!(b.0 <= b.1);
                }
            }
        }
        assert!(p.query(&r.events, Axis::Time, 5..5, 100).is_empty());
    }

    #[test]
    fn the_first_event_at_a_time_agrees_with_looking() {
        let r = recording(700);
        let p = Pyramid::build(&r, map(), &Progress::new()).unwrap();
        let mut latest = 0;
        let axis: Vec<u64> = r
            .events
            .time
            .iter()
            .map(|t| {
                latest = latest.max(t);
                latest
            })
            .collect();
        for t in (0..7100).step_by(3) {
            let expected = axis.iter().position(|a| *a >= t).unwrap_or(700);
            assert_eq!(p.first_at(&r.events, t), expected, "time {t}");
        }
        for (e, t) in axis.iter().enumerate() {
            assert_eq!(p.time(&r.events, e), Some(*t));
        }
    }

    #[test]
    fn spans_merge_and_none_vanishes() {
        let items: Vec<(u64, u64)> = (0..1000).map(|i| (i * 10, i * 10 + 4)).collect();
        for (range, pixels) in [
            (0..10_000, 100),
            (0..10_000, 3),
            (0..100, 1000),
            (5003..5100, 17),
            (9_000..20_000, 50),
        ] {
            let merged = merge_spans(&items, range.clone(), pixels, |i| *i);
            let seen: usize = merged.iter().map(|m| m.items).sum();
            let inside = items.iter().filter(|i| i.1 >= range.start && i.0 < range.end).count();
            assert_eq!(seen, inside, "{range:?}");
            assert!(
                merged.windows(2).all(|w| w[0].last_pixel < w[1].first_pixel),
                "{range:?} {merged:?}"
            );
            assert!(merged.iter().all(|m| m.last_pixel < pixels));
        }
    }
}
