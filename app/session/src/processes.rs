//! The processes of the recorded program, each with its own recording.

use std::path::{Path, PathBuf};
use trace_core::recording::{ProcessEntry, ProcessIndex, Recording};
use trace_import::processes;

/// The processes of the recorded program and the index of the open one.
#[derive(Clone, Debug)]
pub struct Processes {
    index: ProcessIndex,
    folder: PathBuf,
    open: usize,
}

impl Processes {
    /// Returns the processes of a recording that was opened from `path`: either the process index, or one process with
    /// the index in its folder. Returns `None` if the program had one process.
    #[must_use]
    pub fn for_recording(path: &Path, recording: &Recording) -> Option<Self> {
        let (index, file) = match recording.metadata.processes.clone() {
            Some(index) => {
                let main = index.main()?.file.clone();
                (index, main)
            }
            None => (processes::listing(path)?.1, PathBuf::from(path.file_name()?)),
        };
        let open = index.processes.iter().position(|p| p.file == file)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        (index.processes.len() > 1).then_some(Self { index, folder, open })
    }

    /// Returns the open process.
    #[must_use]
    pub fn current(&self) -> Option<&ProcessEntry> {
        self.index.processes.get(self.open)
    }

    /// Returns all processes: file, process, and whether it is the open one.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (PathBuf, &ProcessEntry, bool)> {
        let all = self.index.processes.iter().enumerate();
        all.map(|(n, p)| (self.folder.join(&p.file), p, n == self.open))
    }
}
