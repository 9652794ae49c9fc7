//! The published recordings, which may be absent.

use std::path::{Path, PathBuf};

/// Returns a folder of the recordings, or `None`, with a message, if it does not exist.
pub fn find_recordings(part: &str) -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
    let path = std::env::var_os("KINESCOPE_RECORDINGS")
        .map_or_else(default, PathBuf::from)
        .join(part);
    if !path.is_dir() {
        println!("skipped: no recordings at {}", path.display());
        return None;
    }
    Some(path)
}
