//! Token stream of a recording for the alignment: digests of its events, without values that differ between any two
//! runs, split into job intervals.

use super::calls::{self, CallIndex, mix};
use super::rules::Rules;
use super::spaces::{self, Roots};
use crate::GpuVa;
use crate::families::find_family_with;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, CallEvent, EventKind, Recording, SpaceKind};
use crate::registers::{Half, Part, ReadRule, Register, RegisterMap, Role, register_space};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Number of events between two checks for cancellation.
const CHECK_EVERY: usize = 1 << 16;

/// An event without its value: events with the same key can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub kind: EventKind,
    /// The space, in the common numbering of both recordings; see [`SpaceNumbers`].
    pub space: u8,
    /// Width of an access, bytes; 0 for other kinds.
    pub width: u8,
    /// Byte offset in the space; the line of an interrupt, the slot of a submit, the kind of a DMA map.
    pub offset: u32,
}

/// A compared event and its value: the status of an interrupt, the chain head of a submit, the size of a DMA map, the
/// known part of an undecoded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub key: Key,
    pub value: u64,
}

/// How two values of a register are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// All bits are compared.
    Whole,
    /// Nothing is compared: the value differs between any two runs.
    Nothing,
    /// These bits of the access are compared.
    Bits(u64),
    /// The address space whose tables the root points to is compared.
    Root,
    /// All bits are compared, unless the addresses of both sides match consistently.
    Address,
}

/// Common numbers for the spaces of two recordings: a space that both have gets one number.
pub(super) struct SpaceNumbers {
    numbers: Vec<u8>,
}

impl SpaceNumbers {
    /// Creates the numbers of both sides, in an order that does not depend on which is first.
    pub fn from_recordings(a: &Recording, b: &Recording) -> (Self, Self) {
        let name = |s: &crate::recording::Space| (s.name.clone(), format!("{:?}", s.kind));
        let mut all: Vec<_> = a.metadata.spaces.iter().chain(&b.metadata.spaces).map(name).collect();
        all.sort_unstable();
        all.dedup();
        let of = |r: &Recording| Self {
            numbers: r
                .metadata
                .spaces
                .iter()
                .map(|s| u8::try_from(all.partition_point(|n| *n < name(s))).unwrap_or(u8::MAX))
                .collect(),
        };
        (of(a), of(b))
    }

    fn number(&self, space: u8) -> u8 {
        // A space that the recording does not list keeps a number of its own.
        self.numbers.get(usize::from(space)).copied().unwrap_or(space)
    }
}

/// Kinds that not every recorder records and that a replay does not make. If one recording has none of a kind at all,
/// those of the other are not compared.
pub(super) const RECORDER_DEPENDENT_KINDS: [EventKind; 3] =
    [EventKind::Interrupt, EventKind::Undecoded, EventKind::DmaMap];

/// Returns the spaces of a recording, by index, that are not the device's and that the other recording does not have:
/// system memory, configuration space. A replay omits accesses to them.
pub(super) fn foreign_spaces(recording: &Recording, other: &Recording) -> Vec<usize> {
    let there = |name: &str| other.metadata.spaces.iter().any(|s| s.name == name);
    let foreign = |kind: SpaceKind| matches!(kind, SpaceKind::Memory | SpaceKind::Config);
    let spaces = recording.metadata.spaces.iter().enumerate();
    spaces
        .filter(|(_, s)| foreign(s.kind) && !there(&s.name))
        .map(|(n, _)| n)
        .collect()
}

/// Returns the number of accesses to some spaces of a recording.
pub(super) fn accesses_to(recording: &Recording, spaces: &[usize]) -> u64 {
    if spaces.is_empty() {
        return 0;
    }
    let all = recording.events.accesses(0..recording.events.len());
    all.filter(|(_, a)| spaces.contains(&usize::from(a.space))).count() as u64
}

/// Returns the number of calls that no replay makes, which are not compared with a replay.
pub(super) fn count_not_played(recording: &Recording, known: &CallIndex) -> u64 {
    let events = &recording.events;
    let left_out = |event: &usize| {
        let call = events.call(*event);
        call.is_some_and(|call| known.is_excluded(*event as u64, &call))
    };
    (0..events.len()).filter(left_out).count() as u64
}

/// Returns the key by which a call is aligned: 1 for a snapshot piece, otherwise 0; then its function, name or kind;
/// then its value. Addresses differ between runs; the operation, its size and its result do not.
fn call_key(call: &CallEvent, known: Option<&CallIndex>) -> Option<(u8, u32, u64)> {
    let mixed = |words: &[u32]| words.iter().fold(0u64, |h, w| h.rotate_left(11) ^ u64::from(*w));
    let (number, offset, value) = match call {
        CallEvent::Launch(l) => {
            let dims = [l.grid, l.block, l.cluster].concat();
            let function = known.map_or(l.function, |k| k.function(l.function));
            (0, function, mixed(&dims).rotate_left(11) ^ u64::from(l.shared))
        }
        // The pieces of a snapshot are in address order, which differs between runs.
        CallEvent::Copy(c) if known.is_some() && calls::is_piece(c) => (1, c.kind, 0),
        CallEvent::Copy(c) => (0, c.kind, c.total()?),
        CallEvent::Fill(f) => {
            let bytes = f.row_bytes()?.checked_mul(f.rows)?;
            (0, f.element, mix(bytes, u64::from(f.value)))
        }
        CallEvent::Order(o) => (0, o.kind, u64::from(o.stream)),
        CallEvent::Allocation(a) => (0, a.kind, a.bytes),
        CallEvent::Call(c) => (0, known.map_or(c.name, |k| k.call_name(c.name)), 0),
    };
    let value = match call.result() {
        0 => value,
        result => mix(value, u64::from(result)),
    };
    Some((number, offset, value))
}

/// Returns the number of events of each of [`RECORDER_DEPENDENT_KINDS`] in a recording.
pub(super) fn count_recorder_dependent(recording: &Recording) -> [u64; 3] {
    let mut counts = [0u64; 256];
    let kinds = &recording.events.kind;
    for kind in kinds.slices(0..kinds.len()).flatten() {
        if let Some(n) = counts.get_mut(usize::from(*kind)) {
            *n += 1;
        }
    }
    RECORDER_DEPENDENT_KINDS.map(|k| counts.get(usize::from(k as u8)).copied().unwrap_or(0))
}

/// One side of a comparison: a recording and its registers.
pub(super) struct Side<'a> {
    pub recording: &'a Recording,
    pub map: Option<&'a RegisterMap>,
    names: SpaceNumbers,
    registers: u8,
    roots: Roots,
    /// Which of [`RECORDER_DEPENDENT_KINDS`] both sides have.
    compared: [bool; 3],
    rules: &'a Rules,
    /// The index of its calls, if both recordings are API traces.
    pub calls: Option<&'a CallIndex>,
    /// By number of the event kind: whether the rules exclude it.
    left_out: [bool; 16],
    /// Spaces whose accesses are not compared.
    foreign: Vec<usize>,
}

impl<'a> Side<'a> {
    pub fn new(
        recording: &'a Recording,
        map: Option<&'a RegisterMap>,
        names: SpaceNumbers,
        compared: [bool; 3],
        rules: &'a Rules,
        calls: Option<&'a CallIndex>,
    ) -> Self {
        let left_out = std::array::from_fn(|n| {
            let kind = u8::try_from(n).ok().and_then(EventKind::from_raw);
            kind.is_some_and(|k| !rules.compares(k))
        });
        Self {
            compared,
            rules,
            calls,
            left_out,
            registers: register_space(recording, map),
            roots: spaces::table_roots(recording),
            recording,
            map,
            names,
            foreign: Vec::new(),
        }
    }

    /// Returns the same without accesses to some spaces.
    pub fn without_spaces(self, foreign: Vec<usize>) -> Self {
        Self { foreign, ..self }
    }

    /// Returns whether accesses to a space are not compared.
    fn is_foreign(&self, space: u8) -> bool {
        self.foreign.contains(&usize::from(space))
    }

    /// Returns the registers that an access covers.
    pub fn part(&self, access: &Access) -> Option<Part<'a>> {
        let map = self.map.filter(|_| access.space == self.registers)?;
        map.covered_registers(access.offset, access.width).next()
    }

    /// Returns whether an access is to the device's registers.
    pub fn is_register(&self, access: &Access) -> bool {
        access.space == self.registers
    }

    /// Returns whether the rules exclude a kind of event.
    fn is_excluded(&self, kind: EventKind) -> bool {
        self.left_out.get(usize::from(kind as u8)).copied().unwrap_or(false)
    }

    /// Returns the item of an event, if it is compared: marks are notes, and CPU writes are compared by byte.
    pub fn item(&self, event: usize) -> Option<Item> {
        let events = &self.recording.events;
        match events.kind(event)? {
            EventKind::Read | EventKind::Write => {
                let access = events.access(event).filter(|a| !self.is_foreign(a.space))?;
                Some(self.access_item(&access))
            }
            kind => self.other_item(event, kind),
        }
    }

    fn access_item(&self, a: &Access) -> Item {
        let kind = if a.write { EventKind::Write } else { EventKind::Read };
        Item {
            key: Key {
                kind,
                space: self.names.number(a.space),
                width: a.width,
                offset: a.offset.get(),
            },
            value: a.value,
        }
    }

    fn other_item(&self, event: usize, kind: EventKind) -> Option<Item> {
        let events = &self.recording.events;
        let optional = RECORDER_DEPENDENT_KINDS.iter().zip(&self.compared);
        if self.is_excluded(kind) || optional.into_iter().any(|(k, both)| *k == kind && !both) {
            return None;
        }
        let (space, offset, value) = match kind {
            EventKind::Interrupt => events.interrupt(event).map(|i| (0, i.line, u64::from(i.status)))?,
            EventKind::Submit => {
                let row = events.payload.get(event).and_then(|p| events.submits.get(p as usize))?;
                (0, row.slot, row.head_va.get())
            }
            EventKind::Undecoded => {
                let row = events.undecoded(event)?;
                let space = events.space.get(event).map_or(0, |s| self.names.number(s));
                (space, row.offset.get(), u64::from(row.code))
            }
            // The address of memory differs between runs; its size and kind of mapping do not.
            EventKind::DmaMap => events.dma_map(event).map(|d| (0, d.kind, d.bytes))?,
            // Handles and addresses differ between runs; kinds, classes and sizes do not.
            EventKind::Object => events.object(event).map(|o| (o.action as u8, o.class, o.bytes))?,
            EventKind::RingEntry => events.ring_entry(event).map(|r| (0, 0, r.bytes))?,
            EventKind::SavedMemory => events.saved_memory(event).map(|s| (0, s.reason, s.bytes))?,
            EventKind::Read | EventKind::Write | EventKind::Mark | EventKind::HostWrite => return None,
            _ => {
                let call = events.call(event)?;
                if self.calls.is_some_and(|known| known.is_excluded(event as u64, &call)) {
                    return None;
                }
                call_key(&call, self.calls)?
            }
        };
        Some(Item {
            key: Key {
                kind,
                space,
                width: 0,
                offset,
            },
            value,
        })
    }

    /// Returns the digest of an event that is not an access, including its content.
    fn carrying(&self, event: usize, item: Item) -> u64 {
        let call = self.calls.and_then(|k| Some((k, self.recording.events.call(event)?)));
        let value = match call {
            Some((known, call)) => mix(item.value, known.content_digest(self.recording, event, &call)),
            None => item.value,
        };
        token(item.key, Rule::Whole, value)
    }

    /// Returns the rule for comparing the values of an access.
    pub fn rule(&self, access: &Access) -> Rule {
        let part = self.part(access);
        self.ruled(access, part.as_ref())
    }

    /// Returns the rule for comparing the values of an access to a register, or to a location without a name.
    fn ruled(&self, access: &Access, part: Option<&Part<'_>>) -> Rule {
        let own = part.map_or(Rule::Whole, |p| rule(p, access.write));
        if self.rules.list.is_empty() {
            return own;
        }
        let offset = format!("{:#x}", access.offset);
        let place = || match self.recording.metadata.spaces.get(usize::from(access.space)) {
            Some(space) => format!("{}+{offset}", space.name),
            None => offset.clone(),
        };
        // A register of the device's own space can also be named by its offset alone.
        let (name, also) = match part {
            Some(p) => (p.register.name.clone(), None),
            None if access.space == self.registers => (offset.clone(), Some(place())),
            None => (place(), None),
        };
        let mut left_out = 0u64;
        let names = std::iter::once(&name).chain(&also);
        for field in names.flat_map(|name| self.rules.rules_for_register(name)) {
            let Some(field) = field else {
                return Rule::Nothing;
            };
            for (f, p) in part
                .iter()
                .flat_map(|p| p.register.layout.fields.iter().map(move |f| (f, p)))
            {
                if field.is_match(&f.name) {
                    let bits = u64::MAX
                        .checked_shr(63u32.saturating_sub(f.hi.saturating_sub(f.lo)))
                        .unwrap_or(0);
                    left_out |= in_access(p, bits.checked_shl(f.lo).unwrap_or(0));
                }
            }
        }
        match own {
            own if left_out == 0 => own,
            Rule::Nothing => Rule::Nothing,
            Rule::Bits(bits) => Rule::Bits(bits & !left_out),
            Rule::Whole | Rule::Root | Rule::Address => Rule::Bits(!left_out),
        }
    }
}

fn rule(part: &Part<'_>, write: bool) -> Rule {
    let r = part.register;
    match (write, r.replay.read, r.replay.role) {
        (_, _, Some(Role::Root)) => Rule::Root,
        (true, _, Some(Role::FlushId)) | (false, ReadRule::Any | ReadRule::Feeds, _) => Rule::Nothing,
        (
            _,
            _,
            Some(
                Role::JobHead
                | Role::JobCurrent
                | Role::JobTail
                | Role::LockAddr
                | Role::FaultAddress
                | Role::GpuFaultAddress
                | Role::PerfBase
                | Role::BusAddress,
            ),
        ) => Rule::Address,
        (false, ReadRule::Masked(bits), _) => Rule::Bits(in_access(part, bits)),
        _ => Rule::Whole,
    }
}

/// Shifts bits of a register to their position in the access.
fn in_access(part: &Part<'_>, bits: u64) -> u64 {
    let own = bits.checked_shr(u32::from(part.byte) * 8).unwrap_or(0);
    own.checked_shl(u32::from(part.at) * 8).unwrap_or(0)
}

/// The class of an access location, the same for all accesses there.
#[derive(Clone, Copy)]
struct Class {
    rule: Rule,
    waits: bool,
    job: Option<JobRegister>,
    /// The register whose value depends on what ran before the recording, until something writes it.
    before: Option<u32>,
    /// Whether this is the command register of the whole device.
    resets: bool,
}

impl Class {
    /// A location without special meaning.
    const PLAIN: Self = Self {
        rule: Rule::Whole,
        waits: false,
        job: None,
        before: None,
        resets: false,
    };
}

#[derive(Clone, Copy)]
enum JobRegister {
    Head,
    /// A command register, with its slot and the offsets of the low and the high half of the head.
    Command(Option<u8>, Option<(u32, Option<u32>)>),
}

/// The interval of a job: the events between its submit and the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JobTokens {
    /// Its tokens.
    pub tokens: Range<usize>,
    /// The first event after the submit that started it.
    pub begin: u64,
    /// Slot and head of the job's chain, as last written before its submit.
    pub head: (Option<u8>, GpuVa),
}

/// The events of a recording as digests.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// A digest of each compared event. The lowest bit says whether it represents the whole value.
    pub tokens: Vec<u64>,
    /// The event of each token.
    pub events: Vec<u32>,
    /// Job intervals, split after each submit: the first is everything before the first job.
    pub courses: Vec<JobTokens>,
    /// Number of reads that a later read of the same wait represents.
    pub folded: u64,
}

impl Stream {
    /// Returns the event one past the last of an interval.
    pub fn end(&self, course: usize) -> u64 {
        self.courses.get(course + 1).map_or(u64::MAX, |c| c.begin)
    }

    /// Returns the event of a token.
    pub fn event(&self, token: usize) -> Option<usize> {
        self.events.get(token).map(|e| *e as usize)
    }
}

/// Returns whether two equal tokens mean equal values.
pub(super) fn is_whole(token: u64) -> bool {
    token & 1 == 1
}

/// Returns a digest of an event without its value.
pub(super) fn key_token(key: Key) -> u64 {
    token(key, Rule::Nothing, 0)
}

/// Returns a digest of an event and its value, without its content.
pub(super) fn item_token(item: Item) -> u64 {
    token(item.key, Rule::Whole, item.value)
}

fn token(key: Key, rule: Rule, value: u64) -> u64 {
    let head = u64::from(key.offset) << 32
        | u64::from(key.kind as u8) << 16
        | u64::from(key.space) << 8
        | u64::from(key.width);
    let digest = mix(mix(0x243f_6a88_85a3_08d3, head), value) & !1;
    digest | u64::from(matches!(rule, Rule::Whole | Rule::Address))
}

/// Reads the events of a recording as a stream.
pub(super) fn read_stream(side: &Side<'_>, progress: &Progress) -> Result<Stream, Cancelled> {
    let events = &side.recording.events;
    let mut out = Stream {
        courses: vec![JobTokens::default()],
        ..Stream::default()
    };
    out.tokens.reserve(events.len());
    out.events.reserve(events.len());
    let mut classes = Classes::new(side);
    let family = find_family_with(side.recording, side.map);
    let mut heads: HashMap<u32, u64> = HashMap::new();
    // Registers that show state from before the recording and have been written since, and whether the device was
    // reset.
    let (mut written, mut reset) = (HashSet::new(), false);
    let mut waits = Waits::default();
    let mut accesses = events.accesses(0..events.len()).peekable();
    let mut threads = events.thread.iter();
    for (event, kind) in events.kind.iter().enumerate() {
        let thread = threads.next().unwrap_or(0);
        if event % CHECK_EVERY == 0 {
            progress.check()?;
        }
        let at = u32::try_from(event).unwrap_or(u32::MAX);
        let found = EventKind::from_raw(kind);
        let Some((_, a)) = accesses.next_if(|(e, _)| *e == event) else {
            if let Some(item) = found.and_then(|k| side.other_item(event, k)) {
                out.tokens.push(side.carrying(event, item));
                out.events.push(at);
                if item.key.kind == EventKind::Submit {
                    let slot = u8::try_from(item.key.offset).ok();
                    waits.begin_course(&mut out, event, (slot, GpuVa::new(item.value)));
                }
            }
            continue;
        };
        if side.is_foreign(a.space) {
            continue;
        }
        let class = classes.class_of(&a);
        let item = side.access_item(&a);
        let untouched = !reset && class.before.is_some_and(|r| !written.contains(&r));
        if a.write {
            reset |= class.resets && family.is_reset(a.value);
            written.extend(class.before);
        }
        let rule = match untouched && !a.write {
            true => Rule::Nothing,
            false => class.rule,
        };
        let value = match rule {
            Rule::Whole | Rule::Address => a.value,
            Rule::Nothing => 0,
            Rule::Bits(bits) => a.value & bits,
            Rule::Root => side
                .part(&a)
                .and_then(|p| side.roots.number(p.register, a.value))
                .unwrap_or(a.value),
        };
        if !side.is_excluded(item.key.kind) {
            let row = (at, token(item.key, rule, value));
            waits.push(&mut out, row, item.key, thread, class.waits);
        }
        match class.job.filter(|_| a.write) {
            Some(JobRegister::Head) => {
                heads.insert(a.offset.get(), a.value);
            }
            Some(JobRegister::Command(slot, head)) if family.is_job_start(a.value) => {
                let of = |offset: u32| heads.get(&offset).copied().unwrap_or(0);
                let head = head.map_or(0, |(low, high)| of(low) | high.map_or(0, |h| of(h) << 32));
                waits.begin_course(&mut out, event, (slot, GpuVa::new(head)));
            }
            _ => {}
        }
    }
    waits.close(&mut out);
    Ok(out)
}

/// Folded waits: if a thread reads a status repeatedly, its last read represents all, because the number of reads is
/// a matter of timing. Events of other threads do not end the wait.
#[derive(Default)]
struct Waits {
    /// The last access of each thread in this interval: its token, and its key.
    last: HashMap<u32, (usize, Key)>,
    /// Tokens of this interval that others represent, ascending.
    folded: Vec<usize>,
}

impl Waits {
    fn push(&mut self, out: &mut Stream, row: (u32, u64), key: Key, thread: u32, waits: bool) {
        let before = self.last.insert(thread, (out.tokens.len(), key));
        if let Some((token, _)) = before.filter(|(_, k)| waits && *k == key) {
            self.folded.push(token);
        }
        out.events.push(row.0);
        out.tokens.push(row.1);
    }

    /// Ends an interval and starts the next one after an event.
    fn begin_course(&mut self, out: &mut Stream, event: usize, head: (Option<u8>, GpuVa)) {
        self.close(out);
        out.courses.push(JobTokens {
            tokens: out.tokens.len()..out.tokens.len(),
            begin: event as u64 + 1,
            head,
        });
    }

    /// Removes the tokens that others represent.
    fn close(&mut self, out: &mut Stream) {
        let start = out.courses.last().map_or(0, |c| c.tokens.start);
        if let Some(first) = self.folded.iter().min().copied() {
            self.folded.sort_unstable();
            let mut gone = self.folded.iter().peekable();
            let mut to = first;
            for from in first..out.tokens.len() {
                if gone.next_if(|g| **g == from).is_some() {
                    continue;
                }
                out.tokens.swap(to, from);
                out.events.swap(to, from);
                to += 1;
            }
            out.tokens.truncate(to);
            out.events.truncate(to);
            out.folded += self.folded.len() as u64;
        }
        self.folded.clear();
        self.last.clear();
        let end = out.tokens.len();
        if let Some(c) = out.courses.last_mut() {
            c.tokens = start..end;
        }
    }
}

/// Cache of classes by location: each location that a driver uses repeatedly is looked up in the map once.
struct Classes<'s, 'a> {
    side: &'s Side<'a>,
    /// By a digest of the location: the location plus 1, and its class.
    kept: Vec<(u64, Class)>,
}

impl<'s, 'a> Classes<'s, 'a> {
    const PLACES: usize = 1 << 12;

    fn new(side: &'s Side<'a>) -> Self {
        Self {
            side,
            kept: vec![(0, Class::PLAIN); Self::PLACES],
        }
    }

    fn class_of(&mut self, a: &Access) -> Class {
        if self.side.rules.list.is_empty() && (self.side.map.is_none() || a.space != self.side.registers) {
            return Class::PLAIN;
        }
        let space = u64::from(a.space) << 41;
        let place = 1 + (space | u64::from(a.offset.get()) << 9 | u64::from(a.width & 15) << 1 | u64::from(a.write));
        let slot = mix(place, 0) as usize % Self::PLACES;
        match self.kept.get_mut(slot) {
            Some((known, class)) if *known == place => *class,
            Some(kept) => {
                *kept = (place, look_up(self.side, a));
                kept.1
            }
            None => Class::PLAIN,
        }
    }
}

fn look_up(side: &Side<'_>, a: &Access) -> Class {
    let Some(part) = side.part(a) else {
        return Class {
            rule: side.ruled(a, None),
            ..Class::PLAIN
        };
    };
    let r = part.register;
    let job = match r.replay.role {
        Some(Role::JobHead) => Some(JobRegister::Head),
        Some(Role::JobCommand) => Some(JobRegister::Command(r.index, side.map.and_then(|m| head_of(m, r)))),
        _ => None,
    };
    Class {
        rule: side.ruled(a, Some(&part)),
        waits: !a.write && r.replay.read == ReadRule::Until,
        job,
        before: r.replay.before.as_ref().map(|_| r.offset.get()),
        resets: r.replay.role == Some(Role::GpuCommand),
    }
}

/// Returns the offsets of the head registers of a command's slot.
fn head_of(map: &RegisterMap, command: &Register) -> Option<(u32, Option<u32>)> {
    let of_slot = |r: &&Register| r.index == command.index && r.block == command.block;
    let low = map.registers_with_role(Role::JobHead).find(of_slot)?;
    Some(match low.pair {
        Some(Half::Low { high_offset }) => (low.offset.get(), Some(high_offset.get())),
        _ => (low.offset.get(), None),
    })
}
