//! Write of a finished recording into a new file.

use crate::error::NodeError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use trace_core::progress::Progress;
use trace_core::{Recording, container, timeline};

/// Maximum number of files that one process writes in one folder.
const MAX_FILES: u32 = 1000;

/// Result of a save.
#[derive(Debug)]
pub enum SaveOutcome {
    /// The recording is in this file.
    Complete(PathBuf),
    /// The recording could not be written; the partial recording has its name.
    Partial {
        /// The file.
        path: PathBuf,
        /// Why the recording is incomplete.
        why: NodeError,
    },
}

/// Writes a recording to `path`, and returns the path that it has. An existing file stays: the process id then goes
/// into the name, `NAME-1234.kine` for `NAME.kine`, because several processes of one program can record. `kept` is the
/// partial recording; it is removed, or replaces the recording if that cannot be written.
///
/// # Errors
/// Returns an error if the recording cannot be written and there is no partial one. A partial recording that cannot be
/// renamed stays as it is.
pub fn save(recording: &Recording, path: &Path, kept: Option<&Path>) -> Result<SaveOutcome, NodeError> {
    let process = std::process::id();
    let unfinished = path.with_file_name(format!(".kinescope-{process}.tmp"));
    let failed = |source| NodeError::Save {
        path: path.to_owned(),
        source,
    };
    let result = timeline::write(recording, &unfinished, &Progress::default())
        .map_err(failed)
        .and_then(|()| rename_finished(&unfinished, path, process));
    // It also exists under its final name.
    let _ = std::fs::remove_file(&unfinished);
    match (result, kept) {
        (Ok(path), kept) => {
            if let Some(kept) = kept {
                // It holds nothing that the recording does not hold.
                let _ = std::fs::remove_file(kept);
            }
            Ok(SaveOutcome::Complete(path))
        }
        (Err(why), Some(kept)) => {
            // The disk can have space for the missing part even without space for a second complete copy.
            let whole = container::append(recording, kept, &Progress::default()).is_ok();
            let path = rename_finished(kept, path, process)?;
            let _ = std::fs::remove_file(kept);
            Ok(if whole {
                SaveOutcome::Complete(path)
            } else {
                SaveOutcome::Partial { path, why }
            })
        }
        (Err(why), None) => Err(why),
    }
}

/// Renames a finished file to a free name.
fn rename_finished(unfinished: &Path, path: &Path, process: u32) -> Result<PathBuf, NodeError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let end = path
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()))
        .unwrap_or_default();
    let mut tried = path.to_owned();
    for n in 0..MAX_FILES {
        match std::fs::hard_link(unfinished, &tried) {
            Ok(()) => return Ok(tried),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(NodeError::Name { path: tried, source }),
        }
        let more = if n == 0 { String::new() } else { format!("-{n}") };
        tried = path.with_file_name(format!("{stem}-{process}{more}{end}"));
    }
    Err(NodeError::Name {
        path: tried,
        source: ErrorKind::AlreadyExists.into(),
    })
}

/// Returns the current time as RFC 3339 in UTC.
pub(crate) fn now_rfc3339() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    trace_core::recording::rfc3339(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_keeps_existing_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kine");
        std::fs::write(&path, "mine").unwrap();
        let recording = Recording::default();
        let unfinished = dir.path().join("a-unfinished.kine");
        std::fs::write(&unfinished, "kept").unwrap();
        let complete_path = |saved: SaveOutcome| match saved {
            SaveOutcome::Complete(path) => path,
            SaveOutcome::Partial { path, why } => panic!("{}: {why}", path.display()),
        };
        let first = complete_path(save(&recording, &path, None).unwrap());
        let second = complete_path(save(&recording, &path, Some(&unfinished)).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        let process = std::process::id();
        assert_eq!(first, dir.path().join(format!("a-{process}.kine")));
        assert_eq!(second, dir.path().join(format!("a-{process}-1.kine")));
        container::open(&second).unwrap();
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            3,
            "the folder contains only these three files"
        );
    }
}
