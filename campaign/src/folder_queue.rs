//! A queue of runs in a file, for one process at a time. Each change but a result is committed to disk before its method
//! returns. A result is the exception: the commit that leases a run of its target stores it.
//!
//! The file is a redb database. It is locked while it is open, so every lease that it holds at that time belongs to a
//! process that has ended: its run is queued again, and the attempt counts.

mod ahead;
mod leases;
mod publisher;
mod queue_file;
mod tables;
mod work_counts;

pub use tables::{MAX_ENTRY_BYTES, parse_entry};

use crate::queue::{Counts, FinishedRun, QueueError, RunQueue, RunSource, WorkCounts, count_targets};
use crate::run::{LeasedRun, Run, RunId};
use crate::run_result::{RunResult, unix_ms};
use ahead::AheadRuns;
use leases::{Candidates, lease_first, requeue_expired};
use publisher::ResultPublisher;
use queue_file::QueueFile;
use redb::{ReadTransaction, ReadableTable as _, ReadableTableMetadata as _, WriteTransaction};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tables::{
    ATTEMPTS, Failure, LEASES, META, PUBLISHED, QUEUED, RESULTS, RUNS, StoredRun, WORKS, encode, entry, find_leases,
    first_queued, id_of, is_current, next, read_run, requeue,
};

/// Version of the tables.
const VERSION: u64 = 1;
/// Number of runs that are added in one commit.
const BATCH: usize = 1024;

/// A target with queued runs that the description of its campaign does not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedTarget {
    /// The target.
    pub target: String,
    /// Number of its runs without a result.
    pub waiting: u64,
}

/// A queue in a file.
#[derive(Debug)]
pub struct FolderQueue {
    /// Where other processes follow the results. Fields are dropped in order: the log of the next process is not removed.
    log: ResultPublisher,
    file: QueueFile,
    /// Next runs of targets, which a thread leases.
    ahead: AheadRuns,
    /// Results of this process that the next change stores: it leases a run of their target.
    finished: Mutex<Vec<RunResult>>,
}

impl Drop for FolderQueue {
    fn drop(&mut self) {
        // Nobody is left to report an error to. The runs are repeated then, as after a crash.
        let _ = self.store_finished();
    }
}

impl FolderQueue {
    /// Opens the queue in a file, and creates it if there is none. Leases of earlier processes end: their runs are
    /// queued again.
    ///
    /// # Errors
    /// If another process has it open, it has another version, or it cannot be read or written.
    pub fn open(path: &Path) -> Result<Self, QueueError> {
        Self::from_file(path, QueueFile::open(path)?)
    }

    /// Opens the queue in a file to read it. If this process may not write the file, what is read is a copy.
    ///
    /// # Errors
    /// As for [`Self::open`], or if there is no place for the copy.
    pub fn open_to_read(path: &Path) -> Result<Self, QueueError> {
        Self::from_file(path, QueueFile::open_to_read(path)?)
    }

    fn from_file(path: &Path, file: QueueFile) -> Result<Self, QueueError> {
        let found = file.write(|write| {
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
        Ok(Self {
            file,
            ahead: AheadRuns::default(),
            finished: Mutex::default(),
            log: ResultPublisher::default(),
        })
    }

    fn lock_finished(&self) -> MutexGuard<'_, Vec<RunResult>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does some work in a transaction that also stores the results of this process. There is one transaction at a time, so
    /// results that it does not find are stored by an earlier one. An error of `work` keeps them for a later one.
    fn with_finished<T>(
        &self,
        write: &WriteTransaction,
        work: impl FnOnce(&WriteTransaction) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let finished = std::mem::take(&mut *self.lock_finished());
        let stored = finished.iter().try_for_each(|r| record_result(write, r).map(drop));
        let done = stored.and_then(|()| work(write));
        if done.is_err() {
            self.lock_finished().extend(finished);
        }
        done
    }

    /// Stores the results of this process in a commit of their own, if there are any.
    fn store_finished(&self) -> Result<(), QueueError> {
        // Not in the match: that would keep the lock.
        let is_empty = self.lock_finished().is_empty();
        match is_empty {
            true => Ok(()),
            false => self.file.write_later(|write| self.with_finished(write, |_| Ok(()))),
        }
    }

    /// Does some work in one commit, which is on the disk when this returns, with the results of this process.
    fn write<T>(&self, work: impl FnOnce(&WriteTransaction) -> Result<T, Failure>) -> Result<T, QueueError> {
        self.file.write(|write| self.with_finished(write, work))
    }

    /// Reads in one transaction, after the results of this process are stored.
    fn read<T>(&self, work: impl FnOnce(&ReadTransaction) -> Result<T, Failure>) -> Result<T, QueueError> {
        self.store_finished()?;
        self.file.read(work)
    }

    /// Returns after all results are on the disk.
    ///
    /// # Errors
    /// If the queue cannot be written.
    pub fn sync(&self) -> Result<(), QueueError> {
        self.store_finished()?;
        self.file.sync()
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
        let ahead = self.ahead.ids();
        self.read(|read| work_counts::read(read, |id| ahead.contains(id)))
    }

    /// Returns the targets of runs without a result that are not in `named`: an earlier description named them.
    ///
    /// # Errors
    /// If the queue cannot be read.
    pub fn unnamed_targets(&self, named: &BTreeSet<&str>) -> Result<Vec<UnnamedTarget>, QueueError> {
        let targets = count_targets(&self.work_counts()?).into_iter();
        let unnamed = targets.filter_map(|(target, counts)| {
            let waiting = counts.total().saturating_sub(counts.done);
            (waiting > 0 && !named.contains(target.as_str())).then_some(UnnamedTarget { target, waiting })
        });
        Ok(unnamed.collect())
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

impl RunSource for FolderQueue {
    fn wait_for_run(&self, target: &str, _limit: Duration) -> Result<bool, QueueError> {
        if self.ahead.has_run(target) {
            return Ok(true);
        }
        let is_queued = self.file.read(|read| {
            let first = first_queued(&read.open_table(QUEUED)?, target)?;
            // A lease that has expired is queued again when a run is taken.
            Ok(first.is_some() || !find_leases(&read.open_table(LEASES)?, |l| l.deadline_ms < unix_ms())?.is_empty())
        })?;
        if !is_queued {
            self.sync()?;
        }
        Ok(is_queued)
    }

    fn decline(&self, target: &str) -> Result<(), QueueError> {
        match self.ahead.remove(target) {
            Some(leased) => self.release(&leased, None),
            None => Ok(()),
        }
    }

    fn take(&self, target: &str, worker: &str, lease: Duration) -> Result<Option<LeasedRun>, QueueError> {
        let leased = match self.ahead.remove(target) {
            Some(leased) => Some(leased),
            None => self.write(|write| {
                requeue_expired(write)?;
                lease_first(write, target, worker, lease, Candidates::All)
            })?,
        };
        if let Some(leased) = &leased {
            self.ahead.request_after(leased, worker, lease);
        }
        Ok(leased)
    }

    fn finish(&self, leased: &LeasedRun, result: &RunResult) -> Result<FinishedRun, QueueError> {
        let result = RunResult {
            run: leased.run.id,
            ..result.clone()
        };
        let is_open = self.file.read(|read| {
            let has_result = read.open_table(RESULTS)?.get(result.run.bytes())?.is_some();
            Ok(!has_result && read.open_table(RUNS)?.get(result.run.bytes())?.is_some())
        })?;
        let mut finished = self.lock_finished();
        if !is_open || finished.iter().any(|other| other.run == result.run) {
            return Ok(FinishedRun::HadResult);
        }
        self.log.append(&leased.run, &result);
        // The commit that leases the target's next run, or the one after it, stores this too.
        finished.push(result);
        Ok(FinishedRun::Recorded)
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
        // A target that begins its next run before the tables are read has a lease more, of the run after it.
        let ahead = self.ahead.ids().len() as u64;
        self.read(|read| {
            let done = read.open_table(RESULTS)?.len()?;
            let leased = read.open_table(LEASES)?.len()?.saturating_sub(ahead);
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
