//! The report of a replay: its outcome for `--json`, and where the time was spent.

use crate::cli::findings::FindingRow;
use crate::cli::out::format_duration;
use crate::cli::replay_arguments::ReplayArguments;
use crate::cli::replayed_screen::{self, ReplayScreens};
use crate::cli::source::SourceRecording;
use crate::cli::{Failure, format_hex};
use kinescope_session::job_outcome::{ChainEntry, explain_uncomputed};
use replay_engine::lease_options::Preemption;
use replay_engine::plan::ReadClasses;
use replay_engine::run::{
    AccessOutcome, ApiOutcome, Divergence, FaultRegister, FaultReport, JobOutcome, Outcome, RunTimes, Timing, Verdict,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::families::{self, Family};

/// Report of a replay: both kinds of outcomes at one level, with what the command line gave. The keys are fixed: scripts
/// read them.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    /// `match`, `diverged` or `failed`.
    outcome: Verdict,
    /// The same in one line, with what was not computed: `Registers match, 60 of 60 jobs not computed`.
    verdict: String,
    /// Whether every job ended as done and every shader ran.
    computed: bool,
    /// Number of executed actions.
    actions: u64,
    /// Number of reads of each class.
    reads: ReadClasses,
    /// Reads of the classes `equal`, `masked` and `until`; those that match the recording. For API traces they count
    /// outputs.
    reads_compared: u64,
    reads_matched: u64,
    /// Number of executed jobs and interrupts.
    jobs: u64,
    interrupts: u64,
    /// An object: the number of rewrites of each kind.
    rewrites: BTreeMap<&'static str, u64>,
    /// Each divergence, or the first ones if there are many.
    divergences: &'a [Divergence],
    /// Number of divergences.
    divergence_count: u64,
    /// As for [`check`](#check).
    findings: Vec<FindingRow<'a>>,
    /// Buffers that were copied out.
    outputs: Vec<Output<'a>>,
    /// Expected effects besides matching reads.
    effects: Vec<Effect<'a>>,
    /// What was not checked because there is nothing to compare with, one sentence each.
    unchecked: &'a [String],
    /// The screen at the end; `null` for a device without a screen.
    screen: Option<replayed_screen::ScreenReport>,
    /// Times on this machine's clock.
    timing: Times,
    /// Number of bytes that were sent to the target.
    pushed_bytes: u64,
    /// Target, as `--on` gave it.
    #[serde(rename = "board")]
    target: &'a str,
    /// Why the replay could not run to its end, or `null`.
    failure: Option<&'a str>,
    /// Faults of the GPU.
    faults: Vec<Fault<'a>>,
    /// Each submit.
    job_outcomes: Vec<Job>,
    /// Time of a run on the device's clock; virtual on simulators.
    device_ns: u64,
    /// Digest of everything that a run must repeat bit for bit: its recording, its outputs and this report, without
    /// times on this machine's clock and `pushed_bytes`.
    fingerprint: String,
    /// Ranges of unknown registers that `--allow` gave.
    allowed: Vec<String>,
    /// Whether the device had bus mastering during the replay; it was disabled again.
    mastered_bus: bool,
    /// Only for API traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<ApiResults<'a>>,
    /// The lease that `--preempt` ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    preempted: Option<PreemptedLease<'a>>,
    /// Number of times that the run was preempted, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    preemptions: Option<u32>,
}

/// The lease of another client that ended for the run.
#[derive(Serialize)]
struct PreemptedLease<'a> {
    /// Name of the client.
    holder: &'a str,
    /// Time from the request to the grant, nanoseconds.
    waited_ns: u64,
}

impl<'a> Report<'a> {
    /// Returns the report with the lease that ended for the run, and the number of times that the run was preempted.
    pub(super) fn with_preemptions(self, preempted: Option<&'a Preemption>, preemptions: u32) -> Self {
        let preempted = preempted.map(|lease| PreemptedLease {
            holder: &lease.holder,
            waited_ns: lease.waited_ns,
        });
        let preemptions = (preemptions > 0).then_some(preemptions);
        Self {
            preempted,
            preemptions,
            ..self
        }
    }
}

/// Describes the lease of another client that ended for a run.
pub(super) fn describe_preemption(preempted: &Preemption) -> String {
    format!(
        "preempted the run of {}, which yielded after {}",
        preempted.holder,
        format_duration(preempted.waited_ns)
    )
}

/// The results of an API trace. A replay has neither of the last two; their keys stay for scripts.
#[derive(Serialize)]
struct ApiResults<'a> {
    #[serde(flatten)]
    outcome: &'a ApiOutcome,
    /// Always `None`: `tune` prints its own results.
    tuned: Option<()>,
    /// Always `None`: `launches --on` prints what a memory trace saw.
    watched: Option<()>,
}

/// An output with its size and digest instead of its bytes.
#[derive(Serialize)]
struct Output<'a> {
    /// Name of the buffer.
    name: &'a str,
    /// Its size.
    bytes: u64,
    /// Digest of the contents.
    blake3: String,
}

/// An expected effect without its digest, in another order than the engine's, which agents send.
#[derive(Serialize)]
struct Effect<'a> {
    /// `screen`, `interrupts`, `window`, `memory` or `output`.
    kind: &'a str,
    /// Whether the effect is there; `null`: nothing can check it on this device.
    matched: Option<bool>,
    /// The effect, and what was there, in words.
    expected: &'a str,
    got: &'a str,
    /// Source of the expectation.
    source: &'a str,
    /// Event after which it was checked; `null`: at the end.
    event: Option<u64>,
}

/// A fault with the nearest buffer as two keys. The engine has them as a pair.
#[derive(Serialize)]
struct Fault<'a> {
    /// The job; `null` if it is unknown.
    job: Option<u32>,
    /// The event.
    event: u64,
    /// The fault in words.
    summary: &'a str,
    /// Name of the exception.
    exception: &'a str,
    /// Address of the fault, if it has one.
    address: Option<String>,
    /// Registers that describe the fault.
    registers: &'a [FaultRegister],
    /// The walk of the page tables, as text.
    walk: &'a [String],
    /// The nearest buffer, and the bytes from the address to it, 0 inside.
    nearest_buffer: Option<&'a str>,
    nearest_distance: Option<u64>,
}

/// The outcome of a job with the reason why it did not compute, which needs the recording.
#[derive(Serialize)]
struct Job {
    /// Number of the submit, and its event.
    index: u32,
    submit_event: u64,
    /// Start of the chain.
    head_va: String,
    /// Whether it ended.
    done: bool,
    /// Exception code of the slot; `null` if it never ended.
    status: Option<String>,
    /// Whether shaders ran; `null`: no shader, or it did not end.
    computed: Option<bool>,
    /// Why shaders did not run, in words; `null` if they ran.
    why_not: Option<String>,
    /// Its duration.
    duration_ns: u64,
}

/// Times, with the runs summarized. The engine has each of them.
#[derive(Serialize)]
struct Times {
    /// Compilation of the plan.
    plan_ns: u64,
    /// Transfer to the target.
    push_ns: u64,
    /// Median of all runs.
    run_ns: u64,
    /// With `--repeat`: the times of all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<RunTimes>,
}

fn digest(bytes: [u8; 32]) -> String {
    blake3::Hash::from_bytes(bytes).to_hex().to_string()
}

/// The jobs of each chain with missing results, by the event of its submission.
pub(super) type Chains = BTreeMap<u64, Vec<ChainEntry<'static>>>;

pub(super) fn find_uncomputed_jobs(opened: &SourceRecording, outcome: &Outcome) -> Result<Chains, Failure> {
    let not = |j: &&JobOutcome| j.computed == Some(false);
    let wanted: BTreeSet<u64> = outcome.jobs().iter().filter(not).map(|j| j.submit_event).collect();
    let Some(map) = opened.map.filter(|_| !wanted.is_empty()) else {
        return Ok(Chains::new());
    };
    let timeline = opened.timeline()?;
    let spans: Vec<_> = timeline
        .jobs
        .iter()
        .filter(|s| wanted.contains(&s.submit_event))
        .collect();
    let events: Vec<u64> = spans.iter().map(|s| s.submit_event).collect();
    let family = families::find_family(&opened.recording);
    let memory = families::memory_at_submits(&opened.recording, map, &events);
    let mut out = Chains::new();
    for (span, memory) in spans.iter().zip(&memory) {
        let Some(memory) = memory else { continue };
        let Some(chain) = family.read_chain(memory, span.head_va) else {
            continue;
        };
        let entries = chain.jobs.iter().map(|j| ChainEntry {
            va: j.va(),
            kind: j.type_name().unwrap_or_default(),
            work: j.work(),
        });
        out.insert(span.submit_event, entries.collect());
    }
    Ok(out)
}

pub(super) fn report<'a>(
    o: &'a Outcome,
    of: &'a ReplayArguments,
    chains: &Chains,
    family: &dyn Family,
    screens: &ReplayScreens,
) -> Report<'a> {
    // An outcome of calls has no accesses: all of its counts are 0.
    let none = AccessOutcome::default();
    let accesses = o.accesses().unwrap_or(&none);
    let classes = accesses.classes;
    let fault = |f: &'_ FaultReport| -> Option<String> { f.address.map(|a| format_hex(a.get())) };
    Report {
        outcome: o.verdict,
        verdict: o.verdict_line(),
        computed: o.computed,
        actions: o.actions,
        reads: classes,
        reads_compared: o.reads.compared,
        reads_matched: o.reads.matched,
        jobs: o.jobs().len() as u64,
        interrupts: o.interrupts(),
        rewrites: o.rewrites.iter().map(|(kind, n)| (kind.name(), *n)).collect(),
        divergences: &o.divergences,
        divergence_count: o.divergence_count,
        findings: o.findings().iter().map(FindingRow::from).collect(),
        outputs: o
            .outputs
            .iter()
            .map(|b| Output {
                name: &b.name,
                bytes: b.data.len() as u64,
                blake3: digest(b.blake3),
            })
            .collect(),
        effects: o
            .effects()
            .iter()
            .map(|e| Effect {
                kind: &e.kind,
                matched: e.matched,
                expected: &e.expected,
                got: &e.got,
                source: &e.source,
                event: e.event,
            })
            .collect(),
        unchecked: o.accesses().map_or(&[], |a| &a.unchecked),
        screen: screens.report(),
        timing: times(&o.timing),
        pushed_bytes: o.pushed_bytes,
        target: of.target_name(),
        allowed: of.format_allowed(),
        mastered_bus: accesses.mastered_bus,
        calls: o.api().map(|outcome| ApiResults {
            outcome,
            tuned: None,
            watched: None,
        }),
        preempted: None,
        preemptions: None,
        failure: o.failure.as_deref(),
        faults: o
            .faults
            .iter()
            .map(|f| Fault {
                job: f.job,
                event: f.event,
                summary: &f.summary,
                exception: &f.exception,
                address: fault(f),
                registers: &f.registers,
                walk: &f.walk,
                nearest_buffer: f.nearest_buffer.as_ref().map(|(name, _)| name.as_str()),
                nearest_distance: f.nearest_buffer.as_ref().map(|(_, d)| *d),
            })
            .collect(),
        job_outcomes: o
            .jobs()
            .iter()
            .map(|j| Job {
                index: j.index,
                submit_event: j.submit_event,
                head_va: format_hex(j.head_va.get()),
                done: j.done,
                status: j.status.map(|s| format_hex(u64::from(s))),
                computed: j.computed,
                why_not: explain_uncomputed(o, j, chains.get(&j.submit_event).map_or(&[], Vec::as_slice), family),
                duration_ns: j.duration_ns,
            })
            .collect(),
        device_ns: o.device_ns,
        fingerprint: digest(o.fingerprint),
    }
}

fn times(t: &Timing) -> Times {
    let runs = t.run_times();
    Times {
        plan_ns: t.plan_ns,
        push_ns: t.push_ns,
        run_ns: runs.p50_ns,
        runs: (runs.count > 1).then_some(runs),
    }
}

/// Describes where the time was spent.
pub(super) fn describe_times(t: &Timing) -> String {
    let t = times(t);
    let mut run = format_duration(t.run_ns);
    if let Some(p) = &t.runs {
        run = format!(
            "{run} median of {} ({} to {}, p90 {}, p99 {})",
            p.count,
            format_duration(p.min_ns),
            format_duration(p.max_ns),
            format_duration(p.p90_ns),
            format_duration(p.p99_ns)
        );
    }
    format!(
        "plan {}, upload {}, run {run}",
        format_duration(t.plan_ns),
        format_duration(t.push_ns)
    )
}
