//! Attempts of runs on the broker: how often a run was started, and by whom. They outlive workers.

use crate::storage::Storage;
use async_nats::jetstream::kv::{CreateErrorKind, Operation, UpdateErrorKind};
use kinescope_campaign::QueueError;
use serde::{Deserialize, Serialize};

/// Maximum size of an entry, bytes.
const MAX_ENTRY_BYTES: usize = 64 << 10;
/// Maximum number of reasons that are kept.
const MAX_REASONS: usize = 8;
/// Maximum length of a reason, characters.
const MAX_REASON: usize = 1024;

/// The attempts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempts {
    /// Number of attempts that may have executed, with the current one.
    pub count: u32,
    /// Worker that has the run now.
    pub holder: Option<String>,
    /// Random number of the request that started the current attempt. A worker that repeats a request, because its answer
    /// was lost, knows its own attempt by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Why earlier attempts had no result, oldest first.
    pub reasons: Vec<String>,
    /// Publication of the run whose result was reported.
    pub done: Option<u64>,
}

/// The attempts of a run, with their revision on the broker.
#[derive(Clone, Debug)]
pub struct StartedAttempt {
    /// Key of the entry.
    pub key: String,
    /// The entry.
    pub attempts: Attempts,
    /// Its revision: a change is refused if another worker changed it meanwhile.
    pub revision: u64,
}

/// What became of the start of an attempt.
#[derive(Debug)]
pub enum Start {
    /// The attempt is noted and may begin.
    Started(StartedAttempt),
    /// The run has a result.
    IsDone,
    /// Another worker started the run at the same time.
    Conflict,
}

impl Attempts {
    /// Notes why an attempt had no result.
    fn add_reason(&mut self, reason: &str) {
        if self.reasons.len() >= MAX_REASONS {
            self.reasons.remove(0);
        }
        self.reasons.push(reason.chars().take(MAX_REASON).collect());
    }

    /// Begins the next attempt by a worker.
    fn begin(&mut self, worker: &str, start: u64) {
        if let Some(holder) = self.holder.take() {
            self.add_reason(&format!("{holder} ended without a result"));
        }
        if self.done.take().is_some() {
            self.add_reason("its result was lost");
        }
        self.count = self.count.saturating_add(1);
        self.holder = Some(worker.to_owned());
        self.start = Some(start);
    }

    /// Returns the run to the queue. Without a reason the attempt cannot have executed, and does not count.
    fn end(&mut self, reason: Option<&str>) {
        self.holder = None;
        self.start = None;
        match reason {
            Some(reason) => self.add_reason(reason),
            None => self.count = self.count.saturating_sub(1),
        }
    }

    /// Notes that the run of this publication has a result.
    fn finish(&mut self, publication: u64) {
        self.holder = None;
        self.start = None;
        self.done = Some(publication);
    }

    /// Parses an entry. A damaged one counts as an attempt whose end is unknown.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let parsed = (bytes.len() <= MAX_ENTRY_BYTES).then(|| serde_json::from_slice(bytes).ok());
        let mut attempts: Self = parsed.flatten().unwrap_or_else(|| Self {
            count: 1,
            reasons: vec!["the note of the attempt is damaged".to_owned()],
            ..Self::default()
        });
        attempts.reasons.truncate(MAX_REASONS);
        for reason in &mut attempts.reasons {
            if reason.chars().count() > MAX_REASON {
                *reason = reason.chars().take(MAX_REASON).collect();
            }
        }
        attempts
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Numbers and texts always have a form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Who starts a run.
#[derive(Clone, Copy, Debug)]
pub struct Starter<'a> {
    /// Name of the worker.
    pub worker: &'a str,
    /// Random number of this start. A request that is repeated has the same one.
    pub start: u64,
}

/// Notes that a worker starts a run. `publication` is the number of the message.
///
/// # Errors
/// If the broker does not answer.
pub async fn start(
    storage: &Storage,
    key: String,
    starter: Starter<'_>,
    publication: u64,
) -> Result<Start, QueueError> {
    let mut attempts = Attempts::default();
    attempts.begin(starter.worker, starter.start);
    match storage.leases.create(&key, attempts.encode().into()).await {
        Ok(revision) => {
            return Ok(Start::Started(StartedAttempt {
                key,
                attempts,
                revision,
            }));
        }
        Err(e) if e.kind() == CreateErrorKind::AlreadyExists => {}
        Err(e) => return Err(storage.error(e)),
    }
    let entry = storage.leases.entry(&key).await.map_err(|e| storage.error(e))?;
    let Some(entry) = entry.filter(|e| e.operation == Operation::Put) else {
        return Ok(Start::Conflict);
    };
    let mut attempts = Attempts::parse(&entry.value);
    // A client publishes a run again only if its result was lost.
    if attempts.done.is_some_and(|done| done >= publication) {
        return Ok(Start::IsDone);
    }
    if attempts.start == Some(starter.start) {
        // An earlier request did it, and its answer was lost.
        return Ok(Start::Started(StartedAttempt {
            key,
            attempts,
            revision: entry.revision,
        }));
    }
    attempts.begin(starter.worker, starter.start);
    let started = StartedAttempt {
        key,
        attempts,
        revision: entry.revision,
    };
    change(storage, started).await
}

/// Notes that a run goes back to the queue. Without a reason the attempt does not count.
///
/// # Errors
/// If the broker does not answer.
pub async fn release(storage: &Storage, mut started: StartedAttempt, reason: Option<&str>) -> Result<(), QueueError> {
    started.attempts.end(reason);
    change(storage, started).await.map(drop)
}

/// Notes that the run has a result. If another worker has it meanwhile, nothing changes.
///
/// # Errors
/// If the broker does not answer.
pub async fn finish(storage: &Storage, mut started: StartedAttempt, publication: u64) -> Result<(), QueueError> {
    started.attempts.finish(publication);
    change(storage, started).await.map(drop)
}

async fn change(storage: &Storage, started: StartedAttempt) -> Result<Start, QueueError> {
    let value = started.attempts.encode().into();
    match storage.leases.update(&started.key, value, started.revision).await {
        Ok(revision) => Ok(Start::Started(StartedAttempt { revision, ..started })),
        Err(e) if e.kind() == UpdateErrorKind::WrongLastRevision => Ok(Start::Conflict),
        Err(e) => Err(storage.error(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_may_have_executed_count() {
        let mut attempts = Attempts::default();
        attempts.begin("a", 1);
        assert_eq!((attempts.count, attempts.reasons.len()), (1, 0));
        // Its worker died.
        attempts.begin("b", 2);
        assert_eq!(attempts.count, 2);
        assert_eq!(attempts.reasons, ["a ended without a result"]);
        attempts.end(None);
        attempts.begin("c", 3);
        assert_eq!((attempts.count, attempts.reasons.len()), (2, 1));
        attempts.end(Some("lost"));
        attempts.begin("d", 4);
        assert_eq!((attempts.count, attempts.reasons.len()), (3, 2));
        assert_eq!(Attempts::parse(&attempts.encode()), attempts);
        // Its result was lost with the broker's disk: the next attempt says why it is one.
        let mut finished = attempts.clone();
        finished.finish(0);
        finished.begin("e", 5);
        assert_eq!((finished.count, finished.done), (4, None));
        assert_eq!(
            finished.reasons,
            ["a ended without a result", "lost", "its result was lost"]
        );
        for n in 0..20 {
            attempts.begin(&n.to_string(), n);
        }
        assert_eq!(attempts.reasons.len(), MAX_REASONS);
        let damaged = Attempts::parse(b"{");
        assert_eq!((damaged.count, damaged.reasons.len()), (1, 1));
    }
}
