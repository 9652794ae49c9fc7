//! Comparison of texts that names the first difference.

/// Returns an error unless both texts are equal.
pub(super) fn expect_equal(found: &str, expected: &str) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let mut lines = found.lines().zip(expected.lines()).enumerate();
    match lines.find(|(_, (f, e))| f != e) {
        Some((n, (f, e))) => Err(format!("line {}: '{f}' (expected '{e}')", n + 1)),
        None => Err(format!("{} bytes (expected {})", found.len(), expected.len())),
    }
}

pub(super) fn as_text(output: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(output).map_err(|e| format!("the output is no text: {e}"))
}
