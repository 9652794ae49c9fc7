//! The outcome of a replay, with every comparison.

use super::api_outcome::ApiOutcome;
use crate::families::FaultRegister;
use crate::plan::{EffectResult, ReadClasses, RewriteKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace_core::GpuVa;
use trace_core::finding::Finding;
use trace_core::json_forms::hex_text;
use trace_core::recording::{Digest, ElementType};

/// The overall result of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every comparison matched the recording.
    Match,
    /// At least one comparison differed.
    Diverged,
    /// The replay did not run to its end.
    Failed,
}

/// A difference between a replay and the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// Event of the recording.
    pub event: u64,
    /// Register name.
    pub register: String,
    /// Value in the recording.
    #[serde(with = "hex_text")]
    pub expected: u64,
    /// Actual value; for a poll, the last one.
    #[serde(with = "hex_text")]
    pub got: u64,
    /// `equal`, `masked` or `until`: how the read was compared.
    pub class: String,
    /// Index of the last job before it, if there was one.
    pub job: Option<u32>,
}

/// Counts of comparisons with the recording: reads of registers, or outputs of an API trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonCounts {
    /// Compared reads (without findings of state from before the recording), or compared outputs.
    pub compared: u64,
    /// Those that match.
    pub matched: u64,
}

/// The outcome of a job.
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
    /// Exception code that the slot reported, 1 for done; or `None` if it never ended.
    pub status: Option<u8>,
    /// Whether every shader in its chain ran, or `None` if it has no shader.
    pub computed: Option<bool>,
    /// Nanoseconds on the device's clock from submit to interrupt.
    pub duration_ns: u64,
}

impl JobOutcome {
    /// Returns whether it ended as done and every shader in its chain ran. In a chain that ended early, some jobs never
    /// started.
    #[must_use]
    pub fn has_computed(&self) -> bool {
        self.done && self.computed != Some(false)
    }
}

/// Reasons why results of jobs are missing from the outputs, as numbers of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncomputedJobs {
    /// Jobs that never ended, or not as done.
    pub unfinished: u64,
    /// Jobs that ended as done without running one of their shaders.
    pub unrun: u64,
}

/// The report of a fault or hang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultReport {
    /// Index of the job.
    pub job: Option<u32>,
    /// Event of the recording at which it was detected.
    pub event: u64,
    /// What happened, one sentence.
    pub summary: String,
    /// Exception code and its name.
    pub exception: String,
    /// Faulting GPU address.
    pub address: Option<GpuVa>,
    /// Fault registers as read from the device.
    pub registers: Vec<FaultRegister>,
    /// The page walk of the faulting address, one line per level.
    pub walk: Vec<String>,
    /// Name of the nearest buffer and the distance to it, bytes (0 inside).
    pub nearest_buffer: Option<(String, u64)>,
}

/// The contents of an output on the device.
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

/// Durations, ns. For device time see [`Outcome::device_ns`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Compiling and verifying the plan.
    pub plan_ns: u64,
    /// Sending plan and pages.
    pub push_ns: u64,
    /// Running it: wall time on the agent, one entry per repetition.
    pub runs_ns: Vec<u64>,
}

/// Times of several runs: nearest-rank percentiles, each the smallest time that is at least this share of all times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunTimes {
    /// Number of runs.
    pub count: u64,
    /// Shortest time, ns.
    pub min_ns: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Longest time, ns.
    pub max_ns: u64,
}

impl Timing {
    /// Returns the times of the runs; all are 0 without a run.
    #[must_use]
    pub fn run_times(&self) -> RunTimes {
        let mut sorted = self.runs_ns.clone();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(at).copied().unwrap_or(0)
        };
        RunTimes {
            count: sorted.len() as u64,
            min_ns: rank(0),
            p50_ns: rank(50),
            p90_ns: rank(90),
            p99_ns: rank(99),
            max_ns: rank(100),
        }
    }
}

/// The outcome of a replay: what all kinds of plans share, and the results of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The overall result.
    pub verdict: Verdict,
    /// Whether every job of the plan ended as done, and every job with a shader ran it. For a plan without jobs:
    /// whether it ran to its end.
    pub computed: bool,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// Number of executed actions or calls.
    pub actions: u64,
    /// Counts of comparisons.
    pub reads: ComparisonCounts,
    /// Number of rewrites of the plan, by kind.
    pub rewrites: BTreeMap<RewriteKind, u64>,
    /// Differences, in order; at most 1000 are kept.
    pub divergences: Vec<Divergence>,
    /// Number of all differences, kept or not.
    pub divergence_count: u64,
    /// Faults and hangs.
    pub faults: Vec<FaultReport>,
    /// Outputs.
    pub outputs: Vec<OutputBuffer>,
    /// Device time, nanoseconds.
    pub device_ns: u64,
    /// Wall time.
    pub timing: Timing,
    /// Bytes sent for this replay: pages and plan.
    pub pushed_bytes: u64,
    /// Name of the device.
    pub device: String,
    /// BLAKE3 of the results that must be equal in every repetition: everything except wall time and pushed bytes.
    pub fingerprint: Digest,
    /// The outcome as a recording: the bytes of a `.kine` file.
    pub recording: Vec<u8>,
    /// The results of one kind of plan.
    pub body: OutcomeBody,
}

/// The results of one kind of plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OutcomeBody {
    /// Of register accesses.
    Accesses(AccessOutcome),
    /// Of an API trace.
    Api(ApiOutcome),
}

/// The results of a plan of register accesses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessOutcome {
    /// Recorded reads by class.
    pub classes: ReadClasses,
    /// Number of interrupts that occurred.
    pub interrupts: u64,
    /// Findings about the recording from the replay.
    pub findings: Vec<Finding>,
    /// Jobs in submit order.
    pub jobs: Vec<JobOutcome>,
    /// The result of each effect that the plan expects, in its order. A match requires all of them.
    pub effects: Vec<EffectResult>,
    /// Properties that could be checked but have no expectation, one sentence each.
    pub unchecked: Vec<String>,
    /// Whether bus mastering was enabled while the plan ran. It was disabled again before any check.
    pub mastered_bus: bool,
}

impl Outcome {
    /// Counts the jobs that did not compute.
    #[must_use]
    pub fn count_uncomputed(&self) -> UncomputedJobs {
        let mut of = UncomputedJobs::default();
        for job in self.jobs().iter().filter(|j| !j.has_computed()) {
            *(if job.done { &mut of.unrun } else { &mut of.unfinished }) += 1;
        }
        of
    }

    /// Returns the result of the run in one line, always with the jobs that were not computed: `match`,
    /// `Registers match, 60 of 60 jobs not computed`.
    #[must_use]
    pub fn verdict_line(&self) -> String {
        let n = self.count_uncomputed();
        match self.verdict {
            Verdict::Match if self.computed => "match".to_owned(),
            Verdict::Match => format!(
                "Registers match, {} of {} jobs not computed",
                n.unfinished + n.unrun,
                self.jobs().len()
            ),
            Verdict::Diverged => "diverged".to_owned(),
            Verdict::Failed => "failed".to_owned(),
        }
    }

    /// Returns the outcome of a run on `device` that has not started: failed, until it is updated.
    #[must_use]
    pub fn unfinished(device: String, body: OutcomeBody) -> Self {
        Self {
            verdict: Verdict::Failed,
            computed: false,
            failure: None,
            actions: 0,
            reads: ComparisonCounts::default(),
            rewrites: BTreeMap::new(),
            divergences: Vec::new(),
            divergence_count: 0,
            faults: Vec::new(),
            outputs: Vec::new(),
            device_ns: 0,
            timing: Timing::default(),
            pushed_bytes: 0,
            device,
            fingerprint: [0; 32],
            recording: Vec::new(),
            body,
        }
    }

    /// Returns the results of register accesses, or `None` for an API trace.
    #[must_use]
    pub fn accesses(&self) -> Option<&AccessOutcome> {
        match &self.body {
            OutcomeBody::Accesses(accesses) => Some(accesses),
            OutcomeBody::Api(_) => None,
        }
    }

    /// Returns the results of register accesses, or `None` for an API trace.
    pub fn accesses_mut(&mut self) -> Option<&mut AccessOutcome> {
        match &mut self.body {
            OutcomeBody::Accesses(accesses) => Some(accesses),
            OutcomeBody::Api(_) => None,
        }
    }

    /// Returns the results of an API trace, or `None` for register accesses.
    #[must_use]
    pub fn api(&self) -> Option<&ApiOutcome> {
        match &self.body {
            OutcomeBody::Accesses(_) => None,
            OutcomeBody::Api(api) => Some(api),
        }
    }

    /// Returns the results of an API trace, or `None` for register accesses.
    pub fn api_mut(&mut self) -> Option<&mut ApiOutcome> {
        match &mut self.body {
            OutcomeBody::Accesses(_) => None,
            OutcomeBody::Api(api) => Some(api),
        }
    }

    /// Returns the jobs in submit order. An API trace has none.
    #[must_use]
    pub fn jobs(&self) -> &[JobOutcome] {
        self.accesses().map_or(&[], |a| &a.jobs)
    }

    /// Returns the findings about the recording. An API trace has none.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        self.accesses().map_or(&[], |a| &a.findings)
    }

    /// Returns the results of expected effects. An API trace has none.
    #[must_use]
    pub fn effects(&self) -> &[EffectResult] {
        self.accesses().map_or(&[], |a| &a.effects)
    }

    /// Returns the number of interrupts that occurred. An API trace has none.
    #[must_use]
    pub fn interrupts(&self) -> u64 {
        self.accesses().map_or(0, |a| a.interrupts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let times = |runs_ns: Vec<u64>| {
            let timing = Timing {
                runs_ns,
                ..Timing::default()
            };
            let t = timing.run_times();
            (t.count, t.min_ns, t.p50_ns, t.p90_ns, t.p99_ns, t.max_ns)
        };
        assert_eq!(times((1..=100).rev().collect()), (100, 1, 50, 90, 99, 100));
        assert_eq!(times(vec![7]), (1, 7, 7, 7, 7, 7));
        assert_eq!(times(Vec::new()), (0, 0, 0, 0, 0, 0));
    }
}
