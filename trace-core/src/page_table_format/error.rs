//! Errors in the description of a page-table format.

/// Why a description of a page-table format was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text is no TOML of the form of a description.
    #[error("line {line}: {reason}")]
    Syntax {
        /// Line in the text, from 1.
        line: usize,
        /// What is missing or wrong.
        reason: String,
    },
    /// The description contradicts itself or is incomplete.
    #[error("line {line}: {item}: {reason}")]
    Content {
        /// Line in the text, from 1.
        line: usize,
        /// The table, rule or field.
        item: String,
        /// What is missing or wrong, and what is expected.
        reason: String,
    },
    /// The description is too long.
    #[error("the description has {bytes} bytes, more than {limit}")]
    TooLong {
        /// Length of the text, bytes.
        bytes: usize,
        /// The limit, bytes.
        limit: usize,
    },
    /// The process has read more different descriptions than it keeps.
    #[error("more than {limit} different descriptions of page-table formats were read")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}
