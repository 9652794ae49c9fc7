//! The lanes of saved filters: matching events, searched once off the interface thread.

use crate::derived_data::DerivedData;
use crate::wasm_run::add_filter_inputs;
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::Recording;
use trace_core::filter::{FilterError, Query, Selection};
use trace_core::progress::{Cancelled, Progress};

/// Maximum number of filter lanes that the timeline shows.
pub const MAX_FILTER_LANES: usize = 16;

/// The search state of a filter.
enum LaneState {
    Pending(Progress),
    Rows(Arc<Selection>),
    Failed(String),
}

/// The matching events of the filters that are lanes.
#[derive(Default)]
pub struct Lanes(BTreeMap<String, LaneState>);

impl Lanes {
    /// Returns the events that match a filter, or `None` if they are not known.
    #[must_use]
    pub fn rows(&self, filter: &str) -> Option<&Arc<Selection>> {
        match self.0.get(filter) {
            Some(LaneState::Rows(rows)) => Some(rows),
            _ => None,
        }
    }

    /// Marks a filter as being searched.
    pub fn set_pending(&mut self, filter: String, progress: Progress) {
        self.0.insert(filter, LaneState::Pending(progress));
    }

    /// Stores the error of a filter.
    pub fn set_error(&mut self, filter: String, e: &FilterError) {
        self.0.insert(filter, LaneState::Failed(e.to_string()));
    }

    /// Stores the result of a search.
    pub fn set_result(&mut self, filter: &str, found: Result<Result<Selection, Cancelled>, FilterError>) {
        // The lane was removed in the meantime.
        let Some(at) = self.0.get_mut(filter) else { return };
        *at = match found {
            Ok(Ok(rows)) => LaneState::Rows(Arc::new(rows)),
            Err(e) => LaneState::Failed(e.to_string()),
            Ok(Err(Cancelled)) => match at {
                // The result is of an earlier search: the lane was removed and added again.
                LaneState::Pending(p) if p.check().is_ok() => return,
                _ => LaneState::Failed("the search was cancelled; hide the lane and show it again".into()),
            },
        };
    }

    /// Removes the results of filters that are not in `filters` and cancels their searches. Returns those that were not
    /// searched yet.
    pub fn retain(&mut self, filters: Vec<String>) -> Vec<String> {
        self.0.retain(|text, found| {
            let keep = filters.contains(text);
            if let (false, LaneState::Pending(progress)) = (keep, found) {
                progress.cancel();
            }
            keep
        });
        let is_new = |text: &String| !self.0.contains_key(text);
        filters.into_iter().filter(is_new).collect()
    }

    /// Returns the error of a filter on this recording.
    #[must_use]
    pub fn error(&self, filter: &str) -> Option<&str> {
        match self.0.get(filter) {
            Some(LaneState::Failed(why)) => Some(why),
            _ => None,
        }
    }
}

/// Returns the events that match the text of a filter. Takes time proportional to the number of events.
///
/// # Errors
/// The filter error, or [`Cancelled`].
pub fn search(
    query: &Query,
    recording: &Recording,
    derived: &DerivedData,
    progress: &Progress,
) -> Result<Result<Selection, Cancelled>, FilterError> {
    let filter_data = query.needs_derived().then(|| derived.filter_data());
    let filter_data = add_filter_inputs(query, recording, filter_data);
    let filter = query.compile(recording, filter_data.as_ref())?;
    Ok(filter.select(&recording.events, progress))
}
