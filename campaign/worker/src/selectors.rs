//! The selectors of labels that descriptions have used: workers look for runs behind those that match their targets.

use crate::storage::{Storage, target_word};
use async_nats::jetstream::kv::Operation;
use futures_util::StreamExt as _;
use kinescope_campaign::{Labels, QueueError, TargetSelector};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Maximum number of selectors that are known.
const MAX_SELECTORS: usize = 10_000;
/// Pause before the list is read again after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// The known selectors, by their text.
pub struct SelectorList {
    known: Mutex<BTreeMap<String, TargetSelector>>,
    changes: watch::Sender<u64>,
}

impl Default for SelectorList {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }
}

impl SelectorList {
    /// Returns a receiver that changes when a selector is added.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the selectors that match labels, in order of their texts.
    #[must_use]
    pub fn matching(&self, labels: &Labels) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let matching = known.iter().filter(|(_, selector)| selector.matches(labels));
        matching.map(|(text, _)| text.clone()).collect()
    }

    fn add(&self, text: &str) {
        let selector = match TargetSelector::parse(text) {
            Ok(selector) => selector,
            Err(e) => {
                tracing::warn!("a selector on the broker is refused: {e}");
                return;
            }
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_SELECTORS && known.insert(text.to_owned(), selector).is_none() {
            self.changes.send_modify(|n| *n = n.wrapping_add(1));
        }
    }

    /// Reads the list and its changes, for ever.
    pub async fn follow(self: Arc<Self>, storage: Storage) {
        loop {
            if let Err(e) = self.follow_once(&storage).await {
                tracing::debug!("the list of selectors is not read: {e}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow_once(&self, storage: &Storage) -> Result<(), QueueError> {
        let mut watch = storage
            .selectors
            .watch_with_history(">")
            .await
            .map_err(|e| storage.error(e))?;
        while let Some(entry) = watch.next().await {
            let entry = entry.map_err(|e| storage.error(e))?;
            if entry.operation == Operation::Put
                && let Ok(text) = std::str::from_utf8(&entry.value)
            {
                self.add(text);
            }
        }
        Ok(())
    }
}

/// Adds a selector to the broker's list.
///
/// # Errors
/// If the broker does not answer.
pub async fn publish(storage: &Storage, selector: &str) -> Result<(), QueueError> {
    let value = selector.to_owned().into();
    let put = storage.selectors.put(target_word(selector), value).await;
    put.map(drop).map_err(|e| storage.error(e))
}
