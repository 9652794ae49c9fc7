//! The command line of `kinescope-worker`.

use crate::submit::SubmitOptions;
use crate::worker::WorkerOptions;
use clap::{Parser, Subcommand, ValueEnum};
use command_pages::Shell;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run the runs of campaigns that a broker holds, on the targets of this machine
///
/// The broker is NATS with JetStream. Several workers share the runs of a target. A run whose worker ends goes to another
/// one.
#[derive(Debug, Parser)]
#[command(name = "kinescope-worker", version)]
pub struct Cli {
    /// The verb to run.
    #[command(subcommand)]
    pub command: Command,
    /// Form of the log on standard error
    #[arg(long, global = true, value_name = "FORM", value_enum, default_value_t = LogForm::Text)]
    pub log: LogForm,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// Lines for people
    Text,
    /// An object of JSON in each line
    Json,
}

/// Verbs of `kinescope-worker`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take runs from the broker and do them; the verb may be left out
    ///
    /// A target is free for others while no run waits for it. SIGINT or SIGTERM stops the worker; a second one ends it.
    Serve(Box<WorkerOptions>),
    /// Queue the runs of a campaign on a broker and follow their results; `kinescope campaign run --queue` starts it
    Submit(Box<SubmitOptions>),
    /// Replay an API trace on a CUDA device of this machine; the worker starts one such process for each replay
    #[command(hide = true)]
    PlayCalls,
    /// Replay one plan on the channels of an NVIDIA GPU; the worker starts one such process for each replay
    #[command(hide = true)]
    PlayChannel,
    /// Print a completion script for bash, zsh or fish
    Completions {
        /// Shell that reads the script
        #[arg(value_name = "SHELL", value_enum)]
        shell: Shell,
    },
    /// Print the man page of this program, or write those of all verbs
    Man {
        /// Folder to write the pages into [default: print kinescope-worker.1]
        #[arg(value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

/// Returns a command line with the verb `serve`, if it begins with an option of that verb.
pub fn with_default_verb(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let general = ["-h", "--help", "-V", "--version", "--log"];
    let first = arguments.get(1).and_then(|a| a.to_str()).unwrap_or_default();
    let name = first.split('=').next().unwrap_or_default();
    if name.starts_with('-') && !general.contains(&name) {
        arguments.insert(1, "serve".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_the_default_verb() {
        let words = |line: &str| with_default_verb(line.split(' ').map(OsString::from));
        assert_eq!(words("kinescope-worker --queue nats://a")[1], "serve");
        assert_eq!(words("kinescope-worker --help")[1], "--help");
        assert_eq!(words("kinescope-worker submit c.toml").len(), 3);
        let cli = Cli::try_parse_from(words("w --queue nats://a --on cuda:0 --label rack=3 --log json")).unwrap();
        let Command::Serve(options) = cli.command else {
            panic!("another verb")
        };
        assert_eq!(options.labels, [("rack".to_owned(), "3".to_owned())]);
        assert_eq!(cli.log, LogForm::Json);
        for line in [
            "w --queue nats://a",
            "w --on cuda:0",
            "w --queue a --on cuda:0 --label x",
            "w",
        ] {
            assert!(Cli::try_parse_from(words(line)).is_err(), "{line}");
        }
    }
}
