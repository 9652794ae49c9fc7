//! Location of the published recordings for tests.

use std::path::PathBuf;

/// Returns the folder `name` of the published recordings. If it is missing, prints a line and returns `None`, and the
/// test is skipped.
pub(crate) fn recordings(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/recordings"),
        PathBuf::from,
    );
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: {} is missing", folder.display());
    None
}
