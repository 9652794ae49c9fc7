//! The protocol of the worker process: messages with files to it, and answers, a line of JSON each.

use crate::plan_runs::PlanRun;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum size of all answers, bytes.
pub(crate) const MAX_TEXT: u64 = 16 << 20;

/// A message to a worker. The worker ends when its input ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ParentMessage {
    /// Open the GPU of this number, and wait for the request.
    Open {
        /// Number of the GPU.
        gpu: u32,
        /// Address at which the player's own memory will probably be.
        control: u64,
    },
    /// Map memory while the plan is still verified, with a sealed file: the first steps of the plan, all of which map.
    Map {
        /// Address of the player's own memory.
        control: u64,
    },
    /// The request, with a sealed file: the steps of the plan.
    Play(Request),
    /// A sealed file: the page images of the plan by number, from 1 on.
    Images,
}

/// A request to a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Request {
    /// When it was sent, nanoseconds of the machine's monotonic clock.
    pub sent_ns: u64,
    /// Number of repetitions.
    pub repeat: u32,
    /// Folder for the bytes of outputs: `0.bin` for the first, and so on.
    pub outputs: PathBuf,
    /// Class of the compute engine that the push buffers are for.
    pub compute_class: u16,
    /// Address of the player's own memory.
    pub control: u64,
    /// Maximum time of one submission, nanoseconds.
    pub limit_ns: u64,
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PlayReport {
    /// Name of the GPU.
    pub gpu: String,
    /// Time from the request until the channels were ready, with the wait for page images, nanoseconds.
    pub ready_ns: u64,
    /// Time that mapping memory took in the first run, nanoseconds.
    pub memory_ns: u64,
    /// Time that reading the plan took, with the wait for its page images, nanoseconds.
    pub read_ns: u64,
    /// Time of each run, nanoseconds, without mapping memory and waiting for page images.
    pub runs_ns: Vec<u64>,
    /// Mapped memory, bytes.
    pub mapped: u64,
    /// Number of 4 KiB pages restored before each run but the first.
    pub restored: Vec<u64>,
    /// Number of pages that changed for the first time after the second run began.
    pub late_pages: u64,
}

/// Returns the time of the machine's monotonic clock, nanoseconds: all processes see the same.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let rest = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl PlayReport {
    /// Adds a run. `wait` is the part of its time in which it waited for page images.
    pub fn add(&mut self, run: &PlanRun, wait: Duration) {
        self.runs_ns.push(nanoseconds(run.time.saturating_sub(wait)));
        self.read_ns = self.read_ns.saturating_add(nanoseconds(wait));
        self.ready_ns = self.ready_ns.saturating_add(nanoseconds(wait));
        self.memory_ns = self.memory_ns.saturating_add(nanoseconds(run.map_time));
        self.mapped = self.mapped.saturating_add(run.mapped);
        if let Some(restored) = &run.restored {
            self.restored.push(restored.pages);
            self.late_pages = self.late_pages.saturating_add(restored.late_pages);
        }
    }
}

/// A submission that did not complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FaultAnswer {
    /// Event of the submission.
    pub event: u64,
    /// The driver's code, or `None` if the time limit ran out.
    pub code: Option<u32>,
    /// Time from submission to error, nanoseconds.
    pub after_ns: u64,
    /// Address, type and access of each MMU fault.
    pub mmu_faults: Vec<(u64, u32, u32)>,
    /// Number, global and warp error register, instruction and access address of each multiprocessor in error.
    pub sm_errors: Vec<(u32, u32, u32, u64, u64)>,
    /// Why the driver did not answer with MMU faults; empty if it answered.
    pub refused: String,
    /// Whether the GPU fetched the entry of the submission.
    pub fetched: bool,
    /// Time until new channels were ready after the fault, nanoseconds, or `None` if they could not be created.
    pub recovered_ns: Option<u64>,
}

/// An answer of the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The replay ran to its end.
    Played(PlayReport),
    /// A submission did not complete.
    Stopped(FaultAnswer),
    /// The replay failed otherwise.
    Failed(String),
}
