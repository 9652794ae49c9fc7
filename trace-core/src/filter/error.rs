//! Errors in a filter's text, with their positions.

use super::{MAX_BYTES, MAX_DEPTH};
use crate::xref::TargetError;
use std::ops::Range;

/// An error in a filter and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct FilterError {
    /// The kind of the error.
    pub what: FilterErrorKind,
    /// The byte range of the error in the text. It is on character boundaries, and empty at the end of the text if
    /// something is missing there.
    pub span: Range<usize>,
}

/// The kind of an error in a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterErrorKind {
    /// The text is longer than [`MAX_BYTES`].
    #[error("the filter is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// The nesting depth exceeds [`MAX_DEPTH`].
    #[error("the filter is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// A character that starts no token.
    #[error("{:?} has no meaning here{}", .0, sign_description(*.0))]
    Character(char),
    /// A quoted text without a closing quote.
    #[error("the text that begins here has no closing quote")]
    UnterminatedText,
    /// An invalid number.
    #[error("`{text}` is not a number: {why}")]
    Number {
        /// The number as typed.
        text: String,
        /// The reason.
        why: &'static str,
    },
    /// Another token was expected.
    #[error("{expected} is expected here{}", format_found(.found))]
    Expected {
        /// Description of the expected token.
        expected: &'static str,
        /// The token found instead; empty at the end.
        found: String,
    },
    /// A closing bracket without an opening one, or a token after the end of the expression.
    #[error("`{0}` is not expected here")]
    Unexpected(String),
    /// An unknown name.
    #[error("no {what} is called `{word}`{}", format_suggestion_or_pattern(.word, .what, .near))]
    Unknown {
        /// The kind of name that was expected.
        what: &'static str,
        /// The name as typed.
        word: String,
        /// The nearest known name.
        near: Option<String>,
    },
    /// A register is named, but no register map covers the recording's accesses.
    #[error("`{0}` can only be a register, but no register map names a register of this recording")]
    NoMap(String),
    /// The register has no field of this name.
    #[error("{register} has no field `{field}`{}", format_fields(.near, .fields))]
    NoField {
        /// The register.
        register: String,
        /// The field as typed.
        field: String,
        /// The nearest field.
        near: Option<String>,
        /// The fields of the register.
        fields: Vec<String>,
    },
    /// A number instead of a name, or a name instead of a number.
    #[error("`{left}` can only be compared with {wants}")]
    Kind {
        /// The left side of the comparison.
        left: String,
        /// The kind of value that it can be compared with.
        wants: &'static str,
    },
    /// An operator that the left side does not support.
    #[error("`{operator}` cannot be used with `{left}`: {why}")]
    Operator {
        /// The operator.
        operator: &'static str,
        /// The left side of the comparison.
        left: String,
        /// The reason.
        why: &'static str,
    },
    /// A word for a kind of event is used in a comparison.
    #[error("`{0}` stands alone and cannot be compared")]
    UnexpectedOperand(String),
    /// The recording does not have the target of `references`.
    #[error(transparent)]
    Target(TargetError),
    /// The target of `references` has too many references.
    #[error("it has more than a million references; for a register, its name alone finds its accesses")]
    TooManyReferences,
    /// The end of a range is before its start.
    #[error("the range ends before it begins (FIRST..END excludes END, FIRST..=LAST includes LAST)")]
    ReversedRange,
    /// A regular expression does not compile.
    #[error("the regular expression is invalid: {0}")]
    Regex(String),
}

fn format_found(found: &str) -> String {
    if found.is_empty() {
        ", where the filter ends".to_owned()
    } else {
        format!(", not `{found}`")
    }
}

fn format_suggestion(near: &Option<String>) -> String {
    near.as_ref()
        .map_or_else(String::new, |n| format!("; did you mean `{n}`?"))
}

/// Returns the probable meaning of an operator from other languages.
fn sign_description(sign: char) -> &'static str {
    match sign {
        '~' => "; did you mean `=~`, which takes a pattern in quotes?",
        '|' => "; did you mean `or`?",
        '-' => "; a range is written 4..=9",
        '*' | '?' | '[' | '^' | '%' => "; a pattern is written reg =~ \"^JS1_\"",
        _ => "",
    }
}

/// Formats the nearest name as a suggestion; for a name that contains `*`, explains how to write a pattern.
fn format_suggestion_or_pattern(word: &str, what: &str, near: &Option<String>) -> String {
    let field = match what {
        "register" => "reg",
        "block" => "block",
        "space" => "space",
        _ => return format_suggestion(near),
    };
    if !word.contains(['*', '?']) {
        return format_suggestion(near);
    }
    // A star at an end means no anchor there; one inside stands for any text.
    let inner = word.trim_matches('*');
    let begin = if word.starts_with('*') { "" } else { "^" };
    let end = if word.ends_with('*') { "" } else { "$" };
    let pattern = inner.replace('*', ".*").replace('?', ".");
    format!("; for a pattern: {field} =~ \"{begin}{pattern}{end}\"")
}

fn format_fields(nearest: &Option<String>, fields: &[String]) -> String {
    match (nearest, fields) {
        (Some(_), _) => format_suggestion(nearest),
        (None, []) => "; it has none".to_owned(),
        (None, all) => format!("; it has {}", all.join(", ")),
    }
}

impl FilterError {
    pub(super) fn new(what: FilterErrorKind, span: Range<usize>) -> Self {
        Self { what, span }
    }

    /// Returns the line with the error and, below it, a line with `^` under each wrong character, each after
    /// `indent`. Each character counts as one column; a tab is shown as a space.
    #[must_use]
    pub fn caret(&self, text: &str, indent: &str) -> String {
        let at = floor(text, self.span.start);
        let end = floor(text, self.span.end).max(at);
        let line_start = text.get(..at).and_then(|t| t.rfind('\n')).map_or(0, |n| n + 1);
        let line_end = text.get(at..).and_then(|t| t.find('\n')).map_or(text.len(), |n| at + n);
        let line: String = text
            .get(line_start..line_end)
            .unwrap_or_default()
            .chars()
            .map(plain)
            .collect();
        let before = text.get(line_start..at).unwrap_or_default().chars().count();
        let under = text
            .get(at..end.min(line_end))
            .unwrap_or_default()
            .chars()
            .count()
            .max(1);
        format!("{indent}{line}\n{indent}{}{}", " ".repeat(before), "^".repeat(under))
    }
}

/// Returns a character as the line shows it.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// Returns the character boundary at or before a byte.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
