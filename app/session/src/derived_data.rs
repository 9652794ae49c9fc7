//! Derived data of a recording, computed once off the interface thread: names, lanes, polls, interrupts, jobs with
//! chains, mappings with content, findings.
//!
//! Frames only look items up here and never scan a whole list. Totals and orders that a panel needs are computed when
//! the data arrives.

use crate::axis::Axis;
use crate::driver_data::DriverData;
use crate::job_index::JobIndex;
use crate::jobs::{Chain, JobFact};
use crate::spaces::SpaceFact;
use crate::wasm_run::RunCopies;
use kinescope_files::buffer_index::BufferIndex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use trace_core::api_trace::ApiTrace;
use trace_core::filter::{self, Derived, JobBounds};
use trace_core::finding::{Finding, Severity};
use trace_core::recording::{Access, BufferRole, ChainReport, InterruptLine, Recording};
use trace_core::registers::history::{HeldValue, value_at};
use trace_core::registers::{Accesses, RecordedRegisters, RegisterMap, Role, format_location, has_several_spaces};
use trace_core::timeline::{Pyramid, StoredTimeline};
use trace_core::xref::{JobAddresses, PageUsage};
use trace_core::{GpuVa, RegOffset};

/// Maximum number of events between a write that prepares a job and its submit. Other threads access registers in
/// between.
const AHEAD: u64 = 256;

/// A folded run of reads that polled a condition.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    /// First event.
    pub first: u64,
    /// Last event.
    pub last: u64,
    /// Number of reads.
    pub reads: u64,
    /// Offset of the polled register.
    pub offset: RegOffset,
}

/// An interrupt, detected from its handler's reads or recorded directly.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// First event of the handler.
    pub event: u64,
    /// Interrupt line.
    pub line: InterruptLine,
    /// Status bits.
    pub status: u64,
}

/// A phase of the recording.
#[derive(Clone, Debug)]
pub struct PhaseFact {
    /// Name of the phase.
    pub name: String,
    /// First event.
    pub first: u64,
    /// Last event.
    pub last: u64,
}

/// A register with its accesses in the recording.
#[derive(Clone, Debug)]
pub struct RegisterFact {
    /// Name, or the offset in hex.
    pub name: String,
    /// Register block.
    pub block: String,
    /// Accesses to the register.
    pub accesses: Accesses,
}

/// A stage of the derivation. Each stage is a separate task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Polls, interrupts, jobs, phases.
    Timeline,
    /// Objects, addresses and submissions of a driver trace.
    Driver,
    /// Copies of a WebAssembly run.
    Run,
    /// Buffers of copies, of an API trace. The buffers of other recordings are known from the start.
    Buffers,
    /// Buffers, launches and cross references, of an API trace.
    Calls,
    /// Accesses by register.
    Registers,
    /// Job chains.
    Chains,
    /// Mappings.
    Spaces,
    /// Findings.
    Findings,
    /// Damage of the file.
    File,
}

impl Stage {
    /// All stages, in order of derivation.
    pub const ALL: [Self; 10] = [
        Self::Timeline,
        Self::Driver,
        Self::Run,
        Self::Buffers,
        Self::Calls,
        Self::Registers,
        Self::Chains,
        Self::Spaces,
        Self::Findings,
        Self::File,
    ];

    /// Returns the status text for the user.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Timeline => "finding jobs, interrupts and polls",
            Self::Driver => "following objects of the kernel driver",
            Self::Run => "reading the WebAssembly run",
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

/// The result of a stage.
#[derive(Debug)]
pub enum Part {
    /// Result of [`Stage::Timeline`].
    Timeline(Box<TimelinePart>),
    /// Result of [`Stage::Driver`]; `None` if the recording has no requests to a kernel driver.
    Driver(Option<Arc<DriverData>>),
    /// Result of [`Stage::Run`]; `None` if the recording is not of a WebAssembly run, or why its run cannot be read.
    Run(Option<Result<Arc<RunCopies>, String>>),
    /// Result of [`Stage::Buffers`], which the document keeps.
    Buffers(Box<BufferIndex>),
    /// Result of [`Stage::Calls`]; `None` if the recording is not an API trace.
    Calls(Option<Arc<ApiTrace>>),
    /// Result of [`Stage::Registers`].
    Registers(BTreeMap<RegOffset, RegisterFact>),
    /// Result of [`Stage::Chains`]: the chain of each job, and the recorded job results.
    Chains(Box<ChainsPart>),
    /// Result of [`Stage::Spaces`].
    Spaces(Vec<SpaceFact>),
    /// Result of [`Stage::Findings`].
    Findings(Vec<Finding>),
    /// Result of [`Stage::File`].
    File(Vec<Finding>),
}

/// Polls, interrupts, jobs, gaps, phases.
#[derive(Debug, Default)]
pub struct TimelinePart {
    /// Polls, see [`DerivedData::polls`].
    pub polls: Vec<Fold>,
    /// Interrupts, see [`DerivedData::interrupts`].
    pub interrupts: Vec<Interrupt>,
    /// Jobs without their chains, see [`DerivedData::jobs`].
    pub jobs: Vec<JobFact>,
    /// Idle gaps, see [`DerivedData::gaps`].
    pub gaps: Vec<(u64, u64)>,
    /// Phases, see [`DerivedData::phases`].
    pub phases: Vec<PhaseFact>,
    /// Index of the jobs.
    pub index: JobIndex,
}

/// The job chains and their recorded results.
#[derive(Debug, Default)]
pub struct ChainsPart {
    /// Chain of each job.
    pub chains: Vec<Arc<Chain>>,
    /// Recorded results of chains.
    pub reports: Vec<ChainReport>,
    /// Addresses that these jobs name.
    pub places: JobAddresses,
}

/// The findings of one severity.
#[derive(Clone, Debug, Default)]
pub struct SeverityGroup {
    /// Number of findings.
    pub count: usize,
    /// Index of the first finding.
    pub first: usize,
    /// Events of the findings that have one, in order.
    pub events: Vec<u64>,
}

/// The derived data of a recording.
#[derive(Clone, Debug, Default)]
pub struct DerivedData {
    /// Times of events.
    pub axis: Axis,
    /// Event counts of each lane at several resolutions.
    pub pyramid: Pyramid,
    /// For each lane, reads and writes in the complete recording.
    pub lane_totals: Vec<(u32, u32)>,
    /// Derived data of the driver calls of an API trace, once it is available.
    pub api_trace: Option<Arc<ApiTrace>>,
    /// Derived data of the requests to a kernel driver, once it is available.
    pub driver: Option<Arc<DriverData>>,
    /// Copies of a WebAssembly run, once they are read, or why they cannot be read.
    pub wasm_run: Option<Result<Arc<RunCopies>, String>>,
    /// Stages that are not derived yet, in order of derivation.
    pub pending: Vec<Stage>,
    /// Timeline that the file stores, until it is read.
    pub(crate) kept_timeline: Option<StoredTimeline>,
    /// Buffers in list order (inputs, outputs, others), as indices into the recording's list.
    pub buffers: Vec<u32>,
    /// Shapes of buffers by name, for buffers whose shape is recorded: length of each dimension, slowest first.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Register map, for names of registers whose accesses are not derived yet.
    pub map: Option<&'static RegisterMap>,
    /// The same map with the space of the registers.
    pub device: Option<RecordedRegisters>,
    /// Number of the register space, whether or not a map knows the registers.
    pub register_space: u8,
    /// Registers by offset.
    pub registers: BTreeMap<RegOffset, RegisterFact>,
    /// Polls, ordered by first event.
    pub polls: Vec<Fold>,
    /// Interrupts, ordered by event.
    pub interrupts: Vec<Interrupt>,
    /// Jobs, ordered by submit.
    pub jobs: Vec<JobFact>,
    /// Phases, in order.
    pub phases: Vec<PhaseFact>,
    /// Jobs by slot, as indices into the list. Submits and ends of one slot are in ascending order.
    pub slots: Vec<Vec<u32>>,
    /// Submits of failed jobs, in order.
    pub failed: Vec<u64>,
    /// Duration of the longest job, nanoseconds.
    pub longest_ns: u64,
    /// Addresses of job headers with the job, in ascending order.
    pub(crate) heads: Vec<(GpuVa, u32)>,
    /// Idle gaps: event before the gap, and length in nanoseconds.
    pub gaps: Vec<(u64, u64)>,
    /// Address spaces.
    pub spaces: Vec<SpaceFact>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Findings by severity: errors, warnings, notes.
    pub by_severity: [SeverityGroup; 3],
    /// Named addresses of GPU memory.
    pub page_usage: PageUsage,
    /// Data that could not be derived, with the reason.
    pub gaps_in_knowledge: Vec<String>,
}

/// Severities in the order of [`DerivedData::by_severity`].
pub const SEVERITIES: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Note];

impl DerivedData {
    /// Whether a stage is complete.
    #[must_use]
    pub fn has_stage(&self, stage: Stage) -> bool {
        !self.pending.contains(&stage)
    }

    /// Returns the copies of a WebAssembly run, or `None` if they are not read yet or cannot be read.
    #[must_use]
    pub fn run_copies(&self) -> Option<&Arc<RunCopies>> {
        self.wasm_run.as_ref()?.as_ref().ok()
    }

    /// Stores the result of a stage.
    pub fn take(&mut self, part: Part) {
        let stage = match part {
            Part::Timeline(t) => {
                self.take_timeline(*t);
                Stage::Timeline
            }
            Part::Driver(d) => {
                self.driver = d;
                Stage::Driver
            }
            Part::Run(run) => {
                self.wasm_run = run;
                Stage::Run
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

    /// Sorts the buffers into list order.
    pub fn rank_buffers(&mut self, recording: &Recording) {
        let rank = |i: &u32| match recording.metadata.buffers.get(*i as usize).map(|b| b.role) {
            Some(BufferRole::Input) => 0,
            Some(BufferRole::Output) => 1,
            _ => 2,
        };
        self.buffers = (0..recording.metadata.buffers.len() as u32).collect();
        self.buffers.sort_by_key(rank);
        self.page_usage.set_buffers(&recording.metadata.buffers);
    }

    /// Returns the jobs whose header starts in an address range, with the address.
    #[must_use]
    pub fn headers_in(&self, range: Range<GpuVa>) -> &[(GpuVa, u32)] {
        let at = |va: GpuVa| self.heads.partition_point(|h| h.0 < va);
        self.heads.get(at(range.start)..at(range.end)).unwrap_or_default()
    }

    /// Returns the poll that contains an event.
    #[must_use]
    pub fn poll_at(&self, event: u64) -> Option<&Fold> {
        let n = self.polls.partition_point(|p| p.first <= event);
        self.polls.get(n.checked_sub(1)?).filter(|p| event <= p.last)
    }

    /// Returns the job that runs at an event: submitted at or before it, and not done before it.
    #[must_use]
    pub fn job_at(&self, event: u64) -> Option<&JobFact> {
        let n = self.jobs.partition_point(|j| j.submit <= event);
        self.jobs[..n]
            .iter()
            .rev()
            .take(8)
            .find(|j| j.done.is_none_or(|d| event <= d))
    }

    /// Returns the job that a register write prepares: the next submit of its slot uses the written head, cores,
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

    /// Returns the job of an event: the one that it prepares, or the one that runs.
    #[must_use]
    pub fn job_of(&self, recording: &Recording, event: u64) -> Option<&JobFact> {
        self.job_prepared_at(recording, event).or_else(|| self.job_at(event))
    }

    /// Returns the derived data that filters need in addition to the stored events.
    #[must_use]
    pub fn filter_data(&self) -> Derived {
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
            inputs: Vec::new(),
        }
    }

    /// Returns the job that an event submits.
    #[must_use]
    pub fn job_submitted_at(&self, event: u64) -> Option<&JobFact> {
        let at = self.jobs.binary_search_by_key(&event, |j| j.submit).ok()?;
        self.jobs.get(at)
    }

    /// Returns the phase of an event.
    #[must_use]
    pub fn phase_at(&self, event: u64) -> Option<&PhaseFact> {
        self.phases.iter().find(|p| p.first <= event && event <= p.last)
    }

    /// Returns the interrupt whose handler starts at an event.
    #[must_use]
    pub fn interrupt_at(&self, event: u64) -> Option<&Interrupt> {
        let at = self.interrupts.binary_search_by_key(&event, |i| i.event).ok()?;
        self.interrupts.get(at)
    }

    /// Returns the name of the register at an offset.
    #[must_use]
    pub fn register_name(&self, offset: RegOffset) -> String {
        let known = self.registers.get(&offset).map(|r| r.name.clone());
        let named = || Some(self.map?.at(offset)?.name.clone());
        known.or_else(named).unwrap_or_else(|| format!("{offset:#06x}"))
    }

    /// Names the location of an access: the accessed registers, or an offset in another space.
    #[must_use]
    pub fn access_name(&self, recording: &Recording, access: &Access) -> String {
        if access.space != self.register_space {
            let space = recording.metadata.spaces.get(usize::from(access.space));
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

    /// Whether the location of an access has a name: registers of a map, and any offset in another space.
    #[must_use]
    pub fn is_access_named(&self, access: &Access) -> bool {
        access.space != self.register_space || self.device.is_some_and(|d| d.find_accessed(access).is_some())
    }

    /// Returns the offset of the first register of an access, or the offset of the access if no map knows a register
    /// there. Returns `None` for accesses to other spaces.
    #[must_use]
    pub fn find_register(&self, access: &Access) -> Option<RegOffset> {
        if access.space != self.register_space {
            return None;
        }
        let touched = self.device.and_then(|d| d.find_accessed(access));
        Some(touched.map_or(access.offset, |r| r.offset))
    }

    /// Returns the value of a register at an event and its source, or `None` if nothing accessed it yet.
    #[must_use]
    pub fn register_value(&self, recording: &Recording, register: RegOffset, event: u64) -> Option<HeldValue> {
        let accesses = &self.registers.get(&register)?.accesses;
        value_at(recording, self.device, register, accesses, event)
    }

    /// Returns the offset of the register of this name.
    #[must_use]
    pub fn find_register_by_name(&self, name: &str) -> Option<RegOffset> {
        self.registers
            .iter()
            .find(|(_, r)| r.name.eq_ignore_ascii_case(name))
            .map(|(o, _)| *o)
    }
}

/// Returns the name that covers an address, and the offset from its start: that of a buffer, or of a range that the
/// user's register map names. The shorter one wins.
#[must_use]
pub fn find_name_at(recording: &Recording, derived: &DerivedData, space: u32, va: GpuVa) -> Option<(String, u64)> {
    let buffers = recording.metadata.buffers.iter();
    let buffer = buffers
        .filter(|b| b.address_space == space && b.va.get() <= va.get() && va - b.va < b.bytes)
        .min_by_key(|b| b.bytes);
    match (buffer, derived.device.and_then(|d| d.map().memory_at(space, va))) {
        (b, Some((m, at))) if b.is_none_or(|b| m.bytes <= b.bytes) => Some((m.name.clone(), at)),
        (Some(b), _) => Some((b.name.clone(), va - b.va)),
        (None, _) => None,
    }
}

/// Returns the name of the buffer that covers an address, and the offset in it.
#[must_use]
pub fn buffer_at(recording: &Recording, space: u32, va: GpuVa) -> Option<(&str, u64)> {
    recording
        .metadata
        .buffers
        .iter()
        .filter(|b| b.address_space == space && b.va.get() <= va.get() && va - b.va < b.bytes)
        .min_by_key(|b| b.bytes)
        .map(|b| (b.name.as_str(), va - b.va))
}
