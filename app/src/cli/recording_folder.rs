//! The folder that recorders in a program's processes write to, and the recordings that a verb keeps of it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Suffix of the file that a running process writes. The file disappears when the process ends normally.
const UNFINISHED: &str = ".unfinished.kine";

/// A temporary folder for files of the program's processes, removed on drop.
pub struct RecordingFolder(PathBuf);

impl RecordingFolder {
    /// Creates it in the folder of the output file, so that a rename works.
    pub fn create_next_to(at: &Path) -> std::io::Result<Self> {
        let folder = at.with_file_name(format!(".kinescope-record-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Renames the recording of a killed or crashed process to the requested output, if there is no complete one. Of
    /// several, takes that of the process that started first, as far as process ids show.
    pub fn take_unfinished(&self, to: &Path) -> std::io::Result<()> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            if name.to_string_lossy().ends_with(UNFINISHED) {
                all.push(name);
            }
        }
        all.sort_by_key(|name| (name.len(), name.clone()));
        match all.first() {
            Some(first) => std::fs::rename(self.0.join(first), to),
            None => Ok(()),
        }
    }

    /// Links recordings of processes other than the first that ended. They go into the folder of `at` under their own
    /// names, which contain the process id.
    pub fn link_other_recordings(&self, first: &OsStr, at: &Path) -> std::io::Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let (name, from) = entry.map(|e| (e.file_name(), e.path()))?;
            let to = at.with_file_name(&name);
            // The file of an unfinished process starts with a dot. An existing file stays.
            let finished = !name.to_string_lossy().starts_with('.');
            if name != first && finished && std::fs::hard_link(&from, &to).is_ok() {
                all.push(to);
            }
        }
        all.sort();
        Ok(all)
    }
}

impl Drop for RecordingFolder {
    fn drop(&mut self) {
        // A file that cannot be removed stays. The recording is safe.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
