//! Event counts of each lane in each pixel, at a cost that depends on the pixels and not on the events.
//!
//! Events are counted in blocks with running sums from the start, so any range of whole blocks is one subtraction. The
//! parts of a range outside of whole blocks are scanned, at most two blocks per pixel. Small things therefore never
//! vanish: a single event in a million is a count of 1 in its pixel. The sums of a block have 16 bits and are relative
//! to those of its group of blocks, which have 32 bits.

use super::axis::{Axis, AxisKind, BLOCK};
use super::lanes::{Lanes, StreamLanes};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Column, Events, Recording};
use crate::registers::RegisterMap;
use rayon::prelude::*;
use std::ops::Range;

/// Number of blocks in a group: a block's sums within it are less than `BLOCK * GROUP`, which fits 16 bits.
pub(super) const GROUP: usize = 64;
/// Number of groups that one worker counts at once.
const STRIDE: usize = 16;

/// Event counts by lane at every scale, and positions of events on the axes. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Pyramid {
    pub(super) lanes: Lanes,
    /// For each block and one past the last: the reads and writes of each lane before it, since the start of its group.
    pub(super) fine: Column<u16>,
    /// For each group: the reads and the writes of each lane before it.
    pub(super) coarse: Column<u32>,
    axis: Axis,
}

/// The events in each pixel of a part of an axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pixels {
    /// First event at or after each pixel's left edge, and one more entry for the end of the last pixel. If pixels are
    /// many events wide, an inner edge may be up to a quarter of a pixel further left: see [`Pyramid::pixels`].
    pub edges: Vec<u64>,
    lanes: usize,
    /// For each pixel: the reads and writes of each lane.
    counts: Vec<u32>,
}

impl Pixels {
    /// Returns the number of pixels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    /// Whether there are no pixels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the reads and writes of a lane in a pixel. Marks, which are neither, count as reads.
    #[must_use]
    pub fn count(&self, pixel: usize, lane: usize) -> (u32, u32) {
        let at = (pixel * self.lanes + lane) * 2;
        if lane >= self.lanes {
            return (0, 0);
        }
        let of = |at: usize| self.counts.get(at).copied().unwrap_or(0);
        (of(at), of(at + 1))
    }

    /// Returns the reads and writes of all lanes in a pixel.
    #[must_use]
    pub fn sum(&self, pixel: usize) -> (u32, u32) {
        (0..self.lanes)
            .map(|lane| self.count(pixel, lane))
            .fold((0, 0), |a: (u32, u32), b| {
                (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
            })
    }

    /// Returns the reads and writes of a lane in all pixels.
    #[must_use]
    pub fn total(&self, lane: usize) -> (u64, u64) {
        (0..self.len())
            .map(|pixel| self.count(pixel, lane))
            .fold((0, 0), |a, b| (a.0 + u64::from(b.0), a.1 + u64::from(b.1)))
    }

    /// Returns the events in view: the first, and one past the last.
    #[must_use]
    pub fn events(&self) -> (u64, u64) {
        let of = |e: Option<&u64>| e.copied().unwrap_or(0);
        (of(self.edges.first()), of(self.edges.last()))
    }
}

impl Pyramid {
    /// Counts the events of a recording. Its lanes are those with events; without a register map all registers are
    /// unknown.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn build(recording: &Recording, map: Option<&RegisterMap>, progress: &Progress) -> Result<Self, Cancelled> {
        let events = &recording.events;
        let all = Lanes::new(recording, map);
        let width = all.names.len() * 2;
        let len = events.len();
        let blocks = len.div_ceil(BLOCK) + 1;
        let groups = blocks.div_ceil(GROUP);
        let count = |part: usize| -> Result<(Vec<u16>, Vec<u32>), Cancelled> {
            progress.check()?;
            let first = part * STRIDE * GROUP;
            let end = (first + STRIDE * GROUP).min(blocks);
            let mut fine = Vec::with_capacity((end - first) * width);
            let mut coarse = Vec::new();
            let mut sums = vec![0u32; width];
            let mut in_group = vec![0u16; width];
            for block in first..end {
                if block % GROUP == 0 {
                    coarse.extend(&sums);
                    in_group.fill(0);
                }
                fine.extend(&in_group);
                let range = block * BLOCK..((block + 1) * BLOCK).min(len);
                all.each(events, range.start.min(len)..range.end, |_, lane, write| {
                    let at = lane * 2 + usize::from(write);
                    if let (Some(n), Some(sum)) = (in_group.get_mut(at), sums.get_mut(at)) {
                        *n += 1;
                        *sum += 1;
                    }
                });
            }
            // The total of the part comes last.
            coarse.extend(&sums);
            Ok((fine, coarse))
        };
        let (axis, parts) = rayon::join(
            || Axis::new(events.time.clone()),
            || {
                (0..groups.div_ceil(STRIDE))
                    .into_par_iter()
                    .map(count)
                    .collect::<Vec<_>>()
            },
        );
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut sums = vec![0u32; width];
        let mut coarse: Vec<u32> = Vec::with_capacity(groups * width);
        for (_, part) in &parts {
            let (inner, all) = part.split_at(part.len().saturating_sub(width));
            for group in inner.chunks(width) {
                coarse.extend(group.iter().zip(&sums).map(|(g, s)| g + s));
            }
            sums.iter_mut().zip(all).for_each(|(s, n)| *s += n);
        }
        // Lanes without events take no room.
        let used: Vec<usize> = (0..all.names.len())
            .filter(|lane| sums.iter().skip(lane * 2).take(2).any(|n| *n > 0))
            .collect();
        let names = used.iter().filter_map(|l| all.names.get(*l).cloned()).collect();
        let fine: Vec<u16> = parts.iter().flat_map(|(fine, _)| kept(fine, width, &used)).collect();
        let coarse: Vec<u32> = kept(&coarse, width, &used).collect();
        Ok(Self {
            lanes: all.with_lane_names(names),
            fine: fine.into(),
            coarse: coarse.into(),
            axis,
        })
    }

    /// Assembles a pyramid from columns computed before. Returns `None` if their lengths do not fit the recording.
    pub(super) fn assemble(
        recording: &Recording,
        map: Option<&RegisterMap>,
        names: Vec<String>,
        (fine, coarse): (Column<u16>, Column<u32>),
        axis: Axis,
    ) -> Option<Self> {
        let blocks = recording.events.len().div_ceil(BLOCK) + 1;
        let width = names.len() * 2;
        let fits = axis.len() == recording.events.len() as u64
            && fine.len() == blocks.checked_mul(width)?
            && coarse.len() == blocks.div_ceil(GROUP).checked_mul(width)?;
        fits.then(|| Self {
            lanes: Lanes::new(recording, map).with_lane_names(names),
            fine,
            coarse,
            axis,
        })
    }

    /// Returns the names of the lanes in display order.
    #[must_use]
    pub fn lanes(&self) -> &[String] {
        &self.lanes.names
    }

    /// Returns the lanes of each stream, of memory, and of other calls, or `None` if it is no API trace. Those without
    /// events have no lane.
    #[must_use]
    pub fn call_lanes(&self) -> Option<(Vec<StreamLanes>, Option<usize>, Option<usize>)> {
        self.lanes.call_lanes()
    }

    /// Returns the positions of events.
    #[must_use]
    pub fn axis(&self) -> &Axis {
        &self.axis
    }

    fn len(&self) -> usize {
        usize::try_from(self.axis.len()).unwrap_or(usize::MAX)
    }

    /// Returns the reads and writes of each lane before a block.
    fn sums(&self, block: usize) -> impl Iterator<Item = u32> + '_ {
        let width = self.lanes.names.len() * 2;
        let row = |at: usize| at.saturating_mul(width)..(at.saturating_add(1)).saturating_mul(width);
        let fine = self.fine.iter_range(row(block));
        let coarse = self.coarse.iter_range(row(block / GROUP));
        fine.zip(coarse).map(|(f, c)| c.saturating_add(u32::from(f)))
    }

    fn sum(&self, block: usize, lane: usize) -> u32 {
        let width = self.lanes.names.len() * 2;
        let of = |at: usize| {
            let fine = self.fine.get(block * width + at).unwrap_or(0);
            u32::from(fine).saturating_add(self.coarse.get(block / GROUP * width + at).unwrap_or(0))
        };
        of(lane * 2).saturating_add(of(lane * 2 + 1))
    }

    /// Calls back with each event of a range, its lane, and whether it is a write. Events in no lane are left out. The
    /// cost grows with the range.
    pub fn each(&self, events: &Events, range: Range<u64>, call: impl FnMut(u64, usize, bool)) {
        let at = |e: u64| usize::try_from(e).unwrap_or(usize::MAX).min(self.len());
        let mut call = call;
        let range = at(range.start)..at(range.end);
        self.lanes
            .each(events, range, |e, lane, write| call(e as u64, lane, write));
    }

    /// Adds the reads and writes of each lane in a range of events.
    fn add(&self, events: &Events, range: Range<usize>, counts: &mut [u32]) {
        if range.start >= range.end {
            return;
        }
        let mut look = |range: Range<usize>| {
            self.lanes.each(events, range, |_, lane, write| {
                if let Some(c) = counts.get_mut(lane * 2 + usize::from(write)) {
                    *c += 1;
                }
            });
        };
        let (first, last) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
        if first >= last {
            return look(range);
        }
        look(range.start..first * BLOCK);
        look(last * BLOCK..range.end);
        for ((c, before), upto) in counts.iter_mut().zip(self.sums(first)).zip(self.sums(last)) {
            *c = c.saturating_add(upto.saturating_sub(before));
        }
    }

    /// Returns the reads and writes of each lane in a range of events.
    #[must_use]
    pub fn count(&self, events: &Events, range: Range<u64>) -> Vec<(u32, u32)> {
        let at = |e: u64| usize::try_from(e).unwrap_or(usize::MAX).min(self.len());
        let mut counts = vec![0; self.lanes.names.len() * 2];
        self.add(events, at(range.start)..at(range.end), &mut counts);
        counts.as_chunks::<2>().0.iter().map(|[r, w]| (*r, *w)).collect()
    }

    /// Returns the pixels of a part of an axis, from left to right. If pixels hold several blocks of events, their
    /// contents start and end with a block, at most a quarter of a pixel before the edge. Nothing is counted twice or
    /// left out. No event is read for it, so a part of a hundred million events costs what one of a few costs.
    #[must_use]
    pub fn pixels(&self, events: &Events, kind: AxisKind, range: (f64, f64), pixels: usize) -> Pixels {
        let lanes = self.lanes.names.len();
        let step = (range.1 - range.0) / pixels.max(1) as f64;
        let mut latest = 0;
        let mut edges: Vec<u64> = (0..=pixels)
            .map(|i| {
                latest = self.axis.event_at(kind, range.0 + step * i as f64).max(latest);
                latest
            })
            .collect();
        round(&mut edges);
        let mut counts = vec![0u32; pixels * lanes * 2];
        for (edge, counts) in edges.windows(2).zip(counts.chunks_mut((lanes * 2).max(1))) {
            if let [from, to] = *edge {
                let at = |e: u64| usize::try_from(e).unwrap_or(usize::MAX).min(self.len());
                self.add(events, at(from)..at(to), counts);
            }
        }
        Pixels { edges, lanes, counts }
    }

    /// Returns the event of a lane nearest to an event by number: the event itself, if it is in the lane.
    #[must_use]
    pub fn nearest(&self, events: &Events, lane: usize, event: u64) -> Option<u64> {
        let last = self.len().checked_sub(1)?;
        let event = usize::try_from(event).unwrap_or(usize::MAX).min(last);
        let here = self.within(events, lane, event / BLOCK, |e| e <= event);
        let before = here.1.or_else(|| {
            let wanted = self.sum(event / BLOCK, lane);
            (wanted > 0).then_some(())?;
            // The last block before which the lane has fewer events than before this one.
            let block = search(event / BLOCK, |b| self.sum(b, lane) >= wanted).checked_sub(1)?;
            self.within(events, lane, block, |_| true).1
        });
        let here = self.within(events, lane, event / BLOCK, |e| e >= event);
        let after = here.0.or_else(|| {
            let blocks = self.len().div_ceil(BLOCK);
            let so_far = self.sum(event / BLOCK + 1, lane);
            // The first block after which the lane has more events than after this one.
            let block = search(blocks, |b| self.sum(b + 1, lane) > so_far);
            (block < blocks).then_some(())?;
            self.within(events, lane, block, |_| true).0
        });
        let event = event as u64;
        [before, after].into_iter().flatten().min_by_key(|e| e.abs_diff(event))
    }

    /// Returns the first and last event of a lane in a block, within a range.
    fn within(
        &self,
        events: &Events,
        lane: usize,
        block: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> (Option<u64>, Option<u64>) {
        let (mut first, mut last) = (None, None);
        let range = block * BLOCK..((block + 1) * BLOCK).min(self.len());
        self.lanes.each(events, range, |e, l, _| {
            if l == lane && wanted(e) {
                first = first.or(Some(e as u64));
                last = Some(e as u64);
            }
        });
        (first, last)
    }
}

/// Returns the first number below `end` that satisfies a monotonic predicate, or `end` if none does.
fn search(end: usize, passes: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) {
            high = middle
        } else {
            low = middle + 1
        }
    }
    low
}

/// Returns the columns of these lanes from rows of `width`.
fn kept<'a, T: Copy>(rows: &'a [T], width: usize, lanes: &'a [usize]) -> impl Iterator<Item = T> + 'a {
    rows.chunks(width).flat_map(move |row| {
        lanes.iter().flat_map(move |l| {
            let pair = row.get(l * 2..l * 2 + 2).unwrap_or_default();
            pair.iter().copied()
        })
    })
}

/// Moves the edges between wide pixels to starts of blocks.
fn round(edges: &mut [u64]) {
    const BLOCKS: u64 = BLOCK as u64;
    let mut before = edges.first().copied().unwrap_or(0);
    for i in 1..edges.len().saturating_sub(1) {
        let (Some(edge), Some(next)) = (edges.get(i).copied(), edges.get(i + 1).copied()) else {
            return;
        };
        // For both adjacent pixels, with their original edges.
        let narrower = edge.saturating_sub(before).min(next.saturating_sub(edge));
        before = edge;
        if narrower >= 4 * BLOCKS
            && let Some(edge) = edges.get_mut(i)
        {
            *edge -= *edge % BLOCKS;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::RegOffset;
    use crate::recording::{Access, EventsBuilder, Space, SpaceKind};

    pub fn map() -> &'static RegisterMap {
        RegisterMap::by_name("mali-jm").unwrap()
    }

    pub fn recording(n: u64) -> Recording {
        let mut b = EventsBuilder::new();
        let mut x = 1u64;
        for i in 0..n {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let access = Access {
                space: 0,
                write: x >> 33 & 1 == 1,
                offset: RegOffset::new(((x >> 40) as u32 % 0x4000) & !3),
                width: 4,
                value: x & 0xffff_ffff,
            };
            match x >> 60 {
                0 => b.mark(i * 10, "m"),
                // The clock sometimes runs backwards.
                1 => b.access((i * 10).saturating_sub(95), 0, access),
                2 => b.access(i * 10, 0, Access { space: 1, ..access }),
                _ => b.access(i * 10, 0, access),
            }
        }
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        r.metadata.identity.gpu_id = 0x6000_0011;
        for (name, kind) in [("gpu", SpaceKind::Registers), ("ports", SpaceKind::Ports)] {
            r.metadata.spaces.push(Space {
                name: name.into(),
                kind,
                bytes: 0x4000,
            });
        }
        r
    }

    fn build(r: &Recording) -> Pyramid {
        Pyramid::build(r, Some(map()), &Progress::new()).unwrap()
    }

    fn count_naively(p: &Pyramid, r: &Recording, range: Range<u64>) -> Vec<(u32, u32)> {
        let mut expected = vec![(0, 0); p.lanes().len()];
        p.each(&r.events, range, |_, l, write| {
            let c: &mut (u32, u32) = &mut expected[l];
            if write { c.1 += 1 } else { c.0 += 1 }
        });
        expected
    }

    #[test]
    fn pyramid_counts_agree_with_direct_counting() {
        // The events are more than one part of the parallel count, and end in the middle of a block.
        let n = (STRIDE * GROUP * BLOCK) as u64 + 70_005;
        let r = recording(n);
        let p = build(&r);
        let block = BLOCK as u64;
        for range in [
            0..n,
            0..0,
            0..block,
            1..block - 1,
            block - 1..block + 1,
            100..4711,
            n - 1..n,
            n - 100..n + 4000,
            131_000..132_000,
        ] {
            assert_eq!(
                p.count(&r.events, range.clone()),
                count_naively(&p, &r, range.clone()),
                "{range:?}"
            );
        }
        let all: u64 = p.count(&r.events, 0..n).iter().map(|c| u64::from(c.0 + c.1)).sum();
        assert_eq!(all, n, "every event is in one lane");
        for lane in [
            "JS1",
            "AS0",
            "power",
            "GPU",
            "job control",
            "unknown",
            "elsewhere",
            "marks",
        ] {
            assert!(p.lanes().iter().any(|l| l == lane), "{lane} in {:?}", p.lanes());
        }
    }

    #[test]
    fn lanes_are_in_numeric_order_and_unused_ones_omitted() {
        let r = recording(30_000);
        let p = build(&r);
        let at = |name: &str| p.lanes().iter().position(|l| l == name).unwrap();
        assert!(at("JS0") < at("JS1") && at("JS2") < at("AS0") && at("AS2") < at("AS10") && at("AS15") < at("power"));
        let mut b = EventsBuilder::new();
        let offset = map().find_by_name("AS0_COMMAND").unwrap().offset;
        b.access(
            0,
            0,
            Access {
                space: 0,
                write: true,
                offset,
                width: 4,
                value: 1,
            },
        );
        let one = Recording {
            events: b.finish(),
            metadata: r.metadata.clone(),
            ..Recording::default()
        };
        let p = build(&one);
        assert_eq!(p.lanes(), ["AS0"]);
        assert_eq!(p.count(&one.events, 0..1), [(0, 1)]);
        let without = Pyramid::build(&one, None, &Progress::new()).unwrap();
        assert_eq!(without.lanes(), ["unknown"]);
    }

    #[test]
    fn pixels_hold_every_event_once_on_every_axis() {
        let r = recording(3000);
        let p = build(&r);
        for kind in AxisKind::ALL {
            for pixels in [1, 7, 640, 5000] {
                let view = p.pixels(&r.events, kind, (0.0, p.axis().end(kind)), pixels);
                assert_eq!(view.len(), pixels);
                let sum: u32 = (0..pixels).map(|i| view.sum(i).0 + view.sum(i).1).sum();
                assert_eq!(sum, 3000, "{kind:?} {pixels}");
                assert_eq!(view.events(), (0, 3000));
                for pixel in 0..pixels {
                    let expected = count_naively(&p, &r, view.edges[pixel]..view.edges[pixel + 1]);
                    let got: Vec<_> = (0..p.lanes().len()).map(|l| view.count(pixel, l)).collect();
                    assert_eq!(got, expected, "{kind:?}, pixel {pixel} of {pixels}");
                }
            }
        }
    }

    #[test]
    fn wide_pixels_begin_with_a_block_and_hold_every_event_once() {
        let r = recording(200_003);
        let p = build(&r);
        for kind in AxisKind::ALL {
            let end = p.axis().end(kind);
            for (range, pixels) in [((0.0, end), 20), ((end * 0.1, end * 0.9), 17), ((0.0, end), 1)] {
                let view = p.pixels(&r.events, kind, range, pixels);
                let step = (range.1 - range.0) / pixels as f64;
                for i in 0..pixels {
                    let (from, to) = (view.edges[i], view.edges[i + 1]);
                    assert!(from < to);
                    let expected = count_naively(&p, &r, from..to);
                    let got: Vec<_> = (0..p.lanes().len()).map(|l| view.count(i, l)).collect();
                    assert_eq!(got, expected, "{kind:?}, pixel {i} of {pixels}");
                    let exact = p.axis().event_at(kind, range.0 + step * i as f64);
                    assert!(
                        from <= exact && exact - from < BLOCK as u64,
                        "{kind:?} {i}: {from}, {exact}"
                    );
                    if i == 0 {
                        assert_eq!(from, exact);
                    }
                }
                assert_eq!(view.edges[pixels], p.axis().event_at(kind, range.1));
            }
        }
        let mut edges = vec![3, 5000, 10_000, 10_500, 20_000, 30_001];
        round(&mut edges);
        let block = BLOCK as u64;
        assert_eq!(
            edges,
            [3, 5000 / block * block, 10_000, 10_500, 20_000 / block * block, 30_001]
        );
    }

    #[test]
    fn one_event_among_a_million_is_in_its_pixel() {
        let offset = |name: &str| map().find_by_name(name).unwrap().offset;
        let (plain, rare) = (offset("AS0_STATUS"), offset("JS1_COMMAND_NEXT"));
        let mut b = EventsBuilder::new();
        for i in 0..1_000_000u64 {
            let offset = if i == 654_321 { rare } else { plain };
            let access = Access {
                space: 0,
                write: false,
                offset,
                width: 4,
                value: 0,
            };
            b.access(i * 100, 0, access);
        }
        let r = Recording {
            events: b.finish(),
            metadata: recording(1).metadata,
            ..Recording::default()
        };
        let p = build(&r);
        let lane = p.lanes().iter().position(|l| l == "JS1").unwrap();
        for kind in AxisKind::ALL {
            let view = p.pixels(&r.events, kind, (0.0, p.axis().end(kind)), 500);
            let hits: Vec<usize> = (0..500).filter(|i| view.count(*i, lane) != (0, 0)).collect();
            assert_eq!(hits.len(), 1, "{kind:?}");
            assert!((view.edges[hits[0]]..view.edges[hits[0] + 1]).contains(&654_321));
            assert_eq!(view.total(lane), (1, 0));
        }
        assert_eq!(p.nearest(&r.events, lane, 3), Some(654_321));
        assert_eq!(p.nearest(&r.events, lane, 999_999), Some(654_321));
    }

    #[test]
    fn nearest_lane_event_matches_a_linear_search() {
        let r = recording(2000);
        let p = build(&r);
        for lane in 0..p.lanes().len() {
            let mut of_lane = Vec::new();
            p.each(&r.events, 0..2000, |e, l, _| {
                if l == lane {
                    of_lane.push(e);
                }
            });
            for event in (0..2000).step_by(7) {
                let near = p.nearest(&r.events, lane, event).unwrap();
                let expected = of_lane.iter().map(|e| e.abs_diff(event)).min().unwrap();
                assert_eq!(near.abs_diff(event), expected, "lane {lane}, event {event}: {near}");
                assert!(of_lane.contains(&near));
            }
        }
    }
}
