//! The files that a verb reads and writes, looked at before it does anything: no output may be the recording, an input
//! or another output, and each must be something that can be written.

use super::Failure;
use kinescope_files::output::{self, NamedFile, OutputError};
use std::path::{Path, PathBuf};

/// The files of one call.
#[derive(Debug, Default)]
pub struct CommandFiles {
    read: Vec<NamedFile>,
    written: Vec<NamedFile>,
}

impl CommandFiles {
    /// A call that reads this recording: a file or folder with its parts, and the edits beside it.
    #[must_use]
    pub fn for_recording(recording: &Path) -> Self {
        Self {
            read: NamedFile::recording(recording),
            written: Vec::new(),
        }
    }

    /// It reads this too; `what` is how the person asked for it: `--input weights`.
    #[must_use]
    pub fn with_input(mut self, what: impl Into<String>, path: &Path) -> Self {
        self.read.push(NamedFile::new(what, path));
        self
    }

    /// It writes this, where the option is given.
    #[must_use]
    pub fn with_output(mut self, what: impl Into<String>, path: Option<&Path>) -> Self {
        self.written.extend(path.map(|p| NamedFile::new(what, p)));
        self
    }

    /// Refuses what would destroy something or cannot be written.
    pub fn check(&self) -> Result<(), Failure> {
        output::check_distinct(&self.read, &self.written)?;
        self.written
            .iter()
            .try_for_each(|w| Ok(output::check_writable(&w.path)?))
    }

    /// As [`Files::check`], for a call that writes one `.kine`: gives the file that it will be, links followed.
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
