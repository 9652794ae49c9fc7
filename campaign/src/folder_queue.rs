//! A queue of runs in a file, for one process at a time. Each change but a result is committed to disk before its method
//! returns. A result is on the disk before its target begins its next run: one commit stores both.
//!
//! The file is a redb database. It is locked while it is open, so every lease that it holds at that time belongs to a
//! process that has ended: its run is queued again, and the attempt counts.

mod publisher;
mod work_counts;

use crate::queue::{Counts, FinishedRun, QueueError, RunQueue, RunSource, WorkCounts};
use crate::result_log::LogEntry;
use crate::run::{LeasedRun, Run, RunId};
use crate::run_result::{RunResult, unix_ms};
use crate::work::WorkItem;
use publisher::ResultPublisher;
use redb::{
    Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase as _, ReadableTable,
    ReadableTableMetadata as _, Table, TableDefinition, WriteTransaction,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum size of an entry, bytes.
pub const MAX_ENTRY_BYTES: usize = 1 << 20;
/// Version of the tables.
const VERSION: u64 = 1;
/// Memory for pages of the file, bytes.
const CACHE_BYTES: usize = 8 << 20;
/// Number of runs that are added in one commit.
const BATCH: usize = 1024;
/// Maximum number of reasons of earlier attempts that are kept.
const MAX_REASONS: usize = 8;

type IdKey = &'static [u8; 16];

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const WORKS: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("works");
const RUNS: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("runs");
const QUEUED: TableDefinition<'_, (&str, u64), IdKey> = TableDefinition::new("queued");
const LEASES: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("leases");
const ATTEMPTS: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("attempts");
const RESULTS: TableDefinition<'_, IdKey, &[u8]> = TableDefinition::new("results");
/// Runs that were given to a broker, with the number of times.
const PUBLISHED: TableDefinition<'_, IdKey, u64> = TableDefinition::new("published");

/// A run as stored: its work is in a table of its own, because many runs share it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRun {
    target: String,
    repeat: u32,
    work: RunId,
    queued_ms: u64,
    position: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLease {
    worker: String,
    token: u64,
    deadline_ms: u64,
}

/// Attempts of a run that has no result.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAttempts {
    /// Number of attempts that may have executed, without the current one.
    count: u32,
    /// Why they had no result, the last ones.
    reasons: Vec<String>,
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

/// A queue in a file.
#[derive(Debug)]
pub struct FolderQueue {
    path: PathBuf,
    /// Where other processes follow the results. Fields are dropped in order: the log of the next process is not removed.
    log: ResultPublisher,
    database: Database,
    /// Whether results wait for the next commit to disk.
    has_unsynced: AtomicBool,
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

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, redb::Error> {
    serde_json::to_vec(value).map_err(|e| redb::Error::Io(std::io::Error::other(e)))
}

/// An error of one operation, before it has the path of the queue.
enum Failure {
    Storage(redb::Error),
    Entry(String, String),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(e: E) -> Self {
        Self::Storage(e.into())
    }
}

fn entry<T: DeserializeOwned>(id: &RunId, bytes: &[u8]) -> Result<T, Failure> {
    parse(bytes).map_err(|reason| Failure::Entry(id.to_string(), reason))
}

/// Returns and raises a counter.
fn next(meta: &mut Table<'_, &'static str, u64>, name: &'static str) -> Result<u64, Failure> {
    let n = meta.get(name)?.map_or(0, |n| n.value());
    meta.insert(name, n.saturating_add(1))?;
    Ok(n)
}

/// Reads a run with its work.
fn read_run(
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

fn id_of(key: &[u8; 16]) -> RunId {
    RunId::from_bytes(*key)
}

/// Queues a run again at its former position.
fn requeue(write: &WriteTransaction, id: &RunId, reason: Option<&str>) -> Result<(), Failure> {
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

fn read_attempts(attempts: &impl ReadableTable<IdKey, &'static [u8]>, id: &RunId) -> Result<StoredAttempts, Failure> {
    match attempts.get(id.bytes())? {
        Some(bytes) => entry(id, bytes.value()),
        None => Ok(StoredAttempts::default()),
    }
}

/// Removes the first entry of a target that is queued.
fn pop_queued(write: &WriteTransaction, target: &str) -> Result<Option<RunId>, Failure> {
    let mut queued = write.open_table(QUEUED)?;
    let first = {
        let mut range = queued.range((target, 0)..=(target, u64::MAX))?;
        match range.next() {
            Some(first) => {
                let (key, id) = first?;
                Some((key.value().1, id_of(id.value())))
            }
            None => None,
        }
    };
    let Some((position, id)) = first else {
        return Ok(None);
    };
    queued.remove((target, position))?;
    Ok(Some(id))
}

/// Lists the leases that `is_over` selects, with the name of the worker.
fn find_leases(
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

impl FolderQueue {
    /// Opens the queue in a file, and creates it if there is none. Leases of earlier processes end: their runs are
    /// queued again.
    ///
    /// # Errors
    /// If another process has it open, it has another version, or it cannot be read or written.
    pub fn open(path: &Path) -> Result<Self, QueueError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create(path).map_err(|e| match e {
            DatabaseError::DatabaseAlreadyOpen => QueueError::InUse(path.to_owned()),
            e => QueueError::Storage {
                path: path.to_owned(),
                reason: e.to_string(),
            },
        })?;
        let queue = Self {
            path: path.to_owned(),
            database,
            has_unsynced: AtomicBool::new(false),
            log: ResultPublisher::default(),
        };
        let found = queue.write(|write| {
            let mut meta = write.open_table(META)?;
            let found = meta.get("version")?.map(|v| v.value());
            if found.is_none() {
                meta.insert("version", VERSION)?;
            }
            write.open_table(WORKS)?;
            write.open_table(RUNS)?;
            write.open_table(QUEUED)?;
            write.open_table(ATTEMPTS)?;
            write.open_table(RESULTS)?;
            write.open_table(PUBLISHED)?;
            work_counts::open(write)?;
            let orphans = find_leases(&write.open_table(LEASES)?, |_| true)?;
            for (id, worker) in orphans {
                let reason = format!("the process of {worker} ended without a result");
                requeue(write, &id, Some(&reason))?;
            }
            Ok(found.unwrap_or(VERSION))
        })?;
        if found != VERSION {
            return Err(QueueError::Version {
                path: path.to_owned(),
                found,
                expected: VERSION,
            });
        }
        Ok(queue)
    }

    fn error(&self, failure: Failure) -> QueueError {
        let path = self.path.clone();
        match failure {
            Failure::Storage(e) => QueueError::Storage {
                path,
                reason: e.to_string(),
            },
            Failure::Entry(entry, reason) => QueueError::Entry { path, entry, reason },
        }
    }

    /// Does some work in one durable commit; an error leaves the file as it was.
    fn write<T>(&self, work: impl FnOnce(&WriteTransaction) -> Result<T, Failure>) -> Result<T, QueueError> {
        self.commit(true, work)
    }

    /// Does some work in one commit. One that is not durable is stored by the next durable commit, or when the queue is
    /// closed.
    fn commit<T>(
        &self,
        is_durable: bool,
        work: impl FnOnce(&WriteTransaction) -> Result<T, Failure>,
    ) -> Result<T, QueueError> {
        let done = || -> Result<T, Failure> {
            let mut write = self.database.begin_write()?;
            if !is_durable {
                write.set_durability(Durability::None)?;
            }
            let value = work(&write)?;
            // There is one writer at a time, so this is the order of the commits.
            self.has_unsynced.store(!is_durable, Ordering::Release);
            write.commit()?;
            Ok(value)
        };
        done().map_err(|e| self.error(e))
    }

    /// Stores results that wait for the next commit to disk.
    ///
    /// # Errors
    /// If the queue cannot be written.
    pub fn sync(&self) -> Result<(), QueueError> {
        match self.has_unsynced.load(Ordering::Acquire) {
            true => self.write(|_| Ok(())),
            false => Ok(()),
        }
    }

    fn read<T>(&self, work: impl FnOnce(&ReadTransaction) -> Result<T, Failure>) -> Result<T, QueueError> {
        let done = || work(&self.database.begin_read()?);
        done().map_err(|e| self.error(e))
    }

    fn add_batch(&self, runs: &[Run]) -> Result<u64, QueueError> {
        self.write(|write| {
            let mut meta = write.open_table(META)?;
            let mut works = write.open_table(WORKS)?;
            let mut stored_runs = write.open_table(RUNS)?;
            let mut queued = write.open_table(QUEUED)?;
            let now = unix_ms();
            let mut added = Vec::new();
            for run in runs {
                if stored_runs.get(run.id.bytes())?.is_some() {
                    continue;
                }
                let bytes = encode(&run.work)?;
                let mut key = [0; 16];
                blake3::Hasher::new().update(&bytes).finalize_xof().fill(&mut key);
                if works.get(&key)?.is_none() {
                    works.insert(&key, bytes.as_slice())?;
                }
                let position = next(&mut meta, "position")?;
                let stored = StoredRun {
                    target: run.target.clone(),
                    repeat: run.repeat,
                    work: id_of(&key),
                    queued_ms: now,
                    position,
                };
                stored_runs.insert(run.id.bytes(), encode(&stored)?.as_slice())?;
                queued.insert((run.target.as_str(), position), run.id.bytes())?;
                added.push((run.target.as_str(), run.work.kind()));
            }
            let count = added.len() as u64;
            work_counts::add_runs(write, added.into_iter())?;
            Ok(count)
        })
    }

    /// Returns the numbers of each kind of work on each target.
    ///
    /// # Errors
    /// If the queue cannot be read.
    pub fn work_counts(&self) -> Result<Vec<WorkCounts>, QueueError> {
        self.read(work_counts::read)
    }

    /// Calls `each` with every run that has no result, in order of ids, and the number of times that it was given to a
    /// broker, until it returns `false`. `after` is the id after which to begin.
    ///
    /// # Errors
    /// If the queue cannot be read.
    pub fn unfinished(&self, after: Option<RunId>, each: &mut dyn FnMut(Run, u64) -> bool) -> Result<(), QueueError> {
        self.read(|read| {
            let (runs, works) = (read.open_table(RUNS)?, read.open_table(WORKS)?);
            let (results, published) = (read.open_table(RESULTS)?, read.open_table(PUBLISHED)?);
            let first = after.map_or([0; 16], |id| *id.bytes());
            for item in runs.range::<&[u8; 16]>(&first..)? {
                let id = id_of(item?.0.value());
                if after == Some(id) || results.get(id.bytes())?.is_some() {
                    continue;
                }
                let times = published.get(id.bytes())?.map_or(0, |n| n.value());
                if let Some((run, _)) = read_run(&runs, &works, &id)?
                    && !each(run, times)
                {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Returns a run, or `None` if the queue does not have it.
    ///
    /// # Errors
    /// If the queue cannot be read.
    pub fn run(&self, id: RunId) -> Result<Option<Run>, QueueError> {
        self.read(|read| {
            let (runs, works) = (read.open_table(RUNS)?, read.open_table(WORKS)?);
            Ok(read_run(&runs, &works, &id)?.map(|(run, _)| run))
        })
    }

    /// Notes that runs were given to a broker once more.
    ///
    /// # Errors
    /// If the queue cannot be written.
    pub fn note_published(&self, ids: &[RunId]) -> Result<(), QueueError> {
        self.write(|write| {
            let mut published = write.open_table(PUBLISHED)?;
            for id in ids {
                let times = published.get(id.bytes())?.map_or(0, |n| n.value());
                published.insert(id.bytes(), times.saturating_add(1))?;
            }
            Ok(())
        })
    }

    /// Records results that a broker reported. A run gets one result: the first. A later one with a higher attempt only
    /// raises the attempt of the first, because the run was executed again. Results of unknown runs are left out. Returns
    /// the number of new results.
    ///
    /// # Errors
    /// If the queue cannot be written.
    pub fn record(&self, results: &[RunResult]) -> Result<u64, QueueError> {
        let new = self.write(|write| {
            let mut new = Vec::new();
            for result in results {
                match record_result(write, result)? {
                    Some(FinishedRun::Recorded) => new.push(result),
                    Some(FinishedRun::HadResult) => raise_attempt(write, result)?,
                    None => {}
                }
            }
            Ok(new)
        })?;
        if self.log.is_open() {
            for result in &new {
                if let Some(run) = self.run(result.run)? {
                    self.log.append(&run, result);
                }
            }
        }
        Ok(new.len() as u64)
    }
}

/// Records the result of a run, which is queued and leased no more. Returns `None` if the run is unknown.
fn record_result(write: &WriteTransaction, result: &RunResult) -> Result<Option<FinishedRun>, Failure> {
    let id = result.run;
    write.open_table(LEASES)?.remove(id.bytes())?;
    let stored: StoredRun = match write.open_table(RUNS)?.get(id.bytes())? {
        Some(bytes) => entry(&id, bytes.value())?,
        None => return Ok(None),
    };
    let mut results = write.open_table(RESULTS)?;
    if results.get(id.bytes())?.is_some() {
        return Ok(Some(FinishedRun::HadResult));
    }
    let target = stored.target.as_str();
    write.open_table(QUEUED)?.remove((target, stored.position))?;
    write.open_table(ATTEMPTS)?.remove(id.bytes())?;
    results.insert(id.bytes(), encode(result)?.as_slice())?;
    work_counts::add_result(write, &stored, result.verdict)?;
    Ok(Some(FinishedRun::Recorded))
}

/// Notes at the result of a run that the run was executed again.
fn raise_attempt(write: &WriteTransaction, later: &RunResult) -> Result<(), Failure> {
    let id = later.run;
    let mut results = write.open_table(RESULTS)?;
    let stored: Option<RunResult> = match results.get(id.bytes())? {
        Some(bytes) => Some(entry(&id, bytes.value())?),
        None => None,
    };
    if let Some(mut stored) = stored
        && stored.attempt < later.attempt
    {
        stored.attempt = later.attempt;
        stored.earlier_attempts.clone_from(&later.earlier_attempts);
        results.insert(id.bytes(), encode(&stored)?.as_slice())?;
    }
    Ok(())
}

/// Whether a lease of the run is this one.
fn is_current(leases: &impl ReadableTable<IdKey, &'static [u8]>, leased: &LeasedRun) -> Result<bool, Failure> {
    let id = leased.run.id;
    match leases.get(id.bytes())? {
        Some(bytes) => Ok(entry::<StoredLease>(&id, bytes.value())?.token == leased.token),
        None => Ok(false),
    }
}

impl RunSource for FolderQueue {
    fn wait_for_run(&self, target: &str, _limit: Duration) -> Result<bool, QueueError> {
        let is_queued = self.read(|read| {
            let queued = read.open_table(QUEUED)?;
            let first = queued.range((target, 0)..=(target, u64::MAX))?.next().transpose()?;
            // A lease that has expired is queued again when a run is taken.
            Ok(first.is_some() || !find_leases(&read.open_table(LEASES)?, |l| l.deadline_ms < unix_ms())?.is_empty())
        })?;
        if !is_queued {
            self.sync()?;
        }
        Ok(is_queued)
    }

    fn take(&self, target: &str, worker: &str, lease: Duration) -> Result<Option<LeasedRun>, QueueError> {
        self.write(|write| {
            let now = unix_ms();
            let expired = find_leases(&write.open_table(LEASES)?, |l| l.deadline_ms < now)?;
            for (id, worker) in expired {
                requeue(
                    write,
                    &id,
                    Some(&format!("{worker} reported nothing until its deadline")),
                )?;
            }
            let Some(id) = pop_queued(write, target)? else {
                return Ok(None);
            };
            let (runs, works) = (write.open_table(RUNS)?, write.open_table(WORKS)?);
            let Some((run, stored)) = read_run(&runs, &works, &id)? else {
                return Err(Failure::Entry(id.to_string(), "the run is missing".to_owned()));
            };
            let token = next(&mut write.open_table(META)?, "token")?;
            let known = read_attempts(&write.open_table(ATTEMPTS)?, &id)?;
            let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
            let stored_lease = StoredLease {
                worker: worker.to_owned(),
                token,
                deadline_ms: now.saturating_add(lease_ms),
            };
            write
                .open_table(LEASES)?
                .insert(id.bytes(), encode(&stored_lease)?.as_slice())?;
            Ok(Some(LeasedRun {
                run,
                queued_ms: stored.queued_ms,
                attempt: known.count.saturating_add(1),
                earlier_attempts: known.reasons,
                token,
            }))
        })
    }

    fn finish(&self, leased: &LeasedRun, result: &RunResult) -> Result<FinishedRun, QueueError> {
        let result = RunResult {
            run: leased.run.id,
            ..result.clone()
        };
        // The target's next run begins with a durable commit, which stores this one too.
        let finished = self.commit(false, |write| {
            Ok(record_result(write, &result)?.unwrap_or(FinishedRun::HadResult))
        })?;
        if finished == FinishedRun::Recorded {
            self.log.append(&leased.run, &result);
        }
        Ok(finished)
    }

    fn release(&self, leased: &LeasedRun, reason: Option<&str>) -> Result<(), QueueError> {
        self.write(|write| {
            if is_current(&write.open_table(LEASES)?, leased)? {
                requeue(write, &leased.run.id, reason)?;
            }
            Ok(())
        })
    }
}

impl RunQueue for FolderQueue {
    fn add(&self, runs: &mut dyn Iterator<Item = Run>) -> Result<u64, QueueError> {
        let mut added = 0;
        loop {
            let batch: Vec<Run> = runs.take(BATCH).collect();
            if batch.is_empty() {
                return Ok(added);
            }
            added += self.add_batch(&batch)?;
        }
    }

    fn counts(&self) -> Result<Counts, QueueError> {
        self.read(|read| {
            let done = read.open_table(RESULTS)?.len()?;
            let leased = read.open_table(LEASES)?.len()?;
            let total = read.open_table(RUNS)?.len()?;
            Ok(Counts {
                queued: total.saturating_sub(done).saturating_sub(leased),
                leased,
                done,
            })
        })
    }

    fn results(&self, each: &mut dyn FnMut(Run, RunResult) -> bool) -> Result<(), QueueError> {
        self.read(|read| {
            let (runs, works) = (read.open_table(RUNS)?, read.open_table(WORKS)?);
            for item in read.open_table(RESULTS)?.iter()? {
                let (key, bytes) = item?;
                let id = id_of(key.value());
                let result: RunResult = entry(&id, bytes.value())?;
                let Some((run, _)) = read_run(&runs, &works, &id)? else {
                    return Err(Failure::Entry(id.to_string(), "a result has no run".to_owned()));
                };
                if !each(run, result) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn result(&self, id: RunId) -> Result<Option<RunResult>, QueueError> {
        self.read(|read| match read.open_table(RESULTS)?.get(id.bytes())? {
            Some(bytes) => Ok(Some(entry(&id, bytes.value())?)),
            None => Ok(None),
        })
    }
}

#[cfg(test)]
mod tests;
