//! Replay of a WebAssembly run: the program runs again on a target, and each copy is compared with the recorded one.

use crate::cli::out::{format_count, format_duration};
use crate::cli::source::SourceRecording;
use crate::cli::wasm_differences::{CopyReport, print_copies};
use crate::cli::wasm_target::{self, WasmTarget, run_all};
use crate::cli::{Exit, Failure, Out, progress_line, wasm_recordings};
use kinescope_files::output;
use replay_engine::run::Verdict;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace_core::progress::Progress;
use trace_core::recording::AppliedEdit;
use wasm_gpu::GpuOptions;
use wasm_recording::{
    ALL_ENDED, CopyStream, RunToRecord, Target, WasmDifference, WasmRecordingError, WasmRun, input_names, to_recording,
};
use wasm_run::{Input, LaunchRecord, Program, ProgramRun, RunOptions};

/// Maximum number of diverged copies in text output; `--json` has all.
const MAX_SHOWN_COPIES: usize = 20;

/// A replay of a run.
pub struct RunReplay<'a> {
    /// The recording.
    pub opened: &'a SourceRecording,
    /// The target.
    pub target: WasmTarget,
    /// Its name.
    pub target_name: &'a str,
    /// Inputs to replace, and the files of their new bytes.
    pub inputs: &'a [(String, PathBuf)],
    /// Outputs to write, and their files.
    pub outputs: &'a [(String, PathBuf)],
    /// File of the outcome.
    pub outcome: Option<&'a Path>,
}

/// The outcome of the replay of a WebAssembly run.
#[derive(Serialize)]
struct RunReplayReport {
    /// `match` or `diverged`.
    outcome: Verdict,
    /// The same in a sentence.
    verdict: String,
    /// Target, as `--on` gave it.
    #[serde(rename = "board")]
    target: String,
    /// Number of copies, of those whose system calls, outputs and end are as recorded, and of recorded system calls.
    copies: u64,
    copies_matched: u64,
    calls: u64,
    /// Names of the inputs that `--input` replaced.
    replaced_inputs: Vec<String>,
    /// Copies that differ from the recorded ones; `a` is the recording, `b` the replay.
    divergences: Vec<CopyReport>,
    divergence_count: u64,
    /// Time of translation and compilation, and of the run without it.
    compile_ns: u64,
    run_ns: u64,
    /// Number of launches of a GPU.
    launches: u64,
}

/// A run with its results.
struct FinishedRun {
    inputs: Vec<Input>,
    runs: Vec<ProgramRun>,
    launches: Vec<LaunchRecord>,
    target: Target,
}

impl RunReplay<'_> {
    /// Replays the run, writes the requested files, and prints the outcome.
    ///
    /// # Errors
    /// When the target fails, a name is no input or output, or a file cannot be read or written.
    pub fn run(&self, out: &mut Out) -> Result<Exit, Failure> {
        let report = progress_line::run_with_progress("reading", |progress, step| {
            let recorded = wasm_recordings::read(self.opened, progress)?;
            if let Some(copy) = recorded.copies().iter().find(|copy| copy.end.ended().is_none()) {
                return Err(self.failed(WasmRecordingError::Unfinished(copy.name.clone())));
            }
            let names = input_names(recorded.copies().iter().map(|c| c.name.as_str()));
            let outputs = self.find_outputs(&recorded)?;
            let mut inputs = read_inputs(&recorded).ok_or_else(|| self.failed("an input is damaged"))?;
            let replaced = self.replace_inputs(&recorded, &names, &mut inputs)?;
            step.set("replaying");
            let finished = self.run_program(&recorded, inputs, progress)?;
            step.set("comparing");
            let edits = self.describe_edits(&recorded, &replaced);
            let recording = to_recording(&finished.to_record(&recorded, edits), progress);
            let recording = recording.map_err(|e| self.failed(e))?;
            let replayed = WasmRun::from_recording(&recording, progress).map_err(|e| self.failed(e))?;
            let found = WasmDifference::find(&recorded, &replayed, progress).map_err(|e| self.failed(e))?;
            step.set("writing");
            for (copy, stream, file) in outputs {
                output::write(file, &replayed.stream(copy, stream).unwrap_or_default())?;
            }
            if let Some(path) = self.outcome {
                let bytes = trace_core::container::to_bytes(&recording).map_err(|e| Failure::file(path, e))?;
                output::write(path, &bytes)?;
            }
            Ok(self.report(&found, (&recorded, &replayed), &replaced))
        })?;
        if out.is_json() {
            out.value(&report)?;
        } else {
            print(&report, out)?;
        }
        Ok(Exit::differs_if(report.outcome != Verdict::Match))
    }

    fn failed(&self, e: impl std::fmt::Display) -> Failure {
        Failure::file(&self.opened.file, e)
    }

    /// Returns the copy, the stream and the file of each requested output.
    fn find_outputs(&self, recorded: &WasmRun) -> Result<Vec<(usize, CopyStream, &Path)>, Failure> {
        let mut names: HashMap<String, (usize, CopyStream)> = HashMap::new();
        if !self.outputs.is_empty() {
            for (number, copy) in recorded.copies().iter().enumerate() {
                for stream in [CopyStream::Output, CopyStream::Error] {
                    names.insert(stream.buffer_name(&copy.name), (number, stream));
                }
            }
        }
        let mut found = Vec::new();
        for (name, file) in self.outputs {
            let (copy, stream) = *names.get(name).ok_or_else(|| {
                let message = format!("no output has the name {name} (expected INPUT.stdout or INPUT.stderr)");
                self.failed(message)
            })?;
            found.push((copy, stream, file.as_path()));
        }
        Ok(found)
    }

    /// Replaces inputs by the bytes of the files that the user gave. Returns the positions of the replaced inputs.
    fn replace_inputs(
        &self,
        recorded: &WasmRun,
        names: &HashMap<String, usize>,
        inputs: &mut [Input],
    ) -> Result<BTreeSet<usize>, Failure> {
        let mut replaced = BTreeSet::new();
        for (name, file) in self.inputs {
            let position = names.get(name).copied();
            let position = position.ok_or_else(|| {
                let count = format_count(recorded.copies().len() as u64, "input");
                self.failed(format!(
                    "no input has the name {name} (the recording has {count}; in0 is the first)"
                ))
            })?;
            let bytes = fs::read(file).map_err(|e| Failure::file(file, e))?;
            let input = recorded.replace_input(position, bytes);
            let slot = inputs.get_mut(position).zip(input);
            let (slot, input) = slot.ok_or_else(|| self.failed("an input is damaged"))?;
            *slot = input;
            if !replaced.insert(position) {
                return Err(Failure::usage(format!(
                    "--input {name} is given twice; give one file for it"
                )));
            }
        }
        Ok(replaced)
    }

    fn run_program(&self, recorded: &WasmRun, inputs: Vec<Input>, progress: &Progress) -> Result<FinishedRun, Failure> {
        let program = Program::parse(recorded.program().to_vec()).map_err(|e| self.failed(e))?;
        let options = RunOptions {
            // The number of copies was a choice for the recorded target; results do not depend on it.
            copies: None,
            ..recorded.options().clone()
        };
        let backend = wasm_target::open(&self.target, program, options, GpuOptions::default(), &self.opened.file)?;
        progress.set_total(inputs.len() as u64);
        let (start, compiled_before) = (Instant::now(), backend.compile_time());
        let runs = run_all(&*backend, &inputs, progress)?;
        let compiled = backend.compile_time().saturating_sub(compiled_before);
        let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(FinishedRun {
            target: Target {
                name: self.target_name.to_owned(),
                copies: backend.copies(inputs.len()),
                compile_ns: nanoseconds(backend.compile_time()),
                run_ns: nanoseconds(wasm_target::run_time(
                    &*backend,
                    start.elapsed().saturating_sub(compiled),
                )),
                translation: wasm_recordings::describe_translation(self.target_name, &GpuOptions::default()),
            },
            launches: backend.launches(),
            inputs,
            runs,
        })
    }

    fn describe_edits(&self, recorded: &WasmRun, replaced: &BTreeSet<usize>) -> Vec<AppliedEdit> {
        let source = self.opened.file.file_name().unwrap_or_default().to_string_lossy();
        let copies = replaced.iter().filter_map(|n| recorded.copies().get(*n));
        let edit = |copy: &wasm_recording::RecordedCopy| AppliedEdit {
            buffer: copy.name.clone(),
            bytes: copy.stream_bytes.first().copied().unwrap_or(0),
            source: source.clone().into_owned(),
        };
        copies.map(edit).collect()
    }

    fn report(
        &self,
        found: &WasmDifference,
        runs: (&WasmRun, &WasmRun),
        replaced: &BTreeSet<usize>,
    ) -> RunReplayReport {
        let (recorded, replayed) = runs;
        let divergences: Vec<CopyReport> = found.copies.iter().map(|c| CopyReport::new(c, runs)).collect();
        let copies = recorded.copies().len() as u64;
        let matched = copies.saturating_sub(divergences.len() as u64);
        let outcome = match divergences.is_empty() {
            true => Verdict::Match,
            false => Verdict::Diverged,
        };
        let name = match outcome {
            Verdict::Match => "match",
            _ => "diverged",
        };
        let names = replaced.iter().filter_map(|n| recorded.copies().get(*n));
        RunReplayReport {
            outcome,
            verdict: format!(
                "{name}: the results of {matched} of {} are as recorded",
                format_count(copies, "input")
            ),
            target: self.target_name.to_owned(),
            copies,
            copies_matched: matched,
            calls: found.calls.first().copied().unwrap_or(0),
            replaced_inputs: names.map(|c| c.name.clone()).collect(),
            divergence_count: divergences.len() as u64,
            divergences,
            compile_ns: replayed.target().compile_ns,
            run_ns: replayed.target().run_ns,
            launches: replayed.launches().len() as u64,
        }
    }
}

impl FinishedRun {
    fn to_record<'a>(&'a self, recorded: &'a WasmRun, edits: Vec<AppliedEdit>) -> RunToRecord<'a> {
        RunToRecord {
            program: recorded.program(),
            program_name: recorded.program_name(),
            options: recorded.options(),
            target: self.target.clone(),
            inputs: &self.inputs,
            runs: &self.runs,
            unfinished: &ALL_ENDED,
            launches: &self.launches,
            profile: &[],
            tool: wasm_recordings::TOOL,
            when: "",
            source: "outcome",
            edits,
        }
    }
}

/// Returns all inputs, or `None` if one is damaged.
fn read_inputs(recorded: &WasmRun) -> Option<Vec<Input>> {
    (0..recorded.copies().len()).map(|copy| recorded.input(copy)).collect()
}

fn print(report: &RunReplayReport, out: &mut Out) -> Result<(), Failure> {
    out.line(&report.verdict)?;
    if !report.replaced_inputs.is_empty() {
        out.line(format_args!("replaced inputs: {}", report.replaced_inputs.join(", ")))?;
    }
    print_copies(&report.divergences, ["recorded", "replayed"], MAX_SHOWN_COPIES, out)?;
    out.line(format_args!(
        "{} on {}, compiled in {}",
        format_duration(report.run_ns),
        report.target,
        format_duration(report.compile_ns)
    ))?;
    Ok(())
}
