//! `campaign diff`: compares two campaigns.

use super::OpenCampaign;
use crate::cli::out::{format_count, format_duration};
use crate::cli::{Exit, Failure, Out};
use clap::Args;
use kinescope_campaign::{CellChange, CellDifference, Summary, compare};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct DiffArguments {
    /// Folder of the earlier campaign
    #[arg(value_name = "A")]
    before: PathBuf,
    /// Folder of the later campaign
    #[arg(value_name = "B")]
    after: PathBuf,
}

/// The difference of two campaigns.
#[derive(Serialize)]
struct DifferenceReport<'a> {
    /// Cells that differ, the worst changes first.
    cells: &'a [CellDifference],
    /// Number of cells that are the same.
    same: u64,
    /// Number of runs without a result in the earlier and the later campaign. Above 0, it is not finished.
    waiting_before: u64,
    /// See `waiting_before`.
    waiting: u64,
}

pub fn run(arguments: &DiffArguments, out: &mut Out) -> Result<Exit, Failure> {
    let before = read(&arguments.before)?;
    let after = read(&arguments.after)?;
    let difference = compare(&before, &after);
    if out.is_json() {
        out.value(&DifferenceReport {
            cells: &difference.cells,
            same: difference.same,
            waiting_before: difference.waiting_before,
            waiting: difference.waiting,
        })?;
    } else {
        for cell in &difference.cells {
            out.line(describe(cell))?;
        }
        let lead = if difference.cells.is_empty() { "" } else { "other " };
        let same = format_count(difference.same, &format!("{lead}cell"));
        out.line(format_args!("{same} the same"))?;
        for (folder, summary) in [(&arguments.before, &before), (&arguments.after, &after)] {
            if let Some(line) = describe_unfinished(folder, summary) {
                out.line(line)?;
            }
        }
    }
    // Times vary from run to run.
    let differs = |c: &CellDifference| !matches!(c.change, CellChange::Slower | CellChange::Faster);
    Ok(Exit::differs_if(difference.cells.iter().any(differs)))
}

fn read(folder: &Path) -> Result<Summary, Failure> {
    let campaign = OpenCampaign::open(folder)?;
    Ok(campaign.summary()?.with_waiting(&campaign.queue)?)
}

/// Returns a sentence on runs without a result; `None` if the campaign is finished.
pub fn describe_unfinished(folder: &Path, summary: &Summary) -> Option<String> {
    let waiting = summary.waiting_total();
    let total = format_count(waiting + summary.total(), "run");
    (waiting > 0).then(|| {
        format!(
            "{} is not finished: {waiting} of {total} without a result",
            folder.display()
        )
    })
}

fn describe(cell: &CellDifference) -> String {
    // A replay is what a campaign does if nothing else is said.
    let kind = Some(cell.kind).filter(|kind| *kind != "replay");
    let parts: Vec<&str> = kind
        .into_iter()
        .chain(Some(cell.options.as_str()))
        .filter(|p| !p.is_empty())
        .collect();
    let options = match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    };
    let mut line = format!(
        "{:8} {}{options} on {}",
        cell.change.name(),
        cell.recording,
        cell.target
    );
    match (cell.change, cell.run_ns_before, cell.run_ns) {
        (CellChange::Slower | CellChange::Faster, Some(before), Some(now)) => {
            line += &format!(": {}, before {}", format_duration(now), format_duration(before));
        }
        _ => {
            let word = |state: Option<String>| state.unwrap_or_else(|| "not there".to_owned());
            let (now, before) = (word(cell.describe_after()), word(cell.describe_before()));
            line += &format!(": {now}, before {before}");
            if let Some(event) = cell.event {
                line += &format!("; event {event}");
            }
            if let Some(text) = &cell.text {
                line += &format!(": {text}");
            }
        }
    }
    if cell.recording_changed {
        line += " (the recording has other bytes)";
    }
    line
}
