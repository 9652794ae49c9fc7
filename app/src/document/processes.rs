//! The processes of the recorded program, each of which has a recording of its own.

use std::path::{Path, PathBuf};
use trace_core::import::processes::{self, ProcessEntry, ProcessIndex};
use trace_core::recording::Recording;

/// The processes of the recorded program, and which of them is open.
#[derive(Clone, Debug)]
pub struct Processes {
    index: ProcessIndex,
    folder: PathBuf,
    open: usize,
}

impl Processes {
    /// Returns the processes of a recording that was opened from `path`: by their index, or by itself beside it. `None`
    /// where the program had one process.
    #[must_use]
    pub fn for_recording(path: &Path, recording: &Recording) -> Option<Self> {
        let (index, file) = match recording.processes() {
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

    /// The process that is open.
    #[must_use]
    pub fn current(&self) -> Option<&ProcessEntry> {
        self.index.processes.get(self.open)
    }

    /// All processes: the file of each, the process, and whether it is the one that is open.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (PathBuf, &ProcessEntry, bool)> {
        let all = self.index.processes.iter().enumerate();
        all.map(|(n, p)| (self.folder.join(&p.file), p, n == self.open))
    }
}
