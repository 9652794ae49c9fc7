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
    /// A message that a wait received.
    held: Option<HeldMessage>,
    /// The queue that had the last run.
    last: Option<String>,
}

/// Requests one message, and waits for it at most for `limit`; with `None` only a message that is there counts.
async fn request(
    storage: &Storage,
    consumer: &PullConsumer,
    limit: Option<Duration>,
) -> Result<Option<Message>, QueueError> {
    let requested = async {
        match limit {
            Some(limit) => consumer.batch().max_messages(1).expires(limit).messages().await,
            None => consumer.fetch().max_messages(1).messages().await,
        }
    };
    let wait = async {
        let mut batch = requested.await.map_err(|e| storage.error(e))?;
        batch.next().await.transpose().map_err(|e| storage.error(e))
    };
    let limit = limit.map_or(ANSWER_LIMIT, |limit| limit.saturating_add(ANSWER_DELAY));
    match tokio::time::timeout(limit, wait).await {
        Ok(message) => message,
        Err(_) => Err(storage.error("the broker does not answer")),
    }
}

impl TargetQueues {
    /// Forgets the queues, which are opened again when they are needed. A message that is held stays.
    pub fn close(&mut self) {
        self.consumers.clear();
    }

    /// Returns the message that a wait received.
    pub fn take_held(&mut self) -> Option<HeldMessage> {
        self.held.take()
    }

    async fn open(&mut self, storage: &Storage, name: &str, lease: Duration) -> Result<PullConsumer, QueueError> {
        if let Some(known) = self.consumers.get(name) {
            return Ok(known.clone());
        }
        let consumer = storage.open_target(name, lease).await?;
        self.consumers.insert(name.to_owned(), consumer.clone());
        Ok(consumer)
    }

    /// Returns a run's message from the first of these queues that has one now.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn take(
        &mut self,
        storage: &Storage,
        names: &[String],
        lease: Duration,
    ) -> Result<Option<HeldMessage>, QueueError> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        let last = self.last.clone().filter(|last| names.contains(last));
        let others = names.iter().filter(|name| last.as_ref() != Some(*name));
        for name in last.iter().chain(others) {
            let consumer = self.open(storage, name, lease).await?;
            if let Some(message) = request(storage, &consumer, None).await? {
                self.last = Some(name.clone());
                return Ok(Some(HeldMessage::new(message, lease)));
            }
        }
        Ok(None)
    }

    /// Receives a message for the next [`Self::take`], if one is there now.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn prefetch(&mut self, storage: &Storage, names: &[String], lease: Duration) -> Result<(), QueueError> {
        self.held = self.take(storage, names, lease).await?;
        Ok(())
    }

    /// Waits until one of these queues has a message, at most for `limit`, and keeps it for [`Self::take`]. Returns
    /// whether there is one.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn wait(
        &mut self,
        storage: &Storage,
        names: &[String],
        lease: Duration,
        limit: Duration,
    ) -> Result<bool, QueueError> {
        if self.held.is_some() {
            return Ok(true);
        }
        let mut waits = Vec::new();
        for name in names {
            let consumer = self.open(storage, name, lease).await?;
            let storage = storage.clone();
            waits.push(Box::pin(async move { request(&storage, &consumer, Some(limit)).await }));
        }
        while !waits.is_empty() {
            let (received, index, others) = select_all(waits).await;
            if let Some(message) = received? {
                self.held = Some(HeldMessage::new(message, lease));
                self.last = names.get(index).cloned();
                for other in others {
                    // The broker may deliver to a request that nobody waits for any more: its run goes to others at once.
                    tokio::spawn(async move {
                        if let Ok(Some(message)) = other.await {
                            HeldMessage::new(message, lease).give_back(None).await;
                        }
                    });
                }
                return Ok(true);
            }
            waits = others;
        }
        Ok(false)
    }
}
