//! Replays of an open document, on a thread of their own: the request with the edited buffers, and its result.

use super::error::{ReplayError, ReplayErrorKind};
use super::guard::GuardedSummary;
use super::request::{PreparedReplay, ReplayRequest, RequestError};
use super::{expected, guard};
use crate::output_diff::{OutputDiff, compare, compare_with_expected};
use crate::plan_footprint::PlanFootprint;
use crate::targets::Targets;
use crate::transfers;
use kinescope_files::contents::BufferContents;
use replay_engine::client::{ClientError, Lease, Phase};
use replay_engine::device::{Containment, DeviceInfo};
use replay_engine::plan::Edits;
use replay_engine::run::Outcome;
use replay_engine::verify::Reason;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use trace_core::api_trace::ApiTrace;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// A replay request of a document, with copies of what another thread needs.
pub struct ReplayTask {
    /// The request; its edits are those of `edited`.
    pub request: ReplayRequest,
    /// The recording.
    pub recording: Arc<Recording>,
    /// The buffers that the user edited.
    pub edited: Vec<BufferContents>,
    /// The targets of the window.
    pub targets: Targets,
    /// Whether the user confirmed that the target may be hardware.
    pub is_hardware: bool,
    /// Revision of the changes.
    pub revision: u64,
    /// The current phase, in words.
    pub phase: Arc<Mutex<String>>,
    /// Files with the expected contents of outputs, each with the name of its output.
    pub expected_outputs: Vec<(String, PathBuf)>,
    /// File with the expected picture of the screen.
    pub expected_screen: Option<PathBuf>,
    /// File with the plan to replay, instead of a plan compiled from the recording.
    pub plan_file: Option<PathBuf>,
    /// The calls of the recording whose buffers are guarded; `None` for a replay without guards.
    pub guarded_calls: Option<Arc<ApiTrace>>,
}

/// A verified plan, with what the window shows about it.
pub struct PlannedReplay {
    /// The plan.
    pub prepared: PreparedReplay,
    /// Footprint of the plan.
    pub footprint: PlanFootprint,
    /// Revision of the changes that the plan was built from.
    pub revision: u64,
}

/// The result of a replay.
pub struct ReplayResult {
    /// The plan, which exists even if the replay failed.
    pub planned: PlannedReplay,
    /// What the replay found, or why it failed.
    pub end: Result<ReplayEnd, ReplayError>,
}

/// What a replay found.
pub enum ReplayEnd {
    /// The outcome of a replay that was compared with its recording.
    Compared {
        /// The outcome.
        outcome: Arc<Outcome>,
        /// Comparison of its outputs.
        outputs: Vec<OutputDiff>,
        /// Whether everything was as expected, including a picture that the user expects.
        is_success: bool,
    },
    /// The summary of guarded replays.
    Guarded(Arc<GuardedSummary>),
}

/// Returns the plan edits for the user's inputs.
#[must_use]
pub fn build_edits(edited: &[BufferContents]) -> Edits {
    let inputs = edited.iter().map(|c| (c.buffer().name.clone(), c.read_all()));
    Edits {
        inputs: inputs.collect(),
        ..Edits::default()
    }
}

fn say(phase: &Mutex<String>, text: &str) {
    if let Ok(mut p) = phase.lock() {
        text.clone_into(&mut p);
    }
}

impl ReplayTask {
    fn say(&self, text: &str) {
        say(&self.phase, text);
    }

    fn lease(&self) -> Result<Lease, ReplayError> {
        self.say("opening the target");
        Ok(self.targets.open(&self.request.target)?)
    }

    /// Builds and verifies the plan. Sends nothing to the target.
    ///
    /// # Errors
    /// Returns an error if the target cannot be leased, or the recording cannot be compiled for it.
    pub fn prepare(mut self, progress: &Progress) -> Result<PlannedReplay, ReplayError> {
        let lease = self.lease()?;
        self.plan(lease.info(), progress)
    }

    /// Builds a plan, uploads it and runs it.
    ///
    /// # Errors
    /// Returns an error if there is no target or no plan. Later errors are in [`ReplayResult`]; a replay that diverges
    /// is not an error.
    pub fn run(mut self, progress: &Progress) -> Result<ReplayResult, ReplayError> {
        let mut lease = self.lease()?;
        let device = lease.info().clone();
        self.request.prepares_target = self.unconfirmed(&device).is_none();
        let planned = self.plan(&device, progress);
        let mut planned = planned.inspect_err(|_| self.discard_preparations())?;
        let end = match self.unconfirmed(&device) {
            // The plan and the device information stay, so that the question can show both.
            Some(text) => Err(ReplayError::new(ReplayErrorKind::Unconfirmed, text)),
            None => self.run_plan(&mut lease, &mut planned.prepared, progress),
        };
        let end = end.inspect_err(|_| self.discard_preparations());
        Ok(ReplayResult { planned, end })
    }

    /// Takes back what the target prepared: no replay follows.
    fn discard_preparations(&self) {
        if let Some(preparation) = self.targets.preparation(&self.request.target) {
            preparation.discard();
        }
    }

    fn plan(&mut self, device: &DeviceInfo, progress: &Progress) -> Result<PlannedReplay, ReplayError> {
        self.targets.start_early(&self.request.target);
        self.say("compiling the plan");
        let mut prepared = self.prepare_request(device, progress)?;
        // An unchecked plan goes to the agent, which checks it in any case.
        if !self.request.bypass_check {
            self.say("checking the plan");
            verify(&mut prepared, progress)?;
        }
        Ok(PlannedReplay {
            footprint: PlanFootprint::for_plan(&prepared.compiled.plan, &self.recording),
            prepared,
            revision: self.revision,
        })
    }

    /// Reads the user's files and compiles the recording, or relocates the plan of the plan file.
    fn prepare_request(&mut self, device: &DeviceInfo, progress: &Progress) -> Result<PreparedReplay, RequestError> {
        self.request.edits = build_edits(&self.edited);
        self.request.expected = expected::read_outputs(&self.expected_outputs)?;
        let screen = self.expected_screen.as_deref();
        self.request.expected_screen = screen.map(expected::read_screen).transpose()?;
        match &self.plan_file {
            Some(path) => self.request.relocate_file(path, &self.recording, device),
            None => self.request.compile(&self.recording, &self.targets, device, progress),
        }
    }

    /// Returns why the user must confirm again: the target changed since the request was made.
    fn unconfirmed(&self, device: &DeviceInfo) -> Option<String> {
        let what = match device.containment {
            Containment::None if !self.request.accepts_no_containment => "not contained now",
            Containment::Software => return None,
            _ if !self.is_hardware => "hardware now",
            _ => return None,
        };
        Some(format!(
            "{} is {what} ({}); nothing was changed. Replay again to confirm.",
            self.request.target, device.description
        ))
    }

    fn run_plan(
        &self,
        lease: &mut Lease,
        prepared: &mut PreparedReplay,
        progress: &Progress,
    ) -> Result<ReplayEnd, ReplayError> {
        let phase = Arc::clone(&self.phase);
        lease.on_phase(move |p: Phase| say(&phase, p.name()));
        if let Some(calls) = &self.guarded_calls {
            let trace = (&*self.recording, &**calls);
            let summary = guard::run(&self.request, trace, prepared, lease, progress)?;
            return Ok(ReplayEnd::Guarded(Arc::new(summary)));
        }
        let outcome = self.request.run(prepared, lease, progress)?;
        self.say("comparing outputs");
        let report = self.request.report(&self.recording, prepared, outcome);
        let is_success = report.is_success();
        let mut outcome = report.outcome;
        let mut outputs = if outcome.api().is_some() {
            transfers::compare_outputs(&self.recording, &mut outcome.outputs)
        } else {
            let all = outcome.outputs.iter();
            all.filter_map(|o| compare(&self.recording, o)).collect()
        };
        for expected in &self.request.expected {
            let Some(output) = outcome.outputs.iter().find(|o| o.name == expected.name) else {
                continue;
            };
            outputs.retain(|diff| diff.name != expected.name);
            outputs.push(compare_with_expected(output, &expected.bytes, &expected.source));
        }
        Ok(ReplayEnd::Compared {
            outcome: Arc::new(outcome),
            outputs,
            is_success,
        })
    }
}

/// Verifies a plan, whose result it keeps; cancelling is an error.
fn verify(prepared: &mut PreparedReplay, progress: &Progress) -> Result<(), ReplayError> {
    match prepared.verify(progress) {
        Err(refusal) if refusal.reason == Reason::GivenUp => Err(ClientError::Cancelled.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::DEFAULT_SIMULATOR;
    use crate::targets;

    #[test]
    fn the_check_before_the_push_can_be_cancelled() {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample-traces/vecadd.kine");
        let recording = trace_core::container::open(sample.as_ref()).unwrap();
        let device = targets::factories().open(DEFAULT_SIMULATOR).unwrap().info().clone();
        let request = ReplayRequest::default();
        let mut prepared = request
            .compile(&recording, &Targets::new(None), &device, &Progress::new())
            .unwrap();
        verify(&mut prepared, &Progress::new()).unwrap();
        assert!(prepared.verified.as_ref().is_some_and(Result::is_ok));
        let stopped = Progress::new();
        stopped.cancel();
        let error = verify(&mut prepared, &stopped).unwrap_err();
        assert_eq!(error.kind, ReplayErrorKind::Stopped);
    }
}
