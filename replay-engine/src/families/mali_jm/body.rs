//! Rules 1 to 5 along the body, action by action: accesses, waits, reads, limits, counts.

mod changes;
mod writes;

use super::activity::DeviceActivity;
use super::tables::ReachableFrames;
use super::unwritten::UnwrittenRegisters;
use crate::device::space;
use crate::plan::{PlanMemory, PlannedAccesses, ReadClasses, RewriteKind};
use crate::rules::{
    MAX_EVENTS, Reason, Refusal, VerificationReport, Work, budget_exceeded, check_count, describe_allowed, each_action,
    refuse,
};
use replay_core::{Action, ReadClass, width_mask};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use trace_core::RegOffset;
use trace_core::recording::{InterruptLine, Page};
use trace_core::registers::{ReadRule, Register, RegisterMap, Role};

/// Interrupt lines of a device: job, mmu, gpu.
const LINES: u32 = 0b111;

struct Walker<'a> {
    plan: PlannedAccesses<'a>,
    map: &'a RegisterMap,
    memory: PlanMemory<'a>,
    /// Images that changes of memory take bytes from.
    images: Vec<&'a Page>,
    reach: ReachableFrames,
    work: &'a Work<'a>,
    written: HashMap<RegOffset, u64>,
    /// Root registers as written, which resets do not clear, and the number of half writes whose pair was not put to
    /// use yet.
    roots: HashMap<RegOffset, u64>,
    waiting_roots: BTreeMap<Option<u8>, (&'a Register, u64)>,
    untouched: UnwrittenRegisters,
    doing: DeviceActivity,
    /// Index and event of the current action.
    at: (u64, u32),
    /// The low half, or the only part, of each register with a role, by role and number of its block.
    roles: HashMap<(Role, Option<u8>), &'a Register>,
    rewrites: BTreeMap<RewriteKind, u64>,
    reads: ReadClasses,
    interrupts: u64,
    pauses_ns: u64,
    jobs: u64,
    events: u64,
    unproved: u64,
    undecoded: u64,
    /// Arena offsets that were cleared since the last submit.
    cleared: Vec<u64>,
    /// Frames with headers of the last chain of each slot.
    chains: BTreeMap<u8, BTreeSet<u64>>,
}

/// Checks the body from its first action to its last. Returns memory as the CPU leaves it.
pub fn check<'a>(
    plan: PlannedAccesses<'a>,
    map: &'a RegisterMap,
    memory: PlanMemory<'a>,
    images: Vec<&'a Page>,
    reach: ReachableFrames,
    work: &'a Work<'a>,
    verified: &mut VerificationReport,
) -> Result<PlanMemory<'a>, Refusal> {
    let mut w = Walker {
        plan,
        map,
        memory,
        images,
        reach,
        work,
        written: HashMap::new(),
        roots: HashMap::new(),
        waiting_roots: BTreeMap::new(),
        untouched: UnwrittenRegisters::default(),
        doing: DeviceActivity::default(),
        at: (0, 0),
        roles: HashMap::new(),
        rewrites: BTreeMap::new(),
        reads: ReadClasses::default(),
        interrupts: 0,
        pauses_ns: 0,
        jobs: 0,
        events: 0,
        unproved: 0,
        undecoded: 0,
        cleared: Vec::new(),
        chains: BTreeMap::new(),
    };
    for r in map.registers() {
        if let Some(role) = r.replay.role {
            w.roles.entry((role, r.index)).or_insert(r);
        }
    }
    let count = each_action(plan, work, |at, action| {
        w.at = at;
        w.check_action(action)
    })?;
    w.nothing_cleared()?;
    w.settle_roots(None);
    w.counts(count)?;
    verified.jobs = w.jobs;
    verified.tables += w.reach.later_tables;
    verified.leaves += w.reach.later_leaves;
    let jobs = w.jobs;
    for (n, what) in [
        (
            w.unproved,
            "of {} job chains lie in memory that they or an earlier job can write; they were checked as they are \
             now, and the time limit bounds them",
        ),
        (
            w.undecoded,
            "headers in {} job chains are not headers that a driver writes; their effect is not known, and the time \
             limit bounds it",
        ),
        (
            w.doing.assumed,
            "of {} job chains ran at the same time as others; the check assumes that they end when they did in the \
             recording",
        ),
    ] {
        if n > 0 {
            verified
                .unproved
                .push(format!("{n} {}", what.replace("{}", &jobs.to_string())));
        }
    }
    if plan.accesses.gpu_id == 0 {
        verified.unproved.push("the recording does not name its GPU".to_owned());
    }
    verified.unproved.extend(describe_allowed(plan));
    Ok(w.memory)
}

impl<'a> Walker<'a> {
    fn refuse<T>(&self, rule: u8, reason: Reason) -> Result<T, Refusal> {
        let (count, event) = self.at;
        refuse(rule, format!("action {count}, event {event}"), reason)
    }

    fn count(&mut self, kind: RewriteKind) {
        *self.rewrites.entry(kind).or_default() += 1;
    }

    fn check_action(&mut self, action: &Action) -> Result<(), Refusal> {
        match *action {
            Action::Write {
                space: space::ARENA,
                offset,
                width,
                value,
                ..
            } => self.arena_write(offset, width, value),
            Action::Write {
                event,
                space,
                offset,
                width,
                value,
            } => {
                self.event()?;
                match self.register(space, offset, width)? {
                    Some(r) => self.register_write(event, r, value),
                    None => self.nothing_cleared(),
                }
            }
            Action::WriteSlot {
                space, offset, width, ..
            } => {
                self.event()?;
                self.nothing_cleared()?;
                self.check_live_write(space, offset, width)
            }
            Action::Read {
                space,
                offset,
                width,
                class,
                expected,
                ..
            } => {
                self.event()?;
                self.nothing_cleared()?;
                let r = self.register(space, offset, width)?;
                self.check_read(r, offset, width, class, expected)
            }
            Action::Until {
                space,
                offset,
                width,
                reads,
                mask,
                expected,
                limit_ns,
                ..
            } => {
                self.event()?;
                self.nothing_cleared()?;
                match self.register(space, offset, width)? {
                    Some(r) if r.replay.read == ReadRule::Until && mask == width_mask(width) => {
                        self.doing.poll(r, expected, mask);
                    }
                    r => return self.widened(r, offset, format!("until with mask {mask:#x}")),
                }
                self.reads.until = self.reads.until.saturating_add(u64::from(reads));
                self.count(RewriteKind::ReadToWait);
                self.limit(limit_ns, self.plan.envelope.budgets.poll_ns)
            }
            Action::WaitInterrupt { lines, limit_ns, .. } => {
                self.event()?;
                self.nothing_cleared()?;
                self.interrupts += 1;
                self.count(RewriteKind::WaitAdded);
                if lines == 0 || lines & !LINES != 0 {
                    return self.refuse(4, Reason::WaitLines { lines });
                }
                self.doing.wait(lines);
                self.limit(limit_ns, self.plan.envelope.budgets.interrupt_ns)
            }
            Action::Put { offset, width, .. } => {
                self.event()?;
                self.nothing_cleared()?;
                self.change(action, offset, u32::from(width))
            }
            Action::Copy { offset, bytes, .. } => {
                self.event()?;
                self.nothing_cleared()?;
                self.change(action, offset, bytes)
            }
            // Such a plan expects no effects.
            Action::Check { expectation, .. } => self.refuse(
                6,
                Reason::Check {
                    expectation,
                    times: "here".to_owned(),
                    expectations: 0,
                },
            ),
            Action::Pause { ns, .. } => {
                self.nothing_cleared()?;
                self.check_pause(ns)
            }
        }
    }

    /// Checks that the pauses so far are within the plan's time.
    fn check_pause(&mut self, ns: u64) -> Result<(), Refusal> {
        self.pauses_ns = self.pauses_ns.saturating_add(ns);
        let max = self.plan.envelope.budgets.time_ns;
        if self.pauses_ns > max {
            return self.refuse(4, budget_exceeded("nanoseconds of pauses", self.pauses_ns, max));
        }
        Ok(())
    }

    /// Checks a write whose value is only known during the run: only a flush id has one.
    fn check_live_write(&mut self, space: u8, offset: u64, width: u8) -> Result<(), Refusal> {
        let register = match self.register(space, offset, width)? {
            Some(r) if r.replay.role == Some(Role::FlushId) && r.replay.write => {
                self.untouched.write(r, 0);
                self.doing.write(r, 0, false).or_else(|e| self.refuse(3, e))?;
                self.count(RewriteKind::FlushId);
                return Ok(());
            }
            Some(r) => r.name.clone(),
            None => format!("{offset:#x}"),
        };
        self.refuse(1, Reason::LiveValue { register })
    }

    /// Checks how a read is compared, and counts it.
    fn check_read(
        &mut self,
        r: Option<&'a Register>,
        offset: u64,
        width: u8,
        class: ReadClass,
        expected: u64,
    ) -> Result<(), Refusal> {
        let mask = self.read_class(r, offset, width, class)?;
        if let Some(r) = r {
            self.doing.read(r, expected, mask);
        }
        match class {
            ReadClass::Before(mask) => {
                if r.and_then(|r| self.untouched.reason(r)).is_none() {
                    let register = r.map_or_else(|| format!("{offset:#x}"), |r| r.name.clone());
                    return self.refuse(1, Reason::NotBefore { register });
                }
                let of = if mask == width_mask(width) {
                    &mut self.reads.equal
                } else {
                    &mut self.reads.masked
                };
                *of += 1;
            }
            ReadClass::Equal => self.reads.equal += 1,
            ReadClass::Masked(_) => self.reads.masked += 1,
            ReadClass::Any => self.reads.any += 1,
            ReadClass::Feeds(_) => self.reads.feeds += 1,
        }
        Ok(())
    }

    /// Counts an event of the outcome.
    fn event(&mut self) -> Result<(), Refusal> {
        self.events += 1;
        if self.events > MAX_EVENTS {
            return self.refuse(4, budget_exceeded("events of the outcome", self.events, MAX_EVENTS));
        }
        Ok(())
    }

    /// Checks that status words are cleared only directly before the submit of their chain.
    fn nothing_cleared(&self) -> Result<(), Refusal> {
        if self.cleared.is_empty() {
            return Ok(());
        }
        self.refuse(3, Reason::ClearedForNothing)
    }

    fn widened<T>(&self, r: Option<&Register>, offset: u64, class: String) -> Result<T, Refusal> {
        let rule = match r.map(|r| r.replay.read) {
            Some(ReadRule::Equal) | None => "equal".to_owned(),
            Some(ReadRule::Masked(mask)) => format!("masked with {mask:#x}"),
            Some(ReadRule::Until) => "until".to_owned(),
            Some(ReadRule::Feeds) => "feeds".to_owned(),
            Some(ReadRule::Any) => "any".to_owned(),
        };
        let register = r.map_or_else(|| format!("{offset:#x}"), |r| r.name.clone());
        self.refuse(1, Reason::ReadWidened { register, class, rule })
    }

    /// Returns the bits of a read that are compared: at least those that the map requires, and all bits of an unknown
    /// register.
    fn read_class(&self, r: Option<&Register>, offset: u64, width: u8, class: ReadClass) -> Result<u64, Refusal> {
        let all = width_mask(width);
        // A fault shows as a difference in one of these registers, whatever the map says about the others.
        let tells_faults = r.is_some_and(|r| {
            use InterruptLine::{Job, Mmu};
            matches!(
                r.replay.role,
                Some(Role::IrqStatus(Job | Mmu) | Role::IrqRawstat(Job | Mmu))
            )
        });
        let (compared, name) = match class {
            ReadClass::Equal => (all, String::new()),
            ReadClass::Masked(mask) => (mask & all, format!("masked with {mask:#x}")),
            ReadClass::Before(_) if tells_faults => (0, "before".to_owned()),
            ReadClass::Before(mask) => (mask & all, format!("before with {mask:#x}")),
            ReadClass::Any => (0, "any".to_owned()),
            ReadClass::Feeds(_) => (0, "feeds".to_owned()),
        };
        let demanded = match r.map(|r| r.replay.read) {
            _ if tells_faults => all,
            Some(ReadRule::Equal | ReadRule::Until) | None => all,
            Some(ReadRule::Masked(mask)) => mask & all,
            Some(ReadRule::Feeds) if matches!(class, ReadClass::Any) => all,
            Some(ReadRule::Any) if matches!(class, ReadClass::Feeds(_)) => all,
            Some(ReadRule::Feeds | ReadRule::Any) => 0,
        };
        if demanded & !compared != 0 {
            return self.widened(r, offset, name);
        }
        Ok(compared)
    }

    fn limit(&self, limit_ns: u64, budget_ns: u64) -> Result<(), Refusal> {
        if limit_ns == 0 || limit_ns > budget_ns {
            return self.refuse(4, Reason::WaitLimit { limit_ns, budget_ns });
        }
        Ok(())
    }

    /// Returns the register of an access, or `None` for an allowed unknown one.
    fn register(&self, space: u8, offset: u64, width: u8) -> Result<Option<&'a Register>, Refusal> {
        if space != space::REGISTERS {
            return self.refuse(1, Reason::UnknownSpace { space });
        }
        let window = self.map.window_bytes();
        if offset.checked_add(u64::from(width)).is_none_or(|end| end > window) {
            return self.refuse(1, Reason::OutsideWindow { offset, window });
        }
        if width != 4 || !offset.is_multiple_of(4) {
            return self.refuse(1, Reason::WidthOrAlignment { offset, width });
        }
        let at = RegOffset::new(u32::try_from(offset).unwrap_or(u32::MAX));
        match self.map.at(at) {
            Some(r) => Ok(Some(r)),
            None if self
                .plan
                .accesses
                .allowed
                .iter()
                .any(|(start, end)| (*start..*end).contains(&at)) =>
            {
                Ok(None)
            }
            None => self.refuse(1, Reason::UnknownRegister { offset }),
        }
    }

    /// Rule 5: checks that the rewrites list everything in the body that is not in the recording.
    fn counts(&self, actions: u64) -> Result<(), Refusal> {
        let named = |kind| self.plan.envelope.rewrites.iter().filter(|r| r.kind == kind).count() as u64;
        let found = |kind| self.rewrites.get(&kind).copied().unwrap_or(0);
        let reads = (&self.plan.accesses.reads, &self.reads);
        let jobs = self.plan.jobs().len() as u64;
        let pairs = [
            ("actions", self.plan.envelope.actions, actions),
            ("interrupts", self.plan.accesses.interrupts, self.interrupts),
            ("jobs", jobs, self.jobs),
            ("equal reads", reads.0.equal, reads.1.equal),
            ("masked reads", reads.0.masked, reads.1.masked),
            ("polled reads", reads.0.until, reads.1.until),
            ("feeding reads", reads.0.feeds, reads.1.feeds),
            ("uncompared reads", reads.0.any, reads.1.any),
            ("root rewrites", named(RewriteKind::Root), found(RewriteKind::Root)),
            (
                "address rewrites",
                named(RewriteKind::Address),
                self.plan.spaces().len() as u64,
            ),
            (
                "flush-id rewrites",
                named(RewriteKind::FlushId),
                found(RewriteKind::FlushId),
            ),
            (
                "job-status rewrites",
                named(RewriteKind::JobStatus),
                found(RewriteKind::JobStatus),
            ),
            (
                "read-to-wait rewrites",
                named(RewriteKind::ReadToWait),
                found(RewriteKind::ReadToWait),
            ),
            (
                "wait-added rewrites",
                named(RewriteKind::WaitAdded),
                found(RewriteKind::WaitAdded),
            ),
        ];
        for (what, said, found) in pairs {
            check_count(what, said, found)?;
        }
        Ok(())
    }
}
