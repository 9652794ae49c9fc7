//! `export --to channel`: writes a replay on the channels of an NVIDIA GPU as one file for a static executable.

use super::ExportError;
use super::program::Choices;
use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::replay_arguments::{Inputs, assignment};
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, plan_file, progress_line};
use kinescope_files::output;
use kinescope_files::workspace::How;
use kinescope_session::replay::request::{PreparedReplay, ReplayRequest, RequestError};
use kinescope_session::targets::Targets;
use nvidia_client::steps::{Step, Steps};
use replay_engine::channel::ChannelFootprint;
use replay_engine::client::targets::{TargetName, parse};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{Compiled, Plan};
use replay_nvidia::NvidiaReplayDevice;
use replay_program::{ChannelFileSummary, write_channel_file};
use serde::Serialize;
use std::path::Path;
use trace_core::progress::Progress;

/// The target if none is given.
const DEFAULT_TARGET: &str = "nvidia:0";

/// The written channel file: its size, and what the replay uses.
#[derive(Serialize)]
struct Report<'a> {
    /// The written file.
    path: String,
    /// Size of the file, and number of steps in it.
    bytes: u64,
    steps: u64,
    /// What the replay maps, writes, submits and reads.
    channel: ChannelFootprint,
    /// Outputs, in the order in which the executable writes them.
    outputs: Vec<OutputRow<'a>>,
    /// What the check of the plan could not prove, one sentence each.
    unproved: &'a [String],
}

/// An output of the replay, by its position in what the executable writes.
#[derive(Serialize)]
struct OutputRow<'a> {
    /// Name of the output.
    name: &'a str,
    /// Position of its first byte, and number of bytes.
    offset: u64,
    bytes: u64,
}

/// Writes the channel file of a recording or of a plan.
pub fn run(source: &Source, choices: &Choices, to: &Path, out: &mut Out) -> Result<Exit, Failure> {
    let unfit = [("--name", choices.name.is_some()), ("--arena", choices.arena.is_some())];
    if let Some((option, _)) = unfit.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!("{option} requires --to program")));
    }
    CommandFiles::for_recording(&source.file)
        .with_output("-o", Some(to))
        .check()?;
    let mut prepared = prepare(source, choices)?;
    let unproved = match prepared.verify(&Progress::new()) {
        Ok(verified) => verified.report().unproved.clone(),
        Err(e) => return Err(Failure::file(&source.file, format!("the plan is {e}"))),
    };
    let compiled = &prepared.compiled;
    let channel = compiled.plan.channel();
    let Some(channel) = channel.map(ChannelFootprint::for_plan) else {
        return Err(Failure::file(
            &source.file,
            "the plan is for register accesses or driver calls",
        ));
    };
    let summary = progress_line::run_with_progress("writing", |_, _| write_file(compiled, to))?;
    let outputs = list_outputs(&compiled.plan);
    if out.is_json() {
        out.value(&Report {
            path: to.display().to_string(),
            bytes: summary.bytes,
            steps: summary.steps,
            channel,
            outputs,
            unproved: &unproved,
        })?;
        return Ok(Exit::Good);
    }
    for u in &unproved {
        complain(format_args!("not proved, bounded by time: {u}"));
    }
    out.line(format_args!(
        "{}: {} in {}",
        to.display(),
        format_count(channel.submissions(), "submission"),
        format_count(summary.bytes, "byte"),
    ))?;
    for o in &outputs {
        let bytes = format_count(o.bytes, "byte");
        out.line(format_args!("output {}: {bytes} from byte {} on", o.name, o.offset))?;
    }
    out.line(format_args!("how to run it: replay-channel {} > OUTPUTS", to.display()))?;
    Ok(Exit::Good)
}

/// Compiles the recording, or takes the plan that the source is.
fn prepare(source: &Source, choices: &Choices) -> Result<PreparedReplay, Failure> {
    let target = choices.on.as_deref().unwrap_or(DEFAULT_TARGET);
    let device = describe_target(target, choices)?;
    if !device.takes_submissions() {
        let kind = device.taken_plans();
        return Err(Failure::usage(format!(
            "{target} takes {kind}; a channel file is for an NVIDIA GPU (--on nvidia:N)"
        )));
    }
    let mut request = ReplayRequest {
        target: target.to_owned(),
        outputs: choices.outputs.clone(),
        api_options: How {
            rebuild: choices.rebuild,
            ..How::default()
        },
        ..ReplayRequest::default()
    };
    let describe = |e: RequestError| Failure::file(&source.file, format!("no plan for {target}: {e}"));
    if let Some(plan) = plan_file::read(&source.file)? {
        if !choices.inputs.is_empty() || !choices.outputs.is_empty() || choices.rebuild {
            return Err(Failure::file(
                &source.file,
                "a plan is written unchanged; --input, --output and --rebuild are for recordings",
            ));
        }
        return request.relocate(&plan, &device).map_err(describe);
    }
    let opened = source.open_undamaged()?;
    let files = choices.inputs.iter().map(|text| assignment(text));
    let files = files.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    request.edits = Inputs::from_files(files).edits(&opened)?;
    // Only the compiler knows the outputs of a driver trace: they are among what its push buffers copy.
    let are_outputs_known = opened.recording.api().is_some() || opened.recording.driver_trace().is_none();
    for name in request.outputs.iter().filter(|_| are_outputs_known) {
        opened.buffer(name)?;
    }
    progress_line::run_with_progress("compiling", |progress, _| {
        let compiled = request.compile(&opened.recording, &Targets::default(), &device, progress);
        compiled.map_err(describe)
    })
}

/// Returns the description of a target. A GPU of this machine needs no driver for it.
fn describe_target(name: &str, choices: &Choices) -> Result<DeviceInfo, Failure> {
    match parse(name) {
        Ok(TargetName::Nvidia(number)) => Ok(NvidiaReplayDevice::describe(number, "")),
        _ => Ok(choices.keys.open_target(name)?.info().clone()),
    }
}

fn write_file(compiled: &Compiled, to: &Path) -> Result<ChannelFileSummary, Failure> {
    let mut summary = ChannelFileSummary::default();
    let written = output::write_with(to, |file| {
        summary = write_channel_file(compiled, file).map_err(|e| ExportError(e.to_string()))?;
        Ok(())
    });
    written.map_err(|ExportError(why)| Failure::file(to, why))?;
    Ok(summary)
}

/// Returns the outputs in the order in which the plan reads them, with their positions in what the executable writes.
fn list_outputs(plan: &Plan) -> Vec<OutputRow<'_>> {
    let body = plan.channel().map_or(&[][..], |channel| &channel.body);
    let mut offset = 0u64;
    let mut rows = Vec::new();
    for step in Steps::new(body).map_while(Result::ok) {
        let Step::Read { output, bytes, .. } = step else {
            continue;
        };
        let named = plan.outputs.get(output as usize);
        rows.push(OutputRow {
            name: named.map_or("", |o| &o.name),
            offset,
            bytes,
        });
        offset = offset.saturating_add(bytes);
    }
    rows
}
