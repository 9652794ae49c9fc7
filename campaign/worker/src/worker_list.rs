//! The list of workers on the broker: each reports its targets and their labels, and is gone when it no longer does.

use crate::storage::Storage;
use async_nats::jetstream::kv::Operation;
use futures_util::StreamExt as _;
use kinescope_campaign::{Labels, QueueError, TargetSelector};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which a worker reports itself.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Time without a report after which a worker counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(20);
/// Maximum number of workers that are known.
const MAX_WORKERS: usize = 100_000;
/// Maximum size of a report, bytes.
const MAX_REPORT_BYTES: usize = 256 << 10;
/// Maximum number of targets of a worker.
pub const MAX_TARGETS: usize = 1024;
/// Pause before the list is read again after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// A target of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferedTarget {
    /// Its name.
    pub name: String,
    /// Its labels; empty if it was never open.
    pub labels: Labels,
}

/// What a worker reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerReport {
    /// Name of the worker.
    pub worker: String,
    /// Its targets that can be used now.
    pub targets: Vec<OfferedTarget>,
}

impl WorkerReport {
    /// Parses a report. The limits hold before anything is kept.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let report: Self = (bytes.len() <= MAX_REPORT_BYTES)
            .then(|| serde_json::from_slice(bytes).ok())
            .flatten()?;
        (report.targets.len() <= MAX_TARGETS).then_some(report)
    }

    /// Writes the report to the broker. `key` is the worker's own.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn publish(&self, storage: &Storage, key: &str) -> Result<(), QueueError> {
        let bytes = serde_json::to_vec(self).map_err(|e| storage.error(e))?;
        let put = storage.workers.put(key, bytes.into()).await;
        put.map(drop).map_err(|e| storage.error(e))
    }
}

/// The workers that the client of a campaign knows.
#[derive(Default)]
pub struct WorkerList {
    known: Mutex<BTreeMap<String, (Instant, WorkerReport)>>,
}

impl WorkerList {
    /// Reads the list and its changes, for ever.
    pub async fn follow(self: Arc<Self>, storage: Storage) {
        loop {
            if let Err(e) = self.follow_once(&storage).await {
                tracing::debug!("the list of workers is not read: {e}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow_once(&self, storage: &Storage) -> Result<(), QueueError> {
        let mut watch = storage.workers.watch_all().await.map_err(|e| storage.error(e))?;
        while let Some(entry) = watch.next().await {
            let entry = entry.map_err(|e| storage.error(e))?;
            self.change(entry.key, entry.operation == Operation::Put, &entry.value);
        }
        Ok(())
    }

    fn change(&self, key: String, is_there: bool, bytes: &[u8]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (seen, _)| seen.elapsed() < GONE_AFTER);
        match WorkerReport::parse(bytes).filter(|_| is_there) {
            Some(report) if known.len() < MAX_WORKERS => drop(known.insert(key, (Instant::now(), report))),
            Some(_) => {}
            None => drop(known.remove(&key)),
        }
    }

    /// Returns those of the given targets and selectors that a worker can run now.
    #[must_use]
    pub fn offered<'a>(&self, targets: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let there = known.values().filter(|(seen, _)| seen.elapsed() < GONE_AFTER);
        let offers: Vec<&OfferedTarget> = there.flat_map(|(_, report)| &report.targets).collect();
        let names: BTreeSet<&str> = offers.iter().map(|t| t.name.as_str()).collect();
        let is_offered = |target: &&str| match TargetSelector::parse(target) {
            Ok(selector) => offers.iter().any(|t| selector.matches(&t.labels)),
            Err(_) => names.contains(target),
        };
        targets.filter(is_offered).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_offered_by_name_and_by_label() {
        let list = WorkerList::default();
        let report = WorkerReport {
            worker: "w".into(),
            targets: vec![OfferedTarget {
                name: "agent:lab/mali-g71".into(),
                labels: [("gpu".to_owned(), "mali-g71".to_owned())].into(),
            }],
        };
        let bytes = serde_json::to_vec(&report).unwrap();
        list.change("w".into(), true, &bytes);
        list.change("x".into(), true, b"{");
        assert_eq!(list.known.lock().unwrap().len(), 1);
        let wanted = [
            "agent:lab/mali-g71",
            "label:gpu=mali-g71",
            "label:gpu=mali-g52",
            "cuda:0",
        ];
        let offered = list.offered(wanted.into_iter());
        assert_eq!(offered.into_iter().collect::<Vec<_>>(), &wanted[..2]);
        list.change("w".into(), false, &bytes);
        assert!(list.offered(wanted.into_iter()).is_empty());
    }
}
