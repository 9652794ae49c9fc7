//! Event filters: one small language for the event table, the timeline, the command line and saved views.
//!
//! A text is parsed to a [`Query`], which is independent of any recording. A query and a recording are compiled to a
//! [`Filter`], in which every name is resolved. A filter is scanned over the event columns and gives a [`Selection`].
//! `docs/query.md` specifies the language, and [`KEYWORDS`] is the table of its keywords.

mod block;
mod compile;
mod compile_registers;
mod complete;
mod conditions;
mod context;
mod edit_distance;
mod error;
mod eval;
mod keywords;
mod lex;
mod mask;
mod number;
mod register_tests;
mod scan;
mod selection;
mod syntax;
#[cfg(test)]
mod tests;

pub use compile::Filter;
pub use complete::{Candidate, CandidateKind, Completions, complete};
pub use context::{Derived, InputSpan, Interrupt, JobBounds, Jobs};
pub use edit_distance::{distance, nearest};
pub use error::{FilterError, FilterErrorKind};
pub use keywords::{KEYWORDS, Keyword, Meaning};
pub use scan::ScanMatches;
pub use selection::Selection;
pub use syntax::Query;

/// Maximum size of a filter's text, bytes.
pub const MAX_BYTES: usize = 16 << 10;

/// Maximum nesting depth of a filter.
pub const MAX_DEPTH: usize = 64;
