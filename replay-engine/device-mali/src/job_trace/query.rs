//! A query about a thread, and the errors of queries about jobs.

use super::writers::JobLocation;
use replay_engine::plan::CompileError;
use trace_core::GpuVa;
use trace_core::progress::Cancelled;

/// Thread of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// By position along x, y, z.
    At([u32; 3]),
    /// By number, counted along x, then y, then z.
    Number(u32),
}

impl Thread {
    /// Returns the position along x, y, z in a workgroup of this size.
    #[must_use]
    pub fn coordinates(self, size: [u32; 3]) -> [u32; 3] {
        let [sx, sy, _] = size.map(|s| s.max(1));
        match self {
            Self::At(place) => place,
            Self::Number(n) => [n % sx, n / sx % sy, n / sx / sy],
        }
    }
}

/// Thread to trace, and the range of recorded clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadQuery {
    /// The thread's chain, by the number of its submit, from 0.
    pub chain: u32,
    /// Position of the job in the chain, from 0.
    pub position: u32,
    /// Workgroup along x, y, z.
    pub workgroup: [u32; 3],
    /// Thread in the workgroup.
    pub thread: Thread,
    /// First recorded clause, counted from the start of the thread.
    pub from: u64,
    /// Maximum number of recorded clauses.
    pub max_steps: usize,
    /// Address for which the thread's last write is searched, recorded or not.
    pub mark: Option<GpuVa>,
}

/// Default maximum number of recorded clauses.
pub const MAX_STEPS: usize = 1 << 16;

/// Errors of thread traces and last-writer queries.
#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    /// The recording cannot be compiled into a plan for the device.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The run did not reach the job.
    #[error("the replay did not reach job {chain}, position {position} of its chain: {why}")]
    NotReached {
        /// Number of the submit.
        chain: u32,
        /// Position in the chain.
        position: u32,
        /// How the run ended.
        why: String,
    },
    /// The job runs no shader that this model can execute.
    #[error("job {chain}, position {position} of its chain, cannot be traced: {why}")]
    NoShader {
        /// Number of the submit.
        chain: u32,
        /// Position in the chain.
        position: u32,
        /// The reason.
        why: String,
    },
    /// The dispatch does not have this workgroup or thread.
    #[error("there is no {what} {asked:?}: {} has {has:?} along x, y, z", whose(what))]
    NoThread {
        /// `workgroup` or `thread`.
        what: &'static str,
        /// The requested workgroup or thread.
        asked: [u32; 3],
        /// The number that exists along each axis.
        has: [u32; 3],
    },
    /// The address space does not exist in the plan.
    #[error("the plan has no address space {0}")]
    NoSpace(u32),
    /// Nothing is mapped at the address.
    #[error("{0} is not mapped at the end")]
    Unmapped(GpuVa),
    /// There are more writes than the memory limit permits. The writes of a single page may still fit: see
    /// [`trace_page`](crate::debug::trace_page).
    #[error("the jobs write more often than the simulator can store, so the last writer of {0} is not known")]
    TooManyWrites(GpuVa),
}

/// Returns what contains the missing workgroup or thread, for the error message.
fn whose(what: &str) -> &'static str {
    match what {
        "thread" => "each workgroup of the job",
        _ => "the job",
    }
}

impl DebugError {
    pub(crate) fn no_shader(place: JobLocation, why: impl Into<String>) -> Self {
        Self::NoShader {
            chain: place.chain,
            position: place.position,
            why: why.into(),
        }
    }
}
