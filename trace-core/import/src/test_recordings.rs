//! Where tests find the published recordings.

use std::path::PathBuf;

/// The folder `name` of the published recordings. Where it is missing, says so and gives `None`: the test then skips.
pub(crate) fn recordings(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
        PathBuf::from,
    );
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: {} is missing", folder.display());
    None
}
