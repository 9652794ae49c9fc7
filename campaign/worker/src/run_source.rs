//! Runs from the broker, for the threads of a worker's targets: taken, executed once, and reported.

use crate::arrivals::Arrivals;
use crate::attempt_start::{AttemptStart, ERROR_PAUSE, RETURN_DELAY};
use crate::attempts::{self, StartedAttempt};
use crate::counters::Counters;
use crate::file_cache::{CachedFile, FileCache};
use crate::file_store::{FileError, FileStore};
use crate::held_list::HeldList;
use crate::held_message::HeldMessage;
use crate::reporting::{Reporter, campaign_folder};
use crate::selectors::SelectorList;
use crate::storage::{Storage, run_subject};
use crate::target_labels::labels_of;
use crate::target_queues::TargetQueues;
use crate::target_state::TargetState;
use kinescope_campaign::messages::{MessageError, RunMessage, safe_file_name};
use kinescope_campaign::{
    FinishedRun, Labels, LeasedRun, QueueError, RunId, RunResult, RunSource, StartAnswer, TargetSelector,
};
use replay_engine::device::DeviceInfo;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use trace_core::progress::Progress;

/// Interval at which a wait checks whether the worker was stopped.
const TICK: Duration = Duration::from_millis(50);

/// What a worker has in common with its targets.
pub struct WorkerParts {
    /// Runs the requests to the broker.
    pub runtime: Handle,
    /// Storage of the broker.
    pub storage: Storage,
    /// Files on this machine.
    pub cache: Arc<FileCache>,
    /// Folder of kept outcomes until they are sent.
    pub outcomes: PathBuf,
    /// The messages that this worker has.
    pub held: Arc<HeldList>,
    /// Name of the worker.
    pub worker: String,
    /// Time after which a run whose worker reports nothing is delivered again.
    pub lease: Duration,
    /// Labels of all targets.
    pub labels: Labels,
    /// Whether the user of this worker accepts targets without containment. A description alone cannot.
    pub accepts_no_containment: bool,
    /// Cancelled when the worker is stopped.
    pub stop: Progress,
    /// Counters.
    pub counters: Arc<Counters>,
}

/// A run that is executed.
struct ActiveRun {
    target: String,
    campaign: RunId,
    publication: u64,
    message: Arc<HeldMessage>,
    /// Where the answer comes that allows it to begin.
    pending: Option<Receiver<StartAnswer>>,
    /// Notes the attempt.
    start: JoinHandle<Option<StartedAttempt>>,
    /// Its files stay in the cache.
    files: Vec<CachedFile>,
}

/// The runs of the targets of a worker.
pub struct BrokerSource {
    parts: WorkerParts,
    files: FileStore,
    reporter: Arc<Reporter>,
    selectors: Arc<SelectorList>,
    targets: BTreeMap<String, Arc<TargetState>>,
    active: Mutex<HashMap<u64, ActiveRun>>,
    next_token: AtomicU64,
}

/// Why a message is not executed now.
enum Skip {
    /// It is done, or will be delivered again.
    Handled,
    /// The broker does not answer.
    Broker(QueueError),
}

impl From<QueueError> for Skip {
    fn from(e: QueueError) -> Self {
        Self::Broker(e)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BrokerSource {
    /// Creates the source of these targets.
    #[must_use]
    pub fn new(parts: WorkerParts, targets: &[String], selectors: Arc<SelectorList>) -> Self {
        let files = FileStore::new(parts.storage.files.clone());
        Self {
            reporter: Arc::new(Reporter::new(
                parts.storage.clone(),
                files.clone(),
                Arc::clone(&parts.counters),
                parts.outcomes.clone(),
                parts.stop.clone(),
            )),
            files,
            selectors,
            targets: targets
                .iter()
                .map(|name| {
                    let arrivals = Arrivals::new(Arc::clone(&parts.held), parts.lease);
                    (name.clone(), Arc::new(TargetState::new(arrivals)))
                })
                .collect(),
            active: Mutex::default(),
            next_token: AtomicU64::new(1),
            parts,
        }
    }

    /// Returns the labels of each target; `None` for one that was never open.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, Option<Labels>> {
        let targets = self.targets.iter();
        targets.map(|(name, t)| (name.clone(), t.labels())).collect()
    }

    /// Sends the last reports, and returns runs that were received and not started to the queue.
    pub async fn close(&self) {
        for target in self.targets.values() {
            target.wait_for_reports().await;
            // After runs that are on their way.
            drop(target.queues.lock().await);
            target.give_back_received(None).await;
        }
    }

    fn is_stopped(&self) -> bool {
        self.parts.stop.check().is_err()
    }

    /// Ends when the worker is stopped.
    async fn stopped(&self) {
        while !self.is_stopped() {
            tokio::time::sleep(TICK).await;
        }
    }

    /// Notes an error of the broker, and waits. What the broker lost is created again.
    async fn pause_after(&self, e: &QueueError, queues: &mut TargetQueues) {
        self.parts.counters.broker_errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("{e}");
        queues.close();
        tokio::time::sleep(ERROR_PAUSE).await;
        if let Err(e) = self.parts.storage.restore().await {
            tracing::debug!("the storage is not there: {e}");
        }
    }

    /// Returns the names of the queues that a target takes runs from: its own, and selectors that match its labels.
    fn queue_names(&self, name: &str, labels: Option<&Labels>) -> Vec<String> {
        let mut names = vec![name.to_owned()];
        names.extend(labels.map(|labels| self.selectors.matching(labels)).unwrap_or_default());
        names
    }

    async fn wait_async(&self, name: &str, target: &TargetState, limit: Duration) -> bool {
        // The thread opens the target then, which gives its labels.
        let Some(labels) = target.labels() else { return true };
        let mut queues = target.queues.lock().await;
        if !target.arrivals.is_empty() {
            return true;
        }
        let mut changes = self.selectors.changes();
        let names = self.queue_names(name, Some(&labels));
        let connection = &self.parts.counters.connection;
        let wait = queues.wait(&self.parts.storage, &names, limit, &target.arrivals, connection);
        let waited = tokio::select! {
            waited = connection.unless_lost(wait) => waited.unwrap_or(Ok(false)),
            _ = changes.changed() => Ok(false),
            () = self.stopped() => Ok(false),
        };
        match waited {
            Ok(is_found) => is_found,
            Err(e) => {
                self.pause_after(&e, &mut queues).await;
                false
            }
        }
    }

    /// Receives the next runs of a target while a short one is executed.
    fn receive_ahead(&self, name: &str, target: &Arc<TargetState>) {
        let count = target.ahead_size();
        if count == 0 || target.is_receiving.swap(true, Ordering::AcqRel) {
            return;
        }
        let names = self.queue_names(name, target.labels().as_ref());
        let (storage, target) = (self.parts.storage.clone(), Arc::clone(target));
        let counters = Arc::clone(&self.parts.counters);
        self.parts.runtime.spawn(async move {
            let mut queues = target.queues.lock().await;
            let taking = queues.take(&storage, &names, count, &target.arrivals);
            if let Some(Err(e)) = counters.connection.unless_lost(taking).await {
                tracing::debug!("no run is received ahead: {e}");
            }
            target.is_receiving.store(false, Ordering::Release);
        });
    }

    /// Returns the next message of a target; `None` if there is none now, or the worker was stopped.
    async fn next_message(&self, name: &str, target: &TargetState) -> Option<HeldMessage> {
        if self.is_stopped() {
            return None;
        }
        if let Some(message) = target.arrivals.pop() {
            return Some(message);
        }
        // After runs that are on their way.
        let mut queues = target.queues.lock().await;
        while !self.is_stopped() {
            if let Some(message) = target.arrivals.pop() {
                return Some(message);
            }
            let names = self.queue_names(name, target.labels().as_ref());
            let taking = queues.take(&self.parts.storage, &names, 1, &target.arrivals);
            match self.parts.counters.connection.unless_lost(taking).await {
                Some(Ok(false)) => return None,
                Some(Err(e)) => self.pause_after(&e, &mut queues).await,
                Some(Ok(true)) | None => {}
            }
        }
        None
    }

    async fn take_async(&self, name: &str, target: &TargetState) -> Option<LeasedRun> {
        while let Some(message) = self.next_message(name, target).await {
            match self.begin(name, target.labels().as_ref(), message).await {
                Ok(leased) => return Some(leased),
                Err(Skip::Handled) => {}
                Err(Skip::Broker(e)) => {
                    let mut queues = target.queues.lock().await;
                    self.pause_after(&e, &mut queues).await;
                }
            }
        }
        None
    }

    /// Checks a message, gets its files, and begins to note the attempt.
    async fn begin(&self, target: &str, labels: Option<&Labels>, held: HeldMessage) -> Result<LeasedRun, Skip> {
        let storage = &self.parts.storage;
        let message = match self.parse(target, labels, &held) {
            Ok(message) => message,
            Err(reason) => {
                self.refuse(&held, &reason).await?;
                return Err(Skip::Handled);
            }
        };
        let (campaign, publication) = (message.campaign, message.publication);
        let files = match self.get_files(&message).await {
            Ok(files) => files,
            Err(e) if held.deliveries < e.max_deliveries() => {
                let place = if e.is_local() { "stored here" } else { "had now" };
                tracing::warn!(run = %message.run.id, "a file cannot be {place}: {e}");
                held.give_back(Some(RETURN_DELAY)).await;
                if matches!(e, FileError::Broker(_)) {
                    return Err(Skip::Broker(storage.error(e)));
                }
                // Other workers get it first.
                tokio::time::sleep(ERROR_PAUSE).await;
                return Err(Skip::Handled);
            }
            Err(e) => {
                // It cannot run on any worker, or was tried on several.
                let leased = message.into_leased(1, Vec::new(), 0);
                let result = RunResult {
                    failure: Some(e.to_string()),
                    ..RunResult::unstarted(&leased, target, &self.parts.worker)
                };
                self.reporter
                    .report_unexecuted(target, campaign, &result, &held)
                    .await?;
                return Err(Skip::Handled);
            }
        };
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let mut leased = message.into_leased(1, Vec::new(), token);
        let held = Arc::new(held);
        let start = AttemptStart {
            storage: storage.clone(),
            reporter: Arc::clone(&self.reporter),
            connection: Arc::clone(&self.parts.counters.connection),
            worker: self.parts.worker.clone(),
            target: target.to_owned(),
            campaign,
            publication,
            leased: leased.clone(),
            message: Arc::clone(&held),
        };
        let (answer, pending) = channel();
        let start = tokio::spawn(start.run(answer));
        // Both sides list the same files in the same order.
        let mut paths = files.iter().map(|f| f.path.clone());
        leased.run.work = leased.run.work.with_paths(&mut |_, _| paths.next().unwrap_or_default());
        if !self.parts.accepts_no_containment {
            leased.run.work = leased.run.work.with_containment();
        }
        self.parts.counters.set_running(target, true);
        tracing::info!(run = %leased.run.id, %campaign, target, "run is taken");
        lock(&self.active).insert(
            token,
            ActiveRun {
                target: target.to_owned(),
                campaign,
                publication,
                message: held,
                pending: Some(pending),
                start,
                files,
            },
        );
        Ok(leased)
    }

    /// Parses a message, and checks that it is for this target.
    fn parse(&self, target: &str, labels: Option<&Labels>, held: &HeldMessage) -> Result<RunMessage, MessageError> {
        let message = RunMessage::parse(&held.payload)?;
        if held.subject != run_subject(&message.run.target, message.campaign) {
            return Err(MessageError::Unsound(
                "its subject is that of another target or campaign",
            ));
        }
        let is_selected = TargetSelector::parse(&message.run.target)
            .is_ok_and(|selector| labels.is_some_and(|labels| selector.matches(labels)));
        match message.run.target == target || is_selected {
            true => Ok(message),
            false => Err(MessageError::Unsound("it is for another target")),
        }
    }

    /// Removes a message that is no run, and reports it to the campaign that its subject names.
    async fn refuse(&self, held: &HeldMessage, reason: &MessageError) -> Result<(), QueueError> {
        self.parts.counters.refused_messages.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            sequence = held.sequence,
            subject = held.subject,
            "a message is refused: {reason}"
        );
        self.reporter
            .report_refused(&held.subject, &self.parts.worker, held.sequence, reason)
            .await?;
        held.refuse(&self.parts.storage).await
    }

    async fn get_files(&self, message: &RunMessage) -> Result<Vec<CachedFile>, FileError> {
        let mut files = Vec::new();
        for (path, digest) in message.run.work.files() {
            let name = safe_file_name(path);
            files.push(self.parts.cache.get(&self.files, digest, &name).await?);
        }
        Ok(files)
    }

    /// Reports a result while the target executes its next runs.
    async fn finish_async(&self, target: &TargetState, mut run: ActiveRun, result: RunResult) -> FinishedRun {
        let Some(started) = (&mut run.start).await.ok().flatten() else {
            return FinishedRun::HadResult;
        };
        let reporter = Arc::clone(&self.reporter);
        let ActiveRun {
            campaign,
            publication,
            message,
            target: name,
            files,
            ..
        } = run;
        let report = async move {
            if reporter.finish(campaign, publication, &result, &message, started).await {
                tracing::info!(
                    run = %result.run, target = name, verdict = result.verdict.name(), attempt = result.attempt,
                    run_ms = result.run_ns / 1_000_000, "run ends"
                );
            }
            drop(files);
        };
        target.send_report(report).await;
        FinishedRun::Recorded
    }

    /// Returns a run to the queue. Returns `false` if it was withdrawn.
    async fn release_async(&self, run: ActiveRun, reason: Option<&str>) -> bool {
        // Without a noted attempt, the message has been returned or acknowledged.
        let Some(started) = run.start.await.ok().flatten() else {
            return false;
        };
        let release = || attempts::release(&self.parts.storage, started.clone(), reason);
        if let Err(e) = self.parts.counters.connection.repeat_if_lost(release).await {
            tracing::warn!("the end of an attempt was not noted: {e}");
        }
        run.message.give_back(None).await;
        true
    }
}

impl RunSource for BrokerSource {
    fn wait_for_run(&self, target: &str, limit: Duration) -> Result<bool, QueueError> {
        let Some(known) = self.targets.get(target) else {
            return Ok(false);
        };
        Ok(self.parts.runtime.block_on(self.wait_async(target, known, limit)))
    }

    fn note_target(&self, target: &str, device: Option<&DeviceInfo>) {
        self.parts.counters.set_available(target, true);
        if let Some(known) = self.targets.get(target) {
            // Without labels, a target takes no run of a selector, which may be a recording.
            known.set_labels(device.map_or_else(Labels::new, |device| labels_of(device, &self.parts.labels)));
        }
    }

    fn outcome_folder(&self, leased: &LeasedRun) -> Option<PathBuf> {
        let campaign = lock(&self.active).get(&leased.token)?.campaign;
        Some(campaign_folder(&self.parts.outcomes, campaign))
    }

    fn decline(&self, target: &str) -> Result<(), QueueError> {
        self.parts.counters.set_available(target, false);
        if let Some(known) = self.targets.get(target) {
            self.parts.runtime.block_on(known.give_back_received(None));
        }
        Ok(())
    }

    fn take(&self, target: &str, _worker: &str, _lease: Duration) -> Result<Option<LeasedRun>, QueueError> {
        let Some(known) = self.targets.get(target) else {
            return Ok(None);
        };
        let leased = self.parts.runtime.block_on(self.take_async(target, known));
        if leased.is_some() {
            self.receive_ahead(target, known);
        }
        Ok(leased)
    }

    fn pending_start(&self, leased: &LeasedRun) -> Option<Receiver<StartAnswer>> {
        lock(&self.active).get_mut(&leased.token)?.pending.take()
    }

    fn finish(&self, leased: &LeasedRun, result: &RunResult) -> Result<FinishedRun, QueueError> {
        let Some(run) = lock(&self.active).remove(&leased.token) else {
            return Ok(FinishedRun::HadResult);
        };
        let target = &run.target.clone();
        self.parts.counters.set_running(target, false);
        let Some(known) = self.targets.get(target) else {
            return Ok(FinishedRun::HadResult);
        };
        known.note_duration(result.ended_ms.saturating_sub(result.started_ms));
        let finish = self.finish_async(known, run, result.clone());
        let finished = self.parts.runtime.block_on(finish);
        if finished == FinishedRun::Recorded {
            self.parts.counters.count_result(target, result);
        }
        Ok(finished)
    }

    fn release(&self, leased: &LeasedRun, reason: Option<&str>) -> Result<(), QueueError> {
        let Some(run) = lock(&self.active).remove(&leased.token) else {
            return Ok(());
        };
        let target = run.target.clone();
        if self.parts.runtime.block_on(self.release_async(run, reason)) {
            tracing::warn!(run = %leased.run.id, reason, "run returns to the queue");
            self.parts.counters.count_return(&target);
        }
        self.parts.counters.set_running(&target, false);
        Ok(())
    }
}
