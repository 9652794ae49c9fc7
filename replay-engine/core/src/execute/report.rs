//! What a run is given and what it tells: budgets, what was seen, counts, failures.

use crate::device::DeviceError;
use crate::encoding::DecodeError;

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

/// How a value was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// All its bits.
    Equal,
    /// These bits.
    Masked(u64),
    /// These bits, until a limit.
    Until(u64),
    /// These bits, of a value that nothing had written since before the recording began.
    Before(u64),
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
pub struct ObservedAccess {
    /// Event of the recording.
    pub event: u32,
    /// Whether it writes.
    pub write: bool,
    /// Whether it is a read of a poll after the first.
    pub poll_repeat: bool,
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
    /// Whether [`ObservedAccess::time_ns`] is filled in, which asks the device for the time at each access.
    const TIMES: bool = false;

    /// An access was made.
    fn access(&mut self, seen: &ObservedAccess) -> Flow {
        let _ = seen;
        Flow::Continue
    }

    /// An interrupt that was waited for is there. `lines` has a bit for every raised line.
    fn interrupt(&mut self, event: u32, lines: u32, time_ns: u64) -> Flow {
        let _ = (event, lines, time_ns);
        Flow::Continue
    }

    /// Bytes were put into the plan's memory, as the CPU did in the recording.
    fn host_write(&mut self, event: u32, offset: u64, bytes: u32, time_ns: u64) -> Flow {
        let _ = (event, offset, bytes, time_ns);
        Flow::Continue
    }

    /// A compared value differs. By default the run goes on.
    fn divergence(&mut self, divergence: &Divergence) -> Flow {
        let _ = divergence;
        Flow::Continue
    }

    /// A value of from before the recording differs, which is no divergence. By default the run goes on.
    fn state_before(&mut self, difference: &Divergence) -> Flow {
        let _ = difference;
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
    /// Writes made, those of the recording's CPU to the plan's memory among them.
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
    /// Recorded reads, of those above, that showed other state of from before the recording: they are not compared.
    pub before: u64,
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
        let read = self.equal.saturating_add(self.masked).saturating_add(self.until);
        read.saturating_sub(self.before)
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
