//! References of bytes of device memory in an API trace: copies, fills, launches with its address, allocations.

use super::reference::{AccessKind, CallReference, LaunchReference, MAX_BYTES, Reference, ReferenceItem};
use crate::GpuVa;
use crate::api_trace::{ApiTrace, Argument, CertainWriter};
use crate::progress::{Cancelled, Progress};
use crate::recording::{CallEvent, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Kinds of references that share the maximum: writes, reads, changes, launches.
const KINDS: usize = 4;
/// Maximum number of addresses of a range whose copies and fills are searched.
const MAX_ADDRESSES: usize = 256;

/// Finds every reference to device bytes during the lifetime of their buffer. `event` selects the buffer of the first
/// byte.
pub(super) fn find_references(
    recording: &Recording,
    api_trace: &ApiTrace,
    (va, bytes): (GpuVa, u64),
    (event, max): (u64, usize),
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    let range = va..va.saturating_add(bytes.clamp(1, MAX_BYTES));
    let max_of_kind = max / KINDS;
    let end = recording.events.len() as u64;
    let location = api_trace.buffers().locate_nearest(va, event);
    let buffer = location.and_then(|l| api_trace.buffers().get(l.buffer));
    let events = buffer.map_or(0..end, |b| b.from..b.to.map_or(end, |t| t + 1));
    let mut out = find_copies(recording, api_trace, (&range, &events), max_of_kind, progress)?;
    let mut add = |item, access, event| out.push(Reference::new(item, access, event));
    let changes = match bytes {
        0 | 1 => api_trace.list_changes(recording, va, events.clone(), max_of_kind),
        _ => Vec::new(),
    };
    for c in &changes {
        let how = LaunchReference::Changed {
            before: c.before,
            after: c.after,
        };
        let launch = c.launch;
        add(ReferenceItem::Launch { launch, how }, AccessKind::Write, Some(c.event));
    }
    progress.check()?;
    let Some(location) = location else {
        return Ok(out);
    };
    let event_of = |launch: u32| api_trace.launches().get(launch as usize).map(|l| l.event);
    for r in api_trace
        .possible_writers(location.buffer, events.clone())
        .take(max_of_kind)
    {
        let Some(event) = event_of(r.launch).filter(|e| changes.iter().all(|c| c.event != *e)) else {
            continue;
        };
        let traced = match bytes {
            0 | 1 => api_trace.is_traced(va, event).then_some(false),
            _ => has_changed(api_trace, &range, event),
        };
        let (how, access) = match traced {
            Some(true) => (LaunchReference::ChangedSome, AccessKind::Write),
            Some(false) => (LaunchReference::Unchanged(r.kind), AccessKind::AddressOf),
            None => (LaunchReference::Possible(r.kind), AccessKind::ReadOrWrite),
        };
        let launch = r.launch;
        add(ReferenceItem::Launch { launch, how }, access, Some(event));
    }
    let readers = api_trace.readers(location.buffer, events);
    for r in readers.iter().rev().take(max_of_kind) {
        let Some(event) = event_of(r.launch) else { continue };
        let item = ReferenceItem::Launch {
            launch: r.launch,
            how: LaunchReference::ReadOnly,
        };
        add(item, AccessKind::Read, Some(event));
    }
    if let Some(b) = buffer.filter(|b| b.kind.is_allocated()) {
        let item = ReferenceItem::Call(CallReference::Allocation);
        add(item, AccessKind::Write, Some(b.from));
        if let Some(to) = b.to {
            add(item, AccessKind::AddressOf, Some(to));
        }
    }
    add(
        ReferenceItem::DeviceBuffer { location, event },
        AccessKind::Resident,
        None,
    );
    Ok(out)
}

/// Returns the copies and fills that write the bytes, in event order, then the copies that read them.
fn find_copies(
    recording: &Recording,
    api_trace: &ApiTrace,
    (range, events): (&Range<GpuVa>, &Range<u64>),
    max: usize,
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    let (mut writes, mut reads) = (BTreeMap::new(), BTreeSet::new());
    for va in api_trace.list_bounds(range.clone(), MAX_ADDRESSES) {
        for (event, writer) in api_trace.list_writes(recording, va, events.clone(), max) {
            let call = match writer {
                CertainWriter::Fill => CallReference::Fill,
                _ => CallReference::Copy,
            };
            writes.insert(event, call);
        }
        reads.extend(api_trace.list_reads(recording, va, events.clone(), max));
        progress.check()?;
    }
    let new = |call, access, event| Reference::new(ReferenceItem::Call(call), access, Some(event));
    let writes = writes
        .into_iter()
        .map(|(event, call)| new(call, AccessKind::Write, event));
    let reads = reads
        .into_iter()
        .map(|event| new(CallReference::Copy, AccessKind::Read, event));
    Ok(writes.chain(reads).collect())
}

/// Returns whether a launch changed some of the bytes; `None` if it is not known.
fn has_changed(api_trace: &ApiTrace, range: &Range<GpuVa>, event: u64) -> Option<bool> {
    let changes = api_trace.launch_changes(event)?;
    // A change lists only its first and last byte. Those between them may be as before.
    let is_certain = |span: &Range<GpuVa>| range.contains(&span.start) || range.contains(&span.end.saturating_sub(1));
    let overlaps = |span: &Range<GpuVa>| span.start < range.end && range.start < span.end;
    if changes.list.iter().any(|c| is_certain(&c.span)) {
        return Some(true);
    }
    let is_unchanged = changes.complete && !changes.list.iter().any(|c| overlaps(&c.span));
    is_unchanged.then_some(false)
}

/// Returns the arguments of a launch that point into a buffer.
#[must_use]
pub fn find_pointing_arguments(recording: &Recording, api_trace: &ApiTrace, launch: u32, buffer: u32) -> Vec<Argument> {
    let event = api_trace.launches().get(launch as usize).map(|l| l.event);
    let call = event.and_then(|e| recording.events.call(usize::try_from(e).ok()?));
    let (Some(event), Some(CallEvent::Launch(row))) = (event, call) else {
        return Vec::new();
    };
    let arguments = api_trace.arguments(recording, event, &row).into_iter();
    arguments
        .filter(|a| a.pointers().any(|(_, location)| location.buffer == buffer))
        .collect()
}
