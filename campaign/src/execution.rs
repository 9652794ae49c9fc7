//! The execution of one run on one target, through the same plans, leases and outcomes as `replay`.

use crate::file_digest::digest_path;
use crate::run::LeasedRun;
use crate::run_result::{FirstDivergence, RunResult, RunVerdict, unix_ms};
use crate::work::{InputFile, ReplayWork, WorkItem};
use kinescope_files::{buffers, output};
use kinescope_session::plan_footprint::PlanFootprint;
use kinescope_session::replay::request::{ReplayRequest, RequestError, limit_time};
use kinescope_session::source;
use kinescope_session::targets::Targets;
use kinescope_session::transfers;
use kinescope_session::tuning::tolerance::parse_output_rule;
use replay_cuda::ComparisonRules;
use replay_engine::client::{ClientError, Lease, Stage};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{CompileError, Edits};
use replay_engine::run::{Outcome, Verdict};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::progress::Progress;

/// Number of recordings that stay open: neighbours in the matrix are the same recording on several targets.
const MAX_OPEN_RECORDINGS: usize = 2;

/// Where the files of a run are on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMaterial {
    /// The recording.
    pub recording: PathBuf,
    /// The inputs, by the name of the buffer.
    pub inputs: BTreeMap<String, PathBuf>,
}

impl RunMaterial {
    /// Returns the files where the campaign found them, for a run on the machine of the campaign.
    #[must_use]
    pub fn of_campaign(work: &WorkItem) -> Self {
        match work {
            WorkItem::Replay(work) => Self {
                recording: work.recording.path.clone(),
                inputs: work.inputs.iter().map(|(n, i)| (n.clone(), i.path.clone())).collect(),
            },
        }
    }
}

/// What became of an attempt.
#[derive(Debug)]
pub enum Attempt {
    /// There is a result.
    Done(Box<RunResult>),
    /// The run may have executed, and its end was not observed.
    Lost(String),
    /// The run did not execute: the target cannot be reached or leased.
    NotStarted(String),
    /// The user stopped the campaign. The run may have executed.
    Cancelled,
}

/// Returns whether a target that cannot be opened may be there later: its agent does not answer, or another client has
/// it.
#[must_use]
pub fn is_temporary(e: &ClientError) -> bool {
    matches!(
        e,
        ClientError::Unreachable { .. }
            | ClientError::Busy { .. }
            | ClientError::Lost { .. }
            | ClientError::Protocol { .. }
            | ClientError::OutOfOrder { .. }
            | ClientError::Refused(_)
    )
}

/// Executes runs on one target, one at a time. It keeps the target leased between runs, until [`Executor::free_target`].
pub struct Executor {
    target: String,
    worker: String,
    targets: Targets,
    outcomes: PathBuf,
    lease: Option<Lease>,
    opened: VecDeque<(String, Recording)>,
}

/// Why there is no outcome.
enum Stop {
    Refused(String),
    Lost(String),
    NotStarted(String),
    Cancelled,
}

impl From<ClientError> for Stop {
    fn from(e: ClientError) -> Self {
        let text = e.to_string();
        match &e {
            ClientError::Cancelled => return Self::Cancelled,
            // The device hung or failed: that is a result.
            ClientError::Device(_) => return Self::Refused(text),
            ClientError::Unreachable { .. } | ClientError::Busy { .. } | ClientError::Qemu(_) => {
                return Self::NotStarted(text);
            }
            _ => {}
        }
        match (&e, e.stage()) {
            (ClientError::Lost { .. } | ClientError::Protocol { .. } | ClientError::Forgotten { .. }, stage) => {
                match stage {
                    Stage::Upload | Stage::Run | Stage::Download => Self::Lost(text),
                    _ => Self::NotStarted(text),
                }
            }
            _ => Self::Refused(text),
        }
    }
}

impl From<RequestError> for Stop {
    fn from(e: RequestError) -> Self {
        match e {
            RequestError::Client(e) => e.into(),
            RequestError::Compile(CompileError::Cancelled(_)) => Self::Cancelled,
            e => Self::Refused(e.to_string()),
        }
    }
}

impl Executor {
    /// Creates an executor. `worker` is its name in results, `outcomes` the folder of kept outcomes, which is created when
    /// it is needed.
    #[must_use]
    pub fn new(target: &str, worker: &str, targets: Targets, outcomes: &Path) -> Self {
        Self {
            target: target.to_owned(),
            worker: worker.to_owned(),
            targets,
            outcomes: outcomes.to_owned(),
            lease: None,
            opened: VecDeque::new(),
        }
    }

    /// Ends the lease of the target, so that others can use it.
    pub fn free_target(&mut self) {
        self.lease = None;
    }

    /// Leases the target if it is not leased, and returns its description.
    ///
    /// # Errors
    /// If the target cannot be reached or leased.
    pub fn open_target(&mut self) -> Result<DeviceInfo, ClientError> {
        Ok(self.lease()?.info().clone())
    }

    fn lease(&mut self) -> Result<&mut Lease, ClientError> {
        if self.lease.is_none() {
            self.lease = Some(self.targets.open(&self.target)?);
        }
        self.lease
            .as_mut()
            .ok_or_else(|| ClientError::Refused("the target has no lease".to_owned()))
    }

    /// Executes a leased run with the files in `material`.
    pub fn execute(&mut self, leased: &LeasedRun, material: &RunMaterial, progress: &Progress) -> Attempt {
        let WorkItem::Replay(work) = &leased.run.work;
        let mut result = RunResult::unstarted(leased, &self.target, &self.worker);
        let stopped = self.replay(work, material, &mut result, progress);
        result.ended_ms = unix_ms();
        match stopped {
            Ok(()) => Attempt::Done(Box::new(result)),
            // Each step reports a cancellation in its own way.
            Err(Stop::Refused(_)) if progress.check().is_err() => {
                self.lease = None;
                Attempt::Cancelled
            }
            Err(Stop::Refused(why)) => {
                // The device may be in any state, and a lost connection is of no use.
                self.lease = None;
                result.failure = Some(why);
                Attempt::Done(Box::new(result))
            }
            Err(Stop::Lost(why)) => {
                self.lease = None;
                Attempt::Lost(why)
            }
            Err(Stop::NotStarted(why)) => {
                self.lease = None;
                Attempt::NotStarted(why)
            }
            Err(Stop::Cancelled) => {
                self.lease = None;
                Attempt::Cancelled
            }
        }
    }

    /// Returns an open recording. Its bytes must be those that were queued.
    fn open(&mut self, work: &ReplayWork, path: &Path, progress: &Progress) -> Result<Recording, Stop> {
        let digest = &work.recording.digest;
        if let Some((_, recording)) = self.opened.iter().find(|(known, _)| known == digest) {
            return Ok(recording.clone());
        }
        check_digest(path, digest, progress)?;
        let opened = source::open(path, progress, || ()).map_err(|e| Stop::Refused(e.to_string()))?;
        let recording = opened.opened.recording;
        if recording.find_damage(progress).is_err() {
            return Err(Stop::Cancelled);
        }
        if recording.damage.first().is_some() {
            let message = format!(
                "{}: the recording is damaged; `kinescope verify` shows where",
                path.display()
            );
            return Err(Stop::Refused(message));
        }
        if wasm_recording::is_wasm_run(&recording) {
            let message = format!(
                "{}: a run of a WebAssembly program has no plan; `kinescope replay` runs it again",
                path.display()
            );
            return Err(Stop::Refused(message));
        }
        if self.opened.len() >= MAX_OPEN_RECORDINGS {
            self.opened.pop_front();
        }
        self.opened.push_back((digest.clone(), recording.clone()));
        Ok(recording)
    }

    fn replay(
        &mut self,
        work: &ReplayWork,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop> {
        let recording = self.open(work, &material.recording, progress)?;
        let edits = read_inputs(&recording, &work.inputs, material, progress)?;
        let request = ReplayRequest {
            target: self.target.clone(),
            edits,
            budgets: limit_time(work.time_limit_s),
            tolerance: parse_rules(&work.tolerance)?,
            accepts_no_containment: work.without_containment,
            ..ReplayRequest::default()
        };
        let targets = self.targets.clone();
        let keep = work.keep_outcomes;
        let lease = match self.lease() {
            Err(e) if is_temporary(&e) => return Err(Stop::NotStarted(e.to_string())),
            opened => opened?,
        };
        let device = lease.info().clone();
        result.gpu.clone_from(&device.gpu_name);
        let mut prepared = request.compile(&recording, &targets, &device, progress)?;
        result.compile_ns = prepared.plan_ns;
        result.memory_bytes = count_memory(&prepared.compiled, &recording);
        let outcome = request.run(&mut prepared, lease, progress)?;
        let report = request.report(&recording, &prepared, outcome);
        let is_match = report.is_success();
        let outcome = &report.outcome;
        result.verdict = match outcome.verdict {
            Verdict::Match if is_match => RunVerdict::Match,
            Verdict::Match | Verdict::Diverged => RunVerdict::Diverged,
            Verdict::Failed => RunVerdict::Failed,
        };
        result.computed = outcome.computed;
        result.divergence = find_first_divergence(outcome);
        result.failure.clone_from(&outcome.failure);
        result.compile_ns = outcome.timing.plan_ns;
        result.upload_ns = outcome.timing.push_ns;
        result.run_ns = outcome.timing.run_times().p50_ns;
        result.device_ns = outcome.device_ns;
        result.pushed_bytes = outcome.pushed_bytes;
        result.fingerprint = blake3::Hash::from_bytes(outcome.fingerprint).to_hex().to_string();
        if keep.keeps(is_match) && !outcome.recording.is_empty() {
            let name = format!("{}-{}.kine", result.run, result.attempt);
            let folder = &self.outcomes;
            let written = std::fs::create_dir_all(folder)
                .map_err(|e| format!("{}: {e}", folder.display()))
                .and_then(|()| output::write(&folder.join(&name), &outcome.recording).map_err(|e| e.to_string()));
            // A full disk must not cost the result.
            match written {
                Ok(()) => result.outcome = Some(PathBuf::from("outcomes").join(name)),
                Err(e) => {
                    let before = result.failure.take().map_or_else(String::new, |f| f + "; ");
                    result.failure = Some(format!("{before}the outcome was not kept: {e}"));
                }
            }
        }
        Ok(())
    }
}

/// Checks that a file still has the content that was queued.
fn check_digest(path: &Path, expected: &str, progress: &Progress) -> Result<(), Stop> {
    let found = digest_path(path, progress).map_err(|e| match e {
        crate::file_digest::DigestError::Cancelled(_) => Stop::Cancelled,
        e => Stop::Refused(e.to_string()),
    })?;
    if found != expected {
        return Err(Stop::Refused(format!(
            "{}: the file changed after the campaign was queued; start a new campaign",
            path.display()
        )));
    }
    Ok(())
}

fn parse_rules(rules: &[String]) -> Result<ComparisonRules, Stop> {
    let mut parsed = ComparisonRules::default();
    for text in rules {
        let (name, rule) = parse_output_rule(text).map_err(Stop::Refused)?;
        match name {
            Some(name) => {
                parsed.rules.insert(name, rule);
            }
            None => parsed.rule = Some(rule),
        }
    }
    Ok(parsed)
}

fn read_inputs(
    recording: &Recording,
    inputs: &BTreeMap<String, InputFile>,
    material: &RunMaterial,
    progress: &Progress,
) -> Result<Edits, Stop> {
    let mut edits = Edits::default();
    if inputs.is_empty() {
        return Ok(edits);
    }
    let has_copies = recording.api().is_some() || recording.driver_trace().is_some();
    let copied = if has_copies {
        transfers::buffers(recording)
    } else {
        Vec::new()
    };
    for (name, input) in inputs {
        let Some(path) = material.inputs.get(name) else {
            return Err(Stop::Refused(format!("the input `{name}` is missing")));
        };
        check_digest(path, &input.digest, progress)?;
        let buffer = recording
            .buffer(name)
            .or_else(|| copied.iter().find(|b| b.name == *name));
        let Some(buffer) = buffer else {
            return Err(Stop::Refused(format!("the recording has no buffer `{name}`")));
        };
        let contents = buffers::read_contents(path, buffer).map_err(|e| Stop::Refused(e.to_string()))?;
        edits.inputs.insert(name.clone(), contents.bytes);
    }
    Ok(edits)
}

/// Returns the memory of the target that a plan uses, bytes.
fn count_memory(compiled: &replay_engine::plan::Compiled, recording: &Recording) -> u64 {
    let footprint = PlanFootprint::for_plan(&compiled.plan, recording);
    match (footprint.memory, footprint.calls) {
        (Some((start, end)), _) => end.get().saturating_sub(start.get()),
        (None, Some(calls)) => calls.mapped,
        (None, None) => (compiled.plan.images.len() as u64).saturating_mul(trace_core::PAGE_SIZE as u64),
    }
}

/// Returns the first difference of an outcome that has an event: a value, a fault or an effect.
fn find_first_divergence(outcome: &Outcome) -> Option<FirstDivergence> {
    let values = outcome.divergences.iter().map(|d| FirstDivergence {
        event: d.event,
        text: format!(
            "{}: expected {:#x}, got {:#x} ({})",
            d.register, d.expected, d.got, d.class
        ),
    });
    let faults = outcome.faults.iter().map(|f| FirstDivergence {
        event: f.event,
        text: f.summary.clone(),
    });
    let effects = outcome.effects().iter().filter(|e| e.matched == Some(false));
    let effects = effects.filter_map(|e| {
        Some(FirstDivergence {
            event: e.event?,
            text: format!("{}: expected {}, got {}", e.kind, e.expected, e.got),
        })
    });
    let mut first = values.chain(faults).chain(effects).min_by_key(|d| d.event)?;
    first.text = first.text.chars().take(400).collect();
    Some(first)
}
