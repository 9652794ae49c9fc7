//! `campaign`: runs many recordings and other work on many targets, and reports and compares the results.

mod broker;
mod check;
mod diff;
mod report;
mod run;
mod status;

use crate::cli::{Failure, Verb};
use clap::{FromArgMatches as _, Subcommand};
use kinescope_campaign::{CampaignFolder, FolderError, FolderQueue, QueueError, Summary};
use std::path::Path;

pub const VERB: Verb = Verb {
    name: "campaign",
    about: "Replay many recordings on many targets, and compare the results",
    args: |command| {
        CampaignCommand::augment_subcommands(command)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    run: |matches, out| match CampaignCommand::from_arg_matches(matches)? {
        CampaignCommand::Check(arguments) => check::run(&arguments, out),
        CampaignCommand::Run(arguments) => run::run(&arguments, out),
        CampaignCommand::Status(arguments) => status::run(&arguments, out),
        CampaignCommand::Report(arguments) => report::run(&arguments, out),
        CampaignCommand::Diff(arguments) => diff::run(&arguments, out),
    },
};

#[derive(Subcommand)]
enum CampaignCommand {
    /// Check the description of a campaign, and count its runs
    ///
    /// Reads the recordings to compute their digests; runs nothing.
    Check(check::CheckArguments),
    /// Run a campaign, or go on with one that was stopped
    ///
    /// Every recording is replayed on every target, as often as the description says. So are pipelines, tunings, batches
    /// of WebAssembly programs, seeds of mutated inputs, and bisections. The folder holds the queue, the table of results
    /// and kept outcomes. After a stop or a crash, the same command goes on: no run is lost, and a run that may have
    /// executed before is marked as repeated. The exit code is 1 if a run does not match.
    Run(Box<run::RunArguments>),
    /// Show how many runs of a campaign are done
    Status(status::StatusArguments),
    /// Write a page that shows what replays where, how fast, and what broke
    Report(report::ReportArguments),
    /// Compare two campaigns cell by cell
    ///
    /// A cell is a recording or other work with its options on a target. The exit code is 1 if a verdict differs, or an
    /// output that must be the same.
    Diff(diff::DiffArguments),
}

impl From<QueueError> for Failure {
    fn from(e: QueueError) -> Self {
        Self::usage(e.to_string())
    }
}

impl From<FolderError> for Failure {
    fn from(e: FolderError) -> Self {
        Self::usage(e.to_string())
    }
}

/// A campaign that was run, with its queue.
struct OpenCampaign {
    folder: CampaignFolder,
    name: String,
    queue: FolderQueue,
}

impl OpenCampaign {
    /// Opens the folder of a campaign that no process runs.
    fn open(path: &Path) -> Result<Self, Failure> {
        let folder = CampaignFolder::open(path)?;
        let name = folder.stored_status()?.campaign;
        let queue = folder.open_queue_to_read()?;
        Ok(Self { folder, name, queue })
    }

    fn summary(&self) -> Result<Summary, Failure> {
        Ok(Summary::read(&self.queue)?)
    }
}
