//! What a path holds, without opening it: whether there is a recording, in which files, and which ones in an archive.

use super::archive::{Container, detect_container};
use super::formats::{find_importer, find_packed_importer, importer_parts};
use super::packed_folder::is_packed_recording;
use super::source_path::{members_of, split_member};
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;

/// Maximum size of an archive that is searched for recordings, bytes.
const MAX_SEARCHED_BYTES: u64 = 256 << 20;

/// Whether an importer knows a path, by names and first bytes. An archive must hold a recording.
#[must_use]
pub fn fits(path: &Path) -> bool {
    match detect_container(path) {
        Container::None => find_importer(path).is_some() || is_packed_recording(path),
        Container::Packed(_) => find_packed_importer(path).is_some(),
        Container::Tar | Container::Zip => !recordings_in_archive(path).is_empty(),
    }
}

/// Returns the recordings in an archive, as [`open`](crate::open) takes them: `FILE.tar.gz:inner/log.txt`. Empty if the
/// path is no archive or holds more than 256 MiB.
#[must_use]
pub fn recordings_in_archive(path: &Path) -> Vec<PathBuf> {
    let progress = Progress::new();
    progress.limit_unpacked(MAX_SEARCHED_BYTES);
    members_of(path, &progress)
}

/// Returns the files of a recording besides the path itself: writing one of them changes the recording. Includes
/// missing files that would be read.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    if let Some((archive, _)) = split_member(path) {
        return vec![archive];
    }
    match detect_container(path) {
        Container::Tar | Container::Zip => Vec::new(),
        _ => importer_parts(path),
    }
}
