//! QEMU for tests: whether it is installed, and logs of drivers that ran on its devices.

use crate::recordings;
use std::path::PathBuf;
use std::process::Command;

/// Returns the major version of the installed QEMU, or `None` if QEMU is not installed.
fn version() -> Option<u32> {
    let version = Command::new("qemu-system-x86_64").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    text.split("version ").nth(1)?.split('.').next()?.parse().ok()
}

/// Returns whether QEMU is installed; prints a line if it is not.
#[must_use]
pub fn has_qemu() -> bool {
    let is_installed = version().is_some();
    if !is_installed {
        println!("skipped: no QEMU (qemu-system-x86)");
    }
    is_installed
}

/// Returns a log of a driver on a QEMU device. Returns `None` if the recordings are missing or QEMU is older than the
/// recorded device, and prints the reason. Devices of older versions answer differently.
#[must_use]
pub fn log(name: &str) -> Option<PathBuf> {
    let folder = recordings()?.join("mmiotrace");
    if version().is_none_or(|major| major < 10) {
        println!("skipped: no QEMU of version 10 (qemu-system-x86)");
        return None;
    }
    Some(folder.join(format!("{name}.txt.gz")))
}
