//! Settings from the environment.

use nvidia_channel::rm::find_module_version;
use std::path::PathBuf;

/// File of the log. Without it nothing is recorded, and calls only pass through.
const LOG: &str = "KINESCOPE_NVIDIA_LOG";
/// Approximate size of the log in bytes at which the recording ends while the program continues; 0 for no limit.
const LIMIT: &str = "KINESCOPE_RECORD_LIMIT";
/// Version of the driver; the kernel states it if this is not set.
const VERSION: &str = "KINESCOPE_NVIDIA_DRIVER";
/// File with the version of the driver.
const VERSION_FILE: &str = "/proc/driver/nvidia/version";

/// Settings of the recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub log: PathBuf,
    /// Maximum size of the log, bytes.
    pub limit: u64,
    /// Version of the driver, empty if unknown.
    pub driver_version: String,
}

impl Settings {
    /// Reads the settings, or returns `None` if nothing is recorded.
    pub fn from_environment() -> Option<Self> {
        let log = std::env::var_os(LOG).filter(|v| !v.is_empty())?;
        let limit = std::env::var(LIMIT).ok().and_then(|text| text.parse().ok());
        Some(Self {
            log: log.into(),
            limit: limit.filter(|n| *n > 0).unwrap_or(u64::MAX),
            driver_version: driver_version(),
        })
    }
}

fn driver_version() -> String {
    if let Some(version) = std::env::var(VERSION).ok().filter(|v| !v.is_empty()) {
        return version;
    }
    let text = std::fs::read_to_string(VERSION_FILE).unwrap_or_default();
    find_module_version(&text).unwrap_or_default().to_owned()
}
