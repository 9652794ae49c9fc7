//! References of a page-table entry: snapshots, CPU writes, commands to its address space, and jobs that access
//! addresses that it translates.

use super::data::{XrefData, XrefJob};
use super::host_writes::for_each_host_write;
use super::pointers::find_pointers;
use super::reference::{AccessKind, EntryReason, EntryValue, EntryWriter, Reference, ReferenceItem};
use crate::families::{TableCommand, find_family_with};
use crate::memory::GpuMemoryView;
use crate::mmu::{self, Walk, WalkStep, root_from_register};
use crate::progress::{Cancelled, Progress};
use crate::recording::{AddressSpace, Buffer, HostWriteRow, MmuFormat, PageId, Recording};
use crate::registers::history::value_at;
use crate::registers::{Half, RecordedRegisters, Register, Role};
use crate::{GpuVa, PhysAddr};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Maximum number of physical addresses of one entry that are searched. Its table may be at another address in every
/// snapshot.
const MAX_ADDRESSES: usize = 64;
/// Maximum size of an entry that is read, bytes.
const ENTRY_BYTES: u64 = 8;

/// Walks an address as memory held its page tables before an event.
pub(super) fn walk(recording: &Recording, space: u32, va: GpuVa, event: u64) -> Option<Walk> {
    let s = recording.metadata.address_spaces.get(space as usize)?;
    Some(mmu::walk(s.format, s.root, va, &recording.memory.at(event)))
}

/// Returns the entry of a level on the walk of an address, as memory held it before an event. Returns `None` if the
/// walk ends at a higher level.
#[must_use]
pub fn read_entry(recording: &Recording, space: u32, va: GpuVa, level: u8, event: u64) -> Option<WalkStep> {
    let walk = walk(recording, space, va, event)?;
    // Two tables of one level are on the way if the first maps nothing.
    walk.steps.into_iter().rfind(|s| s.level == level)
}

/// Returns the level of the last entry on the walk of an address.
#[must_use]
pub fn last_level(recording: &Recording, space: u32, va: GpuVa, event: u64) -> Option<u8> {
    Some(walk(recording, space, va, event)?.steps.last()?.level)
}

/// Returns the addresses that the entry of a level translates, one of which is `va`.
#[must_use]
pub fn entry_span(format: MmuFormat, va: GpuVa, level: u8) -> Range<GpuVa> {
    let bytes = format.description().level_span_bytes(level);
    let first = va.get() & !(bytes - 1);
    GpuVa::new(first)..GpuVa::new(first.saturating_add(bytes))
}

/// Finds what wrote an entry and what may have read it. Takes time proportional to the number of snapshots, jobs and
/// events.
pub(super) fn find_references(
    recording: &Recording,
    data: &impl XrefData,
    (space, va, level): (u32, GpuVa, u8),
    max: usize,
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    let Some(address_space) = recording.metadata.address_spaces.get(space as usize) else {
        return Ok(Vec::new());
    };
    let level = level.min(address_space.format.description().levels().saturating_sub(1));
    let query = EntryQuery {
        recording,
        data,
        space,
        va,
        level,
        address_space,
        device: RecordedRegisters::new(recording),
        span: entry_span(address_space.format, va, level),
        entry_bytes: entry_bytes(address_space.format, level),
        max,
    };
    progress.set_total(recording.memory.snapshots.len() as u64 + data.jobs().len() as u64);
    let (states, addresses) = query.read_states(progress)?;
    let mut out = query.find_cpu_writes(&addresses, progress)?;
    let written: Vec<u64> = out.iter().filter_map(|r| r.event).collect();
    query.find_snapshots(&states, &written, &mut out);
    query.find_commands(&mut out);
    query.find_jobs(progress, &mut out)?;
    Ok(out)
}

/// Returns the size of the entries of a level, or of their parts, bytes.
fn entry_bytes(format: MmuFormat, level: u8) -> u64 {
    let tables = format.description().tables_at(level);
    let parts = tables.flat_map(|(_, table)| table.parts()).map(|part| part.bytes());
    parts.min().unwrap_or(ENTRY_BYTES).min(ENTRY_BYTES)
}

/// The parameters of a search for the references of an entry.
struct EntryQuery<'a, D> {
    recording: &'a Recording,
    data: &'a D,
    space: u32,
    va: GpuVa,
    level: u8,
    address_space: &'a AddressSpace,
    device: Option<RecordedRegisters>,
    span: Range<GpuVa>,
    /// Size of the entry or the part of it that is read, bytes.
    entry_bytes: u64,
    max: usize,
}

/// A state of an entry: index of the first snapshot with it, and the entry.
struct EntryState {
    snapshot: usize,
    entry: Option<EntryValue>,
}

impl<D: XrefData> EntryQuery<'_, D> {
    /// Returns the states of the entry, each with its first snapshot, and all addresses of the entry.
    fn read_states(&self, progress: &Progress) -> Result<(Vec<EntryState>, BTreeSet<u64>), Cancelled> {
        let (mut out, mut addresses): (Vec<EntryState>, BTreeSet<u64>) = Default::default();
        for (snapshot, s) in self.recording.memory.snapshots.iter().enumerate() {
            let step = read_entry(self.recording, self.space, self.va, self.level, s.event);
            let entry = step.map(|s| EntryValue {
                at: s.entry_at,
                raw: s.raw,
            });
            if let Some(e) = entry
                && addresses.len() < MAX_ADDRESSES
            {
                addresses.insert(e.at.get());
            }
            if out.last().is_none_or(|l| l.entry != entry) {
                out.push(EntryState { snapshot, entry });
            }
            progress.advance(1)?;
        }
        Ok((out, addresses))
    }

    /// Returns the CPU writes to the current and former addresses of the entry.
    fn find_cpu_writes(&self, addresses: &BTreeSet<u64>, progress: &Progress) -> Result<Vec<Reference>, Cancelled> {
        let mut out = Vec::new();
        let bytes = self.entry_bytes;
        let ranges: Vec<Range<u64>> = addresses.iter().map(|a| *a..a.saturating_add(bytes)).collect();
        for_each_host_write(self.recording, &ranges, progress, &mut |event, row| {
            let end = row.at.saturating_add(u64::from(row.bytes));
            let first = ranges.partition_point(|r| r.end <= row.at.get());
            let hit = ranges.iter().skip(first).take_while(|r| r.start < end.get());
            for range in hit {
                let raw = (row.at <= PhysAddr::new(range.start) && range.end <= end.get())
                    .then(|| self.written_entry(&row, range.start));
                let item = ReferenceItem::EntryWrite { raw: raw.flatten() };
                out.push(Reference::new(item, AccessKind::Write, Some(event)));
            }
            out.len() < self.max
        })?;
        Ok(out)
    }

    /// Returns the entry at a physical address after a CPU write.
    fn written_entry(&self, row: &HostWriteRow, at: u64) -> Option<u64> {
        let page = self.recording.memory.pages.page(PageId(row.page))?;
        let from = PhysAddr::new(at).in_page();
        let mut raw = [0; ENTRY_BYTES as usize];
        let bytes = usize::try_from(self.entry_bytes).ok()?;
        raw.get_mut(..bytes)?.copy_from_slice(page.get(from..from + bytes)?);
        Some(u64::from_le_bytes(raw))
    }

    /// Adds the references from snapshots. If CPU writes are recorded between two snapshots, they are the writers, and
    /// the snapshot only shows the result.
    fn find_snapshots(&self, states: &[EntryState], written: &[u64], out: &mut Vec<Reference>) {
        let snapshots = &self.recording.memory.snapshots;
        let event = |n: usize| snapshots.get(n).map_or(0, |s| s.event);
        let last = (self.recording.events.len() as u64).saturating_sub(1);
        for (n, state) in states.iter().enumerate() {
            let to = event(state.snapshot);
            let Some(before) = n.checked_sub(1).and_then(|n| states.get(n)) else {
                let item = ReferenceItem::FirstEntry(state.entry);
                out.push(Reference::new(item, AccessKind::Write, Some(to.min(last))));
                continue;
            };
            let from = event(state.snapshot.saturating_sub(1));
            let is_recorded = written.iter().any(|e| (from..to.max(from + 1)).contains(e));
            let (writer, access) = match is_recorded {
                true => (EntryWriter::Cpu, AccessKind::AddressOf),
                false => (EntryWriter::Between(from, to), AccessKind::Write),
            };
            let item = ReferenceItem::EntryChange {
                before: before.entry,
                after: state.entry,
                writer,
            };
            out.push(Reference::new(item, access, Some(to.min(last))));
        }
    }

    /// Returns the value of a register pair at an event, or `None` if nothing accessed it yet.
    fn wide_at(&self, low: &Register, event: u64) -> Option<u64> {
        let Some(Half::Low { high_offset }) = low.pair else {
            return None;
        };
        let held = |offset| {
            let accesses = self.data.accesses(offset)?;
            value_at(self.recording, self.device, offset, accesses, event).map(|h| h.value)
        };
        let high = held(high_offset).unwrap_or(0);
        Some(high << 32 | held(low.offset)? & 0xffff_ffff)
    }

    /// Adds the commands to the address space. After an update, walks start at its root; after a flush, walks read the
    /// tables again.
    fn find_commands(&self, out: &mut Vec<Reference>) {
        let Some(map) = self.device.map(RecordedRegisters::map) else {
            return;
        };
        let registers: Vec<&Register> = self
            .data
            .accessed_registers()
            .filter_map(|offset| map.at(offset))
            .filter(|r| r.index == Some(self.address_space.number))
            .collect();
        let of = |role: Role| {
            let low = |r: &&&Register| r.replay.role == Some(role) && !matches!(r.pair, Some(Half::High { .. }));
            registers.iter().find(low).copied()
        };
        let family = find_family_with(self.recording, Some(map));
        let Some(command) = of(Role::AsCommand) else { return };
        let (root, lock) = (of(Role::Root), of(Role::LockAddr));
        let Some(accesses) = self.data.accesses(command.offset) else {
            return;
        };
        for event in accesses.writes().iter().take(self.max) {
            let access = usize::try_from(event)
                .ok()
                .and_then(|e| self.recording.events.access(e));
            let Some(value) = access.map(|a| a.value) else { continue };
            // The address space number may serve several roots in turn. Only commands under this root count.
            let set = root.and_then(|r| self.wide_at(r, event));
            if set.is_some_and(|v| root_from_register(self.address_space.format, v) != self.address_space.root) {
                continue;
            }
            let covers = lock.and_then(|r| self.covers(r, event));
            let Some(kind) = family.table_command(value) else {
                continue;
            };
            let is_ranged = matches!(
                kind,
                TableCommand::Lock | TableCommand::FlushTables | TableCommand::FlushMemory
            );
            if is_ranged && covers == Some(false) {
                continue;
            }
            let item = ReferenceItem::TableCommand {
                register: command.offset,
                command: kind,
                has_range: covers.is_some(),
            };
            out.push(Reference::new(item, AccessKind::AddressOf, Some(event)));
        }
    }

    /// Whether the range of the next lock or flush covers an address of the entry; `None` if it is not known.
    fn covers(&self, lock: &Register, event: u64) -> Option<bool> {
        let layout = lock.wide.as_ref()?;
        let decoded = layout.decode(self.wide_at(lock, event)?);
        let size = 1u64.checked_shl(decoded.text("size_log2")?.parse().ok()?)?;
        let base = GpuVa::new(decoded.value("base")? << 12);
        Some(base < self.span.end && self.span.start < base.saturating_add(size))
    }

    /// Adds the jobs of the address space that access an address that the entry translates, as far as recorded.
    fn find_jobs(&self, progress: &Progress, out: &mut Vec<Reference>) -> Result<(), Cancelled> {
        let snapshots = &self.recording.memory.snapshots;
        // Jobs that run the same chain share it.
        let mut known: HashMap<(usize, usize), Option<EntryReason>> = HashMap::new();
        let (mut all, mut reported) = (0u64, 0u64);
        for j in self.data.jobs() {
            progress.advance(1)?;
            if j.space() != Some(self.space) {
                continue;
            }
            all += 1;
            let snapshot = snapshots.partition_point(|s| s.event <= j.submit());
            let reason = known.entry((j.chain_id(), snapshot)).or_insert_with(|| self.reason(j));
            let Some(reason) = *reason else { continue };
            reported += 1;
            let step = read_entry(self.recording, self.space, self.va, self.level, j.submit());
            let item = ReferenceItem::EntryJob {
                job: j.index(),
                reason,
                raw: step.map(|s| s.raw),
            };
            out.push(Reference::new(item, AccessKind::Read, Some(j.submit())));
        }
        if all > reported {
            let item = ReferenceItem::OtherJobs {
                jobs: all - reported,
                has_known: reported > 0,
            };
            out.push(Reference::new(item, AccessKind::Resident, None));
        }
        Ok(())
    }

    /// Returns why a job accesses an address that the entry translates, if it does.
    fn reason(&self, job: &D::Job) -> Option<EntryReason> {
        let memory = GpuMemoryView::at(self.recording, self.space, job.submit())?;
        let is_inside = |va: &GpuVa| self.span.contains(va);
        for d in job.descriptors() {
            if is_inside(&d.va) {
                return Some(EntryReason::Header(d.va));
            }
            if let Some(shader) = d.shader.filter(is_inside) {
                return Some(EntryReason::Shader(shader));
            }
        }
        let mut pointers = Vec::new();
        for d in job.descriptors() {
            pointers.clear();
            find_pointers(&memory, d.va, &mut pointers);
            // Pointers in descriptors have sizes and flags in their lowest bits; 0 is no pointer.
            let mut named = pointers.iter().map(|p| p.align_down(64)).filter(|p| p.get() != 0);
            if let Some(p) = named.clone().find(is_inside) {
                return Some(EntryReason::Pointer(p));
            }
            let found = named.find_map(|pointer| {
                let buffer = self.reaching_buffer(pointer)?;
                Some(EntryReason::Buffer { pointer, buffer })
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns the smallest buffer around an address, if the entry translates some of its bytes.
    fn reaching_buffer(&self, pointer: GpuVa) -> Option<u32> {
        let holds = |b: &Buffer| pointer.offset_from(b.va).is_some_and(|by| by < b.bytes);
        let all = (0u32..).zip(&self.recording.metadata.buffers);
        let around = all.filter(|(_, b)| b.address_space == self.space && holds(b));
        let (index, b) = around.min_by_key(|(_, b)| b.bytes)?;
        let overlaps = b.va < self.span.end && self.span.start < b.va.saturating_add(b.bytes);
        overlaps.then_some(index)
    }
}
