//! Parser of memory search patterns: `0a ff`, `"text"`, `f32:1.5`, `/regex/`, `->0x1000`.

use kinescope_files::values;
use regex::bytes::RegexBuilder;
use std::ops::Range;
use trace_core::memory::Pattern;
use trace_core::ranges;
use trace_core::recording::{Buffer, ElementType};

/// The pattern forms, for help and error messages.
pub const FORMS: &str = "0a ff, \"text\", f32:1.5, /expression/, ->0x1000, ->0x1000..0x2000, ->buffer";

/// Maximum size of a compiled expression, bytes.
const MAX_COMPILED_BYTES: usize = 4 << 20;

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text is empty.
    #[error("there is nothing to search for (expected one of {FORMS})")]
    Empty,
    /// The text has none of the forms.
    #[error("'{0}' is not a pattern (expected one of {FORMS})")]
    Form(String),
    /// The text is not a value of the type.
    #[error("'{text}' is not a value of type {}", .element.name())]
    Value {
        /// The value.
        text: String,
        /// The type.
        element: ElementType,
    },
    /// The expression is invalid.
    #[error("the expression cannot be used: {0}")]
    Expression(String),
    /// The pointer target is neither an address nor a buffer.
    #[error(
        "'{0}' is neither an address, nor a range of them, nor a buffer (expected ->0x1000, ->0x1000..0x2000 or ->NAME)"
    )]
    Place(String),
}

/// Parses a pattern: bytes as hex digits, `"text"` in quotes, `TYPE:VALUE`, or `/expression/` over bytes. Expressions
/// have the syntax of `regex::bytes`: `.` is any byte except a line feed, and `(?-u:\xff)` is a byte. `->PLACE` matches
/// 8-byte words that point to it, and `->4:PLACE` matches 4-byte words. Without a form, the text is a value if memory
/// is viewed as `element`.
///
/// # Errors
/// [`PatternError`].
pub fn parse(text: &str, element: Option<ElementType>, buffers: &[Buffer]) -> Result<Pattern, PatternError> {
    let t = text.trim();
    if t.is_empty() {
        return Err(PatternError::Empty);
    }
    if let Some(rest) = t.strip_prefix("->") {
        return pointer(rest.trim(), buffers);
    }
    if let Some(rest) = t.strip_prefix('/').filter(|r| !r.is_empty()) {
        let source = rest.strip_suffix('/').unwrap_or(rest);
        let built = RegexBuilder::new(source).size_limit(MAX_COMPILED_BYTES).build();
        let regex = built.map_err(|e| PatternError::Expression(describe_regex_error(&e)))?;
        return Ok(Pattern::Regex(regex));
    }
    let typed = t.split_once(':').and_then(|(name, value)| {
        let e = ElementType::ALL.into_iter().find(|e| e.name() == name.trim())?;
        Some((e, value))
    });
    let value = |e: ElementType, text: &str| {
        values::parse_element(e, text).map_err(|_| PatternError::Value {
            text: text.trim().to_owned(),
            element: e,
        })
    };
    let bytes = match (t.strip_prefix('"'), typed, element) {
        (Some(rest), ..) => rest.strip_suffix('"').unwrap_or(rest).as_bytes().to_vec(),
        (None, Some((e, v)), _) => value(e, v)?,
        (None, None, Some(e)) => value(e, t)?,
        (None, None, None) => {
            let hex = values::parse_hex(t.strip_prefix("0x").unwrap_or(t));
            hex.ok_or_else(|| PatternError::Form(t.to_owned()))?
        }
    };
    match bytes.is_empty() {
        true => Err(PatternError::Empty),
        false => Ok(Pattern::Bytes(bytes)),
    }
}

/// Returns the error of an expression on one line: the last line of the message, which draws the position above it.
fn describe_regex_error(e: &regex::Error) -> String {
    let text = e.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

fn pointer(text: &str, buffers: &[Buffer]) -> Result<Pattern, PatternError> {
    let wrong = || PatternError::Place(text.to_owned());
    let (width, place) = match text.split_once(':') {
        Some(("4", place)) => (4, place.trim()),
        Some(("8", place)) => (8, place.trim()),
        _ => (8, text),
    };
    let number = crate::text::parse_number;
    let to: Range<u64> = if let Some(b) = buffers.iter().find(|b| b.name == place) {
        b.va.get()..b.va.get().saturating_add(b.bytes.max(1))
    } else if let Some(typed) = ranges::split(place) {
        let (first, end) = number(typed.first).zip(number(typed.end)).ok_or_else(wrong)?;
        first..if typed.inclusive { end.saturating_add(1) } else { end }
    } else {
        let at = number(place).ok_or_else(wrong)?;
        at..at.checked_add(1).ok_or_else(wrong)?
    };
    if to.is_empty() {
        return Err(wrong());
    }
    Ok(Pattern::Pointer { to, width })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::GpuVa;
    use trace_core::recording::BufferRole;

    fn bytes(text: &str, element: Option<ElementType>) -> Option<Vec<u8>> {
        match parse(text, element, &[]) {
            Ok(Pattern::Bytes(b)) => Some(b),
            _ => None,
        }
    }

    #[test]
    fn search_pattern_parses_bytes_text_and_values() {
        assert_eq!(bytes("0a ff", None), Some(vec![10, 255]));
        assert_eq!(bytes("\"ab\"", None), Some(b"ab".to_vec()));
        assert_eq!(bytes("0x10", None), Some(vec![16]));
        assert_eq!(bytes("f32:1", None), Some(1f32.to_le_bytes().to_vec()));
        assert_eq!(bytes("f16: -2", None), Some(vec![0, 0xc0]));
        assert_eq!(bytes("10", Some(ElementType::U16)), Some(vec![10, 0]));
        assert_eq!(bytes("\"10\"", Some(ElementType::U16)), Some(b"10".to_vec()));
    }

    #[test]
    fn invalid_search_patterns_are_errors() {
        let describe = |t: &str, e| parse(t, e, &[]).unwrap_err().to_string();
        assert_eq!(parse(" ", None, &[]).unwrap_err(), PatternError::Empty);
        assert_eq!(parse("\"\"", None, &[]).unwrap_err(), PatternError::Empty);
        assert!(describe("xyz", None).contains("'xyz' is not a pattern"));
        assert_eq!(
            describe("300", Some(ElementType::U8)),
            "'300' is not a value of type u8"
        );
        assert!(
            describe("/(/", None).contains("unclosed group"),
            "{}",
            describe("/(/", None)
        );
        assert!(describe("/(a{1000}){1000}/", None).contains("size limit"));
        assert!(describe("->nothing", None).contains("nor a buffer"));
        assert!(describe("->0x20..0x10", None).contains("nor a range"));
    }

    #[test]
    fn pointers_are_to_an_address_a_range_or_a_buffer() {
        let buffers = [Buffer {
            name: "in".into(),
            role: BufferRole::Input,
            va: GpuVa::new(0x5000),
            address_space: 0,
            bytes: 0x20,
            element: ElementType::F32,
        }];
        let pointer = |t: &str| match parse(t, None, &buffers) {
            Ok(Pattern::Pointer { to, width }) => (to, width),
            other => panic!("{t}: {other:?}"),
        };
        assert_eq!(pointer("->0x1000"), (0x1000..0x1001, 8));
        assert_eq!(pointer("-> 0x1000..0x2000"), (0x1000..0x2000, 8));
        assert_eq!(pointer("->0x1000..=0x1fff"), (0x1000..0x2000, 8));
        assert_eq!(pointer("->4:in"), (0x5000..0x5020, 4));
    }
}
