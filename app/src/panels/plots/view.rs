//! What the Plots panel shows, and what was found out for it.

use super::counts::AccessCounts;
use super::intervals::IntervalResult;
use super::lines::DrawnLines;
use crate::document::axis::AxisKind;
use crate::document::changes::PlotLine;
use crate::theme::rows::Rows;
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::values::{AccessFilter, Values};
use trace_query::{GroupBy, Histogram};

/// What the panel is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Section {
    /// Values over events or time.
    #[default]
    Lines,
    /// How often each value came.
    Values,
    /// Accesses by register, block, thread or job.
    Counts,
    /// Times from one pattern to another.
    Between,
}

impl Section {
    /// All, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Lines, Self::Values, Self::Counts, Self::Between];

    /// Its name for the person.
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

/// What is being found out apart from the interface thread, for a key of what was asked for.
#[derive(Clone, Debug)]
pub(super) enum WorkState<K, T> {
    /// It is being looked for.
    Pending(K, Progress),
    /// It is known.
    Ready(K, Arc<T>),
    /// It is not to be had, in words.
    Failed(K, String),
}

impl<K: PartialEq, T> WorkState<K, T> {
    pub(super) fn key(&self) -> &K {
        match self {
            Self::Pending(k, _) | Self::Ready(k, _) | Self::Failed(k, _) => k,
        }
    }
}

/// What is said where the work ended by an error of the program.
const LOST: &str = "the program made an error; see the crash report (Help)";

/// Work that was asked for and may have been replaced by other work meanwhile.
#[derive(Clone, Debug)]
pub(super) struct WorkSlot<K, T>(pub(super) Option<WorkState<K, T>>);

impl<K, T> Default for WorkSlot<K, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: PartialEq, T> WorkSlot<K, T> {
    /// Whether this was asked for already.
    pub(super) fn is_for(&self, key: &K) -> bool {
        self.0.as_ref().is_some_and(|f| f.key() == key)
    }

    /// Something else is wanted: what is under way for another key is sent away.
    pub(super) fn start(&mut self, key: K, progress: Progress) {
        if let Some(WorkState::Pending(_, p)) = &self.0 {
            p.cancel();
        }
        self.0 = Some(WorkState::Pending(key, progress));
    }

    /// The work of this progress came to its end; what nobody waits for any more is dropped. The same may have been asked
    /// for again meanwhile: what was sent away does not answer for it.
    pub(super) fn finish(&mut self, key: K, of: &Progress, found: Result<T, String>) {
        if !matches!(&self.0, Some(WorkState::Pending(k, p)) if *k == key && p.is_same(of)) {
            return;
        }
        self.0 = Some(match found {
            Ok(t) => WorkState::Ready(key, Arc::new(t)),
            Err(why) => WorkState::Failed(key, why),
        });
    }

    /// What is known for this key.
    pub(super) fn result(&self, key: &K) -> Option<&Arc<T>> {
        match &self.0 {
            Some(WorkState::Ready(k, t)) if k == key => Some(t),
            _ => None,
        }
    }

    /// Why it is not known, in words.
    pub(super) fn error(&self, key: &K) -> Option<&str> {
        match &self.0 {
            Some(WorkState::Failed(k, why)) if k == key => Some(why),
            Some(WorkState::Pending(k, progress)) if k == key && progress.is_lost() => Some(LOST),
            _ => None,
        }
    }
}

/// The values of a line, by which accesses tell them.
pub(super) type Key = (PlotLine, AccessFilter);

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// What it is about.
    pub section: Section,
    /// Which accesses tell values.
    pub access_filter: AccessFilter,
    /// What lies along the horizontal axis.
    pub axis: AxisKind,
    /// Part of the axis that is shown; `None`: all of it.
    pub range: Option<(f64, f64)>,
    /// Each line has a part of the height; `None`: where one scale for all would flatten some.
    pub split_axes: Option<bool>,
    /// Values of registers are written in decimal.
    pub decimal: bool,
    /// Only registers and fields whose names hold this are offered.
    pub find: String,
    /// The line whose values are counted; `None`: the first.
    pub chosen: Option<PlotLine>,
    /// What accesses are counted by.
    pub by: ByKind,
    /// Whether groups come by their number or name, and not the largest first.
    pub sort_by_key: bool,
    /// Where times begin: a filter.
    pub from: String,
    /// Where times end.
    pub to: String,
    pub(super) values: BTreeMap<PlotLine, WorkSlot<Key, Values>>,
    pub(super) drawn: Option<DrawnLines>,
    pub(super) histogram: WorkSlot<Key, Histogram>,
    pub(super) counted: WorkSlot<super::counts::Key, AccessCounts>,
    pub(super) between: WorkSlot<super::intervals::Key, IntervalResult>,
    pub(super) rows: Rows,
    pub(super) offered: Rows,
    pub(super) choosing: bool,
}

/// What accesses are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByKind(pub GroupBy);

impl Default for ByKind {
    fn default() -> Self {
        Self(GroupBy::Register)
    }
}

impl View {
    /// The values of a line, once they were gathered.
    #[must_use]
    pub fn values_of(&self, line: &PlotLine) -> Option<&Arc<Values>> {
        self.values.get(line)?.result(&(line.clone(), self.access_filter))
    }

    /// The histogram that is shown, once it was made.
    #[must_use]
    pub fn histogram(&self) -> Option<&Arc<Histogram>> {
        match &self.histogram.0 {
            Some(WorkState::Ready(_, h)) => Some(h),
            _ => None,
        }
    }

    /// The groups that are shown, once they were counted.
    #[must_use]
    pub fn groups(&self) -> Option<&[trace_query::Usage]> {
        match &self.counted.0 {
            Some(WorkState::Ready(_, c)) => Some(&c.groups),
            _ => None,
        }
    }

    /// The times that are shown, once they were measured.
    #[must_use]
    pub fn intervals(&self) -> Option<&trace_query::IntervalStatistics> {
        match &self.between.0 {
            Some(WorkState::Ready(_, m)) => Some(&m.0),
            _ => None,
        }
    }

    /// Points of the lines as they were drawn last.
    #[must_use]
    pub fn point_count(&self) -> usize {
        self.drawn.as_ref().map_or(0, DrawnLines::point_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked for, replaced and asked for again: the first piece of work ends as stopped behind the third's beginning.
    #[test]
    fn work_that_was_sent_away_does_not_answer_for_the_same_asked_again() {
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
    fn work_that_the_program_lost_is_an_error_and_no_waiting() {
        let mut slot: WorkSlot<u8, u32> = WorkSlot::default();
        let work = Progress::new();
        slot.start(1, work.clone());
        assert_eq!(slot.error(&1), None);
        work.mark_lost();
        assert!(slot.error(&1).is_some() && slot.result(&1).is_none() && slot.error(&2).is_none());
    }
}
