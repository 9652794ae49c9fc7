//! Detection of JSON files by their first bytes.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Number of bytes that are read to detect a file.
const FIRST_LOOK: u64 = 1 << 18;
/// Whether a path is a JSON file whose first bytes satisfy `has`.
pub(crate) fn begins_as_json(path: &Path, has: impl Fn(&[u8]) -> bool) -> bool {
    let is_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    if !is_json || !path.is_file() {
        return false;
    }
    let mut text = Vec::new();
    let read = File::open(path).and_then(|f| f.take(FIRST_LOOK).read_to_end(&mut text));
    read.is_ok() && text.trim_ascii_start().first() == Some(&b'{') && has(&text)
}
