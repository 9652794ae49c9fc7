//! Descriptions of paths that no importer knows, for the error message.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Number of bytes that are read to distinguish text from other content.
const LOOKED_AT: u64 = 4096;
/// Maximum number of entries of a folder that are read.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of recordings of a folder that are named.
const MAX_NAMED: usize = 3;

/// Describes the content of a path that is no recording.
pub(super) fn describe(path: &Path) -> String {
    if path.is_dir() {
        return folder(path);
    }
    let Ok(bytes) = std::fs::metadata(path).map(|m| m.len()) else {
        return "it cannot be read".to_owned();
    };
    let counted = match bytes {
        0 => return "an empty file".to_owned(),
        1 => "1 byte".to_owned(),
        n => format!("{n} bytes"),
    };
    // A part opened by itself does not refer to the whole.
    let parent = path.parent().filter(|folder| super::fits(folder));
    if let Some(folder) = parent.and_then(Path::file_name) {
        return format!(
            "{counted} that belong to the recording in the folder {}: open the folder",
            folder.to_string_lossy()
        );
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|f| f.take(LOOKED_AT).read_to_end(&mut start));
    match read {
        Ok(_) if is_text(&start) => format!("{counted} of text"),
        Ok(_) => format!("{counted} that are not text"),
        Err(_) => counted,
    }
}

/// Whether bytes are a text, or the start of one.
fn is_text(bytes: &[u8]) -> bool {
    let whole = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The last character may be cut.
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..e.valid_up_to()).unwrap_or_default()).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !whole
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}'))
}

/// Returns the recordings in a folder by name; empty if it cannot be read.
///
/// Checks names and first bytes of its first 10,000 entries.
#[must_use]
pub fn recordings_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES);
    let paths = entries.filter_map(|e| Some(e.ok()?.path()));
    let mut recordings: Vec<PathBuf> = paths.filter(|p| super::fits(p)).collect();
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
