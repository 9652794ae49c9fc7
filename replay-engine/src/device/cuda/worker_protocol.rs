//! What the process that plays calls is asked, and what it answers: a line of JSON each.

use super::compare::OutputTolerance;
use super::guard::GuardReport;
use crate::memory_trace::{MemoryTraceReport, MemoryTraceRequest};
use crate::tune::{TuneProgress, TuneReport, TuneRequest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the process is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The recording, or a plan with its page images. Empty: which devices there are is asked.
    pub file: PathBuf,
    /// Number of the device.
    pub device: u32,
    /// Files with the bytes of inputs, by name.
    pub inputs: BTreeMap<String, PathBuf>,
    /// How alike outputs have to be, by name.
    pub rules: BTreeMap<String, OutputTolerance>,
    /// How alike all others have to be.
    pub rule: OutputTolerance,
    /// Wait behind each launch.
    pub step: bool,
    /// How often.
    pub repeat: u32,
    /// Make the range one graph.
    pub graph: bool,
    /// Put nothing back between the times.
    pub no_restore: bool,
    /// Measure the device's time for each launch.
    pub times: bool,
    /// Buffers that end where nothing is mapped, by the events that they begin with; none in the list: all.
    pub guard: Option<Vec<u64>>,
    /// Bring back what the program itself brought back alone, not what memory held behind everything.
    pub own: bool,
    /// A launch to tune in the place of a replay.
    pub tune: Option<TuneRequest>,
    /// Memory to be watched in the place of a replay; the folder for outputs gets what was seen, as `0.bin`.
    pub watch: Option<MemoryTraceRequest>,
    /// A file that is not there yet: once it is, a tuning ends behind the launch that it is at, and tells what it has.
    pub stop: Option<PathBuf>,
    /// Folder that the bytes of outputs are put into: `0.bin` for the first, and so on.
    pub outputs: Option<PathBuf>,
}

/// An output, as it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputReport {
    /// The copy's event.
    pub event: u64,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// BLAKE3 of what came, in hexadecimal.
    pub blake3: String,
    /// Whether the recording holds what it has to be.
    pub held: bool,
    /// First byte that differs beyond the rule.
    pub differs_at: Option<u64>,
    /// Elements that differ beyond the rule.
    pub differing: u64,
    /// Largest distance of two elements, where the rule tells their type.
    pub largest: Option<f64>,
}

/// Nanoseconds that the parts of a replay took before it was first played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrepareTimes {
    /// The file read.
    pub read_ns: u64,
    /// The driver and the device's context begun, as far as that was waited for.
    pub driver_ns: u64,
    /// Memory mapped.
    pub memory_ns: u64,
    /// Code loaded.
    pub code_ns: u64,
    /// Memory filled with what it holds at first.
    pub first_ns: u64,
    /// The range made a graph, memory copied to be put back.
    pub prepared_ns: u64,
}

/// What the process did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayReport {
    /// The device's name.
    pub device: String,
    /// Launches of each time.
    pub launches: u64,
    /// Outputs in the order of their events.
    pub outputs: Vec<OutputReport>,
    /// Nanoseconds until the first step.
    pub ready_ns: u64,
    /// What they, and those until the first time, went to.
    pub parts: PrepareTimes,
    /// Nanoseconds of each time.
    pub runs_ns: Vec<u64>,
    /// Pages of 4 KiB that were put back before each time but the first.
    pub restored: Vec<u64>,
    /// Bytes of memory that were mapped.
    pub mapped: u64,
    /// Whether the range was one graph.
    pub graph: bool,
    /// What was left out, in words.
    pub left_out: Vec<String>,
    /// Of each launch its event and the shortest time that the device took for it in nanoseconds, where that was asked for.
    pub launch_ns: Vec<[u64; 2]>,
    /// What was guarded, where something was to be.
    pub guard: Option<GuardReport>,
}

/// A device, as it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceEntry {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is about to make the launch of this event; more lines follow.
    At(u64),
    /// So much of a tuning is done, in millionths; more lines follow.
    Part(u32),
    /// What a tuning came to so far; more lines follow.
    Sofar(TuneProgress),
    /// The devices that there are.
    Devices(Vec<DeviceEntry>),
    /// What a tuning came to.
    Tuned(Box<TuneReport>),
    /// What watching memory came to, and the device's name.
    Watched(MemoryTraceReport, String),
    /// It was played to its end.
    Played(ReplayReport),
    /// The device stopped at an event.
    Stopped {
        /// The event.
        event: u64,
        /// What happened, in words.
        why: String,
    },
    /// It could not be begun.
    Failed(String),
}
