//! Executor that runs actions on a device, with bounded waits, budgets and comparisons.

use crate::action::{Action, ReadClass, width_mask};
mod report;

pub use report::{Budget, Compared, Counts, Divergence, Failure, FailureKind, Flow, ObservedAccess, Observer};

use crate::device::{Device, DeviceError, MEMORY, WaitResult};
use crate::encoding::{Actions, BATCH_ACTIONS, CommonAction, SLOTS, decode_offsets, split_batch};

/// Number of actions between two clock checks while nothing waits.
const CLOCK_CHECK_ACTIONS: u64 = 1024;

struct Run<'r, D: ?Sized, O> {
    device: &'r mut D,
    observer: &'r mut O,
    counts: Counts,
    slots: [u64; SLOTS],
    started_ns: u64,
    budget: Budget,
    /// Number of actions at which the budgets are checked next.
    next_budget_check: u64,
}

/// Counters of [`Run::run_common`]. They are minimal; the other counts are derived from them.
#[derive(Default)]
struct Tally {
    /// Reads that returned a value.
    equal: u64,
    /// Reads among these whose value differs.
    differ: u64,
    /// 1 after an access that was not completed, otherwise 0.
    broken: u64,
}

/// Runs actions on a device, in order, to the end or to the first failure. Divergences are reported to the observer.
/// They stop the run only if the observer says so.
///
/// # Errors
/// When the actions cannot be decoded, the device fails, an interrupt does not arrive, a budget is exhausted, or the
/// observer stops the run. The device stays in the state that it has then.
pub fn execute<D: Device + ?Sized, O: Observer>(
    device: &mut D,
    actions: Actions<'_>,
    budget: &Budget,
    observer: &mut O,
) -> Result<Counts, Failure> {
    let started_ns = device.now_ns();
    let mut run = Run {
        device,
        observer,
        counts: Counts::default(),
        slots: [0; SLOTS],
        started_ns,
        budget: *budget,
        next_budget_check: 0,
    };
    let mut actions = actions;
    let mut event = 0;
    loop {
        let (rest, mut step) = run.run_common(actions, &mut event);
        actions = rest;
        if step.is_ok() {
            step = match actions.next() {
                None => break,
                Some(Ok(action)) => {
                    event = action.event();
                    run.run_action(&action)
                }
                Some(Err(e)) => Err(FailureKind::Decode(e)),
            };
        }
        if let Err(kind) = step {
            return Err(Failure {
                event,
                kind,
                counts: run.counts,
            });
        }
    }
    Ok(run.counts)
}

fn check_flow(flow: Flow) -> Result<(), FailureKind> {
    match flow {
        Flow::Continue => Ok(()),
        Flow::Stop => Err(FailureKind::Stopped),
    }
}

impl<D: Device + ?Sized, O: Observer> Run<'_, D, O> {
    #[inline(always)]
    fn time(&mut self) -> u64 {
        if O::TIMES { self.device.now_ns() } else { 0 }
    }

    /// Checks the budgets and sets the action count of the next check.
    #[cold]
    fn check_budgets(&mut self) -> Result<(), FailureKind> {
        if self.counts.actions >= self.budget.actions {
            return Err(FailureKind::ActionBudget);
        }
        self.next_budget_check = self
            .counts
            .actions
            .saturating_add(CLOCK_CHECK_ACTIONS)
            .min(self.budget.actions);
        self.check_clock()
    }

    fn check_clock(&mut self) -> Result<(), FailureKind> {
        if self.device.now_ns().saturating_sub(self.started_ns) > self.budget.time_ns {
            return Err(FailureKind::TimeBudget);
        }
        Ok(())
    }

    /// Runs actions while they have a common form and no budget check is due. Long-form actions run in batches where
    /// possible. The counters are local, so that they stay in registers: counters in memory would cost more than the
    /// actions.
    fn run_common<'a>(&mut self, mut actions: Actions<'a>, event: &mut u32) -> (Actions<'a>, Result<(), FailureKind>) {
        let (mut rest, mut at, max) = actions.remaining(self.next_budget_check.saturating_sub(self.counts.actions));
        let mut tally = Tally::default();
        let mut done = 0;
        let mut result = Ok(());
        let mut offsets = [0; BATCH_ACTIONS];
        // Below this count, enough actions remain for a full batch.
        let enough = max.saturating_add(1).saturating_sub(BATCH_ACTIONS as u64);
        'run: loop {
            while done < enough
                && let Some((some, behind)) = split_batch(rest)
                && let Some(steps) = decode_offsets(some, &mut offsets)
            {
                let mut event = at;
                for (bytes, offset) in some.iter().zip(offsets) {
                    let c = CommonAction::from_long_form(bytes, event, offset);
                    event = c.event;
                    done += 1;
                    result = self.run_common_action(&c, &mut tally);
                    if result.is_err() {
                        at = event;
                        break 'run;
                    }
                }
                (rest, at) = (behind, at.wrapping_add(steps));
            }
            // Runs single actions until the next batch is possible.
            loop {
                if done >= max {
                    break 'run;
                }
                let Some((c, behind)) = CommonAction::decode_first(rest, at) else {
                    break 'run;
                };
                (rest, at) = (behind, c.event);
                done += 1;
                result = self.run_common_action(&c, &mut tally);
                if result.is_err() {
                    break 'run;
                }
                if c.is_short() {
                    break;
                }
            }
        }
        if result.is_err() {
            *event = at;
        }
        actions.advance_to(rest, at);
        self.counts.actions += done;
        self.counts.writes += done.saturating_sub(tally.equal).saturating_sub(tally.broken);
        self.counts.equal += tally.equal;
        self.counts.matched += tally.equal.saturating_sub(tally.differ);
        (actions, result)
    }

    #[inline(always)]
    fn run_common_action(&mut self, c: &CommonAction, tally: &mut Tally) -> Result<(), FailureKind> {
        let (event, offset, value) = (c.event, u64::from(c.offset), u64::from(c.value));
        if c.write {
            let time_ns = self.time();
            if let Err(e) = self.put(0, offset, 4, value) {
                tally.broken = 1;
                return Err(e);
            }
            let (space, width) = (0, 4);
            let seen = ObservedAccess {
                event,
                write: true,
                poll_repeat: false,
                space,
                offset,
                width,
                value,
                time_ns,
            };
            return check_flow(self.observer.access(&seen));
        }
        let got = match self.read(event, false, 0, offset, 4) {
            Ok(got) => got,
            Err(e) => {
                tally.broken = 1;
                return Err(e);
            }
        };
        tally.equal += 1;
        if got == value {
            return Ok(());
        }
        tally.differ += 1;
        let (expected, compared) = (value, Compared::Equal);
        self.report_divergence(&Divergence {
            event,
            space: 0,
            offset,
            width: 4,
            expected,
            got,
            compared,
        })
    }

    #[inline(never)]
    fn run_action(&mut self, action: &Action) -> Result<(), FailureKind> {
        if self.counts.actions >= self.next_budget_check {
            self.check_budgets()?;
        }
        self.counts.actions += 1;
        match *action {
            Action::Write {
                event,
                space,
                offset,
                width,
                value,
            } => self.write(event, space, offset, width, value),
            Action::WriteSlot {
                event,
                space,
                offset,
                width,
                slot,
            } => {
                let value = self.slots.get(usize::from(slot)).copied().unwrap_or(0) & width_mask(width);
                self.write(event, space, offset, width, value)
            }
            Action::Read {
                event,
                space,
                offset,
                width,
                class,
                expected,
            } => {
                let got = self.read(event, false, space, offset, width)?;
                let (mask, compared) = match class {
                    ReadClass::Equal => {
                        self.counts.equal += 1;
                        (u64::MAX, Compared::Equal)
                    }
                    ReadClass::Masked(mask) => {
                        self.counts.masked += 1;
                        (mask, Compared::Masked(mask))
                    }
                    ReadClass::Before(mask) if mask == width_mask(width) => {
                        self.counts.equal += 1;
                        (mask, Compared::Before(mask))
                    }
                    ReadClass::Before(mask) => {
                        self.counts.masked += 1;
                        (mask, Compared::Before(mask))
                    }
                    ReadClass::Any => {
                        self.counts.any += 1;
                        return Ok(());
                    }
                    ReadClass::Feeds(slot) => {
                        self.counts.feeds += 1;
                        if let Some(s) = self.slots.get_mut(usize::from(slot)) {
                            *s = got;
                        }
                        return Ok(());
                    }
                };
                if (got ^ expected) & mask == 0 {
                    self.counts.matched += 1;
                    return Ok(());
                }
                self.report_divergence(&Divergence {
                    event,
                    space,
                    offset,
                    width,
                    expected,
                    got,
                    compared,
                })
            }
            Action::Until {
                event,
                reads,
                space,
                offset,
                width,
                mask,
                expected,
                limit_ns,
            } => {
                self.counts.until = self.counts.until.saturating_add(u64::from(reads));
                let start = self.device.now_ns();
                let step = self.budget.poll_step_ns.max(1);
                // A device whose clock stands still must not block the run, so the pauses count as time too.
                let mut paused = 0u64;
                let mut again = false;
                loop {
                    let got = self.read(event, again, space, offset, width)?;
                    if (got ^ expected) & mask == 0 {
                        self.counts.matched = self.counts.matched.saturating_add(u64::from(reads));
                        return self.check_clock();
                    }
                    if self.device.now_ns().saturating_sub(start).max(paused) >= limit_ns {
                        let compared = Compared::Until(mask);
                        self.report_divergence(&Divergence {
                            event,
                            space,
                            offset,
                            width,
                            expected,
                            got,
                            compared,
                        })?;
                        return self.check_clock();
                    }
                    self.check_clock()?;
                    self.device.pause(step).map_err(FailureKind::DeviceWait)?;
                    paused = paused.saturating_add(step);
                    again = true;
                }
            }
            Action::WaitInterrupt { event, lines, limit_ns } => {
                match self
                    .device
                    .wait_interrupt(lines, limit_ns)
                    .map_err(FailureKind::DeviceWait)?
                {
                    WaitResult::Raised { lines } => {
                        self.counts.interrupts += 1;
                        let now = self.time();
                        check_flow(self.observer.interrupt(event, lines, now))?;
                        self.check_clock()
                    }
                    WaitResult::TimedOut => Err(FailureKind::InterruptTimedOut { lines, limit_ns }),
                }
            }
            Action::Put {
                event,
                offset,
                width,
                value,
            } => {
                let put = self.device.put(offset, width, value);
                self.report_host_write(put, event, offset, u32::from(width))
            }
            Action::Copy {
                event,
                offset,
                bytes,
                image,
            } => {
                let copied = self.device.copy(offset, bytes, image);
                self.report_host_write(copied, event, offset, bytes)
            }
            Action::Check { expectation, .. } => {
                let (space, offset) = (MEMORY, 0);
                let failed = |error| FailureKind::Device { error, space, offset };
                self.device.check(expectation).map_err(failed)
            }
            Action::Pause { ns, .. } => {
                self.device.pause(ns).map_err(FailureKind::DeviceWait)?;
                self.check_clock()
            }
        }
    }

    /// Reports a host write to the plan's memory, or its failure.
    fn report_host_write(
        &mut self,
        done: Result<(), DeviceError>,
        event: u32,
        offset: u64,
        bytes: u32,
    ) -> Result<(), FailureKind> {
        let space = MEMORY;
        done.map_err(|error| FailureKind::Device { error, space, offset })?;
        self.counts.writes += 1;
        let time_ns = self.time();
        check_flow(self.observer.host_write(event, offset, bytes, time_ns))
    }

    #[inline(always)]
    fn put(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), FailureKind> {
        let failed = |error| FailureKind::Device { error, space, offset };
        self.device.write(space, offset, width, value).map_err(failed)
    }

    fn write(&mut self, event: u32, space: u8, offset: u64, width: u8, value: u64) -> Result<(), FailureKind> {
        let time_ns = self.time();
        self.put(space, offset, width, value)?;
        self.counts.writes += 1;
        check_flow(self.observer.access(&ObservedAccess {
            event,
            write: true,
            poll_repeat: false,
            space,
            offset,
            width,
            value,
            time_ns,
        }))
    }

    #[inline(always)]
    fn read(&mut self, event: u32, again: bool, space: u8, offset: u64, width: u8) -> Result<u64, FailureKind> {
        let time_ns = self.time();
        let value = self
            .device
            .read(space, offset, width)
            .map_err(|error| FailureKind::Device { error, space, offset })?;
        check_flow(self.observer.access(&ObservedAccess {
            event,
            write: false,
            poll_repeat: again,
            space,
            offset,
            width,
            value,
            time_ns,
        }))?;
        Ok(value)
    }

    #[cold]
    fn report_divergence(&mut self, divergence: &Divergence) -> Result<(), FailureKind> {
        if matches!(divergence.compared, Compared::Before(_)) {
            self.counts.before += 1;
            return check_flow(self.observer.state_before(divergence));
        }
        self.counts.divergences += 1;
        check_flow(self.observer.divergence(divergence))
    }
}
