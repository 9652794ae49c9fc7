//! Device core dumps of drivers whose form is not read: the driver by the first bytes of its dump.

use super::unpacked_file::read_head;
use std::path::Path;

/// Number of bytes that name the driver.
const HEAD_BYTES: usize = 4096;
/// The drivers whose dumps are read.
const READ_DRIVERS: &str = "panfrost, panthor, msm, xe, i915, amdgpu and etnaviv";

/// Returns a description if the file is such a dump.
pub fn describe(path: &Path) -> Option<String> {
    let head = read_head(path, HEAD_BYTES).ok()?;
    let driver = driver_of(&head)?;
    Some(format!(
        "a device core dump of the Linux driver {driver}: of these, only dumps of {READ_DRIVERS} are read"
    ))
}

/// Returns the driver that wrote a text of YAML with the kernel's release and the name of the module: at its top, or
/// below a key `header`.
fn driver_of(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    if !text.starts_with("---\n") {
        return None;
    }
    let value = |key: &str| text.lines().find_map(|line| line.trim_start().strip_prefix(key));
    let module = value("module: ")
        .map(str::trim)
        .filter(|_| value("kernel: ").is_some())?;
    let is_name =
        !module.is_empty() && module.len() <= 32 && module.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| module.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_of_other_drivers_are_named() {
        let other = b"---\nkernel: 6.6.0\nmodule: other\ntime: 1.5\n";
        assert_eq!(driver_of(other).as_deref(), Some("other"));
        let panthor = b"---\nheader:\n  kernel: 6.16.0\n  module: panthor\n  reason: CS_FATAL\n";
        assert_eq!(driver_of(panthor).as_deref(), Some("panthor"));
        for none in [
            &b"---\nmodule: msm\n"[..],
            b"---\nkernel: 1\nmodule: a b\n",
            b"kernel: 1\nmodule: other\n",
            b"",
            b"ETN",
        ] {
            assert_eq!(driver_of(none), None, "{}", String::from_utf8_lossy(none));
        }
    }

    #[test]
    fn the_error_says_which_dumps_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, "---\nkernel: 6.6.0\nmodule: other\n").unwrap();
        let text = describe(&path).unwrap();
        assert!(
            text.contains("driver other") && text.contains("panfrost, panthor, msm"),
            "{text}"
        );
        assert_eq!(describe(&folder.path().join("none")), None);
    }
}
