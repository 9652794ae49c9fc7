//! The request for a replay: edits, options and expectations; its plan for a device, its run, and the report.

use crate::plan_file::{self, FileError};
use crate::plans;
use crate::targets::Targets;
use kinescope_files::workspace::How;
use replay_cuda::{ApiOptions, ComparisonRules, compare_outputs};
use replay_engine::client::fitting::RecordedDevice;
use replay_engine::client::{ClientError, Lease, ReplayEnd, Stage};
use replay_engine::compile;
use replay_engine::device::DeviceInfo;
use replay_engine::lease_options::LeaseOptions;
use replay_engine::plan::{
    Budgets, CompileError, CompileOptions, Compiled, Edits, Effect, EffectResult, Expectation, Pace,
};
use replay_engine::run::learn::{self, LearnError};
use replay_engine::run::{AccessOutcome, ApiOutcome, Outcome, OutcomeBody, Verdict};
use replay_engine::verify::{MAX_STEPS, Refusal, Verified, Work, find_reset_need};
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, MmuFormat};
use trace_core::screen::Picture;
use trace_core::{Recording, RegOffset};

/// Allowed time limits of a run, seconds.
pub const TIME_LIMITS_S: RangeInclusive<u64> = 1..=3600;

/// Why a file is not replayed as a plan.
const NO_PLAN: &str = "not a plan: neither a text that begins with `kinescope plan`, nor a binary plan; choose a file that Save plan wrote";
/// Why a request does not fit a plan.
const FIXED_PLAN: &str = "a plan is replayed unchanged; undo edits of inputs, and remove allowed registers and the \
                          expected screen, or remove the plan file";

/// Returns the limits of a run with a time limit in seconds; `None`: the default one.
#[must_use]
pub fn limit_time(seconds: Option<u64>) -> Budgets {
    let default = Budgets::default();
    Budgets {
        time_ns: seconds.map_or(default.time_ns, |s| s.saturating_mul(1_000_000_000)),
        ..default
    }
}

/// Everything that a replay of a recording or of an existing plan is given, besides its target.
#[derive(Clone, Debug, Default)]
pub struct ReplayRequest {
    /// Name of the target.
    pub target: String,
    /// The user's changes to the recording.
    pub edits: Edits,
    /// Names of the buffers to return. If empty, the outputs of the recording.
    pub outputs: Vec<String>,
    /// Expected contents of outputs at the end, which are returned too.
    pub expected: Vec<ExpectedOutput>,
    /// Expected picture of the screen at the end; `None` for the recorded one.
    pub expected_screen: Option<ExpectedScreen>,
    /// Treatment of recorded idle time.
    pub pace: Pace,
    /// Format of the page tables in a plan of a Mali GPU; `None` for the recorded one.
    pub table_format: Option<MmuFormat>,
    /// Limits of a run.
    pub budgets: Budgets,
    /// Priority of the lease on an agent, and whether another client may preempt it.
    pub lease_options: LeaseOptions,
    /// Options of API traces.
    pub api_options: How,
    /// Unknown registers that the user allows, as byte offsets.
    pub allowed: Vec<Range<RegOffset>>,
    /// Tolerances of the outputs of an API trace.
    pub tolerance: ComparisonRules,
    /// Number of runs; 0 counts as 1.
    pub repeat: u32,
    /// Whether the user accepts a target without containment.
    pub accepts_no_containment: bool,
    /// Whether the reset before the plan is left out if nothing in the plan depends on it: the target had another plan
    /// under the same lease.
    pub leaves_out_reset: bool,
    /// Whether the outcome of an API trace is not needed as a recording.
    pub leaves_unrecorded: bool,
    /// Events after which a run learns the effects, in addition to the end; `None` to learn nothing.
    pub learn: Option<Vec<u64>>,
    /// Whether a run whose end was not observed is an outcome with a failure, not an error.
    pub keeps_lost_runs: bool,
    /// Whether only the agent checks the plan.
    pub bypass_check: bool,
    /// Whether the target may prepare for the replay while its plan is compiled: the replay follows.
    pub prepares_target: bool,
}

/// The expected content of an output at the end.
#[derive(Clone, Debug)]
pub struct ExpectedOutput {
    /// Name of the output.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Source of the content, for the user.
    pub source: String,
}

/// The expected picture of the screen at the end.
#[derive(Clone, Debug)]
pub struct ExpectedScreen {
    /// The picture.
    pub picture: Picture,
    /// Source of the picture, for the user.
    pub source: String,
}

/// Why an expected output does not fit its plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpectError {
    /// The plan does not return the output.
    #[error("the plan has no output '{0}'")]
    NoOutput(String),
    /// The content has another size than the output.
    #[error("{source_name}: {bytes} bytes for '{name}', which has {output_bytes}")]
    Size {
        /// Source of the content.
        source_name: String,
        /// Size of the content, bytes.
        bytes: u64,
        /// Name of the output.
        name: String,
        /// Size of the output, bytes.
        output_bytes: u64,
    },
    /// The output of an API trace has two contents.
    #[error("output '{0}' has two expected contents")]
    Twice(String),
}

/// Why a request has no plan or no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The target does not fit, refuses the plan, or was lost.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The recording cannot be compiled for the device.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// An expected output does not fit the plan.
    #[error(transparent)]
    Expect(#[from] ExpectError),
    /// The effects of a run cannot be learned.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// The effects of an API trace are to be learned.
    #[error("an API trace contains its outputs, and a replay is compared with them: nothing is learned")]
    LearnApiTrace,
    /// The buffers of a register trace are to be guarded.
    #[error("only an API trace of CUDA has buffers to guard, and this recording is no such trace")]
    GuardRegisterTrace,
    /// The buffers of an API trace cannot be found.
    #[error("no buffers to guard: {0}")]
    Guard(String),
    /// A file of the user cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A plan file cannot be replayed here.
    #[error("{}: {reason}", path.display())]
    PlanFile {
        /// The file.
        path: PathBuf,
        /// Reason, in words.
        reason: &'static str,
    },
}

/// A plan for a device, ready to run.
pub struct PreparedReplay {
    /// The plan and its pages.
    pub compiled: Compiled,
    /// The device that the plan was built for.
    pub device: DeviceInfo,
    /// Result of [`Self::verify`]; `None` before it. A plan that was not verified is verified when it runs.
    pub verified: Option<Result<Verified, Refusal>>,
    /// Tolerances and expected contents of the outputs of an API trace.
    pub rules: ComparisonRules,
    /// Nanoseconds that compiling and verifying took.
    pub plan_ns: u64,
    /// Whether the target was reset before the last run.
    pub reset: ResetUse,
}

/// Whether a target was reset before a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResetUse {
    /// It was, as before every run.
    #[default]
    Usual,
    /// It was not: nothing in the plan depends on it.
    LeftOut,
    /// It was, although it was to be left out, for this reason.
    Needed(String),
}

impl PreparedReplay {
    /// Verifies the plan for its device, and stores and returns the result. Cancelling refuses the plan as given up.
    ///
    /// # Errors
    /// The first rule that the plan breaks.
    pub fn verify(&mut self, progress: &Progress) -> Result<&Verified, &Refusal> {
        let start = Instant::now();
        let result = plans::verify(&self.compiled, &self.device, &Work::new(MAX_STEPS, progress));
        self.plan_ns = self.plan_ns.saturating_add(elapsed_ns(start));
        self.verified.insert(result).as_ref()
    }
}

fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl ReplayRequest {
    /// Compiles a recording for a device. Sends nothing to the device, unless [`Self::prepares_target`].
    ///
    /// # Errors
    /// If the recording was made on another device or cannot be compiled, or an expected output does not fit.
    pub fn compile(
        &self,
        recording: &Recording,
        targets: &Targets,
        device: &DeviceInfo,
        progress: &Progress,
    ) -> Result<PreparedReplay, RequestError> {
        targets.check_fit(recording, &self.target, device)?;
        let start = Instant::now();
        let outputs = self.output_names(recording);
        let api_options = ApiOptions {
            outputs: outputs.clone(),
            budgets: self.budgets,
            graph: self.api_options.graph,
            no_restore: self.api_options.no_restore,
            step: self.api_options.step,
            memory: self.api_options.memory,
            rebuild: self.api_options.rebuild,
            held: false,
        };
        let options = self.compile_options(outputs);
        let preparation = targets.preparation(&self.target).filter(|_| self.prepares_target);
        let compiled = plans::compile(
            recording,
            &self.edits,
            device,
            &options,
            &api_options,
            preparation,
            progress,
        )?;
        self.finish_plan(compiled, device, start)
    }

    /// Compiles a recording of register accesses like [`Self::compile`]. Returns with the plan, for each data frame of the
    /// plan's memory, its frame in the recording.
    ///
    /// # Errors
    /// The same as [`Self::compile`].
    pub fn compile_placed(
        &self,
        recording: &Recording,
        targets: &Targets,
        device: &DeviceInfo,
        progress: &Progress,
    ) -> Result<(PreparedReplay, HashMap<u64, u64>), RequestError> {
        targets.check_fit(recording, &self.target, device)?;
        let start = Instant::now();
        let options = self.compile_options(self.output_names(recording));
        let placed = compile::compile_placed(recording, &self.edits, device, &options, progress)?;
        Ok((self.finish_plan(placed.compiled, device, start)?, placed.frames))
    }

    fn compile_options(&self, outputs: Vec<String>) -> CompileOptions {
        let screen = self.expected_screen.as_ref();
        CompileOptions {
            pace: self.pace,
            outputs,
            budgets: self.budgets,
            allow_unknown: self.allowed.clone(),
            table_format: self.table_format,
            expect_screen: screen.map(|s| s.picture.clone()),
            screen_source: screen.map_or_else(String::new, |s| s.source.clone()),
        }
    }

    /// Relocates an existing plan into the memory of a device.
    ///
    /// # Errors
    /// If the plan does not fit the device, or an expected output does not fit the plan.
    pub fn relocate(&self, plan: &Compiled, device: &DeviceInfo) -> Result<PreparedReplay, RequestError> {
        let start = Instant::now();
        self.finish_plan(plan.moved_to(device)?, device, start)
    }

    /// Relocates the plan in a file, as [`Self::relocate`] does, to compare its replay with a recording.
    ///
    /// # Errors
    /// If the file holds no plan for this kind of recording, or the request changes what a plan fixes: inputs, allowed
    /// registers, screen. Otherwise as [`Self::relocate`].
    pub fn relocate_file(
        &self,
        path: &Path,
        recording: &Recording,
        device: &DeviceInfo,
    ) -> Result<PreparedReplay, RequestError> {
        let refused = |reason| RequestError::PlanFile {
            path: path.to_owned(),
            reason,
        };
        let plan = plan_file::read(path)?.ok_or_else(|| refused(NO_PLAN))?;
        if !self.edits.inputs.is_empty() || !self.allowed.is_empty() || self.expected_screen.is_some() {
            return Err(refused(FIXED_PLAN));
        }
        let is_for_recording = match plan.plan.channel() {
            Some(_) => RecordedDevice::new(recording).fits_channels(),
            None => plan.plan.api().is_some() == recording.api().is_some(),
        };
        if !is_for_recording {
            return Err(refused("the plan is for another kind of recording than the open one"));
        }
        self.relocate(&plan, device)
    }

    fn finish_plan(
        &self,
        compiled: Compiled,
        device: &DeviceInfo,
        start: Instant,
    ) -> Result<PreparedReplay, RequestError> {
        let mut prepared = PreparedReplay {
            compiled,
            device: device.clone(),
            verified: None,
            rules: self.tolerance.clone(),
            plan_ns: 0,
            reset: ResetUse::default(),
        };
        for expected in &self.expected {
            expect_output(&mut prepared, expected)?;
        }
        prepared.plan_ns = elapsed_ns(start);
        Ok(prepared)
    }

    /// Returns the names of the buffers to return: the requested ones, and those that a register trace itself calls
    /// outputs. Empty if none is requested.
    fn output_names(&self, recording: &Recording) -> Vec<String> {
        let expected = self.expected.iter().map(|e| &e.name);
        let requested: Vec<&String> = self.outputs.iter().chain(expected).collect();
        let mut names: Vec<String> = Vec::new();
        if !requested.is_empty() && recording.api().is_none() {
            let all = recording.metadata.buffers.iter();
            names.extend(all.filter(|b| b.role == BufferRole::Output).map(|b| b.name.clone()));
        }
        for name in requested {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Tells the target what the user accepts and needs. [`Self::run`] does this itself.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn set_up(&self, lease: &mut Lease) -> Result<(), ClientError> {
        if self.accepts_no_containment {
            lease.accept_no_containment()?;
        }
        if self.leaves_unrecorded {
            lease.leave_unrecorded();
        }
        Ok(())
    }

    /// Runs a plan on its target. Learning adds the learned effects to the plan, which then runs twice.
    ///
    /// # Errors
    /// If the plan is refused, the target fails or is lost, the user cancels, or the effects cannot be learned. A
    /// replay that diverges is not an error.
    pub fn run(
        &self,
        prepared: &mut PreparedReplay,
        lease: &mut Lease,
        progress: &Progress,
    ) -> Result<Outcome, RequestError> {
        self.set_up(lease)?;
        let Some(events) = &self.learn else {
            return Ok(self.run_once(prepared, lease, progress)?);
        };
        if prepared.compiled.plan.accesses().is_none() {
            return Err(RequestError::LearnApiTrace);
        }
        prepared.verified = None;
        let effects = learn::request_effects(&mut prepared.compiled, events)?;
        let good = self.run_once(prepared, lease, progress)?;
        let source = format!("a run on {} that was good", self.target);
        effects.learn(&mut prepared.compiled, &good, &source)?;
        let outcome = self.run_once(prepared, lease, progress)?;
        effects.check_repeat(&outcome)?;
        Ok(outcome)
    }

    fn run_once(
        &self,
        prepared: &mut PreparedReplay,
        lease: &mut Lease,
        progress: &Progress,
    ) -> Result<Outcome, ClientError> {
        if self.leaves_out_reset
            && let Some(outcome) = self.run_without_reset(prepared, lease, progress)?
        {
            return Ok(outcome);
        }
        let compiled = &prepared.compiled;
        let ended = match &prepared.verified {
            Some(Ok(verified)) => lease.replay_verified(compiled, verified, self.repeat, progress),
            Some(Err(refusal)) => Err(ClientError::PlanRefused(refusal.clone())),
            None => lease.replay(compiled, self.repeat, progress, self.bypass_check),
        };
        ended.or_else(|e| self.keep_lost_run(prepared, e))
    }

    /// Runs a plan without a reset before it. Returns `None` if the reset is needed.
    fn run_without_reset(
        &self,
        prepared: &mut PreparedReplay,
        lease: &mut Lease,
        progress: &Progress,
    ) -> Result<Option<Outcome>, ClientError> {
        if let Some(why) = find_reset_need(&prepared.compiled.plan) {
            prepared.reset = ResetUse::Needed(why);
            return Ok(None);
        }
        let proof = match &prepared.verified {
            Some(Err(refusal)) => return Err(ClientError::PlanRefused(refusal.clone())),
            Some(Ok(proof)) => Some(proof),
            None => None,
        };
        let ended = lease.replay_without_reset(&prepared.compiled, proof, progress);
        let outcome = ended.or_else(|e| self.keep_lost_run(prepared, e).map(Some))?;
        prepared.reset = match outcome {
            Some(_) => ResetUse::LeftOut,
            None => ResetUse::Needed("the agent does not run a plan on this device without one".to_owned()),
        };
        Ok(outcome)
    }

    /// Runs a plan of register accesses once. If the lease is preempted, the run ends after one of the events in `stops`,
    /// after which no job runs; they are ascending.
    ///
    /// # Errors
    /// Like [`Self::run`].
    pub fn run_with_stops(
        &self,
        prepared: &PreparedReplay,
        lease: &mut Lease,
        stops: Vec<u32>,
        progress: &Progress,
    ) -> Result<ReplayEnd, RequestError> {
        self.set_up(lease)?;
        let proof = match &prepared.verified {
            Some(Err(refusal)) => return Err(ClientError::PlanRefused(refusal.clone()).into()),
            Some(Ok(proof)) => Some(proof),
            None => None,
        };
        let ended = lease.replay_with_stops(&prepared.compiled, proof, stops, progress);
        Ok(ended.or_else(|e| {
            self.keep_lost_run(prepared, e)
                .map(|lost| ReplayEnd::Complete(Box::new(lost)))
        })?)
    }

    /// Returns the outcome of a run whose end was not observed, if the request keeps it.
    fn keep_lost_run(&self, prepared: &PreparedReplay, e: ClientError) -> Result<Outcome, ClientError> {
        if !self.keeps_lost_runs || !is_lost_run(&e) {
            return Err(e);
        }
        let body = match prepared.compiled.plan.accesses() {
            Some(_) => OutcomeBody::Accesses(AccessOutcome::default()),
            None => OutcomeBody::Api(ApiOutcome::default()),
        };
        Ok(Outcome {
            failure: Some(e.to_string()),
            ..Outcome::unfinished(prepared.device.name.clone(), body)
        })
    }

    /// Compares the outputs of an API trace with the recorded or expected ones, and returns the report.
    #[must_use]
    pub fn report(&self, recording: &Recording, prepared: &PreparedReplay, mut outcome: Outcome) -> ReplayReport {
        if recording.api().is_some() || !prepared.rules.expected.is_empty() {
            compare_outputs(&mut outcome, recording, &prepared.rules);
        }
        outcome.timing.plan_ns = outcome.timing.plan_ns.saturating_add(prepared.plan_ns);
        ReplayReport {
            outcome,
            expects_screen: self.expected_screen.is_some(),
        }
    }
}

/// Returns whether a run started, and its end was not observed: the device failed, or the connection was lost.
#[must_use]
pub fn is_lost_run(e: &ClientError) -> bool {
    let stage = match e {
        ClientError::Device(_) => return true,
        ClientError::Forgotten { stage } | ClientError::Lost { stage, .. } | ClientError::Protocol { stage, .. } => {
            stage
        }
        _ => return false,
    };
    matches!(stage, Stage::Run | Stage::Download)
}

/// Adds an expected output to the plan of a register trace, or to the rules of an API trace, whose outputs the client
/// compares.
fn expect_output(prepared: &mut PreparedReplay, expected: &ExpectedOutput) -> Result<(), ExpectError> {
    let plan = &mut prepared.compiled.plan;
    let output = plan.outputs.iter().find(|o| o.name == expected.name);
    let output = output.ok_or_else(|| ExpectError::NoOutput(expected.name.clone()))?;
    let bytes = expected.bytes.len() as u64;
    if output.bytes != bytes {
        return Err(ExpectError::Size {
            source_name: expected.source.clone(),
            bytes,
            name: expected.name.clone(),
            output_bytes: output.bytes,
        });
    }
    let Some(accesses) = plan.accesses_mut() else {
        let contents = &mut prepared.rules.expected;
        return match contents.insert(expected.name.clone(), expected.bytes.clone()) {
            Some(_) => Err(ExpectError::Twice(expected.name.clone())),
            None => Ok(()),
        };
    };
    accesses.expectations.push(Expectation {
        effect: Effect::Output {
            name: expected.name.clone(),
            digest: *blake3::hash(&expected.bytes).as_bytes(),
        },
        source: expected.source.clone(),
    });
    Ok(())
}

/// The result of a replay, compared with its recording.
pub struct ReplayReport {
    /// The outcome.
    pub outcome: Outcome,
    expects_screen: bool,
}

impl ReplayReport {
    /// Creates the report of a replay that expects no picture of the user.
    #[must_use]
    pub fn without_screen(outcome: Outcome) -> Self {
        Self {
            outcome,
            expects_screen: false,
        }
    }

    /// Whether everything was as expected. A user's expected screen that could not be checked is not a success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let unseen = |e: &EffectResult| e.kind == "screen" && e.matched.is_none();
        let unseen = self.expects_screen && self.outcome.effects().iter().any(unseen);
        self.outcome.verdict == Verdict::Match && !unseen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::DEFAULT_SIMULATOR;
    use crate::targets;
    use replay_engine::verify::Reason;

    fn open_sample() -> (Recording, Lease) {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample-traces/vecadd.kine");
        let recording = trace_core::container::open(sample.as_ref()).unwrap();
        (recording, targets::factories().open(DEFAULT_SIMULATOR).unwrap())
    }

    #[test]
    fn verified_plan_runs_and_refused_plan_does_not() {
        let (recording, mut lease) = open_sample();
        let (request, progress) = (ReplayRequest::default(), Progress::new());
        let device = lease.info().clone();
        let prepared = request.compile(&recording, &Targets::new(None), &device, &progress);
        let mut prepared = prepared.unwrap();
        prepared.verify(&progress).unwrap();
        let outcome = request.run(&mut prepared, &mut lease, &Progress::new()).unwrap();
        assert!(request.report(&recording, &prepared, outcome).is_success());
        prepared.verified = Some(Err(Refusal {
            rule: 0,
            place: "envelope".to_owned(),
            reason: Reason::OtherArena,
        }));
        let refused = request.run(&mut prepared, &mut lease, &Progress::new());
        assert!(matches!(
            refused,
            Err(RequestError::Client(ClientError::PlanRefused(_)))
        ));
    }

    #[test]
    fn expected_output_must_be_one_of_the_plan() {
        let (recording, lease) = open_sample();
        let request = ReplayRequest::default();
        let prepared = request.compile(&recording, &Targets::new(None), lease.info(), &Progress::new());
        let plan = prepared.unwrap().compiled;
        let request = ReplayRequest {
            expected: vec![ExpectedOutput {
                name: "no such output".to_owned(),
                bytes: Vec::new(),
                source: "a file".to_owned(),
            }],
            ..request
        };
        assert!(matches!(
            request.relocate(&plan, lease.info()),
            Err(RequestError::Expect(ExpectError::NoOutput(_)))
        ));
    }

    #[test]
    fn a_run_is_lost_only_after_it_started() {
        let lost = |stage| {
            is_lost_run(&ClientError::Lost {
                stage,
                reason: String::new(),
            })
        };
        assert!(lost(Stage::Run) && lost(Stage::Download) && !lost(Stage::Upload));
    }
}
