//! Names of members of archives: what they may be, so that they stay in the folder that they are unpacked to.

use std::path::PathBuf;

/// Maximum length of a name, bytes, and maximum number of folders in it.
const MAX_NAME_BYTES: usize = 4096;
const MAX_DEPTH: usize = 32;

/// Returns the path of a member below the folder of its archive, or `None` if the name leads elsewhere, is too long or
/// is empty.
pub(super) fn member_path(name: &[u8]) -> Option<PathBuf> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let text = String::from_utf8_lossy(name);
    let mut path = PathBuf::new();
    let mut depth = 0;
    for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." || part.contains('\0') {
            return None;
        }
        depth += 1;
        path.push(part);
    }
    (1..=MAX_DEPTH).contains(&depth).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        for (name, path) in [
            (&b"log.txt"[..], Some("log.txt")),
            (b"./a//b/log.txt", Some("a/b/log.txt")),
            (b"/etc/passwd", Some("etc/passwd")),
            (b"a/../../b", None),
            (b"..", None),
            (b"./", None),
            (b"", None),
            (b"a\0b", None),
        ] {
            assert_eq!(member_path(name), path.map(PathBuf::from), "{name:?}");
        }
        assert_eq!(member_path("a/".repeat(40).as_bytes()), None);
    }
}
