//! The lanes of saved filters: what passes each of them, looked for once, apart from the interface thread.

use super::Document;
use super::facts::{Facts, Stage};
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::Recording;
use trace_core::filter::{FilterError, Query, Selection};
use trace_core::progress::{Cancelled, Progress};

/// Maximum number of lanes of filters that the timeline shows at once.
pub const MAX_FILTER_LANES: usize = 16;

/// What came of a filter, as far as is known.
enum LaneState {
    Pending(Progress),
    Rows(Arc<Selection>),
    Failed(String),
}

/// What passes the filters that are lanes.
#[derive(Default)]
pub struct Lanes(BTreeMap<String, LaneState>);

impl Lanes {
    /// The events that pass a filter; `None`: they are not known.
    #[must_use]
    pub fn rows(&self, filter: &str) -> Option<&Arc<Selection>> {
        match self.0.get(filter) {
            Some(LaneState::Rows(rows)) => Some(rows),
            _ => None,
        }
    }

    /// The events that pass are being looked for.
    pub fn set_pending(&mut self, filter: String, progress: Progress) {
        self.0.insert(filter, LaneState::Pending(progress));
    }

    /// The filter cannot be looked for.
    pub fn set_error(&mut self, filter: String, e: &FilterError) {
        self.0.insert(filter, LaneState::Failed(e.to_string()));
    }

    /// A search came to its end.
    pub fn set_result(&mut self, filter: &str, found: Result<Result<Selection, Cancelled>, FilterError>) {
        // A lane that was taken away meanwhile is not wanted.
        let Some(at) = self.0.get_mut(filter) else { return };
        *at = match found {
            Ok(Ok(rows)) => LaneState::Rows(Arc::new(rows)),
            Err(e) => LaneState::Failed(e.to_string()),
            Ok(Err(Cancelled)) => match at {
                // Not this search: one for a lane that went and came back.
                LaneState::Pending(p) if p.check().is_ok() => return,
                _ => LaneState::Failed("the search was cancelled; take the lane away and show it again".into()),
            },
        };
    }

    /// What is wrong with a filter on this recording.
    #[must_use]
    pub fn error(&self, filter: &str) -> Option<&str> {
        match self.0.get(filter) {
            Some(LaneState::Failed(why)) => Some(why),
            _ => None,
        }
    }
}

/// The events that pass a filter's text. Takes time by the number of events.
///
/// # Errors
/// What is wrong with the filter, or [`Cancelled`].
pub fn search(
    query: &Query,
    recording: &Recording,
    facts: &Facts,
    progress: &Progress,
) -> Result<Result<Selection, Cancelled>, FilterError> {
    let derived = query.needs_derived().then(|| facts.derived());
    let filter = query.compile(recording, derived.as_ref())?;
    Ok(filter.select(&recording.events, progress))
}

impl Document {
    /// Whether what filters ask for is known: jobs and polls are found out after the recording is open.
    #[must_use]
    pub fn can_filter(&self) -> bool {
        self.facts.has_stage(Stage::Timeline) || self.derivation.is_none()
    }

    /// Saved filters that are lanes, with what they are called.
    pub fn filter_lanes(&self) -> impl Iterator<Item = (&str, &str)> {
        let filters = self.changes().filters().iter().filter(|(_, s)| s.lane);
        filters.take(MAX_FILTER_LANES).map(|(text, s)| {
            let name = if s.name.is_empty() { text } else { &s.name };
            (text.as_str(), name.as_str())
        })
    }

    /// Filters that are lanes and were not looked for yet. What no lane shows is forgotten, and its search sent away.
    pub fn lanes_to_find(&mut self) -> Vec<String> {
        let wanted: Vec<String> = self.filter_lanes().map(|(text, _)| text.to_owned()).collect();
        self.lanes.0.retain(|text, found| {
            let keep = wanted.contains(text);
            if let (false, LaneState::Pending(progress)) = (keep, found) {
                progress.cancel();
            }
            keep
        });
        let known = |text: &String| self.lanes.0.contains_key(text);
        wanted.into_iter().filter(|text| !known(text)).collect()
    }
}
