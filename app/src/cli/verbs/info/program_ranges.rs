//! Ranges that the recorded program named, in figures.

use serde::Serialize;
use std::collections::BTreeMap;
use trace_core::Recording;
use trace_core::api_trace::Annotations;

/// Maximum number of different names that are listed.
const MAX_NAMES: usize = 1000;

/// Ranges of one name, counted for this verb.
#[derive(Serialize)]
pub struct RangeCount {
    /// Name that the program gave.
    pub name: String,
    /// Number of ranges of the name.
    pub times: u64,
    /// Events of the first of them: its beginning and its end.
    pub first_event: u64,
    pub last_event: u64,
    /// Time in all of them; `null` if the clock counts ticks.
    pub total_ns: Option<u64>,
}

/// Counts the ranges by name, in the order of their first beginnings.
pub fn count(recording: &Recording) -> Vec<RangeCount> {
    let annotations = Annotations::from_recording(recording);
    let mut counts: Vec<RangeCount> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let time = |event: u64| usize::try_from(event).ok().and_then(|e| recording.events.time.get(e));
    for range in annotations.ranges() {
        let index = match known.get(&*range.name) {
            Some(index) => *index,
            None if counts.len() >= MAX_NAMES => continue,
            None => {
                known.insert(&range.name, counts.len());
                counts.push(RangeCount {
                    name: range.name.to_string(),
                    times: 0,
                    first_event: range.first,
                    last_event: range.last,
                    total_ns: Some(0).filter(|_| !recording.counts_ticks()),
                });
                counts.len() - 1
            }
        };
        if let Some(count) = counts.get_mut(index) {
            count.times += 1;
            let took = time(range.last)
                .zip(time(range.first))
                .map_or(0, |(b, a)| b.saturating_sub(a));
            count.total_ns = count.total_ns.map(|total| total.saturating_add(took));
        }
    }
    counts
}
