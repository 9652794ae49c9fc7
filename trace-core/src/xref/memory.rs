//! References of bytes of memory in a trace of register accesses.

use super::address_registers::{TargetAddress, find_address_registers};
use super::data::XrefData;
use super::host_writes::for_each_host_write;
use super::jobs::find_job_references;
use super::page_table_entry;
use super::reference::{AccessKind, ContentChange, MAX_BYTES, Reference, ReferenceItem};
use crate::PAGE_SIZE;
use crate::memory::{ByteState, GpuMemoryView};
use crate::mmu::{self, TableItem};
use crate::progress::{Cancelled, Progress};
use crate::recording::{PageId, Recording};
use crate::{GpuVa, PhysAddr};
use std::ops::{ControlFlow, Range};

/// Size of a page, bytes.
const PAGE: u64 = PAGE_SIZE as u64;
/// Maximum number of mappings of physical memory whose references are searched.
const MAX_MAPPINGS: usize = 16;
/// Number of items of page tables between two checks for cancellation.
const STEP: u64 = 1 << 12;

/// Finds the references of bytes of an address space. `event` selects the page tables.
pub(super) fn find_references(
    recording: &Recording,
    data: &impl XrefData,
    (space, va, bytes): (u32, GpuVa, u64),
    (event, max): (u64, usize),
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    let bytes = bytes.clamp(1, MAX_BYTES);
    let range = va.get()..va.get().saturating_add(bytes);
    let mut out = Vec::new();
    find_buffers(recording, space, va, &mut out);
    find_page_tables(recording, data, space, va, event, &mut out);
    find_snapshots(recording, space, &range, &mut out);
    let memory = GpuMemoryView::at(recording, space, event);
    let mut pieces: Vec<Range<u64>> = memory.map_or_else(Vec::new, |m| translate_range(&m, &range));
    sort_and_merge(&mut pieces);
    find_host_writes(recording, &pieces, max, progress, &mut out)?;
    progress.set_total(data.accessed_registers().count() as u64 + data.jobs().len() as u64);
    let target = TargetAddress {
        va: Some(va),
        pa: memory.and_then(|m| m.physical_address(va)),
    };
    find_address_registers(recording, data, target, progress, &mut out)?;
    find_job_references(recording, data, (space, range.clone()), progress, &mut out)?;
    find_findings(data, &range, &mut out);
    Ok(out)
}

/// Finds the references of bytes of physical memory: those of the bytes themselves, and those of each address that maps
/// them. `event` selects the page tables.
pub(super) fn find_physical_references(
    recording: &Recording,
    data: &impl XrefData,
    (at, bytes): (PhysAddr, u64),
    (event, max): (u64, usize),
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    let bytes = bytes.clamp(1, MAX_BYTES);
    let range = at.get()..at.get().saturating_add(bytes);
    let mut out = Vec::new();
    find_host_writes(recording, std::slice::from_ref(&range), max, progress, &mut out)?;
    let target = TargetAddress { va: None, pa: Some(at) };
    find_address_registers(recording, data, target, progress, &mut out)?;
    let tables = data.tables_in(at.frame()).into_iter();
    out.extend(tables.map(|t| Reference::new(ReferenceItem::PageTable(t), AccessKind::Resident, None)));
    for (space, mapped) in find_mappings(recording, &range, event, progress)? {
        let va = GpuVa::new(mapped.start);
        let item = ReferenceItem::Mapping { space, va };
        out.push(Reference::new(item, AccessKind::Resident, None));
        find_buffers(recording, space, va, &mut out);
        find_snapshots(recording, space, &mapped, &mut out);
        let target = TargetAddress { va: Some(va), pa: None };
        find_address_registers(recording, data, target, progress, &mut out)?;
        find_job_references(recording, data, (space, mapped), progress, &mut out)?;
    }
    Ok(out)
}

/// Returns the addresses that map physical memory, with the index of their address space, at most [`MAX_MAPPINGS`].
fn find_mappings(
    recording: &Recording,
    range: &Range<u64>,
    event: u64,
    progress: &Progress,
) -> Result<Vec<(u32, Range<u64>)>, Cancelled> {
    let mut out: Vec<(u32, Range<u64>)> = Vec::new();
    let view = recording.memory.at(event);
    for (index, space) in (0u32..).zip(&recording.metadata.address_spaces) {
        let mut passed = 0u64;
        let _ = mmu::visit_all(space.format, space.root, &view, &mut |item| {
            passed += 1;
            if passed.is_multiple_of(STEP) && progress.check().is_err() || out.len() >= MAX_MAPPINGS {
                return ControlFlow::Break(());
            }
            if let TableItem::Leaf(leaf) = item {
                let from = leaf.pa.get().max(range.start);
                let end = leaf.pa.get().saturating_add(leaf.bytes).min(range.end);
                if from < end {
                    let va = leaf.va.get().saturating_add(from - leaf.pa.get());
                    let mapped = va..va.saturating_add(end - from);
                    match out.last_mut() {
                        Some((space, last)) if (*space, last.end) == (index, va) => last.end = mapped.end,
                        _ => out.push((index, mapped)),
                    }
                }
            }
            ControlFlow::Continue(())
        });
        progress.check()?;
    }
    Ok(out)
}

fn find_buffers(recording: &Recording, space: u32, va: GpuVa, out: &mut Vec<Reference>) {
    for (buffer, b) in (0u32..).zip(&recording.metadata.buffers) {
        if b.address_space == space && b.va <= va && va - b.va < b.bytes {
            let item = ReferenceItem::Buffer {
                buffer,
                offset: va - b.va,
            };
            out.push(Reference::new(item, AccessKind::Resident, None));
        }
    }
}

/// Returns the physical ranges of bytes, one per page. Unmapped pages are left out.
fn translate_range(memory: &GpuMemoryView<'_>, range: &Range<u64>) -> Vec<Range<u64>> {
    let (mut out, mut at) = (Vec::new(), range.start);
    while at < range.end {
        let next = (at | (PAGE - 1)).saturating_add(1).min(range.end);
        if let Some(pa) = memory.physical_address(GpuVa::new(at)) {
            out.push(pa.get()..pa.get().saturating_add(next - at));
        }
        at = next;
    }
    out
}

/// Sorts ranges and merges those that overlap or touch.
fn sort_and_merge(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_unstable_by_key(|r| r.start);
    ranges.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
}

/// Adds the CPU writes to some of these bytes of physical memory.
fn find_host_writes(
    recording: &Recording,
    ranges: &[Range<u64>],
    max: usize,
    progress: &Progress,
    out: &mut Vec<Reference>,
) -> Result<(), Cancelled> {
    let end = out.len().saturating_add(max);
    for_each_host_write(recording, ranges, progress, &mut |event, row| {
        let item = ReferenceItem::HostWrite { bytes: row.bytes };
        out.push(Reference::new(item, AccessKind::Write, Some(event)));
        out.len() < end
    })
}

/// Adds the page-table entries that translate an address, other addresses of its memory, and page tables in its page.
fn find_page_tables(
    recording: &Recording,
    data: &impl XrefData,
    space: u32,
    va: GpuVa,
    event: u64,
    out: &mut Vec<Reference>,
) {
    let Some(walk) = page_table_entry::walk(recording, space, va, event) else {
        return;
    };
    let new = |item| Reference::new(item, AccessKind::Resident, None);
    for step in walk.steps {
        out.push(new(ReferenceItem::WalkStep { space, va, step }));
    }
    if let Some(va) = data.other_mapping(space, va) {
        out.push(new(ReferenceItem::Mapping { space, va }));
    }
    let Ok(pa) = walk.result.map(|l| l.target(va)) else {
        return;
    };
    let tables = pa.map(|p| data.tables_in(p.frame())).unwrap_or_default();
    out.extend(tables.into_iter().map(|t| new(ReferenceItem::PageTable(t)).page_only()));
}

/// Adds the references from snapshots: where the recording first holds the bytes, and where they change.
fn find_snapshots(recording: &Recording, space: u32, range: &Range<u64>, out: &mut Vec<Reference>) {
    let pages: Vec<GpuVa> = (range.start & !(PAGE - 1)..range.end)
        .step_by(PAGE_SIZE)
        .map(GpuVa::new)
        .collect();
    // Before the first snapshot, no bytes are known.
    let mut last: (Vec<Option<PageId>>, Vec<Option<u8>>) = (vec![None; pages.len()], Vec::new());
    let end = (recording.events.len() as u64).saturating_sub(1);
    for s in recording.memory.snapshots.iter() {
        let Some(view) = GpuMemoryView::at(recording, space, s.event) else {
            return;
        };
        let page = |va: &GpuVa| {
            let pa = view.physical_address(*va)?;
            view.physical().page_id(pa.frame())
        };
        let now: Vec<Option<PageId>> = pages.iter().map(page).collect();
        if last.0 == now {
            continue;
        }
        let held = read_bytes(&view, range);
        let is_missing = |pages: &[Option<PageId>]| pages.iter().all(Option::is_none);
        let change = match &last {
            _ if is_missing(&now) => ContentChange::NotHeld,
            (before, _) if is_missing(before) => ContentChange::Held,
            (_, before) if *before == held => ContentChange::OtherBytes,
            _ => ContentChange::Differs,
        };
        last = (now, held);
        let item = ReferenceItem::Snapshot(change);
        let event = Some(s.event.min(end));
        out.push(match change {
            ContentChange::OtherBytes => Reference::new(item, AccessKind::AddressOf, event).page_only(),
            _ => Reference::new(item, AccessKind::Write, event),
        });
    }
}

/// Returns the bytes of a range; `None` for each byte without content.
fn read_bytes(view: &GpuMemoryView<'_>, range: &Range<u64>) -> Vec<Option<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let states = view.read_partial(GpuVa::new(range.start), &mut bytes);
    let known = |(b, state): (u8, ByteState)| (state == ByteState::Content).then_some(b);
    bytes.into_iter().zip(states).map(known).collect()
}

/// Adds the findings whose address is on the page of the target.
pub(super) fn find_findings(data: &impl XrefData, range: &Range<u64>, out: &mut Vec<Reference>) {
    for (index, f) in (0u32..).zip(data.findings()) {
        let Some(at) = f.address.filter(|a| a.page() == GpuVa::new(range.start).page()) else {
            continue;
        };
        let reference = Reference::new(ReferenceItem::Finding(index), AccessKind::AddressOf, f.event);
        out.push(match range.contains(&at.get()) {
            true => reference,
            false => reference.page_only(),
        });
    }
}
