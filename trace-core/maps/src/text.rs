//! Numbers and texts of the files of imports.

/// Maximum size of a name, bytes.
pub(crate) const MAX_NAME: usize = 256;

/// Parses `31` or `0x1f`.
pub(crate) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the text of an element in one line, cut to the maximum length of a description.
pub(crate) fn one_line(text: &str) -> String {
    const MAX_DESCRIPTION: usize = 1000;
    let mut out = String::new();
    for word in text.split_whitespace() {
        if out.len() + word.len() > MAX_DESCRIPTION {
            out.push_str(" …");
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Returns a text with line breaks and control characters replaced by spaces.
pub(crate) fn one_name(text: &str) -> String {
    let plain = |c: char| {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            ' '
        } else {
            c
        }
    };
    text.chars().map(plain).collect()
}
