//! The queues that a target takes runs from: its own, and those of selectors that match its labels.

use crate::held_message::HeldMessage;
use crate::storage::Storage;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt as _;
use futures_util::future::select_all;
use kinescope_campaign::QueueError;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for the broker's answer that a queue is empty.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Time for an answer after a wait has ended on the broker.
const ANSWER_DELAY: Duration = Duration::from_secs(2);

/// The queues of a target.
#[derive(Default)]
pub struct TargetQueues {
    consumers: BTreeMap<String, PullConsumer>,
    /// The queue that had the last run.
    last: Option<String>,
}

/// Requests messages that are there now, at most `count`.
async fn request_present(storage: &Storage, consumer: &PullConsumer, count: usize) -> Result<Vec<Message>, QueueError> {
    let mut received = Vec::new();
    let request = async {
        let request = consumer.fetch().max_messages(count).messages();
        let mut batch = request.await.map_err(|e| storage.error(e))?;
        while let Some(message) = batch.next().await {
            received.push(message.map_err(|e| storage.error(e))?);
        }
        Ok(())
    };
    let ended = tokio::time::timeout(ANSWER_LIMIT, request).await;
    match ended.unwrap_or_else(|_| Err(storage.error("the broker does not answer"))) {
        // Messages that are here are leased to this worker.
        Err(e) if received.is_empty() => Err(e),
        _ => Ok(received),
    }
}

/// Requests one message, and waits for it at most for `limit`.
async fn request_next(
    storage: &Storage,
    consumer: &PullConsumer,
    limit: Duration,
) -> Result<Option<Message>, QueueError> {
    let wait = async {
        let request = consumer.batch().max_messages(1).expires(limit).messages();
        let mut batch = request.await.map_err(|e| storage.error(e))?;
        batch.next().await.transpose().map_err(|e| storage.error(e))
    };
    match tokio::time::timeout(limit.saturating_add(ANSWER_DELAY), wait).await {
        Ok(message) => message,
        Err(_) => Err(storage.error("the broker does not answer")),
    }
}

impl TargetQueues {
    /// Forgets the queues, which are opened again when they are needed.
    pub fn close(&mut self) {
        self.consumers.clear();
    }

    async fn open(&mut self, storage: &Storage, name: &str, lease: Duration) -> Result<PullConsumer, QueueError> {
        if let Some(known) = self.consumers.get(name) {
            return Ok(known.clone());
        }
        let consumer = storage.open_target(name, lease).await?;
        self.consumers.insert(name.to_owned(), consumer.clone());
        Ok(consumer)
    }

    /// Returns messages of runs, at most `count`, from the first of these queues that has some. The result is empty if none
    /// has.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn take(
        &mut self,
        storage: &Storage,
        names: &[String],
        lease: Duration,
        count: usize,
    ) -> Result<Vec<HeldMessage>, QueueError> {
        let last = self.last.clone().filter(|last| names.contains(last));
        let others = names.iter().filter(|name| last.as_ref() != Some(*name));
        for name in last.iter().chain(others) {
            let consumer = self.open(storage, name, lease).await?;
            let messages = request_present(storage, &consumer, count).await?;
            if !messages.is_empty() {
                self.last = Some(name.clone());
                return Ok(messages.into_iter().map(|m| HeldMessage::new(m, lease)).collect());
            }
        }
        Ok(Vec::new())
    }

    /// Waits until one of these queues has a message, at most for `limit`, and returns it.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn wait(
        &mut self,
        storage: &Storage,
        names: &[String],
        lease: Duration,
        limit: Duration,
    ) -> Result<Option<HeldMessage>, QueueError> {
        let mut waits = Vec::new();
        for name in names {
            let consumer = self.open(storage, name, lease).await?;
            let storage = storage.clone();
            waits.push(Box::pin(async move { request_next(&storage, &consumer, limit).await }));
        }
        while !waits.is_empty() {
            let (received, index, others) = select_all(waits).await;
            if let Some(message) = received? {
                self.last = names.get(index).cloned();
                for other in others {
                    // The broker may deliver to a request that nobody waits for any more: its run goes to others at once.
                    tokio::spawn(async move {
                        if let Ok(Some(message)) = other.await {
                            HeldMessage::new(message, lease).give_back(None).await;
                        }
                    });
                }
                return Ok(Some(HeldMessage::new(message, lease)));
            }
            waits = others;
        }
        Ok(None)
    }
}
