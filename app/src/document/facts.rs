//! What the window knows of a recording beyond the recording itself, put together once, apart from the interface
//! thread: names, lanes, polls, interrupts, jobs with their chains, mappings with their content, findings.
//!
//! Frames look things up here and never walk a whole list: what a panel needs of all of them is counted, sorted or
//! summed up when the facts come in.

use super::axis::Axis;
use super::buffer_index::BufferIndex;
use super::job_index::JobIndex;
use super::jobs::{Chain, JobFact};
use super::page_usage::{JobAddresses, PageUsage};
use super::spaces::SpaceFact;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use trace_core::calls::Calls;
use trace_core::check::{Finding, Severity};
use trace_core::filter::{self, Derived, JobBounds};
use trace_core::recording::{Access, BufferRole, CallFacts, ChainReport, InterruptLine, Recording};
use trace_core::registers::{Accesses, RecordedRegisters, RegisterMap, Role, format_location, has_several_spaces};
use trace_core::timeline::{Pyramid, StoredTimeline};

/// Most events between a write that makes a job ready and its submit; other threads access registers in between.
const AHEAD: u64 = 256;

/// Reads that waited for a condition, folded.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    /// First event.
    pub first: u64,
    /// Last event.
    pub last: u64,
    /// Reads in it.
    pub reads: u64,
    /// Offset of the register that was read.
    pub offset: u32,
}

/// An interrupt, found by its handler's reads or recorded as such.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// First event of the handler.
    pub event: u64,
    /// Its line.
    pub line: InterruptLine,
    /// Status bits.
    pub status: u64,
}

/// A phase of the recording.
#[derive(Clone, Debug)]
pub struct PhaseFact {
    /// Its name.
    pub name: String,
    /// First event.
    pub first: u64,
    /// Last event.
    pub last: u64,
}

/// A register as the recording uses it.
#[derive(Clone, Debug)]
pub struct RegisterFact {
    /// Its name, or its offset in hex.
    pub name: String,
    /// Its block.
    pub block: String,
    /// Its accesses.
    pub accesses: Accesses,
}

/// What is found out one after another, each in a piece of work of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Polls, interrupts, jobs, phases.
    Timeline,
    /// Buffers that copies carry, of an API trace. Those of other recordings are known from the begin.
    Buffers,
    /// Buffers, launches and who touches what, of a recording of calls.
    Calls,
    /// Which events access which register.
    Registers,
    /// What jobs do.
    Chains,
    /// Mappings.
    Spaces,
    /// Findings.
    Findings,
    /// Damage of the file.
    File,
}

impl Stage {
    /// All stages, in the order in which they are found out.
    pub const ALL: [Self; 8] = [
        Self::Timeline,
        Self::Buffers,
        Self::Calls,
        Self::Registers,
        Self::Chains,
        Self::Spaces,
        Self::Findings,
        Self::File,
    ];

    /// What is going on, for the person.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Timeline => "finding jobs, interrupts and polls",
            Self::Buffers => "listing inputs and outputs",
            Self::Calls => "following buffers through the calls",
            Self::Registers => "sorting accesses by register",
            Self::Chains => "decoding job chains",
            Self::Spaces => "walking page tables",
            Self::Findings => "checking the recording",
            Self::File => "comparing the file with its digests",
        }
    }
}

/// What a stage found out.
#[derive(Debug)]
pub enum Part {
    /// Of [`Stage::Timeline`].
    Timeline(Box<TimelinePart>),
    /// Of [`Stage::Buffers`], which the document keeps.
    Buffers(Box<BufferIndex>),
    /// Of [`Stage::Calls`]; `None` where it is no recording of calls.
    Calls(Option<Arc<Calls>>),
    /// Of [`Stage::Registers`].
    Registers(BTreeMap<u32, RegisterFact>),
    /// Of [`Stage::Chains`]: for each job; and how those ended that the recording tells of.
    Chains(Box<ChainsPart>),
    /// Of [`Stage::Spaces`].
    Spaces(Vec<SpaceFact>),
    /// Of [`Stage::Findings`].
    Findings(Vec<Finding>),
    /// Of [`Stage::File`].
    File(Vec<Finding>),
}

/// Polls, interrupts, jobs, gaps, phases.
#[derive(Debug, Default)]
pub struct TimelinePart {
    /// As [`Facts::polls`].
    pub polls: Vec<Fold>,
    /// As [`Facts::interrupts`].
    pub interrupts: Vec<Interrupt>,
    /// As [`Facts::jobs`], without their chains.
    pub jobs: Vec<JobFact>,
    /// As [`Facts::gaps`].
    pub gaps: Vec<(u64, u64)>,
    /// As [`Facts::phases`].
    pub phases: Vec<PhaseFact>,
    /// The jobs in the orders in which they are looked up.
    pub index: JobIndex,
}

/// What jobs were told to do.
#[derive(Debug, Default)]
pub struct ChainsPart {
    /// For each job.
    pub chains: Vec<Arc<Chain>>,
    /// How those ended that the recording tells of.
    pub reports: Vec<ChainReport>,
    /// What these jobs name.
    pub places: JobAddresses,
}

/// Findings of one severity.
#[derive(Clone, Debug, Default)]
pub struct SeverityGroup {
    /// How many there are.
    pub count: usize,
    /// Index of the first one.
    pub first: usize,
    /// Their events, in order, where they have one.
    pub events: Vec<u64>,
}

/// What is known.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where events lie in time.
    pub axis: Axis,
    /// How many events of each lane lie where.
    pub pyramid: Pyramid,
    /// For each lane, reads and writes in the whole recording.
    pub lane_totals: Vec<(u32, u32)>,
    /// What it tells of a driver's calls, where it is a recording of these.
    pub calls: Option<CallFacts>,
    /// What follows from these calls, once it is found out.
    pub api_trace: Option<Arc<Calls>>,
    /// What is not found out yet, in the order in which it will be.
    pub pending: Vec<Stage>,
    /// The timeline that the file keeps, until it is read.
    pub(super) kept_timeline: Option<StoredTimeline>,
    /// Buffers as they are listed: inputs, outputs, the others; indices into the recording's list.
    pub buffers: Vec<u32>,
    /// Shapes of buffers by name, the length of each dimension, the slowest first; of those that the recording tells.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Names of registers that nobody sorted accesses of yet.
    pub map: Option<&'static RegisterMap>,
    /// The same with the space that the registers are in.
    pub device: Option<RecordedRegisters>,
    /// Number of the space that the registers are in, whether or not a map knows them.
    pub register_space: u8,
    /// Registers by offset.
    pub registers: BTreeMap<u32, RegisterFact>,
    /// Polls, by first event.
    pub polls: Vec<Fold>,
    /// Interrupts, by event.
    pub interrupts: Vec<Interrupt>,
    /// Jobs, by submit.
    pub jobs: Vec<JobFact>,
    /// Phases, in order.
    pub phases: Vec<PhaseFact>,
    /// Jobs by slot: indices into the list. Neither submits nor ends of one slot ever fall.
    pub slots: Vec<Vec<u32>>,
    /// Submits of jobs that failed, in order.
    pub failed: Vec<u64>,
    /// The longest job, ns.
    pub longest_ns: u64,
    /// Addresses of job headers with the job, ascending.
    pub(super) heads: Vec<(u64, u32)>,
    /// Idle gaps: event after which, nanoseconds.
    pub gaps: Vec<(u64, u64)>,
    /// Address spaces.
    pub spaces: Vec<SpaceFact>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Findings by severity: errors, warnings, notes.
    pub by_severity: [SeverityGroup; 3],
    /// Named places of GPU memory.
    pub page_usage: PageUsage,
    /// What could not be found out, and why.
    pub gaps_in_knowledge: Vec<String>,
}

/// Severities in the order of [`Facts::by_severity`].
pub const SEVERITIES: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Note];

impl Facts {
    /// Whether a stage is over.
    #[must_use]
    pub fn has_stage(&self, stage: Stage) -> bool {
        !self.pending.contains(&stage)
    }

    /// Takes up what a stage found out.
    pub fn take(&mut self, part: Part) {
        let stage = match part {
            Part::Timeline(t) => {
                self.take_timeline(*t);
                Stage::Timeline
            }
            Part::Buffers(_) => Stage::Buffers,
            Part::Calls(c) => {
                self.api_trace = c;
                Stage::Calls
            }
            Part::Registers(r) => {
                self.registers = r;
                Stage::Registers
            }
            Part::Chains(c) => {
                self.take_chains(*c);
                Stage::Chains
            }
            Part::Spaces(s) => {
                self.spaces = s;
                Stage::Spaces
            }
            Part::Findings(f) => {
                self.take_findings(f);
                Stage::Findings
            }
            Part::File(damage) => {
                if !damage.is_empty() {
                    let others = std::mem::take(&mut self.findings);
                    self.take_findings(damage.into_iter().chain(others).collect());
                }
                Stage::File
            }
        };
        self.pending.retain(|s| *s != stage);
    }

    fn take_timeline(&mut self, t: TimelinePart) {
        self.slots = t.index.slots;
        self.failed = t.index.failed;
        self.longest_ns = t.index.longest_ns;
        self.heads = t.index.heads;
        self.page_usage.set_jobs(t.index.places);
        self.kept_timeline = None;
        self.polls = t.polls;
        self.interrupts = t.interrupts;
        self.jobs = t.jobs;
        self.gaps = t.gaps;
        self.phases = t.phases;
    }

    fn take_chains(&mut self, c: ChainsPart) {
        for report in c.reports {
            let job = self.jobs.binary_search_by_key(&report.submit_event, |j| j.submit);
            if let Some(job) = job.ok().and_then(|at| self.jobs.get_mut(at)) {
                job.report = Some(Arc::new(report));
            }
        }
        for (job, chain) in self.jobs.iter_mut().zip(c.chains) {
            job.chain = chain;
        }
        self.page_usage.set_jobs(c.places);
    }

    fn take_findings(&mut self, mut findings: Vec<Finding>) {
        findings.sort_by_key(|f| (std::cmp::Reverse(f.severity), f.event));
        for (severity, group) in SEVERITIES.iter().zip(&mut self.by_severity) {
            let of = || findings.iter().filter(|f| f.severity == *severity);
            group.count = of().count();
            group.first = findings.iter().position(|f| f.severity == *severity).unwrap_or(0);
            group.events = of().filter_map(|f| f.event).collect();
            group.events.sort_unstable();
        }
        self.findings = findings;
    }

    /// Puts buffers in the order in which they are listed.
    pub fn rank_buffers(&mut self, recording: &Recording) {
        let rank = |i: &u32| match recording.facts.buffers.get(*i as usize).map(|b| b.role) {
            Some(BufferRole::Input) => 0,
            Some(BufferRole::Output) => 1,
            _ => 2,
        };
        self.buffers = (0..recording.facts.buffers.len() as u32).collect();
        self.buffers.sort_by_key(rank);
        self.page_usage.set_buffers(&recording.facts.buffers);
    }

    /// Jobs whose header begins at these addresses, with the address.
    #[must_use]
    pub fn headers_in(&self, range: Range<u64>) -> &[(u64, u32)] {
        let at = |va: u64| self.heads.partition_point(|h| h.0 < va);
        self.heads.get(at(range.start)..at(range.end)).unwrap_or_default()
    }

    /// Whether the shader of a job begins at one of these addresses.
    #[must_use]
    pub fn has_shader_in(&self, range: Range<u64>) -> bool {
        self.page_usage.has_shader_in(range)
    }

    /// The poll that an event is part of.
    #[must_use]
    pub fn poll_at(&self, event: u64) -> Option<&Fold> {
        let n = self.polls.partition_point(|p| p.first <= event);
        self.polls.get(n.checked_sub(1)?).filter(|p| event <= p.last)
    }

    /// The job that runs at an event: submitted at or before it, not yet done before it.
    #[must_use]
    pub fn job_at(&self, event: u64) -> Option<&JobFact> {
        let n = self.jobs.partition_point(|j| j.submit <= event);
        self.jobs[..n]
            .iter()
            .rev()
            .take(8)
            .find(|j| j.done.is_none_or(|d| event <= d))
    }

    /// The job that a write makes ready: its slot's next submit takes up what the write says of head, cores,
    /// configuration or flush id.
    #[must_use]
    pub fn job_prepared_at(&self, recording: &Recording, event: u64) -> Option<&JobFact> {
        let access = recording.events.access(usize::try_from(event).ok()?)?;
        let register = self.device?.find_accessed(&access).filter(|_| access.write)?;
        let next = [Role::JobHead, Role::JobAffinity, Role::JobConfig, Role::FlushId];
        if !register.replay.role.as_ref().is_some_and(|r| next.contains(r)) {
            return None;
        }
        let slot = self.slots.get(usize::from(register.index?))?;
        let submit = |i: &u32| self.jobs.get(*i as usize).map_or(u64::MAX, |j| j.submit);
        let n = slot.partition_point(|i| submit(i) < event);
        let job = self.jobs.get(*slot.get(n)? as usize)?;
        (job.submit - event <= AHEAD).then_some(job)
    }

    /// The job that an event belongs to: the one that it makes ready, or the one that runs.
    #[must_use]
    pub fn job_of(&self, recording: &Recording, event: u64) -> Option<&JobFact> {
        self.job_prepared_at(recording, event).or_else(|| self.job_at(event))
    }

    /// What filters ask of the events beyond what is stored in them.
    #[must_use]
    pub fn derived(&self) -> Derived {
        Derived {
            jobs: self
                .jobs
                .iter()
                .map(|j| JobBounds {
                    slot: j.slot,
                    submit: j.submit,
                    done: j.done,
                    head_va: j.head_va,
                })
                .collect(),
            polls: self.polls.iter().map(|p| (p.first, p.last)).collect(),
            interrupts: self
                .interrupts
                .iter()
                .map(|i| filter::Interrupt {
                    event: i.event,
                    line: i.line as u32,
                    status: i.status,
                })
                .collect(),
        }
    }

    /// The job that an event submits.
    #[must_use]
    pub fn job_submitted_at(&self, event: u64) -> Option<&JobFact> {
        let at = self.jobs.binary_search_by_key(&event, |j| j.submit).ok()?;
        self.jobs.get(at)
    }

    /// The phase of an event.
    #[must_use]
    pub fn phase_at(&self, event: u64) -> Option<&PhaseFact> {
        self.phases.iter().find(|p| p.first <= event && event <= p.last)
    }

    /// The interrupt whose handler starts at an event.
    #[must_use]
    pub fn interrupt_at(&self, event: u64) -> Option<&Interrupt> {
        let at = self.interrupts.binary_search_by_key(&event, |i| i.event).ok()?;
        self.interrupts.get(at)
    }

    /// Name of the register at an offset.
    #[must_use]
    pub fn register_name(&self, offset: u32) -> String {
        let known = self.registers.get(&offset).map(|r| r.name.clone());
        let named = || Some(self.map?.at(offset)?.name.clone());
        known.or_else(named).unwrap_or_else(|| format!("{offset:#06x}"))
    }

    /// What an access is to: the registers that it touches, or a place in another space.
    #[must_use]
    pub fn access_name(&self, recording: &Recording, access: &Access) -> String {
        if access.space != self.register_space {
            let space = recording.facts.spaces.get(usize::from(access.space));
            let name = space.map_or("unknown space", |s| s.name.as_str());
            return format!("{name}+{:#x}", access.offset);
        }
        if let Some(named) = self.device.and_then(|d| d.name_of(access)) {
            return named.into_owned();
        }
        let unknown = self.map.is_none_or(|m| m.at(access.offset).is_none());
        match unknown && has_several_spaces(recording) {
            true => format_location(recording, access.space, access.offset),
            false => self.register_name(access.offset),
        }
    }

    /// Whether what an access is to has a name: registers that a map knows, and any place of another space.
    #[must_use]
    pub fn is_access_named(&self, access: &Access) -> bool {
        access.space != self.register_space || self.device.is_some_and(|d| d.find_accessed(access).is_some())
    }

    /// The offset of the first register that an access touches, or its own where no map knows one; `None` for accesses
    /// to other spaces.
    #[must_use]
    pub fn find_register(&self, access: &Access) -> Option<u32> {
        if access.space != self.register_space {
            return None;
        }
        let touched = self.device.and_then(|d| d.find_accessed(access));
        Some(touched.map_or(access.offset, |r| r.offset))
    }

    /// The offset of the register of this name.
    #[must_use]
    pub fn find_register_by_name(&self, name: &str) -> Option<u32> {
        self.registers
            .iter()
            .find(|(_, r)| r.name.eq_ignore_ascii_case(name))
            .map(|(o, _)| *o)
    }
}

/// The name of the place that covers an address, and the distance into it: of a buffer, or of a range that the person's
/// register map names. The shorter one wins.
#[must_use]
pub fn find_name_at(recording: &Recording, facts: &Facts, space: u32, va: u64) -> Option<(String, u64)> {
    let buffers = recording.facts.buffers.iter();
    let buffer = buffers
        .filter(|b| b.address_space == space && b.va.0 <= va && va - b.va.0 < b.bytes)
        .min_by_key(|b| b.bytes);
    match (buffer, facts.device.and_then(|d| d.map().memory_at(space, va))) {
        (b, Some((m, at))) if b.is_none_or(|b| m.bytes <= b.bytes) => Some((m.name.clone(), at)),
        (Some(b), _) => Some((b.name.clone(), va - b.va.0)),
        (None, _) => None,
    }
}

/// The name that a buffer covers an address with, and the distance into it.
#[must_use]
pub fn buffer_at(recording: &Recording, space: u32, va: u64) -> Option<(&str, u64)> {
    recording
        .facts
        .buffers
        .iter()
        .filter(|b| b.address_space == space && b.va.0 <= va && va - b.va.0 < b.bytes)
        .min_by_key(|b| b.bytes)
        .map(|b| (b.name.as_str(), va - b.va.0))
}
