//! The result of a verb: its exit code, or the reason of its failure.

use super::work_watch;
use std::fmt;
use std::io::Write as _;
use std::path::Path;

/// The result of a verb that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exit code 0.
    Good,
    /// Exit code 1: differences, or findings of severity error.
    Differs,
    /// The exit code of a program that the verb ran.
    Program(u8),
}

impl Exit {
    /// Returns [`Exit::Differs`] if something was found.
    #[must_use]
    pub fn differs_if(something: bool) -> Self {
        if something { Self::Differs } else { Self::Good }
    }

    /// Returns the exit code of the process.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Differs => 1,
            Self::Program(code) => code,
        }
    }
}

/// Prints a message on standard error, or passes it to the program that embeds the verb. Ignores a closed standard error.
pub fn complain(message: impl fmt::Display) {
    if work_watch::note_message(&message) {
        return;
    }
    let _ = writeln!(std::io::stderr(), "kinescope: {message}");
}

/// The part of a verb's work that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureKind {
    /// Any other part.
    #[default]
    Other,
    /// The arguments are not valid.
    Arguments,
    /// The recording cannot be opened, or it is damaged.
    Open,
    /// The filter of events is not valid.
    Filter,
    /// The recording has no plan for the target, or the plan is refused.
    Plan,
    /// The target cannot be opened or used.
    Target,
}

/// A verb that could not do its work: exit code 2 or that of a signal, and one message on stderr.
#[derive(Debug)]
pub struct Failure {
    message: String,
    closed_pipe: bool,
    code: u8,
    kind: FailureKind,
}

impl Failure {
    /// Creates an error for a request that cannot be fulfilled.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            closed_pipe: false,
            code: 2,
            kind: FailureKind::Other,
        }
    }

    /// Returns the same failure with the part of the work that failed.
    #[must_use]
    pub fn with_kind(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns the part of the work that failed.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Creates an error about a file.
    #[must_use]
    pub fn file(path: &Path, what: impl fmt::Display) -> Self {
        let (path, what) = (path.display().to_string(), what.to_string());
        // Typed errors often contain the file name.
        let message = if contains_path(&what, &path) {
            what
        } else {
            format!("{path}: {what}")
        };
        // The suggested command includes the path, so that the user can copy it.
        Self::usage(message.replace("`kinescope verify`", &format!("`kinescope verify {path}`")))
    }

    /// Creates the failure of a verb that a signal ended early.
    #[must_use]
    pub fn stopped(code: u8) -> Self {
        Self {
            code,
            ..Self::usage("stopped")
        }
    }

    /// Returns the same failure with the exit code of a signal that ended the verb early.
    #[must_use]
    pub fn with_signal(self, code: Option<u8>) -> Self {
        Self {
            code: code.unwrap_or(self.code),
            ..self
        }
    }

    /// Returns the exit code of the process.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Returns whether the reader of the output closed the pipe, which is not an error.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        self.closed_pipe
    }
}

/// Returns whether a message contains a path: as a separate word or followed by a part of a folder, not as a part of
/// another word.
fn contains_path(message: &str, path: &str) -> bool {
    let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    message.match_indices(path).any(|(at, _)| {
        let (before, behind) = (message.get(..at), message.get(at + path.len()..));
        before.is_none_or(|b| b.chars().next_back().is_none_or(|c| ends(c) && c != '/'))
            && behind.is_none_or(|b| b.chars().next().is_none_or(ends))
    })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error while writing the output.
impl From<kinescope_session::plan_file::FileError> for Failure {
    fn from(e: kinescope_session::plan_file::FileError) -> Self {
        Self::file(&e.path, e.reason)
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        Self {
            message: format!("output: {e}"),
            closed_pipe: e.kind() == std::io::ErrorKind::BrokenPipe,
            code: 2,
            kind: FailureKind::Other,
        }
    }
}

/// Arguments that clap accepted, but not the verb's own type.
impl From<clap::Error> for Failure {
    fn from(e: clap::Error) -> Self {
        Self::usage(e.to_string()).with_kind(FailureKind::Arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_message_names_its_file_exactly_once() {
        let describe = |path: &str, message: &str| Failure::file(Path::new(path), message).to_string();
        assert_eq!(describe("x.kine", "x.kine: damaged"), "x.kine: damaged");
        assert_eq!(
            describe("rec", "rec/gr_pgt, byte 3: damaged"),
            "rec/gr_pgt, byte 3: damaged"
        );
        assert_eq!(describe("a", "damaged"), "a: damaged");
        assert_eq!(describe("a", "/x/a: damaged"), "a: /x/a: damaged");
        assert_eq!(describe("a.bin", "holds a.bin.npy"), "a.bin: holds a.bin.npy");
        assert_eq!(
            describe("x.kine", "damaged; `kinescope verify` lists all"),
            "x.kine: damaged; `kinescope verify x.kine` lists all"
        );
    }
}
