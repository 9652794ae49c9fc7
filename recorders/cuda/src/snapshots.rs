//! Snapshots: the content of memory at one time, as copies that no call made. A second snapshot copies only changed
//! pages from the device.

mod hash_kernel;
mod hashing;

use crate::code::Code;
use crate::contexts::current_context_and_device;
use crate::driver::driver;
use crate::memory::{Memory, Piece};
use crate::message::say;
use crate::settings::Hashing;
use crate::trace::{Trace, lock};
use cuda_session::{CallStart, EntryPayload, GRANULE, PageHash, PageHashes, hash_pages};
use hashing::Hashers;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use trace_core::GpuVa;
use trace_core::recording::{
    AllocationKind, AllocationRow, CALL_ASYNC, CallEvent, CallRow, CopyKind, CopyRow, OrderKind, OrderRow,
};

/// Size of a page, bytes.
const PAGE: u64 = trace_core::PAGE_SIZE as u64;
/// Size of one read, and approximate maximum size of a snapshot row, bytes.
const PIECE: u64 = 64 << 20;
/// Maximum gap between two ranges that are read together, bytes: a separate copy takes longer.
const MAX_GAP_BYTES: u64 = 64 << 10;
/// Minimum size of memory that is hashed on the device, bytes: a copy of less is faster.
const MIN_HASHED: u64 = 1 << 20;

/// A launch that is recorded individually.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotLaunch {
    /// Number of the function in the recording.
    pub function: u32,
    /// Number of the launch among all of the program's, from 1 on.
    pub launch: u64,
    /// Number of the launch among the function's, from 1 on.
    pub function_launch: u64,
}

/// The time at which a snapshot is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SnapshotPoint {
    /// The recorded range starts: everything is recorded.
    Begin,
    /// The recorded range ends: everything is recorded.
    End,
    /// Before a launch: changes since the previous snapshot are recorded.
    Before(SnapshotLaunch),
    /// After a launch: changes since the previous snapshot are recorded.
    After(SnapshotLaunch),
}

impl SnapshotPoint {
    fn name(self) -> &'static str {
        match self {
            Self::Begin => "snapshot at the begin",
            Self::End => "snapshot at the end",
            Self::Before(_) => "snapshot before launch",
            Self::After(_) => "snapshot after launch",
        }
    }

    fn is_whole(self) -> bool {
        matches!(self, Self::Begin | Self::End)
    }
}

/// Cost of snapshots, for the statistics.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    snapshots: u64,
    took: Duration,
    looked_at: u64,
    hashed: u64,
    hashing: Duration,
    copied: u64,
    copying: Duration,
}

/// State of memory between snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    hashing: Hashing,
    hashers: Hashers,
    /// Hashes of the recorded content.
    hashes: PageHashes,
    /// Allocations that rows have recorded.
    recorded_allocations: BTreeMap<GpuVa, u64>,
    /// Another snapshot can follow: the hashes of recorded content are needed.
    keeps: bool,
    is_reported: bool,
    stats: Stats,
}

impl Snapshots {
    /// `keeps`: more than one snapshot is taken. `is_reported`: [`Snapshots::print_stats`] prints the cost.
    pub fn new(hashing: Hashing, keeps: bool, is_reported: bool) -> Self {
        Self {
            hashing,
            hashers: Hashers::default(),
            hashes: PageHashes::default(),
            recorded_allocations: BTreeMap::new(),
            keeps,
            is_reported,
            stats: Stats::default(),
        }
    }

    /// Forgets a destroyed context with everything created in it.
    pub fn forget_context(&mut self, context: usize) {
        self.hashers.forget(context);
    }

    /// Prints the cost of snapshots, if requested.
    pub fn print_stats(&self) {
        let s = &self.stats;
        if self.is_reported {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            say(format_args!(
                "{} snapshots took {:.3} ms: {:.3} MB checked, {:.3} MB hashed on the device in {:.3} ms, {:.3} MB \
                 copied to the host in {:.3} ms{}",
                s.snapshots,
                ms(s.took),
                mb(s.looked_at),
                mb(s.hashed),
                ms(s.hashing),
                mb(s.copied),
                ms(s.copying),
                self.hashers
                    .error()
                    .map_or_else(String::new, |why| format!("; not hashed on the device: {why}")),
            ));
        }
    }
}

/// A planned row: a part of a piece of memory.
struct RowPlan {
    piece: Piece,
    /// Its bytes, relative to the start of the piece.
    range: Range<u64>,
    /// The bytes that have to be read, relative to the start of the piece.
    needs: Vec<Range<u64>>,
    /// The content is checked for changes, against hashes of the device if there are any.
    look: Option<Option<Vec<PageHash>>>,
}

/// Memory that was read: its start address and its bytes; none if it could not be read.
struct Span {
    at: GpuVa,
    bytes: u64,
    content: Option<Vec<u8>>,
}

impl Snapshots {
    /// Records the current content of memory. Returns `false` if it cannot be read; then nothing is recorded.
    pub fn take(&mut self, trace: &Trace, code: &Mutex<Code>, memory: &Mutex<Memory>, point: SnapshotPoint) -> bool {
        let begun = trace.session.start_call();
        // A wait is not allowed during graph capture, and would end the capture.
        // SAFETY: the call waits for the device.
        if trace.is_capturing() || unsafe { driver().cuCtxSynchronize() }.is_err() {
            trace.note_not_recorded(
                "snapshot",
                "memory could not be read: the device does not answer, or a graph is being captured",
            );
            return false;
        }
        // A snapshot after an event follows the event; a snapshot before an event precedes it.
        let behind = matches!(point, SnapshotPoint::End | SnapshotPoint::After(_));
        if behind {
            record_wait(trace, begun);
        }
        let variables = lock(code).list_variables();
        // The lock is held until all is read: a free in another thread waits for it.
        let mut memory = lock(memory);
        for gone in memory.take_freed() {
            self.hashes.forget(gone);
        }
        let mut pieces = memory.pieces();
        if matches!(point, SnapshotPoint::Begin) {
            record_shared_ranges(trace, begun, &memory);
        }
        record_start(trace, begun, point, pieces.len());
        if !point.is_whole() {
            self.record_allocations(trace, begun, &pieces);
        }
        pieces.extend(variables.into_iter().map(Piece::variable));
        self.record_pieces(trace, begun, &memory, &pieces, point.is_whole());
        drop(memory);
        if !behind {
            record_wait(trace, begun);
        }
        self.stats.snapshots += 1;
        self.stats.took += Duration::from_nanos(begun.elapsed_ns().into());
        true
    }

    /// Records the initial content of variables of code that is first used after the start. The device is idle.
    pub fn record_variables(
        &mut self,
        trace: &Trace,
        begun: CallStart,
        memory: &Mutex<Memory>,
        variables: Vec<(GpuVa, u64)>,
    ) {
        let memory = lock(memory);
        record_start(trace, begun, SnapshotPoint::Begin, variables.len());
        let pieces: Vec<Piece> = variables.into_iter().map(Piece::variable).collect();
        self.record_pieces(trace, begun, &memory, &pieces, true);
        record_wait(trace, begun);
    }

    /// Records allocations and frees since the last snapshot, if their calls are not recorded.
    fn record_allocations(&mut self, trace: &Trace, begun: CallStart, pieces: &[Piece]) {
        let now: BTreeMap<GpuVa, u64> = pieces.iter().map(|p| (p.at, p.bytes)).collect();
        let row = |kind: AllocationKind, at: GpuVa, bytes: u64| {
            let row = AllocationRow {
                at,
                bytes,
                kind: kind as u32,
                stream: OrderRow::NONE,
                ..Default::default()
            };
            trace.record_always(begun, CallEvent::Allocation(row), EntryPayload::Nothing);
        };
        for (at, bytes) in &self.recorded_allocations {
            if now.get(at) != Some(bytes) {
                row(AllocationKind::Give, *at, *bytes);
            }
        }
        for (at, bytes) in &now {
            if self.recorded_allocations.get(at) != Some(bytes) {
                row(AllocationKind::Take, *at, *bytes);
            }
        }
        self.recorded_allocations = now;
    }

    /// Records the content of pieces of memory: all of it, or the changes.
    fn record_pieces(&mut self, trace: &Trace, begun: CallStart, memory: &Memory, pieces: &[Piece], whole: bool) {
        let mut hashes = match self.hashing {
            Hashing::Host => BTreeMap::new(),
            _ if !self.keeps => BTreeMap::new(),
            Hashing::Device | Hashing::Check => hashes_on_device(self, memory, pieces),
        };
        let mut group: Vec<RowPlan> = Vec::new();
        let mut weight = 0;
        let mut put = |snapshots: &mut Self, plan: RowPlan| {
            weight += plan.needs.iter().map(|n| n.end - n.start).sum::<u64>();
            group.push(plan);
            if weight >= PIECE {
                snapshots.record_group(trace, begun, std::mem::take(&mut group), whole);
                weight = 0;
            }
        };
        for piece in pieces {
            self.stats.looked_at += piece.bytes;
            let known = hashes.remove(&piece.at);
            let changed = match known {
                Some(known) if self.hashing == Hashing::Device => {
                    Ok(self.hashes.update(piece.at, piece.bytes, 0, &known))
                }
                other => Err(other),
            };
            match changed {
                Ok(changed) if whole => {
                    for range in split_into_rows(piece.at, &(0..piece.bytes)) {
                        let needs = changed.iter().filter_map(|c| intersect(c, &range)).collect();
                        let look = None;
                        put(
                            self,
                            RowPlan {
                                piece: *piece,
                                range,
                                needs,
                                look,
                            },
                        );
                    }
                }
                Ok(changed) => {
                    for range in changed.iter().flat_map(|c| split_into_rows(piece.at, c)) {
                        let plan = RowPlan {
                            piece: *piece,
                            needs: vec![range.clone()],
                            range,
                            look: None,
                        };
                        put(self, plan);
                    }
                }
                Err(device) => {
                    for range in split_into_rows(piece.at, &(0..piece.bytes)) {
                        let first = (piece.at + range.start).page() - piece.at.page();
                        let pages = cuda_session::count_pages(piece.at + range.start, range.end - range.start);
                        let device = device
                            .as_ref()
                            .and_then(|d| d.get(first as usize..(first + pages) as usize));
                        let plan = RowPlan {
                            piece: *piece,
                            needs: vec![range.clone()],
                            range,
                            look: Some(device.map(<[PageHash]>::to_vec)),
                        };
                        put(self, plan);
                    }
                }
            }
        }
        self.record_group(trace, begun, group, whole);
    }

    /// Reads the content that rows need, and records the rows.
    fn record_group(&mut self, trace: &Trace, begun: CallStart, group: Vec<RowPlan>, whole: bool) {
        let mut spans = read(&group, &mut self.stats);
        for plan in group {
            let RowPlan {
                piece,
                range,
                needs,
                look,
            } = plan;
            let mut parts = Vec::new();
            let mut missing = false;
            for need in needs {
                match content(&mut spans, piece.at + need.start, need.end - need.start) {
                    Some(c) => parts.push((need.start - range.start, c)),
                    None => missing = true,
                }
            }
            if missing {
                self.hashes.forget(piece.at);
                trace.note_not_recorded(
                    "snapshot",
                    "some memory could not be read for a snapshot: it belongs to a graph, to another context or to another process",
                );
                if !whole {
                    continue;
                }
            }
            let row = |range: &Range<u64>| CopyRow {
                from: (piece.at + range.start).get(),
                bytes: range.end - range.start,
                rows: 1,
                kind: CopyKind::DeviceToHost as u32,
                stream: OrderRow::NONE,
                flags: CALL_ASYNC,
                ..Default::default()
            };
            let hand = |range: &Range<u64>, with: EntryPayload| {
                trace.record_always(begun, CallEvent::Copy(row(range)), with);
            };
            if let (Some(device), [(0, all)], true) = (&look, parts.as_mut_slice(), self.keeps) {
                let own = hash_pages(piece.at + range.start, all);
                if let Some(device) = device
                    && *device != own
                {
                    say(format_args!(
                        "the device's hashes of memory at {} differ from the host's",
                        piece.at
                    ));
                    trace.note_not_recorded("hash", "the device's hashes of memory differ from the host's");
                }
                let first = (piece.at + range.start).page() - piece.at.page();
                let changed = self.hashes.update(piece.at, piece.bytes, first, &own);
                let all = std::mem::take(all);
                if let [one] = changed.as_slice()
                    && *one == range
                {
                    parts = vec![(0, all)];
                } else {
                    parts = changed
                        .iter()
                        .filter_map(|c| {
                            let from = c.start.checked_sub(range.start)?;
                            let part = all.get(from as usize..)?.get(..(c.end - c.start) as usize)?;
                            Some((from, part.to_vec()))
                        })
                        .collect();
                }
            }
            match (whole, self.keeps) {
                (true, _) if missing => hand(&range, EntryPayload::Nothing),
                (true, true) => hand(
                    &range,
                    EntryPayload::Snapshot {
                        range: (piece.at, piece.bytes),
                        parts,
                    },
                ),
                (true, false) => hand(
                    &range,
                    parts
                        .pop()
                        .map_or(EntryPayload::Nothing, |(_, c)| EntryPayload::Content(c)),
                ),
                (false, _) => {
                    for (from, content) in parts {
                        let from = range.start + from;
                        hand(&(from..from + content.len() as u64), EntryPayload::Content(content));
                    }
                }
            }
        }
    }
}

/// Records that the host waited for everything.
fn record_wait(trace: &Trace, begun: CallStart) {
    let order = OrderRow {
        kind: OrderKind::ContextDone as u32,
        stream: OrderRow::NONE,
        event: OrderRow::NONE,
        took: begun.elapsed_ns(),
        ..Default::default()
    };
    trace.record_always(begun, CallEvent::Order(order), EntryPayload::Nothing);
}

/// Records memory that host and device shared at the start of the range: a replay can have it at another address.
fn record_shared_ranges(trace: &Trace, begun: CallStart, memory: &Memory) {
    let managed = memory.managed().map(|m| (AllocationKind::TakeManaged, m.at, m.bytes));
    let pinned = memory.pinned.iter();
    let pinned = pinned.map(|(at, bytes)| (AllocationKind::TakeHost, at.to_shared(), *bytes));
    for (kind, at, bytes) in managed.chain(pinned) {
        let row = AllocationRow {
            at,
            bytes,
            kind: kind as u32,
            stream: OrderRow::NONE,
            ..Default::default()
        };
        trace.record_always(begun, CallEvent::Allocation(row), EntryPayload::Nothing);
    }
}

/// Records the row that starts a snapshot.
fn record_start(trace: &Trace, begun: CallStart, point: SnapshotPoint, pieces: usize) {
    let (about, arguments) = match point {
        SnapshotPoint::Begin | SnapshotPoint::End => (u32::try_from(pieces).unwrap_or(u32::MAX), EntryPayload::Nothing),
        SnapshotPoint::Before(w) | SnapshotPoint::After(w) => {
            let arguments = [w.launch, w.function_launch]
                .iter()
                .flat_map(|n| n.to_le_bytes())
                .collect();
            (w.function, EntryPayload::Arguments(arguments))
        }
    };
    let row = CallRow {
        name: trace.session.tables().name(point.name()),
        about,
        ..Default::default()
    };
    trace.record_always(begun, CallEvent::Call(row), arguments);
}

/// Returns the hashes of the pieces that the device can hash, by their first addresses.
fn hashes_on_device(s: &mut Snapshots, memory: &Memory, pieces: &[Piece]) -> BTreeMap<GpuVa, Vec<PageHash>> {
    let context = current_context_and_device();
    let able: Vec<(GpuVa, u64)> = pieces
        .iter()
        .filter(|p| context.is_some_and(|c| memory.is_accessible(p, c)))
        .map(|p| (p.at, p.bytes))
        .collect();
    let total: u64 = able.iter().map(|(_, bytes)| bytes).sum();
    let Some((context, _)) = context.filter(|_| total >= MIN_HASHED) else {
        return BTreeMap::new();
    };
    let begun = Instant::now();
    let all = s.hashers.hash(context, &able);
    s.stats.hashing += begun.elapsed();
    match all {
        Some(all) => {
            s.stats.hashed += total;
            able.iter().map(|(at, _)| *at).zip(all).collect()
        }
        None => BTreeMap::new(),
    }
}

/// Splits a range into portions of limited length; each except the first starts at a page.
fn split_into_rows(at: GpuVa, range: &Range<u64>) -> Vec<Range<u64>> {
    let mut all = Vec::new();
    let mut from = range.start;
    while from < range.end {
        let to = (at + from + PIECE).align_down(PAGE) - at;
        let to = to.min(range.end);
        all.push(from..to);
        from = to;
    }
    all
}

/// Returns the intersection of two ranges.
fn intersect(a: &Range<u64>, b: &Range<u64>) -> Option<Range<u64>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (both.start < both.end).then_some(both)
}

/// Reads the content that rows need; nearby ranges in the same granule are read at once.
fn read(group: &[RowPlan], stats: &mut Stats) -> Vec<Span> {
    let mut spans: Vec<(Span, bool)> = Vec::new();
    for plan in group {
        for need in &plan.needs {
            let (at, bytes) = (plan.piece.at + need.start, need.end - need.start);
            match spans.last_mut() {
                Some((last, true))
                    if plan.piece.in_window
                        && at >= last.at + last.bytes
                        && at - (last.at + last.bytes) <= MAX_GAP_BYTES
                        && (last.at + (last.bytes - 1)).align_down(GRANULE) == at.align_down(GRANULE)
                        && last.bytes < PIECE =>
                {
                    last.bytes = at + bytes - last.at;
                }
                _ => {
                    let content = None;
                    spans.push((Span { at, bytes, content }, plan.piece.in_window));
                }
            }
        }
    }
    let begun = Instant::now();
    let mut read = Vec::with_capacity(spans.len());
    for (mut span, _) in spans {
        let mut content = vec![0u8; span.bytes as usize];
        // SAFETY: the buffer has this many bytes; the driver returns an error for memory that does not exist.
        let copied = unsafe { driver().cuMemcpyDtoH_v2(content.as_mut_ptr().cast(), span.at.get(), content.len()) };
        if copied.is_ok() {
            stats.copied += span.bytes;
            span.content = Some(content);
        }
        read.push(span);
    }
    stats.copying += begun.elapsed();
    read.sort_unstable_by_key(|s| s.at);
    read
}

/// Returns bytes of the memory read, by move if they are all of a span.
fn content(spans: &mut [Span], at: GpuVa, bytes: u64) -> Option<Vec<u8>> {
    let n = spans.partition_point(|s| s.at <= at).checked_sub(1)?;
    let span = spans.get_mut(n).filter(|s| at + bytes <= s.at + s.bytes)?;
    if span.at == at && span.bytes == bytes {
        return span.content.take();
    }
    let from = (at - span.at) as usize;
    let part = span.content.as_ref()?.get(from..)?.get(..bytes as usize)?;
    Some(part.to_vec())
}
