//! What of a recording is aligned: its events as a stream of digests, without what every run has for itself, cut into
//! the courses of its jobs.

use super::calls::{self, CallIndex};
use super::rules::Rules;
use super::spaces::{self, Roots};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, CallEvent, EventKind, Recording, SpaceKind};
use crate::registers::{Half, Part, ReadRule, Register, RegisterMap, Role, register_space};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Events passed between two looks at whether the work was cancelled.
const CHECK_EVERY: usize = 1 << 16;

/// An event without its value: events with the same one can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub kind: EventKind,
    /// The space, as both recordings number it together; see [`Names`].
    pub space: u8,
    /// Width of an access in bytes; 0 of other kinds.
    pub width: u8,
    /// Byte offset in the space; of an interrupt its line, of a submit its slot, of memory given how it was.
    pub offset: u32,
}

/// An event that is compared, and its value: of an interrupt its status, of a submit the head of its chain, of memory
/// that was given its size, of an access without a value what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub key: Key,
    pub value: u64,
}

/// What makes two values of a register the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// All of it.
    Whole,
    /// Nothing: every run has its own.
    Nothing,
    /// These bits of the access.
    Bits(u64),
    /// The address space whose tables lie there.
    Root,
    /// All of it, or that both sides' addresses go together wherever they occur.
    Address,
}

/// The numbers of spaces of two recordings taken together, so that one that both have has one number.
pub(super) struct SpaceNumbers {
    numbers: Vec<u8>,
}

impl SpaceNumbers {
    /// Of both, in an order that does not depend on which is first.
    pub fn from_recordings(a: &Recording, b: &Recording) -> (Self, Self) {
        let name = |s: &crate::recording::Space| (s.name.clone(), format!("{:?}", s.kind));
        let mut all: Vec<_> = a.facts.spaces.iter().chain(&b.facts.spaces).map(name).collect();
        all.sort_unstable();
        all.dedup();
        let of = |r: &Recording| Self {
            numbers: r
                .facts
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

/// Kinds that not every recorder sees and that a replay does not make: where one recording has none of a kind at all,
/// those of the other are not compared.
pub(super) const RECORDER_DEPENDENT_KINDS: [EventKind; 3] =
    [EventKind::Interrupt, EventKind::Undecoded, EventKind::DmaMap];

/// GPU_COMMAND values that reset the device, and with it every register.
const RESETS: [u64; 2] = [1, 2];

/// The spaces of a recording that are not the device's and that the other recording does not have, by index: memory of
/// the machine, configuration space. A replay leaves accesses to them out.
pub(super) fn foreign_spaces(recording: &Recording, other: &Recording) -> Vec<usize> {
    let there = |name: &str| other.facts.spaces.iter().any(|s| s.name == name);
    let foreign = |kind: SpaceKind| matches!(kind, SpaceKind::Memory | SpaceKind::Config);
    let spaces = recording.facts.spaces.iter().enumerate();
    spaces
        .filter(|(_, s)| foreign(s.kind) && !there(&s.name))
        .map(|(n, _)| n)
        .collect()
}

/// How many accesses a recording has to some of its spaces.
pub(super) fn accesses_to(recording: &Recording, spaces: &[usize]) -> u64 {
    if spaces.is_empty() {
        return 0;
    }
    let all = recording.events.accesses(0..recording.events.len());
    all.filter(|(_, a)| spaces.contains(&usize::from(a.space))).count() as u64
}

/// How many calls of a recording no replay makes, and are not compared beside what a replay did.
pub(super) fn count_not_played(recording: &Recording, known: &CallIndex) -> u64 {
    let events = &recording.events;
    let left_out = |event: &usize| {
        let call = events.call(*event);
        call.is_some_and(|call| known.is_excluded(*event as u64, &call))
    };
    (0..events.len()).filter(left_out).count() as u64
}

/// What a call is aligned by: (number in a table of the facts, what tells it from others of its kind, its value). Addresses
/// are every run's own; what is done with how much of it, and what came of it, is not.
fn call_key(call: &CallEvent, known: Option<&CallIndex>) -> Option<(u8, u32, u64)> {
    let mixed = |words: &[u32]| words.iter().fold(0u64, |h, w| h.rotate_left(11) ^ u64::from(*w));
    let (number, offset, value) = match call {
        CallEvent::Launch(l) => {
            let dims = [l.grid, l.block, l.cluster].concat();
            let function = known.map_or(l.function, |k| k.function(l.function));
            (0, function, mixed(&dims).rotate_left(11) ^ u64::from(l.shared))
        }
        // A snapshot has its pieces in the order of addresses, which is every run's own.
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

/// How many events of each of the kinds of [`RECORDER_DEPENDENT_KINDS`] a recording has.
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

/// One side of a comparison: a recording and what is known of its registers.
pub(super) struct Side<'a> {
    pub recording: &'a Recording,
    pub map: Option<&'a RegisterMap>,
    names: SpaceNumbers,
    registers: u8,
    roots: Roots,
    /// Which of [`RECORDER_DEPENDENT_KINDS`] both sides have.
    compared: [bool; 3],
    rules: &'a Rules,
    /// What is known of its calls, where both recordings are of calls.
    pub calls: Option<&'a CallIndex>,
    /// By the number of a kind of event: whether the rules leave it out.
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

    /// The same without accesses to some spaces.
    pub fn without_spaces(self, foreign: Vec<usize>) -> Self {
        Self { foreign, ..self }
    }

    /// Whether accesses to a space are not compared.
    fn is_foreign(&self, space: u8) -> bool {
        self.foreign.contains(&usize::from(space))
    }

    /// The registers that an access touches.
    pub fn part(&self, access: &Access) -> Option<Part<'a>> {
        let map = self.map.filter(|_| access.space == self.registers)?;
        map.covered_registers(access.offset, access.width).next()
    }

    /// Whether an access is one of the device's registers.
    pub fn is_register(&self, access: &Access) -> bool {
        access.space == self.registers
    }

    /// Whether the rules leave a kind of event out.
    fn is_excluded(&self, kind: EventKind) -> bool {
        self.left_out.get(usize::from(kind as u8)).copied().unwrap_or(false)
    }

    /// The item that an event is, if it is compared: marks are notes, and what the CPU wrote is compared by byte.
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
                offset: a.offset,
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
                (0, row.slot, row.head_va)
            }
            EventKind::Undecoded => {
                let row = events.undecoded(event)?;
                let space = events.space.get(event).map_or(0, |s| self.names.number(s));
                (space, row.offset, u64::from(row.code))
            }
            // Where memory lies is every run's own; how much it is and how it was given is not.
            EventKind::DmaMap => events.dma_map(event).map(|d| (0, d.kind, d.bytes))?,
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

    /// The digest of an event that is no access, with what it carries.
    fn carrying(&self, event: usize, item: Item) -> u64 {
        let call = self.calls.and_then(|k| Some((k, self.recording.events.call(event)?)));
        let value = match call {
            Some((known, call)) => mix(item.value, known.content_digest(self.recording, event, &call)),
            None => item.value,
        };
        token(item.key, Rule::Whole, value)
    }

    /// What makes two values the same at an access.
    pub fn rule(&self, access: &Access) -> Rule {
        let part = self.part(access);
        self.ruled(access, part.as_ref())
    }

    /// What makes two values the same at an access of a register, or of a place that has no name.
    fn ruled(&self, access: &Access, part: Option<&Part<'_>>) -> Rule {
        let own = part.map_or(Rule::Whole, |p| rule(p, access.write));
        if self.rules.list.is_empty() {
            return own;
        }
        let offset = format!("{:#x}", access.offset);
        let place = || match self.recording.facts.spaces.get(usize::from(access.space)) {
            Some(space) => format!("{}+{offset}", space.name),
            None => offset.clone(),
        };
        // A register of the device's own space goes by its offset alone, too.
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

/// Bits of a register, where they stand in the access.
fn in_access(part: &Part<'_>, bits: u64) -> u64 {
    let own = bits.checked_shr(u32::from(part.byte) * 8).unwrap_or(0);
    own.checked_shl(u32::from(part.at) * 8).unwrap_or(0)
}

/// What an access is to the comparison, the same for all accesses there.
#[derive(Clone, Copy)]
struct Class {
    rule: Rule,
    waits: bool,
    job: Option<JobRegister>,
    /// The register whose value depends on what ran before the recording, until something writes it.
    before: Option<u32>,
    /// Whether it is the command register of the whole device.
    resets: bool,
}

impl Class {
    /// A place that means nothing but its value.
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
    /// With the slot and where the head stands: offsets of the low half and of the high one.
    Command(Option<u8>, Option<(u32, Option<u32>)>),
}

/// A job's course: what comes between its submit and the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JobTokens {
    /// Its tokens.
    pub tokens: Range<usize>,
    /// The first event behind the submit that began it.
    pub begin: u64,
    /// Slot and head of the job's chain, as last written before its submit.
    pub head: (Option<u8>, u64),
}

/// The events of a recording as digests.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// A digest of each event that is compared. The lowest bit says whether it stands for the whole value.
    pub tokens: Vec<u64>,
    /// The event of each token.
    pub events: Vec<u32>,
    /// Cut after each submit: the first is what comes before any job has begun.
    pub courses: Vec<JobTokens>,
    /// Reads that a later one of the same wait stands for.
    pub folded: u64,
}

impl Stream {
    /// One past the last event of a course.
    pub fn end(&self, course: usize) -> u64 {
        self.courses.get(course + 1).map_or(u64::MAX, |c| c.begin)
    }

    /// The event that a token stands for.
    pub fn event(&self, token: usize) -> Option<usize> {
        self.events.get(token).map(|e| *e as usize)
    }
}

/// Whether two equal tokens stand for equal values.
pub(super) fn is_whole(token: u64) -> bool {
    token & 1 == 1
}

/// Digests mixed with what goes into them.
pub(super) fn mix(digest: u64, with: u64) -> u64 {
    let m = u128::from(digest ^ with) * 0x9e37_79b9_7f4a_7c15;
    (m as u64 ^ (m >> 64) as u64).wrapping_add(0xf39c_c060_5ced_c835)
}

/// A digest of what an event is without its value.
pub(super) fn key_token(key: Key) -> u64 {
    token(key, Rule::Nothing, 0)
}

/// A digest of what an event is and of its value, without what it carries.
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
    let mut heads: HashMap<u32, u64> = HashMap::new();
    // Registers marked as showing what ran before the recording that something has written since, and whether the device
    // was reset.
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
                    waits.begin_course(&mut out, event, (slot, item.value));
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
            reset |= class.resets && RESETS.contains(&a.value);
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
                heads.insert(a.offset, a.value);
            }
            Some(JobRegister::Command(slot, head)) if a.value == 1 => {
                let of = |offset: u32| heads.get(&offset).copied().unwrap_or(0);
                let head = head.map_or(0, |(low, high)| of(low) | high.map_or(0, |h| of(h) << 32));
                waits.begin_course(&mut out, event, (slot, head));
            }
            _ => {}
        }
    }
    waits.close(&mut out);
    Ok(out)
}

/// Waits that are folded: of a status that a thread reads again and again its last read stands for all, since how often
/// it takes is a matter of time and not of what was done. What other threads do meanwhile does not end the wait.
#[derive(Default)]
struct Waits {
    /// The last access of each thread in this course: its token, and what it accesses.
    last: HashMap<u32, (usize, Key)>,
    /// Tokens of this course that others stand for, rising.
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

    /// Ends a course and begins the next one behind an event.
    fn begin_course(&mut self, out: &mut Stream, event: usize, head: (Option<u8>, u64)) {
        self.close(out);
        out.courses.push(JobTokens {
            tokens: out.tokens.len()..out.tokens.len(),
            begin: event as u64 + 1,
            head,
        });
    }

    /// Takes out what others stand for.
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

/// Classes by place: looked up in the map once for each of the places that a driver uses again and again.
struct Classes<'s, 'a> {
    side: &'s Side<'a>,
    /// By a digest of the place: the place, one more than 0, and its class.
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
        let place = 1 + (space | u64::from(a.offset) << 9 | u64::from(a.width & 15) << 1 | u64::from(a.write));
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
        before: r.replay.before.as_ref().map(|_| r.offset),
        resets: r.replay.role == Some(Role::GpuCommand),
    }
}

/// Where the head registers of a command's slot are.
fn head_of(map: &RegisterMap, command: &Register) -> Option<(u32, Option<u32>)> {
    let of_slot =
        |r: &&Register| r.replay.role == Some(Role::JobHead) && r.index == command.index && r.block == command.block;
    let low = map.registers().find(of_slot)?;
    Some(match low.pair {
        Some(Half::Low { high_offset }) => (low.offset, Some(high_offset)),
        _ => (low.offset, None),
    })
}
