//! Device core dumps of drivers whose form is not read: the driver by the first bytes of its dump.

use super::unpacked_file::read_head;
use std::path::Path;

/// Number of bytes that name the driver.
const HEAD_BYTES: usize = 4096;
/// First bytes of a dump of etnaviv: `ETDUMP_MAGIC` of its `etnaviv_dump.h`.
const ETNAVIV: [u8; 4] = *b"ETNA";
/// First words of dumps that are text, with their driver.
const HEADINGS: [(&str, &str); 3] = [
    ("**** AMDGPU Device Coredump ****", "amdgpu"),
    ("**** Xe Device Coredump ****", "xe"),
    ("GPU HANG: ecode", "i915"),
];

/// Returns a description if the file is such a dump.
pub fn describe(path: &Path) -> Option<String> {
    let head = read_head(path, HEAD_BYTES).ok()?;
    let driver = driver_of(&head)?;
    Some(format!(
        "a device core dump of the Linux driver {driver}: of these, only dumps of panfrost are read"
    ))
}

fn driver_of(head: &[u8]) -> Option<String> {
    if head.starts_with(&ETNAVIV) {
        return Some("etnaviv".to_owned());
    }
    let text = String::from_utf8_lossy(head);
    let heading = HEADINGS
        .iter()
        .find(|(heading, _)| text.trim_start().starts_with(heading));
    if let Some((_, driver)) = heading {
        return Some((*driver).to_owned());
    }
    // msm writes YAML with the name of the module.
    let is_yaml = text.starts_with("---\n") && text.contains("\nkernel: ");
    let module = text.lines().find_map(|line| line.strip_prefix("module: "));
    let module = module.map(str::trim).filter(|_| is_yaml)?;
    let is_name =
        !module.is_empty() && module.len() <= 32 && module.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| module.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_of_other_drivers_are_named() {
        let driver = |head: &[u8]| driver_of(head);
        let msm = b"---\nkernel: 6.6.0\nmodule: msm\ntime: 1.5\n";
        assert_eq!(driver(msm).as_deref(), Some("msm"));
        assert_eq!(driver(b"ETNA\0\0\0\0").as_deref(), Some("etnaviv"));
        let amdgpu = b"**** AMDGPU Device Coredump ****\nversion: 1\nkernel: 6.8.0\nmodule: amdgpu\n";
        assert_eq!(driver(amdgpu).as_deref(), Some("amdgpu"));
        assert_eq!(driver(b"**** Xe Device Coredump ****\n").as_deref(), Some("xe"));
        assert_eq!(driver(b"GPU HANG: ecode 9:1:85dffffb\n").as_deref(), Some("i915"));
        for other in [
            &b"---\nmodule: msm\n"[..],
            b"---\nkernel: 1\nmodule: a b\n",
            b"",
            b"ETN",
        ] {
            assert_eq!(driver(other), None, "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn the_error_says_which_dumps_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("msm.devcore");
        std::fs::write(&path, "---\nkernel: 6.6.0\nmodule: msm\n").unwrap();
        let text = describe(&path).unwrap();
        assert!(text.contains("driver msm") && text.contains("panfrost"), "{text}");
        assert_eq!(describe(&folder.path().join("none")), None);
    }
}
