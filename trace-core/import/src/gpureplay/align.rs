//! The alignment of timeline lines with accesses of the history, and detection of accesses that the history lost.

use std::collections::{HashMap, VecDeque};
use trace_core::diff::Step;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Events, LostEvents};

/// Number of timeline lines that are searched for an access.
const WINDOW: usize = 64;
/// One in this many accesses of a history may be missing from an otherwise complete timeline.
const MISSING_IN: usize = 50;
/// Maximum number of accesses and lines together that are aligned as sequences: four times the capacity of the
/// recorder's ring, on both sides. Alignment can take a thousand times as long as reading.
const MAX_ALIGNED: usize = 1 << 18;

/// Maximum distance of leftovers of the sequence alignment that still match: a swapped line moves a whole wait by one
/// of its reads.
const NEAR: usize = 1024;
/// Maximum number of divisions of a sequence before the rest is searched.
const DEPTH: usize = 8;

/// Identity of an access: direction, offset, value.
type Key = (bool, u32, u64);

/// A register access in the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineAccess {
    /// Nanoseconds on the machine's monotonic clock.
    pub time: u64,
    /// Thread id, 0 in an interrupt.
    pub thread: u32,
    /// Whether it writes.
    pub write: bool,
    /// Byte offset in the register window.
    pub offset: u32,
    /// Value.
    pub value: u32,
    /// The register's description: block, index and name between bars, and an access note.
    pub text: String,
}

impl TimelineAccess {
    fn key(&self) -> Key {
        (self.write, self.offset, u64::from(self.value))
    }
}

/// Finds what the history lost: accesses that the timeline has more often than the history, at any position. Reordered
/// accesses are not lost.
pub(super) fn find_missing_lines(
    events: &Events,
    lines: &[TimelineAccess],
    matched: &[Option<usize>],
) -> Option<LostEvents> {
    let mut excess: HashMap<Key, i64> = HashMap::new();
    for a in lines {
        *excess.entry(a.key()).or_default() += 1;
    }
    for (_, a) in events.accesses(0..events.len()) {
        if let Some(n) = excess.get_mut(&(a.write, a.offset.get(), a.value)) {
            *n -= 1;
        }
    }
    let count = excess.values().filter(|n| **n > 0).sum::<i64>().unsigned_abs();
    if count == 0 {
        return None;
    }
    // The first unmatched line of such an access, and the first event matched after it.
    let mut used = vec![false; lines.len()];
    for at in matched.iter().flatten() {
        if let Some(u) = used.get_mut(*at) {
            *u = true;
        }
    }
    let is_lost = |(a, used): (&TimelineAccess, &bool)| !used && excess.get(&a.key()).is_some_and(|n| *n > 0);
    let first = lines.iter().zip(&used).position(is_lost).unwrap_or(0);
    let before = matched.iter().position(|m| m.is_some_and(|j| j > first));
    let place = before.map_or("after its last event".to_owned(), |e| format!("before event {e}"));
    Some(LostEvents {
        before_event: before.unwrap_or(events.len()) as u64,
        count: Some(count),
        reason: format!("{count} register accesses of the timeline are not in the history, the first of them {place}"),
    })
}

/// Returns the timeline line of each event; each line is used once.
pub(super) fn align(
    events: &Events,
    lines: &[TimelineAccess],
    progress: &Progress,
) -> Result<Vec<Option<usize>>, Cancelled> {
    let near = align_by_thread(events, lines);
    let matched = |m: &[Option<usize>]| m.iter().flatten().count();
    if matched(&near) == events.len().max(lines.len()) || events.len() + lines.len() > MAX_ALIGNED {
        return Ok(near);
    }
    // One of the two is incomplete: equal accesses then mislead the search by threads.
    let whole = align_as_sequences(events, lines, progress)?;
    let max = matched(&whole);
    // Two recordings have much in common, polls above all; a history that lost something is still contained in its
    // timeline.
    let of_this = max >= events.len() - events.len() / MISSING_IN;
    if !of_this || max < matched(&near) {
        return Ok(near);
    }
    // Without the unmatched lines, the search by threads stays aligned and handles swapped lines better.
    let mut used: Vec<usize> = whole.iter().flatten().copied().collect();
    used.sort_unstable();
    let kept: Vec<TimelineAccess> = used.iter().filter_map(|j| lines.get(*j).cloned()).collect();
    let by_thread: Vec<Option<usize>> = align_by_thread(events, &kept)
        .into_iter()
        .map(|m| used.get(m?).copied())
        .collect();
    Ok(if matched(&by_thread) >= max { by_thread } else { whole })
}

/// An access of either side: its index there, and its identity.
type Placed = (usize, Key);

/// Aligns both sides in order with [`Pairs`], then matches leftovers of both sides that are near each other.
fn align_as_sequences(
    events: &Events,
    lines: &[TimelineAccess],
    progress: &Progress,
) -> Result<Vec<Option<usize>>, Cancelled> {
    let of_events: Vec<Placed> = events
        .accesses(0..events.len())
        .map(|(e, a)| (e, (a.write, a.offset.get(), a.value)))
        .collect();
    let of_lines: Vec<Placed> = lines.iter().enumerate().map(|(j, l)| (j, l.key())).collect();
    let mut pairs = Pairs {
        out: vec![None; events.len()],
        left: HashMap::new(),
        progress,
    };
    pairs.find(&of_events, &of_lines, DEPTH)?;
    let Pairs { mut out, mut left, .. } = pairs;
    // The line of the previous event only increases, so lines that are too far back are never searched again.
    let mut at = 0usize;
    for (e, key) in of_events {
        let Some(slot) = out.get_mut(e) else { continue };
        if let Some(j) = *slot {
            at = j;
            continue;
        }
        let Some(of_key) = left.get_mut(&key) else { continue };
        while of_key.front().is_some_and(|j| j.saturating_add(NEAR) < at) {
            of_key.pop_front();
        }
        if of_key.front().is_some_and(|j| *j <= at.saturating_add(NEAR)) {
            *slot = of_key.pop_front();
        }
    }
    Ok(out)
}

/// The matched pairs of two sequences so far.
struct Pairs<'a> {
    /// The line of each event.
    out: Vec<Option<usize>>,
    /// Unmatched lines by identity, ascending.
    left: HashMap<Key, VecDeque<usize>>,
    progress: &'a Progress,
}

impl Pairs<'_> {
    fn pair(&mut self, event: &Placed, line: &Placed) {
        if let Some(slot) = self.out.get_mut(event.0) {
            *slot = Some(line.0);
        }
    }

    /// Matches equal starts and ends. In between, accesses that occur exactly once in both divide the sequences into
    /// parts, which are aligned recursively. Where there are none, the longest common sequence found is used. A gap in
    /// one side thus stays one gap, however many accesses are equal.
    fn find(&mut self, a: &[Placed], b: &[Placed], depth: usize) -> Result<(), Cancelled> {
        let same = |(x, y): &(&Placed, &Placed)| x.1 == y.1;
        let prefix = a.iter().zip(b).take_while(same).count();
        let (head_a, a) = a.split_at(prefix);
        let (head_b, b) = b.split_at(prefix);
        let suffix = a.iter().rev().zip(b.iter().rev()).take_while(same).count();
        let (a, tail_a) = a.split_at(a.len() - suffix);
        let (b, tail_b) = b.split_at(b.len() - suffix);
        let ends = head_a.iter().zip(head_b).chain(tail_a.iter().zip(tail_b));
        ends.for_each(|(event, line)| self.pair(event, line));
        let anchors = if depth == 0 { Vec::new() } else { anchors(a, b) };
        if anchors.is_empty() {
            return self.search(a, b);
        }
        let mut from = (0, 0);
        for (i, j) in anchors.into_iter().chain([(a.len(), b.len())]) {
            let (part_a, part_b) = (a.get(from.0..i), b.get(from.1..j));
            self.find(part_a.unwrap_or_default(), part_b.unwrap_or_default(), depth - 1)?;
            if let (Some(event), Some(line)) = (a.get(i), b.get(j)) {
                self.pair(event, line);
            }
            from = (i + 1, j + 1);
        }
        Ok(())
    }

    fn search(&mut self, a: &[Placed], b: &[Placed]) -> Result<(), Cancelled> {
        let found = trace_core::diff::align(a, b, self.progress, |x, y| x.1 == y.1)?;
        for step in found.steps((a.len(), b.len())) {
            match step {
                Step::Both(i, j) => {
                    if let (Some(event), Some(line)) = (a.get(i), b.get(j)) {
                        self.pair(event, line);
                    }
                }
                Step::B(j) => {
                    if let Some((j, key)) = b.get(j) {
                        self.left.entry(*key).or_default().push_back(*j);
                    }
                }
                Step::A(_) => {}
            }
        }
        Ok(())
    }
}

/// Returns the positions of accesses that occur exactly once in both sides: the longest list that is in order in both.
fn anchors(a: &[Placed], b: &[Placed]) -> Vec<(usize, usize)> {
    let mut places: HashMap<Key, [(usize, usize); 2]> = HashMap::new();
    for (side, list) in [a, b].into_iter().enumerate() {
        for (at, (_, key)) in list.iter().enumerate() {
            if let Some((count, place)) = places.entry(*key).or_default().get_mut(side) {
                (*count, *place) = (*count + 1, at);
            }
        }
    }
    let mut once: Vec<(usize, usize)> = places
        .into_values()
        .filter_map(|[(n, i), (m, j)]| (n == 1 && m == 1).then_some((i, j)))
        .collect();
    once.sort_unstable();
    // For each length, the list that ends earliest in `b`, by the index of its end in `once`; and the predecessor of
    // each.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(once.len());
    let in_b = |n: &usize| once.get(*n).map(|(_, j)| *j);
    for (n, (_, j)) in once.iter().enumerate() {
        let at = ends.partition_point(|e| in_b(e) < Some(*j));
        before.push(at.checked_sub(1).and_then(|p| ends.get(p).copied()));
        match ends.get_mut(at) {
            Some(end) => *end = n,
            None => ends.push(n),
        }
    }
    let mut out = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(n) = next {
        out.extend(once.get(n));
        next = before.get(n).copied().flatten();
    }
    out.reverse();
    out
}

/// Matches each thread's lines in order. A line may only pass others of its thread if nothing else matches.
fn align_by_thread(events: &Events, lines: &[TimelineAccess]) -> Vec<Option<usize>> {
    let mut used = vec![false; lines.len()];
    let mut first = 0;
    let mut out = Vec::with_capacity(events.len());
    for e in 0..events.len() {
        while used.get(first) == Some(&true) {
            first += 1;
        }
        let Some(a) = events.access(e) else {
            out.push(None);
            continue;
        };
        let mut passed: Vec<u32> = Vec::new();
        let (mut in_order, mut any) = (None, None);
        for (j, l) in lines.iter().enumerate().skip(first).take(WINDOW) {
            if used.get(j) == Some(&true) {
                continue;
            }
            if l.write == a.write && l.offset == a.offset.get() && u64::from(l.value) == a.value {
                any = any.or(Some(j));
                if !passed.contains(&l.thread) {
                    in_order = Some(j);
                    break;
                }
            }
            passed.push(l.thread);
        }
        let found = in_order.or(any);
        if let Some(u) = found.and_then(|j| used.get_mut(j)) {
            *u = true;
        }
        // A line that the history lacks must not hold the window back.
        if let Some(j) = found
            && j >= first + WINDOW / 2
        {
            first += 1;
        }
        out.push(found);
    }
    out
}
