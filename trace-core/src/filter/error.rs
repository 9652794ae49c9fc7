//! What is wrong with a filter's text, and at which of its characters.

use super::{MAX_BYTES, MAX_DEPTH};
use std::ops::Range;

/// What is wrong with a filter, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct FilterError {
    /// What is wrong.
    pub what: FilterErrorKind,
    /// The bytes of the text that are wrong; on the boundaries of characters, and empty at the text's end where
    /// something is missing there.
    pub span: Range<usize>,
}

/// What can be wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterErrorKind {
    /// The text is longer than [`MAX_BYTES`].
    #[error("the filter is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// More than [`MAX_DEPTH`] parts are nested.
    #[error("the filter is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// A character that begins nothing.
    #[error("{:?} means nothing here{}", .0, sign_description(*.0))]
    Character(char),
    /// A text in quotes that does not end.
    #[error("the text that begins here has no closing quote")]
    UnterminatedText,
    /// A number that is none.
    #[error("`{text}` is not a number: {why}")]
    Number {
        /// As it was typed.
        text: String,
        /// Why not.
        why: &'static str,
    },
    /// Something else was expected.
    #[error("{expected} is expected here{}", format_found(.found))]
    Expected {
        /// What, in words.
        expected: &'static str,
        /// What is there instead; empty at the end.
        found: String,
    },
    /// A bracket that closes nothing, or a part behind the whole.
    #[error("`{0}` is not expected here")]
    Unexpected(String),
    /// A word that nothing has the name of.
    #[error("no {what} is called `{word}`{}", format_suggestion_or_pattern(.word, .what, .near))]
    Unknown {
        /// What it would be the name of.
        what: &'static str,
        /// As it was typed.
        word: String,
        /// The nearest name.
        near: Option<String>,
    },
    /// A register is named, and no map names registers that the recording accesses.
    #[error("`{0}` would be a register, and no register map names any register of this recording")]
    NoMap(String),
    /// The register has no such field.
    #[error("{register} has no field `{field}`{}", format_fields(.near, .fields))]
    NoField {
        /// The register.
        register: String,
        /// As it was typed.
        field: String,
        /// The nearest field.
        near: Option<String>,
        /// The fields that it has.
        fields: Vec<String>,
    },
    /// A number where there is a name, or the other way round.
    #[error("`{left}` is compared with {wants}")]
    Kind {
        /// What is compared.
        left: String,
        /// What it can be compared with.
        wants: &'static str,
    },
    /// An operator that does not go with what is compared.
    #[error("`{operator}` does not go with `{left}`: {why}")]
    Operator {
        /// The operator.
        operator: &'static str,
        /// What is compared.
        left: String,
        /// Why not.
        why: &'static str,
    },
    /// A word that stands for a kind of event is compared.
    #[error("`{0}` stands by itself and is not compared")]
    UnexpectedOperand(String),
    /// A range ends before it begins.
    #[error("the range ends before it begins (FIRST..END leaves END out, FIRST..=LAST includes LAST)")]
    ReversedRange,
    /// A regular expression does not compile.
    #[error("the regular expression is wrong: {0}")]
    Regex(String),
}

fn format_found(found: &str) -> String {
    if found.is_empty() {
        ", where the filter ends".to_owned()
    } else {
        format!(", and not `{found}`")
    }
}

fn format_suggestion(near: &Option<String>) -> String {
    near.as_ref()
        .map_or_else(String::new, |n| format!("; did you mean `{n}`?"))
}

/// What was probably meant by a sign that other languages have.
fn sign_description(sign: char) -> &'static str {
    match sign {
        '~' => "; did you mean `=~`, which takes a pattern in quotes?",
        '|' => "; did you mean `or`?",
        '-' => "; a range is written 4..=9",
        '*' | '?' | '[' | '^' | '%' => "; a pattern is written reg =~ \"^JS1_\"",
        _ => "",
    }
}

/// The nearest name; of a name with a `*` in it, how a pattern is written.
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
    // A star at an end is no anchor there; one within stands for any text.
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

    /// The line of the text that is wrong and below it a line with `^` under each wrong character, each behind
    /// `indent`. Characters are counted as one column each, and a tab is shown as a space.
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

/// A character as a line shows it.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// The boundary of a character at or before a byte.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
