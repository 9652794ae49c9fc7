//! The tables of the queue's file: their entries, and what is read and changed in a transaction.

use crate::result_log::LogEntry;
use crate::run::{LeasedRun, Run, RunId};
use crate::run_result::RunResult;
use crate::work::WorkItem;
use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum size of an entry, bytes.
pub const MAX_ENTRY_BYTES: usize = 1 << 20;
/// Maximum number of reasons of earlier attempts that are kept.
const MAX_REASONS: usize = 8;

type IdKey = &'static [u8; 16];

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const WORKS: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("works");
pub(super) const RUNS: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("runs");
pub(super) const QUEUED: TableDefinition<'_, (&str, u64), IdKey> = TableDefinition::new("queued");
pub(super) const LEASES: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("leases");
pub(super) const ATTEMPTS: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("attempts");
pub(super) const RESULTS: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("results");
/// Runs that were given to a broker, with the number of times.
pub(super) const PUBLISHED: TableDefinition<'_, IdKey, u64> = TableDefinition::new("published");

/// A run as stored: its work is in a table of its own, because many runs share it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredRun {
    pub(super) target: String,
    pub(super) repeat: u32,
    pub(super) work: RunId,
    pub(super) queued_ms: u64,
    pub(super) position: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredLease {
    pub(super) worker: String,
    pub(super) token: u64,
    pub(super) deadline_ms: u64,
}

/// Attempts of a run that has no result.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredAttempts {
    /// Number of attempts that may have executed, without the current one.
    pub(super) count: u32,
    /// Why they had no result, the last ones.
    pub(super) reasons: Vec<String>,
}

impl StoredAttempts {
    fn add(&mut self, reason: &str) {
        self.count = self.count.saturating_add(1);
        if self.reasons.len() >= MAX_REASONS {
            self.reasons.remove(0);
        }
        self.reasons.push(reason.chars().take(1024).collect());
    }
}

/// Parses an entry. The limit holds before anything is allocated.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if bytes.len() > MAX_ENTRY_BYTES {
        return Err(format!("{} bytes (at most {MAX_ENTRY_BYTES})", bytes.len()));
    }
    serde_json::from_slice(bytes).map_err(|e| e.to_string())
}

/// Parses an entry of any table, a line of a log, or a message of a broker. Returns whether it is one. For fuzzing.
#[must_use]
pub fn parse_entry(bytes: &[u8]) -> bool {
    let result = parse::<RunResult>(bytes).is_ok();
    let work = parse::<WorkItem>(bytes).is_ok_and(|w| !w.kind().is_empty());
    let run = parse::<Run>(bytes).is_ok_and(|r| r.has_own_id());
    let state = parse::<StoredLease>(bytes).is_ok() || parse::<StoredAttempts>(bytes).is_ok();
    let message = crate::messages::parse_message(bytes) || LogEntry::parse(bytes).is_ok();
    parse::<StoredRun>(bytes).is_ok() || result || work || run || state || message
}

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, redb::Error> {
    serde_json::to_vec(value).map_err(|e| redb::Error::Io(std::io::Error::other(e)))
}

/// An error of one operation, before it has the path of the queue.
pub(super) enum Failure {
    Storage(redb::Error),
    Entry(String, String),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(e: E) -> Self {
        Self::Storage(e.into())
    }
}

pub(super) fn entry<T: DeserializeOwned>(id: &RunId, bytes: &[u8]) -> Result<T, Failure> {
    parse(bytes).map_err(|reason| Failure::Entry(id.to_string(), reason))
}

/// Returns and raises a counter.
pub(super) fn next(meta: &mut Table<'_, &'static str, u64>, name: &'static str) -> Result<u64, Failure> {
    let n = meta.get(name)?.map_or(0, |n| n.value());
    meta.insert(name, n.saturating_add(1))?;
    Ok(n)
}

/// Reads a run with its work.
pub(super) fn read_run(
    runs: &impl ReadableTable<IdKey, &'static [u8]>,
    works: &impl ReadableTable<IdKey, &'static [u8]>,
    id: &RunId,
) -> Result<Option<(Run, StoredRun)>, Failure> {
    let Some(bytes) = runs.get(id.bytes())? else {
        return Ok(None);
    };
    let stored: StoredRun = entry(id, bytes.value())?;
    let Some(work) = works.get(stored.work.bytes())? else {
        return Err(Failure::Entry(id.to_string(), "its work is missing".to_owned()));
    };
    let run = Run {
        id: *id,
        target: stored.target.clone(),
        repeat: stored.repeat,
        work: entry(&stored.work, work.value())?,
    };
    Ok(Some((run, stored)))
}

pub(super) fn id_of(key: &[u8; 16]) -> RunId {
    RunId::from_bytes(*key)
}

/// Queues a run again at its former position.
pub(super) fn requeue(write: &WriteTransaction, id: &RunId, reason: Option<&str>) -> Result<(), Failure> {
    let runs = write.open_table(RUNS)?;
    let mut leases = write.open_table(LEASES)?;
    let mut queued = write.open_table(QUEUED)?;
    leases.remove(id.bytes())?;
    if write.open_table(RESULTS)?.get(id.bytes())?.is_some() {
        return Ok(());
    }
    let Some(bytes) = runs.get(id.bytes())? else {
        return Ok(());
    };
    let stored: StoredRun = entry(id, bytes.value())?;
    queued.insert((stored.target.as_str(), stored.position), id.bytes())?;
    let Some(reason) = reason else { return Ok(()) };
    let mut attempts = write.open_table(ATTEMPTS)?;
    let mut known = read_attempts(&attempts, id)?;
    known.add(reason);
    attempts.insert(id.bytes(), encode(&known)?.as_slice())?;
    Ok(())
}

pub(super) fn read_attempts(
    attempts: &impl ReadableTable<IdKey, &'static [u8]>,
    id: &RunId,
) -> Result<StoredAttempts, Failure> {
    match attempts.get(id.bytes())? {
        Some(bytes) => entry(id, bytes.value()),
        None => Ok(StoredAttempts::default()),
    }
}

/// Returns the first queued run of a target, with its position.
pub(super) fn first_queued(
    queued: &impl ReadableTable<(&'static str, u64), IdKey>,
    target: &str,
) -> Result<Option<(u64, RunId)>, Failure> {
    let first = queued.range((target, 0)..=(target, u64::MAX))?.next().transpose()?;
    Ok(first.map(|(key, id)| (key.value().1, id_of(id.value()))))
}

/// Lists the leases that `is_over` selects, with the name of the worker.
pub(super) fn find_leases(
    leases: &impl ReadableTable<IdKey, &'static [u8]>,
    is_over: impl Fn(&StoredLease) -> bool,
) -> Result<Vec<(RunId, String)>, Failure> {
    let mut found = Vec::new();
    for item in leases.iter()? {
        let (key, bytes) = item?;
        let id = id_of(key.value());
        let lease: StoredLease = entry(&id, bytes.value())?;
        if is_over(&lease) {
            found.push((id, lease.worker));
        }
    }
    Ok(found)
}

/// Whether a lease of the run is this one.
pub(super) fn is_current(
    leases: &impl ReadableTable<IdKey, &'static [u8]>,
    leased: &LeasedRun,
) -> Result<bool, Failure> {
    let id = leased.run.id;
    match leases.get(id.bytes())? {
        Some(bytes) => Ok(entry::<StoredLease>(&id, bytes.value())?.token == leased.token),
        None => Ok(false),
    }
}
