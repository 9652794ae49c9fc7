//! `wasm run`: runs a program once for each input on a target, and writes outputs and report.

use super::arguments::{ProgramArguments, TargetArguments};
use super::inputs;
use super::outputs::{OutputFolder, REPORT, ResultWriter};
use crate::cli::out::{format_count, format_duration};
use crate::cli::outputs::CommandFiles;
use crate::cli::{Exit, Failure, Out, progress_line, signals, wasm_recordings, wasm_target};
use clap::Args;
use kinescope_files::output::is_same_file;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use wasm_recording::RunToRecord;
use wasm_run::{
    Backend, BackendError, BlockProfile, BlockReport, Input, Program, ProgramRun, Report, RunOptions, RunReport,
};

/// Maximum number of failed copies in text output; the report has all.
const MAX_LISTED_FAILURES: usize = 20;
/// Maximum number of blocks of the profile in text output; the report has all.
const MAX_LISTED_BLOCKS: usize = 10;

#[derive(Args)]
pub struct RunArguments {
    #[command(flatten)]
    program: ProgramArguments,
    /// Inputs: files, folders (each file, in name order), or .jsonl files (each line)
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    inputs: Vec<PathBuf>,
    /// Folder for the outputs of each input, and report.json
    #[arg(short = 'o', value_name = "OUT")]
    to: PathBuf,
    /// Target: cpu runs one copy on each core, cuda:N thousands on a GPU, interpreter the code of GPUs without a GPU;
    /// agent:NAME/cuda0, agent:NAME/cpu and agent:NAME/interpreter are those of a paired agent
    #[arg(long, value_name = "TARGET", default_value = "cpu")]
    on: String,
    #[command(flatten)]
    target: TargetArguments,
    /// Also write the system calls of each input to NAME.calls
    #[arg(long)]
    calls: bool,
    /// Count executions and active lanes of each block, on a GPU or the interpreter; slower
    #[arg(long)]
    profile: bool,
    /// Also write program, inputs, system calls, outputs and ends to this file, for `replay` and `diff`
    #[arg(long, value_name = "FILE.kine")]
    record: Option<PathBuf>,
}

pub fn run(arguments: &RunArguments, out: &mut Out) -> Result<Exit, Failure> {
    let program = arguments.program.open()?;
    let file = match &arguments.record {
        Some(path) => Some(arguments.files(path)?.check_kine(path)?),
        None => None,
    };
    let mut options = arguments.program.options()?;
    if !arguments.calls && file.is_none() {
        // Nothing reads the log.
        options.limits.log_entries = 0;
    }
    let path = arguments.program.path();
    let target = &arguments.target;
    let gpu = target.gpu_options(0, arguments.profile);
    let backend = target.open(&arguments.on, path, options.clone(), program.clone(), arguments.profile)?;
    let folder = OutputFolder::create(&arguments.to, arguments.calls, &arguments.inputs)?;
    // A failure of the run has more to say than that a signal stopped it.
    let ended: Result<Report, Failure> = progress_line::run_with_progress("running", |progress, step| {
        step.set("reading the inputs");
        let inputs = inputs::read(&arguments.inputs, arguments.program.by_request(), progress)?;
        step.set("running");
        let ran = run_inputs(
            &*backend,
            (&program, &options),
            &folder,
            &inputs,
            file.is_some(),
            progress,
        );
        // A target that cannot start leaves no file.
        let has_started = !ran.results.is_empty() || ran.unfinished.values().any(|started| *started);
        let mut written = None;
        if let Some(file) = file.as_ref().filter(|_| ran.error.is_none() || has_started) {
            step.set("recording");
            let launches = backend.launches();
            let profile = backend.profile().unwrap_or_default();
            let run = RunToRecord {
                program: program.bytes(),
                program_name: &arguments.program.name(),
                options: &options,
                target: wasm_recordings::describe_target(&arguments.on, &gpu, &ran.report),
                inputs: &inputs,
                runs: &ran.results,
                unfinished: &ran.unfinished,
                launches: &launches,
                profile: &profile,
                tool: wasm_recordings::TOOL,
                when: &wasm_recordings::format_now(),
                source: "wasm-run",
                edits: Vec::new(),
            };
            written = Some(wasm_recordings::write(file, &run));
        }
        Ok(match (&ran.error, written) {
            (None, Some(Err(of_file))) => Err(of_file),
            (None, _) => Ok(ran.report),
            (Some(error), written) => {
                let recording = arguments.record.as_deref().zip(written);
                Err(ran.describe_stop(error, folder.path(), recording))
            }
        })
    })?;
    let report = ended?;
    folder.write_report(&report)?;
    if out.is_json() {
        out.value(&report)?;
    } else {
        print(&report, &arguments.to, out)?;
        print_call_depth(&*backend, options.limits.call_depth, out)?;
    }
    Ok(Exit::differs_if(!report.runs.iter().all(RunReport::is_success)))
}

impl RunArguments {
    /// Returns the files of the run, for the check of the recording that is written.
    fn files(&self, recording: &Path) -> Result<CommandFiles, Failure> {
        let name = recording.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let folder = recording
            .parent()
            .filter(|f| !f.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let is_output = [".stdout", ".stderr", ".calls"].iter().any(|end| name.ends_with(end)) || name == REPORT;
        if is_output && is_same_file(folder, &self.to) {
            let message = "--record names an output of the run: give the recording another name";
            return Err(Failure::file(recording, message));
        }
        let mut files = CommandFiles::default()
            .with_input("the program", self.program.path())
            .with_output("--record", Some(recording));
        for input in &self.inputs {
            files = files.with_input("--inputs", input);
            // What a folder cannot list is an error when the inputs are read.
            for file in fs::read_dir(input).into_iter().flatten().flatten() {
                files = files.with_input("--inputs", &file.path());
            }
        }
        Ok(files)
    }
}

/// What a run gave, whole or stopped.
struct RunOutcome {
    report: Report,
    /// Results of the copies that ended, if they are kept.
    results: Vec<ProgramRun>,
    /// Positions of inputs without a result, and whether their copies had started.
    unfinished: BTreeMap<usize, bool>,
    /// Whether the target reports the starts of copies.
    reports_starts: bool,
    /// Why the run stopped.
    error: Option<BackendError>,
}

impl RunOutcome {
    /// Returns the failure of a run that stopped: why, how many inputs have results, and what is written. `recording` is
    /// its file, and whether it is written.
    fn describe_stop(
        &self,
        error: &BackendError,
        folder: &Path,
        recording: Option<(&Path, Result<(), Failure>)>,
    ) -> Failure {
        let is_cancelled = matches!(error, BackendError::Cancelled);
        let why = if is_cancelled {
            "stopped".to_owned()
        } else {
            error.to_string()
        };
        let finished = self.report.runs.len();
        if finished == 0 && recording.is_none() && !is_cancelled {
            return Failure::usage(why).with_signal(signals::requested_exit_code());
        }
        let failed = self.report.runs.iter().filter(|run| !run.is_success()).count();
        let total = (finished + self.unfinished.len()) as u64;
        let running = self.unfinished.values().filter(|started| **started).count();
        let waiting = self.unfinished.len() - running;
        let mut counts = format!(
            "{finished} of {} finished, {failed} failed",
            format_count(total, "input")
        );
        // An agent does not send which copies have started.
        if self.reports_starts {
            counts.push_str(&format!(", {running} running, {waiting} not run"));
        } else {
            counts.push_str(&format!(", {waiting} without a result"));
        }
        let files = match recording {
            None => "report.json is not written".to_owned(),
            Some((file, Ok(()))) => format!("report.json is not written, {} is", file.display()),
            Some((_, Err(why))) => format!("report.json is not written. {why}"),
        };
        let outputs = match finished {
            0 => String::new(),
            _ => format!("outputs are in {}; ", folder.display()),
        };
        let separator = if is_cancelled { ": " } else { ". " };
        let failure = Failure::usage(format!("{why}{separator}{counts}; {outputs}{files}"));
        failure.with_signal(signals::requested_exit_code())
    }
}

/// Runs all inputs. `keep_results` also keeps the results, for a recording.
fn run_inputs(
    backend: &dyn Backend,
    (program, options): (&Program, &RunOptions),
    folder: &OutputFolder,
    inputs: &[Input],
    keep_results: bool,
    progress: &Progress,
) -> RunOutcome {
    let writer = ResultWriter::new(folder, inputs, keep_results, progress);
    let (start, compiled_before) = (Instant::now(), backend.compile_time());
    let error = backend.run(inputs, &writer).err();
    // A GPU's program is compiled at the start of its run.
    let compiled = backend.compile_time().saturating_sub(compiled_before);
    let wall_time = start.elapsed();
    let run_time = wasm_target::run_time(backend, wall_time.saturating_sub(compiled));
    let blocks = |blocks: Vec<BlockProfile>| {
        let function = |b: &BlockProfile| program.find_place(b.offset).map(|place| place.function);
        blocks.iter().map(|b| BlockReport::new(b, function(b))).collect()
    };
    let unfinished = writer.unfinished();
    let (runs, results) = writer.into_reports();
    let report = Report {
        copies: backend.copies(inputs.len()),
        seconds: run_time.as_secs_f64(),
        wall_seconds: wall_time.as_secs_f64(),
        compile_seconds: backend.compile_time().as_secs_f64(),
        call_depth: backend.lowered_call_depth().unwrap_or(options.limits.call_depth),
        phases: backend.phases(),
        profile: backend.profile().map(blocks),
        runs,
    };
    RunOutcome {
        report,
        results,
        unfinished,
        reports_starts: backend.reports_starts(),
        error,
    }
}

/// Prints a note if the target allows fewer nested calls than the limit of the options.
pub fn print_call_depth(backend: &dyn Backend, limit: u32, out: &mut Out) -> Result<(), Failure> {
    match backend.lowered_call_depth() {
        Some(depth) => print_lowered_call_depth(depth, limit, out),
        None => Ok(()),
    }
}

/// Prints that a copy has fewer nested calls than the limit of the options.
pub fn print_lowered_call_depth(depth: u32, limit: u32, out: &mut Out) -> Result<(), Failure> {
    out.line(format_args!(
        "note: a copy has at most {depth} nested calls, not {limit}: the target's memory has no room for more stack"
    ))?;
    Ok(())
}

fn print(report: &Report, to: &Path, out: &mut Out) -> Result<(), Failure> {
    let failed: Vec<&RunReport> = report.runs.iter().filter(|r| !r.is_success()).collect();
    for run in failed.iter().take(MAX_LISTED_FAILURES) {
        out.line(format_args!("{}: {}", run.input, describe(run)))?;
    }
    if failed.len() > MAX_LISTED_FAILURES {
        let more = failed.len() - MAX_LISTED_FAILURES;
        out.line(format_args!("and {more} more; report.json has all"))?;
    }
    if let Some(profile) = &report.profile {
        print_profile(profile, out)?;
    }
    let time = |seconds: f64| {
        let ns = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_nanos();
        format_duration(u64::try_from(ns).unwrap_or(u64::MAX))
    };
    out.line(format_args!(
        "{} in {} ({} with start and output files), {} failed; outputs in {}",
        format_count(report.runs.len() as u64, "input"),
        time(report.seconds),
        time(report.wall_seconds),
        failed.len(),
        to.display()
    ))?;
    Ok(())
}

/// Prints the blocks that warps execute most often.
fn print_profile(profile: &[BlockReport], out: &mut Out) -> Result<(), Failure> {
    let mut blocks: Vec<&BlockReport> = profile.iter().filter(|b| b.executions > 0).collect();
    blocks.sort_by_key(|b| std::cmp::Reverse(b.executions));
    let mut rows = vec![
        ["block", "function", "executions", "active lanes"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for block in blocks.iter().take(MAX_LISTED_BLOCKS) {
        rows.push(vec![
            block.offset.clone(),
            block.function.clone().unwrap_or_else(|| "-".to_owned()),
            block.executions.to_string(),
            block
                .active_share
                .map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        ]);
    }
    out.table(&rows)?;
    if blocks.len() > MAX_LISTED_BLOCKS {
        let more = blocks.len() - MAX_LISTED_BLOCKS;
        out.line(format_args!("and {more} more blocks; report.json has all"))?;
    }
    Ok(())
}

/// Describes how a copy failed: `exit code 3`, `trap: unreachable in parse at byte 0x12`.
fn describe(run: &RunReport) -> String {
    let Some(trap) = &run.trap else {
        return format!("exit code {}", run.exit.unwrap_or_default());
    };
    let mut text = format!("trap: {}", trap.kind);
    if let Some(function) = &trap.function {
        text.push_str(&format!(" in {function}"));
    }
    if let Some(offset) = &trap.offset {
        text.push_str(&format!(" at byte {offset}"));
    }
    text
}
