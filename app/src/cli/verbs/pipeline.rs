//! `pipeline`: checks and runs pipelines: recordings that are replayed one after the other, with modules between them.

mod check;
mod run;

use crate::cli::Verb;
use clap::{FromArgMatches as _, Subcommand};

pub const VERB: Verb = Verb {
    name: "pipeline",
    about: "Replay a chain of recordings with WebAssembly modules between them",
    args: |command| {
        PipelineCommand::augment_subcommands(command)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    run: |matches, out| match PipelineCommand::from_arg_matches(matches)? {
        PipelineCommand::Check(arguments) => check::run(&arguments, out),
        PipelineCommand::Run(arguments) => run::run(&arguments, out),
    },
};

#[derive(Subcommand)]
enum PipelineCommand {
    /// Check a pipeline and list its stages
    ///
    /// Opens the recordings and modules that the file names, and compares both ends of each connection. No target is
    /// contacted. The exit code is 1 if the pipeline cannot run.
    Check(check::CheckArguments),
    /// Run a pipeline, and write its outputs, outcomes and report to a folder
    ///
    /// The folder gets each output, STAGE.kine for each replay (STAGE.round-N.kine in a loop), and report.json. The exit
    /// code is 1 if a replay differs from its recording, or a stage or loop fails.
    Run(Box<run::RunArguments>),
}
