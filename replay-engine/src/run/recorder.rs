//! Observer of a run: events of the outcome, divergences, jobs, the first fault.

use super::Divergence;
use super::log::EventLog;
use super::stops::{RunStops, StopCursor};
use crate::device::space;
use crate::families::{AccessMeaning, DivergenceMeaning, ReplayFamily, SpaceRegisters, find_family_of_plan};
use crate::plan::{PlannedAccesses, RegisterAccess};
use replay_core::{Compared, Flow, ObservedAccess, Observer};
use std::collections::{BTreeMap, HashMap};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{Access, InterruptLine};
use trace_core::registers::{Register, RegisterMap};
use trace_core::{PhysAddr, RegOffset};

/// Maximum number of divergences in an outcome.
const KEPT: usize = 1000;
/// Number of reads of one poll that become events. Of a longer poll, only the last read follows.
const POLL_EVENTS: u32 = 1024;
/// Number of repeated reads of all polls that become events. After that, only the first and the last read of a poll do.
const ALL_POLL_EVENTS: u64 = 1 << 20;
/// Number of accesses between two progress reports.
const REPORT_EVERY: u64 = 256;

/// An observed job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObservedJob {
    pub submitted_ns: Option<u64>,
    pub ended_ns: Option<u64>,
    pub failed: bool,
}

/// The first observation of a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservedFault {
    pub event: u64,
    pub job: Option<u32>,
    pub line: InterruptLine,
}

pub(super) struct Recorder<'a> {
    plan: PlannedAccesses<'a>,
    family: &'static dyn ReplayFamily,
    map: Option<&'a RegisterMap>,
    progress: &'a Progress,
    pub events: EventLog,
    pub divergences: Vec<Divergence>,
    pub divergence_count: u64,
    /// Differences in state from before the recording, the first [`KEPT`] as findings.
    before: Vec<Finding>,
    before_count: u64,
    /// Reads and writes of registers that the map does not know, by allowed range.
    unknown: Vec<(u64, u64)>,
    pub jobs: Vec<ObservedJob>,
    pub fault: Option<ObservedFault>,
    pub cancelled: bool,
    stops: Option<StopCursor<'a>>,
    /// Whether an address space did not become idle, as later actions require.
    pub stuck: bool,
    pub spaces: BTreeMap<u8, SpaceRegisters>,
    submits: HashMap<u64, usize>,
    ends: HashMap<u64, Vec<usize>>,
    last_job: Option<u32>,
    accesses: u64,
    poll_events: u32,
    all_poll_events: u64,
    held: Option<ObservedAccess>,
    /// A change of memory that the next one may continue: physical address, length in bytes, time, number of changes.
    change: Option<(u64, u32, u64, usize)>,
    /// Number of memory changes so far, and for each event with changes the number of the last one.
    changes: usize,
    pub told_changes: Vec<usize>,
}

fn format_count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

impl<'a> Recorder<'a> {
    pub fn new(
        plan: PlannedAccesses<'a>,
        map: Option<&'a RegisterMap>,
        progress: &'a Progress,
        stops: Option<RunStops<'a>>,
    ) -> Self {
        let mut ends: HashMap<u64, Vec<usize>> = HashMap::new();
        for (i, j) in plan.jobs().iter().enumerate() {
            if let Some(e) = j.done_event {
                ends.entry(e).or_default().push(i);
            }
        }
        Self {
            plan,
            family: find_family_of_plan(plan),
            map,
            progress,
            events: EventLog::default(),
            divergences: Vec::new(),
            divergence_count: 0,
            before: Vec::new(),
            before_count: 0,
            unknown: vec![(0, 0); plan.accesses.allowed.len()],
            jobs: vec![ObservedJob::default(); plan.jobs().len()],
            fault: None,
            cancelled: false,
            stops: stops.map(StopCursor::new),
            stuck: false,
            spaces: BTreeMap::new(),
            submits: plan
                .jobs()
                .iter()
                .enumerate()
                .map(|(i, j)| (j.submit_event, i))
                .collect(),
            ends,
            last_job: None,
            accesses: 0,
            poll_events: 0,
            all_poll_events: 0,
            held: None,
            change: None,
            changes: 0,
            told_changes: Vec::new(),
        }
    }

    /// Writes the held-back read of a long poll. Must also be called once at the end.
    pub fn flush(&mut self) {
        if let Some((at, bytes, time, last)) = self.change.take() {
            // The device supplies the page.
            self.events.host_write(time, PhysAddr::new(at), bytes);
            self.told_changes.push(last);
        }
        if let Some(seen) = self.held.take() {
            self.note(&seen);
        }
    }

    /// Returns the run's findings about the recording: state from before its start that differed here, and allowed
    /// replays of unknown registers.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = self.before.clone();
        self.tell_the_rest(&mut findings);
        for ((start, end), (reads, writes)) in self.plan.accesses.allowed.iter().zip(&self.unknown) {
            findings.push(Finding::new(
                FindingKind::UnknownRegister,
                format!("registers {start:#x}..{end:#x}"),
                format!(
                    "the map does not know these registers; the user allowed them: {}, {}",
                    format_count(*reads, "read"),
                    format_count(*writes, "write")
                ),
            ));
        }
        findings
    }

    fn tell_the_rest(&self, findings: &mut Vec<Finding>) {
        let more = self.before_count.saturating_sub(findings.len() as u64);
        if more > 0 {
            let after = findings.last().map(|f| f.place.clone()).unwrap_or_default();
            findings.push(Finding::new(
                FindingKind::StateBeforeRecording,
                format!("after {after}"),
                format!("{more} more findings of this kind follow and are not listed"),
            ));
        }
    }

    /// Returns the stop at which the run ended.
    pub fn stopped_at(&self) -> Option<u32> {
        self.stops.as_ref().and_then(|stops| stops.stopped_at)
    }

    /// Follows an action for the stops of the run.
    fn follow_stops(&mut self, event: u32, starts_nothing: bool) -> Flow {
        match &mut self.stops {
            Some(stops) => stops.follow(event, starts_nothing),
            None => Flow::Continue,
        }
    }

    /// Returns the job that was submitted last.
    pub fn last_job(&self) -> Option<u32> {
        self.last_job
    }

    fn register(&self, offset: u64) -> Option<&'a Register> {
        self.map?.at(RegOffset::new(u32::try_from(offset).ok()?))
    }

    /// Returns the outcome's space for a plan's space, or `None` for the plan's memory, whose accesses are not
    /// recorded.
    fn space_of(&self, number: u8) -> Option<u8> {
        let Some(mmio) = self.plan.mmio() else {
            return (number == space::REGISTERS).then_some(0);
        };
        let at = mmio.windows.iter().position(|w| w.number == number)?;
        u8::try_from(at).ok()
    }

    /// Returns the target of an access for the user: names of registers, or the window and the offset.
    pub fn describe_location(&self, number: u8, offset: u64, width: u8) -> String {
        if number == space::REGISTERS
            && let (Some(map), Ok(at)) = (self.map, u32::try_from(offset))
        {
            let touch = RegisterAccess::new(map, RegOffset::new(at), width);
            if touch.registers().next().is_some() {
                return touch.name();
            }
        }
        let windows = self.plan.mmio().map_or(&[][..], |m| &m.windows);
        let window = windows.iter().find(|w| w.number == number);
        match window {
            Some(w) => format!("{}+{offset:#x}", w.name),
            None if number == space::REGISTERS => format!("{offset:#x}"),
            None => format!("space {number} offset {offset:#x}"),
        }
    }

    fn note(&mut self, seen: &ObservedAccess) {
        let Some(space) = self.space_of(seen.space) else { return };
        let access = Access {
            space,
            write: seen.write,
            offset: RegOffset::new(seen.offset as u32),
            width: seen.width,
            value: seen.value,
        };
        self.events.access(seen.time_ns, &access);
    }

    fn follow(&mut self, seen: &ObservedAccess) {
        let Some(r) = self.register(seen.offset) else {
            let within = |(start, end): &(RegOffset, RegOffset)| {
                (u64::from(start.get())..u64::from(end.get())).contains(&seen.offset)
            };
            let range = self.plan.accesses.allowed.iter().position(within);
            if let Some((reads, writes)) = range.and_then(|i| self.unknown.get_mut(i)) {
                *(if seen.write { writes } else { reads }) += 1;
            }
            return;
        };
        let event = u64::from(seen.event);
        match self.family.meaning_of(r, seen.write, seen.value) {
            AccessMeaning::Submit => {
                if let Some(i) = self.submits.get(&event).copied()
                    && let Some(job) = self.jobs.get_mut(i)
                {
                    job.submitted_ns = Some(seen.time_ns);
                    self.last_job = u32::try_from(i).ok();
                }
            }
            AccessMeaning::JobStatus => {
                for i in self.ends.get(&event).into_iter().flatten() {
                    let slot = self.plan.jobs().get(*i).map(|j| j.slot);
                    let Some(failed) = slot.and_then(|slot| self.family.job_failed(seen.value, slot)) else {
                        continue;
                    };
                    if let Some(job) = self.jobs.get_mut(*i) {
                        job.ended_ns = Some(seen.time_ns);
                        job.failed = failed;
                    }
                }
            }
            AccessMeaning::SpaceSetup => {
                let space = self.spaces.entry(r.index.unwrap_or(0)).or_default();
                self.family.set_up_space(space, r, seen.value);
            }
            AccessMeaning::None => {}
        }
    }

    fn fault(&mut self, event: u64, line: InterruptLine) -> Flow {
        self.fault = Some(ObservedFault {
            event,
            job: self.last_job,
            line,
        });
        Flow::Stop
    }
}

impl Observer for Recorder<'_> {
    const TIMES: bool = true;

    fn access(&mut self, seen: &ObservedAccess) -> Flow {
        if self.space_of(seen.space).is_some() {
            if self.change.is_some() {
                self.flush();
            }
            if seen.poll_repeat && (self.poll_events >= POLL_EVENTS || self.all_poll_events >= ALL_POLL_EVENTS) {
                self.held = Some(*seen);
            } else {
                self.flush();
                self.note(seen);
                self.poll_events = if seen.poll_repeat { self.poll_events + 1 } else { 0 };
                self.all_poll_events += u64::from(seen.poll_repeat);
            }
            if seen.space == space::REGISTERS {
                self.follow(seen);
            }
        }
        self.accesses += 1;
        if self.accesses.is_multiple_of(REPORT_EVERY) && self.progress.advance(REPORT_EVERY).is_err() {
            self.cancelled = true;
            return Flow::Stop;
        }
        self.follow_stops(seen.event, !seen.write)
    }

    fn host_write(&mut self, event: u32, offset: u64, bytes: u32, time_ns: u64) -> Flow {
        let at = self.plan.accesses.arena.base.get().saturating_add(offset);
        let number = self.changes;
        self.changes += 1;
        match &mut self.change {
            // Consecutive values in a page are one write.
            Some((from, len, _, last))
                if self.held.is_none()
                    && from.saturating_add(u64::from(*len)) == at
                    && PhysAddr::new(*from).frame() == PhysAddr::new(at).frame() =>
            {
                *len = len.saturating_add(bytes);
                *last = number;
            }
            _ => {
                self.flush();
                self.change = Some((at, bytes, time_ns, number));
            }
        }
        if self.changes.is_multiple_of(REPORT_EVERY as usize) && self.progress.check().is_err() {
            self.cancelled = true;
            return Flow::Stop;
        }
        self.follow_stops(event, false)
    }

    fn interrupt(&mut self, event: u32, lines: u32, time_ns: u64) -> Flow {
        self.flush();
        for line in 0..u32::BITS {
            if lines & 1 << line != 0 {
                self.events.interrupt(time_ns, line);
            }
        }
        if self.progress.check().is_err() {
            self.cancelled = true;
            return Flow::Stop;
        }
        self.follow_stops(event, false)
    }

    fn state_before(&mut self, d: &replay_core::Divergence) -> Flow {
        self.before_count += 1;
        if self.before.len() < KEPT {
            let register = self.register(d.offset & !3);
            let name = self.describe_location(d.space, d.offset, d.width);
            let reason = register.and_then(|r| r.replay.before.as_deref()).unwrap_or_default();
            let message = format!(
                "{name} reads {:#x} here and {:#x} in the recording, before anything wrote it: {reason}",
                d.got, d.expected
            );
            let event = u64::from(d.event);
            let place = format!("event {event}, {name}");
            self.before
                .push(Finding::new(FindingKind::StateBeforeRecording, place, message).at_event(event));
        }
        Flow::Continue
    }

    fn divergence(&mut self, d: &replay_core::Divergence) -> Flow {
        self.divergence_count += 1;
        let register = self.register(d.offset).filter(|_| d.space == space::REGISTERS);
        if self.divergences.len() < KEPT {
            self.divergences.push(Divergence {
                event: u64::from(d.event),
                register: self.describe_location(d.space, d.offset, d.width),
                expected: d.expected,
                got: d.got,
                class: match d.compared {
                    Compared::Equal => "equal",
                    Compared::Masked(_) => "masked",
                    Compared::Until(_) => "until",
                    Compared::Before(_) => "before",
                }
                .to_owned(),
                job: self.last_job,
            });
        }
        match self.family.meaning_of_divergence(self.plan, register, d) {
            DivergenceMeaning::Fault(line) => self.fault(u64::from(d.event), line),
            DivergenceMeaning::Stuck if self.fault.is_none() => {
                self.stuck = true;
                Flow::Stop
            }
            DivergenceMeaning::Stuck | DivergenceMeaning::Difference => Flow::Continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, PlanBody, RegisterPlan};

    fn plan() -> Plan {
        let mut plan = RegisterPlan::default();
        plan.accesses.register_map = "mali-jm".into();
        Plan::new(PlanBody::Registers(plan))
    }

    #[test]
    fn unbounded_polls_record_few_events_and_each_last_read() {
        let (plan, progress) = (plan(), Progress::new());
        let mut recorder = Recorder::new(
            plan.planned_accesses().unwrap(),
            RegisterMap::by_name("mali-jm"),
            &progress,
            None,
        );
        let (polls, reads) = (1100u64, 1000);
        for poll in 0..polls {
            for n in 0..reads {
                let seen = ObservedAccess {
                    event: poll as u32,
                    write: false,
                    poll_repeat: n > 0,
                    space: space::REGISTERS,
                    offset: 0x2428,
                    width: 4,
                    value: n,
                    time_ns: poll * reads + n,
                };
                assert_eq!(recorder.access(&seen), Flow::Continue);
            }
        }
        recorder.flush();
        let packed: Vec<u8> = recorder.events.blocks().flatten().copied().collect();
        let events = super::super::log::unpack(&packed, &[]).unwrap().finish();
        assert!(events.len() as u64 <= ALL_POLL_EVENTS + 2 * polls, "{}", events.len());
        let last = events.access(events.len() - 1).map(|a| a.value);
        assert_eq!(last, Some(reads - 1));
    }
}
