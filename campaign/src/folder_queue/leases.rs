//! The leases of runs: a queued run is leased, and queued again when its lease has expired.

use super::tables::{
    ATTEMPTS, Failure, LEASES, META, QUEUED, RUNS, StoredLease, WORKS, encode, find_leases, first_queued, next,
    read_attempts, read_run, requeue,
};
use crate::run::LeasedRun;
use crate::run_result::unix_ms;
use redb::WriteTransaction;
use std::time::Duration;

/// Which runs may be leased.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Candidates {
    All,
    /// Runs that no earlier attempt may have executed.
    New,
}

/// Queues runs again whose lease has expired.
pub(super) fn requeue_expired(write: &WriteTransaction) -> Result<(), Failure> {
    let now = unix_ms();
    let expired = find_leases(&write.open_table(LEASES)?, |l| l.deadline_ms < now)?;
    for (id, worker) in expired {
        let reason = format!("{worker} reported nothing until its deadline");
        requeue(write, &id, Some(&reason))?;
    }
    Ok(())
}

/// Leases the first queued run of a target. Returns `None` if there is none, or if it is no candidate.
pub(super) fn lease_first(
    write: &WriteTransaction,
    target: &str,
    worker: &str,
    lease: Duration,
    candidates: Candidates,
) -> Result<Option<LeasedRun>, Failure> {
    let mut queued = write.open_table(QUEUED)?;
    let Some((position, id)) = first_queued(&queued, target)? else {
        return Ok(None);
    };
    let known = read_attempts(&write.open_table(ATTEMPTS)?, &id)?;
    if candidates == Candidates::New && known.count > 0 {
        return Ok(None);
    }
    queued.remove((target, position))?;
    let (runs, works) = (write.open_table(RUNS)?, write.open_table(WORKS)?);
    let Some((run, stored)) = read_run(&runs, &works, &id)? else {
        return Err(Failure::Entry(id.to_string(), "the run is missing".to_owned()));
    };
    let token = next(&mut write.open_table(META)?, "token")?;
    let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    let stored_lease = StoredLease {
        worker: worker.to_owned(),
        token,
        deadline_ms: unix_ms().saturating_add(lease_ms),
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
}
