//! A picture beside a log with the same stem, plain or packed: the screen that is expected at the end.

use super::{sibling_path, source};
use crate::check::{Finding, FindingKind};
use crate::recording::Recording;
use crate::screen::{Picture, SCREEN_AT_END};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of a picture that is kept in a recording: as many as an extra may have.
const MAX_PICTURE_BYTES: u64 = 64 << 20;

/// The names that a picture beside a log may have; the first one that is there counts.
pub(super) fn names(log: &Path) -> [PathBuf; 2] {
    [sibling_path(log, ".ppm"), sibling_path(log, ".ppm.gz")]
}

/// Attaches the picture beside a log, where there is one. What cannot be read is a finding.
pub(super) fn attach(log: &Path, recording: &mut Recording) {
    for path in names(log) {
        // What was asked for may be the picture's own name only by mistake: a log has another form.
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
        let message = format!("the picture beside the log was not used as the screen expected at the end: {wrong}");
        recording
            .facts
            .findings
            .push(Finding::new(FindingKind::NotUsed, place, message));
        return;
    }
}
