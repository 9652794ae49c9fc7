//! Filters of events: one small language for the event table, the timeline, the command line and saved views.
//!
//! A text becomes a [`Query`], which knows no recording; a query and a recording become a [`Filter`], in which every
//! name is resolved; a filter is scanned over the columns of the events and gives a [`Selection`]. What can be said is
//! specified in `docs/query.md`, and [`WORDS`] is the table of the language's own words.

mod block;
mod compile;
mod complete;
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
pub use context::{Derived, Interrupt, JobBounds, Jobs};
pub use edit_distance::{distance, nearest};
pub use error::{FilterError, FilterErrorKind};
pub use keywords::{KEYWORDS, Keyword, Meaning};
pub use scan::ScanMatches;
pub use selection::Selection;
pub use syntax::Query;

/// Maximum number of bytes of a filter's text.
pub const MAX_BYTES: usize = 16 << 10;

/// Maximum number of parts of a filter that may be nested in one another.
pub const MAX_DEPTH: usize = 64;
