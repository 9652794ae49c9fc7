//! Descriptions of paths that no importer knows, and the recordings in a folder.

use super::core_dump_kind;
use super::file_description::{describe_file, format_bytes};
use super::formats::describe_close;
use super::source_files::{fits, recordings_in_archive};
use std::path::{Path, PathBuf};

/// Maximum number of entries of a folder that are read.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of recordings of a folder that are named.
const MAX_NAMED: usize = 3;

/// Describes the content of a path that is no recording.
pub(super) fn describe(path: &Path) -> String {
    if let Some(known) = describe_close(path).or_else(|| core_dump_kind::describe(path)) {
        return known;
    }
    if path.is_dir() {
        return folder(path);
    }
    // A part opened by itself does not refer to the whole.
    let parent = path.parent().filter(|folder| fits(folder)).and_then(Path::file_name);
    match (parent, std::fs::metadata(path).map_or(0, |m| m.len())) {
        (Some(folder), bytes) if bytes > 0 => format!(
            "{} that belong to the recording in the folder {}: open the folder",
            format_bytes(bytes),
            folder.to_string_lossy()
        ),
        _ => describe_file(path),
    }
}

/// Returns the recordings in a folder or an archive by name; empty if it cannot be read.
///
/// Checks names and first bytes of the first 10,000 entries of a folder, and up to 256 MiB of an archive.
#[must_use]
pub fn recordings_in(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return recordings_in_archive(folder);
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES);
    let paths = entries.filter_map(|e| Some(e.ok()?.path()));
    let mut recordings: Vec<PathBuf> = paths.filter(|p| fits(p)).collect();
    recordings.sort();
    recordings
}

fn folder(path: &Path) -> String {
    if std::fs::read_dir(path).is_err() {
        return "a folder that cannot be read".to_owned();
    }
    let name = |p: PathBuf| Some(p.file_name()?.to_string_lossy().into_owned());
    let recordings: Vec<String> = recordings_in(path).into_iter().filter_map(name).collect();
    let (Some(first), n) = (recordings.first(), recordings.len()) else {
        return "a folder without a recording".to_owned();
    };
    if n == 1 {
        return format!("a folder that holds the recording {first}: open that");
    }
    let named = recordings
        .iter()
        .take(MAX_NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = if n > MAX_NAMED { ", ..." } else { "" };
    format!("a folder that holds {n} recordings: open one of them ({named}{more})")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics when it fails")]
mod tests {
    use super::*;

    #[test]
    fn file_of_a_recording_folder_suggests_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("net");
        std::fs::create_dir(&folder).unwrap();
        for name in ["gr_io_history", "gr_sync_history", "part"] {
            std::fs::write(folder.join(name), b"a part").unwrap();
        }
        assert_eq!(
            describe(&folder.join("part")),
            "6 bytes that belong to the recording in the folder net: open the folder"
        );
    }

    #[test]
    fn files_of_unknown_format_are_described() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            describe(&path)
        };
        assert_eq!(file("a", b""), "an empty file");
        assert_eq!(file("a", b"This is a letter, not a one."), "28 bytes of text");
        assert_eq!(file("a", &[0xff; 3]), "3 bytes that are not text");
        let long = "ä".repeat(3000);
        assert_eq!(
            file("a", format!("x{long}").as_bytes()),
            "6001 bytes of text",
            "cut in a character"
        );
        let empty = dir.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        assert_eq!(describe(&empty), "a folder without a recording");
    }

    #[test]
    fn folder_of_recordings_error_names_examples() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..5 {
            std::fs::write(dir.path().join(format!("r{n}.kine")), b"x").unwrap();
        }
        std::fs::write(dir.path().join("notes.txt"), b"x").unwrap();
        assert_eq!(
            describe(dir.path()),
            "a folder that holds 5 recordings: open one of them (r0.kine, r1.kine, r2.kine, ...)"
        );
    }
}
