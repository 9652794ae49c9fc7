//! The execution of a batch of copies of a WebAssembly program.

use super::stop::Stop;
use super::{Execute, Executor, RunMaterial, is_temporary};
use crate::run_result::{RunResult, RunVerdict, unix_ms};
use crate::work::{InputFile, KeptOutcomes, RunDetails, WasmDetails, WasmWork};
use kinescope_session::wasm_program::{OpenTargetError, WasmTarget, open_file, open_target, run_all};
use replay_engine::client::ClientError;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trace_core::container;
use trace_core::progress::Progress;
use trace_core::recording::rfc3339;
use wasm_gpu::GpuOptions;
use wasm_recording::{ALL_ENDED, RunToRecord, Target, Translation, to_recording};
use wasm_run::{BackendError, Input, Limits, PAGE_BYTES, ProgramRun, RunEnd, RunOptions};

/// Name and version of this program in recordings.
const TOOL: &str = concat!("kinescope ", env!("CARGO_PKG_VERSION"));
/// Maximum size of a copy's memory, pages: 4 GiB.
const MAX_PAGES: u32 = 1 << 16;
/// Maximum number of inputs of a run: its result has a digest of each.
const MAX_BATCH: usize = 4096;
/// Maximum number of failed inputs that a result names.
const MAX_FAILED: usize = 1000;

impl Execute for WasmWork {
    fn execute(
        &self,
        executor: &mut Executor,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop> {
        let refused = |e: &dyn std::fmt::Display| Stop::Refused(e.to_string());
        // Work may come from another machine.
        if self.inputs.len() > MAX_BATCH {
            return Err(Stop::Refused(format!("the batch has more than {MAX_BATCH} inputs")));
        }
        let target = WasmTarget::parse(&executor.target).map_err(|e| refused(&e))?;
        let path = material.checked(&self.program.path, &self.program.digest, progress)?;
        let program = open_file(path).map_err(|e| refused(&format_args!("{}: {e}", path.display())))?;
        let inputs = self.read_inputs(material, progress)?;
        let expected = read_files(&self.expected, material, progress)?;
        // The run leases the target itself.
        executor.free_target();
        let begun = Instant::now();
        let options = self.run_options();
        let backend = open_target(
            &target,
            &executor.targets,
            program.clone(),
            options.clone(),
            GpuOptions::default(),
        )
        .map_err(|e| match e {
            OpenTargetError::Client(ClientError::Cancelled) => Stop::Cancelled,
            OpenTargetError::Client(e) if is_temporary(&e) => Stop::NotStarted(e.to_string()),
            e => refused(&e),
        })?;
        let runs = match run_all(&*backend, &inputs, progress) {
            Ok(runs) => runs,
            Err(BackendError::Cancelled) => return Err(Stop::Cancelled),
            Err(BackendError::InUse(why)) => return Err(Stop::NotStarted(why)),
            // The connection may be lost.
            Err(e @ BackendError::Target(_)) if matches!(target, WasmTarget::Agent { .. }) => {
                return Err(Stop::Lost(e.to_string()));
            }
            Err(e) => {
                result.verdict = RunVerdict::Failed;
                result.failure = Some(e.to_string());
                return Ok(());
            }
        };
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        result.compile_ns = nanoseconds(backend.compile_time());
        let measured = begun.elapsed().saturating_sub(backend.compile_time());
        result.run_ns = nanoseconds(backend.run_time().unwrap_or(measured));
        fill(result, &inputs, &runs, &expected);
        if self.keep_outcomes.keeps(result.verdict == RunVerdict::Match) {
            let recorded = RunToRecord {
                program: program.bytes(),
                program_name: &self.program_name(),
                options: &options,
                target: Target {
                    name: executor.target.clone(),
                    copies: backend.copies(inputs.len()),
                    compile_ns: result.compile_ns,
                    run_ns: result.run_ns,
                    translation: target.is_translated().then(Translation::default),
                },
                inputs: &inputs,
                runs: &runs,
                unfinished: &ALL_ENDED,
                launches: &backend.launches(),
                profile: &[],
                tool: TOOL,
                when: &rfc3339(unix_ms() / 1000),
                source: "wasm-run",
                edits: Vec::new(),
            };
            keep(executor, result, &recorded);
        }
        Ok(())
    }
}

/// Keeps a batch as a recording. What keeps it from being one must not cost the result.
fn keep(executor: &Executor, result: &mut RunResult, run: &RunToRecord<'_>) {
    let recording = to_recording(run, &Progress::new()).map_err(|e| e.to_string());
    match recording.and_then(|r| container::to_bytes(&r).map_err(|e| e.to_string())) {
        Ok(bytes) => executor.keep_outcome(result, ".kine", &bytes),
        Err(e) => {
            let before = result.failure.take().map_or_else(String::new, |f| f + "; ");
            result.failure = Some(format!("{before}the outcome was not kept: {e}"));
        }
    }
}

impl WasmWork {
    fn read_inputs(&self, material: &RunMaterial, progress: &Progress) -> Result<Vec<Input>, Stop> {
        let files = read_files(&self.inputs, material, progress)?;
        let mut inputs: Vec<Input> = files
            .into_iter()
            .map(|(name, bytes)| Input {
                name,
                bytes,
                more_requests: Vec::new(),
            })
            .collect();
        if self.options.requests {
            inputs.iter_mut().for_each(Input::split_requests);
        }
        Ok(inputs)
    }

    fn run_options(&self) -> RunOptions {
        let options = &self.options;
        let default = RunOptions::default();
        let arguments = options.arguments.iter().map(|a| a.clone().into_bytes());
        let pages = |bytes: u64| u32::try_from(bytes.div_ceil(PAGE_BYTES)).map_or(MAX_PAGES, |n| n.min(MAX_PAGES));
        RunOptions {
            function: options.function.clone().unwrap_or(default.function),
            arguments: std::iter::once(self.program_name().into_bytes())
                .chain(arguments)
                .collect(),
            environment: options
                .environment
                .iter()
                .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()))
                .collect(),
            seed: options.seed,
            limits: Limits {
                memory_pages: options.memory_bytes.map_or(Limits::DEFAULT_MEMORY_PAGES, pages),
                fuel: options.fuel,
                time: Some(self.time_limit_s.map_or(Limits::DEFAULT_TIME, Duration::from_secs)),
                log_entries: match self.keep_outcomes {
                    // Nothing reads the log.
                    KeptOutcomes::None => 0,
                    _ => Limits::DEFAULT_LOG_ENTRIES,
                },
                ..Limits::default()
            },
            ..RunOptions::default()
        }
    }
}

/// Reads files by name. All together have at most the limit of memory.
fn read_files(
    files: &BTreeMap<String, InputFile>,
    material: &RunMaterial,
    progress: &Progress,
) -> Result<BTreeMap<String, Vec<u8>>, Stop> {
    let limit = progress.unpack_limit();
    let mut all = BTreeMap::new();
    let mut bytes = 0u64;
    for (name, file) in files {
        let path = material.checked(&file.path, &file.digest, progress)?;
        let failed = |e: std::io::Error| Stop::Refused(format!("{}: {e}", path.display()));
        bytes = bytes.saturating_add(std::fs::metadata(path).map_err(failed)?.len());
        if bytes > limit {
            let message = format!(
                "{}: the batch has more than {limit} bytes; lower `batch`",
                path.display()
            );
            return Err(Stop::Refused(message));
        }
        all.insert(name.clone(), std::fs::read(path).map_err(failed)?);
    }
    Ok(all)
}

/// Describes how a copy failed; `None` if it ended with exit code 0.
fn describe_failure(run: &ProgramRun) -> Option<String> {
    match &run.end {
        RunEnd::Exit(0) => None,
        end => Some(end.to_string().chars().take(200).collect()),
    }
}

/// Returns the digest of a result: its end and its output. Places of traps are left out: not every target knows them.
fn digest(run: &ProgramRun) -> String {
    let mut hasher = blake3::Hasher::new();
    match &run.end {
        RunEnd::Exit(code) => hasher.update(&code.to_le_bytes()),
        RunEnd::Trap(trap) => hasher.update(trap.kind.name().as_bytes()),
    };
    for stream in [&run.standard_output, &run.standard_error] {
        hasher.update(&(stream.len() as u64).to_le_bytes());
        hasher.update(stream);
    }
    hasher.finalize().to_hex().chars().take(16).collect()
}

fn fill(result: &mut RunResult, inputs: &[Input], runs: &[ProgramRun], expected: &BTreeMap<String, Vec<u8>>) {
    let mut details = WasmDetails {
        copies: runs.len() as u64,
        first: inputs.first().map(|i| i.name.clone()).unwrap_or_default(),
        ..WasmDetails::default()
    };
    let (mut failures, mut differences) = (0usize, 0usize);
    for (input, run) in inputs.iter().zip(runs) {
        details.digests.push(digest(run));
        if let Some(reason) = describe_failure(run) {
            failures += 1;
            if details.failed.len() < MAX_FAILED {
                details.failed.insert(input.name.clone(), reason);
            }
        } else if expected.get(&input.name).is_some_and(|e| *e != run.standard_output) {
            differences += 1;
            if details.different.len() < MAX_FAILED {
                details.different.push(input.name.clone());
            }
        }
    }
    result.verdict = match (failures, differences) {
        (0, 0) => RunVerdict::Match,
        (0, _) => RunVerdict::Diverged,
        _ => RunVerdict::Failed,
    };
    result.computed = failures == 0;
    let first = details
        .failed
        .iter()
        .next()
        .map(|(name, reason)| format!("{name}: {reason}"));
    let other = details
        .different
        .first()
        .map(|name| format!("{name}: another output than expected"));
    result.failure = first.or(other).map(|first| match failures + differences {
        1 => first,
        n => format!("{first}; {n} of {} inputs", runs.len()),
    });
    let mut hasher = blake3::Hasher::new();
    details.digests.iter().for_each(|d| {
        hasher.update(d.as_bytes());
    });
    result.fingerprint = hasher.finalize().to_hex().to_string();
    result.details = Some(RunDetails::Wasm(details));
}
