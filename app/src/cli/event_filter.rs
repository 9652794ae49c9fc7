//! Event filters on the command line. An error shows a marker line below the filter.

use super::failure::FailureKind;
use super::source::SourceRecording;
use super::{Failure, empty_result, progress_line};
use kinescope_session::wasm_run::add_filter_inputs;
use trace_core::filter::{Derived, Filter, Query, Selection};
use trace_core::ranges;

/// Compiles the filter of an option for a recording. Finds jobs and polls only if the filter uses them.
///
/// # Errors
/// When the filter is invalid, or the search for jobs was cancelled.
pub fn compile(option: &str, text: &str, opened: &SourceRecording) -> Result<Filter, Failure> {
    let describe = |e: trace_core::filter::FilterError| {
        let message = format!("{option}: {e}\n{}", e.caret(text, "  "));
        Failure::usage(message).with_kind(FailureKind::Filter)
    };
    let query = Query::parse(text).map_err(describe)?;
    let derived = match query.needs_derived() {
        true => Some(Derived::from(&opened.timeline()?)),
        false => None,
    };
    let derived = add_filter_inputs(&query, &opened.recording, derived);
    query.compile(&opened.recording, derived.as_ref()).map_err(describe)
}

/// Converts a job argument to a filter: a number, `FIRST..END` or `FIRST..=LAST`.
///
/// # Errors
/// When the text is none of these.
pub fn job_filter(text: &str) -> Result<String, String> {
    let number = |t: &str| t.parse::<u64>().map_err(|_| String::new());
    if number(text).is_ok() {
        return Ok(format!("job = {text}"));
    }
    match ranges::parse(text, number) {
        Ok(_) => Ok(format!("job in {text}")),
        Err(_) => Err(format!("'{text}' is no job (expected its number, {})", ranges::FORM)),
    }
}

/// Fails if `--job` names a single job that the recording does not have.
pub fn check_job(filter: &str, opened: &SourceRecording) -> Result<(), Failure> {
    let Some(job) = filter.strip_prefix("job = ").and_then(|n| n.parse::<u64>().ok()) else {
        return Ok(());
    };
    match opened.timeline()?.jobs.len() as u64 {
        n if job < n => Ok(()),
        n => Err(empty_result::no_such_job(job, n, opened)),
    }
}

/// Returns the combined filter of `--where` and `--job`; `None` if neither is given.
///
/// # Errors
/// The errors of [`compile`].
pub fn of_events(filter: Option<&str>, job: Option<&str>, opened: &SourceRecording) -> Result<Option<Filter>, Failure> {
    // Errors in the user's filter refer to its text alone.
    if let (Some(filter), Some(_)) = (filter, job) {
        compile("--where", filter, opened)?;
    }
    match (filter, job) {
        (Some(filter), Some(job)) if !filter.trim().is_empty() => {
            compile("--where", &format!("({filter}) and {job}"), opened).map(Some)
        }
        (Some(filter), None) => compile("--where", filter, opened).map(Some),
        (_, Some(job)) => compile("--job", job, opened).map(Some),
        (None, None) => Ok(None),
    }
}

/// Returns all events of a recording that pass the filter.
///
/// # Errors
/// When the filter is invalid, or the task was cancelled.
pub fn select(option: &str, text: &str, opened: &SourceRecording) -> Result<Selection, Failure> {
    let filter = compile(option, text, opened)?;
    progress_line::run_with_progress("filtering events", |progress, _| {
        let found = filter.select(&opened.recording.events, progress);
        found.map_err(|e| Failure::file(&opened.file, e))
    })
}
