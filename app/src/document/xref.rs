//! Cross references of a memory byte: register writes with its address, jobs with headers, descriptors or shaders there
//! or pointers to it, page table entries, snapshots, buffers, findings.

use super::api_trace;
use super::derived_data::DerivedData;
use super::history::Selection;
use super::jobs::JobFact;
use super::lookup;
use super::page_table_marks::{Mark, describe_entry_kind};
use super::page_usage;
use crate::theme::text;
use std::ops::Range;
use trace_core::GpuVa;
use trace_core::filter::Query;
use trace_core::memory::GpuMemoryView;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{BufferRole, HostWriteRow, PageId, Recording};
use trace_core::registers::{FieldKind, Half, Register, Role};

/// The known kind of access to a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// The byte is written: by the host, by a job whose result contains it, or its content differs from this event on.
    Write,
    /// A job reads the byte.
    Read,
    /// A job can access the byte; read or write is not known.
    ReadOrWrite,
    /// The item holds or names the address of the byte.
    AddressOf,
    /// The item contains the byte.
    Resident,
}

impl AccessKind {
    /// Whether the byte may have another value afterwards.
    #[must_use]
    pub fn may_write(self) -> bool {
        matches!(self, Self::Write | Self::ReadOrWrite)
    }

    /// Whether the access may depend on the value of the byte.
    #[must_use]
    pub fn may_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadOrWrite)
    }
}

/// A reference to a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xref {
    /// Kind of item: `register`, `job`, `CPU write`, `page table`, `snapshot`, `buffer`, `finding`.
    pub kind: &'static str,
    /// Description of the reference.
    pub description: String,
    /// Event of the reference, if it has one.
    pub event: Option<u64>,
    /// Kind of access to the byte.
    pub access: AccessKind,
    /// Selection that shows the reference.
    pub go: Selection,
    /// Whether it refers to the page of the byte, not to the byte itself.
    pub page: bool,
}

/// Maximum number of references returned.
pub const MAX_XREFS: usize = 10_000;
/// Maximum number of bytes that are searched together. For a larger range only the first byte is searched.
pub const MAX_BYTES: u64 = 4096;
/// Number of bytes of a descriptor, and of its pointer targets, that are scanned for addresses.
const DESCRIPTOR: usize = 256;
const BEHIND: usize = 1024;

/// Finds the references of `bytes` bytes at `va`, at most [`MAX_BYTES`]. Takes time proportional to the number of
/// events and jobs of the recording.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn find_xrefs(
    recording: &Recording,
    derived: &DerivedData,
    (space, va, bytes): (u32, u64, u64),
    event: u64,
    progress: &Progress,
) -> Result<Vec<Xref>, Cancelled> {
    let bytes = bytes.clamp(1, MAX_BYTES);
    if let Some(api_trace) = &derived.api_trace {
        return api_trace::find_xrefs(recording, api_trace, va, event, progress);
    }
    let mut out = Vec::new();
    buffers(recording, space, va, &mut out);
    tables(recording, derived, space, va, event, &mut out);
    snapshots(recording, space, va, bytes, &mut out);
    let physical = lookup::memory_at(recording, space, event)
        .and_then(|m| m.physical_address(GpuVa(va)))
        .map(|p| p.0);
    for piece in pieces(recording, space, va, bytes, event) {
        host_writes(recording, piece, progress, &mut out)?;
    }
    progress.set_total(derived.registers.len() as u64 + derived.jobs.len() as u64);
    for offset in derived.registers.keys() {
        if let Some(r) = lookup::find_register(recording, *offset) {
            register(recording, derived, r, va, physical, &mut out);
        }
        progress.advance(1)?;
    }
    for j in &derived.jobs {
        job(recording, j, space, va..va.saturating_add(bytes), &mut out);
        progress.advance(1)?;
    }
    for (i, f) in derived.findings.iter().enumerate() {
        let place = text::parse_number(&f.place).filter(|_| f.place.starts_with("0x"));
        if let Some(place) = place.filter(|p| p >> 12 == va >> 12) {
            out.push(Xref {
                page: !(va..va.saturating_add(bytes)).contains(&place),
                kind: "finding",
                access: AccessKind::AddressOf,
                description: f.message.clone(),
                event: f.event,
                go: Selection::Finding(i as u32),
            });
        }
    }
    // References with events come first, in order; references without events follow. References to only the page come
    // last.
    out.sort_by_key(|t| (t.page, t.event.unwrap_or(u64::MAX)));
    out.truncate(MAX_XREFS);
    Ok(out)
}

fn buffers(recording: &Recording, space: u32, va: u64, out: &mut Vec<Xref>) {
    for b in &recording.metadata.buffers {
        if b.address_space == space && b.va.0 <= va && va - b.va.0 < b.bytes {
            out.push(Xref {
                page: false,
                kind: "buffer",
                access: AccessKind::Resident,
                description: format!("{} {} + {:#x}", b.role.name(), b.name, va - b.va.0),
                event: None,
                go: Selection::Buffer(b.name.clone()),
            });
        }
    }
}

/// Returns the physical ranges of bytes, one per page. Unmapped pages are left out.
fn pieces(recording: &Recording, space: u32, va: u64, bytes: u64, event: u64) -> Vec<Range<u64>> {
    let Some(memory) = lookup::memory_at(recording, space, event) else {
        return Vec::new();
    };
    let (mut out, mut at, end) = (Vec::new(), va, va.saturating_add(bytes));
    while at < end {
        let next = (at | 4095).saturating_add(1).min(end);
        if let Some(pa) = memory.physical_address(GpuVa(at)) {
            out.push(pa.0..pa.0.saturating_add(next - at));
        }
        at = next;
    }
    out
}

/// Calls `report` for each host write to some of these bytes of one physical page, in order, until it returns `false`.
pub(super) fn for_each_host_write(
    recording: &Recording,
    range: Range<u64>,
    progress: &Progress,
    report: &mut dyn FnMut(u64, HostWriteRow) -> bool,
) -> Result<(), Cancelled> {
    if recording.events.host_writes.is_empty() || range.is_empty() {
        return Ok(());
    }
    // A write is never longer than a page and never crosses one.
    let (from, end) = (range.start & !4095, range.end);
    let text = format!("host-write and address >= {from:#x} and address < {end:#x}");
    let query = Query::parse(&text).and_then(|q| q.compile(recording, None));
    let Ok(filter) = query else { return Ok(()) };
    for event in filter.select(&recording.events, progress)?.iter() {
        let row = usize::try_from(event).ok().and_then(|e| recording.events.host_write(e));
        let covers = |r: &HostWriteRow| r.at.saturating_add(u64::from(r.bytes)) > range.start;
        if let Some(row) = row.filter(covers)
            && !report(event, row)
        {
            break;
        }
    }
    Ok(())
}

/// Adds the host writes to some of these bytes of one physical page.
fn host_writes(
    recording: &Recording,
    range: Range<u64>,
    progress: &Progress,
    out: &mut Vec<Xref>,
) -> Result<(), Cancelled> {
    for_each_host_write(recording, range, progress, &mut |event, row| {
        out.push(Xref {
            page: false,
            kind: "CPU write",
            access: AccessKind::Write,
            description: format!(
                "the CPU wrote {}",
                text::count_noun(u64::from(row.bytes), "byte", "bytes")
            ),
            event: Some(event),
            go: Selection::Event,
        });
        out.len() < MAX_XREFS
    })
}

fn tables(recording: &Recording, derived: &DerivedData, space: u32, va: u64, event: u64, out: &mut Vec<Xref>) {
    let memory = |va: u64, bytes: u64| Selection::Memory { space, va, bytes };
    let Some(walk) = lookup::walk(recording, space, va, event) else {
        return;
    };
    for s in &walk.steps {
        let (word, to) = describe_entry_kind(s.kind);
        out.push(Xref {
            page: false,
            kind: "page table",
            access: AccessKind::Resident,
            description: format!("level {} entry {} at {}: {word} {to}", s.level, s.index, s.entry_at),
            event: None,
            go: memory(va & !4095, 4096),
        });
    }
    let marks = derived.spaces.get(space as usize).map(|s| &s.marks);
    if let Some(other) = marks.and_then(|m| m.find_span(Mark::MappedTwice, va, va.saturating_add(1))) {
        let alias = other.other.map(|o| o.saturating_add(va - other.va));
        if let Some(o) = alias {
            out.push(Xref {
                page: false,
                kind: "page table",
                access: AccessKind::Resident,
                description: format!("the same memory is mapped at {o:#x} too"),
                event: None,
                go: memory(o, 1),
            });
        }
    }
    let Ok(pa) = walk.result.map(|l| l.target(GpuVa(va))) else {
        return;
    };
    for (i, s) in derived.spaces.iter().enumerate() {
        for t in pa.map(|p| s.marks.tables_in(p.frame())).unwrap_or_default() {
            out.push(Xref {
                page: true,
                kind: "page table",
                access: AccessKind::Resident,
                description: format!(
                    "this page is the level {} table of AS {} for {:#x}",
                    t.level, s.number, t.va
                ),
                event: None,
                go: Selection::Memory {
                    space: i as u32,
                    va: t.va,
                    bytes: 4096,
                },
            });
        }
    }
}

/// Adds the references from snapshots: where the recording first holds the bytes, and where they change.
fn snapshots(recording: &Recording, space: u32, va: u64, bytes: u64, out: &mut Vec<Xref>) {
    let pages = [va, va.saturating_add(bytes - 1)];
    // Before the first snapshot, no bytes are known.
    let mut last: ([Option<PageId>; 2], Vec<Option<u8>>) = ([None; 2], Vec::new());
    let end = (recording.events.len() as u64).saturating_sub(1);
    for s in recording.memory.snapshots.iter() {
        let Some(view) = lookup::memory_at(recording, space, s.event) else {
            return;
        };
        let page = |va: u64| {
            let pa = view.physical_address(GpuVa(va))?;
            view.physical().page_id(pa.frame())
        };
        let now = pages.map(page);
        if last.0 == now {
            continue;
        }
        let read = lookup::read(recording, space, va, s.event, bytes as usize);
        let held: Vec<Option<u8>> = read.into_iter().map(Result::ok).collect();
        let (what, deed) = match (&last.0, &last.1) {
            _ if now == [None; 2] => ("from this snapshot on, no snapshot holds the page", AccessKind::Write),
            (before, _) if *before == [None; 2] => ("from this snapshot on, the page is held", AccessKind::Write),
            (_, before) if *before == held => (
                "other bytes of the page changed before this snapshot; these bytes did not",
                AccessKind::AddressOf,
            ),
            _ => ("the bytes differ from this snapshot on", AccessKind::Write),
        };
        last = (now, held);
        out.push(Xref {
            page: deed == AccessKind::AddressOf,
            kind: "snapshot",
            access: deed,
            description: what.into(),
            event: Some(s.event.min(end)),
            go: Selection::Memory { space, va, bytes },
        });
    }
}

/// Returns whether a register holds an address of GPU memory: `true` for physical, `false` for virtual.
fn is_address_register(r: &Register) -> Option<bool> {
    let physical = match r.replay.role? {
        Role::Root | Role::GpuFaultAddress => true,
        Role::JobHead | Role::JobCurrent | Role::JobTail | Role::FaultAddress | Role::LockAddr | Role::PerfBase => {
            false
        }
        _ => return None,
    };
    let layout = r.wide.as_ref()?;
    let addresses = layout
        .fields
        .iter()
        .any(|f| matches!(f.kind, FieldKind::Address { .. }));
    addresses.then_some(physical)
}

fn register(recording: &Recording, derived: &DerivedData, r: &Register, va: u64, pa: Option<u64>, out: &mut Vec<Xref>) {
    let Some(Half::Low { high_offset }) = r.pair else {
        return;
    };
    let Some(physical) = is_address_register(r) else { return };
    let Some(target) = (if physical { pa } else { Some(va) }) else {
        return;
    };
    let of = |offset: u32, high: bool| {
        let accesses = derived.registers.get(&offset).map(|f| f.accesses.all().iter());
        accesses.into_iter().flatten().map(move |e| (e, high))
    };
    // Both halves in event order.
    let mut events: Vec<(u64, bool)> = of(r.offset, false).chain(of(high_offset, true)).collect();
    events.sort_unstable();
    let (mut low, mut high) = (0, 0);
    let mut reported: Option<u64> = None;
    for (e, is_high) in events {
        let Some(a) = recording.events.access(e as usize) else {
            continue;
        };
        let half = match r.pair {
            // The access covers both halves.
            Some(Half::Low { .. }) if a.width == 8 && is_high => a.value >> 32,
            _ => a.value & 0xffff_ffff,
        };
        if is_high {
            high = half;
        } else {
            low = half;
        }
        let value = high << 32 | low;
        let Some((what, page)) = match_address(r, value, target) else {
            reported = None;
            continue;
        };
        // The two halves of one value are one reference.
        if reported.replace(value) == Some(value) && is_high {
            continue;
        }
        let name = r.name.strip_suffix("_LO").unwrap_or(&r.name);
        let verb = if a.write { "set to" } else { "read as" };
        out.push(Xref {
            page,
            kind: "register",
            access: AccessKind::AddressOf,
            description: format!("{name} {verb} {value:#x}{what}"),
            event: Some(e),
            go: Selection::Register(a.offset),
        });
    }
}

/// Returns how the value of a register refers to the byte, and whether it refers only to the page.
fn match_address(r: &Register, value: u64, target: u64) -> Option<(&'static str, bool)> {
    if value == 0 {
        return None;
    }
    match r.replay.role {
        Some(Role::LockAddr) => {
            let layout = r.wide.as_ref()?;
            let decoded = layout.decode(value);
            let size = 1u64.checked_shl(decoded.text("size_log2")?.parse().ok()?)?;
            let base = decoded.value("base")? << 12;
            (base <= target && target - base < size).then_some((", a range that covers it", false))
        }
        _ if value == target => Some(("", false)),
        _ if value >> 12 == target >> 12 => Some((", on this page", true)),
        _ => None,
    }
}

fn job(recording: &Recording, j: &JobFact, space: u32, range: Range<u64>, out: &mut Vec<Xref>) {
    let va = range.start;
    let Some(memory) = lookup::memory_at(recording, space, j.submit) else {
        return;
    };
    let buffer = recording
        .metadata
        .buffers
        .iter()
        .filter(|b| b.address_space == space && b.va.0 <= va && va - b.va.0 < b.bytes)
        .min_by_key(|b| b.bytes);
    let deed = match buffer.map(|b| b.role) {
        Some(BufferRole::Output) => AccessKind::Write,
        Some(BufferRole::Shared) | None => AccessKind::ReadOrWrite,
        Some(_) => AccessKind::Read,
    };
    let target = buffer
        // Outside of buffers, an item that starts shortly before the byte may contain it.
        .map_or((va.saturating_sub(255), 256), |b| (b.va.0, b.bytes));
    let mut describe = |what: String, deed: AccessKind, page: bool| {
        out.push(Xref {
            page,
            kind: "job",
            access: deed,
            description: what,
            event: Some(j.submit),
            go: Selection::Job(j.index),
        });
    };
    for (n, c) in j.chain.iter().enumerate() {
        let name = match j.chain.len() {
            1 => format!("job {}", j.index),
            _ => format!("job {}, {} of its chain", j.index, n + 1),
        };
        if c.va < range.end && va < c.va.saturating_add(32) {
            describe(format!("header of {name}"), AccessKind::Read, false);
        } else if c.va >> 12 == va >> 12 {
            describe(
                format!("{name} has its header on this page, at {:#x}", c.va),
                AccessKind::AddressOf,
                true,
            );
        }
        match c.shader {
            Some(s) if range.contains(&s) => describe(format!("shader of {name} starts here"), AccessKind::Read, false),
            Some(s) if s >> 12 == va >> 12 => {
                describe(
                    format!("shader of {name} starts on this page, at {s:#x}"),
                    AccessKind::AddressOf,
                    true,
                );
            }
            _ => {}
        }
        if let Some(message) = points(&memory, c.va, va, target) {
            describe(format!("{name} {message}"), deed, false);
        }
    }
}

/// Returns a description if the descriptors at `head`, or their pointer targets, hold an address in the target.
fn points(memory: &GpuMemoryView<'_>, head: u64, va: u64, (from, bytes): (u64, u64)) -> Option<String> {
    let hits = |p: u64| from <= p && p - from < bytes && p <= va;
    let first = words(memory, head & !7, DESCRIPTOR);
    if let Some(p) = first.iter().copied().find(|p| hits(*p)) {
        return Some(format!("points at {p:#x}"));
    }
    behind(memory, &first).filter(|p| *p >> 12 != va >> 12).find_map(|p| {
        let found = words(memory, p, BEHIND).into_iter().find(|q| hits(*q))?;
        Some(format!("points at {found:#x} through {p:#x}"))
    })
}

/// Returns the known words of memory at an address.
fn words(memory: &GpuMemoryView<'_>, at: u64, len: usize) -> Vec<u64> {
    let read = memory.read_range(GpuVa(at), len as u64).bytes;
    read.chunks_exact(8)
        .filter_map(|w| Some(u64::from_le_bytes(w.try_into().ok()?)))
        .collect()
}

/// Returns the words that are addresses of known memory.
fn behind(memory: &GpuMemoryView<'_>, words: &[u64]) -> impl Iterator<Item = u64> {
    words
        .iter()
        // Pointers in descriptors have sizes and flags in their lowest bits.
        .map(|p| p & !63)
        .filter(|p| *p >= 4096 && *p >> 48 == 0)
        .filter(|p| memory.page(GpuVa(*p)).0.is_some())
}

/// Adds all possible addresses in the descriptors at `head` and in their pointer targets.
pub fn pointers(memory: &GpuMemoryView<'_>, head: u64, out: &mut Vec<u64>) {
    let first = words(memory, head & !7, DESCRIPTOR);
    for p in behind(memory, &first) {
        out.extend(words(memory, p, BEHIND));
    }
    out.extend(first);
}

/// Describes the use of the page of a byte; `unknown` if it is not known.
#[must_use]
pub fn describe_page(recording: &Recording, derived: &DerivedData, space: u32, va: u64, event: u64) -> String {
    let list = page_usage::find_page_uses(recording, &derived.page_usage, &derived.spaces, space, va, event);
    if list.is_empty() {
        "unknown".into()
    } else {
        page_usage::describe_uses(recording, &list)
    }
}
