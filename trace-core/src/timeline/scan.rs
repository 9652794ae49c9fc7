//! The parallel pass over all events: it finds runs of reads, gaps, and the few events about jobs and interrupts.

use super::{GAP_NS, Gap, Poll};
use crate::RegOffset;
use crate::families::{Mark, MarkKind, RegisterClass, find_family_with};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Column, EventKind, Events, InterruptLine, Recording, SpaceKind};
use crate::registers::{RegisterMap, register_space};
use rayon::prelude::*;
use std::ops::ControlFlow;

/// Number of events that one worker scans at once.
const BLOCK: usize = 1 << 16;

/// Number of blocks that are scanned before their results are used: enough for every worker.
const AT_ONCE: usize = 64;

/// The class of each register of a map, by word. Registers that share a word, and parts of one, have none: this pass
/// handles 32-bit registers.
pub(super) struct Classes {
    words: Vec<RegisterClass>,
    /// The space of the device's registers.
    space: Option<u8>,
}

impl Classes {
    pub(super) fn new(recording: &Recording, map: &RegisterMap) -> Self {
        // Only as long as the last register that has a class: maps of large windows mostly have none.
        let mut words = Vec::new();
        let family = find_family_with(recording, Some(map));
        let _ = map.visit(|r| {
            let class = family.class_of(r);
            let at = (r.offset.get() / 4) as usize;
            if r.width == 4 && (class != RegisterClass::Plain || at < words.len()) {
                if words.len() <= at {
                    words.resize(at + 1, RegisterClass::Plain);
                }
                if let Some(word) = words.get_mut(at) {
                    *word = class;
                }
            }
            ControlFlow::<()>::Continue(())
        });
        let has_registers = recording.metadata.spaces.iter().any(|s| s.kind == SpaceKind::Registers);
        Self {
            words,
            space: has_registers.then(|| register_space(recording, Some(map))),
        }
    }

    pub(super) fn class_at(&self, offset: u32) -> RegisterClass {
        if !offset.is_multiple_of(4) {
            return RegisterClass::Plain;
        }
        self.words
            .get((offset / 4) as usize)
            .copied()
            .unwrap_or(RegisterClass::Plain)
    }
}

/// The results of the pass in event order.
#[derive(Default)]
pub(super) struct BlockScan {
    pub(super) polls: Vec<Poll>,
    pub(super) gaps: Vec<Gap>,
    pub(super) marks: Vec<Mark>,
}

/// A block of events with its columns side by side, so that no row lookup is needed.
struct Block {
    first: usize,
    kind: Vec<u8>,
    space: Vec<u8>,
    time: Vec<u64>,
    offset: Vec<u32>,
    value: Vec<u64>,
}

impl Block {
    /// Loads events `first..end` (clipped); offset and value are 0 for an event that is no access.
    fn load(events: &Events, first: usize, end: usize) -> Self {
        let end = end.min(events.len());
        let kind: Vec<u8> = gather(&events.kind, first..end);
        let payload: Vec<u32> = gather(&events.payload, first..end);
        let row = payload.first().copied().unwrap_or(0) as usize;
        let accesses_only = kind
            .iter()
            .all(|k| *k == EventKind::Read as u8 || *k == EventKind::Write as u8);
        let consecutive = accesses_only && payload.iter().enumerate().all(|(i, p)| *p as usize == row + i);
        let (offset, value) = if consecutive {
            let rows = row..row + payload.len();
            (gather(&events.offset, rows.clone()), gather(&events.value, rows))
        } else {
            let mut columns = (vec![0; kind.len()], vec![0; kind.len()]);
            for (e, a) in events.accesses(first..end) {
                if let (Some(o), Some(v)) = (columns.0.get_mut(e - first), columns.1.get_mut(e - first)) {
                    (*o, *v) = (a.offset.get(), a.value);
                }
            }
            columns
        };
        Self {
            first,
            space: gather(&events.space, first..end),
            time: gather(&events.time, first..end),
            kind,
            offset,
            value,
        }
    }

    fn len(&self) -> usize {
        // A damaged recording may have columns of different lengths; the common part is scanned.
        self.kind
            .len()
            .min(self.space.len())
            .min(self.time.len())
            .min(self.offset.len())
            .min(self.value.len())
    }

    /// Returns the events as runs see them.
    fn seen(&self, classes: &Classes) -> impl Iterator<Item = RunEvent> {
        let rows = self
            .kind
            .iter()
            .zip(&self.space)
            .zip(&self.time)
            .zip(self.offset.iter().zip(&self.value));
        rows.enumerate()
            .map(|(i, (((kind, space), time), (offset, value)))| RunEvent {
                event: self.first + i,
                key: key(classes, *kind, *space, *offset),
                offset: *offset,
                value: *value,
                time: *time,
            })
    }
}

/// Returns the rows of a range of a column.
fn gather<T: bytemuck::Pod>(column: &Column<T>, range: std::ops::Range<usize>) -> Vec<T> {
    let mut rows = Vec::with_capacity(range.end.min(column.len()).saturating_sub(range.start));
    for part in column.slices(range) {
        rows.extend_from_slice(part);
    }
    rows
}

/// The key of a run of reads: one register, or any of the group's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    None,
    Register(u8, u32),
    Group,
}

/// Maximum number of distinct registers of a run; more than any driver reads in one group.
const REGISTERS: usize = 32;

/// An event as a run sees it.
#[derive(Clone, Copy)]
struct RunEvent {
    event: usize,
    key: Key,
    offset: u32,
    value: u64,
    time: u64,
}

/// A run of reads as it grows.
struct Run {
    first: usize,
    last: RunEvent,
    offset: u32,
    value: u64,
    /// Whether a register was repeated.
    again: bool,
    /// The registers so far; the first [`REGISTERS`] of them.
    registers: [u32; REGISTERS],
    distinct: usize,
}

impl Run {
    fn new(first: RunEvent) -> Self {
        let registers = [first.offset; REGISTERS];
        let RunEvent {
            event, offset, value, ..
        } = first;
        Self {
            first: event,
            last: first,
            offset,
            value,
            again: false,
            registers,
            distinct: 1,
        }
    }

    fn take(&mut self, next: RunEvent) {
        self.last = next;
        if next.offset == self.offset {
            self.value = next.value;
            self.again = true;
        } else if self.registers.iter().take(self.distinct).any(|r| *r == next.offset) {
            self.again = true;
        } else if let Some(free) = self.registers.get_mut(self.distinct) {
            *free = next.offset;
            self.distinct += 1;
        }
    }

    fn poll(&self) -> Option<Poll> {
        if !self.again {
            return None;
        }
        Some(Poll {
            first: self.first as u64,
            last: self.last.event as u64,
            reads: (self.last.event - self.first + 1) as u64,
            offset: RegOffset::new(self.offset),
            value_at_end: self.value,
            group: self.distinct > 1,
        })
    }
}

fn key(classes: &Classes, kind: u8, space: u8, offset: u32) -> Key {
    if kind != EventKind::Read as u8 {
        Key::None
    } else if classes.space == Some(space) && classes.class_at(offset) == RegisterClass::Group {
        Key::Group
    } else {
        Key::Register(space, offset)
    }
}

/// Whether an event continues the run of the previous one.
fn goes_on(before: RunEvent, now: RunEvent) -> bool {
    before.key != Key::None && before.key == now.key && now.time.saturating_sub(before.time) <= GAP_NS
}

/// Scans all events, and passes results to `take` in event order as it proceeds: the results of many events are never
/// in memory at once.
pub(super) fn scan(
    recording: &Recording,
    classes: &Classes,
    progress: &Progress,
    mut take: impl FnMut(BlockScan),
) -> Result<(), Cancelled> {
    let events = &recording.events;
    let blocks = events.len().div_ceil(BLOCK);
    for from in (0..blocks).step_by(AT_ONCE) {
        let found: Vec<Result<BlockScan, Cancelled>> = (from..(from + AT_ONCE).min(blocks))
            .into_par_iter()
            .map(|b| {
                progress.check()?;
                Ok(scan_block(events, classes, b * BLOCK))
            })
            .collect();
        for f in found {
            take(f?);
        }
    }
    Ok(())
}

/// Scans the events of one block; a run belongs to the block in which it starts.
fn scan_block(events: &Events, classes: &Classes, first: usize) -> BlockScan {
    let mut found = BlockScan::default();
    let block = Block::load(events, first, first + BLOCK);
    let before = first.checked_sub(1).map(|e| Block::load(events, e, first));
    let mut before = before.and_then(|b| b.seen(classes).next());
    let mut run: Option<Run> = None;
    // Whether the events so far continue a run of an earlier block.
    let mut elsewhere = true;
    for now in block.seen(classes) {
        let gap = before.map_or(0, |b| now.time.saturating_sub(b.time));
        if gap > GAP_NS {
            found.gaps.push(Gap {
                after_event: (now.event as u64).saturating_sub(1),
                ns: gap,
            });
        }
        match before {
            Some(b) if goes_on(b, now) => {
                if !elsewhere {
                    run.get_or_insert_with(|| Run::new(b)).take(now);
                }
            }
            _ => {
                elsewhere = false;
                found.polls.extend(run.take().and_then(|r| r.poll()));
            }
        }
        before = Some(now);
        mark(events, classes, &block, now, &mut found.marks);
    }
    if let Some(last) = before.filter(|b| !elsewhere && b.key != Key::None) {
        let mut run = run.unwrap_or_else(|| Run::new(last));
        finish_elsewhere(events, classes, &mut run, block.first + block.len());
        found.polls.extend(run.poll());
    }
    found
}

/// Follows a run past the end of its block.
fn finish_elsewhere(events: &Events, classes: &Classes, run: &mut Run, mut from: usize) {
    // Most runs end within a few events; long ones are followed in long steps.
    let mut step = REGISTERS;
    while from < events.len() {
        for now in Block::load(events, from, from + step).seen(classes) {
            if !goes_on(run.last, now) {
                return;
            }
            run.take(now);
        }
        from += step;
        step = BLOCK;
    }
}

/// Records the event if it is about a job, an interrupt or a phase.
#[inline]
fn mark(events: &Events, classes: &Classes, block: &Block, now: RunEvent, marks: &mut Vec<Mark>) {
    let RunEvent {
        event,
        offset,
        value,
        time,
        ..
    } = now;
    let at = event - block.first;
    let (Some(kind), Some(space)) = (block.kind.get(at).copied(), block.space.get(at).copied()) else {
        return;
    };
    let what = match EventKind::from_raw(kind) {
        Some(way @ (EventKind::Read | EventKind::Write)) => {
            if classes.space != Some(space) {
                return;
            }
            let class = classes.class_at(offset);
            let write = way == EventKind::Write;
            match class {
                RegisterClass::Plain | RegisterClass::Group | RegisterClass::Handler(_) => return,
                RegisterClass::Status(_) if write || value == 0 => return,
                RegisterClass::Status(line) => MarkKind::Handler {
                    line,
                    value,
                    last: handler_end(events, classes, block, event, line),
                },
                _ if write => MarkKind::Write { class, value },
                _ => return,
            }
        }
        Some(EventKind::Interrupt) => {
            let Some(row) = events.interrupt(event) else { return };
            let Some(line) = InterruptLine::from_raw(row.line) else {
                return;
            };
            MarkKind::Interrupt {
                line,
                status: u64::from(row.status),
            }
        }
        Some(EventKind::Submit) => {
            let row = events.payload.get(event).and_then(|p| events.submits.get(p as usize));
            let Some(row) = row else { return };
            MarkKind::Submit {
                head: row.head_va,
                slot: u8::try_from(row.slot).unwrap_or(u8::MAX),
            }
        }
        Some(EventKind::RingEntry) => {
            let Some(row) = events.ring_entry(event) else { return };
            // The family knows the channel.
            MarkKind::Submit { head: row.va, slot: 0 }
        }
        Some(_) | None => return,
    };
    marks.push(Mark {
        event: event as u64,
        time,
        kind: what,
    });
}

/// Returns the last event of the handler that starts at `event`: the handler continues as long as the registers belong
/// to its line.
fn handler_end(events: &Events, classes: &Classes, block: &Block, event: usize, line: InterruptLine) -> u64 {
    /// Maximum number of events of a handler between two status reads.
    const LONGEST: usize = 16;
    let mut last = event;
    for e in event + 1..event + LONGEST {
        let at = e - block.first;
        let next = match (block.kind.get(at), block.space.get(at), block.offset.get(at)) {
            (Some(k), Some(s), Some(o)) if *k == EventKind::Read as u8 || *k == EventKind::Write as u8 => {
                Some((*s, *o))
            }
            (Some(_), ..) => None,
            _ => events.access(e).map(|a| (a.space, a.offset.get())),
        };
        match next {
            Some((space, offset))
                if Some(space) == classes.space && classes.class_at(offset) == RegisterClass::Handler(line) =>
            {
                last = e;
            }
            _ => break,
        }
    }
    last as u64
}

/// Returns the last event of an unbroken run of reads of the group's registers from `event` on.
pub(super) fn group_end(events: &Events, classes: &Classes, event: u64) -> u64 {
    let mut last = event;
    while let Some(a) = usize::try_from(last + 1).ok().and_then(|e| events.access(e)) {
        let gap = match (time(events, last), time(events, last + 1)) {
            (Some(a), Some(b)) => b.saturating_sub(a),
            _ => break,
        };
        if a.write
            || Some(a.space) != classes.space
            || classes.class_at(a.offset.get()) != RegisterClass::Group
            || gap > GAP_NS
        {
            break;
        }
        last += 1;
    }
    last
}

fn time(events: &Events, event: u64) -> Option<u64> {
    events.time.get(usize::try_from(event).ok()?)
}
