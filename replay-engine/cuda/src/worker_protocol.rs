//! The worker protocol: requests and answers, one line of JSON each.

use crate::tune::TuneProgress;
use replay_engine::memory_trace::{MemoryTraceReport, MemoryTraceRequest};
use replay_engine::run::{GuardReport, PrepareTimes};
use replay_engine::tune::OutputTolerance;
use replay_engine::tune::{TuneReport, TuneRequest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Maximum size of a request or an answer, bytes.
pub(super) const MAX_TEXT: u64 = 256 << 20;
/// Environment variable with the number of the device whose context is created before the request arrives and, after a
/// comma, the seconds to wait for the request. The process holds device memory during the wait.
pub(super) const AHEAD_VARIABLE: &str = "KINESCOPE_CUDA_AHEAD";

/// A request to a worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The recording, or a plan with its page images. Empty to list the devices.
    pub file: PathBuf,
    /// Device number.
    pub device: u32,
    /// Files with the bytes of inputs, by name.
    pub inputs: BTreeMap<String, PathBuf>,
    /// The tolerance of outputs, by name.
    pub rules: BTreeMap<String, OutputTolerance>,
    /// The tolerance of all other outputs.
    pub rule: OutputTolerance,
    /// Wait after each launch.
    pub step: bool,
    /// Number of repetitions.
    pub repeat: u32,
    /// Capture the range as one graph.
    pub graph: bool,
    /// Do not restore memory between repetitions.
    pub no_restore: bool,
    /// Measure the device time of each launch.
    pub times: bool,
    /// Buffers to guard, by their first event. An empty list means all buffers.
    pub guard: Option<Vec<u64>>,
    /// Return only the program's own outputs, not the final memory contents.
    pub own: bool,
    /// A launch to tune instead of a replay.
    pub tune: Option<TuneRequest>,
    /// Memory to trace instead of a replay. The trace is written to the folder for outputs as `0.bin`.
    pub watch: Option<MemoryTraceRequest>,
    /// The stop file, which does not exist yet. Once it exists, a tuning ends after the current launch and reports its
    /// results.
    pub stop: Option<PathBuf>,
    /// Folder for the bytes of outputs: `0.bin` for the first, and so on.
    pub outputs: Option<PathBuf>,
}

/// An output in a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputReport {
    /// The event of the copy.
    pub event: u64,
    /// Name of the output.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// BLAKE3 of the contents, hexadecimal.
    pub blake3: String,
    /// Whether the recording holds the expected contents.
    pub held: bool,
    /// Offset of the first byte that differs beyond the tolerance.
    pub differs_at: Option<u64>,
    /// Number of elements that differ beyond the tolerance.
    pub differing: u64,
    /// Largest distance of two elements, if the rule gives their type.
    pub largest: Option<f64>,
}

/// The report of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayReport {
    /// The device's name.
    pub device: String,
    /// Launches per repetition.
    pub launches: u64,
    /// Outputs in event order.
    pub outputs: Vec<OutputReport>,
    /// Time to the first step, nanoseconds.
    pub ready_ns: u64,
    /// The parts of that time, and of the time to the first repetition.
    pub parts: PrepareTimes,
    /// Time of each repetition, nanoseconds.
    pub runs_ns: Vec<u64>,
    /// Number of 4 KiB pages restored before each repetition but the first.
    pub restored: Vec<u64>,
    /// Mapped memory, bytes.
    pub mapped: u64,
    /// Whether the range was one graph.
    pub graph: bool,
    /// What was left out, as messages.
    pub left_out: Vec<String>,
    /// The event and the shortest device time of each launch, nanoseconds, if requested.
    pub launch_ns: Vec<[u64; 2]>,
    /// What was guarded, if requested.
    pub guard: Option<GuardReport>,
}

/// A device in the list of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceEntry {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
}

/// An answer of the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The launch of this event is about to be made. More lines follow.
    At(u64),
    /// Progress of a tuning, in millionths. More lines follow.
    Part(u32),
    /// Results of a tuning so far. More lines follow.
    Sofar(TuneProgress),
    /// The available devices.
    Devices(Vec<DeviceEntry>),
    /// The result of a tuning.
    Tuned(Box<TuneReport>),
    /// The result of a memory trace, and the device's name.
    Watched(MemoryTraceReport, String),
    /// The replay ran to its end.
    Played(ReplayReport),
    /// The device stopped at an event.
    Stopped {
        /// The event.
        event: u64,
        /// What happened, as a message.
        why: String,
    },
    /// It could not be started.
    Failed(String),
    /// It could not be started, because recorded addresses are in use in this process. Another process may have them
    /// free: the kernel places libraries at random.
    AddressesTaken(String),
}
