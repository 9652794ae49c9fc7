//! State of the Plots panel, and the results computed for it.

use super::results::{AccessCounts, CountsKey, DrawnLines, IntervalResult, IntervalsKey};
use crate::theme::rows::Rows;
use kinescope_files::changes::PlotLine;
use kinescope_session::axis::AxisKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::values::{AccessFilter, Values};
use trace_query::{GroupBy, Histogram};

/// A section of the panel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Section {
    /// Values over events or time.
    #[default]
    Lines,
    /// Histogram of values.
    Values,
    /// Accesses by register, block, thread or job.
    Counts,
    /// Times from one filter's events to another's.
    Between,
}

impl Section {
    /// All sections, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Lines, Self::Values, Self::Counts, Self::Between];

    /// Returns the name that the user sees.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lines => "Lines",
            Self::Values => "Histogram",
            Self::Counts => "Counts",
            Self::Between => "Times between",
        }
    }
}

/// State of work off the interface thread, with the key of its request.
#[derive(Clone, Debug)]
pub(super) enum WorkState<K, T> {
    /// The work is running.
    Pending(K, Progress),
    /// The result is known.
    Ready(K, Arc<T>),
    /// The work failed, with a message.
    Failed(K, String),
}

impl<K: PartialEq, T> WorkState<K, T> {
    pub(super) fn key(&self) -> &K {
        match self {
            Self::Pending(k, _) | Self::Ready(k, _) | Self::Failed(k, _) => k,
        }
    }
}

/// Message for work that ended by a program error.
const LOST: &str = "an internal error ended the work; see the crash report (Help)";

/// A slot for requested work, which other work may replace.
#[derive(Clone, Debug)]
pub(super) struct WorkSlot<K, T>(pub(super) Option<WorkState<K, T>>);

impl<K, T> Default for WorkSlot<K, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: PartialEq, T> WorkSlot<K, T> {
    /// Returns whether this was already requested.
    pub(super) fn is_for(&self, key: &K) -> bool {
        self.0.as_ref().is_some_and(|f| f.key() == key)
    }

    /// Starts other work: cancels running work for another key.
    pub(super) fn start(&mut self, key: K, progress: Progress) {
        if let Some(WorkState::Pending(_, p)) = &self.0 {
            p.cancel();
        }
        self.0 = Some(WorkState::Pending(key, progress));
    }

    /// Stores the result of the work with this progress; a result that is no longer wanted is dropped. The same key
    /// may have been requested again meanwhile: cancelled work does not answer the new request.
    pub(super) fn finish(&mut self, key: K, of: &Progress, found: Result<T, String>) {
        if !matches!(&self.0, Some(WorkState::Pending(k, p)) if *k == key && p.is_same(of)) {
            return;
        }
        self.0 = Some(match found {
            Ok(t) => WorkState::Ready(key, Arc::new(t)),
            Err(why) => WorkState::Failed(key, why),
        });
    }

    /// Returns the result for this key.
    pub(super) fn result(&self, key: &K) -> Option<&Arc<T>> {
        match &self.0 {
            Some(WorkState::Ready(k, t)) if k == key => Some(t),
            _ => None,
        }
    }

    /// Returns the error message for this key.
    pub(super) fn error(&self, key: &K) -> Option<&str> {
        match &self.0 {
            Some(WorkState::Failed(k, why)) if k == key => Some(why),
            Some(WorkState::Pending(k, progress)) if k == key && progress.is_lost() => Some(LOST),
            _ => None,
        }
    }
}

/// The values of a line, by the accesses that give them.
pub(super) type Key = (PlotLine, AccessFilter);

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// The visible section.
    pub section: Section,
    /// The accesses that give values.
    pub access_filter: AccessFilter,
    /// Kind of the horizontal axis.
    pub axis: AxisKind,
    /// Visible part of the axis; `None`: all of it.
    pub range: Option<(f64, f64)>,
    /// Whether each line has its own band; `None`: if one scale for all would flatten some.
    pub split_axes: Option<bool>,
    /// Whether values of registers are written in decimal.
    pub decimal: bool,
    /// Only registers and fields whose names contain this text are offered.
    pub find: String,
    /// The line whose values are counted; `None`: the first.
    pub chosen: Option<PlotLine>,
    /// Grouping of the counted accesses.
    pub by: ByKind,
    /// Whether groups are sorted by number or name, and not the largest first.
    pub sort_by_key: bool,
    /// Start of the measured times: a filter.
    pub from: String,
    /// End of the measured times: a filter.
    pub to: String,
    pub(super) values: BTreeMap<PlotLine, WorkSlot<Key, Values>>,
    pub(super) drawn: Option<DrawnLines>,
    pub(super) histogram: WorkSlot<Key, Histogram>,
    pub(super) counted: WorkSlot<CountsKey, AccessCounts>,
    pub(super) between: WorkSlot<IntervalsKey, IntervalResult>,
    pub(super) rows: Rows,
    pub(super) offered: Rows,
    pub(super) choosing: bool,
}

/// Grouping of the counted accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByKind(pub GroupBy);

impl Default for ByKind {
    fn default() -> Self {
        Self(GroupBy::Register)
    }
}

impl View {
    /// Drops what was computed from a shorter reading of the recording.
    pub fn forget_results(&mut self) {
        self.values.clear();
        self.drawn = None;
        (self.histogram, self.counted, self.between) = Default::default();
    }

    /// Returns the values of a line, once they are gathered.
    #[must_use]
    pub fn values_of(&self, line: &PlotLine) -> Option<&Arc<Values>> {
        self.values.get(line)?.result(&(line.clone(), self.access_filter))
    }

    /// Returns the shown histogram, once it is computed.
    #[must_use]
    pub fn histogram(&self) -> Option<&Arc<Histogram>> {
        match &self.histogram.0 {
            Some(WorkState::Ready(_, h)) => Some(h),
            _ => None,
        }
    }

    /// Returns the shown groups, once they are counted.
    #[must_use]
    pub fn groups(&self) -> Option<&[trace_query::Usage]> {
        match &self.counted.0 {
            Some(WorkState::Ready(_, c)) => Some(&c.groups),
            _ => None,
        }
    }

    /// Returns the shown times, once they are measured.
    #[must_use]
    pub fn intervals(&self) -> Option<&trace_query::IntervalStatistics> {
        match &self.between.0 {
            Some(WorkState::Ready(_, m)) => Some(&m.0),
            _ => None,
        }
    }

    /// Returns the number of points of the lines in the last frame.
    #[must_use]
    pub fn point_count(&self) -> usize {
        self.drawn.as_ref().map_or(0, DrawnLines::point_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that cancelled work does not answer the same request made again: the first work ends after the third one
    /// starts.
    #[test]
    fn cancelled_work_does_not_answer_a_repeated_request() {
        let mut slot: WorkSlot<u8, u32> = WorkSlot::default();
        let [first, second, third] = [(); 3].map(|()| Progress::new());
        slot.start(1, first.clone());
        slot.start(2, second.clone());
        slot.start(1, third.clone());
        assert!(first.check().is_err() && second.check().is_err() && third.check().is_ok());
        slot.finish(1, &first, Err("stopped".to_owned()));
        slot.finish(2, &second, Ok(2));
        assert!(slot.is_for(&1) && slot.error(&1).is_none() && slot.result(&1).is_none());
        slot.finish(1, &third, Ok(7));
        assert_eq!(slot.result(&1).map(|v| **v), Some(7));
    }

    #[test]
    fn lost_work_is_an_error_not_pending() {
        let mut slot: WorkSlot<u8, u32> = WorkSlot::default();
        let work = Progress::new();
        slot.start(1, work.clone());
        assert_eq!(slot.error(&1), None);
        work.mark_lost();
        assert!(slot.error(&1).is_some() && slot.result(&1).is_none() && slot.error(&2).is_none());
    }
}
