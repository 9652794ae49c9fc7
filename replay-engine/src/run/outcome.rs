//! What a replay did, with every comparison.

use super::calls::{CallsOutcome, calls_json};
use crate::plan::{EffectResult, ReadClasses, RewriteKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace_core::GpuVa;
use trace_core::check::Finding;
use trace_core::recording::{Digest, ElementType};

/// How a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything compared was as recorded.
    Match,
    /// Something differed.
    Diverged,
    /// It could not be played to its end.
    Failed,
}

/// A place where a replay differed from the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// Event of the recording.
    pub event: u64,
    /// Register name.
    pub register: String,
    /// Value in the recording.
    pub expected: u64,
    /// Value seen; for a poll, the last one.
    pub got: u64,
    /// `equal`, `masked` or `until`: how the read was compared.
    pub class: String,
    /// Index of the job that ran last before it, when there was one.
    pub job: Option<u32>,
}

/// Counts of compared reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadCounts {
    /// Recorded reads by class.
    pub classes: ReadClasses,
    /// Compared (less findings of state from before the recording).
    pub compared: u64,
    /// Matched.
    pub matched: u64,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Index in the plan.
    pub index: u32,
    /// Event of the submit write in the recording.
    pub submit_event: u64,
    /// GPU address of the head of its chain.
    pub head_va: GpuVa,
    /// Whether it ended by its interrupt without a fault.
    pub done: bool,
    /// Exception code that the slot reported, 1 for done; `None` when it never ended.
    pub status: Option<u8>,
    /// Whether every shader in its chain ran; `None` when it has no shader.
    pub computed: Option<bool>,
    /// Nanoseconds on the device's clock from submit to interrupt.
    pub duration_ns: u64,
}

impl JobOutcome {
    /// Whether it ended as done, and every shader in its chain ran. A chain that broke off has jobs that nobody
    /// started.
    #[must_use]
    pub fn has_computed(&self) -> bool {
        self.done && self.computed != Some(false)
    }
}

/// Why what jobs compute is not in the outputs, in numbers of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncomputedJobs {
    /// They never ended, or not as done.
    pub unfinished: u64,
    /// They ended as done without running a shader of theirs.
    pub unrun: u64,
}

/// What is known of a fault or hang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultReport {
    /// Index of the job.
    pub job: Option<u32>,
    /// Event of the recording at which it showed.
    pub event: u64,
    /// What happened, in a sentence.
    pub summary: String,
    /// Exception code and its name.
    pub exception: String,
    /// Faulting GPU address.
    pub address: Option<GpuVa>,
    /// Fault registers as read from the device: name, value, meaning.
    pub registers: Vec<(String, u64, String)>,
    /// The walk of the faulting address, a line a level.
    pub walk: Vec<String>,
    /// Name of the nearest buffer and the distance to it in bytes (0 inside).
    pub nearest_buffer: Option<(String, u64)>,
}

/// An output as the device left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputBuffer {
    /// Name in the recording.
    pub name: String,
    /// Type of the elements.
    pub element: ElementType,
    /// BLAKE3 digest of the bytes.
    pub blake3: Digest,
    /// The bytes.
    pub data: Vec<u8>,
}

/// Where the time went, ns. Device time is apart: see [`Outcome::device_ns`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Compiling and verifying the plan.
    pub plan_ns: u64,
    /// Sending plan and pages.
    pub push_ns: u64,
    /// Running it, wall time on the agent, one a repetition.
    pub runs_ns: Vec<u64>,
}

/// What a replay did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// Whether every job of the plan ended as done, and every one that has a shader ran it. Of a plan without jobs:
    /// whether it came to its end.
    pub computed: bool,
    /// Why it failed, when it did.
    pub failure: Option<String>,
    /// Actions taken.
    pub actions: u64,
    /// Comparisons.
    pub reads: ReadCounts,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Rewrites of the plan, by kind.
    pub rewrites: BTreeMap<RewriteKind, u64>,
    /// Differences, in order; at most 1000 are kept.
    pub divergences: Vec<Divergence>,
    /// All differences, kept or not.
    pub divergence_count: u64,
    /// Findings about the recording that the replay brought to light.
    pub findings: Vec<Finding>,
    /// Jobs in order of submit.
    pub jobs: Vec<JobOutcome>,
    /// Faults and hangs.
    pub faults: Vec<FaultReport>,
    /// Outputs.
    pub outputs: Vec<OutputBuffer>,
    /// Nanoseconds of device time.
    pub device_ns: u64,
    /// Wall time.
    pub timing: Timing,
    /// Bytes sent for this replay, pages and plan.
    pub pushed_bytes: u64,
    /// Name of the device.
    pub device: String,
    /// BLAKE3 over everything above that must repeat bit for bit: everything but wall time and pushed bytes.
    pub fingerprint: Digest,
    /// The outcome as a recording: a `.kine` file's bytes.
    pub recording: Vec<u8>,
    /// What became of each effect that the plan expects, in its order. A match needs all of them.
    pub effects: Vec<EffectResult>,
    /// What could be looked at and was not, for want of something to hold it against; a sentence each.
    pub unchecked: Vec<String>,
    /// Whether the device was let read and write memory by itself while the plan ran. It was stopped again before
    /// anything was looked at.
    pub mastered_bus: bool,
    /// What is told of a replay of calls beside what is told of every replay.
    #[serde(with = "calls_json")]
    pub calls: Option<CallsOutcome>,
}

impl Outcome {
    /// The jobs that did not compute.
    #[must_use]
    pub fn count_uncomputed(&self) -> UncomputedJobs {
        let mut of = UncomputedJobs::default();
        for job in self.jobs.iter().filter(|j| !j.has_computed()) {
            *(if job.done { &mut of.unrun } else { &mut of.unfinished }) += 1;
        }
        of
    }

    /// Returns how the run ended in one line, and never without what was not computed: `match`,
    /// `Registers match, 60 of 60 jobs not computed`.
    #[must_use]
    pub fn verdict_line(&self) -> String {
        let n = self.count_uncomputed();
        match self.verdict {
            Verdict::Match if self.computed => "match".to_owned(),
            Verdict::Match => format!(
                "Registers match, {} of {} jobs not computed",
                n.unfinished + n.unrun,
                self.jobs.len()
            ),
            Verdict::Diverged => "diverged".to_owned(),
            Verdict::Failed => "failed".to_owned(),
        }
    }

    /// The outcome of a run on `device` that did nothing yet: failed, until it is known better.
    #[must_use]
    pub fn unfinished(device: String) -> Self {
        Self {
            verdict: Verdict::Failed,
            computed: false,
            failure: None,
            actions: 0,
            reads: ReadCounts::default(),
            interrupts: 0,
            rewrites: BTreeMap::new(),
            divergences: Vec::new(),
            divergence_count: 0,
            findings: Vec::new(),
            jobs: Vec::new(),
            faults: Vec::new(),
            outputs: Vec::new(),
            device_ns: 0,
            timing: Timing::default(),
            pushed_bytes: 0,
            device,
            fingerprint: [0; 32],
            recording: Vec::new(),
            effects: Vec::new(),
            unchecked: Vec::new(),
            mastered_bus: false,
            calls: None,
        }
    }
}
