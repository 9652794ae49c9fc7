//! Detection of JSON files by their first bytes.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Number of bytes that are read to detect a file.
const FIRST_LOOK: u64 = 1 << 18;
/// Number of bytes that are read to see that a file is no JSON.
const FIRST_READ: usize = 1 << 9;

/// Whether a path is a JSON file, by its first byte, whose first bytes satisfy `has`.
pub(crate) fn begins_as_json(path: &Path, has: impl Fn(&[u8]) -> bool) -> bool {
    if !path.is_file() {
        return false;
    }
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    let mut text = vec![0; FIRST_READ];
    let read = file.read(&mut text).unwrap_or_default();
    text.truncate(read);
    // Most files are no JSON, and some are large.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    file.take(FIRST_LOOK).read_to_end(&mut text).is_ok() && has(&text)
}

/// Whether a JSON file has a key in its first bytes.
pub(crate) fn has_key(text: &[u8], key: &str) -> bool {
    memchr::memmem::find(text, format!("\"{key}\"").as_bytes()).is_some()
}

/// Describes a JSON file that has some of the keys of a format, and lacks others.
pub(crate) fn describe_missing_keys(path: &Path, format: &str, typical: &[&str], needed: &[&str]) -> Option<String> {
    let mut missing = None;
    let is_close = begins_as_json(path, |_| true) && {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|f| f.take(FIRST_LOOK).read_to_end(&mut text));
        missing = needed
            .iter()
            .find(|key| !has_key(&text, key))
            .map(|key| (*key).to_owned());
        read.is_ok() && typical.iter().any(|key| has_key(&text, key))
    };
    let key = missing.filter(|_| is_close)?;
    Some(format!("a JSON file like {format}, but its key \"{key}\" is missing"))
}
