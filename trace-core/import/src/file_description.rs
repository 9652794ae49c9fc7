//! Descriptions of the content of files that have no known format, for error messages.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Maximum number of members that a message names.
const MAX_NAMED: usize = 20;
/// Number of bytes that are read to distinguish text from other content.
const LOOKED_AT: u64 = 4096;

/// Describes the size and content of a file: `28 bytes of text`.
pub(super) fn describe_file(path: &Path) -> String {
    let Ok(bytes) = std::fs::metadata(path).map(|m| m.len()) else {
        return "it cannot be read".to_owned();
    };
    if bytes == 0 {
        return "an empty file".to_owned();
    }
    let counted = format_bytes(bytes);
    let mut start = Vec::new();
    let read = File::open(path).and_then(|f| f.take(LOOKED_AT).read_to_end(&mut start));
    match read {
        Ok(_) if is_text(&start) => format!("{counted} of text"),
        Ok(_) => format!("{counted} that are not text"),
        Err(_) => counted,
    }
}

/// Formats a number of bytes: `1 byte`, `28 bytes`.
pub(super) fn format_bytes(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        n => format!("{n} bytes"),
    }
}

/// Whether bytes are a text, or the start of one.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    let whole = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The last character may be cut.
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..e.valid_up_to()).unwrap_or_default()).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !whole
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}'))
}

/// Lists names, at most 20 of them.
pub(super) fn list_names(names: &[PathBuf]) -> String {
    let named: Vec<String> = names.iter().take(MAX_NAMED).map(|n| n.display().to_string()).collect();
    let more = match names.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    named.join(", ") + &more
}
