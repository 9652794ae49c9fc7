//! What a device watches while it runs jobs: nothing, who writes each byte, or one thread of one job.

use super::flows::Flows;
use super::follow::{FollowRequest, ThreadTrace};
use super::writers::{JobLocation, Writers};
use super::{DebugError, ThreadQuery};
use crate::memory::ArenaMemory;

/// What is watched.
#[derive(Debug, Default)]
pub(crate) enum JobTrace {
    /// Nothing: jobs run as fast as they can.
    #[default]
    Off,
    /// Who writes each byte.
    Writers(Box<Writers>),
    /// One thread of one job.
    Thread(Box<ThreadSearch>),
    /// Which job reads what another one wrote.
    Flows(Box<Flows>),
}

/// A thread that is to be followed, and what was found out of it.
#[derive(Debug)]
pub(crate) struct ThreadSearch {
    pub query: ThreadQuery,
    /// Chains that ended.
    pub chains: u32,
    pub result: Option<Result<ThreadTrace, DebugError>>,
}

impl ThreadSearch {
    /// Whether a job is the wanted one, and nothing is known of it yet.
    pub(crate) fn is_target(&self, place: JobLocation) -> bool {
        self.result.is_none() && (place.chain, place.position) == (self.query.chain, self.query.position)
    }
}

impl JobTrace {
    /// `frame`: of this page alone.
    pub(crate) fn for_writers(frame: Option<u64>) -> Self {
        Self::Writers(Box::new(frame.map_or_else(Writers::default, Writers::for_frame)))
    }

    pub(crate) fn for_thread(wanted: ThreadQuery) -> Self {
        Self::Thread(Box::new(ThreadSearch {
            query: wanted,
            chains: 0,
            result: None,
        }))
    }

    /// The CPU wrote to memory.
    pub(crate) fn cpu_write(&mut self, pa: u64, bytes: usize) {
        match self {
            Self::Writers(w) => w.cpu_write(pa, bytes),
            Self::Flows(f) => f.cpu_write(pa, bytes),
            Self::Off | Self::Thread(_) => {}
        }
    }

    /// A chain's headers and descriptors were read.
    pub(crate) fn read(&mut self, pa: u64, bytes: usize) {
        if let Self::Flows(f) = self {
            f.read(pa, bytes);
        }
    }

    /// A job wrote a value, or the hardware a job's end.
    pub(crate) fn job_write(&mut self, place: JobLocation, status: bool, pa: u64, bytes: usize) {
        match self {
            Self::Writers(w) if status => w.job_status_write(place, pa, bytes),
            Self::Writers(w) => w.job_value_write(place, pa, bytes),
            // A job's end stands in its own header, and is cleared before it is submitted again.
            Self::Flows(f) if !status => f.job_write(pa, bytes),
            Self::Flows(_) | Self::Off | Self::Thread(_) => {}
        }
    }

    /// A chain ended; memory is as it left it.
    pub(crate) fn chain_ended(&mut self, memory: &ArenaMemory) {
        match self {
            Self::Off => {}
            Self::Flows(f) => f.chain_ended(memory),
            Self::Writers(w) => w.chain_ended(),
            Self::Thread(t) => t.chains = t.chains.saturating_add(1),
        }
    }

    /// Chains that ended.
    pub(crate) fn chains(&self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Writers(w) => w.chains(),
            Self::Flows(f) => f.chains(),
            Self::Thread(t) => t.chains,
        }
    }

    /// Whether what was wanted is found, so that nothing more needs to run.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Thread(t) if t.result.is_some())
    }
}

/// What of a thread's numbers a job's dispatch has.
///
/// # Errors
/// When there is no such workgroup or thread.
pub(crate) fn resolve_query(
    wanted: &ThreadQuery,
    workgroups: [u32; 3],
    size: [u32; 3],
) -> Result<FollowRequest, DebugError> {
    let within = |what, asked: [u32; 3], has: [u32; 3]| {
        if asked.iter().zip(&has).all(|(a, h)| a < h) {
            Ok(())
        } else {
            Err(DebugError::NoThread { what, asked, has })
        }
    };
    within("workgroup", wanted.workgroup, workgroups)?;
    let place = wanted.thread.coordinates(size);
    within("thread", place, size)?;
    let [x, y, z] = place;
    let [sx, sy, _] = size;
    // A workgroup's threads were counted before it ran, so this does not wrap.
    let thread = z.wrapping_mul(sy).wrapping_add(y).wrapping_mul(sx).wrapping_add(x);
    Ok(FollowRequest {
        workgroup: wanted.workgroup,
        thread,
        from: wanted.from,
        max_steps: wanted.max_steps,
        mark: wanted.mark,
    })
}
