//! Filters of events: one small language for the event table, the timeline, the command line and saved views.
//!
//! A text becomes a [`Query`], which knows no recording; a query and a recording become a [`Filter`], in which every
//! name is resolved; a filter is scanned over the columns of the events and gives a [`Selection`]. What can be said is
//! specified in `docs/query.md`, and [`WORDS`] is the table of the language's own words.

mod block;
mod compile;
mod complete;
mod context;
mod error;
mod eval;
mod lex;
mod mask;
mod near;
mod number;
mod places;
mod scan;
mod selection;
mod syntax;
#[cfg(test)]
mod tests;
mod words;

pub use compile::Filter;
pub use complete::{Candidate, CandidateKind, Completions, complete};
pub use context::{Derived, Interrupt, JobEnds, Jobs};
pub use error::{FilterError, Wrong};
pub use near::{distance, nearest};
pub use scan::Found;
pub use selection::Selection;
pub use syntax::Query;
pub use words::{Meaning, WORDS, Word};

/// Most bytes of a filter's text.
pub const MOST_BYTES: usize = 16 << 10;

/// Most parts of a filter that may be nested in one another.
pub const MOST_DEPTH: usize = 64;
