//! Numbers of runs for each kind of work on each target: a table that grows with the matrix, not with the runs.

use super::tables::{Failure, LEASES, RESULTS, RUNS, StoredRun, WORKS, entry, id_of};
use crate::queue::{Counts, VerdictCounts, WorkCounts};
use crate::run::RunId;
use crate::run_result::{RunResult, RunVerdict};
use crate::work::WorkItem;
use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata as _, TableDefinition, WriteTransaction};
use std::collections::BTreeMap;

/// Number of runs, and of results: match, diverged, failed, refused.
type Numbers = (u64, u64, u64, u64, u64);

/// By target and kind of work.
const WORK_COUNTS: TableDefinition<'_, (&str, &str), Numbers> = TableDefinition::new("work-counts");

/// Returns the numbers after a result with this verdict.
fn with_result((total, matching, diverged, failed, refused): Numbers, verdict: RunVerdict) -> Numbers {
    let add = |n: u64, of: RunVerdict| n.saturating_add(u64::from(verdict == of));
    (
        total,
        add(matching, RunVerdict::Match),
        add(diverged, RunVerdict::Diverged),
        add(failed, RunVerdict::Failed),
        add(refused, RunVerdict::Refused),
    )
}

/// Creates the table. That of a queue without one, which an earlier version wrote, is computed.
pub(super) fn open(write: &WriteTransaction) -> Result<(), Failure> {
    let mut counts = write.open_table(WORK_COUNTS)?;
    let (runs, works, results) = (
        write.open_table(RUNS)?,
        write.open_table(WORKS)?,
        write.open_table(RESULTS)?,
    );
    if !counts.is_empty()? || runs.is_empty()? {
        return Ok(());
    }
    let mut numbers: BTreeMap<(String, &'static str), Numbers> = BTreeMap::new();
    for item in runs.iter()? {
        let (key, bytes) = item?;
        let id = id_of(key.value());
        let run: StoredRun = entry(&id, bytes.value())?;
        let kind = read_kind(&works, &run.work)?;
        let of = numbers.entry((run.target, kind)).or_default();
        of.0 = of.0.saturating_add(1);
        if let Some(bytes) = results.get(id.bytes())? {
            *of = with_result(*of, entry::<RunResult>(&id, bytes.value())?.verdict);
        }
    }
    for ((target, kind), of) in numbers {
        counts.insert((target.as_str(), kind), of)?;
    }
    Ok(())
}

/// Returns the kind of a stored work.
fn read_kind(
    works: &impl ReadableTable<&'static [u8; 16], &'static [u8]>,
    work: &RunId,
) -> Result<&'static str, Failure> {
    let Some(bytes) = works.get(work.bytes())? else {
        return Err(Failure::Entry(work.to_string(), "the work is missing".to_owned()));
    };
    Ok(entry::<WorkItem>(work, bytes.value())?.kind())
}

/// Counts runs that were added.
pub(super) fn add_runs<'r>(
    write: &WriteTransaction,
    runs: impl Iterator<Item = (&'r str, &'static str)>,
) -> Result<(), Failure> {
    let mut counts = write.open_table(WORK_COUNTS)?;
    for key in runs {
        let mut of = counts.get(key)?.map(|of| of.value()).unwrap_or_default();
        of.0 = of.0.saturating_add(1);
        counts.insert(key, of)?;
    }
    Ok(())
}

/// Counts the result of a run.
pub(super) fn add_result(write: &WriteTransaction, run: &StoredRun, verdict: RunVerdict) -> Result<(), Failure> {
    let kind = read_kind(&write.open_table(WORKS)?, &run.work)?;
    let mut counts = write.open_table(WORK_COUNTS)?;
    let key = (run.target.as_str(), kind);
    let of = counts.get(key)?.map(|of| of.value()).unwrap_or_default();
    counts.insert(key, with_result(of, verdict))?;
    Ok(())
}

/// Returns the numbers, in the order of targets and kinds. A leased run that `is_ahead` selects counts as queued.
pub(super) fn read(read: &ReadTransaction, is_ahead: impl Fn(&RunId) -> bool) -> Result<Vec<WorkCounts>, Failure> {
    let (runs, works) = (read.open_table(RUNS)?, read.open_table(WORKS)?);
    let mut leased: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
    for item in read.open_table(LEASES)?.iter()? {
        let id = id_of(item?.0.value());
        if is_ahead(&id) {
            continue;
        }
        let Some(bytes) = runs.get(id.bytes())? else { continue };
        let run: StoredRun = entry(&id, bytes.value())?;
        let kind = read_kind(&works, &run.work)?;
        let of = leased.entry((run.target, kind)).or_default();
        *of = of.saturating_add(1);
    }
    let mut all = Vec::new();
    for item in read.open_table(WORK_COUNTS)?.iter()? {
        let (key, numbers) = item?;
        let (target, kind) = key.value();
        let (total, matching, diverged, failed, refused) = numbers.value();
        let verdicts = VerdictCounts {
            matching,
            diverged,
            failed,
            refused,
        };
        let is_of = |(of, of_kind): &(String, &str)| of == target && *of_kind == kind;
        let leased = leased.iter().find(|(key, _)| is_of(key)).map_or(0, |(_, n)| *n);
        let waiting = total.saturating_sub(verdicts.total());
        let leased = leased.min(waiting);
        all.push(WorkCounts {
            target: target.to_owned(),
            kind: kind.to_owned(),
            counts: Counts {
                queued: waiting - leased,
                leased,
                done: verdicts.total(),
            },
            verdicts,
        });
    }
    Ok(all)
}
