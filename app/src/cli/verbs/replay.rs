//! `replay`: replays a recording on a target and prints the result.

mod checkpoints;
mod guard;
mod outcome;
mod report;
mod wasm;

use crate::cli::failure::complain;
use crate::cli::replay_arguments::{OpenedReplay, ReplayArguments, assignment, reject_options_of_runs};
use crate::cli::replayed_screen::ReplayScreens;
use crate::cli::source::SourceRecording;
use crate::cli::wasm_target::WasmTarget;
use crate::cli::{Exit, Failure, Out, Verb, api_trace, progress_line};
use clap::{Args, FromArgMatches as _};
use kinescope_files::buffers;
use kinescope_files::output;
use kinescope_session::plan_file;
use kinescope_session::replay::guard as session_guard;
use kinescope_session::replay::request::{ReplayReport, ReplayRequest, RequestError};
use kinescope_session::transfers::{self, BufferTyping};
use kinescope_session::tuning::tolerance::parse_output_rule;
use replay_cuda::ComparisonRules;
use replay_engine::client::ClientError;
use replay_engine::lease_options::{LeaseOptions, Preemption};
use replay_engine::run::{Outcome, Verdict};
use replay_engine::serve::MAX_REPEATS;
use replay_engine::tune::OutputTolerance;
use std::num::NonZeroU32;
use std::path::PathBuf;
use trace_core::Recording;
use trace_core::api_trace::buffer_shapes;
use trace_core::families;
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
    /// Keep the device's memory in this folder every few jobs; the same command goes on from there after it was stopped or
    /// lost its connection
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["guard", "learn", "outcome", "repeat", "screen", "expect_screen"])]
    checkpoints: Option<PathBuf>,
    /// Number of jobs between two checkpoints [default: 10]
    #[arg(long, value_name = "N", requires = "checkpoints")]
    checkpoint_every: Option<NonZeroU32>,
    /// Take the device of an agent from a run with checkpoints that has a lower priority. It stops at its next job boundary,
    /// and goes on after this replay. Priorities are 1 to 255; without this option, the priority is 0
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(1..))]
    preempt: Option<u8>,
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
            ("--checkpoints", self.checkpoints.is_some()),
            ("--preempt", self.preempt.is_some()),
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
            lease_options: LeaseOptions {
                priority: self.preempt.unwrap_or(0),
                // Without checkpoints a preempted run would begin anew.
                is_preemptible: self.checkpoints.is_some(),
            },
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
    if let Some(folder) = &arguments.checkpoints {
        return checkpoints::run(arguments, folder, out);
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
    let context = RunContext {
        model: prepared.compiled.plan.describe_model(),
        preempted: lease.preempted().cloned(),
        preemptions: 0,
    };
    finish(arguments, &opened, &request, &done, &context, out)
}

/// What an outcome does not contain about its run.
struct RunContext {
    /// The other model that the plan was compiled for.
    model: Option<String>,
    /// The lease of another client that ended for this run.
    preempted: Option<Preemption>,
    /// Number of times that this run was preempted.
    preemptions: u32,
}

/// Writes the requested files and prints the outcome.
fn finish(
    arguments: &Arguments,
    opened: &SourceRecording,
    request: &ReplayRequest,
    done: &ReplayReport,
    context: &RunContext,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let outcome = &done.outcome;
    let expected_screen = request.expected_screen.as_ref().map(|s| &s.picture);
    let screens = ReplayScreens::from_outcome(expected_screen, &opened.recording, outcome)?;
    progress_line::run_with_progress("writing", |_, _| write(arguments, &opened.recording, outcome, &screens))?;
    let family = families::find_family(&opened.recording);
    if out.is_json() {
        let chains = report::find_uncomputed_jobs(opened, outcome)?;
        let report = report::report(outcome, &arguments.of, &chains, family, &screens);
        out.value(&report.with_preemptions(context.preempted.as_ref(), context.preemptions))?;
    } else {
        let of = outcome::OutcomeContext {
            target: arguments.of.target_name(),
            events: opened.recording.events.len(),
            map: opened.map,
            family,
            model: context.model.clone(),
            jobs: arguments.jobs,
            screen: screens.describe(),
        };
        if let Some(preempted) = &context.preempted {
            out.line(report::describe_preemption(preempted))?;
        }
        outcome::print(outcome, &of, report::describe_times(&outcome.timing), out)?;
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
    let mut shapes = buffer_shapes(recording);
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
