//! Rules for window plans along the body: accesses, waits, limits, counts.
//!
//! Such a plan has no page tables. If the device uses bus mastering, every address that it gets is proved. Otherwise
//! the plan has no memory, and the device accesses none.

mod envelope;

use super::bus_master::BusMasterCheck;
use crate::device::{DeviceInfo, space};
use crate::plan::{
    CompareMode, Effect, MmioPlan, PageSource, PlannedAccesses, ReadClasses, RegisterAccess, RewriteKind,
    UnwrittenRegisters,
};
use crate::rules::{
    MAX_EVENTS, Reason, Refusal, VerificationReport, Work, budget_exceeded, check_count, describe_allowed, each_action,
    refuse,
};
use replay_core::{Action, ReadClass, width_mask};
use std::collections::BTreeSet;
use trace_core::RegOffset;
use trace_core::recording::SpaceKind;
use trace_core::registers::RegisterMap;

/// Why nothing is written to a window that is neither the registers nor framebuffer memory.
pub(super) const OTHER_WINDOW: &str = "the effect of a write to this MMIO region is not known: it may be another way \
                                       to the registers, or hold addresses of interrupts";

/// A poll of a window or of memory.
struct Poll {
    offset: u64,
    width: u8,
    /// Number of recorded reads that it replaces.
    reads: u32,
    mask: u64,
    expected: u64,
}

struct Walker<'a> {
    plan: PlannedAccesses<'a>,
    mmio: &'a MmioPlan,
    map: &'a RegisterMap,
    untouched: UnwrittenRegisters,
    reads: ReadClasses,
    interrupts: u64,
    polls: u64,
    /// Number of waits that replace no read of the recording.
    added: u64,
    /// The bus-mastering device.
    master: Option<BusMasterCheck<'a>>,
    /// Expectations that were checked.
    looked: BTreeSet<u32>,
    events: u64,
    pauses_ns: u64,
    /// Index and event of the current action.
    at: (u64, u32),
}

/// Checks such a plan completely.
pub(super) fn check<'a>(
    plan: PlannedAccesses<'a>,
    mmio: &'a MmioPlan,
    pages: &'a dyn PageSource,
    target: &DeviceInfo,
    map: &'a RegisterMap,
    work: &'a Work<'a>,
    verified: &mut VerificationReport,
) -> Result<(), Refusal> {
    envelope::check(plan, mmio, target)?;
    let master = mmio
        .masters
        .then(|| BusMasterCheck::new(plan, pages, map, work))
        .transpose()?;
    let mut w = Walker {
        plan,
        mmio,
        map,
        untouched: UnwrittenRegisters::default(),
        reads: ReadClasses::default(),
        interrupts: 0,
        polls: 0,
        added: 0,
        master,
        looked: BTreeSet::new(),
        events: 0,
        pauses_ns: 0,
        at: (0, 0),
    };
    let count = each_action(plan, work, |at, action| {
        w.at = at;
        w.check_action(action)
    })?;
    w.counts(count)?;
    if let Some(master) = w.master {
        master.finish(count)?;
    }
    verified.unproved.extend(describe_allowed(plan));
    let left_out = plan.envelope.rewrites.iter().filter(|r| r.kind == RewriteKind::LeftOut);
    verified
        .unproved
        .extend(left_out.map(|r| format!("left out: {}", r.detail)));
    if !plan
        .accesses
        .expectations
        .iter()
        .any(|e| matches!(e.effect, Effect::Screen { .. }))
    {
        let windows = mmio.windows.iter();
        if windows.clone().any(|w| w.kind == SpaceKind::Framebuffer) {
            verified
                .unproved
                .push("the screen is not checked: there is no expected picture".to_owned());
        }
    }
    Ok(())
}

impl<'a> Walker<'a> {
    fn refuse<T>(&self, rule: u8, reason: Reason) -> Result<T, Refusal> {
        let (count, event) = self.at;
        refuse(rule, format!("action {count}, event {event}"), reason)
    }

    /// Counts an event of the outcome.
    fn event(&mut self) -> Result<(), Refusal> {
        self.events += 1;
        if self.events > MAX_EVENTS {
            return self.refuse(4, budget_exceeded("events of the outcome", self.events, MAX_EVENTS));
        }
        Ok(())
    }

    fn check_action(&mut self, action: &Action) -> Result<(), Refusal> {
        match *action {
            Action::Write {
                space: number,
                offset,
                width,
                value,
                ..
            } => {
                self.event()?;
                self.check_write(number, offset, width, value)
            }
            Action::Read {
                space: number,
                offset,
                width,
                class,
                ..
            } => {
                self.event()?;
                let touch = self.touch(number, offset, width)?;
                self.read(touch.as_ref(), offset, width, class)
            }
            Action::Until {
                space: number,
                offset,
                width,
                reads,
                mask,
                expected,
                limit_ns,
                ..
            } => {
                self.event()?;
                let poll = Poll {
                    offset,
                    width,
                    reads,
                    mask,
                    expected,
                };
                self.check_poll(number, poll)?;
                self.limit(limit_ns, self.plan.envelope.budgets.poll_ns)
            }
            Action::WaitInterrupt { lines, limit_ns, .. } => {
                self.event()?;
                self.interrupts += 1;
                if lines == 0 {
                    return self.refuse(4, Reason::WaitLines { lines });
                }
                self.limit(limit_ns, self.plan.envelope.budgets.interrupt_ns)
            }
            Action::Pause { ns, .. } => {
                self.pauses_ns = self.pauses_ns.saturating_add(ns);
                if self.pauses_ns > self.plan.envelope.budgets.time_ns {
                    let all = budget_exceeded(
                        "nanoseconds of pauses",
                        self.pauses_ns,
                        self.plan.envelope.budgets.time_ns,
                    );
                    return self.refuse(4, all);
                }
                Ok(())
            }
            Action::WriteSlot { offset, .. } => self.refuse(
                1,
                Reason::LiveValue {
                    register: format!("{offset:#x}"),
                },
            ),
            Action::Put { .. } | Action::Copy { .. } => {
                self.event()?;
                match &mut self.master {
                    Some(master) => master.change(action).or_else(|reason| self.refuse(2, reason)),
                    None => self.refuse(2, Reason::UnknownSpace { space: space::ARENA }),
                }
            }
            Action::Check { expectation, .. } => self.check_expectation(expectation),
        }
    }

    /// Checks a write of a window.
    fn check_write(&mut self, number: u8, offset: u64, width: u8, value: u64) -> Result<(), Refusal> {
        let Some(touch) = self.touch(number, offset, width)? else {
            return self.other_window(number, offset, value);
        };
        if let Some((register, why)) = touch.refusal(value, self.mmio.masters) {
            return self.refuse(1, Reason::NotReplayable { register, value, why });
        }
        self.untouched.write(&touch);
        let written = self.master.as_mut().map_or(Ok(()), |m| m.write(&touch, value));
        written.or_else(|reason| self.refuse(2, reason))
    }

    /// Checks a poll of a register, or of memory for a device that is a bus master.
    fn check_poll(&mut self, number: u8, poll: Poll) -> Result<(), Refusal> {
        let Poll {
            offset,
            width,
            reads,
            mask,
            expected,
        } = poll;
        if number == space::ARENA
            && let Some(master) = &mut self.master
        {
            let polled = master.observe_memory_poll(offset, width, mask, expected);
            polled.or_else(|reason| self.refuse(2, reason))?;
            if reads != 0 {
                return self.refuse(5, Reason::UnknownSpace { space: number });
            }
            self.added += 1;
            return Ok(());
        }
        let touch = self.touch(number, offset, width)?;
        let polled = touch.as_ref().is_some_and(|t| t.demand() == CompareMode::Until);
        // A poll that replaces no read of the recording compares none of them, so it may wait for some bits only.
        let bits = mask == width_mask(width) || reads == 0 && mask & width_mask(width) != 0;
        if !polled || !bits {
            return self.widened(touch.as_ref(), offset, format!("until with mask {mask:#x}"));
        }
        self.reads.until = self.reads.until.saturating_add(u64::from(reads));
        *(if reads == 0 { &mut self.added } else { &mut self.polls }) += 1;
        if let (Some(master), space::REGISTERS) = (&mut self.master, number) {
            master.observe_poll(offset, mask, expected);
        }
        Ok(())
    }

    /// Checks that the plan has the expectation with this number, and that it is checked once.
    fn check_expectation(&mut self, expectation: u32) -> Result<(), Refusal> {
        let expectations = self.plan.accesses.expectations.len() as u64;
        let of = self.plan.accesses.expectations.get(expectation as usize);
        let at_end = of.is_some_and(|e| matches!(e.effect, Effect::Output { .. }));
        let again = !self.looked.insert(expectation);
        if of.is_none() || at_end || again {
            let times = if again { "a second time" } else { "here" }.to_owned();
            return self.refuse(
                6,
                Reason::Check {
                    expectation,
                    times,
                    expectations,
                },
            );
        }
        Ok(())
    }

    /// Refuses writes to a window that is neither the registers nor plain memory of the device. Such a window may give
    /// access to the registers past the map's rules. With bus mastering, it may also hold addresses of
    /// message-signalled interrupts.
    fn other_window(&self, number: u8, offset: u64, value: u64) -> Result<(), Refusal> {
        let window = self.mmio.windows.iter().find(|w| w.number == number);
        let (plain, name) = window.map_or((false, ""), |w| (w.kind == SpaceKind::Framebuffer, &w.name));
        if plain {
            return Ok(());
        }
        let register = format!("{name}+{offset:#x}");
        let why = OTHER_WINDOW.to_owned();
        self.refuse(1, Reason::NotReplayable { register, value, why })
    }

    /// Returns the registers that an access covers, or `None` for an access to another window. Refuses an access that
    /// fits no window, or covers registers that the map does not know.
    fn touch(&self, number: u8, offset: u64, width: u8) -> Result<Option<RegisterAccess<'a>>, Refusal> {
        let Some(window) = self.mmio.windows.iter().find(|w| w.number == number) else {
            return self.refuse(1, Reason::UnknownSpace { space: number });
        };
        let inside = offset
            .checked_add(u64::from(width))
            .is_some_and(|end| end <= window.bytes);
        let (Ok(at), true) = (u32::try_from(offset).map(RegOffset::new), inside) else {
            let window = window.bytes;
            return self.refuse(1, Reason::OutsideWindow { offset, window });
        };
        if !matches!(width, 1 | 2 | 4 | 8) || !at.is_aligned(u32::from(width)) {
            return self.refuse(1, Reason::WidthOrAlignment { offset, width });
        }
        if number != space::REGISTERS {
            return Ok(None);
        }
        let touch = RegisterAccess::new(self.map, at, width);
        let allowed = |(start, end): &(RegOffset, RegOffset)| {
            *start <= at && end.offset_from(at).is_some_and(|bytes| u32::from(width) <= bytes)
        };
        match touch.unknown() {
            Some(unknown) if !self.plan.accesses.allowed.iter().any(allowed) => {
                let offset = u64::from(unknown.get());
                self.refuse(1, Reason::UnknownRegister { offset })
            }
            _ => Ok(Some(touch)),
        }
    }

    fn read(
        &mut self,
        touch: Option<&RegisterAccess<'_>>,
        offset: u64,
        width: u8,
        class: ReadClass,
    ) -> Result<(), Refusal> {
        let all = width_mask(width);
        let (compared, of, name) = match class {
            ReadClass::Equal => (all, &mut self.reads.equal, String::new()),
            ReadClass::Masked(m) => (m & all, &mut self.reads.masked, format!("masked with {m:#x}")),
            ReadClass::Before(m) if m == all => (all, &mut self.reads.equal, String::new()),
            ReadClass::Before(m) => (m & all, &mut self.reads.masked, format!("before with {m:#x}")),
            ReadClass::Any => (0, &mut self.reads.any, "any".to_owned()),
            ReadClass::Feeds(_) => (0, &mut self.reads.feeds, "feeds".to_owned()),
        };
        *of += 1;
        let demanded = match touch.map(RegisterAccess::demand) {
            Some(CompareMode::Bits(mask)) => mask & all,
            Some(CompareMode::Until) | None => all,
        };
        if demanded & !compared != 0 || matches!(class, ReadClass::Feeds(_)) {
            return self.widened(touch, offset, name);
        }
        if matches!(class, ReadClass::Before(_)) && touch.and_then(|t| self.untouched.reason(t)).is_none() {
            let register = touch.map_or_else(|| format!("{offset:#x}"), RegisterAccess::name);
            return self.refuse(1, Reason::NotBefore { register });
        }
        Ok(())
    }

    fn widened<T>(&self, touch: Option<&RegisterAccess<'_>>, offset: u64, class: String) -> Result<T, Refusal> {
        let rule = match touch.map(RegisterAccess::demand) {
            Some(CompareMode::Until) => "until".to_owned(),
            Some(CompareMode::Bits(mask)) => format!("compared with {mask:#x}"),
            None => "equal".to_owned(),
        };
        let register = touch.map_or_else(|| format!("{offset:#x}"), RegisterAccess::name);
        self.refuse(1, Reason::ReadWidened { register, class, rule })
    }

    fn limit(&self, limit_ns: u64, budget_ns: u64) -> Result<(), Refusal> {
        if limit_ns == 0 || limit_ns > budget_ns {
            return self.refuse(4, Reason::WaitLimit { limit_ns, budget_ns });
        }
        Ok(())
    }

    /// Rule 5: checks that the rewrites list everything in the body that is not in the recording.
    fn counts(&self, actions: u64) -> Result<(), Refusal> {
        let named = |kind| self.plan.envelope.rewrites.iter().filter(|r| r.kind == kind).count() as u64;
        let (said, found) = (&self.plan.accesses.reads, &self.reads);
        for (what, said, found) in [
            ("actions", self.plan.envelope.actions, actions),
            ("interrupts", self.plan.accesses.interrupts, self.interrupts),
            ("equal reads", said.equal, found.equal),
            ("masked reads", said.masked, found.masked),
            ("polled reads", said.until, found.until),
            ("feeding reads", said.feeds, found.feeds),
            ("uncompared reads", said.any, found.any),
            ("read-to-wait rewrites", named(RewriteKind::ReadToWait), self.polls),
            (
                "wait-added rewrites",
                named(RewriteKind::WaitAdded),
                self.interrupts.saturating_add(self.added),
            ),
        ] {
            check_count(what, said, found)?;
        }
        Ok(())
    }
}
