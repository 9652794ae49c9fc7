//! `campaign check`: checks a description, and counts its runs.

use crate::cli::out::format_count;
use crate::cli::{Exit, Failure, Out, progress_line};
use clap::Args;
use kinescope_campaign::{Campaign, Matrix, MatrixError};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct CheckArguments {
    /// Description of the campaign
    #[arg(value_name = "C.toml")]
    file: PathBuf,
}

/// The size of a campaign.
#[derive(Serialize)]
struct MatrixReport {
    /// Name of the campaign.
    campaign: String,
    /// Number of recordings, each with its options.
    recordings: u64,
    /// Targets.
    targets: Vec<String>,
    /// Number of runs.
    runs: u64,
}

/// Reads a description and finds its recordings.
pub fn open(file: &Path) -> Result<(Campaign, Matrix), Failure> {
    let campaign = Campaign::read(file).map_err(|e| Failure::file(file, e))?;
    let matrix = progress_line::run_with_progress("reading recordings", |progress, _| {
        Matrix::expand(&campaign, progress).map_err(|e| match e {
            MatrixError::Entry { .. } | MatrixError::TooManyRuns(_) => Failure::file(file, e),
            e => Failure::usage(e.to_string()),
        })
    })?;
    Ok((campaign, matrix))
}

pub fn run(arguments: &CheckArguments, out: &mut Out) -> Result<Exit, Failure> {
    let (campaign, matrix) = open(&arguments.file)?;
    let report = MatrixReport {
        campaign: campaign.name,
        recordings: matrix.work_count() as u64,
        targets: matrix.targets().into_iter().map(str::to_owned).collect(),
        runs: matrix.len(),
    };
    if out.is_json() {
        out.value(&report)?;
        return Ok(Exit::Good);
    }
    out.line(format_args!(
        "{}: {}, {}, {}",
        report.campaign,
        format_count(report.recordings, "recording"),
        format_count(report.targets.len() as u64, "target"),
        format_count(report.runs, "run")
    ))?;
    for target in &report.targets {
        out.line(format_args!("  {target}"))?;
    }
    Ok(Exit::Good)
}
