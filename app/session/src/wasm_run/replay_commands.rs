//! The commands that replay and compare a recorded WebAssembly run: the window does neither.

use crate::replay::State;
use std::path::Path;

/// A command that replays a run on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayCommand {
    /// The target, as `--on` names it.
    pub target: String,
    /// What runs there.
    pub description: &'static str,
    /// What this machine lacks for it, in a few words.
    pub missing: Option<String>,
    /// The command.
    pub command: String,
}

/// Returns a command for each target that can replay a run.
#[must_use]
pub fn replay_commands(replay: &State, recording: &Path) -> Vec<ReplayCommand> {
    let here = [
        ("cpu", "all cores of this machine"),
        ("cuda:0", "an NVIDIA GPU of this machine"),
        ("interpreter", "the code of GPUs, without a GPU; slow"),
    ];
    let here = here.map(|(target, description)| (target.to_owned(), description));
    let agents = replay.agents().iter().flat_map(|agent| {
        let target = |device: &str| format!("agent:{agent}/{device}");
        [
            (target("cpu"), "all cores of a paired machine"),
            (target("cuda0"), "an NVIDIA GPU of a paired machine"),
        ]
    });
    let file = quote(&recording.display().to_string());
    let command = |(target, description): (String, _)| ReplayCommand {
        command: format!("kinescope replay {file} --on {target}"),
        missing: replay.missing_on_this_machine(&target),
        target,
        description,
    };
    here.into_iter().chain(agents).map(command).collect()
}

/// Returns the command that compares a run with another recorded one.
#[must_use]
pub fn diff_command(recording: &Path) -> String {
    format!("kinescope diff {} OTHER.kine", quote(&recording.display().to_string()))
}

/// Quotes a file name for a shell if it needs quotes.
fn quote(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@".contains(c);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_quoted_if_needed() {
        assert_eq!(quote("/tmp/run.kine"), "/tmp/run.kine");
        assert_eq!(quote("my run.kine"), "'my run.kine'");
        assert_eq!(quote("it's.kine"), r"'it'\''s.kine'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn each_target_has_a_command() {
        let commands = replay_commands(&State::default(), Path::new("a.kine"));
        let targets: Vec<&str> = commands.iter().map(|c| c.target.as_str()).collect();
        assert_eq!(targets, ["cpu", "cuda:0", "interpreter"]);
        assert_eq!(commands[0].command, "kinescope replay a.kine --on cpu");
        assert_eq!(diff_command(Path::new("a.kine")), "kinescope diff a.kine OTHER.kine");
    }
}
