//! What a scan of the events tells a family about its registers, and the jobs, interrupts and phases that the family
//! finds.

use crate::GpuVa;
use crate::recording::{Events, InterruptLine};
use serde::{Deserialize, Serialize};

/// The class of a register in a scan. `u8` values are numbers of job slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterClass {
    /// Not relevant.
    Plain,
    /// Status that drivers read in groups.
    Group,
    /// Lower half of the address of the next job of a slot.
    HeadLow(u8),
    /// Upper half of the address of the next job of a slot.
    HeadHigh(u8),
    /// Command of a slot.
    Command(u8),
    /// Status of an interrupt line: a read that is not 0 starts the line's handler.
    Status(InterruptLine),
    /// Registers that a handler accesses after its first read.
    Handler(InterruptLine),
    /// Command of an address space.
    AsCommand,
    /// Configuration of the translation of an address space, lower half.
    TransCfg,
    /// Root of the page tables of an address space, lower half.
    RootLow,
    /// Power-up of cores.
    PowerOn,
}

/// A relevant event.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Number of the event.
    pub event: u64,
    /// Its time in nanoseconds.
    pub time: u64,
    /// What happened.
    pub kind: MarkKind,
}

/// The kinds of relevant events.
#[derive(Clone, Copy, Debug)]
pub enum MarkKind {
    /// The first read of an interrupt handler.
    Handler {
        /// The interrupt line.
        line: InterruptLine,
        /// The value that it read.
        value: u64,
        /// The handler's last event.
        last: u64,
    },
    /// A write to a register of another class than plain, group, status and handler.
    Write {
        /// Class of the register.
        class: RegisterClass,
        /// The value.
        value: u64,
    },
    /// An interrupt event of the recording.
    Interrupt {
        /// The interrupt line.
        line: InterruptLine,
        /// Its status bits.
        status: u64,
    },
    /// A submit event of the recording.
    Submit {
        /// Address of the first job.
        head: GpuVa,
        /// Number of the slot.
        slot: u8,
    },
}

/// The events of a scan.
#[derive(Clone, Copy)]
pub struct ScannedEvents<'a> {
    /// The events of the recording.
    pub events: &'a Events,
    /// Returns the last event of an unbroken run of reads of [`RegisterClass::Group`] from an event on.
    pub group_end: &'a dyn Fn(u64) -> u64,
}

/// The analysis that finds jobs, interrupts and phases.
pub trait JobTracker {
    /// Processes the next mark, in event order.
    fn take(&mut self, mark: &Mark);
    /// Returns the results after the last mark.
    fn finish(self: Box<Self>) -> TrackedWork;
}

/// The results of a [`JobTracker`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackedWork {
    /// The interrupts, in any order.
    pub interrupts: Vec<InferredInterrupt>,
    /// The jobs, one per submit, in event order.
    pub jobs: Vec<JobSpan>,
    /// The driver's phases in order, without holes; absent ones are not listed.
    pub phases: Vec<Phase>,
}

/// An interrupt, inferred from the reads of its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InferredInterrupt {
    /// First read of the handler, or the interrupt event itself if the recording has one.
    pub event: u64,
    /// Last event of the handler, inclusive.
    pub last: u64,
    /// Line of the GPU.
    pub line: InterruptLine,
    /// Status bits that the handler read.
    pub status: u64,
}

/// A job from its submit to its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpan {
    /// Number of the submit, from 0.
    pub index: u32,
    /// Job slot.
    pub slot: u8,
    /// The event that submitted it to the GPU.
    pub submit_event: u64,
    /// The interrupt handler's first event, or the last write of a command stream; `None` if it never ended.
    pub done_event: Option<u64>,
    /// GPU address of the first job of the chain.
    pub head_va: GpuVa,
    /// Time of the submit.
    pub submit_ns: u64,
    /// Time of the handler's first event; `None` if it never ended, or no end was recorded.
    pub done_ns: Option<u64>,
    /// Whether the interrupt reported a failure of the slot.
    pub failed: bool,
}

/// A phase of the driver's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the phase.
    pub name: PhaseName,
    /// First event.
    pub first: u64,
    /// Last event, inclusive.
    pub last: u64,
}

/// The phases of a driver's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PhaseName {
    /// Identification, reset, power-up.
    Boot,
    /// Jobs between which the driver still changes the address space.
    Setup,
    /// Jobs without such changes between them.
    Compute,
    /// From the point where translation is switched off.
    Teardown,
}

impl PhaseName {
    /// Returns the phase's name in JSON, tables and the window.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Setup => "setup",
            Self::Compute => "compute",
            Self::Teardown => "teardown",
        }
    }
}
