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
    /// Number of work items: recordings, each with its options, and the like.
    recordings: u64,
    /// The same for each kind of work.
    kinds: Vec<KindReport>,
    /// Targets.
    targets: Vec<String>,
    /// Number of runs.
    runs: u64,
    /// Number of runs that entries list again. Each runs once.
    duplicates: u64,
}

/// The work of one kind.
#[derive(Serialize)]
struct KindReport {
    /// `replay`, `pipeline`, `tuning`, `wasm`, `fuzz` or `bisect`.
    kind: &'static str,
    /// Number of work items.
    items: u64,
    /// Number of runs.
    runs: u64,
}

/// Returns the name of a work item of a kind.
fn item_name(kind: &str) -> &'static str {
    match kind {
        "replay" => "recording",
        "pipeline" => "pipeline",
        "tuning" => "tuning",
        "wasm" => "batch",
        "fuzz" => "range of seeds",
        _ => "bisection",
    }
}

/// Formats a number of work items: `3 batches`, `1 range of seeds`.
fn count_items(count: u64, name: &str) -> String {
    match (count, name) {
        (1, _) => format!("1 {name}"),
        (n, "batch") => format!("{n} batches"),
        (n, "range of seeds") => format!("{n} ranges of seeds"),
        (n, _) => format_count(n, name),
    }
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
        kinds: matrix
            .kinds()
            .into_iter()
            .map(|(kind, (items, runs))| KindReport { kind, items, runs })
            .collect(),
        targets: matrix.targets().into_iter().map(str::to_owned).collect(),
        runs: matrix.len(),
        duplicates: matrix.duplicates(),
    };
    if out.is_json() {
        out.value(&report)?;
        return Ok(Exit::Good);
    }
    let items = report.kinds.iter().map(|k| count_items(k.items, item_name(k.kind)));
    out.line(format_args!(
        "{}: {}, {}, {}",
        report.campaign,
        items.collect::<Vec<_>>().join(", "),
        format_count(report.targets.len() as u64, "target"),
        format_count(report.runs, "run")
    ))?;
    for target in &report.targets {
        out.line(format_args!("  {target}"))?;
    }
    if report.duplicates > 0 {
        let again = format_count(report.duplicates, "duplicate run");
        out.line(format_args!(
            "{again} in the description, not counted: the same work on the same target runs once"
        ))?;
    }
    Ok(Exit::Good)
}
