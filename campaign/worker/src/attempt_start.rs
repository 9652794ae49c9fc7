//! The start of an attempt: it is noted on the broker while the run is prepared for its target.

use crate::attempts::{self, Start, StartedAttempt, Starter};
use crate::connection::ConnectionState;
use crate::held_message::HeldMessage;
use crate::reporting::Reporter;
use crate::storage::{Storage, lease_key};
use kinescope_campaign::{LeasedRun, MAX_ATTEMPTS, QueueError, RunId, RunResult, StartAnswer};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Pause after an error of the broker.
pub const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// Time that a run stays away from workers after one could not use it.
pub const RETURN_DELAY: Duration = Duration::from_secs(2);

/// An attempt that is to be noted.
pub struct AttemptStart {
    pub storage: Storage,
    pub reporter: Arc<Reporter>,
    pub connection: Arc<ConnectionState>,
    pub worker: String,
    pub target: String,
    pub campaign: RunId,
    pub publication: u64,
    pub leased: LeasedRun,
    pub message: Arc<HeldMessage>,
}

impl AttemptStart {
    /// Notes the attempt, and answers whether it may begin. Returns the noted attempt; without one, the message is
    /// acknowledged or returned.
    pub async fn run(self, answer: Sender<StartAnswer>) -> Option<StartedAttempt> {
        // Random: no other start has this number.
        let start = RandomState::new().hash_one(self.leased.token);
        let started = match self.connection.repeat_if_lost(|| self.note(start)).await {
            Ok(started) => started,
            Err(e) => {
                tracing::warn!(run = %self.leased.run.id, "an attempt was not noted: {e}");
                self.message.give_back(Some(RETURN_DELAY)).await;
                // The target's thread waits: it would only meet the same error.
                tokio::time::sleep(ERROR_PAUSE).await;
                None
            }
        };
        let sent = answer.send(match &started {
            Some(started) => StartAnswer::Started {
                attempt: started.attempts.count,
                earlier_attempts: started.attempts.reasons.clone(),
            },
            None => StartAnswer::Withdrawn,
        });
        if sent.is_err() {
            tracing::debug!(run = %self.leased.run.id, "nobody waits for the start of a run");
        }
        started
    }

    async fn note(&self, start: u64) -> Result<Option<StartedAttempt>, QueueError> {
        let key = lease_key(self.campaign, self.leased.run.id);
        let starter = Starter {
            worker: &self.worker,
            start,
        };
        let started = match attempts::start(&self.storage, key, starter, self.publication).await? {
            Start::Started(started) => started,
            Start::IsDone => {
                self.message.acknowledge(&self.storage).await?;
                return Ok(None);
            }
            Start::Conflict => {
                self.message.give_back(Some(RETURN_DELAY)).await;
                return Ok(None);
            }
        };
        if started.attempts.count <= MAX_ATTEMPTS {
            return Ok(Some(started));
        }
        let leased = LeasedRun {
            attempt: started.attempts.count.saturating_sub(1),
            earlier_attempts: started.attempts.reasons.clone(),
            ..self.leased.clone()
        };
        let reason = leased.earlier_attempts.last().cloned().unwrap_or_default();
        let result = RunResult::lost(&leased, &self.target, &self.worker, &reason);
        self.reporter
            .report_unexecuted(&self.target, self.campaign, &result, &self.message)
            .await?;
        Ok(None)
    }
}
