//! The client's side of results: each is stored in the folder of the campaign before the broker forgets it.

use crate::connection::ConnectionState;
use crate::file_store::{FileError, FileStore};
use crate::reporting::object_name;
use crate::storage::Storage;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt as _;
use kinescope_campaign::messages::{KeptFile, WorkerMessage};
use kinescope_campaign::{CampaignFolder, FolderQueue, QueueError, RunId, RunQueue as _, RunResult};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace_core::progress::Progress;

/// Number of results that are stored in one commit.
const BATCH: usize = 256;
/// Maximum size of the messages of a batch, bytes.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// Time that the broker waits for results before it answers that there are none.
const WAIT: Duration = Duration::from_secs(1);
/// Time in which results are gathered for one commit, if runs are left.
const GATHER_TIME: Duration = Duration::from_millis(100);
/// Time for the broker's answer that there are no more results now.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Time after the end of a wait in which the broker says so. It may never say it, and serves the request no more.
const ANSWER_DELAY: Duration = Duration::from_secs(1);
/// Pause after an error of the broker.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum size of a kept file, bytes.
const MAX_KEPT_BYTES: u64 = 8 << 30;
/// Maximum length of a text in a result, characters.
const MAX_TEXT: usize = 4096;
/// Maximum number of reasons of earlier attempts.
const MAX_REASONS: usize = 8;
/// Number of attempts to get a kept file. After that, its result says that it was not kept.
const MAX_FILE_ATTEMPTS: u32 = 4;
/// Maximum number of kept files whose attempts are counted. More of them are not tried again.
const MAX_FAILED_FILES: usize = 10_000;

/// Called with each batch of stored results.
pub type ResultNotice = dyn Fn(&[RunResult]) + Send + Sync;

/// Messages with runs that workers refused.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// Their number.
    pub count: u64,
    /// Why the last one was refused.
    pub last: String,
}

/// What stores the results of a campaign.
pub struct Follower {
    pub storage: Storage,
    pub files: FileStore,
    pub campaign: RunId,
    pub folder: CampaignFolder,
    pub queue: Arc<FolderQueue>,
    pub connection: Arc<ConnectionState>,
    pub stop: Progress,
    /// Number of results that this process stored.
    pub stored: Arc<AtomicU64>,
    /// Messages that workers refused.
    pub refusals: Mutex<Refusals>,
    /// Kept files that the broker did not give, with the number of attempts.
    pub failed_files: Mutex<BTreeMap<String, u32>>,
}

/// Cuts the texts of a result, which a worker chose.
fn bound_texts(result: &mut RunResult) {
    let cut = |text: &mut String| {
        if text.chars().count() > MAX_TEXT {
            *text = text.chars().take(MAX_TEXT).collect();
        }
    };
    [
        &mut result.on_target,
        &mut result.gpu,
        &mut result.worker,
        &mut result.fingerprint,
    ]
    .into_iter()
    .for_each(cut);
    result.failure.iter_mut().for_each(cut);
    result.divergence.iter_mut().for_each(|d| cut(&mut d.text));
    result.earlier_attempts.truncate(MAX_REASONS);
    result.earlier_attempts.iter_mut().for_each(cut);
}

impl Follower {
    /// Stores results until `stop` is cancelled or all runs have one. `notice` is called with the stored ones.
    ///
    /// # Errors
    /// If the folder cannot be written. A broker that does not answer is awaited.
    pub async fn run(&self, notice: &ResultNotice) -> Result<(), QueueError> {
        let mut consumer = None;
        while self.stop.check().is_ok() && !self.step(&mut consumer, notice).await? {
            tokio::time::sleep(PAUSE).await;
            consumer = None;
            if let Err(e) = self.storage.restore().await {
                tracing::debug!("the storage is not there: {e}");
            }
        }
        Ok(())
    }

    /// Returns the messages that workers refused.
    pub fn refusals(&self) -> Refusals {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the broker did not give a kept file. Returns whether it is worth another attempt.
    fn note_failed_file(&self, object: &str) -> bool {
        let mut failed = self.failed_files.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() >= MAX_FAILED_FILES && !failed.contains_key(object) {
            return false;
        }
        let attempts = failed.entry(object.to_owned()).or_insert(0);
        *attempts = attempts.saturating_add(1);
        *attempts < MAX_FILE_ATTEMPTS
    }

    /// Returns the number of runs without a result.
    fn count_missing(&self) -> Result<u64, QueueError> {
        let counts = self.queue.counts()?;
        Ok(counts.total().saturating_sub(counts.done))
    }

    /// Stores batches until the broker fails (`false`), or `stop` is cancelled or all results are there (`true`).
    async fn step(&self, consumer: &mut Option<PullConsumer>, notice: &ResultNotice) -> Result<bool, QueueError> {
        while self.stop.check().is_ok() && self.count_missing()? > 0 {
            let messages = match self.connection.unless_lost(self.fetch(consumer)).await {
                Some(Ok(messages)) => messages,
                // Results that were on their way are delivered again to a new consumer.
                None => {
                    *consumer = None;
                    continue;
                }
                Some(Err(e)) => {
                    tracing::warn!("no results now: {e}");
                    return Ok(false);
                }
            };
            if messages.is_empty() {
                continue;
            }
            let (mut results, mut objects) = (Vec::new(), Vec::new());
            for message in &messages {
                match self.read(message, &mut objects).await {
                    Ok(result) => results.extend(result),
                    Err(e) => {
                        tracing::warn!("a kept file is not here yet: {e}");
                        return Ok(false);
                    }
                }
            }
            let queue = Arc::clone(&self.queue);
            let batch = results.clone();
            let recorded = tokio::task::spawn_blocking(move || queue.record(&batch)).await;
            let recorded = recorded.map_err(|e| self.storage.error(e))??;
            self.stored.fetch_add(recorded, Ordering::Relaxed);
            notice(&results);
            // They are on the disk: the broker may forget them. One that it delivers again changes nothing.
            for message in &messages {
                if let Err(e) = message.ack().await {
                    tracing::warn!("a result was not acknowledged: {e}");
                }
            }
            self.remove_objects(&objects).await;
        }
        Ok(true)
    }

    /// Receives results: what arrives in [`GATHER_TIME`] after the first ones, or all that are left. The result is empty if
    /// none arrives.
    async fn fetch(&self, consumer: &mut Option<PullConsumer>) -> Result<Vec<Message>, QueueError> {
        let opened = match consumer {
            Some(opened) => opened,
            None => consumer.insert(self.storage.open_results(self.campaign).await?),
        };
        let left = usize::try_from(self.count_missing()?).unwrap_or(BATCH).clamp(1, BATCH);
        let mut messages = self.fetch_present(opened, left).await?;
        if messages.is_empty() {
            let request = opened.batch().max_messages(1).expires(WAIT).messages();
            let mut batch = request.await.map_err(|e| self.storage.error(e))?;
            let next = tokio::time::timeout(WAIT.saturating_add(ANSWER_DELAY), batch.next()).await;
            let Some(first) = next.unwrap_or_default() else {
                return Ok(messages);
            };
            messages.push(first.map_err(|e| self.storage.error(e))?);
        }
        if messages.len() < left {
            tokio::time::sleep(GATHER_TIME).await;
            let more = self.fetch_present(opened, left.saturating_sub(messages.len())).await?;
            messages.extend(more);
        }
        Ok(messages)
    }

    /// Receives results that are there now, at most `count`.
    async fn fetch_present(&self, consumer: &PullConsumer, count: usize) -> Result<Vec<Message>, QueueError> {
        let request = consumer.fetch().max_messages(count).max_bytes(MAX_BATCH_BYTES);
        let mut batch = request.messages().await.map_err(|e| self.storage.error(e))?;
        let mut messages = Vec::new();
        loop {
            match tokio::time::timeout(ANSWER_LIMIT, batch.next()).await {
                Ok(Some(message)) => messages.push(message.map_err(|e| self.storage.error(e))?),
                Ok(None) => return Ok(messages),
                Err(_) => return Err(self.storage.error("the broker does not answer")),
            }
        }
    }

    /// Parses a message, and gets the files that it names, whose names in the store are added to `objects`. Returns `None`
    /// for a message without a result.
    async fn read(&self, message: &Message, objects: &mut Vec<String>) -> Result<Option<RunResult>, FileError> {
        let (mut result, files) = match WorkerMessage::parse(&message.payload) {
            Ok(WorkerMessage::Result { result, files, .. }) => (*result, files),
            Ok(WorkerMessage::Refused {
                worker,
                sequence,
                reason,
                ..
            }) => {
                tracing::error!("{worker} refused message {sequence} in the queue of runs: {reason}");
                let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
                refusals.count = refusals.count.saturating_add(1);
                refusals.last = reason.chars().take(MAX_TEXT).collect();
                return Ok(None);
            }
            Err(e) => {
                tracing::error!("a worker's message is refused: {e}");
                return Ok(None);
            }
        };
        bound_texts(&mut result);
        let mut stored = BTreeSet::new();
        for file in &files {
            let object = object_name(self.campaign, &result, &file.suffix);
            match self.store_file(&result, file).await {
                Ok(path) => {
                    stored.insert(path);
                    objects.push(object);
                }
                Err(e @ FileError::Broker(_)) if self.note_failed_file(&object) => return Err(e),
                // A second delivery of a result finds its files removed: the first one had them.
                Err(e) => {
                    let before = result.failure.take().map_or_else(String::new, |f| f + "; ");
                    result.failure = Some(format!("{before}a file was not kept: {e}"));
                }
            }
        }
        // Paths in the message are those of another machine, unless they name a file that is here now.
        result.retain_files(&|path| stored.contains(path));
        Ok(Some(result))
    }

    /// Writes a kept file to the folder. Returns its path in the folder.
    async fn store_file(&self, result: &RunResult, file: &KeptFile) -> Result<PathBuf, FileError> {
        let folder = self.folder.outcomes_path();
        let name = format!("{}{}", result.file_prefix(), file.suffix);
        let path = folder.join(&name);
        let stored = PathBuf::from("outcomes").join(&name);
        let failed = |source| FileError::Io {
            path: path.clone(),
            source,
        };
        if path.exists() {
            return Ok(stored);
        }
        tokio::fs::create_dir_all(&folder).await.map_err(failed)?;
        let incomplete = tempfile::tempdir_in(&folder).map_err(failed)?;
        let part = incomplete.path().join(&name);
        let max_bytes = file.bytes.min(MAX_KEPT_BYTES);
        let object = object_name(self.campaign, result, &file.suffix);
        self.files
            .download_file(&object, &file.digest, &part, max_bytes)
            .await?;
        tokio::fs::rename(&part, &path).await.map_err(failed)?;
        // The broker forgets the file next.
        let opened = tokio::fs::File::open(&folder).await.map_err(failed)?;
        opened.sync_all().await.map_err(failed)?;
        Ok(stored)
    }

    async fn remove_objects(&self, objects: &[String]) {
        for object in objects {
            if let Err(e) = self.files.remove(object).await {
                tracing::warn!("a kept file was not removed from the broker: {e}");
            }
        }
    }
}
