//! A leased device: push a plan, run it, fetch the outcome.

use super::error::{ClientError, Stage};
use super::session::Connection;
use crate::device::{Containment, DeviceInfo};
use crate::memory_trace::{MemoryTraceReport, MemoryTraceRequest};
use crate::plan::{Compiled, PageSource as _};
use crate::run::{ArtifactsHeader, Outcome, ReceivedArtifacts};
use crate::serve::{MAX_BODY, Server};
use crate::target::{ApiSupport, TargetRequest, TracedMemory, check_access_request};
use crate::tune::{TuneReport, TuneRequest};
use crate::verify::{self, MAX_STEPS, Reason, Refusal, Verified, Work};
use crate::wire::delta::Outline;
use crate::wire::message::{
    IndexRange, LeaseReply, LeaseRequest, PagesReply, PagesRequest, PlanPart, RunReply, RunRequest,
};
use crate::wire::{BULK, Limits, Topic};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_core::PAGE_SIZE;
use trace_core::encode::{MAX_RECORD, to_bytes};
use trace_core::progress::Progress;
use trace_core::recording::{Digest, Page};

/// Interval at which a run checks for cancellation.
const TICK: Duration = Duration::from_millis(50);
/// Maximum size of a recording or an output from an agent, bytes.
const MAX_BULK: u64 = 4 << 30;
/// Units of a replay's progress.
const TOTAL: u64 = 1_000_000;
/// Progress values at which the upload and the run end.
const UPLOADED: u64 = 200_000;
const RAN: u64 = 950_000;

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
    info: DeviceInfo,
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

/// Advances a [`Progress`] on a scale of [`TOTAL`].
struct Meter<'a> {
    progress: &'a Progress,
    at: u64,
}

impl Meter<'_> {
    /// Moves to a position on the scale. Returns `false` if the user cancelled.
    fn to(&mut self, place: u64) -> bool {
        let by = place.min(TOTAL).saturating_sub(self.at);
        self.at += by;
        self.progress.advance(by).is_ok()
    }

    fn part(&mut self, from: u64, to: u64, done: u64, of: u64) -> bool {
        let part = u128::from(to - from) * u128::from(done.min(of)) / u128::from(of.max(1));
        self.to(from + part as u64)
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

/// Returns the indices in some ranges.
fn indices(runs: &[IndexRange]) -> impl Iterator<Item = usize> + '_ {
    runs.iter()
        .flat_map(|(first, n)| (0..*n as usize).map(move |i| *first as usize + i))
}

impl Lease {
    pub(super) fn new(connection: Connection, info: DeviceInfo) -> Self {
        Self {
            connection,
            info,
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

    fn replay_checked(
        &mut self,
        compiled: &Compiled,
        repeat: u32,
        progress: &Progress,
        check: ClientCheck,
    ) -> Result<Outcome, ClientError> {
        let repeat = repeat.max(1);
        let (answer, push_ns) = self.request(compiled, TargetRequest::Replay { repeat }, progress, check)?;
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
        uploaded?;
        let push_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.enter(Phase::Running);
        let done = self.run(request, &mut meter)?;
        self.enter(Phase::Downloading);
        let answer = match done {
            FinishedRun::Replayed { outcome, left, bulk } => {
                Answer::Replayed(self.download(outcome, left, &bulk, compiled, &mut meter)?)
            }
            FinishedRun::Tuned(tuned) => Answer::Tuned(tuned),
            FinishedRun::TracedMemory { report, bytes } => {
                if bytes > MAX_BULK {
                    return Err(self
                        .connection
                        .protocol_error(Stage::Download, "a memory trace of an invalid size"));
                }
                let mut download = Download::new(bytes);
                let trace = download.fetch(&self.connection, bytes, &mut meter)?;
                meter.to(TOTAL);
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
                    verify::verify_within(plan, &compiled.pages, &self.info, &work)?;
                }
                check_access_request(request, &self.info.name)
            }
        }
    }

    /// Offers the plan and sends the parts that the agent lacks.
    fn upload(&mut self, compiled: &Compiled, meter: &mut Meter<'_>) -> Result<(), ClientError> {
        let stage = Stage::Upload;
        let body = compiled.plan.body.bytes();
        // The client builds the recording of the outcome. The agent needs no information about the plan's source.
        let head = compiled
            .plan
            .head_record()
            .map_err(|e| ClientError::TooLarge(e.to_string()))?;
        let (head_bytes, body_bytes) = (head.len() as u64, body.len() as u64);
        if head_bytes > MAX_RECORD as u64 || body_bytes > MAX_BODY {
            return Err(ClientError::TooLarge(format!("{head_bytes} + {body_bytes} bytes")));
        }
        let wanted: Vec<Digest> = compiled.plan.digests().into_iter().collect();
        if let Some(server) = self.beside.as_ref().filter(|_| self.info.takes_api_traces()) {
            server.keep_pages(&wanted, &compiled.pages);
        }
        let part = |bytes: &[u8]| PlanPart {
            bytes: bytes.len() as u64,
            digest: *blake3::hash(bytes).as_bytes(),
        };
        let offer = PagesRequest::Offer {
            head: part(&head),
            body: part(body),
        };
        self.connection.send(stage, Topic::Pages, &offer)?;
        loop {
            match self.reply(meter)? {
                PagesReply::LackParts {
                    head: lack_head,
                    body: lack_body,
                } => {
                    let lacking = [(lack_head, head.as_slice()), (lack_body, &**body)];
                    self.pushed.plan_bytes = self.send_parts(&lacking, meter, (0, UPLOADED / 10))?;
                }
                PagesReply::LackPages(runs) => {
                    let image = |i: usize| {
                        let Some(digest) = wanted.get(i) else { return Ok(None) };
                        let missing = || ClientError::PageMissing {
                            digest: blake3::Hash::from_bytes(*digest).to_hex().to_string(),
                        };
                        compiled.pages.page(digest).map(|p| Some(*p)).ok_or_else(missing)
                    };
                    let sent = self.send_runs(&runs, wanted.len(), image, meter, (UPLOADED / 10, UPLOADED))?;
                    self.sent_pages = indices(&runs).filter_map(|i| wanted.get(i).copied()).collect();
                    self.pushed.pages = sent;
                    self.pushed.pages_known = (wanted.len() as u64).saturating_sub(sent);
                }
                PagesReply::Ready(_) => {
                    return if meter.to(UPLOADED) {
                        Ok(())
                    } else {
                        Err(ClientError::Cancelled)
                    };
                }
                PagesReply::Refused(refusal) => return Err(ClientError::AgentRefusedPlan(refusal)),
                PagesReply::Unacceptable(why) => return Err(ClientError::Refused(why)),
                PagesReply::GivenUp => {
                    return Err(self
                        .connection
                        .protocol_error(stage, "it drops an offer that was not withdrawn"));
                }
            }
        }
    }

    /// Returns the agent's reply to the offer. If the user cancels meanwhile, the offer is withdrawn and the lease
    /// stays valid. Messages that the agent sent before it received the cancellation are skipped.
    fn reply(&self, meter: &Meter<'_>) -> Result<PagesReply, ClientError> {
        let stage = Stage::Upload;
        let mut given_up = false;
        loop {
            if !given_up && meter.progress.check().is_err() {
                given_up = true;
                self.connection.send(stage, Topic::Pages, &PagesRequest::GiveUp)?;
            }
            let Some(frame) = self.connection.frame(stage, TICK)? else {
                continue;
            };
            match self.connection.decode(stage, Topic::Pages, &frame)? {
                PagesReply::GivenUp if given_up => return Err(ClientError::Cancelled),
                _ if given_up => {}
                reply => return Ok(reply),
            }
        }
    }

    /// Sends the parts of the plan that the agent lacks: which of its parts to keep, and the new ones.
    fn send_parts(
        &self,
        lacking: &[(Option<Outline>, &[u8]); 2],
        meter: &mut Meter<'_>,
        (from, to): (u64, u64),
    ) -> Result<u64, ClientError> {
        let stage = Stage::Upload;
        if lacking.iter().all(|(l, _)| l.is_none()) {
            return Ok(0);
        }
        let mut new = Vec::new();
        let mut steps = Vec::new();
        for (outline, bytes) in lacking {
            let Some(outline) = outline else {
                steps.push(Vec::new());
                continue;
            };
            if !outline.is_valid() {
                return Err(self
                    .connection
                    .protocol_error(stage, "it announces pieces of an invalid size"));
            }
            let (s, n) = outline.steps_to(bytes);
            steps.push(s);
            new.push(n.concat());
        }
        let mut steps = steps.into_iter();
        let parts = PagesRequest::Parts {
            head: steps.next().unwrap_or_default(),
            body: steps.next().unwrap_or_default(),
        };
        self.connection.send(stage, Topic::Pages, &parts)?;
        let total: usize = new.iter().map(Vec::len).sum();
        let mut done = 0;
        for frame in new.iter().flat_map(|n| n.chunks(BULK)) {
            done += frame.len();
            if !meter.part(from, to, done as u64, total as u64) {
                self.connection.send_bulk(stage, &[])?;
                return Err(ClientError::Cancelled);
            }
            self.connection.send_bulk(stage, frame)?;
        }
        Ok(total as u64)
    }

    /// Sends images by index as bulk. If the user cancels or an image is missing, an empty frame marks the end, and the
    /// lease stays valid.
    fn send_runs(
        &self,
        runs: &[IndexRange],
        count: usize,
        image: impl Fn(usize) -> Result<Option<Page>, ClientError>,
        meter: &mut Meter<'_>,
        (from, to): (u64, u64),
    ) -> Result<u64, ClientError> {
        let stage = Stage::Upload;
        let sound = |(first, n): &IndexRange| {
            (*first as usize)
                .checked_add(*n as usize)
                .is_some_and(|end| end <= count)
        };
        let total: u64 = runs.iter().map(|r| u64::from(r.1)).sum();
        if total > count as u64 || !runs.iter().all(sound) {
            return Err(self
                .connection
                .protocol_error(stage, "it asks for pieces that were not offered"));
        }
        let mut frame = Vec::with_capacity(BULK.min(total as usize * PAGE_SIZE));
        let mut done = 0;
        for i in indices(runs) {
            match image(i) {
                Ok(Some(page)) => frame.extend_from_slice(&page),
                Ok(None) => {
                    return Err(self
                        .connection
                        .protocol_error(stage, "it asks for a piece that was not offered"));
                }
                Err(e) => {
                    self.connection.send_bulk(stage, &[])?;
                    return Err(e);
                }
            }
            done += 1;
            if frame.len() == BULK || done == total {
                if !meter.part(from, to, done, total) {
                    self.connection.send_bulk(stage, &[])?;
                    return Err(ClientError::Cancelled);
                }
                self.connection.send_bulk(stage, &frame)?;
                frame.clear();
            }
        }
        Ok(total)
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
                    meter.part(UPLOADED, RAN, u64::from(millionths), 1_000_000);
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
            };
        }
    }

    /// Fetches the bulk data of an outcome, checks the digests of the outputs, and builds the recording.
    fn download(
        &self,
        mut outcome: Box<Outcome>,
        left: Option<Box<ArtifactsHeader>>,
        lengths: &[u64],
        compiled: &Compiled,
        meter: &mut Meter<'_>,
    ) -> Result<Box<Outcome>, ClientError> {
        let broken = |what: String| self.connection.protocol_error(Stage::Download, what);
        let total = lengths.iter().try_fold(0u64, |sum, n| sum.checked_add(*n));
        let (Some(total), [events, images, screen, outputs @ ..]) = (total, lengths) else {
            return Err(broken("an outcome of an invalid size".to_owned()));
        };
        if total > MAX_BULK || outputs.len() != outcome.outputs.len() {
            return Err(broken("an outcome of an invalid size".to_owned()));
        }
        let mut download = Download::new(total);
        let mut fetch = |length: u64| download.fetch(&self.connection, length, meter);
        let (events, images, screen) = (fetch(*events)?, fetch(*images)?, fetch(*screen)?);
        for (output, length) in outcome.outputs.iter_mut().zip(outputs) {
            let data = fetch(*length)?;
            if *blake3::hash(&data).as_bytes() != output.blake3 {
                return Err(broken(format!("output `{}` does not have its digest", output.name)));
            }
            output.data = data;
        }
        let (plan, pages) = (&compiled.plan, &compiled.pages);
        if let (Some(left), Some(plan)) = (left, plan.planned_accesses()) {
            let arrived = ReceivedArtifacts::new(*left, events, &images, screen).map_err(|e| broken(e.to_string()))?;
            arrived.complete(&mut outcome, plan, pages, &self.info);
        }
        if let (Some(calls), Some(api), false) = (plan.planned_calls(), &self.api, self.unrecorded) {
            let recording = api.build_recording(&outcome, calls, pages, &self.info);
            let written = recording.and_then(|r| trace_core::container::to_bytes(&r).map_err(|e| e.to_string()));
            match written {
                Ok(bytes) => outcome.recording = bytes,
                Err(e) => {
                    outcome.failure.get_or_insert(e);
                }
            }
        }
        meter.to(TOTAL);
        Ok(outcome)
    }
}

/// The bulk data that an agent announced.
struct Download {
    total: u64,
    done: u64,
}

impl Download {
    fn new(total: u64) -> Self {
        Self { total, done: 0 }
    }

    /// Fetches the next `length` bytes.
    fn fetch(&mut self, connection: &Connection, length: u64, meter: &mut Meter<'_>) -> Result<Vec<u8>, ClientError> {
        let stage = Stage::Download;
        // The buffer grows with the received data, because the announced length is not trusted.
        let mut part = Vec::new();
        while (part.len() as u64) < length {
            let Some(frame) = connection.frame(stage, Duration::from_secs(60))? else {
                continue;
            };
            let fits = part.len() as u64 + frame.payload.len() as u64 <= length;
            if frame.concern != Topic::Bulk || frame.payload.is_empty() || !fits {
                return Err(connection.protocol_error(stage, "a bulk frame of the announced length was expected"));
            }
            part.extend_from_slice(&frame.payload);
            self.done += frame.payload.len() as u64;
            meter.part(RAN, TOTAL, self.done, self.total);
        }
        Ok(part)
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
    Tuned(Box<TuneReport>),
    TracedMemory(TracedMemory),
}
