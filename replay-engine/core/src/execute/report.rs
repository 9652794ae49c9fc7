//! Inputs and results of a run: budgets, observations, counts and failures.

use crate::device::DeviceError;
use crate::encoding::DecodeError;

/// Limits for a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of actions.
    pub actions: u64,
    /// Maximum duration in nanoseconds on the device's clock.
    pub time_ns: u64,
    /// Time between two reads of a poll in nanoseconds, at least 1.
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
    /// All bits were compared.
    Equal,
    /// These bits were compared.
    Masked(u64),
    /// These bits were compared, until a time limit.
    Until(u64),
    /// These bits were compared, of a value that nothing had written since before the recording began.
    Before(u64),
}

/// Value that differs from the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Event of the recording; for a poll, the event of its last read.
    pub event: u32,
    /// Space number.
    pub space: u8,
    /// Byte offset in the space.
    pub offset: u64,
    /// Width in bytes.
    pub width: u8,
    /// Value in the recording.
    pub expected: u64,
    /// Observed value; for a poll, the last one.
    pub got: u64,
    /// How the value was compared.
    pub compared: Compared,
}

/// Access that the run made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedAccess {
    /// Event of the recording.
    pub event: u32,
    /// Whether the access is a write.
    pub write: bool,
    /// Whether the access is a repeated read of a poll.
    pub poll_repeat: bool,
    /// Space number.
    pub space: u8,
    /// Byte offset in the space.
    pub offset: u64,
    /// Width in bytes.
    pub width: u8,
    /// Value written or read.
    pub value: u64,
    /// Device clock before the access in nanoseconds if [`Observer::TIMES`] is set, otherwise 0.
    pub time_ns: u64,
}

/// Whether a run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Continue.
    Continue,
    /// Stop with [`FailureKind::Stopped`].
    Stop,
}

/// Observer of a run, which can also stop it.
pub trait Observer {
    /// Whether [`ObservedAccess::time_ns`] is filled in, which reads the device's clock at each access.
    const TIMES: bool = false;

    /// Called after an access.
    fn access(&mut self, seen: &ObservedAccess) -> Flow {
        let _ = seen;
        Flow::Continue
    }

    /// Called when an awaited interrupt has arrived. `lines` has a bit for every raised line.
    fn interrupt(&mut self, event: u32, lines: u32, time_ns: u64) -> Flow {
        let _ = (event, lines, time_ns);
        Flow::Continue
    }

    /// Called after bytes were written into the plan's memory, as the CPU did in the recording.
    fn host_write(&mut self, event: u32, offset: u64, bytes: u32, time_ns: u64) -> Flow {
        let _ = (event, offset, bytes, time_ns);
        Flow::Continue
    }

    /// Called when a compared value differs. By default the run continues.
    fn divergence(&mut self, divergence: &Divergence) -> Flow {
        let _ = divergence;
        Flow::Continue
    }

    /// Called when state from before the recording differs, which is no divergence. By default the run continues.
    fn state_before(&mut self, difference: &Divergence) -> Flow {
        let _ = difference;
        Flow::Continue
    }
}

/// Observer that ignores everything.
impl Observer for () {}

/// Counts of what a run did. Every recorded read counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Actions started.
    pub actions: u64,
    /// Writes made, including host writes of the recording to the plan's memory.
    pub writes: u64,
    /// Recorded reads that must match.
    pub equal: u64,
    /// Recorded reads of which some bits must match.
    pub masked: u64,
    /// Recorded reads that were part of a poll.
    pub until: u64,
    /// Recorded reads whose value a later write used.
    pub feeds: u64,
    /// Recorded reads of free-running values.
    pub any: u64,
    /// Recorded reads, among those above, that showed different state from before the recording. They are not compared.
    pub before: u64,
    /// Compared reads that matched.
    pub matched: u64,
    /// Divergences: compared actions that do not match.
    pub divergences: u64,
    /// Awaited interrupts that arrived.
    pub interrupts: u64,
}

impl Counts {
    /// Returns the number of recorded reads that were compared.
    #[must_use]
    pub fn compared(&self) -> u64 {
        let read = self.equal.saturating_add(self.masked).saturating_add(self.until);
        read.saturating_sub(self.before)
    }
}

/// Reasons why a run stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The actions cannot be decoded.
    Decode(DecodeError),
    /// The device refused or failed an access.
    Device {
        /// Error of the device.
        error: DeviceError,
        /// Space number.
        space: u8,
        /// Byte offset in the space.
        offset: u64,
    },
    /// The device failed during a wait or while its clock was read.
    DeviceWait(DeviceError),
    /// No interrupt arrived within the limit.
    InterruptTimedOut {
        /// Lines that were waited for.
        lines: u32,
        /// The limit in nanoseconds.
        limit_ns: u64,
    },
    /// The run exceeded its budget of actions.
    ActionBudget,
    /// The run exceeded its budget of time.
    TimeBudget,
    /// The observer stopped the run.
    Stopped,
}

/// Failure that stopped a run before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Event of the recording at which the run stopped.
    pub event: u32,
    /// Reason of the failure.
    pub kind: FailureKind,
    /// Counts up to the failure.
    pub counts: Counts,
}
