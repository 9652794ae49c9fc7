//! Completion scripts for shells.

use clap::{ArgGroup, Command, Id, ValueEnum};
use clap_complete::{generate, shells};

/// A shell with a completion script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

impl Shell {
    /// Returns the name of the shell's program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

/// Returns the script that completes a command line in `shell`.
#[must_use]
pub fn completion_script(command: &Command, shell: Shell) -> String {
    let name = command.get_name().to_owned();
    let mut visible = without_hidden(command);
    let mut script: Vec<u8> = Vec::new();
    match shell {
        Shell::Bash => generate(shells::Bash, &mut visible, name, &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut visible, name, &mut script),
        Shell::Fish => generate(shells::Fish, &mut visible, name, &mut script),
    }
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns a copy of a command without hidden verbs and options, which the generators would offer. A copy that lacks
/// something also lacks the rules between its arguments: it is for completion only, not for parsing.
fn without_hidden(command: &Command) -> Command {
    let is_hidden = |id: &Id| command.get_arguments().any(|a| a.get_id() == id && a.is_hide_set());
    let has_hidden =
        command.get_arguments().any(|a| a.is_hide_set()) || command.get_subcommands().any(Command::is_hide_set);
    if !has_hidden {
        return command.clone().mut_subcommands(|c| without_hidden(&c));
    }
    let groups = command.get_groups().map(|group| {
        let members: Vec<Id> = group.get_args().filter(|id| !is_hidden(id)).cloned().collect();
        ArgGroup::new(group.get_id().clone()).multiple(true).args(members)
    });
    let mut visible = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().filter(|a| !a.is_hide_set()).cloned())
        .groups(groups)
        .subcommands(
            command
                .get_subcommands()
                .filter(|c| !c.is_hide_set())
                .map(without_hidden),
        );
    if let Some(version) = command.get_version() {
        visible = visible.version(version.to_owned());
    }
    match command.get_about() {
        Some(about) => visible.about(about.clone()),
        None => visible,
    }
}
