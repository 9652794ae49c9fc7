//! Numbers and words in the text of a line.

/// Parses a number at the start of a text, hexadecimal with `0x` or decimal. What follows does not matter.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => leading_hex(digits),
        None => leading(text, 10),
    }
}

/// Parses hexadecimal digits at the start of a text, with or without `0x`.
pub(super) fn leading_hex(text: &str) -> Option<u64> {
    leading(text.strip_prefix("0x").unwrap_or(text), 16)
}

fn leading(text: &str, radix: u32) -> Option<u64> {
    let end = text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len());
    u64::from_str_radix(text.get(..end)?, radix).ok()
}

/// Parses a whole word of hexadecimal digits, with or without `0x`.
pub(super) fn hex(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// Returns the text after a key.
pub(super) fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_once(key).map(|(_, rest)| rest)
}

/// Parses the number after a key.
pub(super) fn number_after(text: &str, key: &str) -> Option<u64> {
    number(after(text, key)?.trim_start())
}

/// A word after a key, and the text in the square brackets that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LabelledWord<'a> {
    pub(super) word: &'a str,
    pub(super) label: Option<&'a str>,
}

impl<'a> LabelledWord<'a> {
    /// Returns the label, or the word if there is none.
    pub(super) fn name(self) -> &'a str {
        self.label.filter(|label| !label.is_empty()).unwrap_or(self.word)
    }
}

/// Returns the word after a key with its label: `02 [PTE]`.
pub(super) fn labelled<'a>(text: &'a str, key: &str) -> Option<LabelledWord<'a>> {
    let rest = after(text, key)?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (word, rest) = rest.split_at_checked(end)?;
    if word.is_empty() {
        return None;
    }
    let label = rest.strip_prefix(" [").and_then(bracketed);
    Some(LabelledWord { word, label })
}

/// Returns the text up to the bracket that closes an open one; brackets inside come in pairs.
pub(super) fn bracketed(text: &str) -> Option<&str> {
    let mut depth = 0u32;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return text.get(..at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Splits `NAME[PID]` into the name and the number. Returns `None` for a name without one.
pub(super) fn process(text: &str) -> Option<(&str, u32)> {
    let (name, pid) = text.strip_suffix(']')?.rsplit_once('[')?;
    Some((name, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_their_digits_end() {
        assert_eq!(
            (number("0x1000."), number("12 of"), number("x")),
            (Some(0x1000), Some(12), None)
        );
        assert_eq!(
            (leading_hex("ff]"), leading_hex("0x"), number("0x")),
            (Some(255), None, None)
        );
        assert_eq!(
            (hex("00000000523e8"), hex("(nil)"), hex("+1"), hex("")),
            (Some(0x523e8), None, None, None)
        );
        assert_eq!(hex("10000000000000000"), None);
        assert_eq!(number_after("size: 0x40, x", "size: "), Some(0x40));
    }

    #[test]
    fn labels_may_hold_brackets() {
        let text = "engine 40 [gr] client 11 on channel 23 [05fe930000 a[b][7]] end";
        let label = |key| labelled(text, key).map(LabelledWord::name);
        assert_eq!((label("engine "), label("client ")), (Some("gr"), Some("11")));
        assert_eq!(label("on channel "), Some("05fe930000 a[b][7]"));
        assert_eq!(labelled(text, "reason "), None);
        assert_eq!(process("a[b][7]"), Some(("a[b]", 7)));
        assert_eq!((process("DRM"), process("a[x]")), (None, None));
    }
}
