//! The lanes of saved filters: what passes each of them, looked for once, apart from the interface thread.

use super::Document;
use super::facts::{Facts, Stage};
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::Recording;
use trace_core::filter::{FilterError, Query, Selection};
use trace_core::progress::{Cancelled, Progress};

/// Most lanes of filters that the timeline shows at once.
pub const MOST: usize = 16;

/// What came of a filter, as far as is known.
enum Found {
    Asked(Progress),
    Rows(Arc<Selection>),
    Wrong(String),
}

/// What passes the filters that are lanes.
#[derive(Default)]
pub struct Lanes(BTreeMap<String, Found>);

impl Lanes {
    /// The events that pass a filter; `None`: they are not known.
    #[must_use]
    pub fn rows(&self, filter: &str) -> Option<&Arc<Selection>> {
        match self.0.get(filter) {
            Some(Found::Rows(rows)) => Some(rows),
            _ => None,
        }
    }

    /// The events that pass are being looked for.
    pub fn asked(&mut self, filter: String, progress: Progress) {
        self.0.insert(filter, Found::Asked(progress));
    }

    /// The filter cannot be looked for.
    pub fn is_wrong(&mut self, filter: String, e: &FilterError) {
        self.0.insert(filter, Found::Wrong(e.to_string()));
    }

    /// A search came to its end.
    pub fn found(&mut self, filter: &str, found: Result<Result<Selection, Cancelled>, FilterError>) {
        // A lane that was taken away meanwhile is not wanted.
        let Some(at) = self.0.get_mut(filter) else { return };
        *at = match found {
            Ok(Ok(rows)) => Found::Rows(Arc::new(rows)),
            Err(e) => Found::Wrong(e.to_string()),
            Ok(Err(Cancelled)) => match at {
                // Not this search: one for a lane that went and came back.
                Found::Asked(p) if p.check().is_ok() => return,
                _ => Found::Wrong("the search was cancelled; take the lane away and show it again".into()),
            },
        };
    }

    /// What is wrong with a filter on this recording.
    #[must_use]
    pub fn wrong(&self, filter: &str) -> Option<&str> {
        match self.0.get(filter) {
            Some(Found::Wrong(why)) => Some(why),
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
        self.facts.knows(Stage::Timeline) || self.finding_out.is_none()
    }

    /// Saved filters that are lanes, with what they are called.
    pub fn filter_lanes(&self) -> impl Iterator<Item = (&str, &str)> {
        let filters = self.changes().filters().iter().filter(|(_, s)| s.lane);
        filters.take(MOST).map(|(text, s)| {
            let name = if s.name.is_empty() { text } else { &s.name };
            (text.as_str(), name.as_str())
        })
    }

    /// Filters that are lanes and were not looked for yet. What no lane shows is forgotten, and its search sent away.
    pub fn lanes_to_find(&mut self) -> Vec<String> {
        let wanted: Vec<String> = self.filter_lanes().map(|(text, _)| text.to_owned()).collect();
        self.lanes.0.retain(|text, found| {
            let keep = wanted.contains(text);
            if let (false, Found::Asked(progress)) = (keep, found) {
                progress.cancel();
            }
            keep
        });
        let known = |text: &String| self.lanes.0.contains_key(text);
        wanted.into_iter().filter(|text| !known(text)).collect()
    }
}
