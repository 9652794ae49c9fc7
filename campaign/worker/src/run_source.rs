//! Runs from the broker, for the threads of a worker's targets: taken, executed once, and reported.

use crate::attempts::{self, Start, StartedAttempt};
use crate::counters::Counters;
use crate::file_cache::{CachedFile, FileCache};
use crate::file_store::{FileError, FileStore};
use crate::held_message::HeldMessage;
use crate::reporting::Reporter;
use crate::selectors::SelectorList;
use crate::storage::{Storage, lease_key, run_subject};
use crate::target_labels::labels_of;
use crate::target_queues::TargetQueues;
use kinescope_campaign::messages::{MessageError, RunMessage, safe_file_name};
use kinescope_campaign::{
    FinishedRun, Labels, LeasedRun, MAX_ATTEMPTS, QueueError, RunId, RunResult, RunSource, TargetSelector,
};
use replay_engine::device::DeviceInfo;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use trace_core::progress::Progress;

/// Pause after an error of the broker.
const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// Time that a run stays away from workers after one could not use it.
const RETURN_DELAY: Duration = Duration::from_secs(2);
/// Longest run after which the next run is received while a run is executed. Other workers could have it meanwhile.
const PREFETCH_LIMIT: Duration = Duration::from_millis(500);
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
    /// Name of the worker.
    pub worker: String,
    /// Time after which a run whose worker reports nothing is delivered again.
    pub lease: Duration,
    /// Labels of all targets.
    pub labels: Labels,
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
    message: HeldMessage,
    started: StartedAttempt,
    /// Its files stay in the cache.
    _files: Vec<CachedFile>,
}

/// A target of the worker.
#[derive(Default)]
struct Target {
    /// Its labels; `None` before it was open for the first time.
    labels: Mutex<Option<Labels>>,
    queues: tokio::sync::Mutex<TargetQueues>,
    /// The report of the last run, which is sent while the next run is executed.
    report: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    /// Duration of the last run, ms; 0 before it.
    last_ms: AtomicU64,
}

/// The runs of the targets of a worker.
pub struct BrokerSource {
    parts: WorkerParts,
    files: FileStore,
    reporter: Arc<Reporter>,
    selectors: Arc<SelectorList>,
    targets: BTreeMap<String, Arc<Target>>,
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
                Arc::clone(&parts.counters.connection),
                parts.stop.clone(),
            )),
            files,
            selectors,
            targets: targets.iter().map(|t| (t.clone(), Arc::default())).collect(),
            active: Mutex::default(),
            next_token: AtomicU64::new(1),
            parts,
        }
    }

    /// Returns the labels of each target; `None` for one that was never open.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, Option<Labels>> {
        let targets = self.targets.iter();
        targets
            .map(|(name, t)| (name.clone(), lock(&t.labels).clone()))
            .collect()
    }

    /// Sends the last reports, and returns runs that were received and not started to the queue.
    pub async fn close(&self) {
        for target in self.targets.values() {
            target.wait_for_report().await;
            if let Some(message) = target.queues.lock().await.take_held() {
                message.give_back(None).await;
            }
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

    async fn wait_async(&self, name: &str, target: &Target, limit: Duration) -> bool {
        let labels = lock(&target.labels).clone();
        // The thread opens the target then, which gives its labels.
        let Some(labels) = labels else { return true };
        let mut queues = target.queues.lock().await;
        let mut changes = self.selectors.changes();
        let names = self.queue_names(name, Some(&labels));
        let wait = queues.wait(&self.parts.storage, &names, self.parts.lease, limit);
        let waited = tokio::select! {
            waited = self.parts.counters.connection.unless_lost(wait) => waited.unwrap_or(Ok(false)),
            _ = changes.changed() => Ok(false),
            () = self.stopped() => Ok(false),
        };
        match waited {
            Ok(found) => found,
            Err(e) => {
                self.pause_after(&e, &mut queues).await;
                false
            }
        }
    }

    /// Receives the next run of a target while a short one is executed.
    fn prefetch(&self, name: &str, target: &Arc<Target>) {
        let last = Duration::from_millis(target.last_ms.load(Ordering::Relaxed));
        if last.is_zero() || last > PREFETCH_LIMIT {
            return;
        }
        let labels = lock(&target.labels).clone();
        let names = self.queue_names(name, labels.as_ref());
        let (storage, lease, target) = (self.parts.storage.clone(), self.parts.lease, Arc::clone(target));
        self.parts.runtime.spawn(async move {
            let received = target.queues.lock().await.prefetch(&storage, &names, lease).await;
            if let Err(e) = received {
                tracing::debug!("no run is received ahead: {e}");
            }
        });
    }

    async fn take_async(&self, name: &str, target: &Target) -> Option<LeasedRun> {
        let labels = lock(&target.labels).clone();
        let mut queues = target.queues.lock().await;
        while !self.is_stopped() {
            let names = self.queue_names(name, labels.as_ref());
            let taking = queues.take(&self.parts.storage, &names, self.parts.lease);
            let message = match self.parts.counters.connection.unless_lost(taking).await {
                Some(Ok(Some(message))) => message,
                Some(Ok(None)) => return None,
                Some(Err(e)) => {
                    self.pause_after(&e, &mut queues).await;
                    continue;
                }
                None => continue,
            };
            match self.begin(name, labels.as_ref(), message).await {
                Ok(leased) => return Some(leased),
                Err(Skip::Handled) => {}
                Err(Skip::Broker(e)) => self.pause_after(&e, &mut queues).await,
            }
        }
        None
    }

    /// Checks a message, gets its files, and notes the attempt.
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
        let key = lease_key(campaign, message.run.id);
        let files = match self.get_files(&message).await {
            Ok(files) => files,
            Err(e) if e.is_temporary() => {
                tracing::warn!(run = %message.run.id, "a file is not here: {e}");
                held.give_back(Some(RETURN_DELAY)).await;
                return Err(Skip::Broker(storage.error(e)));
            }
            Err(e) => {
                // It cannot run on any worker.
                let leased = message.into_leased(1, Vec::new(), 0);
                let result = RunResult {
                    failure: Some(e.to_string()),
                    ..RunResult::unstarted(&leased, target, &self.parts.worker)
                };
                self.report_unexecuted(target, campaign, result, &held).await?;
                return Err(Skip::Handled);
            }
        };
        let started = match attempts::start(storage, key, &self.parts.worker, publication).await? {
            Start::Started(started) => started,
            Start::IsDone => {
                held.acknowledge(storage).await?;
                return Err(Skip::Handled);
            }
            Start::Conflict => {
                held.give_back(Some(RETURN_DELAY)).await;
                return Err(Skip::Handled);
            }
        };
        let attempts = started.attempts.clone();
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let mut leased = message.into_leased(attempts.count, attempts.reasons, token);
        if leased.attempt > MAX_ATTEMPTS {
            leased.attempt = leased.attempt.saturating_sub(1);
            let reason = leased.earlier_attempts.last().cloned().unwrap_or_default();
            let result = RunResult::lost(&leased, target, &self.parts.worker, &reason);
            self.report_unexecuted(target, campaign, result, &held).await?;
            return Err(Skip::Handled);
        }
        // Both sides list the same files in the same order.
        let mut paths = files.iter().map(|f| f.path.clone());
        leased.run.work = leased.run.work.with_paths(&mut |_, _| paths.next().unwrap_or_default());
        self.parts.counters.set_running(target, true);
        tracing::info!(run = %leased.run.id, %campaign, target, attempt = leased.attempt, "run starts");
        lock(&self.active).insert(
            token,
            ActiveRun {
                target: target.to_owned(),
                campaign,
                publication,
                message: held,
                started,
                _files: files,
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

    /// Reports a result of a run that was not executed here.
    async fn report_unexecuted(
        &self,
        target: &str,
        campaign: RunId,
        result: RunResult,
        held: &HeldMessage,
    ) -> Result<(), QueueError> {
        self.reporter.report(campaign, &result, &self.parts.outcomes).await?;
        self.parts.counters.count_result(target, &result);
        held.acknowledge(&self.parts.storage).await
    }

    /// Reports a result while the target executes its next run. One report at a time: results do not pile up.
    async fn finish_async(&self, target: &Target, run: ActiveRun, result: RunResult) {
        target.wait_for_report().await;
        let outcomes = self.parts.outcomes.clone();
        let (storage, reporter) = (self.parts.storage.clone(), Arc::clone(&self.reporter));
        let report = tokio::spawn(async move {
            // Without a report the broker delivers the run again.
            if !reporter.report_until_stopped(run.campaign, &result, &outcomes).await {
                return;
            }
            let noted = attempts::finish(&storage, run.started.clone(), run.publication).await;
            if let Err(e) = noted {
                tracing::warn!("the end of an attempt was not noted: {e}");
            }
            for _ in 0..3 {
                match run.message.acknowledge(&storage).await {
                    Ok(()) => return,
                    Err(e) => tracing::warn!("a run was not acknowledged: {e}"),
                }
            }
        });
        *target.report.lock().await = Some(report);
    }
}

impl Target {
    /// Waits until the report of the last run is sent.
    async fn wait_for_report(&self) {
        if let Some(report) = self.report.lock().await.take()
            && let Err(e) = report.await
        {
            tracing::error!("a report ended by a program error: {e}");
        }
    }
}

impl RunSource for BrokerSource {
    fn wait_for_run(&self, target: &str, limit: Duration) -> Result<bool, QueueError> {
        let Some(known) = self.targets.get(target) else {
            return Ok(false);
        };
        Ok(self.parts.runtime.block_on(self.wait_async(target, known, limit)))
    }

    fn note_target(&self, target: &str, device: &DeviceInfo) {
        self.parts.counters.set_available(target, true);
        if let Some(known) = self.targets.get(target) {
            *lock(&known.labels) = Some(labels_of(device, &self.parts.labels));
        }
    }

    fn decline(&self, target: &str) -> Result<(), QueueError> {
        self.parts.counters.set_available(target, false);
        if let Some(known) = self.targets.get(target) {
            self.parts.runtime.block_on(async {
                if let Some(message) = known.queues.lock().await.take_held() {
                    message.give_back(Some(RETURN_DELAY)).await;
                }
            });
        }
        Ok(())
    }

    fn take(&self, target: &str, _worker: &str, _lease: Duration) -> Result<Option<LeasedRun>, QueueError> {
        let Some(known) = self.targets.get(target) else {
            return Ok(None);
        };
        let leased = self.parts.runtime.block_on(self.take_async(target, known));
        if leased.is_some() {
            self.prefetch(target, known);
        }
        Ok(leased)
    }

    fn finish(&self, leased: &LeasedRun, result: &RunResult) -> Result<FinishedRun, QueueError> {
        let Some(run) = lock(&self.active).remove(&leased.token) else {
            return Ok(FinishedRun::HadResult);
        };
        let target = &run.target.clone();
        self.parts.counters.set_running(target, false);
        self.parts.counters.count_result(target, result);
        tracing::info!(
            run = %leased.run.id, target, verdict = result.verdict.name(), attempt = result.attempt,
            run_ms = result.run_ns / 1_000_000, "run ends"
        );
        if let Some(known) = self.targets.get(target) {
            let took = result.ended_ms.saturating_sub(result.started_ms);
            known.last_ms.store(took.max(1), Ordering::Relaxed);
            self.parts
                .runtime
                .block_on(self.finish_async(known, run, result.clone()));
        }
        Ok(FinishedRun::Recorded)
    }

    fn release(&self, leased: &LeasedRun, reason: Option<&str>) -> Result<(), QueueError> {
        let Some(run) = lock(&self.active).remove(&leased.token) else {
            return Ok(());
        };
        tracing::warn!(run = %leased.run.id, reason, "run returns to the queue");
        self.parts.runtime.block_on(async {
            let released = attempts::release(&self.parts.storage, run.started.clone(), reason).await;
            if let Err(e) = released {
                tracing::warn!("the end of an attempt was not noted: {e}");
            }
            run.message.give_back(None).await;
        });
        self.parts.counters.set_running(&run.target, false);
        self.parts.counters.count_return(&run.target);
        Ok(())
    }
}
