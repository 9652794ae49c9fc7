//! `campaign status`: shows how many runs of a campaign are done.

use crate::cli::{Exit, Failure, Out};
use clap::Args;
use kinescope_campaign::{CampaignFolder, QueueError, StatusFile, describe_queue, unix_ms};
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

pub fn run(arguments: &StatusArguments, out: &mut Out) -> Result<Exit, Failure> {
    let folder = CampaignFolder::open(&arguments.folder)?;
    let stored = folder.stored_status()?;
    let (status, running) = match folder.open_queue() {
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
    let mut rows = vec![["Target", "Queued", "Running", "Done"].map(str::to_owned).to_vec()];
    for (target, of) in &status.targets {
        rows.push(vec![
            target.clone(),
            of.queued.to_string(),
            of.leased.to_string(),
            of.done.to_string(),
        ]);
    }
    Ok(out.table(&rows)?)
}
