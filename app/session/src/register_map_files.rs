//! The user's own register maps: their location and how a recording uses them.

use register_maps::UserMaps;
use register_maps::naming::MapHeader;
use std::path::{Path, PathBuf};
use trace_core::recording::{Hardware, Recording};
use trace_core::registers::{RegisterMap, recorded_name, register_space};

/// Environment variable that names another folder of maps.
pub const FOLDER_VARIABLE: &str = "KINESCOPE_MAPS";

/// Returns the user's folder of maps: `KINESCOPE_MAPS`, or else `kinescope/maps` in the settings folder.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    if let Some(path_text) = std::env::var_os(FOLDER_VARIABLE).filter(|v| !v.is_empty()) {
        return Some(PathBuf::from(path_text));
    }
    directories::ProjectDirs::from("", "", "kinescope").map(|d| d.config_dir().join("maps"))
}

/// Loads the user's maps and the one next to a recording, and applies them: the recording's registers then have the
/// names of the matching map. The result contains errors in the maps; none of them is fatal.
#[must_use]
pub fn load_maps(file: &Path, recording: &mut Recording) -> UserMaps {
    let mut own = UserMaps::open_folder(folder().as_deref());
    own.add_sibling(file, recording);
    own
}

/// Does the same for a recording that is already open.
#[must_use]
pub fn reload_maps(file: &Path) -> UserMaps {
    let mut own = UserMaps::open_folder(folder().as_deref());
    own.refresh_sibling(file);
    own
}

/// Returns the header of a new map file for a recording. With `of_device` it applies to all recordings of its device.
#[must_use]
pub fn head(recording: &Recording, of_device: bool) -> MapHeader {
    let map = RegisterMap::for_recording(recording);
    let space = recording
        .metadata
        .spaces
        .get(usize::from(register_space(recording, map)));
    let message = recorded_name(recording);
    let mut head = MapHeader {
        name: if message.is_empty() {
            "names".to_owned()
        } else {
            message
        },
        space: space.map(|s| s.name.clone()).unwrap_or_default(),
        window: space.map_or(0x1000, |s| s.bytes.clamp(4, 1 << 26)),
        ..MapHeader::default()
    };
    if of_device {
        let gpu = (recording.metadata.identity.gpu_id >> 16) as u16;
        match recording.hardware() {
            Some(Hardware::Pci(f)) => head.pci = Some((f.vendor, f.device)),
            Some(Hardware::Platform(d)) => head.compatible = d.compatible.first().cloned(),
            _ if gpu != 0 => head.gpu = Some(gpu),
            _ => {}
        }
    }
    head
}

/// Returns the name of a new map file for a device, in the user's folder.
#[must_use]
pub fn file_name(head: &MapHeader) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = head.name.chars().map(plain).take(60).collect();
    format!("{name}{}", register_maps::SUFFIX)
}
