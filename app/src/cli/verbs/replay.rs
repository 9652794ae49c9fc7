//! `replay`: replays a recording on a target and prints the result.

mod guard;
mod outcome;
mod wasm;

use crate::cli::failure::complain;
use crate::cli::findings::FindingRow;
use crate::cli::out::format_duration;
use crate::cli::replay_arguments::{OpenedReplay, ReplayArguments, assignment, reject_options_of_runs};
use crate::cli::replayed_screen::{self, ReplayScreens};
use crate::cli::source::SourceRecording;
use crate::cli::wasm_target::WasmTarget;
use crate::cli::{Exit, Failure, Out, Verb, api_trace, format_hex, progress_line};
use clap::{Args, FromArgMatches as _};
use kinescope_files::buffers;
use kinescope_files::output;
use kinescope_session::job_outcome::{ChainEntry, explain_uncomputed};
use kinescope_session::plan_file;
use kinescope_session::replay::guard as session_guard;
use kinescope_session::replay::request::{ReplayRequest, RequestError};
use kinescope_session::transfers::{self, BufferTyping};
use kinescope_session::tuning::tolerance::parse_output_rule;
use replay_cuda::ComparisonRules;
use replay_engine::client::ClientError;
use replay_engine::plan::ReadClasses;
use replay_engine::run::{
    AccessOutcome, ApiOutcome, Divergence, FaultRegister, FaultReport, JobOutcome, Outcome, RunTimes, Timing, Verdict,
};
use replay_engine::serve::MAX_REPEATS;
use replay_engine::tune::OutputTolerance;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use trace_core::Recording;
use trace_core::families::{self, Family};
use wasm::RunReplay;

pub const VERB: Verb = Verb {
    name: "replay",
    about: "Replay a recording or plan on a target and compare the results",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    of: ReplayArguments,
    /// File for the content of a buffer after the replay, raw or .npy; may be given more than once
    #[arg(long = "output", value_name = "NAME=FILE", value_parser = assignment)]
    outputs: Vec<(String, PathBuf)>,
    /// Write the outcome to this file, as a recording
    #[arg(short = 'o', value_name = "OUTCOME.kine")]
    outcome: Option<PathBuf>,
    /// Write the final screen of the device to this file, as binary PPM
    #[arg(long, value_name = "OUT.ppm")]
    screen: Option<PathBuf>,
    /// Number of runs, at most 10000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPEATS)))]
    repeat: u32,
    /// Replay on a device that can access foreign memory without containment (`targets` shows it); without this option,
    /// such a device is refused
    #[arg(long)]
    without_containment: bool,
    /// Learn the effects of a good run on this target and compare a second run with them; write the plan with these
    /// expectations to this file (as text if its name ends in .txt)
    #[arg(long, value_name = "PLAN")]
    learn: Option<PathBuf>,
    /// With --learn: also check after this event; may be given more than once
    #[arg(long = "check-after", alias = "look-at", value_name = "EVENT", requires = "learn")]
    look_at: Vec<u64>,
    /// For API traces: end each buffer at unmapped memory, and report the launch that reads or writes past one
    #[arg(long, conflicts_with_all = ["graph", "learn", "outcome", "repeat", "screen", "outputs"])]
    guard: bool,
    /// List every job with its result and its time
    #[arg(long)]
    jobs: bool,
    /// For API traces: tolerance of outputs, all or a named one: f32:1e-5, out0=f32:1e-6,1e-4 (absolute, relative),
    /// out0=f16:2ulp, exact; may be given more than once
    #[arg(long = "tolerance", alias = "near", value_name = "[NAME=]RULE", value_parser = parse_output_rule)]
    near: Vec<(Option<String>, OutputTolerance)>,
    /// For API traces: type and shape of a buffer, for .npy files: out0=f32:1x1000; may be given more than once
    #[arg(long = "as", value_name = "NAME=TYPE[:SHAPE]", value_parser = transfers::parse_typing)]
    types: Vec<BufferTyping>,
    /// Do not check the plan here: the agent checks it in any case
    #[arg(long, hide = true)]
    bypass_check: bool,
}

impl Arguments {
    /// Replays a WebAssembly run.
    fn replay_run(&self, opened: &SourceRecording, target: WasmTarget, out: &mut Out) -> Result<Exit, Failure> {
        reject_options_of_runs(&[
            ("--screen", self.screen.is_some()),
            ("--repeat", self.repeat > 1),
            ("--learn", self.learn.is_some()),
            ("--guard", self.guard),
            ("--jobs", self.jobs),
            ("--tolerance", !self.near.is_empty()),
            ("--as", !self.types.is_empty()),
        ])?;
        let request = RunReplay {
            opened,
            target,
            target_name: self.of.target_name(),
            inputs: self.of.replaced_inputs(),
            outputs: &self.outputs,
            outcome: self.outcome.as_deref(),
        };
        request.run(out)
    }

    /// Returns the part of the request that only this verb has.
    fn request(&self) -> ReplayRequest {
        let named = self.near.iter().filter_map(|(n, r)| Some((n.clone()?, *r)));
        ReplayRequest {
            outputs: self.outputs.iter().map(|(name, _)| name.clone()).collect(),
            tolerance: ComparisonRules {
                rules: named.collect(),
                rule: self.near.iter().rev().find(|(n, _)| n.is_none()).map(|r| r.1),
                ..ComparisonRules::default()
            },
            repeat: self.repeat,
            accepts_no_containment: self.without_containment,
            leaves_unrecorded: self.outcome.is_none(),
            learn: self.learn.as_ref().map(|_| self.look_at.clone()),
            keeps_lost_runs: true,
            bypass_check: self.bypass_check,
            prepares_target: true,
            ..ReplayRequest::default()
        }
    }
}

/// Report of a replay: both kinds of outcomes at one level, with what the command line gave. The keys are fixed: scripts
/// read them.
#[derive(Serialize)]
struct Report<'a> {
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

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    // An unwritable output must not cost a run or its inputs.
    let outputs = arguments
        .outputs
        .iter()
        .fold(arguments.of.input_files(), |files, (name, file)| {
            files.with_output(format!("--output {name}"), Some(file))
        });
    outputs
        .with_output("-o", arguments.outcome.as_deref())
        .with_output("--screen", arguments.screen.as_deref())
        .with_output("--learn", arguments.learn.as_deref())
        .check()?;
    for (_, file) in &arguments.outputs {
        buffers::check_file_name(file).map_err(|e| Failure::usage(e.to_string()))?;
    }
    if let Some((opened, target)) = arguments.of.open_run()? {
        return arguments.replay_run(&opened, target, out);
    }
    let replay = arguments.of.prepare(arguments.request())?;
    if arguments.guard {
        return run_guarded(&arguments.of, replay, out);
    }
    let OpenedReplay {
        request,
        mut prepared,
        mut lease,
        opened,
    } = replay;
    let ended = progress_line::run_with_progress("replaying", |progress, doing| {
        let doing = doing.clone();
        lease.on_phase(move |phase| doing.set(phase.name()));
        match request.run(&mut prepared, &mut lease, progress) {
            Err(RequestError::Client(e @ ClientError::Cancelled)) => Err(Failure::usage(e.to_string())),
            ended => Ok(ended),
        }
    })?;
    let outcome = ended.map_err(|e| arguments.of.describe_error(e))?;
    if let Some(path) = &arguments.learn {
        let bytes = plan_file::to_bytes(path, &prepared.compiled)?;
        progress_line::run_with_progress("writing", |_, _| Ok(output::write(path, &bytes)?))?;
    }
    let is_compared = opened.recording.api().is_some() || !prepared.rules.expected.is_empty();
    if is_compared && outcome.verdict != Verdict::Failed {
        let is_missing = |name: &&String| outcome.outputs.iter().all(|o| o.name != **name);
        if let Some(odd) = prepared.rules.rules.keys().find(is_missing) {
            opened.buffer(odd)?;
        }
    }
    let mut done = request.report(&opened.recording, &prepared, outcome);
    let has_types = is_compared || opened.recording.driver_trace().is_some();
    if has_types {
        for t in &arguments.types {
            if done.outcome.outputs.iter().all(|o| o.name != t.name) {
                opened.buffer(&t.name)?;
            }
            for o in done.outcome.outputs.iter_mut().filter(|o| o.name == t.name) {
                o.element = t.element;
            }
        }
    }
    let outcome = &done.outcome;
    let expected_screen = request.expected_screen.as_ref().map(|s| &s.picture);
    let screens = ReplayScreens::from_outcome(expected_screen, &opened.recording, outcome)?;
    progress_line::run_with_progress("writing", |_, _| write(arguments, &opened.recording, outcome, &screens))?;
    let family = families::find_family(&opened.recording);
    if out.is_json() {
        let chains = find_uncomputed_jobs(&opened, outcome)?;
        out.value(&report(outcome, &arguments.of, &chains, family, &screens))?;
    } else {
        let of = outcome::OutcomeContext {
            target: arguments.of.target_name(),
            events: opened.recording.events.len(),
            map: opened.map,
            family,
            model: prepared.compiled.plan.describe_model(),
            jobs: arguments.jobs,
            screen: screens.describe(),
        };
        outcome::print(outcome, &of, describe_times(&outcome.timing), out)?;
    }
    // The user does not wait until the memory of the plan is freed.
    out.flush()?;
    Ok(Exit::differs_if(!done.is_success()))
}

/// Replays with buffers that end at unmapped memory.
fn run_guarded(of: &ReplayArguments, replay: OpenedReplay, out: &mut Out) -> Result<Exit, Failure> {
    let OpenedReplay {
        request,
        mut prepared,
        mut lease,
        opened,
    } = replay;
    if opened.recording.api().is_none() {
        return Err(of.describe_error(RequestError::GuardRegisterTrace));
    }
    let api_trace = api_trace::load(&opened)?;
    let summary = progress_line::run_with_progress("replaying with guards", |progress, _| {
        let calls = (&opened.recording, &api_trace);
        let done = session_guard::run(&request, calls, &mut prepared, &mut lease, progress);
        done.map_err(|e| of.describe_error(e))
    })?;
    guard::print(&summary, out)
}

/// Writes the requested files.
fn write(
    arguments: &Arguments,
    recording: &Recording,
    outcome: &Outcome,
    screens: &ReplayScreens,
) -> Result<(), Failure> {
    if let Some(path) = &arguments.screen {
        screens.write(path)?;
    }
    if let Some(path) = &arguments.outcome {
        if outcome.recording.is_empty() {
            complain(format_args!(
                "{}: not written, the run left no recording",
                path.display()
            ));
        } else {
            output::write(path, &outcome.recording)?;
        }
    }
    let mut shapes = recording.metadata.valid_shapes();
    shapes.extend(arguments.types.iter().map(|t| (t.name.clone(), t.shape.clone())));
    for (name, file) in &arguments.outputs {
        if let Some(o) = outcome.outputs.iter().find(|o| o.name == *name) {
            let shape = shapes.get(name).map_or(&[][..], Vec::as_slice);
            buffers::write_file(file, o.element, shape, &o.data).map_err(|e| Failure::usage(e.to_string()))?;
            if !outcome.computed {
                complain(format_args!(
                    "{}: '{name}' is the content of memory; not every job ended and ran its shaders, so it may lack their results",
                    file.display()
                ));
            }
        } else {
            complain(format_args!(
                "{}: not written, the replay left no '{name}'",
                file.display()
            ));
        }
    }
    Ok(())
}

fn digest(bytes: [u8; 32]) -> String {
    blake3::Hash::from_bytes(bytes).to_hex().to_string()
}

/// The jobs of each chain with missing results, by the event of its submission.
type Chains = BTreeMap<u64, Vec<ChainEntry<'static>>>;

fn find_uncomputed_jobs(opened: &SourceRecording, outcome: &Outcome) -> Result<Chains, Failure> {
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

fn report<'a>(
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
fn describe_times(t: &Timing) -> String {
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
