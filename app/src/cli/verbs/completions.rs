//! `completions`: prints a completion script for a shell.

use crate::cli::{Exit, Failure, Out};
use clap::{Args, Command};
use command_pages::{Shell, completion_script};
use serde::Serialize;

/// Arguments of the verb.
#[derive(Args)]
pub struct Arguments {
    /// Shell that reads the script
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// The script of a shell, which only the command line has.
#[derive(Serialize)]
struct Report<'a> {
    /// `bash`, `zsh` or `fish`.
    shell: &'static str,
    /// The text that the shell reads.
    script: &'a str,
}

/// Runs the verb for the whole command line, which contains it.
pub fn run(arguments: &Arguments, command: &Command, out: &mut Out) -> Result<Exit, Failure> {
    let script = completion_script(command, arguments.shell);
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
