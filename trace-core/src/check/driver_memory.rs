//! Checks of the memory of a driver trace: work at addresses without a buffer, and buffers that stay when their client is
//! done.

use super::capped_findings::CappedFindings;
use crate::GpuVa;
use crate::driver_trace::{DecodedSubmission, DriverTrace, DriverWork, GpuWork, NearestBuffer, Submission};
use crate::families::Family;
use crate::finding::{Finding, FindingKind};
use crate::progress::{Cancelled, Progress};
use crate::recording::{ObjectKind, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Reports work at addresses that no buffer has. Only recordings with the arguments of requests hold every mapping, from
/// the creation of the channel on.
pub(super) fn check_addresses(
    recording: &Recording,
    work: &DriverWork,
    family: &dyn Family,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    let trace = work.trace();
    let holds_mappings = recording.driver_trace().is_some_and(|d| d.has_arguments) && !trace.mappings().is_empty();
    if !holds_mappings {
        return Ok(());
    }
    let other = family.find_driver_ranges(recording);
    let mut found = CappedFindings::new(FindingKind::UnmappedAddress);
    // An address that all launches use is one finding.
    let mut reported: BTreeSet<(usize, GpuVa)> = BTreeSet::new();
    let mut known: BTreeSet<GpuVa> = BTreeSet::new();
    let mut changes = MappingChanges::new(trace);
    for (submission, decoded) in work.submissions() {
        progress.check()?;
        if !is_whole_channel(trace, submission.channel) {
            continue;
        }
        if changes.advance_to(submission.event) {
            known.clear();
        }
        for (va, what) in list_addresses(decoded) {
            let is_new = !known.contains(&va) && !reported.contains(&(submission.channel, va));
            if !is_new || is_in(&other, va) {
                continue;
            }
            let nearest = trace.find_nearest_buffer(va, submission.event);
            if let Some(NearestBuffer::Inside { .. }) = nearest {
                known.insert(va);
                continue;
            }
            reported.insert((submission.channel, va));
            found.add(|| describe_use(trace, submission, (va, what), nearest));
        }
    }
    found.append_to(findings);
    Ok(())
}

fn is_in(ranges: &[Range<GpuVa>], va: GpuVa) -> bool {
    ranges.iter().any(|r| r.contains(&va))
}

/// Whether the recording holds a channel from its creation on.
fn is_whole_channel(trace: &DriverTrace, channel: usize) -> bool {
    let object = trace
        .channels()
        .get(channel)
        .and_then(|c| trace.objects().get(c.object));
    object.is_some_and(|o| o.alloc_event.is_some())
}

/// The events that end addresses of buffers, in order.
struct MappingChanges {
    events: Vec<u64>,
    next: usize,
}

impl MappingChanges {
    fn new(trace: &DriverTrace) -> Self {
        let mut events: Vec<u64> = trace.placed_buffers().filter_map(|p| p.to).collect();
        events.sort_unstable();
        Self { events, next: 0 }
    }

    /// Returns whether addresses ended before an event, since the last call.
    fn advance_to(&mut self, event: u64) -> bool {
        let before = self.next;
        while self.events.get(self.next).is_some_and(|e| *e < event) {
            self.next += 1;
        }
        self.next != before
    }
}

/// Returns the virtual addresses of the work of a submission, each with its use.
fn list_addresses(decoded: &DecodedSubmission) -> Vec<(GpuVa, &'static str)> {
    let mut out = Vec::new();
    for work in &decoded.work {
        match work {
            GpuWork::Launch(launch) => {
                out.push((launch.program, "a launch executes code"));
                out.push((launch.descriptor, "a launch has its descriptor"));
                out.extend(launch.releases.iter().map(|r| (r.va, "a launch releases a semaphore")));
                out.extend(launch.banks.iter().map(|b| (b.va, "a launch has a constant bank")));
            }
            GpuWork::Copy {
                from,
                to,
                from_is_physical,
                to_is_physical,
                ..
            } => {
                let source = from.filter(|_| !from_is_physical);
                out.extend(source.map(|va| (va, "a copy reads")));
                let target = Some(*to).filter(|_| !to_is_physical);
                out.extend(target.map(|va| (va, "a copy writes")));
            }
            GpuWork::Upload { to, .. } => out.push((*to, "an upload writes")),
            GpuWork::Semaphore { waits: true, va, .. } => out.push((*va, "the channel waits for a semaphore")),
            GpuWork::Semaphore { va, .. } => out.push((*va, "a semaphore is released")),
            GpuWork::Order { descriptor, .. } => out.push((*descriptor, "a launch has its descriptor")),
            GpuWork::Unreadable { .. } => {}
        }
    }
    out
}

fn describe_use(
    trace: &DriverTrace,
    submission: &Submission,
    (va, what): (GpuVa, &str),
    nearest: Option<NearestBuffer>,
) -> Finding {
    let place = trace.describe_nearest(va, nearest);
    let message = match nearest {
        Some(NearestBuffer::Freed { .. }) => format!(
            "{what} at {va} in submission {}, after the buffer there lost the address: {place}",
            submission.index
        ),
        _ => format!(
            "{what} at {va} in submission {}, where no buffer is mapped: {place}",
            submission.index
        ),
    };
    let finding = Finding::at_address(FindingKind::UnmappedAddress, va, message).at_event(submission.event);
    Finding {
        place: format!("event {}, {va}", submission.event),
        ..finding
    }
}

/// What a client did with its objects.
#[derive(Default)]
struct ClientUse {
    channels: u64,
    /// Number of channels that exist at the end.
    open_channels: u64,
    /// Number of buffers that a request freed.
    freed_buffers: u64,
    /// Buffers that no request freed, by their index.
    kept_buffers: Vec<usize>,
}

/// Reports buffers that a client did not free, although it freed all its channels and other buffers: it is done.
pub(super) fn check_freed(trace: &DriverTrace, findings: &mut Vec<Finding>) {
    let mut clients: BTreeMap<u32, ClientUse> = BTreeMap::new();
    let objects = trace.objects();
    for (index, object) in objects.iter().enumerate() {
        // The recording must hold the creation.
        let Some(client) = object.client.filter(|_| object.alloc_event.is_some()) else {
            continue;
        };
        let own = clients.entry(client).or_default();
        // A parent that ends at the same event took the object along.
        let parent_end = object.parent.and_then(|p| objects.get(p)?.free_event);
        let is_freed = object.free_event.is_some() && object.free_event != parent_end;
        match object.kind {
            Some(ObjectKind::Channel) => {
                own.channels += 1;
                own.open_channels += u64::from(object.free_event.is_none());
            }
            Some(ObjectKind::Buffer) if is_freed => own.freed_buffers += 1,
            Some(ObjectKind::Buffer) => own.kept_buffers.push(index),
            _ => {}
        }
    }
    let mut found = CappedFindings::new(FindingKind::NotFreed);
    let done = clients
        .iter()
        .filter(|(_, u)| u.channels > 0 && u.open_channels == 0 && u.freed_buffers > 0);
    for (client, kept) in done {
        for index in &kept.kept_buffers {
            let Some((object, event)) = objects.get(*index).and_then(|o| Some((o, o.alloc_event?))) else {
                continue;
            };
            found.add(|| {
                let bytes = object.bytes.map_or_else(String::new, |b| format!(" of {b} bytes"));
                let how = match object.free_event {
                    Some(end) => format!("an object above it took it along at event {end}"),
                    None => "it exists at the end".to_owned(),
                };
                let message = format!(
                    "client {client:#x} freed its channels and {} buffers, and not this buffer{bytes}: {how}",
                    kept.freed_buffers
                );
                let place = format!("event {event}, buffer {}", object.name(*index));
                Finding::new(FindingKind::NotFreed, place, message).at_event(event)
            });
        }
    }
    found.append_to(findings);
}
