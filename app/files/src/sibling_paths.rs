//! Paths of the user's files in the folder of a recording.

use std::path::{Path, PathBuf};

/// Returns the path of the journal of a recording.
#[must_use]
pub fn path_for(recording: &Path) -> PathBuf {
    sibling_path(recording, "kine-edits")
}

/// Returns the path of a file with this extension in the folder of the recording.
#[must_use]
pub fn sibling_path(recording: &Path, extension: &str) -> PathBuf {
    let name = recording
        .file_name()
        .map_or_else(|| "recording".into(), |n| n.to_string_lossy().into_owned());
    let stem = name.strip_suffix(".kine").unwrap_or(&name);
    recording.with_file_name(format!("{stem}.{extension}"))
}
