//! Reads of a part of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Reads `bytes` bytes at offset `at`; fewer at the end of the file.
///
/// # Errors
/// If the operating system refuses.
pub(crate) fn read_at(file: &File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut out = vec![0; bytes];
    let mut filled = 0;
    while let Some(room) = out.get_mut(filled..).filter(|r| !r.is_empty()) {
        match file.read_at(room, at.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    out.truncate(filled);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_ends_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = File::open(&path).unwrap();
        for (at, bytes, expected) in [(0, 4, &b"0123"[..]), (7, 9, b"789"), (10, 1, b""), (u64::MAX, 1, b"")] {
            let read = read_at(&file, at, bytes);
            // The system refuses offsets that a file cannot have.
            assert!(
                read.as_deref().map_or(at > i64::MAX as u64, |read| read == expected),
                "{at}: {read:?}"
            );
        }
    }
}
