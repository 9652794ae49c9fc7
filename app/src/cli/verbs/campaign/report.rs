//! `campaign report`: writes the page of a campaign.

use super::OpenCampaign;
use super::diff::describe_unfinished;
use crate::cli::out::format_count;
use crate::cli::{Exit, Failure, Out};
use clap::Args;
use kinescope_campaign::{CampaignDifference, compare, render_report};
use kinescope_files::output;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
pub struct ReportArguments {
    /// Folder of the campaign
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// File for the page
    #[arg(short = 'o', value_name = "OUT.html")]
    page: PathBuf,
    /// Folder of an earlier campaign: the page shows what changed since then
    #[arg(long, value_name = "FOLDER")]
    since: Option<PathBuf>,
}

/// The written page.
#[derive(Serialize)]
struct PageReport {
    /// The page.
    path: String,
    /// Number of cells: recordings and other work with their options, by targets.
    cells: u64,
    /// Number of results.
    runs: u64,
    /// Number of runs without a result: the campaign is not finished.
    waiting: u64,
    /// Number of cells that are worse than in the earlier campaign; `null` without one.
    worse: Option<u64>,
}

pub fn run(arguments: &ReportArguments, out: &mut Out) -> Result<Exit, Failure> {
    output::check_writable(&arguments.page)?;
    let campaign = OpenCampaign::open(&arguments.folder)?;
    let summary = campaign.summary()?.with_waiting(&campaign.queue)?;
    let since: Option<(String, CampaignDifference)> = match &arguments.since {
        Some(folder) => {
            let earlier = OpenCampaign::open(folder)?;
            let earlier = earlier.summary()?.with_waiting(&earlier.queue)?;
            let difference = compare(&earlier, &summary);
            Some((folder.display().to_string(), difference))
        }
        None => None,
    };
    let difference = since.as_ref().map(|(name, difference)| (name.as_str(), difference));
    let page = render_report(&campaign.name, &campaign.folder, &summary, difference);
    output::write(&arguments.page, page.as_bytes())?;
    let worse = |d: &CampaignDifference| d.cells.iter().filter(|c| c.change.is_worse()).count() as u64;
    let report = PageReport {
        path: arguments.page.display().to_string(),
        cells: summary.cells.len() as u64,
        runs: summary.total(),
        waiting: summary.waiting_total(),
        worse: difference.map(|(_, d)| worse(d)),
    };
    if out.is_json() {
        out.value(&report)?;
    } else {
        out.line(format_args!(
            "wrote {}: {} of {}",
            report.path,
            format_count(report.cells, "cell"),
            format_count(report.runs, "run")
        ))?;
        if let Some(line) = describe_unfinished(&arguments.folder, &summary) {
            out.line(line)?;
        }
    }
    Ok(Exit::Good)
}
