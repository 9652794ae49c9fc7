//! `completions`: prints a completion script for a shell.

use super::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use command_pages::{Shell, completion_script};
use serde::Serialize;

pub const VERB: Verb = Verb {
    name: "completions",
    about: "Print a completion script for bash, zsh or fish",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// Shell that reads the script
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

#[derive(Serialize)]
struct Report<'a> {
    shell: &'static str,
    script: &'a str,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let script = completion_script(&super::command(), arguments.shell);
    if out.is_json() {
        out.value(&Report {
            shell: arguments.shell.name(),
            script: &script,
        })?;
    } else {
        out.bytes(script.as_bytes())?;
    }
    Ok(Exit::Good)
}
