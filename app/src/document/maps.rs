//! A person's own register maps: where they lie, and put to use for a recording.

use register_maps::OwnMaps;
use std::path::{Path, PathBuf};
use trace_core::recording::Recording;

/// Variable that names another folder of maps.
pub const VARIABLE: &str = "KINESCOPE_MAPS";

/// The person's folder of maps: where `KINESCOPE_MAPS` says, or else `kinescope/maps` among the settings.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    if let Some(told) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
        return Some(PathBuf::from(told));
    }
    directories::ProjectDirs::from("", "", "kinescope").map(|d| d.config_dir().join("maps"))
}

/// Reads the person's maps and the one beside a recording, and puts them to use: from now on the recording's registers
/// have the names of the one that is for it. What is wrong with any of them is told in the answer, and stops nothing.
#[must_use]
pub fn put_to_use(file: &Path, recording: &mut Recording) -> OwnMaps {
    let mut own = OwnMaps::of_folder(folder().as_deref());
    own.add_beside(file, recording);
    own
}
