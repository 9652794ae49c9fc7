//! Compilation of a query for a recording to a filter, with all names resolved and all numbers as ranges.

use super::conditions::{Names, kind_error, names, numbers, operator, unexpected_operand};
use super::context::{Derived, Interrupt, JobBounds, Jobs};
use super::edit_distance::nearest;
use super::error::{FilterError, FilterErrorKind};
use super::keywords::{KEYWORDS, Keyword, Kind, Meaning, Name, Number};
use super::number::NumberTest;
use super::register_tests::{FieldTest, Registers};
use super::syntax::{Condition, Node, Query, Test, TypedText, Value};
use crate::check::Submit;
use crate::progress::Progress;
use crate::recording::{EventKind, InterruptLine, Recording};
use crate::registers::RecordedRegisters;
use crate::xref::{self, XrefData as _, XrefIndex};
use regex::Regex;
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum number of references of one target.
const MAX_FOUND: usize = 1 << 20;

/// A filter of one recording's events. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Filter {
    pub(super) check: Arc<Check>,
}

/// A numeric column that can be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Event,
    Time,
    Thread,
    Space,
    Offset,
    Width,
    Value,
}

/// Kinds of events, one bit each by their number; bit 0 for unknown kinds.
pub(super) type Kinds = u32;

/// A part of a filter with all names resolved.
#[derive(Debug)]
pub(super) enum Check {
    Always(bool),
    And(Vec<Check>),
    Or(Vec<Check>),
    Not(Box<Check>),
    Kind(Kinds),
    Number(Column, NumberTest),
    Job(Arc<Jobs>, NumberTest),
    /// Events of some kinds, and additional events by index.
    Events(Kinds, Arc<[u64]>),
    /// Events between a first and a last one, inclusive.
    Spans(Arc<[(u64, u64)]>),
    Irq {
        status: bool,
        found: Arc<[Interrupt]>,
        test: NumberTest,
    },
    /// Submits, with the address of the chain.
    Address(Arc<[(u64, u64)]>, NumberTest),
    Bytes(NumberTest),
    /// Calls with one of these names, by the number of the name.
    CallName(Arc<[bool]>),
    /// Calls with a result.
    CallResult(NumberTest),
    Registers(Arc<Registers>),
    Part(Arc<FieldTest>),
    Text(TextTest),
}

/// A test of the text of a mark.
#[derive(Debug)]
pub(super) struct TextTest {
    which: TextPattern,
    not: bool,
}

#[derive(Debug)]
enum TextPattern {
    Any,
    One(Vec<String>),
    Matches(Regex),
}

impl TextTest {
    pub fn is_match(&self, text: &str) -> bool {
        let is = match &self.which {
            TextPattern::Any => true,
            TextPattern::One(all) => all.iter().any(|t| t == text),
            TextPattern::Matches(r) => r.is_match(text),
        };
        is != self.not
    }
}

impl Check {
    /// Returns the approximate cost per event; cheap checks are evaluated first.
    fn cost(&self) -> u32 {
        match self {
            Self::Always(_) => 0,
            Self::Number(Column::Event, _) | Self::Spans(_) => 1,
            Self::Kind(_) | Self::Events(..) => 2,
            Self::Number(Column::Thread | Column::Space | Column::Width, _) => 4,
            Self::Number(Column::Offset, _) => 5,
            Self::Number(..) => 9,
            Self::Irq { .. } | Self::Address(..) | Self::Bytes(_) | Self::CallName(_) => 6,
            Self::Text(_) | Self::CallResult(_) => 7,
            Self::Part(_) => 10,
            Self::Registers(_) => 12,
            Self::Job(..) => 14,
            Self::And(all) | Self::Or(all) => all.iter().map(Self::cost).sum(),
            Self::Not(c) => c.cost(),
        }
    }
}

impl Query {
    /// Compiles the filter for a recording. `derived` is the data found in its events. It is required if
    /// [`Query::needs_derived`] says so; without it there are no jobs and no polls.
    ///
    /// # Errors
    /// A name that the recording does not have, or an invalid comparison, with its position.
    pub fn compile(&self, recording: &Recording, derived: Option<&Derived>) -> Result<Filter, FilterError> {
        let none = Derived::default();
        let mut c = Compiler {
            recording,
            device: RecordedRegisters::new(recording).filter(|d| d.has_map()),
            derived: derived.unwrap_or(&none),
            jobs: None,
            interrupts: None,
            xref_index: None,
        };
        let check = c.node(&self.root)?;
        Ok(Filter { check: Arc::new(check) })
    }
}

/// The recording that a query is compiled for, with what tests look up in it.
pub(super) struct Compiler<'a> {
    pub(super) recording: &'a Recording,
    pub(super) device: Option<RecordedRegisters>,
    derived: &'a Derived,
    jobs: Option<Arc<Jobs>>,
    interrupts: Option<Arc<[Interrupt]>>,
    xref_index: Option<Arc<XrefIndex>>,
}

const READ: Kinds = 1 << EventKind::Read as u32;
const WRITE: Kinds = 1 << EventKind::Write as u32;

impl Compiler<'_> {
    fn node(&mut self, node: &Node) -> Result<Check, FilterError> {
        let mut all = |nodes: &[Node]| {
            let mut checks = nodes.iter().map(|n| self.node(n)).collect::<Result<Vec<_>, _>>()?;
            checks.sort_by_key(Check::cost);
            Ok::<_, FilterError>(checks)
        };
        Ok(match node {
            Node::All => Check::Always(true),
            Node::And(nodes) => Check::And(all(nodes)?),
            Node::Or(nodes) => Check::Or(all(nodes)?),
            Node::Not(n) => Check::Not(Box::new(self.node(n)?)),
            Node::Test(t) => self.test(t)?,
        })
    }

    fn test(&mut self, t: &Test) -> Result<Check, FilterError> {
        let word = Keyword::find(&t.left.text).filter(|_| !t.left.quoted);
        match word.map(|w| w.meaning) {
            Some(Meaning::Number(n)) => self.number(t, n),
            Some(Meaning::Name(n)) => {
                if t.mask.is_some() {
                    return Err(operator(t, "&", "it has no bits"));
                }
                self.name(t, n)
            }
            Some(Meaning::Kind(k)) => match (&t.condition, t.mask) {
                (Condition::Bare, None) => Ok(self.kind(k)),
                _ => Err(unexpected_operand(t)),
            },
            Some(Meaning::References) => self.references(t),
            Some(Meaning::Operator) | None => self.compile_register(t),
        }
    }

    /// Compiles `references`: the events at which the target is referred to, not only its page.
    fn references(&mut self, t: &Test) -> Result<Check, FilterError> {
        let (text, span) = match &t.condition {
            Condition::Target(Value::Number { time: true, span, .. }) => {
                return Err(kind_error(t, "a number without a unit of time", span.clone()));
            }
            Condition::Target(Value::Number { value, span, .. }) => (format!("{value:#x}"), span.clone()),
            Condition::Target(Value::Name(n)) => (n.text.clone(), n.span.clone()),
            _ => return Err(unexpected_operand(t)),
        };
        // Nobody can cancel this local progress.
        let progress = Progress::new();
        let recording = self.recording;
        let index = match &self.xref_index {
            Some(index) => Arc::clone(index),
            None => {
                let jobs = (0u32..).zip(&self.derived.jobs);
                let submit = |(index, j): (u32, &JobBounds)| Submit {
                    index,
                    event: j.submit,
                    head_va: j.head_va,
                };
                let submits: Vec<Submit> = jobs.map(submit).collect();
                Arc::new(XrefIndex::new(recording, &submits, &progress).unwrap_or_default())
            }
        };
        self.xref_index = Some(Arc::clone(&index));
        let target = xref::parse_target(recording, index.api_trace(), (0, &text), &progress)
            .map_err(|e| FilterError::new(FilterErrorKind::Target(e), span.clone()))?;
        let found = xref::find_references(recording, &*index, target, (u64::MAX, MAX_FOUND), &progress);
        let found = found.unwrap_or_default();
        if found.list.len() >= MAX_FOUND {
            return Err(FilterError::new(FilterErrorKind::TooManyReferences, span));
        }
        let own = found.list.iter().filter(|r| !r.is_page_only);
        let mut events: Vec<u64> = own.filter_map(|r| r.event).collect();
        events.dedup();
        Ok(Check::Events(0, Arc::from(events)))
    }

    fn kind(&self, kind: Kind) -> Check {
        let sorted = |mut events: Vec<u64>| {
            events.sort_unstable();
            Arc::from(events)
        };
        match kind {
            Kind::Stored(k) => Check::Kind(1 << k as u32),
            Kind::Access => Check::Kind(READ | WRITE),
            Kind::Unknown => Check::Kind(1),
            Kind::Interrupt => Check::Events(
                1 << EventKind::Interrupt as u32,
                sorted(self.derived.interrupts.iter().map(|i| i.event).collect()),
            ),
            Kind::Submit => Check::Events(
                1 << EventKind::Submit as u32,
                sorted(self.derived.jobs.iter().map(|j| j.submit).collect()),
            ),
            Kind::Poll => {
                let mut spans = self.derived.polls.clone();
                spans.sort_unstable();
                Check::Spans(Arc::from(spans))
            }
        }
    }

    fn number(&mut self, t: &Test, n: Number) -> Result<Check, FilterError> {
        let time = n == Number::Time;
        let test = match n {
            Number::Line => numbers(t, time, &|name| {
                let all = [InterruptLine::Job, InterruptLine::Mmu, InterruptLine::Gpu];
                let line = all.iter().find(|l| l.name().eq_ignore_ascii_case(&name.text));
                let unknown = || unknown("interrupt line", name, all.map(InterruptLine::name));
                line.map(|l| *l as u64).ok_or_else(unknown)
            })?,
            _ => numbers(t, time, &|name| {
                let wants = if time { "a number or a time" } else { "a number" };
                Err(kind_error(t, wants, name.span.clone()))
            })?,
        };
        Ok(match n {
            Number::Event => Check::Number(Column::Event, test),
            Number::Time => Check::Number(Column::Time, test),
            Number::Thread => Check::Number(Column::Thread, test),
            Number::Offset => Check::Number(Column::Offset, test),
            Number::Width => Check::Number(Column::Width, test),
            Number::Value => Check::Number(Column::Value, test),
            Number::Job => {
                let (derived, device) = (self.derived, self.device);
                let jobs = self.jobs.get_or_insert_with(|| Arc::new(Jobs::new(derived, device)));
                Check::Job(Arc::clone(jobs), test)
            }
            Number::Line | Number::Status => {
                let derived = self.derived;
                let found = self.interrupts.get_or_insert_with(|| {
                    let mut all = derived.interrupts.clone();
                    all.sort_by_key(|i| i.event);
                    Arc::from(all)
                });
                Check::Irq {
                    status: n == Number::Status,
                    found: Arc::clone(found),
                    test,
                }
            }
            Number::Address => {
                let mut submits: Vec<_> = self.derived.jobs.iter().map(|j| (j.submit, j.head_va.get())).collect();
                submits.sort_unstable();
                Check::Address(Arc::from(submits), test)
            }
            Number::Bytes => Check::Bytes(test),
            Number::CallResult => Check::CallResult(test),
            Number::Input => self.input_spans(|number| test.is_match(number)),
        })
    }

    fn name(&mut self, t: &Test, name: Name) -> Result<Check, FilterError> {
        match name {
            Name::Register | Name::Block => self.registers(t, name == Name::Block),
            Name::Space => self.space(t),
            Name::Kind => self.kinds(t),
            Name::Call => self.call_names(t),
            Name::Input => self.inputs(t),
            Name::Text => {
                let (which, not) = match names(t)? {
                    Names::Any => (TextPattern::Any, false),
                    Names::Exact(all, not) => {
                        (TextPattern::One(all.into_iter().map(|n| n.text.clone()).collect()), not)
                    }
                    Names::Matching(r, not) => (TextPattern::Matches(r), not),
                };
                Ok(Check::Text(TextTest { which, not }))
            }
        }
    }

    fn call_names(&self, t: &Test) -> Result<Check, FilterError> {
        // A recording without calls has no names. The name may be valid for another recording.
        let Some(api) = self.recording.api() else {
            return Ok(Check::Always(false));
        };
        let found = find_names(t, "call", &api.names)?;
        Ok(Check::CallName(found.into()))
    }

    fn inputs(&self, t: &Test) -> Result<Check, FilterError> {
        let inputs = &self.derived.inputs;
        if inputs.is_empty() {
            return Ok(Check::Always(false));
        }
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let found = find_names(t, "input", &names)?;
        Ok(self.input_spans(|number| {
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            found.get(number).copied().unwrap_or(false)
        }))
    }

    /// Returns a check for the events of the inputs for which `passes` returns `true`.
    fn input_spans(&self, passes: impl Fn(u64) -> bool) -> Check {
        let inputs = (0u64..).zip(&self.derived.inputs);
        let mut spans: Vec<_> = inputs.filter(|(n, _)| passes(*n)).map(|(_, i)| i.events).collect();
        spans.sort_unstable();
        Check::Spans(Arc::from(spans))
    }

    fn space(&self, t: &Test) -> Result<Check, FilterError> {
        let spaces = &self.recording.metadata.spaces;
        let index = |name: &TypedText| {
            let at = spaces.iter().position(|s| s.name.eq_ignore_ascii_case(&name.text));
            let all = || unknown("space", name, spaces.iter().map(|s| s.name.as_str()));
            at.map(|n| n as u64).ok_or_else(all)
        };
        let (found, not) = match names(t)? {
            Names::Any => {
                return Ok(Check::Number(
                    Column::Space,
                    NumberTest::new(None, vec![(0, u64::MAX)], false),
                ));
            }
            Names::Exact(all, not) => {
                let found: Vec<u64> = all.into_iter().map(index).collect::<Result<_, _>>()?;
                (found, not)
            }
            Names::Matching(r, not) => {
                let found = (0u64..).zip(spaces).filter(|(_, s)| r.is_match(&s.name));
                (found.map(|(n, _)| n).collect(), not)
            }
        };
        let ranges = found.into_iter().map(|n| (n, n)).collect();
        Ok(Check::Number(Column::Space, NumberTest::new(None, ranges, not)))
    }

    fn kinds(&self, t: &Test) -> Result<Check, FilterError> {
        let all = || {
            KEYWORDS.iter().filter_map(|w| match w.meaning {
                Meaning::Kind(k) => Some((w.name, k)),
                _ => None,
            })
        };
        let (found, not): (Vec<Kind>, bool) = match names(t)? {
            Names::Any => return Ok(Check::Always(true)),
            Names::Exact(typed, not) => {
                let one = |n: &TypedText| match Keyword::find(&n.text).map(|w| w.meaning) {
                    Some(Meaning::Kind(k)) => Ok(k),
                    _ => Err(unknown("kind of event", n, all().map(|(name, _)| name))),
                };
                (typed.into_iter().map(one).collect::<Result<_, _>>()?, not)
            }
            Names::Matching(r, not) => (all().filter(|(n, _)| r.is_match(n)).map(|(_, k)| k).collect(), not),
        };
        let any = Check::Or(found.into_iter().map(|k| self.kind(k)).collect());
        Ok(if not { Check::Not(Box::new(any)) } else { any })
    }
}

/// Returns for each name of a list whether it passes a test. `what` is the kind of name in messages.
fn find_names<S: AsRef<str>>(t: &Test, what: &'static str, known: &[S]) -> Result<Vec<bool>, FilterError> {
    let each =
        |passes: &dyn Fn(&str) -> bool| -> Vec<bool> { known.iter().map(|name| passes(name.as_ref())).collect() };
    Ok(match names(t)? {
        Names::Any => each(&|_| true),
        Names::Exact(all, not) => {
            let mut wanted = HashSet::new();
            let lower: HashSet<String> = known.iter().map(|name| name.as_ref().to_lowercase()).collect();
            for name in all {
                let typed = name.text.to_lowercase();
                if !lower.contains(&typed) {
                    return Err(unknown(what, name, known.iter().map(|name| name.as_ref())));
                }
                wanted.insert(typed);
            }
            each(&|name| wanted.contains(&name.to_lowercase()) != not)
        }
        Names::Matching(r, not) => each(&|name| r.is_match(name) != not),
    })
}

/// Returns the error of an unknown name. `what` is its kind in the message.
pub(super) fn unknown<'k>(
    what: &'static str,
    name: &TypedText,
    known: impl IntoIterator<Item = &'k str>,
) -> FilterError {
    let near = nearest(&name.text, known).map(str::to_owned);
    let word = name.text.clone();
    FilterError::new(FilterErrorKind::Unknown { what, word, near }, name.span.clone())
}
