//! A verb of the command line: its name, help, arguments and work.

use super::{Exit, Failure, Out};
use clap::{ArgMatches, Command};

/// A verb of the command line.
pub struct Verb {
    /// Name that the user types.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Adds its arguments to a command.
    pub args: fn(Command) -> Command,
    /// Runs the verb.
    pub run: fn(&ArgMatches, &mut Out) -> Result<Exit, Failure>,
}
