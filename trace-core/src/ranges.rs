//! The syntax of ranges that users write: `4..9` excludes 9, `4..=9` includes it.

use std::ops::Range;

/// The range syntax, for messages.
pub const FORM: &str = "FIRST..END without END, or FIRST..=LAST with LAST";

/// The two ends of a range as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedRange<'a> {
    /// Text before the dots; may be empty.
    pub first: &'a str,
    /// Text after the dots; may be empty.
    pub end: &'a str,
    /// Whether the range includes its end (`..=`).
    pub inclusive: bool,
}

/// Splits `FIRST..END` or `FIRST..=LAST` into its ends. Returns `None` for a text without dots.
#[must_use]
pub fn split(text: &str) -> Option<TypedRange<'_>> {
    let (first, end) = text.split_once("..")?;
    let (end, inclusive) = match end.strip_prefix('=') {
        Some(end) => (end, true),
        None => (end, false),
    };
    Some(TypedRange {
        first: first.trim(),
        end: end.trim(),
        inclusive,
    })
}

/// A range of numbers with an exclusive end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRange {
    /// The numbers. The end of an open range is the largest number.
    pub numbers: Range<u64>,
    /// Whether it was written with `..` and an end, which is excluded.
    pub leaves_end_out: bool,
}

/// Parses `FIRST..END` or `FIRST..=LAST`; `number` parses the ends. Either end may be missing.
///
/// # Errors
///
/// A message if the text is no range, or ends before it starts.
pub fn parse(text: &str, number: impl Fn(&str) -> Result<u64, String>) -> Result<ParsedRange, String> {
    let bad = || format!("'{text}' is not a range (expected {FORM})");
    let typed = split(text).ok_or_else(bad)?;
    if typed.inclusive && typed.end.is_empty() {
        return Err(bad());
    }
    let part = |t: &str, default| match t {
        "" => Ok(default),
        t => number(t).map_err(|_| bad()),
    };
    let (first, end) = (part(typed.first, 0)?, part(typed.end, u64::MAX)?);
    if first > end {
        return Err(format!("'{text}' ends before it begins (expected {FORM})"));
    }
    // Nothing has the largest possible number.
    let end = if typed.inclusive { end.saturating_add(1) } else { end };
    Ok(ParsedRange {
        numbers: first..end,
        leaves_end_out: !typed.inclusive && !typed.end.is_empty(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics when it fails")]
mod tests {
    use super::*;

    fn parse_range(text: &str) -> Result<ParsedRange, String> {
        parse(text, |t| t.parse().map_err(|_| "no number".to_owned()))
    }

    #[test]
    fn ranges_exclude_the_end_unless_written_with_equals() {
        for (text, numbers, leaves_end_out) in [
            ("4..9", 4..9, true),
            ("4..=9", 4..10, false),
            ("4 .. 9", 4..9, true),
            ("..5", 0..5, true),
            ("..=5", 0..6, false),
            ("7..", 7..u64::MAX, false),
            ("..", 0..u64::MAX, false),
            ("3..3", 3..3, true),
            ("3..=3", 3..4, false),
            ("0..=18446744073709551615", 0..u64::MAX, false),
        ] {
            let expected = ParsedRange {
                numbers,
                leaves_end_out,
            };
            assert_eq!(parse_range(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_ranges_are_refused_with_the_syntax() {
        for bad in ["", "4", "4-9", "x..9", "4..x", "4..==9", "4..=", "4...9", "-1..2"] {
            let error = parse_range(bad).unwrap_err();
            assert!(
                error.contains("not a range") && error.contains("FIRST..=LAST"),
                "{bad}: {error}"
            );
        }
        assert!(parse_range("9..4").unwrap_err().contains("ends before it begins"));
    }
}
