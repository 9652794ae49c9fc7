//! `campaign status`: shows how many runs of a campaign are done.

use crate::cli::{Exit, Failure, Out};
use clap::Args;
use kinescope_campaign::{CampaignFolder, QueueError, StatusFile, WorkCounts, describe_queue, unix_ms};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
pub struct StatusArguments {
    /// Folder of the campaign
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// The state of a campaign.
#[derive(Serialize)]
struct StatusReport {
    /// Name of the campaign.
    campaign: String,
    /// Whether a process runs it now. Its numbers may be a second old then.
    running: bool,
    /// Number of runs that wait, that are executed now, and that have a result.
    queued: u64,
    leased: u64,
    done: u64,
    /// The same for each target.
    targets: Vec<TargetRow>,
    /// The same for each kind of work on each target, with verdicts.
    work: Vec<WorkRow>,
}

/// The state of a target's runs.
#[derive(Serialize)]
struct TargetRow {
    /// The target.
    target: String,
    /// Number of its runs that wait, that are executed now, and that have a result.
    queued: u64,
    leased: u64,
    done: u64,
}

/// The state of the runs of one kind of work on a target.
#[derive(Serialize)]
struct WorkRow {
    /// The target.
    target: String,
    /// Kind of work: `replay`, `pipeline`, `tuning`, `wasm`, `fuzz`, `bisect`.
    kind: String,
    /// Number of its runs that wait, that are executed now, and that have a result.
    queued: u64,
    leased: u64,
    done: u64,
    /// Number of results with each verdict.
    matched: u64,
    diverged: u64,
    failed: u64,
    refused: u64,
}

impl From<&WorkCounts> for WorkRow {
    fn from(of: &WorkCounts) -> Self {
        Self {
            target: of.target.clone(),
            kind: of.kind.clone(),
            queued: of.counts.queued,
            leased: of.counts.leased,
            done: of.counts.done,
            matched: of.verdicts.matching,
            diverged: of.verdicts.diverged,
            failed: of.verdicts.failed,
            refused: of.verdicts.refused,
        }
    }
}

pub fn run(arguments: &StatusArguments, out: &mut Out) -> Result<Exit, Failure> {
    let folder = CampaignFolder::open(&arguments.folder)?;
    let stored = folder.stored_status()?;
    let (status, running) = match folder.open_queue_to_read() {
        Ok(queue) => (describe_queue(&stored, &queue, false)?, false),
        // The process that has the queue writes the status.
        Err(QueueError::InUse(_)) => (stored, true),
        Err(e) => return Err(e.into()),
    };
    if out.is_json() {
        out.value(&report(&status, running))?;
        return Ok(Exit::Good);
    }
    print(&status, running, out)?;
    Ok(Exit::Good)
}

fn report(status: &StatusFile, running: bool) -> StatusReport {
    let row = |(target, counts): (&String, &kinescope_campaign::Counts)| TargetRow {
        target: target.clone(),
        queued: counts.queued,
        leased: counts.leased,
        done: counts.done,
    };
    StatusReport {
        campaign: status.campaign.clone(),
        running,
        queued: status.counts.queued,
        leased: status.counts.leased,
        done: status.counts.done,
        targets: status.targets.iter().map(row).collect(),
        work: status.work.iter().map(WorkRow::from).collect(),
    }
}

fn print(status: &StatusFile, running: bool, out: &mut Out) -> Result<(), Failure> {
    let counts = status.counts;
    let state = match running {
        true => format!("running, {} s ago", unix_ms().saturating_sub(status.written_ms) / 1000),
        false if counts.queued + counts.leased == 0 => "complete".to_owned(),
        false => "stopped".to_owned(),
    };
    out.line(format_args!(
        "{}: {state}; {} of {} runs done",
        status.campaign,
        counts.done,
        counts.total()
    ))?;
    let heads = [
        "Target", "Kind", "Queued", "Running", "Done", "Match", "Diverged", "Failed", "Refused",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for of in status.work.iter().map(WorkRow::from) {
        let numbers = [
            of.queued,
            of.leased,
            of.done,
            of.matched,
            of.diverged,
            of.failed,
            of.refused,
        ];
        let names = [of.target, of.kind].into_iter();
        rows.push(names.chain(numbers.iter().map(u64::to_string)).collect());
    }
    Ok(out.table(&rows)?)
}
