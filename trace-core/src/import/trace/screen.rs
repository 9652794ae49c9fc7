//! A picture next to a log with the same stem, plain or compressed: the expected screen at the end.

use super::{sibling_path, source};
use crate::check::{Finding, FindingKind};
use crate::recording::Recording;
use crate::screen::{Picture, SCREEN_AT_END};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size of a picture in a recording, bytes: the maximum size of an extra.
const MAX_PICTURE_BYTES: u64 = 64 << 20;

/// Returns the possible names of a picture next to a log; the first existing one counts.
pub(super) fn names(log: &Path) -> [PathBuf; 2] {
    [sibling_path(log, ".ppm"), sibling_path(log, ".ppm.gz")]
}

/// Attaches the picture next to a log, if there is one. An unreadable picture becomes a finding.
pub(super) fn attach(log: &Path, recording: &mut Recording) {
    for path in names(log) {
        // A picture passed as the log is a mistake: a log has another format.
        if path == log {
            continue;
        }
        let wrong = match source::read_file(&path, MAX_PICTURE_BYTES) {
            Ok(Some(bytes)) => match Picture::from_ppm(&bytes) {
                Ok(_) => {
                    recording.extras.insert(SCREEN_AT_END.to_owned(), bytes);
                    return;
                }
                Err(e) => e.to_string(),
            },
            Ok(None) => format!("the picture has more than {MAX_PICTURE_BYTES} bytes"),
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => e.to_string(),
        };
        let place = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let message = format!("the picture next to the log was not used as the expected final screen: {wrong}");
        recording
            .facts
            .findings
            .push(Finding::new(FindingKind::NotUsed, place, message));
        return;
    }
}
