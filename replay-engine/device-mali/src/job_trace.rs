//! Trace mode of a device that runs jobs: nothing, the last writer of each byte, one thread of one job, or data flow.

pub(crate) mod flows;
pub(crate) mod follow;
pub(crate) mod query;
pub(crate) mod writers;

use crate::memory::ArenaMemory;
use flows::Flows;
use follow::ThreadTrace;
use query::{DebugError, ThreadQuery};
use trace_core::PhysAddr;
use writers::{JobLocation, Writers};

/// Trace mode.
#[derive(Debug, Default)]
pub(crate) enum JobTrace {
    /// Traces nothing: jobs run at full speed.
    #[default]
    Off,
    /// Traces the last writer of each byte.
    Writers(Box<Writers>),
    /// Traces one thread of one job.
    Thread(Box<ThreadSearch>),
    /// Traces which job reads what another job wrote.
    Flows(Box<Flows>),
}

/// Thread to trace, and the results so far.
#[derive(Debug)]
pub(crate) struct ThreadSearch {
    pub query: ThreadQuery,
    /// Number of chains that ended.
    pub chains: u32,
    pub result: Option<Result<ThreadTrace, DebugError>>,
}

impl ThreadSearch {
    /// Returns whether a job is the requested one and was not traced yet.
    pub(crate) fn is_target(&self, place: JobLocation) -> bool {
        self.result.is_none() && (place.chain, place.position) == (self.query.chain, self.query.position)
    }
}

impl JobTrace {
    /// Creates a writer trace. With `frame`, only writes to this page are traced.
    pub(crate) fn for_writers(frame: Option<u64>) -> Self {
        Self::Writers(Box::new(frame.map_or_else(Writers::default, Writers::for_frame)))
    }

    pub(crate) fn for_thread(query: ThreadQuery) -> Self {
        Self::Thread(Box::new(ThreadSearch {
            query,
            chains: 0,
            result: None,
        }))
    }

    /// Records a CPU write to memory.
    pub(crate) fn cpu_write(&mut self, pa: PhysAddr, bytes: usize) {
        match self {
            Self::Writers(w) => w.cpu_write(pa, bytes),
            Self::Flows(f) => f.cpu_write(pa, bytes),
            Self::Off | Self::Thread(_) => {}
        }
    }

    /// Records a read of a chain's headers and descriptors.
    pub(crate) fn read(&mut self, pa: PhysAddr, bytes: usize) {
        if let Self::Flows(f) = self {
            f.read(pa, bytes);
        }
    }

    /// Records that a job wrote a value, or that the hardware wrote a job's status.
    pub(crate) fn job_write(&mut self, place: JobLocation, status: bool, pa: PhysAddr, bytes: usize) {
        match self {
            Self::Writers(w) if status => w.job_status_write(place, pa, bytes),
            Self::Writers(w) => w.job_value_write(place, pa, bytes),
            // A job's status is in its own header and is cleared before it is submitted again.
            Self::Flows(f) if !status => f.job_write(pa, bytes),
            Self::Flows(_) | Self::Off | Self::Thread(_) => {}
        }
    }

    /// Records the end of a chain. `memory` is as the chain left it.
    pub(crate) fn chain_ended(&mut self, memory: &ArenaMemory) {
        match self {
            Self::Off => {}
            Self::Flows(f) => f.chain_ended(memory),
            Self::Writers(w) => w.chain_ended(),
            Self::Thread(t) => t.chains = t.chains.saturating_add(1),
        }
    }

    /// Returns the number of chains that ended.
    pub(crate) fn chains(&self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Writers(w) => w.chains(),
            Self::Flows(f) => f.chains(),
            Self::Thread(t) => t.chains,
        }
    }

    /// Returns whether the requested data is complete, so that nothing more needs to run.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Thread(t) if t.result.is_some())
    }
}
