//! Reports of a worker to the client of a campaign: results with their kept files, and messages that were refused.

use crate::attempts::{self, StartedAttempt};
use crate::counters::Counters;
use crate::file_store::FileStore;
use crate::held_message::HeldMessage;
use crate::storage::{Storage, campaign_of_subject, result_subject};
use async_nats::jetstream::message::PublishMessage;
use kinescope_campaign::messages::{KeptFile, MAX_KEPT_FILES, MessageError, WorkerMessage, encode, is_suffix};
use kinescope_campaign::{QueueError, RunId, RunResult};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Pause after an error of the broker.
const PAUSE: Duration = Duration::from_millis(500);
/// Time that a stopped worker tries to report a result.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Maximum length of a text in a result that was too long as a whole, characters.
const MAX_SHORT_TEXT: usize = 1024;

/// Reports to clients.
pub struct Reporter {
    storage: Storage,
    files: FileStore,
    counters: Arc<Counters>,
    /// Folder of kept outcomes until they are sent.
    outcomes: PathBuf,
    stop: Progress,
}

/// Returns the name of a kept file in the store. It is the run's own: equal files of two runs are two objects.
#[must_use]
pub fn object_name(campaign: RunId, result: &RunResult, suffix: &str) -> String {
    format!("outcome-{campaign}-{}{suffix}", result.file_prefix())
}

/// Returns the folder of a campaign's kept files in the folder of all. Equal work has the same run in every campaign.
#[must_use]
pub fn campaign_folder(outcomes: &Path, campaign: RunId) -> PathBuf {
    outcomes.join(campaign.to_string())
}

/// Lists the kept files of a campaign's run, each with the end of its name.
fn list_kept(outcomes: &Path, campaign: RunId, result: &RunResult) -> Vec<(String, PathBuf)> {
    let prefix = result.file_prefix();
    let folder = campaign_folder(outcomes, campaign);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut kept: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let suffix = entry.file_name().to_str()?.strip_prefix(&prefix)?.to_owned();
            is_suffix(&suffix).then(|| (suffix, entry.path()))
        })
        .take(MAX_KEPT_FILES)
        .collect();
    kept.sort();
    kept
}

/// Encodes a result. One that is too long has shorter texts, and no details if that is not enough.
fn encode_result(result: &RunResult, kept: &[KeptFile]) -> Result<Vec<u8>, MessageError> {
    let try_encode = |result: &RunResult| encode(&WorkerMessage::of_result(result, kept.to_vec()));
    if let Ok(message) = try_encode(result) {
        return Ok(message);
    }
    let mut result = shorten(result);
    if let Ok(message) = try_encode(&result) {
        return Ok(message);
    }
    result.details = None;
    let before = result.failure.take().map_or_else(String::new, |f| f + "; ");
    result.failure = Some(format!("{before}the details of the run are too long for a message"));
    try_encode(&result)
}

/// Returns a result with shorter texts.
fn shorten(result: &RunResult) -> RunResult {
    let short = |text: &String| text.chars().take(MAX_SHORT_TEXT).collect::<String>();
    let mut result = result.clone();
    result.failure = result.failure.as_ref().map(short);
    if let Some(divergence) = &mut result.divergence {
        divergence.text = short(&divergence.text);
    }
    result.earlier_attempts = result.earlier_attempts.iter().map(short).collect();
    result
}

impl Reporter {
    /// Creates a reporter. After `stop` is cancelled, results are tried for some seconds only.
    #[must_use]
    pub fn new(storage: Storage, files: FileStore, counters: Arc<Counters>, outcomes: PathBuf, stop: Progress) -> Self {
        Self {
            storage,
            files,
            counters,
            outcomes,
            stop,
        }
    }

    /// Reports a result, with its kept files.
    ///
    /// # Errors
    /// If the broker does not answer.
    async fn report(&self, campaign: RunId, result: &RunResult) -> Result<(), QueueError> {
        let mut result = result.clone();
        let mut kept = Vec::new();
        for (suffix, path) in list_kept(&self.outcomes, campaign, &result) {
            let object = object_name(campaign, &result, &suffix);
            match self.files.upload_as(&object, &path).await {
                Ok((digest, bytes)) => kept.push(KeptFile { suffix, digest, bytes }),
                Err(e) if e.is_temporary() && path.exists() => return Err(self.storage.error(e)),
                Err(e) => {
                    let before = result.failure.take().map_or_else(String::new, |f| f + "; ");
                    result.failure = Some(format!("{before}a file was not kept: {e}"));
                }
            }
        }
        let message = encode_result(&result, &kept).map_err(|e| self.storage.error(e))?;
        // A report that was sent twice is dropped.
        let id = format!("{campaign}.{}.{}.{}", result.run, result.attempt, result.worker);
        self.publish(campaign, message, id).await
    }

    /// Reports the result of a run that was executed, notes the end of its attempt, and acknowledges its message. A worker
    /// that is stopped tries it for some seconds; without a report, which `false` says, the broker delivers the run again.
    pub async fn finish(
        &self,
        campaign: RunId,
        publication: u64,
        result: &RunResult,
        message: &HeldMessage,
        started: StartedAttempt,
    ) -> bool {
        if !self.report_until_stopped(campaign, result).await {
            return false;
        }
        // The broker has the result. If one of these is lost, the other one tells a worker that the run is done. If the
        // connection is lost, both are.
        let started = &started;
        let end = || async move {
            let (noted, ()) = tokio::join!(
                attempts::finish(&self.storage, started.clone(), publication),
                message.acknowledge_without_answer(),
            );
            noted
        };
        if let Err(e) = self.counters.connection.repeat_if_lost(end).await {
            tracing::warn!("the end of an attempt was not noted: {e}");
        }
        true
    }

    /// Reports a result of a run that was not executed here, and acknowledges its message.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn report_unexecuted(
        &self,
        target: &str,
        campaign: RunId,
        result: &RunResult,
        message: &HeldMessage,
    ) -> Result<(), QueueError> {
        self.report(campaign, result).await?;
        self.counters.count_result(target, result);
        message.acknowledge(&self.storage).await
    }

    /// Reports a result until the broker has it, and removes its kept files. Returns `false` if the worker was stopped and
    /// the broker does not have it.
    async fn report_until_stopped(&self, campaign: RunId, result: &RunResult) -> bool {
        let mut stopped: Option<Instant> = None;
        let is_reported = loop {
            let report = self.report(campaign, result);
            match self.counters.connection.unless_lost(report).await {
                Some(Ok(())) => break true,
                // Its answer was lost. A second report is dropped.
                None => continue,
                Some(Err(e)) => tracing::warn!(run = %result.run, "a result is not reported yet: {e}"),
            }
            if self.stop.check().is_err() && stopped.get_or_insert_with(Instant::now).elapsed() > STOP_LIMIT {
                break false;
            }
            tokio::time::sleep(PAUSE).await;
            if let Err(e) = self.storage.restore().await {
                tracing::debug!("the storage is not there: {e}");
            }
        };
        for (_, path) in list_kept(&self.outcomes, campaign, result) {
            if let Err(e) = tokio::fs::remove_file(&path).await {
                tracing::debug!("{}: {e}", path.display());
            }
        }
        is_reported
    }

    /// Reports a message that was refused to the campaign that its subject names, if it names one.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn report_refused(
        &self,
        subject: &str,
        worker: &str,
        sequence: u64,
        reason: &MessageError,
    ) -> Result<(), QueueError> {
        let Some(campaign) = campaign_of_subject(subject) else {
            return Ok(());
        };
        let message = WorkerMessage::of_refused(worker, sequence, reason);
        let message = encode(&message).map_err(|e| self.storage.error(e))?;
        self.publish(campaign, message, format!("{campaign}.refused.{sequence}"))
            .await
    }

    async fn publish(&self, campaign: RunId, message: Vec<u8>, id: String) -> Result<(), QueueError> {
        let message = PublishMessage::build().payload(message.into()).message_id(id);
        let sent = self
            .storage
            .jetstream
            .send_publish(result_subject(campaign), message)
            .await;
        let stored = sent.map_err(|e| self.storage.error(e))?.await;
        stored.map(drop).map_err(|e| self.storage.error(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinescope_campaign::messages::MAX_MESSAGE_BYTES;

    /// Returns a result with this number of failed inputs, each with a name and a reason of 250 bytes.
    fn result_with_failed_inputs(count: usize) -> RunResult {
        let failed: serde_json::Map<String, serde_json::Value> = (0..count)
            .map(|n| (format!("{n:0250}"), "t".repeat(250).into()))
            .collect();
        let text = serde_json::json!({
            "run": RunId::from_bytes([7; 16]), "verdict": "failed", "computed": false, "divergence": null,
            "failure": "x".repeat(1000), "on_target": "software:mali-g71", "gpu": "", "queued_ms": 0, "started_ms": 1,
            "ended_ms": 2, "compile_ns": 0, "upload_ns": 0, "run_ns": 0, "device_ns": 0, "memory_bytes": 0,
            "pushed_bytes": 0, "attempt": 1, "earlier_attempts": [], "worker": "w", "fingerprint": "", "outcome": null,
            "details": { "kind": "wasm", "copies": count, "failed": failed, "different": [], "digests": [], "first": "a" },
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_result_with_long_details_is_sent_without_them() {
        let sent = |result: &RunResult| {
            let bytes = encode_result(result, &[]).unwrap();
            assert!(bytes.len() <= MAX_MESSAGE_BYTES);
            match WorkerMessage::parse(&bytes).unwrap() {
                WorkerMessage::Result { result, .. } => *result,
                refused => panic!("{refused:?}"),
            }
        };
        let short = result_with_failed_inputs(100);
        assert_eq!(sent(&short), short);
        let long = sent(&result_with_failed_inputs(1100));
        assert!(long.details.is_none());
        let failure = long.failure.unwrap();
        assert!(
            failure.ends_with("; the details of the run are too long for a message"),
            "{failure}"
        );
    }
}
