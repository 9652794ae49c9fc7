//! NVIDIA's kernel driver on this machine: its version and its GPUs, from files alone.

use nvidia_client::{DriverBranch, find_module_version};
use std::fmt;
use std::path::Path;

/// File with the version of the driver.
const VERSION_FILE: &str = "/proc/driver/nvidia/version";
/// Folder with a folder for each GPU.
const GPU_FOLDER: &str = "/proc/driver/nvidia/gpus";
/// Device file of the driver.
const CONTROL_FILE: &str = "/dev/nvidiactl";

/// The driver of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverState {
    /// It is loaded, and its interface is known.
    Supported {
        /// Its branch.
        branch: DriverBranch,
        /// Its version: `580.159.04`.
        version: String,
    },
    /// It is loaded, and its interface is not known.
    Unsupported {
        /// Its version; empty if the file does not state it.
        version: String,
    },
    /// It is not loaded.
    Missing,
}

impl fmt::Display for DriverState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Supported { version, .. } => write!(f, "NVIDIA's kernel driver {version}"),
            Self::Unsupported { version } => write!(
                f,
                "NVIDIA's kernel driver {version} is not supported: versions 570, 580 and 595 are"
            ),
            Self::Missing => f.write_str("NVIDIA's kernel driver is not loaded here"),
        }
    }
}

/// Returns the state of the driver.
#[must_use]
pub fn check_driver() -> DriverState {
    let Ok(text) = std::fs::read_to_string(VERSION_FILE) else {
        return DriverState::Missing;
    };
    let version = find_module_version(&text).unwrap_or_default().to_owned();
    match DriverBranch::from_version(&version) {
        Some(branch) if Path::new(CONTROL_FILE).exists() => DriverState::Supported { branch, version },
        Some(_) => DriverState::Missing,
        None => DriverState::Unsupported { version },
    }
}

/// Returns the names of the GPUs, in the order of their bus addresses.
#[must_use]
pub fn list_gpus() -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(GPU_FOLDER) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let name = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("information")).unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("Model:"));
        model.map_or_else(|| "NVIDIA GPU".to_owned(), |m| m.trim().to_owned())
    };
    paths.iter().map(name).collect()
}
