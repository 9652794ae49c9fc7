//! Naive event-by-event evaluator, the reference for the scan. It shares only the parser with the scan.

use crate::BusAddr;
use crate::check::Submit;
use crate::filter::context::MAX_EVENTS_BEFORE_SUBMIT;
use crate::filter::syntax::{Comparison, Condition, Node, Query, Test, TypedText, Value};
use crate::filter::{Derived, Keyword, Meaning};
use crate::progress::Progress;
use crate::recording::{CallEvent, DmaMapRow, EventKind, InterruptLine, Recording};
use crate::registers::{Field, FieldKind, Half, RecordedRegisters, Role};
use crate::xref::{self, XrefIndex};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::filter::keywords::{Kind, Name, Number};

pub(super) struct Naive<'a> {
    pub recording: &'a Recording,
    pub derived: &'a Derived,
    /// Events of each target of `references`, each searched once.
    pub references: RefCell<BTreeMap<String, BTreeSet<u64>>>,
}

fn low_bits(n: u32) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

impl Naive<'_> {
    pub fn passes(&self, query: &Query, event: u64) -> bool {
        self.node(&query.root, event)
    }

    fn node(&self, n: &Node, e: u64) -> bool {
        match n {
            Node::All => true,
            Node::And(all) => all.iter().all(|n| self.node(n, e)),
            Node::Or(all) => all.iter().any(|n| self.node(n, e)),
            Node::Not(n) => !self.node(n, e),
            Node::Test(t) => self.test(t, e),
        }
    }

    fn test(&self, t: &Test, e: u64) -> bool {
        let word = Keyword::find(&t.left.text).filter(|_| !t.left.quoted);
        match word.map(|w| w.meaning) {
            Some(Meaning::Number(n)) => {
                let line = |name: &TypedText| match name.text.to_lowercase().as_str() {
                    "job" => InterruptLine::Job as u64,
                    "mmu" => InterruptLine::Mmu as u64,
                    _ => InterruptLine::Gpu as u64,
                };
                self.numbers(n, e).into_iter().any(|v| holds(t, v, &line))
            }
            Some(Meaning::Kind(k)) => self.kind(k, e),
            Some(Meaning::Name(Name::Kind)) => {
                let is = |name: &str| match Keyword::find(name).unwrap().meaning {
                    Meaning::Kind(k) => self.kind(k, e),
                    _ => unreachable!(),
                };
                match &t.condition {
                    Condition::Bare => true,
                    Condition::Compare(o, Value::Name(n)) => is(&n.text) == (*o == Comparison::Equal),
                    Condition::Among { not, values } => values.iter().any(|v| is(name_of(v))) != *not,
                    other => unreachable!("{other:?}"),
                }
            }
            Some(Meaning::Name(n)) => {
                let names = match n {
                    Name::Space => self.space(e),
                    Name::Text => self.mark(e),
                    Name::Register => self.registers(e),
                    Name::Block => self.blocks(e),
                    Name::Call => self.call_name(e),
                    Name::Input => self.input(e).map(|n| vec![self.derived.inputs[n].name.clone()]),
                    Name::Kind => unreachable!(),
                };
                let Some(names) = names else { return false };
                // Names without a number are only for comparisons: a pattern applies to the full register names.
                let more = if n == Name::Register {
                    self.without_numbers(e)
                } else {
                    Vec::new()
                };
                let same = |a: &str, b: &str| {
                    if n == Name::Text {
                        a == b
                    } else {
                        a.eq_ignore_ascii_case(b)
                    }
                };
                let called = |values: &[&Value], n: &String| values.iter().any(|v| same(n, name_of(v)));
                let among = |values: &[&Value]| names.iter().chain(&more).any(|n| called(values, n));
                match &t.condition {
                    Condition::Bare => true,
                    Condition::Compare(o, v) => among(&[v]) == (*o == Comparison::Equal),
                    Condition::Among { not, values } => among(&values.iter().collect::<Vec<_>>()) != *not,
                    Condition::Match { not, pattern } => {
                        let r = regex::RegexBuilder::new(&pattern.text)
                            .case_insensitive(true)
                            .build()
                            .unwrap();
                        names.iter().any(|n| r.is_match(n)) != *not
                    }
                    Condition::Within { .. } | Condition::Target(_) => unreachable!(),
                }
            }
            Some(Meaning::References) => self.references(t, e),
            Some(Meaning::Operator) | None => self.location(t, e).unwrap_or_else(|| self.register(t, e)),
        }
    }

    /// Returns whether an event refers to a target. Accesses to a register are found by its name, and other references
    /// by a search.
    fn references(&self, t: &Test, e: u64) -> bool {
        let text = match &t.condition {
            Condition::Target(Value::Number { value, .. }) => format!("{value:#x}"),
            Condition::Target(Value::Name(n)) => n.text.clone(),
            other => unreachable!("{other:?}"),
        };
        let map = self.device().map(RecordedRegisters::map);
        if map.is_some_and(|m| m.find_by_name(&text).is_some()) {
            return self.registers(e).is_some_and(|names| names.contains(&text));
        }
        let mut known = self.references.borrow_mut();
        known
            .entry(text)
            .or_insert_with_key(|text| self.find_references(text))
            .contains(&e)
    }

    /// Returns the events that refer to a target, not only to its page.
    fn find_references(&self, text: &str) -> BTreeSet<u64> {
        let submits: Vec<Submit> = (0u32..)
            .zip(&self.derived.jobs)
            .map(|(index, j)| Submit {
                index,
                event: j.submit,
                head_va: j.head_va,
            })
            .collect();
        let progress = Progress::new();
        let index = XrefIndex::new(self.recording, &submits, &progress).unwrap();
        let target = xref::parse_target(self.recording, None, (0, text), &progress).unwrap();
        let found = xref::find_references(self.recording, &index, target, (u64::MAX, usize::MAX), &progress);
        let own = found.unwrap().list.into_iter().filter(|r| !r.is_page_only);
        own.filter_map(|r| r.event).collect()
    }

    fn device(&self) -> Option<RecordedRegisters> {
        RecordedRegisters::new(self.recording)
    }

    fn kind(&self, k: Kind, e: u64) -> bool {
        let stored = self.recording.events.kind(e as usize);
        match k {
            Kind::Stored(k) => stored == Some(k),
            Kind::Access => matches!(stored, Some(EventKind::Read | EventKind::Write)),
            Kind::Unknown => stored.is_none(),
            Kind::Interrupt => {
                stored == Some(EventKind::Interrupt) || self.derived.interrupts.iter().any(|i| i.event == e)
            }
            Kind::Submit => stored == Some(EventKind::Submit) || self.derived.jobs.iter().any(|j| j.submit == e),
            Kind::Poll => self.derived.polls.iter().any(|p| p.0 <= e && e <= p.1),
        }
    }

    /// Returns the number of an event; several if an interrupt was found twice at one event.
    fn numbers(&self, n: Number, e: u64) -> Vec<u64> {
        let events = &self.recording.events;
        let at = e as usize;
        let access = events.access(at);
        let undecoded = events.undecoded(at);
        let one = match n {
            Number::Event => Some(e),
            Number::Time => events.time.get(at),
            Number::Thread => events.thread.get(at).map(u64::from),
            Number::Offset => access
                .map(|a| a.offset)
                .or(undecoded.map(|u| u.offset))
                .map(|o| u64::from(o.get())),
            Number::Width => access
                .map(|a| a.width)
                .or(undecoded.and_then(|u| u.width()))
                .map(u64::from),
            Number::Value => access.map(|a| a.value),
            Number::Job => self.job(e),
            Number::CallResult => events.call(at).map(|c| u64::from(c.result())),
            Number::Input => self.input(e).map(|n| n as u64),
            Number::Line | Number::Status => {
                let number_of = |line: u32, status: u64| if n == Number::Line { u64::from(line) } else { status };
                if let Some(r) = events.interrupt(at) {
                    return vec![number_of(r.line, u64::from(r.status))];
                }
                let found = self.derived.interrupts.iter().filter(|i| i.event == e);
                return found.map(|i| number_of(i.line, i.status)).collect();
            }
            Number::Address => match events.kind(at) {
                Some(EventKind::Submit) => events
                    .payload
                    .get(at)
                    .and_then(|p| events.submits.get(p as usize))
                    .map(|s| s.head_va.get()),
                Some(EventKind::HostWrite) => events.host_write(at).map(|w| w.at.get()),
                Some(EventKind::DmaMap) => events
                    .dma_map(at)
                    .map(|d| d.bus)
                    .filter(|b| *b != DmaMapRow::UNKNOWN)
                    .map(BusAddr::get),
                _ => self
                    .derived
                    .jobs
                    .iter()
                    .find(|j| j.submit == e)
                    .map(|j| j.head_va.get()),
            },
            Number::Bytes => events
                .host_write(at)
                .map(|w| u64::from(w.bytes))
                .or(events.dma_map(at).map(|d| d.bytes)),
        };
        one.into_iter().collect()
    }

    fn call_name(&self, e: u64) -> Option<Vec<String>> {
        let Some(CallEvent::Call(row)) = self.recording.events.call(e as usize) else {
            return None;
        };
        let name = self.recording.api()?.names.get(row.name as usize)?;
        Some(vec![name.clone()])
    }

    fn input(&self, e: u64) -> Option<usize> {
        let inputs = &self.derived.inputs;
        inputs.iter().position(|i| i.events.0 <= e && e <= i.events.1)
    }

    fn job(&self, e: u64) -> Option<u64> {
        let jobs = &self.derived.jobs;
        let prepared = || {
            let access = self.recording.events.access(e as usize)?;
            let register = self.device()?.find_accessed(&access).filter(|_| access.write)?;
            let role = register.replay.role?;
            if ![Role::JobHead, Role::JobAffinity, Role::JobConfig, Role::FlushId].contains(&role) {
                return None;
            }
            let slot = register.index?;
            let next = jobs.iter().position(|j| j.slot == slot && j.submit >= e)?;
            (jobs[next].submit - e <= MAX_EVENTS_BEFORE_SUBMIT).then_some(next as u64)
        };
        let running = || {
            let submitted = jobs.iter().enumerate().filter(|(_, j)| j.submit <= e);
            let last: Vec<_> = submitted.collect();
            let last = last.iter().rev().take(8);
            let mut open = last.filter(|(_, j)| j.done.is_none_or(|d| e <= d));
            open.next().map(|(n, _)| *n as u64)
        };
        prepared().or_else(running)
    }

    /// Evaluates a test of a location, `bar1+0x10`; `None` for a name that is not a location.
    fn location(&self, t: &Test, e: u64) -> Option<bool> {
        let (space, offset) = t.left.text.rsplit_once('+')?;
        let offset = match offset.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => offset.parse().unwrap(),
        };
        let is_inside = self
            .space(e)
            .is_some_and(|s| s.iter().any(|s| s.eq_ignore_ascii_case(space)))
            && self.numbers(Number::Offset, e) == [offset];
        let bare = t.condition == Condition::Bare && t.mask.is_none();
        let value = || {
            let values = self.numbers(Number::Value, e);
            values.into_iter().any(|v| holds(t, v, &|_| unreachable!()))
        };
        Some(is_inside && (bare || value()))
    }

    fn space(&self, e: u64) -> Option<Vec<String>> {
        let events = &self.recording.events;
        if events.access(e as usize).is_none() && events.undecoded(e as usize).is_none() {
            return None;
        }
        let space = events.space.get(e as usize)?;
        let name = self.recording.metadata.spaces.get(usize::from(space));
        Some(name.map(|s| s.name.clone()).into_iter().collect())
    }

    fn mark(&self, e: u64) -> Option<Vec<String>> {
        let events = &self.recording.events;
        if events.kind(e as usize)? != EventKind::Mark {
            return None;
        }
        let text = events.marks.get(events.payload.get(e as usize)? as usize)?;
        Some(vec![text.clone()])
    }

    /// Returns every name of the registers that an access covers.
    fn registers(&self, e: u64) -> Option<Vec<String>> {
        let access = self.recording.events.access(e as usize)?;
        let device = self.device()?;
        let mut names = vec![device.name_of(&access)?.into_owned()];
        for p in device.map().covered_registers(access.offset, access.width) {
            let r = p.register;
            names.push(r.name.clone());
            names.extend(r.wide.as_ref().map(|w| w.name.clone()));
        }
        Some(names)
    }

    fn without_numbers(&self, e: u64) -> Vec<String> {
        let (Some(access), Some(device)) = (self.recording.events.access(e as usize), self.device()) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for p in device.map().covered_registers(access.offset, access.width) {
            let Some(i) = p.register.index else { continue };
            let wide = p.register.wide.as_ref().map(|w| w.name.clone());
            let own_names = std::iter::once(p.register.name.clone()).chain(wide);
            names.extend(own_names.map(|n| n.replacen(&i.to_string(), "", 1)));
        }
        names
    }

    fn blocks(&self, e: u64) -> Option<Vec<String>> {
        let access = self.recording.events.access(e as usize)?;
        let device = self.device().filter(|d| d.space() == access.space)?;
        let parts = device.map().covered_registers(access.offset, access.width);
        let blocks: Vec<String> = parts.map(|p| p.register.block.clone()).collect();
        (!blocks.is_empty()).then_some(blocks)
    }

    /// Evaluates a test of a register, a field of it, or a part of a name.
    fn register(&self, t: &Test, e: u64) -> bool {
        let Some(access) = self.recording.events.access(e as usize) else {
            return false;
        };
        let Some(device) = self.device().filter(|d| d.space() == access.space) else {
            return false;
        };
        let name = t.left.text.to_lowercase();
        let parts = || device.map().covered_registers(access.offset, access.width);
        if t.condition == Condition::Bare && t.mask.is_none() && !name.contains('.') {
            let holds = |text: &str| text.to_lowercase().contains(&name);
            if device.map().registers().any(|r| holds(&r.name) || holds(&r.block)) {
                return parts().any(|p| holds(&p.register.name) || holds(&p.register.block));
            }
            return parts().any(|p| {
                let r = p.register;
                let index = r.index.map(|i| i.to_string());
                let wide = r.wide.as_ref().map(|w| w.name.clone());
                let mut all = std::iter::once(r.name.clone()).chain(wide);
                all.any(|n| {
                    index
                        .as_ref()
                        .is_some_and(|i| n.replacen(i, "", 1).eq_ignore_ascii_case(&name))
                })
            });
        }
        let (register, field) = match name.rsplit_once('.') {
            Some((r, f)) => (r.to_owned(), Some(f.to_owned())),
            None => (name.clone(), None),
        };
        // Every bit of the access, with the corresponding bit of the whole register.
        let mut bits: Vec<(u32, u32)> = Vec::new();
        let mut layout = None;
        let known = |n: &str| device.map().registers().any(|r| r.name.eq_ignore_ascii_case(n));
        let known_wide = |n: &str| {
            let mut wides = device.map().registers().filter_map(|r| r.wide.as_ref());
            wides.any(|w| w.name.eq_ignore_ascii_case(n))
        };
        let known_without = device.map().registers().any(|r| {
            r.index
                .is_some_and(|i| r.name.replacen(&i.to_string(), "", 1).eq_ignore_ascii_case(&register))
        });
        for p in parts() {
            let r = p.register;
            let without = |n: &str| r.index.map(|i| n.replacen(&i.to_string(), "", 1));
            let named = |n: &str| n.eq_ignore_ascii_case(&register);
            let wide = r.wide.as_ref();
            let is_single = if known(&register) {
                named(&r.name)
            } else if known_wide(&register) {
                false
            } else {
                without(&r.name).is_some_and(|n| named(&n))
            };
            let of_wide = !known(&register)
                && wide.is_some_and(|w| {
                    named(&w.name)
                        || !known_wide(&register) && !known_without && without(&w.name).is_some_and(|n| named(&n))
                });
            let base = match r.pair {
                _ if is_single => 0,
                Some(Half::Low { .. }) if of_wide => 0,
                Some(Half::High { .. }) if of_wide => 32,
                _ => continue,
            };
            let all = if is_single { &r.layout } else { wide.unwrap().as_ref() };
            layout = Some((all, if is_single { u32::from(r.width) * 8 } else { 64 }));
            for bit in 0..u32::from(p.bytes) * 8 {
                bits.push((base + u32::from(p.byte) * 8 + bit, u32::from(p.at) * 8 + bit));
            }
        }
        let Some((layout, width)) = layout else { return false };
        let found: Option<&Field> =
            field.map(|f| layout.fields.iter().find(|x| x.name.eq_ignore_ascii_case(&f)).unwrap());
        let (lo, hi) = found.map_or((0, width - 1), |f| (f.lo, f.hi));
        let mut raw = 0u64;
        for bit in lo..=hi {
            let Some((_, from)) = bits.iter().find(|b| b.0 == bit) else {
                return false;
            };
            raw |= (access.value >> from & 1) << (bit - lo);
        }
        let enums: &[(u64, String)] = match found.map(|f| &f.kind) {
            Some(FieldKind::Enum(names)) => names,
            None => match layout.fields.as_ref() {
                [only] => match &only.kind {
                    FieldKind::Enum(names) => names,
                    _ => &[],
                },
                _ => &[],
            },
            _ => &[],
        };
        let name = |n: &TypedText| match n.text.to_lowercase().as_str() {
            "yes" if enums.is_empty() => 1,
            "no" if enums.is_empty() => 0,
            text => enums.iter().find(|(_, n)| n.eq_ignore_ascii_case(text)).unwrap().0,
        };
        if t.condition == Condition::Bare && t.mask.is_none() {
            return raw != 0;
        }
        let reported = match found.map(|f| &f.kind) {
            Some(FieldKind::NumberPlusOne) => raw.saturating_add(1),
            Some(FieldKind::PowerOfTwo) => 1u64.checked_shl(raw as u32).unwrap_or(u64::MAX),
            Some(FieldKind::Address { shift }) => raw.checked_shl(*shift).unwrap_or(0),
            _ => raw & low_bits(hi - lo + 1),
        };
        holds(t, reported, &name)
    }
}

fn name_of(v: &Value) -> &str {
    match v {
        Value::Name(n) => &n.text,
        Value::Number { .. } => unreachable!(),
    }
}

fn holds(t: &Test, v: u64, name: &dyn Fn(&TypedText) -> u64) -> bool {
    let number_of = |v: &Value| match v {
        Value::Number { value, .. } => *value,
        Value::Name(n) => name(n),
    };
    let x = v & t.mask.unwrap_or(u64::MAX);
    match &t.condition {
        Condition::Bare => t.mask.is_none() || x != 0,
        Condition::Compare(o, v) => match o {
            Comparison::Equal => x == number_of(v),
            Comparison::Differs => x != number_of(v),
            Comparison::Less => x < number_of(v),
            Comparison::More => x > number_of(v),
            Comparison::AtMost => x <= number_of(v),
            Comparison::AtLeast => x >= number_of(v),
        },
        Condition::Within {
            not,
            first,
            end,
            inclusive,
            ..
        } => {
            let before_end = |e: &Value| x < number_of(e) || *inclusive && x == number_of(e);
            let inside = first.as_ref().is_none_or(|f| x >= number_of(f)) && end.as_ref().is_none_or(before_end);
            inside != *not
        }
        Condition::Among { not, values } => values.iter().any(|v| x == number_of(v)) != *not,
        Condition::Match { .. } | Condition::Target(_) => unreachable!(),
    }
}
