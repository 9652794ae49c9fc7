//! The client's side of the queue of runs: files are sent, runs are published, and lost ones are published again.

use crate::connection::ConnectionState;
use crate::file_store::{FileError, FileStore};
use crate::selectors;
use crate::storage::{Storage, campaign_subject, result_subject, run_subject};
use async_nats::jetstream::message::PublishMessage;
use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use kinescope_campaign::messages::{MessageError, RunMessage, encode};
use kinescope_campaign::{FolderQueue, Matrix, QueueError, Run, RunId, TargetSelector, unix_ms};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use trace_core::progress::Progress;

/// Number of runs that are published at once.
const BATCH: usize = 512;
/// Pause after an error of the broker.
const PAUSE: Duration = Duration::from_millis(500);

/// Why runs are not published.
#[derive(Debug, thiserror::Error)]
pub enum PublicationError {
    /// The queue or the broker cannot be used.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A file cannot be sent.
    #[error(transparent)]
    File(#[from] FileError),
    /// A run does not fit into a message.
    #[error("run {run}: {reason}")]
    Message {
        /// The run.
        run: RunId,
        /// Why.
        reason: MessageError,
    },
    /// The user stopped it.
    #[error("stopped")]
    Stopped,
}

/// What publishes the runs of a campaign.
pub struct Publisher {
    storage: Storage,
    files: FileStore,
    campaign: RunId,
    queue: Arc<FolderQueue>,
    connection: Arc<ConnectionState>,
    stop: Progress,
}

/// Runs of the campaign that the broker has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerCounts {
    /// Runs that wait or are executed.
    pub runs: u64,
    /// Results that the client has not stored.
    pub results: u64,
}

impl Publisher {
    /// Creates a publisher of the campaign in a folder's queue.
    #[must_use]
    pub fn new(
        storage: Storage,
        files: FileStore,
        campaign: RunId,
        queue: Arc<FolderQueue>,
        connection: Arc<ConnectionState>,
        stop: Progress,
    ) -> Self {
        Self {
            storage,
            files,
            campaign,
            queue,
            connection,
            stop,
        }
    }

    /// Sends the recordings and inputs of a campaign that the broker does not have, and its selectors. Returns the number
    /// of bytes sent. What was sent when the connection was lost is not sent again.
    ///
    /// # Errors
    /// If a file cannot be read, it changed, the broker refuses, or the user stops it.
    pub async fn send_files(&self, matrix: &Matrix) -> Result<u64, PublicationError> {
        let send = || self.send_missing_files(matrix);
        self.connection.repeat_until_connected(send).await
    }

    async fn send_missing_files(&self, matrix: &Matrix) -> Result<u64, PublicationError> {
        for selector in matrix.targets().into_iter().filter(|t| TargetSelector::is_selector(t)) {
            selectors::publish(&self.storage, selector).await?;
        }
        let (mut sent, mut known) = (0_u64, BTreeSet::new());
        for work in matrix.works() {
            for (path, digest) in work.files() {
                if self.stop.check().is_err() {
                    return Err(PublicationError::Stopped);
                }
                if known.insert(digest.to_owned()) {
                    sent = sent.saturating_add(self.files.upload(path, digest).await?);
                }
            }
        }
        Ok(sent)
    }

    /// Publishes the runs without a result that the broker was never given. Returns their number.
    ///
    /// # Errors
    /// If the queue cannot be used, a run is too large, or the user stops it. A broker that does not answer is awaited.
    pub async fn publish_new(&self) -> Result<u64, PublicationError> {
        self.publish_all(|times| times == 0).await
    }

    /// Publishes all runs without a result again, and removes those that the broker still has: some were lost. A run that
    /// a worker has meanwhile executes twice, and its result says so. Returns the number of runs.
    ///
    /// # Errors
    /// As [`Self::publish_new`], and if the broker does not answer.
    pub async fn publish_again(&self) -> Result<u64, PublicationError> {
        let purged = self.storage.runs.purge().filter(campaign_subject(self.campaign)).await;
        purged.map_err(|e| self.storage.error(e))?;
        self.publish_all(|_| true).await
    }

    async fn publish_all(&self, selects: impl Fn(u64) -> bool) -> Result<u64, PublicationError> {
        let (mut after, mut count) = (None, 0);
        loop {
            let mut batch: Vec<(Run, u64)> = Vec::new();
            let mut is_end = true;
            self.queue.unfinished(after, &mut |run, times| {
                after = Some(run.id);
                if selects(times) {
                    batch.push((run, times));
                }
                is_end = batch.len() < BATCH;
                is_end
            })?;
            let publish = || self.publish_batch(&batch);
            while let Err(e) = self.connection.repeat_if_lost(publish).await {
                match e {
                    PublicationError::Queue(e) => tracing::warn!("runs are not queued yet: {e}"),
                    e => return Err(e),
                }
                if self.stop.check().is_err() {
                    return Err(PublicationError::Stopped);
                }
                tokio::time::sleep(PAUSE).await;
                if let Err(e) = self.storage.restore().await {
                    tracing::debug!("the storage is not there: {e}");
                }
            }
            let ids: Vec<RunId> = batch.iter().map(|(run, _)| run.id).collect();
            self.queue.note_published(&ids)?;
            count += batch.len() as u64;
            if self.stop.check().is_err() {
                return Err(PublicationError::Stopped);
            }
            if is_end {
                return Ok(count);
            }
        }
    }

    /// Publishes some runs. A run that is published twice with the same number is dropped by the broker.
    async fn publish_batch(&self, batch: &[(Run, u64)]) -> Result<(), PublicationError> {
        let now = unix_ms();
        let mut stored = Vec::with_capacity(batch.len());
        for (run, times) in batch {
            let failed = |reason| PublicationError::Message { run: run.id, reason };
            let message = RunMessage::new(self.campaign, *times, now, run.clone());
            let message = PublishMessage::build()
                .payload(encode(&message).map_err(failed)?.into())
                .message_id(format!("{}.{}.{times}", self.campaign, run.id));
            let subject = run_subject(&run.target, self.campaign);
            let sent = self.storage.jetstream.send_publish(subject, message).await;
            stored.push(sent.map_err(|e| self.storage.error(e))?.into_future());
        }
        let stored = try_join_all(stored).await;
        stored.map(drop).map_err(|e| self.storage.error(e).into())
    }

    /// Counts the runs of the campaign that the broker has. A run that moves on meanwhile is counted at least once, if the
    /// results in the folder are counted after this.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn count(&self) -> Result<BrokerCounts, QueueError> {
        let runs = self
            .count_messages(&self.storage.runs, campaign_subject(self.campaign))
            .await?;
        let results = self
            .count_messages(&self.storage.results, result_subject(self.campaign))
            .await?;
        Ok(BrokerCounts { runs, results })
    }

    async fn count_messages(
        &self,
        stream: &async_nats::jetstream::stream::Stream,
        subject: String,
    ) -> Result<u64, QueueError> {
        let mut subjects = stream
            .info_with_subjects(subject)
            .await
            .map_err(|e| self.storage.error(e))?;
        let mut total = 0_u64;
        while let Some((_, count)) = subjects.try_next().await.map_err(|e| self.storage.error(e))? {
            total = total.saturating_add(count as u64);
        }
        Ok(total)
    }
}
