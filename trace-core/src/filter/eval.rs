//! Evaluation of a filter for a block of events: one byte per event, 1 if the event passes.

use super::block::{BLOCK, Block, Rows};
use super::compile::{Check, Column, Kinds};
use super::context::{Interrupt, Jobs, NO_JOB};
use super::mask::{all, and, any, equal, few_set, for_set};
use super::number::{Lane, NumberTest};
use super::register_tests::{FieldTest, Registers};
use crate::recording::{Access, DmaMapRow, EventKind};
use crate::{BusAddr, RegOffset};
use fearless_simd::Level;

/// Scratch memory for the evaluation of blocks, reused.
#[derive(Default)]
pub(super) struct Scratch {
    free: Vec<Vec<u8>>,
}

impl Scratch {
    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut v = self.free.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK));
        v.clear();
        v.resize(len, 0);
        v
    }

    fn give(&mut self, v: Vec<u8>) {
        self.free.push(v);
    }
}

/// The kinds of events of calls.
const CALL_KINDS: Kinds = 1 << EventKind::Launch as u32
    | 1 << EventKind::Copy as u32
    | 1 << EventKind::Fill as u32
    | 1 << EventKind::Order as u32
    | 1 << EventKind::Allocation as u32
    | 1 << EventKind::Call as u32;

/// If at most this many events of a block passed so far, only their numbers are read. Memory delivers eight or
/// sixteen numbers at a time, and also those after them.
const FEW: usize = 64;

/// The events that passed the earlier checks. The result for other events does not matter.
type PriorMask<'a> = Option<&'a [u8]>;

impl Check {
    /// Writes for each event of a block whether it passes. If `sofar` is 0 for an event, its result does not matter.
    pub fn fill(&self, b: &Block<'_>, sofar: PriorMask<'_>, scratch: &mut Scratch, out: &mut [u8]) {
        match self {
            Self::Always(is) => out.fill(u8::from(*is)),
            Self::And(checks) => fill_all_of(checks, b, sofar, scratch, out),
            Self::Or(checks) => fill_any_of(checks, b, sofar, scratch, out),
            Self::Not(c) => {
                c.fill(b, sofar, scratch, out);
                out.iter_mut().for_each(|o| *o ^= 1);
            }
            Self::Kind(kinds) => fill_kinds(*kinds, b, out),
            Self::Events(kinds, events) => {
                fill_kinds(*kinds, b, out);
                for e in find_in_block(events, b, |e| *e) {
                    mark(out, b, *e);
                }
            }
            Self::Spans(spans) => fill_spans(spans, b, out),
            Self::Number(column, test) => fill_numbers(*column, test, b, sofar, out),
            Self::Job(jobs, test) => fill_jobs(jobs, test, b, sofar, out),
            Self::Irq { status, found, test } => fill_interrupts(*status, found, test, b, out),
            Self::Address(submits, test) => fill_addresses(submits, test, b, out),
            Self::Bytes(test) => fill_sizes(test, b, out),
            Self::CallName(names) => {
                out.fill(0);
                for_kinds(b, 1 << EventKind::Call as u32, |at, _, payload| {
                    let name = b.events.calls.get(payload).map(|row| row.name as usize);
                    set(out, at, name.and_then(|n| names.get(n)).copied().unwrap_or(false));
                });
            }
            Self::CallResult(test) => {
                out.fill(0);
                for_kinds(b, CALL_KINDS, |at, _, _| {
                    let call = b.events.call(b.first.saturating_add(at));
                    set(out, at, call.is_some_and(|c| test.is_match(u64::from(c.result()))));
                });
            }
            Self::Registers(registers) => fill_registers(registers, b, sofar, scratch, out),
            Self::Part(part) => fill_fields(part, b, sofar, scratch, out),
            Self::Text(test) => {
                out.fill(0);
                for_kinds(b, 1 << EventKind::Mark as u32, |at, _, payload| {
                    set(out, at, b.events.marks.get(payload).is_some_and(|t| test.is_match(t)));
                });
            }
        }
    }
}

/// Writes which events pass all checks. A check is not evaluated if no event passes the checks before it.
fn fill_all_of(checks: &[Check], b: &Block<'_>, sofar: PriorMask<'_>, scratch: &mut Scratch, out: &mut [u8]) {
    let Some((first, rest)) = checks.split_first() else {
        out.fill(1);
        return;
    };
    first.fill(b, sofar, scratch, out);
    let mut next = scratch.take(out.len());
    for c in rest {
        if !any(out) {
            break;
        }
        c.fill(b, Some(out), scratch, &mut next);
        and(out, &next);
    }
    scratch.give(next);
}

/// Writes which events pass a check. A check is not evaluated if all events pass the checks before it.
fn fill_any_of(checks: &[Check], b: &Block<'_>, sofar: PriorMask<'_>, scratch: &mut Scratch, out: &mut [u8]) {
    let Some((first, rest)) = checks.split_first() else {
        out.fill(0);
        return;
    };
    first.fill(b, sofar, scratch, out);
    let mut next = scratch.take(out.len());
    for c in rest {
        if all(out) {
            break;
        }
        c.fill(b, sofar, scratch, &mut next);
        out.iter_mut().zip(&next).for_each(|(o, x)| *o |= x);
    }
    scratch.give(next);
}

/// Writes which events are in a span of a sorted list.
fn fill_spans(spans: &[(u64, u64)], b: &Block<'_>, out: &mut [u8]) {
    out.fill(0);
    let end = (b.first + b.len) as u64;
    let n = spans.partition_point(|s| s.1 < b.first as u64);
    for (first, last) in spans.iter().skip(n).take_while(|s| s.0 < end) {
        let from = first.saturating_sub(b.first as u64) as usize;
        let to = (last.saturating_add(1).min(end).saturating_sub(b.first as u64)) as usize;
        if let Some(part) = out.get_mut(from..to.max(from)) {
            part.fill(1);
        }
    }
}

/// Writes which events belong to a job whose number passes.
fn fill_jobs(jobs: &Jobs, test: &NumberTest, b: &Block<'_>, sofar: PriorMask<'_>, out: &mut [u8]) {
    let mut of = vec![NO_JOB; b.len];
    jobs.running(b.first as u64, &mut of);
    if jobs.can_prepare() {
        for_accesses(b, sofar, |at, access| {
            if access.write
                && let Some(job) = jobs.prepared_job((b.first + at) as u64, &access)
                && let Some(of) = of.get_mut(at)
            {
                *of = job;
            }
        });
    }
    test.fill(Level::new(), &of, out);
    out.iter_mut().zip(&of).for_each(|(o, j)| *o &= u8::from(*j != NO_JOB));
}

/// Writes which events are interrupts whose status, or line, passes.
fn fill_interrupts(status: bool, found: &[Interrupt], test: &NumberTest, b: &Block<'_>, out: &mut [u8]) {
    out.fill(0);
    for i in find_in_block(found, b, |i| i.event) {
        let reported = if status { i.status } else { u64::from(i.line) };
        if test.is_match(reported) {
            mark(out, b, i.event);
        }
    }
    // The interrupt event's own row takes precedence, unless a damaged file has lost it.
    for_kinds(b, 1 << EventKind::Interrupt as u32, |at, _, payload| {
        if let Some(row) = b.events.interrupts.get(payload) {
            let report = if status { row.status } else { row.line };
            set(out, at, test.is_match(u64::from(report)));
        }
    });
}

/// Writes which events hold an address that passes: submits, host writes, DMA mappings.
fn fill_addresses(submits: &[(u64, u64)], test: &NumberTest, b: &Block<'_>, out: &mut [u8]) {
    const KINDS: Kinds =
        1 << EventKind::Submit as u32 | 1 << EventKind::HostWrite as u32 | 1 << EventKind::DmaMap as u32;
    out.fill(0);
    for (event, head) in find_in_block(submits, b, |s| s.0) {
        if test.is_match(*head) {
            mark(out, b, *event);
        }
    }
    for_kinds(b, KINDS, |at, kind, payload| {
        let report = match EventKind::from_raw(kind) {
            Some(EventKind::Submit) => b.events.submits.get(payload).map(|s| s.head_va.get()),
            Some(EventKind::HostWrite) => b.events.host_writes.get(payload).map(|w| w.at.get()),
            _ => {
                let row = b.events.dma_maps.get(payload);
                row.map(|d| d.bus)
                    .filter(|bus| *bus != DmaMapRow::UNKNOWN)
                    .map(BusAddr::get)
            }
        };
        set(out, at, report.is_some_and(|t| test.is_match(t)));
    });
}

/// Writes which events have a size that passes: host writes and DMA mappings.
fn fill_sizes(test: &NumberTest, b: &Block<'_>, out: &mut [u8]) {
    const KINDS: Kinds = 1 << EventKind::HostWrite as u32 | 1 << EventKind::DmaMap as u32;
    out.fill(0);
    for_kinds(b, KINDS, |at, kind, payload| {
        let report = match EventKind::from_raw(kind) {
            Some(EventKind::HostWrite) => b.events.host_writes.get(payload).map(|w| u64::from(w.bytes)),
            _ => b.events.dma_maps.get(payload).map(|d| d.bytes),
        };
        set(out, at, report.is_some_and(|t| test.is_match(t)));
    });
}

/// Writes which events access one of the registers.
fn fill_registers(registers: &Registers, b: &Block<'_>, sofar: PriorMask<'_>, scratch: &mut Scratch, out: &mut [u8]) {
    let near = scratch.take(out.len());
    let near = mark_near_places(b, sofar, registers.space(), (registers.first, registers.last), near);
    out.fill(0);
    let (offset, width) = (b.offset(), b.width());
    for_set(&near, |at| {
        if let (Some(offset), Some(width)) = (offset.get(at), width.get(at)) {
            set(out, at, registers.holds(*offset, *width));
        }
    });
    scratch.give(near);
}

/// Writes which events access a register with a field that passes.
fn fill_fields(part: &FieldTest, b: &Block<'_>, sofar: PriorMask<'_>, scratch: &mut Scratch, out: &mut [u8]) {
    let near = scratch.take(out.len());
    let near = mark_near_places(b, sofar, part.space(), part.bounds(), near);
    out.fill(0);
    if any(&near) {
        for_set(&near, |at| {
            if let Some(access) = read_access(b, at) {
                set(out, at, part.holds(&access));
            }
        });
    }
    scratch.give(near);
}

/// Returns the elements of a sorted list whose events are in a block.
fn find_in_block<'l, T>(list: &'l [T], b: &Block<'_>, event: impl Fn(&T) -> u64) -> &'l [T] {
    let first = list.partition_point(|t| event(t) < b.first as u64);
    let end = list.partition_point(|t| event(t) < (b.first + b.len) as u64);
    list.get(first..end).unwrap_or_default()
}

fn set(out: &mut [u8], at: usize, to: bool) {
    if let Some(o) = out.get_mut(at) {
        *o = u8::from(to);
    }
}

/// Marks an event of the block as passed.
fn mark(out: &mut [u8], b: &Block<'_>, event: u64) {
    set(out, (event - b.first as u64) as usize, true);
}

/// Returns the bit of a kind.
fn bit(kind: u8) -> Kinds {
    if EventKind::from_raw(kind).is_some() {
        1 << kind
    } else {
        1
    }
}

/// Writes which events are of some kinds.
fn fill_kinds(kinds: Kinds, b: &Block<'_>, out: &mut [u8]) {
    let column = b.kind();
    if kinds.count_ones() == 1 && kinds != 1 {
        let only = kinds.trailing_zeros() as u8;
        equal(column, only, out);
        return;
    }
    out.iter_mut()
        .zip(column)
        .for_each(|(o, k)| *o = u8::from(bit(*k) & kinds != 0));
}

/// Calls `call` with the events of some kinds: index in the block, kind and row.
fn for_kinds(b: &Block<'_>, kinds: Kinds, mut call: impl FnMut(usize, u8, usize)) {
    let mut payload = None;
    for (n, piece) in b.kind().chunks(64).enumerate() {
        // Most events are accesses, which are skipped one piece at a time.
        if piece.iter().fold(true, |only, k| only & (k.wrapping_sub(1) < 2)) {
            continue;
        }
        let payload = *payload.get_or_insert_with(|| b.payload());
        for (at, k) in (n * 64..).zip(piece) {
            if bit(*k) & kinds != 0
                && let Some(row) = payload.get(at)
            {
                call(at, *k, *row as usize);
            }
        }
    }
}

/// Returns the access at a position of a block.
fn read_access(b: &Block<'_>, at: usize) -> Option<Access> {
    AccessColumns::new(b).read(at)
}

/// The columns of the accesses of a block.
struct AccessColumns<'a> {
    space: &'a [u8],
    kind: &'a [u8],
    offset: &'a [u32],
    width: &'a [u8],
    value: &'a [u64],
}

impl<'a> AccessColumns<'a> {
    fn new(b: &'a Block<'_>) -> Self {
        Self {
            space: b.space(),
            kind: b.kind(),
            offset: b.offset(),
            width: b.width(),
            value: b.value(),
        }
    }

    /// Returns the access at a position of the block.
    #[inline]
    fn read(&self, at: usize) -> Option<Access> {
        Some(Access {
            space: *self.space.get(at)?,
            write: *self.kind.get(at)? == EventKind::Write as u8,
            offset: RegOffset::new(*self.offset.get(at)?),
            width: *self.width.get(at)?,
            value: *self.value.get(at)?,
        })
    }
}

/// Calls `call` with the accesses that passed so far: index in the block and access.
fn for_accesses(b: &Block<'_>, sofar: PriorMask<'_>, mut call: impl FnMut(usize, Access)) {
    // Columns are read from the file when they are first used.
    let mut columns: Option<AccessColumns<'_>> = None;
    let mut each = |at: usize| {
        if let Some(a) = columns.get_or_insert_with(|| AccessColumns::new(b)).read(at) {
            call(at, a);
        }
    };
    let is = match b.rows() {
        Rows::All(_) => None,
        Rows::Some(m) => Some(m.access.as_slice()),
    };
    match (is, sofar) {
        (None, None) => (0..b.len).for_each(each),
        (Some(mask), None) | (None, Some(mask)) => for_set(mask, each),
        (Some(is), Some(sofar)) => for_set(is, |at| {
            if sofar.get(at) == Some(&1) {
                each(at);
            }
        }),
    }
}

/// Writes which events are accesses to a space between two offsets, inclusive, and passed so far.
fn mark_near_places(
    b: &Block<'_>,
    sofar: PriorMask<'_>,
    space: u8,
    (first, last): (u32, u32),
    mut near: Vec<u8>,
) -> Vec<u8> {
    if first > last {
        near.fill(0);
        return near;
    }
    let level = Level::new();
    let test = NumberTest::new(None, vec![(u64::from(first), u64::from(last))], false);
    test.fill(level, b.offset(), &mut near);
    if let Rows::Some(m) = b.rows() {
        and(&mut near, &m.access);
    }
    near.iter_mut()
        .zip(b.space())
        .for_each(|(n, s)| *n &= u8::from(*s == space));
    if let Some(sofar) = sofar {
        and(&mut near, sofar);
    }
    near
}

/// Tests the numbers of a column. If few events passed so far, tests only their numbers, so that most of the column
/// is never read.
fn fill_column<T: Lane>(test: &NumberTest, column: &[T], sofar: PriorMask<'_>, out: &mut [u8]) {
    let mut places = [0; FEW];
    if let Some(few) = sofar.and_then(|s| few_set(s, &mut places)) {
        out.fill(0);
        // Issue all loads before any comparison, so that memory serves them in parallel.
        let mut numbers = [0; FEW];
        for (n, at) in numbers.iter_mut().zip(few) {
            *n = column.get(*at).map_or(0, |v| v.wide());
        }
        for (n, at) in numbers.iter().zip(few) {
            set(out, *at, test.is_match(*n));
        }
        return;
    }
    test.fill(Level::new(), column, out);
}

/// Writes which events have a number that passes.
fn fill_numbers(column: Column, test: &NumberTest, b: &Block<'_>, sofar: PriorMask<'_>, out: &mut [u8]) {
    match column {
        Column::Event => {
            let index: Vec<u64> = (b.first as u64..(b.first + b.len) as u64).collect();
            fill_column(test, &index, sofar, out);
        }
        Column::Time => fill_column(test, b.time(), sofar, out),
        Column::Thread => fill_column(test, b.thread(), sofar, out),
        Column::Space => fill_column(test, b.space(), sofar, out),
        Column::Offset => fill_column(test, b.offset(), sofar, out),
        Column::Width => fill_column(test, b.width(), sofar, out),
        Column::Value => fill_column(test, b.value(), sofar, out),
    }
    let has = match (column, b.has_some()) {
        (Column::Space | Column::Offset, Some(m)) => &m.place,
        (Column::Width, Some(m)) => &m.wide,
        (Column::Value, Some(m)) => &m.access,
        _ => return,
    };
    and(out, has);
}

impl Block<'_> {
    /// Returns which events have locations and values, if not all have.
    fn has_some(&self) -> Option<&super::block::Mixed> {
        match self.rows() {
            Rows::All(_) => None,
            Rows::Some(m) => Some(m),
        }
    }
}
