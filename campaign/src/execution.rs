//! The execution of one run on one target, through the same plans, leases and outcomes as the verbs.

mod bisect;
mod fuzz;
mod material;
mod pipeline;
mod replay;
mod stop;
mod tuning;
mod wasm;

pub use material::RunMaterial;
pub(crate) use tuning::parse_options;

use crate::file_signature::FileSignature;
use crate::queue::StartAnswer;
use crate::run::LeasedRun;
use crate::run_result::{RunResult, RunVerdict, unix_ms};
use crate::work::{InputFile, RecordingFile, WorkItem};
use kinescope_files::{buffers, output};
use kinescope_session::source;
use kinescope_session::targets::Targets;
use kinescope_session::transfers;
use kinescope_session::wasm_program::WasmTarget;
use replay_engine::client::{ClientError, Lease};
use replay_engine::device::DeviceInfo;
use replay_engine::lease_options::LeaseOptions;
use replay_engine::plan::Edits;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use stop::Stop;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::Buffer;

/// Number of recordings that stay open: neighbours in the matrix are the same recording on several targets.
const MAX_OPEN_RECORDINGS: usize = 2;

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
    /// The run did not execute, because its queue withdrew it.
    Withdrawn,
}

/// Returns whether a target that cannot be opened may be there later: its agent does not answer, another client has it, or
/// what answers is no agent, as one that is killed before its first byte.
#[must_use]
pub fn is_temporary(e: &ClientError) -> bool {
    matches!(
        e,
        ClientError::Unreachable { .. }
            | ClientError::NotAnAgent { .. }
            | ClientError::Busy { .. }
            | ClientError::Lost { .. }
            | ClientError::Protocol { .. }
            | ClientError::OutOfOrder { .. }
            | ClientError::Refused(_)
    )
}

/// A kind of work that can be executed.
trait Execute {
    /// Whether the execution calls [`Executor::begin`] itself, after it prepared the run. Otherwise it is called before.
    fn begins_itself(&self) -> bool {
        false
    }

    /// Executes the work and fills in the result. Without an error, there is one.
    fn execute(
        &self,
        executor: &mut Executor,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop>;
}

/// Returns the execution of a work item. The only place that lists the kinds.
fn as_execute(work: &WorkItem) -> &dyn Execute {
    match work {
        WorkItem::Replay(work) => work,
        WorkItem::Pipeline(work) => work,
        WorkItem::Tuning(work) => work,
        WorkItem::Wasm(work) => work,
        WorkItem::Fuzz(work) => work,
        WorkItem::Bisect(work) => work,
    }
}

/// The lease between two runs: a campaign does not keep a device from an urgent replay.
const BETWEEN_RUNS: LeaseOptions = LeaseOptions {
    priority: 0,
    is_preemptible: true,
};

/// Executes runs on one target, one at a time. It keeps the target leased between runs, until [`Executor::free_target`] or
/// until a request of higher priority preempts the lease.
pub struct Executor {
    target: String,
    worker: String,
    targets: Targets,
    outcomes: PathBuf,
    lease: Option<Lease>,
    /// The options that the lease was requested with. Targets in this process have none.
    lease_options: LeaseOptions,
    /// Whether a run accepted that the leased target has no containment. The agent keeps that until the lease ends.
    has_consent: bool,
    /// Recordings that stay open, by digest, with the file that each was opened from.
    opened: VecDeque<(String, FileSignature, Recording)>,
    /// Where the answer comes that allows the present run to begin.
    pending_start: Option<Receiver<StartAnswer>>,
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
            lease_options: LeaseOptions::default(),
            has_consent: false,
            opened: VecDeque::new(),
            pending_start: None,
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
        Ok(self.lease(BETWEEN_RUNS)?.info().clone())
    }

    /// Checks that the target is there, and leases it if it has a device, whose description this returns. Targets that only
    /// run WebAssembly programs have none.
    ///
    /// # Errors
    /// If the target cannot be reached or leased.
    pub fn reach_target(&mut self) -> Result<Option<DeviceInfo>, ClientError> {
        match WasmTarget::parse(&self.target) {
            Ok(WasmTarget::Cpu | WasmTarget::Interpreter) => Ok(None),
            Ok(target) if !target.has_device() => self.targets.connect(&self.target).map(|_| None),
            _ => Ok(Some(self.lease(BETWEEN_RUNS)?.info().clone())),
        }
    }

    fn lease(&mut self, options: LeaseOptions) -> Result<&mut Lease, ClientError> {
        if self.lease_options != options {
            self.lease = None;
        }
        if self.lease.is_none() {
            let lease = self.targets.open_with(&self.target, options, &Progress::new())?;
            self.lease = Some(lease);
            self.lease_options = options;
        }
        self.lease
            .as_mut()
            .ok_or_else(|| ClientError::Refused("the target has no lease".to_owned()))
    }

    /// Returns the lease of the target for a run that nobody preempts.
    fn lease_for_run(&mut self) -> Result<&mut Lease, Stop> {
        self.lease_with(LeaseOptions::default())
    }

    /// Returns the lease of the target for a run of one replay. A request of higher priority gets the device before or after
    /// it.
    fn lease_for_replay(&mut self) -> Result<&mut Lease, Stop> {
        self.lease_with(BETWEEN_RUNS)
    }

    fn lease_with(&mut self, options: LeaseOptions) -> Result<&mut Lease, Stop> {
        self.lease(options).map_err(Stop::from_open)
    }

    /// Executes a leased run with the files in `material`. Nothing begins on the target before the answer of
    /// `pending_start`, which the lease is updated with.
    pub fn execute(
        &mut self,
        leased: &mut LeasedRun,
        material: &RunMaterial,
        pending_start: Option<Receiver<StartAnswer>>,
        progress: &Progress,
    ) -> Attempt {
        let mut result = RunResult::unstarted(leased, &self.target, &self.worker);
        self.pending_start = pending_start;
        let mut stopped = self.execute_work(&leased.run.work, material, &mut result, progress);
        // A run that ended before it began has a result only if it is still the queue's.
        if let Err(stop) = self.begin(&mut result) {
            stopped = Err(stop);
        }
        leased.attempt = result.attempt;
        leased.earlier_attempts.clone_from(&result.earlier_attempts);
        result.ended_ms = unix_ms();
        let Err(stop) = stopped else {
            return Attempt::Done(Box::new(result));
        };
        if !matches!(stop, Stop::Withdrawn) {
            // The device may be in any state, and a lost connection is of no use.
            self.lease = None;
        }
        end_without_outcome(stop, result, progress)
    }

    fn execute_work(
        &mut self,
        work: &WorkItem,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop> {
        let accepts = work.accepts_no_containment();
        if self.has_consent && !accepts {
            // The consent of an earlier run is not that of this one.
            self.lease = None;
        }
        self.has_consent = accepts;
        let work = as_execute(work);
        if !work.begins_itself() {
            self.begin(result)?;
        }
        work.execute(self, material, result, progress)
    }

    /// Waits for the answer that allows the present run to begin. Later calls do nothing.
    fn begin(&mut self, result: &mut RunResult) -> Result<(), Stop> {
        let Some(pending) = self.pending_start.take() else {
            return Ok(());
        };
        match pending.recv() {
            Ok(StartAnswer::Started {
                attempt,
                earlier_attempts,
            }) => {
                result.attempt = attempt;
                result.earlier_attempts = earlier_attempts;
                Ok(())
            }
            // Without a sender nobody notes the attempt.
            Ok(StartAnswer::Withdrawn) | Err(_) => Err(Stop::Withdrawn),
        }
    }

    /// Returns an open recording. Its bytes must be those that were queued.
    fn open(&mut self, file: &RecordingFile, material: &RunMaterial, progress: &Progress) -> Result<Recording, Stop> {
        let digest = &file.digest;
        let signature = material.find(&file.path).map(FileSignature::read).unwrap_or_default();
        // The memory of an open recording is that of its file. If that changed, the recording is another one.
        self.opened
            .retain(|(known, opened, _)| known != digest || *opened == signature);
        if let Some((_, _, recording)) = self.opened.iter().find(|(known, ..)| known == digest) {
            return Ok(recording.clone());
        }
        let path = material.checked(&file.path, digest, progress)?;
        let opened = source::open(path, progress, || ()).map_err(|e| Stop::Refused(e.to_string()))?;
        let recording = opened.opened.recording;
        recording.find_damage(progress)?;
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
        self.opened.push_back((digest.clone(), signature, recording.clone()));
        Ok(recording)
    }

    /// Changes the folder of kept files.
    pub(crate) fn keep_outcomes_in(&mut self, folder: PathBuf) {
        self.outcomes = folder;
    }

    /// Writes a kept file, and returns its path in the campaign's folder. `name` follows the run's id and attempt.
    fn keep_file(&self, result: &RunResult, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let name = format!("{}-{}{name}", result.run, result.attempt);
        let folder = &self.outcomes;
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        output::write(&folder.join(&name), bytes).map_err(|e| e.to_string())?;
        Ok(PathBuf::from("outcomes").join(name))
    }

    /// Keeps an outcome, the bytes of a recording. A full disk must not cost the result: the failure says so.
    fn keep_outcome(&self, result: &mut RunResult, name: &str, recording: &[u8]) {
        match self.keep_file(result, name, recording) {
            Ok(path) => result.outcome = Some(path),
            Err(e) => {
                let before = result.failure.take().map_or_else(String::new, |f| f + "; ");
                result.failure = Some(format!("{before}the outcome was not kept: {e}"));
            }
        }
    }
}

/// Returns what became of an attempt that has no outcome.
fn end_without_outcome(stop: Stop, mut result: RunResult, progress: &Progress) -> Attempt {
    match stop {
        // Each step reports a cancellation in its own way.
        Stop::Refused(_) | Stop::Failed(_) if progress.check().is_err() => Attempt::Cancelled,
        Stop::Refused(why) => {
            result.failure = Some(why);
            Attempt::Done(Box::new(result))
        }
        Stop::Failed(why) => {
            result.verdict = RunVerdict::Failed;
            result.failure = Some(why);
            Attempt::Done(Box::new(result))
        }
        Stop::Lost(why) => Attempt::Lost(why),
        Stop::NotStarted(why) => Attempt::NotStarted(why),
        Stop::Cancelled => Attempt::Cancelled,
        Stop::Withdrawn => Attempt::Withdrawn,
    }
}

/// Returns the buffers of a recording that a replay can replace.
fn list_buffers(recording: &Recording) -> Vec<Buffer> {
    let mut all = recording.metadata.buffers.clone();
    if recording.api().is_some() || recording.driver_trace().is_some() {
        all.extend(transfers::buffers(recording));
    }
    all
}

/// Reads new contents of buffers.
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
    let known = list_buffers(recording);
    for (name, input) in inputs {
        let path = material.checked(&input.path, &input.digest, progress)?;
        let Some(buffer) = known.iter().find(|b| b.name == *name) else {
            return Err(Stop::Refused(format!("the recording has no buffer `{name}`")));
        };
        let contents = buffers::read_contents(path, buffer).map_err(|e| Stop::Refused(e.to_string()))?;
        edits.inputs.insert(name.clone(), contents.bytes);
    }
    Ok(edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use crate::work::ReplayWork;

    #[test]
    fn a_device_that_fails_is_a_failed_run_and_a_refusal_a_refused_one() {
        let work = WorkItem::Replay(ReplayWork {
            recording: RecordingFile {
                path: "r.kine".into(),
                name: "r.kine".to_owned(),
                digest: "00".repeat(32),
            },
            inputs: BTreeMap::new(),
            tolerance: Vec::new(),
            time_limit_s: None,
            without_containment: false,
            keep_outcomes: Default::default(),
        });
        let leased = LeasedRun {
            run: Run::new(work, "software:mali-g71", 0),
            queued_ms: 0,
            attempt: 1,
            earlier_attempts: Vec::new(),
            token: 1,
        };
        let end = |stop: Stop, progress: &Progress| {
            let result = RunResult::unstarted(&leased, "software:mali-g71", "w");
            end_without_outcome(stop, result, progress)
        };
        let failed = || Stop::from(ClientError::Device("it hung".to_owned()));
        let verdict = |attempt: Attempt| match attempt {
            Attempt::Done(result) => (result.verdict, result.failure.unwrap()),
            other => panic!("{other:?}"),
        };
        let progress = Progress::new();
        let (failure, text) = verdict(end(failed(), &progress));
        assert_eq!(failure, RunVerdict::Failed);
        assert!(text.contains("it hung"), "{text}");
        let refused = Stop::Refused("rule 3".to_owned());
        assert_eq!(
            verdict(end(refused, &progress)),
            (RunVerdict::Refused, "rule 3".to_owned())
        );
        progress.cancel();
        assert!(matches!(end(failed(), &progress), Attempt::Cancelled));
    }
}
