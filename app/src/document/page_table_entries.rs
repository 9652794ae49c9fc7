//! Cross references of a page table entry: snapshots, host writes, MMU commands of its address space, and jobs that
//! access addresses that it translates.

use super::derived_data::DerivedData;
use super::history::Selection;
use super::jobs::JobFact;
use super::lookup;
use super::page_runs::format_rights;
use super::page_table_marks::describe_entry_kind;
use super::xref::{self, AccessKind, MAX_XREFS, Xref};
use crate::theme::text;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use trace_core::PhysAddr;
use trace_core::mmu::{EntryKind, WalkStep, entry_kind, entry_rights, root_from_register, span_bytes};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{AddressSpace, Buffer, MmuFormat, PageId, Recording};
use trace_core::registers::{Half, Register, Role};

/// Maximum number of physical addresses of one entry that are searched. Its table may be at another address in every
/// snapshot.
const MAX_PLACES: usize = 64;
/// Size of an entry, bytes.
const BYTES: u64 = 8;

/// Returns the entry of a level on the walk of an address, as memory held it before an event. Returns `None` if the
/// walk ends at a higher level.
#[must_use]
pub fn read_entry(recording: &Recording, space: u32, va: u64, level: u8, event: u64) -> Option<WalkStep> {
    let walk = lookup::walk(recording, space, va, event)?;
    walk.steps.into_iter().find(|s| s.level == level)
}

/// Returns the addresses that the entry of a level translates, one of which is `va`.
#[must_use]
pub fn entry_span(va: u64, level: u8) -> Range<u64> {
    let bytes = span_bytes(level);
    let first = va & !(bytes - 1);
    first..first.saturating_add(bytes)
}

/// Returns the level of the last entry on the walk of an address.
#[must_use]
pub fn last_level(recording: &Recording, space: u32, va: u64, event: u64) -> Option<u8> {
    Some(lookup::walk(recording, space, va, event)?.steps.last()?.level)
}

/// Describes an entry in a few words: `page → 0x1000 rw-`, `table → 0x2000`, `invalid`.
#[must_use]
pub fn describe_entry(format: MmuFormat, level: u8, raw: u64) -> String {
    let kind = entry_kind(format, level, raw);
    let (word, to) = describe_entry_kind(kind);
    let rights = match kind {
        EntryKind::Page(_) | EntryKind::Block(_) => {
            let r = entry_rights(format, raw);
            let bits = u8::from(r.read) | u8::from(r.write) << 1 | u8::from(r.execute) << 2;
            format!(" {}", format_rights(bits))
        }
        _ => String::new(),
    };
    match to.is_empty() {
        true => word.to_owned(),
        false => format!("{word} {to}{rights}"),
    }
}

/// The parameters of a search for the references of an entry.
struct EntryQuery<'a> {
    recording: &'a Recording,
    derived: &'a DerivedData,
    space: u32,
    va: u64,
    level: u8,
    of: &'a AddressSpace,
    span: Range<u64>,
}

/// Finds what wrote an entry and what may have read it, in event order; references without an event come last. Takes
/// time proportional to the number of snapshots, jobs and host writes.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn find_xrefs(
    recording: &Recording,
    derived: &DerivedData,
    (space, va, level): (u32, u64, u8),
    progress: &Progress,
) -> Result<Vec<Xref>, Cancelled> {
    let Some(of) = recording.metadata.address_spaces.get(space as usize) else {
        return Ok(Vec::new());
    };
    let sought = EntryQuery {
        recording,
        derived,
        space,
        va,
        level,
        of,
        span: entry_span(va, level),
    };
    progress.set_total(recording.memory.snapshots.len() as u64 + derived.jobs.len() as u64);
    let (states, places) = sought.states(progress)?;
    let mut out = sought.cpu_writes(&places, progress)?;
    let written: Vec<u64> = out.iter().filter_map(|t| t.event).collect();
    sought.snapshots(&states, &written, &mut out);
    sought.commands(&mut out);
    sought.jobs(progress, &mut out)?;
    out.sort_by_key(|t| t.event.unwrap_or(u64::MAX));
    out.truncate(MAX_XREFS);
    Ok(out)
}

/// A state of an entry: index of the first snapshot with it, address and value.
struct EntryState {
    snapshot: usize,
    entry: Option<(PhysAddr, u64)>,
}

impl EntryQuery<'_> {
    fn touch(&self, kind: &'static str, what: String, event: Option<u64>, deed: AccessKind) -> Xref {
        Xref {
            page: false,
            kind,
            description: what,
            event,
            access: deed,
            go: Selection::Entry {
                space: self.space,
                va: self.va,
                level: self.level,
            },
        }
    }

    /// Returns the states of the entry, each with its first snapshot, and all addresses of the entry.
    fn states(&self, progress: &Progress) -> Result<(Vec<EntryState>, BTreeSet<u64>), Cancelled> {
        let (mut out, mut places): (Vec<EntryState>, BTreeSet<u64>) = Default::default();
        for (snapshot, s) in self.recording.memory.snapshots.iter().enumerate() {
            let step = read_entry(self.recording, self.space, self.va, self.level, s.event);
            let entry = step.map(|s| (s.entry_at, s.raw));
            if let Some((at, _)) = entry
                && places.len() < MAX_PLACES
            {
                places.insert(at.0);
            }
            if out.last().is_none_or(|l| l.entry != entry) {
                out.push(EntryState { snapshot, entry });
            }
            progress.advance(1)?;
        }
        Ok((out, places))
    }

    /// Returns the host writes to the current and former addresses of the entry.
    fn cpu_writes(&self, places: &BTreeSet<u64>, progress: &Progress) -> Result<Vec<Xref>, Cancelled> {
        let mut out = Vec::new();
        for place in places {
            let place = *place..place.saturating_add(BYTES);
            xref::for_each_host_write(self.recording, place.clone(), progress, &mut |event, row| {
                let whole = row.at <= place.start && place.end <= row.at.saturating_add(u64::from(row.bytes));
                let page = self.recording.memory.pages.page(PageId(row.page));
                let from = PhysAddr(place.start).in_page();
                let raw = page.and_then(|p| Some(u64::from_le_bytes(p.get(from..from + 8)?.try_into().ok()?)));
                let what = match raw.filter(|_| whole) {
                    Some(raw) => format!("the CPU wrote it: {}", describe_entry(self.of.format, self.level, raw)),
                    None => "the CPU wrote some of its bytes".into(),
                };
                out.push(self.touch("CPU write", what, Some(event), AccessKind::Write));
                out.len() < MAX_XREFS
            })?;
        }
        Ok(out)
    }

    /// Adds the references from snapshots. If host writes are recorded between two snapshots, they are the writers, and
    /// the snapshot only shows the result.
    fn snapshots(&self, states: &[EntryState], written: &[u64], out: &mut Vec<Xref>) {
        let snapshots = &self.recording.memory.snapshots;
        let event = |n: usize| snapshots.get(n).map_or(0, |s| s.event);
        let describe = |entry: Option<(PhysAddr, u64)>| match entry {
            Some((_, raw)) => describe_entry(self.of.format, self.level, raw),
            None => "not present".to_owned(),
        };
        let last = (self.recording.events.len() as u64).saturating_sub(1);
        for (n, state) in states.iter().enumerate() {
            let Some(before) = n.checked_sub(1).and_then(|n| states.get(n)) else {
                let what = match state.entry {
                    Some(_) => format!("the first snapshot holds it: {}", describe(state.entry)),
                    None => "the first snapshot does not hold it: an entry above it is invalid".to_owned(),
                };
                let what = what + "; its earlier writer is not recorded";
                out.push(self.touch(
                    "snapshot",
                    what,
                    Some(event(state.snapshot).min(last)),
                    AccessKind::Write,
                ));
                continue;
            };
            let (from, to) = (event(state.snapshot.saturating_sub(1)), event(state.snapshot));
            let moved = match (before.entry, state.entry) {
                (Some((a, raw)), Some((b, now))) if raw == now => {
                    format!("from this snapshot on, its table is at another address: the entry is at {b}, not at {a}")
                }
                (Some(_), Some(_)) => format!(
                    "from this snapshot on it is {}, no longer {}",
                    describe(state.entry),
                    describe(before.entry)
                ),
                (None, _) => format!(
                    "from this snapshot on it is present: {}; before, an entry above it was invalid",
                    describe(state.entry)
                ),
                (_, None) => format!(
                    "from this snapshot on an entry above it is invalid; it was {}",
                    describe(before.entry)
                ),
            };
            let known = written.iter().any(|e| (from..to.max(from + 1)).contains(e));
            let (how, deed) = match known {
                true => ("; the CPU wrote this value".to_owned(), AccessKind::AddressOf),
                false => (
                    format!(
                        ". It was written between events {} and {}; the exact event is not recorded",
                        text::count(from),
                        text::count(to)
                    ),
                    AccessKind::Write,
                ),
            };
            out.push(self.touch("snapshot", moved + &how, Some(to.min(last)), deed));
        }
    }

    /// Returns the value of a register pair at an event, or `None` if nothing accessed it yet.
    fn wide_at(&self, low: &Register, event: u64) -> Option<u64> {
        let Some(Half::Low { high_offset }) = low.pair else {
            return None;
        };
        let held = |offset| lookup::find_register_value(self.recording, self.derived, offset, event).map(|h| h.value);
        let high = held(high_offset).unwrap_or(0);
        Some(high << 32 | held(low.offset)? & 0xffff_ffff)
    }

    /// Adds the commands to the address space. After an update, walks start at its root; after a flush, walks read the
    /// tables again.
    fn commands(&self, out: &mut Vec<Xref>) {
        let registers: Vec<&Register> = self
            .derived
            .registers
            .keys()
            .filter_map(|offset| lookup::find_register(self.recording, *offset))
            .filter(|r| r.index == Some(self.of.number))
            .collect();
        let of = |role: Role| {
            let low = |r: &&&Register| r.replay.role == Some(role) && !matches!(r.pair, Some(Half::High { .. }));
            registers.iter().find(low).copied()
        };
        let Some(command) = of(Role::AsCommand) else { return };
        let (root, lock) = (of(Role::Root), of(Role::LockAddr));
        let Some(fact) = self.derived.registers.get(&command.offset) else {
            return;
        };
        for event in fact.accesses.writes().iter().take(MAX_XREFS) {
            let access = usize::try_from(event)
                .ok()
                .and_then(|e| self.recording.events.access(e));
            let Some(value) = access.map(|a| a.value) else { continue };
            // The address space number may serve several roots in turn. Only commands under this root count.
            let reported = root.and_then(|r| self.wide_at(r, event));
            if reported.is_some_and(|v| root_from_register(self.of.format, v) != self.of.root) {
                continue;
            }
            let covers = lock.and_then(|r| self.covers(r, event));
            let ranged = matches!(value & 0xff, 2 | 4 | 5);
            if ranged && covers == Some(false) {
                continue;
            }
            let range = match covers {
                Some(_) => "of a range that overlaps it",
                None => "of an unrecorded range",
            };
            let what = match value & 0xff {
                1 => format!("update: from here on walks begin at the root {}", self.of.root),
                2 => format!("lock {range}: its walks wait until the unlock"),
                3 => "unlock: walks go on".to_owned(),
                4 => format!("flush of page tables {range}: the next walk reads it again"),
                5 => format!("flush of memory {range}: the next walk reads it again"),
                _ => continue,
            };
            let mut touch = self.touch(
                "command",
                format!("AS {} {what}", self.of.number),
                Some(event),
                AccessKind::AddressOf,
            );
            touch.go = Selection::Register(command.offset);
            out.push(touch);
        }
    }

    /// Whether the range of the next lock or flush covers an address of the entry; `None` if it is not known.
    fn covers(&self, lock: &Register, event: u64) -> Option<bool> {
        let layout = lock.wide.as_ref()?;
        let decoded = layout.decode(self.wide_at(lock, event)?);
        let size = 1u64.checked_shl(decoded.text("size_log2")?.parse().ok()?)?;
        let base = decoded.value("base")? << 12;
        Some(base < self.span.end && self.span.start < base.saturating_add(size))
    }

    /// Adds the jobs of the address space that access an address that the entry translates, as far as recorded.
    fn jobs(&self, progress: &Progress, out: &mut Vec<Xref>) -> Result<(), Cancelled> {
        let snapshots = &self.recording.memory.snapshots;
        // Jobs that run the same chain share it.
        let mut known: HashMap<(usize, usize), Option<String>> = HashMap::new();
        let (mut mine, mut reported) = (0u64, 0u64);
        for j in &self.derived.jobs {
            progress.advance(1)?;
            if j.chain.space != Some(self.space) {
                continue;
            }
            mine += 1;
            let snapshot = snapshots.partition_point(|s| s.event <= j.submit);
            let key = (Arc::as_ptr(&j.chain).cast::<u8>() as usize, snapshot);
            let reason = known.entry(key).or_insert_with(|| self.reason(j)).clone();
            let Some(reason) = reason else { continue };
            reported += 1;
            let found = read_entry(self.recording, self.space, self.va, self.level, j.submit);
            let then = match found {
                Some(s) => format!(
                    "its walk reads this entry, {}",
                    describe_entry(self.of.format, s.level, s.raw)
                ),
                None => "its walk ends above this entry".into(),
            };
            let mut touch = self.touch(
                "job",
                format!("job {} {reason}: {then}", j.index),
                Some(j.submit),
                AccessKind::Read,
            );
            touch.go = Selection::Job(j.index);
            out.push(touch);
        }
        let rest = mine - reported;
        if rest > 0 {
            let jobs = match reported {
                0 => text::count_noun(rest, "job", "jobs"),
                _ => text::count_noun(rest, "more job", "more jobs"),
            };
            let (verb, they) = if rest == 1 {
                ("runs", "it reaches")
            } else {
                ("run", "they reach")
            };
            let what =
                format!("{jobs} {verb} in this address space; the recording does not show whether {they} this entry.");
            out.push(self.touch("job", what, None, AccessKind::Resident));
        }
        Ok(())
    }

    /// Describes why a job accesses an address that the entry translates.
    fn reason(&self, job: &JobFact) -> Option<String> {
        let memory = lookup::memory_at(self.recording, self.space, job.submit)?;
        let inside = |va: u64| self.span.contains(&va);
        for c in job.chain.iter() {
            if inside(c.va) {
                return Some(format!("has its header at {:#x}", c.va));
            }
            if let Some(s) = c.shader.filter(|s| inside(*s)) {
                return Some(format!("has its shader at {s:#x}"));
            }
        }
        let mut pointers = Vec::new();
        for c in job.chain.iter() {
            pointers.clear();
            xref::pointers(&memory, c.va, &mut pointers);
            // Pointers in descriptors have sizes and flags in their lowest bits; 0 is no pointer.
            let mut named = pointers.iter().map(|p| p & !63).filter(|p| *p != 0);
            if let Some(p) = named.clone().find(|p| inside(*p)) {
                return Some(format!("points at {p:#x}"));
            }
            let buffers = || {
                self.recording
                    .metadata
                    .buffers
                    .iter()
                    .filter(|b| b.address_space == self.space)
            };
            let reached = |p: u64| {
                let holds = |b: &&Buffer| p.checked_sub(b.va.0).is_some_and(|by| by < b.bytes);
                let overlaps = |b: &Buffer| b.va.0 < self.span.end && self.span.start < b.va.0.saturating_add(b.bytes);
                let min = buffers().filter(holds).min_by_key(|b| b.bytes)?;
                overlaps(min).then(|| min.name.clone())
            };
            if let Some((p, name)) = named.find_map(|p| Some((p, reached(p)?))) {
                return Some(format!("points at {p:#x} into {name}, which reaches here"));
            }
        }
        None
    }
}
