//! A run's message that this worker has: its lease is extended until it is acknowledged, returned or dropped.

use crate::held_list::HeldList;
use crate::storage::Storage;
use async_nats::Client;
use async_nats::jetstream::{AckKind, Message, message::Acker};
use bytes::Bytes;
use kinescope_campaign::QueueError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Number of extensions in the time of a lease.
const EXTENSIONS: u32 = 3;

/// A message that this worker has.
pub struct HeldMessage {
    /// Its subject.
    pub subject: String,
    /// Its content.
    pub payload: Bytes,
    /// Its number in the queue of runs.
    pub sequence: u64,
    /// Number of times that it was delivered to a worker, from 1.
    pub deliveries: u64,
    acker: Arc<Acker>,
    extension: AbortHandle,
    list: Arc<HeldList>,
    is_listed: AtomicBool,
}

impl Drop for HeldMessage {
    fn drop(&mut self) {
        self.extension.abort();
        self.remove_from_list();
    }
}

impl HeldMessage {
    /// Takes a message, and extends its lease from now on. Returns `None` if this worker has it: a broker that was killed
    /// delivers messages again, and the first delivery answers for both.
    #[must_use]
    pub fn new(message: Message, list: Arc<HeldList>, lease: Duration) -> Option<Self> {
        let (sequence, deliveries) = message.info().map_or((0, 1), |info| {
            (info.stream_sequence, u64::try_from(info.delivered).unwrap_or(1))
        });
        let subject = message.reply.as_ref().map_or("", |reply| reply.as_str());
        if !list.add(sequence, subject) {
            return None;
        }
        let (message, acker) = message.split();
        let acker = Arc::new(acker);
        let extended = Arc::clone(&acker);
        let touched = Arc::clone(&list);
        let extension = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(lease / EXTENSIONS);
            // The lease begins now.
            ticks.tick().await;
            loop {
                ticks.tick().await;
                match extended.ack_with(AckKind::Progress).await {
                    Ok(()) => touched.touch(),
                    Err(e) => tracing::warn!("a lease was not extended: {e}"),
                }
            }
        });
        Some(Self {
            subject: message.subject.to_string(),
            payload: message.payload,
            sequence,
            deliveries,
            acker,
            extension: extension.abort_handle(),
            list,
            is_listed: AtomicBool::new(true),
        })
    }

    fn remove_from_list(&self) {
        if self.is_listed.swap(false, Ordering::AcqRel) {
            self.list.remove(self.sequence);
        }
    }

    /// Removes the message from the queue, and waits for the broker's answer.
    ///
    /// # Errors
    /// If the broker does not answer: it delivers the message again later.
    pub async fn acknowledge(&self, storage: &Storage) -> Result<(), QueueError> {
        self.acker.double_ack().await.map_err(|e| storage.error(e))
    }

    /// Removes the message from the queue without an answer. If that is lost, the broker delivers the message again.
    pub async fn acknowledge_without_answer(&self) {
        if let Err(e) = self.acker.ack().await {
            tracing::warn!("a run was not acknowledged: {e}");
        }
    }

    /// Removes a message that no worker can use from the queue.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn refuse(&self, storage: &Storage) -> Result<(), QueueError> {
        let refused = self.acker.double_ack_with(AckKind::Term).await;
        refused.map_err(|e| storage.error(e))
    }

    /// Returns the message to the queue, for the next worker after `delay`. A broker that is not there delivers it again
    /// at the end of the lease.
    pub async fn give_back(&self, delay: Option<Duration>) {
        // The broker may deliver it to this worker again before this ends.
        self.remove_from_list();
        if let Err(e) = self.acker.ack_with(AckKind::Nak(delay)).await {
            tracing::warn!("a run was not returned: {e}");
        }
    }
}

/// Returns messages that an earlier process of this worker had to the queue.
pub async fn give_back_earlier(client: &Client, subjects: Vec<String>) {
    for subject in subjects {
        if let Err(e) = client.publish(subject, AckKind::Nak(None).into()).await {
            tracing::warn!("a run of an earlier process was not returned: {e}");
        }
    }
}
