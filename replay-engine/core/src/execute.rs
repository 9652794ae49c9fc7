//! Runs actions on a device: bounded waits, budgets, comparisons.

use crate::action::{Action, ReadClass, width_mask};
use crate::device::{Device, DeviceError, WaitResult};
use crate::encoding::{Actions, Common, DecodeError, SLOTS};

/// Limits that hold for a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most actions.
    pub actions: u64,
    /// Most nanoseconds on the device's clock.
    pub time_ns: u64,
    /// Nanoseconds between two reads of a poll, at least 1.
    pub poll_step_ns: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            actions: 50_000_000,
            time_ns: 600_000_000_000,
            poll_step_ns: 1_000,
        }
    }
}

/// Actions between two looks at the clock where nothing waits.
const CLOCK_EVERY: u64 = 1024;

/// How a value was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// All its bits.
    Equal,
    /// These bits.
    Masked(u64),
    /// These bits, until a limit.
    Until(u64),
}

/// A value that differs from the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Event of the recording; for a poll the event of its last read.
    pub event: u32,
    /// Space number.
    pub space: u8,
    /// Byte offset in the space.
    pub offset: u64,
    /// Width in bytes.
    pub width: u8,
    /// Value in the recording.
    pub expected: u64,
    /// Value seen; for a poll, the last one.
    pub got: u64,
    /// How it was compared.
    pub compared: Compared,
}

/// An access that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Event of the recording.
    pub event: u32,
    /// Whether it writes.
    pub write: bool,
    /// Whether it is a read of a poll after the first.
    pub again: bool,
    /// Space number.
    pub space: u8,
    /// Byte offset in the space.
    pub offset: u64,
    /// Width in bytes.
    pub width: u8,
    /// Value written or read.
    pub value: u64,
    /// Device's clock before the access, where [`Observer::TIMES`] asks for it, otherwise 0.
    pub time_ns: u64,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop with [`FailureKind::Stopped`].
    Stop,
}

/// Sees what a run does, and may stop it.
pub trait Observer {
    /// Whether [`Seen::time_ns`] is filled in, which asks the device for the time at each access.
    const TIMES: bool = false;

    /// An access was made.
    fn access(&mut self, seen: &Seen) -> Flow {
        let _ = seen;
        Flow::Continue
    }

    /// An interrupt that was waited for is there. `lines` has a bit for every raised line.
    fn interrupt(&mut self, event: u32, lines: u32, time_ns: u64) -> Flow {
        let _ = (event, lines, time_ns);
        Flow::Continue
    }

    /// A compared value differs. By default the run goes on.
    fn divergence(&mut self, divergence: &Divergence) -> Flow {
        let _ = divergence;
        Flow::Continue
    }
}

/// Sees nothing.
impl Observer for () {}

/// What a run did. Every recorded read counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Actions begun.
    pub actions: u64,
    /// Writes made.
    pub writes: u64,
    /// Recorded reads that had to match.
    pub equal: u64,
    /// Recorded reads of which some bits had to match.
    pub masked: u64,
    /// Recorded reads that were part of a poll.
    pub until: u64,
    /// Recorded reads whose value a later write used.
    pub feeds: u64,
    /// Recorded reads of free-running values.
    pub any: u64,
    /// Compared reads that matched.
    pub matched: u64,
    /// Divergences: compared actions that did not match.
    pub divergences: u64,
    /// Interrupts waited for and taken.
    pub interrupts: u64,
}

impl Counts {
    /// Recorded reads that were compared.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.equal + self.masked + self.until
    }
}

/// Why a run stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The actions cannot be read.
    Decode(DecodeError),
    /// The device refused or failed an access.
    Device {
        /// What it said.
        error: DeviceError,
        /// Space number.
        space: u8,
        /// Byte offset in the space.
        offset: u64,
    },
    /// The device failed while it waited or told the time.
    DeviceWait(DeviceError),
    /// No interrupt came within its limit.
    InterruptTimedOut {
        /// Lines waited for.
        lines: u32,
        /// The limit, ns.
        limit_ns: u64,
    },
    /// More actions than the budget allows.
    ActionBudget,
    /// More time than the budget allows.
    TimeBudget,
    /// The observer stopped the run.
    Stopped,
}

/// A run stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Event of the recording at which it stopped.
    pub event: u32,
    /// Why.
    pub kind: FailureKind,
    /// What was done until then.
    pub counts: Counts,
}

struct Run<'r, D: ?Sized, O> {
    device: &'r mut D,
    observer: &'r mut O,
    counts: Counts,
    slots: [u64; SLOTS],
    started_ns: u64,
    budget: Budget,
    /// Number of actions at which to look at the budgets again.
    look_at: u64,
}

/// What [`Run::common`] counts.
#[derive(Default)]
struct Tally {
    writes: u64,
    equal: u64,
    matched: u64,
}

/// Runs actions on a device, in order, to their end or to the first failure. Divergences are told to the observer
/// and do not stop the run unless it says so.
///
/// # Errors
/// When the actions cannot be read, the device fails, an interrupt does not come, a budget is spent, or the
/// observer stops the run. The device is left as it is.
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
        look_at: 0,
    };
    let mut actions = actions;
    let mut event = 0;
    loop {
        let (rest, mut step) = run.common(actions, &mut event);
        actions = rest;
        if step.is_ok() {
            step = match actions.next() {
                None => break,
                Some(Ok(action)) => {
                    event = action.event();
                    run.step(&action)
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

fn go(flow: Flow) -> Result<(), FailureKind> {
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

    /// Looks at the budgets, and says at which action to look again.
    #[cold]
    fn look(&mut self) -> Result<(), FailureKind> {
        if self.counts.actions >= self.budget.actions {
            return Err(FailureKind::ActionBudget);
        }
        self.look_at = self.counts.actions.saturating_add(CLOCK_EVERY).min(self.budget.actions);
        self.check_clock()
    }

    fn check_clock(&mut self) -> Result<(), FailureKind> {
        if self.device.now_ns().saturating_sub(self.started_ns) > self.budget.time_ns {
            return Err(FailureKind::TimeBudget);
        }
        Ok(())
    }

    /// Runs actions as long as they have the common form and the budgets need no look. What it counts it keeps in
    /// registers: counters in memory would cost more than the actions.
    fn common<'a>(&mut self, mut actions: Actions<'a>, event: &mut u32) -> (Actions<'a>, Result<(), FailureKind>) {
        let (chunks, mut at) = actions.chunks(self.look_at.saturating_sub(self.counts.actions));
        let mut tally = Tally::default();
        let mut done = 0;
        let mut result = Ok(());
        for bytes in chunks {
            let Some(c) = Common::of(bytes, at) else { break };
            at = c.event;
            done += 1;
            result = self.one(&c, &mut tally);
            if result.is_err() {
                *event = at;
                break;
            }
        }
        actions.pass(done, at);
        self.counts.actions += done as u64;
        self.counts.writes += tally.writes;
        self.counts.equal += tally.equal;
        self.counts.matched += tally.matched;
        (actions, result)
    }

    #[inline(always)]
    fn one(&mut self, c: &Common, tally: &mut Tally) -> Result<(), FailureKind> {
        let (event, offset, value) = (c.event, u64::from(c.offset), u64::from(c.value));
        if c.write {
            let time_ns = self.time();
            self.put(0, offset, 4, value)?;
            tally.writes += 1;
            let (space, width) = (0, 4);
            let seen = Seen {
                event,
                write: true,
                again: false,
                space,
                offset,
                width,
                value,
                time_ns,
            };
            return go(self.observer.access(&seen));
        }
        let got = self.read(event, false, 0, offset, 4)?;
        tally.equal += 1;
        if got == value {
            tally.matched += 1;
            return Ok(());
        }
        let (expected, compared) = (value, Compared::Equal);
        self.diverge(&Divergence {
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
    fn step(&mut self, action: &Action) -> Result<(), FailureKind> {
        if self.counts.actions >= self.look_at {
            self.look()?;
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
                self.diverge(&Divergence {
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
                // A device whose clock stands still must not hold the run, so the pauses count too.
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
                        self.diverge(&Divergence {
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
                        go(self.observer.interrupt(event, lines, now))?;
                        self.check_clock()
                    }
                    WaitResult::TimedOut => Err(FailureKind::InterruptTimedOut { lines, limit_ns }),
                }
            }
            Action::Pause { ns, .. } => {
                self.device.pause(ns).map_err(FailureKind::DeviceWait)?;
                self.check_clock()
            }
        }
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
        go(self.observer.access(&Seen {
            event,
            write: true,
            again: false,
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
        go(self.observer.access(&Seen {
            event,
            write: false,
            again,
            space,
            offset,
            width,
            value,
            time_ns,
        }))?;
        Ok(value)
    }

    #[cold]
    fn diverge(&mut self, divergence: &Divergence) -> Result<(), FailureKind> {
        self.counts.divergences += 1;
        go(self.observer.divergence(divergence))
    }
}
