//! The input and output files of a verb, checked before it starts: no output may be the recording, an input or another
//! output, and each must be writable.

use super::Failure;
use kinescope_files::output::{self, NamedFile, OutputError};
use std::path::{Path, PathBuf};

/// The files of one command.
#[derive(Debug, Default)]
pub struct CommandFiles {
    read: Vec<NamedFile>,
    written: Vec<NamedFile>,
}

impl CommandFiles {
    /// Creates the files of a command that reads this recording: a file or folder with its parts, and the edits next to
    /// it.
    #[must_use]
    pub fn for_recording(recording: &Path) -> Self {
        Self {
            read: NamedFile::recording(recording),
            written: Vec::new(),
        }
    }

    /// Adds an input; `what` is the option that the user gave: `--input weights`.
    #[must_use]
    pub fn with_input(mut self, what: impl Into<String>, path: &Path) -> Self {
        self.read.push(NamedFile::new(what, path));
        self
    }

    /// Adds an output, if the option is given.
    #[must_use]
    pub fn with_output(mut self, what: impl Into<String>, path: Option<&Path>) -> Self {
        self.written.extend(path.map(|p| NamedFile::new(what, p)));
        self
    }

    /// Returns an error if an output would overwrite something or cannot be written.
    pub fn check(&self) -> Result<(), Failure> {
        output::check_distinct(&self.read, &self.written)?;
        self.written
            .iter()
            .try_for_each(|w| Ok(output::check_writable(&w.path)?))
    }

    /// Checks like [`CommandFiles::check`], for a command that writes one `.kine`. Returns the file to write, with
    /// links resolved.
    pub fn check_kine(&self, to: &Path) -> Result<PathBuf, Failure> {
        output::check_distinct(&self.read, &self.written)?;
        Ok(output::check_writable_whole(to)?)
    }
}

impl From<OutputError> for Failure {
    fn from(e: OutputError) -> Self {
        Self::usage(e.to_string())
    }
}
