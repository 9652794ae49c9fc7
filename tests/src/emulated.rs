//! QEMU for tests: whether it is installed, and logs of drivers that ran on its devices.

use crate::recordings;
use std::path::PathBuf;
use std::process::Command;

/// Returns the major version of the installed QEMU. Returns `None`, and prints a line about it, if there is none.
fn version() -> Option<u32> {
    let version = Command::new("qemu-system-x86_64").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    text.split("version ").nth(1)?.split('.').next()?.parse().ok()
}

/// Returns whether QEMU is installed; prints a line if it is not.
#[must_use]
pub fn has_qemu() -> bool {
    let there = version().is_some();
    if !there {
        println!("skipped: no QEMU (qemu-system-x86)");
    }
    there
}

/// Returns a log of a driver on a QEMU device. Returns `None`, and prints the reason, if there are no recordings or
/// QEMU is older than the recorded device. Devices of older versions answer differently.
#[must_use]
pub fn log(name: &str) -> Option<PathBuf> {
    let folder = recordings()?.join("mmiotrace");
    if version().is_none_or(|major| major < 10) {
        println!("skipped: no QEMU of version 10 (qemu-system-x86)");
        return None;
    }
    Some(folder.join(format!("{name}.txt.gz")))
}
