//! References of bytes of GPU memory in a driver trace: buffers, saved memory, and the work and methods of submissions.

use super::data::XrefData;
use super::memory::find_findings;
use super::reference::{AccessKind, Reference, ReferenceItem};
use super::submitted_part::SubmittedPart;
use crate::GpuVa;
use crate::driver_trace::{DecodedSubmission, DriverTrace, GpuWork, Submission, SubmittedLaunch};
use crate::families::read_driver_work;
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, ObjectAction, ObjectKind, Recording, SaveReason};
use std::ops::Range;

/// Size of the smallest value of a semaphore, bytes.
const SEMAPHORE_BYTES: u64 = 4;
/// Size of a launch descriptor, bytes.
const DESCRIPTOR_BYTES: u64 = 256;

/// Finds at most `max` references of bytes, in event order. An address of the trace is one of any address space.
pub(super) fn find_references(
    recording: &Recording,
    data: &impl XrefData,
    (va, bytes): (GpuVa, u64),
    max: usize,
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    let Some(work) = read_driver_work(recording, progress)? else {
        return Ok(Vec::new());
    };
    let range = va..va.saturating_add(bytes.max(1));
    let mut out = Vec::new();
    find_buffers(work.trace(), &range, &mut out);
    find_saved_memory(recording, &range, &mut out);
    for (submission, decoded) in work.submissions() {
        progress.check()?;
        find_work(work.trace(), (submission, decoded), &range, &mut out);
        if out.len() >= max {
            break;
        }
    }
    find_findings(data, &GpuVa::get_range(&range), &mut out);
    Ok(out)
}

/// Whether some of `bytes` bytes at an address are in a range.
fn overlaps(range: &Range<GpuVa>, va: GpuVa, bytes: u64) -> bool {
    va < range.end && range.start < va.saturating_add(bytes.max(1))
}

/// Adds the life time of the buffers that contain the target: created, mapped, unmapped, freed.
fn find_buffers(trace: &DriverTrace, range: &Range<GpuVa>, out: &mut Vec<Reference>) {
    let mut listed = vec![false; trace.objects().len()];
    for placed in trace.placed_buffers().filter(|p| overlaps(range, p.va, p.bytes)) {
        let Some(object) = trace.objects().get(placed.object) else {
            continue;
        };
        let within = range.start.offset_from(placed.va).unwrap_or(0);
        let item = |action| ReferenceItem::DriverBuffer {
            action,
            object: u32::try_from(placed.object).unwrap_or(u32::MAX),
            handle: object.handle,
            va: placed.va,
            bytes: placed.bytes,
            offset: placed.offset.saturating_add(within),
        };
        let is_mapping = trace.has_mapping(placed.object);
        let mut add = |action, event| out.push(Reference::new(item(action), AccessKind::Resident, event));
        if is_mapping {
            add(ObjectAction::Map, placed.from);
            if placed.to.is_some() && placed.to != object.free_event {
                add(ObjectAction::Unmap, placed.to);
            }
        }
        let is_listed = listed.get_mut(placed.object).is_none_or(|l| std::mem::replace(l, true));
        if !is_listed {
            if object.alloc_event.is_some() || !is_mapping {
                add(ObjectAction::Create, object.alloc_event);
            }
            if object.free_event.is_some() {
                add(ObjectAction::Free, object.free_event);
            }
        }
    }
}

/// Adds the memory that the recorder saved.
fn find_saved_memory(recording: &Recording, range: &Range<GpuVa>, out: &mut Vec<Reference>) {
    let events = &recording.events;
    if events.saved_memory.is_empty() {
        return;
    }
    for (event, kind) in events.kind.iter().enumerate() {
        if kind != EventKind::SavedMemory as u8 {
            continue;
        }
        let row = events
            .payload
            .get(event)
            .and_then(|p| events.saved_memory.get(p as usize));
        if let Some(row) = row.filter(|row| overlaps(range, row.va, row.bytes)) {
            let item = ReferenceItem::SavedMemory {
                va: row.va,
                bytes: row.bytes,
                reason: SaveReason::from_raw(row.reason),
            };
            out.push(Reference::new(item, AccessKind::Resident, Some(event as u64)));
        }
    }
}

/// Adds the references of a submission: its commands, its work, and the methods with addresses that are not of work.
fn find_work(
    trace: &DriverTrace,
    (submission, decoded): (&Submission, &DecodedSubmission),
    range: &Range<GpuVa>,
    out: &mut Vec<Reference>,
) {
    let first = out.len();
    let mut add = |word, part, access| {
        let item = ReferenceItem::Submitted {
            submission: submission.index,
            word,
            part,
        };
        out.push(Reference::new(item, access, Some(submission.event)));
    };
    let (va, bytes) = (submission.va, submission.bytes);
    if bytes > 0 && overlaps(range, va, bytes) {
        add(0, SubmittedPart::Commands { va, bytes }, AccessKind::Read);
    }
    for work in &decoded.work {
        let word = work.word();
        match *work {
            GpuWork::Copy {
                from,
                to,
                bytes,
                from_is_physical,
                to_is_physical,
                ..
            } => {
                let source = from.filter(|_| !from_is_physical);
                if let Some(from) = source.filter(|from| overlaps(range, *from, bytes)) {
                    add(word, SubmittedPart::CopySource { from, to, bytes }, AccessKind::Read);
                }
                if !to_is_physical && overlaps(range, to, bytes) {
                    let part = match from {
                        Some(from) => SubmittedPart::CopyDestination { from, to, bytes },
                        None => SubmittedPart::Fill { to, bytes },
                    };
                    add(word, part, AccessKind::Write);
                }
            }
            GpuWork::Upload { to, bytes, .. } => {
                if overlaps(range, to, bytes) {
                    add(word, SubmittedPart::Upload { to, bytes }, AccessKind::Write);
                }
            }
            GpuWork::Semaphore { waits, va, payload, .. } => {
                if overlaps(range, va, SEMAPHORE_BYTES) {
                    match waits {
                        true => add(word, SubmittedPart::Acquire { va, payload }, AccessKind::Read),
                        false => add(word, SubmittedPart::Release { va, payload }, AccessKind::Write),
                    }
                }
            }
            GpuWork::Order { descriptor, .. } => {
                if overlaps(range, descriptor, DESCRIPTOR_BYTES) {
                    add(word, SubmittedPart::Descriptor(descriptor), AccessKind::Read);
                }
            }
            GpuWork::Launch(ref launch) => find_launch(trace, submission.event, launch, range, &mut add),
            GpuWork::Unreadable { .. } => {}
        }
    }
    let named: Vec<GpuVa> = out
        .get(first..)
        .unwrap_or_default()
        .iter()
        .filter_map(part_va)
        .collect();
    let words = decoded.address_words.iter().filter(|a| range.contains(&a.va));
    for a in words.filter(|a| !named.contains(&a.va)) {
        let part = SubmittedPart::Method {
            class: a.class,
            method: a.method,
            name: a.name,
            va: a.va,
        };
        let item = ReferenceItem::Submitted {
            submission: submission.index,
            word: a.word,
            part,
        };
        out.push(Reference::new(item, AccessKind::AddressOf, Some(submission.event)));
    }
}

/// Returns the address that the part of a submission names.
fn part_va(reference: &Reference) -> Option<GpuVa> {
    match reference.item {
        ReferenceItem::Submitted { part, .. } => Some(part.va()),
        _ => None,
    }
}

/// Adds the references of a launch. Of its parameters that point before the target into the same buffer, the nearest one
/// counts: a driver may place several arrays in a buffer.
fn find_launch(
    trace: &DriverTrace,
    event: u64,
    launch: &SubmittedLaunch,
    range: &Range<GpuVa>,
    add: &mut impl FnMut(u32, SubmittedPart, AccessKind),
) {
    let word = launch.word;
    if range.contains(&launch.program) {
        add(word, SubmittedPart::Program(launch.program), AccessKind::Execute);
    }
    if overlaps(range, launch.descriptor, DESCRIPTOR_BYTES) {
        add(word, SubmittedPart::Descriptor(launch.descriptor), AccessKind::Read);
    }
    for bank in launch.banks.iter().filter(|b| overlaps(range, b.va, b.bytes)) {
        let part = SubmittedPart::ConstantBank {
            index: bank.index,
            va: bank.va,
        };
        add(word, part, AccessKind::Read);
    }
    for release in launch
        .releases
        .iter()
        .filter(|r| overlaps(range, r.va, SEMAPHORE_BYTES))
    {
        let part = SubmittedPart::Release {
            va: release.va,
            payload: release.payload,
        };
        add(word, part, AccessKind::Write);
    }
    let pointers = launch.parameters.iter().filter(|p| p.buffer.is_some());
    let pointers = pointers.map(|p| (p.offset, GpuVa::new(p.value), p.buffer.map(|(object, _)| object)));
    let mut before: Option<(u32, GpuVa)> = None;
    let mut is_exact = false;
    let target = trace.find_buffer(range.start, event).map(|(object, _)| object);
    for (offset, pointer, object) in pointers {
        if range.contains(&pointer) {
            is_exact = true;
            add(
                word,
                SubmittedPart::Parameter { offset, pointer },
                AccessKind::ReadOrWrite,
            );
        } else if pointer < range.start && object == target && before.is_none_or(|(_, p)| p < pointer) {
            before = Some((offset, pointer));
        }
    }
    if let Some((offset, pointer)) = before.filter(|_| !is_exact) {
        add(
            word,
            SubmittedPart::Parameter { offset, pointer },
            AccessKind::ReadOrWrite,
        );
    }
}

/// Returns the buffers of a driver trace with a handle, or the one with a number: address and size of the last range of
/// addresses of each.
pub(super) fn find_buffer(trace: &DriverTrace, name: BufferName) -> Option<(GpuVa, u64)> {
    let is_it = |object: usize| match name {
        BufferName::Number(n) => n == object,
        BufferName::Handle(handle) => trace.objects().get(object).is_some_and(|o| o.handle == Some(handle)),
    };
    let is_buffer = |object: usize| {
        let kind = trace.objects().get(object).and_then(|o| o.kind);
        kind == Some(ObjectKind::Buffer)
    };
    let placed = trace
        .placed_buffers()
        .filter(|p| is_it(p.object) && is_buffer(p.object));
    placed.last().map(|p| (p.va, p.bytes))
}

/// The name of a buffer of a driver trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BufferName {
    /// Its handle.
    Handle(u32),
    /// Its index in the objects of the trace.
    Number(usize),
}
