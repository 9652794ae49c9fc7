//! A leased device: push a plan, run it, fetch the outcome.

mod download;
mod meter;
mod requester;
mod upload;

use self::download::Download;
use self::meter::{Meter, RAN, TOTAL, UPLOADED};
use self::requester::GrantedLease;
pub(super) use self::requester::LeaseRequester;
use super::connection::Connection;
use super::error::{ClientError, Stage};
use crate::device::{Containment, DeviceInfo};
use crate::lease_options::{PREEMPTION_VERSION, Preemption};
use crate::memory_trace::{MemoryTraceReport, MemoryTraceRequest};
use crate::plan::Compiled;
use crate::run::{ArtifactsHeader, Outcome};
use crate::serve::Server;
use crate::target::{ApiSupport, TargetRequest, TracedMemory, WITHOUT_RESET_VERSION, check_replay_request};
use crate::tune::{TuneReport, TuneRequest};
use crate::verify::{self, MAX_STEPS, Reason, Refusal, Verified, Work};
use crate::wire::message::{LeaseReply, LeaseRequest, RunReply, RunRequest};
use crate::wire::{Limits, Topic};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_core::encode::to_bytes;
use trace_core::progress::Progress;
use trace_core::recording::Digest;

/// Interval at which a run checks for cancellation.
const TICK: Duration = Duration::from_millis(50);
/// Maximum size of a recording or an output from an agent, bytes.
const MAX_BULK: u64 = 4 << 30;

/// The phase of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connecting to the agent. Only the code that opens the target is in this phase; a replay never reports it.
    Connecting,
    /// Checking the plan in the client.
    Checking,
    /// Sending the pages and parts that the agent lacks.
    Uploading,
    /// The device is running the plan.
    Running,
    /// Fetching the outcome.
    Downloading,
}

impl Phase {
    /// Returns the phase in one or two words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Checking => "checking the plan",
            Self::Uploading => "uploading",
            Self::Running => "running",
            Self::Downloading => "downloading",
        }
    }
}

/// How a replay with stops ended.
#[derive(Debug)]
pub enum ReplayEnd {
    /// It is complete.
    Complete(Box<Outcome>),
    /// It ended after a stop, because the lease is preempted. The outcome is that of the run up to there.
    Stopped {
        /// The stop, an event of the recording.
        event: u32,
        /// The outcome.
        outcome: Box<Outcome>,
    },
    /// The lease was preempted before the run.
    NotStarted,
}

/// Statistics of a push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushStats {
    /// Page images sent.
    pub pages: u64,
    /// Page images that the agent already had.
    pub pages_known: u64,
    /// Bytes of the plan itself that were sent, without the parts that the agent already had.
    pub plan_bytes: u64,
    /// Bytes sent over the connection for this replay, including envelopes.
    pub bytes: u64,
}

/// An exclusive lease of a device. Dropping it releases the device.
pub struct Lease {
    connection: Connection,
    requester: LeaseRequester,
    info: DeviceInfo,
    preempted: Option<Preemption>,
    pushed: PushStats,
    sent_pages: Vec<Digest>,
    watch: Option<Box<dyn Fn(Phase) + Send>>,
    /// The server, if it is in this process. Then large plans bypass the connection.
    beside: Option<Server>,
    /// The API of the device's traces, if it takes API traces and this program knows it.
    api: Option<Arc<dyn ApiSupport>>,
    /// Whether the caller does not need the outcome of an API-trace replay as a recording.
    unrecorded: bool,
    /// Whether the agent knows that the user accepts a device without containment.
    uncontained: bool,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({})", self.info.name)
    }
}

/// What the client checks before it pushes a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientCheck {
    /// The plan and the request.
    Everything,
    /// The request: the plan is verified.
    Request,
    /// Nothing, so that the agent's refusal can be tested.
    Nothing,
}

impl Lease {
    pub(super) fn new(connection: Connection, requester: LeaseRequester, granted: GrantedLease) -> Self {
        Self {
            connection,
            requester,
            info: granted.info,
            preempted: granted.preempted,
            pushed: PushStats::default(),
            sent_pages: Vec::new(),
            watch: None,
            beside: None,
            api: None,
            unrecorded: false,
            uncontained: false,
        }
    }

    /// Returns the device description.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns the lease of another client that ended for this one.
    #[must_use]
    pub fn preempted(&self) -> Option<&Preemption> {
        self.preempted.as_ref()
    }

    /// Takes the device again after the lease was preempted. Waits while other clients hold it.
    ///
    /// # Errors
    /// If the connection is lost, the device is out of order or not the same any more, or the wait is cancelled.
    pub fn retake(&mut self, progress: &Progress) -> Result<(), ClientError> {
        let device = self.info.name.clone();
        let granted = self.requester.take_again(&self.connection, &device, progress)?;
        self.uncontained = false;
        if granted.info != self.info {
            return Err(ClientError::OutOfOrder {
                device,
                reason: "it is not the device any more that was leased before".to_owned(),
            });
        }
        Ok(())
    }

    /// Returns the statistics of the last push.
    #[must_use]
    pub fn push_stats(&self) -> PushStats {
        self.pushed
    }

    /// Returns the digests of the page images that the last replay sent: exactly those that the agent lacked.
    #[must_use]
    pub fn sent_pages(&self) -> &[Digest] {
        &self.sent_pages
    }

    /// Calls `watch` at each new phase of later replays, on the replaying thread.
    pub fn on_phase(&mut self, watch: impl Fn(Phase) + Send + 'static) {
        self.watch = Some(Box::new(watch));
    }

    /// Informs the agent that the user accepts runs on this device without containment ([`Containment::None`]). The
    /// agent runs nothing there otherwise. The acceptance is valid for this lease.
    ///
    /// # Errors
    /// If the connection is lost or the agent breaks the protocol.
    pub fn accept_no_containment(&mut self) -> Result<(), ClientError> {
        if self.info.containment != Containment::None || self.uncontained {
            return Ok(());
        }
        let stage = Stage::Lease;
        self.connection
            .send(stage, Topic::Lease, &LeaseRequest::WithoutContainment)?;
        loop {
            let Some(frame) = self.connection.frame(stage, Duration::from_secs(60))? else {
                continue;
            };
            match self.connection.decode(stage, Topic::Lease, &frame)? {
                LeaseReply::Accepted => break,
                _ => return Err(self.connection.protocol_error(stage, "it does not confirm the lease")),
            }
        }
        self.uncontained = true;
        Ok(())
    }

    fn enter(&self, phase: Phase) {
        if let Some(watch) = &self.watch {
            watch(phase);
        }
    }

    /// Returns the same lease, for a target whose server is in this process.
    pub(super) fn with_server(self, server: &Server) -> Self {
        Self {
            beside: Some(server.clone()),
            ..self
        }
    }

    /// Returns the same lease, with what API traces need.
    pub(super) fn with_api(self, api: Option<Arc<dyn ApiSupport>>) -> Self {
        Self { api, ..self }
    }

    /// Stops building recordings from the outcomes of later API-trace replays: [`Outcome::recording`] is then empty.
    /// Building one takes as long as a copy of the plan's contents.
    pub fn leave_unrecorded(&mut self) {
        self.unrecorded = true;
    }

    /// Checks the plan, pushes what the agent lacks, runs it `repeat` times (0 counts as 1) and fetches the outcome.
    /// `progress` should be a new one: it goes from 0 to 1 over all phases, and cancelling it stops the run. With
    /// `bypass_check` the client does not check the plan, so that the agent's refusal can be tested.
    ///
    /// # Errors
    /// If the plan is refused, the device fails, the connection is lost, or the user cancels. A replay that diverges or
    /// faults is not an error: its outcome reports it. After a lost connection or a broken protocol the lease is over,
    /// and every later replay fails at once.
    pub fn replay(
        &mut self,
        compiled: &Compiled,
        repeat: u32,
        progress: &Progress,
        bypass_check: bool,
    ) -> Result<Outcome, ClientError> {
        let check = match bypass_check {
            true => ClientCheck::Nothing,
            false => ClientCheck::Everything,
        };
        self.replay_checked(compiled, repeat, progress, check)
    }

    /// Replays like [`Self::replay`], without a second check of the plan. `_proof` is the result of its verification for
    /// this device.
    ///
    /// # Errors
    /// Like [`Self::replay`].
    pub fn replay_verified(
        &mut self,
        compiled: &Compiled,
        _proof: &Verified,
        repeat: u32,
        progress: &Progress,
    ) -> Result<Outcome, ClientError> {
        self.replay_checked(compiled, repeat, progress, ClientCheck::Request)
    }

    /// Replays a plan of register accesses once, like [`Self::replay`]. If the lease is preempted, the run ends after one of
    /// the events in `stops`, after which no job runs; they are ascending. `proof` is the result of the plan's verification
    /// for this device.
    ///
    /// # Errors
    /// Like [`Self::replay`]. That the lease is preempted is not an error.
    pub fn replay_with_stops(
        &mut self,
        compiled: &Compiled,
        proof: Option<&Verified>,
        stops: Vec<u32>,
        progress: &Progress,
    ) -> Result<ReplayEnd, ClientError> {
        let check = match proof {
            Some(_) => ClientCheck::Request,
            None => ClientCheck::Everything,
        };
        let request = match self.requester.version < PREEMPTION_VERSION {
            true => TargetRequest::Replay { repeat: 1 },
            false => TargetRequest::ReplayWithStops { stops },
        };
        let requested = self.request(compiled, request, progress, check);
        let (answer, push_ns) = match requested {
            Err(ClientError::Preempted { .. }) => return Ok(ReplayEnd::NotStarted),
            requested => requested?,
        };
        let (mut outcome, stopped_at) = match answer {
            Answer::Replayed(outcome) => (outcome, None),
            Answer::Stopped { event, outcome } => (outcome, Some(event)),
            _ => return Err(self.unexpected_answer()),
        };
        if progress.check().is_err() {
            return Err(ClientError::Cancelled);
        }
        outcome.timing.push_ns = push_ns;
        outcome.pushed_bytes = self.pushed.bytes;
        Ok(match stopped_at {
            Some(event) => ReplayEnd::Stopped { event, outcome },
            None => ReplayEnd::Complete(outcome),
        })
    }

    /// Replays a plan once without a reset of the device before it. Returns `None` if the agent is too old for that, or
    /// refuses it; nothing was run then.
    ///
    /// # Errors
    /// Like [`Self::replay`].
    pub fn replay_without_reset(
        &mut self,
        compiled: &Compiled,
        proof: Option<&Verified>,
        progress: &Progress,
    ) -> Result<Option<Outcome>, ClientError> {
        if self.requester.version < WITHOUT_RESET_VERSION {
            return Ok(None);
        }
        let check = match proof {
            Some(_) => ClientCheck::Request,
            None => ClientCheck::Everything,
        };
        let requested = self.request(compiled, TargetRequest::ReplayWithoutReset, progress, check);
        let (answer, push_ns) = match requested {
            Err(ClientError::AgentRefusedPlan(refusal)) if matches!(refusal.reason, Reason::ResetNeeded { .. }) => {
                return Ok(None);
            }
            requested => requested?,
        };
        self.finish_replay(answer, push_ns, progress).map(Some)
    }

    fn finish_replay(&self, answer: Answer, push_ns: u64, progress: &Progress) -> Result<Outcome, ClientError> {
        let Answer::Replayed(mut outcome) = answer else {
            return Err(self.unexpected_answer());
        };
        if progress.check().is_err() {
            return Err(ClientError::Cancelled);
        }
        outcome.timing.push_ns = push_ns;
        outcome.pushed_bytes = self.pushed.bytes;
        Ok(*outcome)
    }

    fn replay_checked(
        &mut self,
        compiled: &Compiled,
        repeat: u32,
        progress: &Progress,
        check: ClientCheck,
    ) -> Result<Outcome, ClientError> {
        let repeat = repeat.max(1);
        let (answer, push_ns) = self.request(compiled, TargetRequest::Replay { repeat }, progress, check)?;
        self.finish_replay(answer, push_ns, progress)
    }

    /// Tunes a launch of an API trace: checks and pushes the plan like [`Self::replay`]. A cancelled tuning returns the
    /// results up to that time.
    ///
    /// # Errors
    /// Like [`Self::replay`], and [`ClientError::NoResult`] if the tuning has no result.
    pub fn tune(
        &mut self,
        compiled: &Compiled,
        request: &TuneRequest,
        progress: &Progress,
    ) -> Result<TuneReport, ClientError> {
        let request = TargetRequest::Tune(Box::new(request.clone()));
        let (answer, _) = self.request(compiled, request, progress, ClientCheck::Everything)?;
        match answer {
            Answer::Tuned(tuned) if progress.check().is_ok() || !tuned.points.is_empty() => Ok(*tuned),
            Answer::Tuned(_) => Err(ClientError::Cancelled),
            _ => Err(self.unexpected_answer()),
        }
    }

    /// Traces memory of an API trace: checks and pushes the plan like [`Self::replay`].
    ///
    /// # Errors
    /// Like [`Self::replay`], and [`ClientError::NoResult`] if there is no trace.
    pub fn trace_memory(
        &mut self,
        compiled: &Compiled,
        request: &MemoryTraceRequest,
        progress: &Progress,
    ) -> Result<TracedMemory, ClientError> {
        let request = TargetRequest::TraceMemory(request.clone());
        let (answer, _) = self.request(compiled, request, progress, ClientCheck::Everything)?;
        match answer {
            Answer::TracedMemory(_) if progress.check().is_err() => Err(ClientError::Cancelled),
            Answer::TracedMemory(traced) => Ok(traced),
            _ => Err(self.unexpected_answer()),
        }
    }

    fn preempted_error(&self) -> ClientError {
        ClientError::Preempted {
            device: self.info.name.clone(),
        }
    }

    fn unexpected_answer(&self) -> ClientError {
        self.connection
            .protocol_error(Stage::Run, "it answers another request than the one that was sent")
    }

    /// Checks and pushes a plan, and sends a request for it. Returns the answer, and the time of the push in
    /// nanoseconds.
    fn request(
        &mut self,
        compiled: &Compiled,
        request: TargetRequest,
        progress: &Progress,
        check: ClientCheck,
    ) -> Result<(Answer, u64), ClientError> {
        progress.set_total(TOTAL);
        // The server of this process checks the same bytes by the same rules: once is enough.
        let check = match (check, &self.beside, compiled.plan.channel()) {
            (ClientCheck::Everything, Some(_), Some(_)) => ClientCheck::Request,
            (check, ..) => check,
        };
        let mut meter = Meter { progress, at: 0 };
        if check != ClientCheck::Nothing {
            if self.info.containment == Containment::None && !self.uncontained {
                return Err(ClientError::Uncontained {
                    device: self.info.name.clone(),
                });
            }
            self.enter(Phase::Checking);
            self.check(compiled, &request, progress, check)
                .map_err(|r| match r.reason {
                    Reason::GivenUp => ClientError::Cancelled,
                    _ => ClientError::PlanRefused(r),
                })?;
        }
        self.enter(Phase::Uploading);
        let begin = Instant::now();
        let before = self.connection.sender.sent();
        self.pushed = PushStats::default();
        self.sent_pages.clear();
        let uploaded = self.upload(compiled, &mut meter);
        self.pushed.bytes = self.connection.sender.sent().saturating_sub(before);
        uploaded.map_err(|e| match e {
            ClientError::AgentRefusedPlan(refusal) if check != ClientCheck::Nothing && self.beside.is_some() => {
                ClientError::PlanRefused(refusal)
            }
            e => e,
        })?;
        let push_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.enter(Phase::Running);
        let done = self.run(request, &mut meter)?;
        self.enter(Phase::Downloading);
        let answer = match done {
            FinishedRun::Replayed { outcome, left, bulk } => {
                Answer::Replayed(self.download(outcome, left, &bulk, compiled, &mut meter)?)
            }
            FinishedRun::Stopped {
                event,
                outcome,
                left,
                bulk,
            } => Answer::Stopped {
                event,
                outcome: self.download(outcome, left, &bulk, compiled, &mut meter)?,
            },
            FinishedRun::Tuned(tuned) => Answer::Tuned(tuned),
            FinishedRun::TracedMemory { report, bytes } => {
                if bytes > MAX_BULK {
                    return Err(self
                        .connection
                        .protocol_error(Stage::Download, "a memory trace of an invalid size"));
                }
                let mut download = Download::new(bytes);
                let trace = download.fetch(&self.connection, bytes, &mut meter)?;
                meter.move_to(TOTAL);
                Answer::TracedMemory(TracedMemory { report: *report, trace })
            }
        };
        Ok((answer, push_ns))
    }

    /// Checks a plan, unless it is verified, and the request for it.
    fn check(
        &self,
        compiled: &Compiled,
        request: &TargetRequest,
        progress: &Progress,
        check: ClientCheck,
    ) -> Result<(), Refusal> {
        let plan = &compiled.plan;
        let unverified = check == ClientCheck::Everything;
        match (plan.planned_calls(), &self.api) {
            (Some(calls), Some(api)) => {
                if unverified {
                    verify::verify_calls(&**api, calls, &self.info)?;
                }
                api.check_request(calls, request)
            }
            _ => {
                if unverified {
                    let work = Work::new(MAX_STEPS, progress);
                    verify::verify_compiled(compiled, &self.info, &work)?;
                }
                check_replay_request(request, &self.info)
            }
        }
    }

    /// Sends the request and waits for the end of the run.
    fn run(&self, request: TargetRequest, meter: &mut Meter<'_>) -> Result<FinishedRun, ClientError> {
        let stage = Stage::Run;
        let request = RunRequest::Start(request);
        let bytes = to_bytes(&request).map_or(usize::MAX, |record| record.len());
        if bytes > Limits::FromClient.max_bytes(Topic::Run) {
            return Err(ClientError::TooLarge(format!("a request of {bytes} bytes")));
        }
        self.connection.send(stage, Topic::Run, &request)?;
        let mut cancelled = false;
        loop {
            if !cancelled && meter.progress.check().is_err() {
                cancelled = true;
                self.connection.send(stage, Topic::Run, &RunRequest::Cancel)?;
            }
            let Some(frame) = self.connection.frame(stage, TICK)? else {
                continue;
            };
            return match self.connection.decode(stage, Topic::Run, &frame)? {
                RunReply::Progress(millionths) => {
                    meter.move_within(UPLOADED, RAN, u64::from(millionths), 1_000_000);
                    continue;
                }
                RunReply::Replayed { outcome, left, bulk } => Ok(FinishedRun::Replayed { outcome, left, bulk }),
                RunReply::Tuned(tuned) => Ok(FinishedRun::Tuned(tuned)),
                RunReply::TracedMemory { report, bytes } => Ok(FinishedRun::TracedMemory { report, bytes }),
                RunReply::Failed(why) => Err(ClientError::NoResult(why)),
                RunReply::Cancelled => Err(ClientError::Cancelled),
                RunReply::DeviceFailed(why) => Err(ClientError::Device(why)),
                RunReply::NotReady(why) => Err(ClientError::Refused(why)),
                RunReply::Refused(refusal) => Err(ClientError::AgentRefusedPlan(refusal)),
                RunReply::Uncontained { device } => Err(ClientError::Uncontained { device }),
                RunReply::Stopped {
                    event,
                    outcome,
                    left,
                    bulk,
                } => Ok(FinishedRun::Stopped {
                    event,
                    outcome,
                    left,
                    bulk,
                }),
                RunReply::Preempted => Err(self.preempted_error()),
            };
        }
    }
}

/// The agent's report about a finished run, before its bulk data.
enum FinishedRun {
    Replayed {
        outcome: Box<Outcome>,
        left: Option<Box<ArtifactsHeader>>,
        /// Lengths of the bulk data that follows.
        bulk: Vec<u64>,
    },
    Stopped {
        event: u32,
        outcome: Box<Outcome>,
        left: Option<Box<ArtifactsHeader>>,
        /// Lengths of the bulk data that follows.
        bulk: Vec<u64>,
    },
    Tuned(Box<TuneReport>),
    TracedMemory {
        report: Box<MemoryTraceReport>,
        /// Length of the trace that follows, bytes.
        bytes: u64,
    },
}

/// The complete answer to a request.
enum Answer {
    Replayed(Box<Outcome>),
    Stopped { event: u32, outcome: Box<Outcome> },
    Tuned(Box<TuneReport>),
    TracedMemory(TracedMemory),
}
