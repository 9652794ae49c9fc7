//! Filters on the command line: what is wrong with one is told with a line that points at it.

use super::source::Opened;
use super::{Failure, waiting};
use trace_core::filter::{Derived, Filter, Query, Selection};

/// The filter of a recording that an option asks for. Jobs and polls are found only where it asks for them.
///
/// # Errors
/// What is wrong with the filter; when finding jobs was stopped.
pub fn compile(option: &str, text: &str, opened: &Opened) -> Result<Filter, Failure> {
    let told = |e: trace_core::filter::FilterError| Failure::usage(format!("{option}: {e}\n{}", e.caret(text, "  ")));
    let query = Query::parse(text).map_err(told)?;
    let derived = match query.needs_derived() {
        true => Some(Derived::from(&opened.timeline()?)),
        false => None,
    };
    query.compile(&opened.recording, derived.as_ref()).map_err(told)
}

/// All events of a recording that pass.
///
/// # Errors
/// What is wrong with the filter; when it was stopped.
pub fn select(option: &str, text: &str, opened: &Opened) -> Result<Selection, Failure> {
    let filter = compile(option, text, opened)?;
    waiting::show("filtering events", |progress, _| {
        let found = filter.select(&opened.recording.events, progress);
        found.map_err(|e| Failure::file(&opened.file, e))
    })
}
