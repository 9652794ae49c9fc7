//! State of the Tune panel.

use crate::theme::rows::Rows;
use kinescope_session::tuning::form::{Form, ParsedForm};
use kinescope_session::tuning::launches::{Launch, Launches};
use kinescope_session::tuning::map::{Axis, TuningMap, list_varied_axes};
use replay_engine::tune::{Point, TuneReport};
use std::sync::Arc;
use trace_core::recording::Recording;

/// Sort key of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Valid points by their times, then the others.
    #[default]
    Time,
    /// Blocks.
    Grid,
    /// Threads a block.
    Block,
    /// Registers a thread.
    Registers,
    /// Part of a multiprocessor's threads.
    Occupancy,
    /// The order in which they were tried.
    Order,
}

/// State of the search for launches.
#[derive(Clone, Default)]
pub(super) enum LaunchLookup {
    /// The search has not started.
    #[default]
    NotStarted,
    /// The search is running.
    Pending,
    /// The launches; `None`: the recording has no CUDA calls.
    Ready(Option<Arc<Launches>>),
}

/// Derived data for drawing a tuning, computed once for it.
#[derive(Clone)]
pub(super) struct DrawnTuning {
    pub tuning: Arc<TuneReport>,
    /// Axes along which points differ.
    pub varied: Vec<Axis>,
    pub map: TuningMap,
    /// The order of the table, with its points.
    pub order: Vec<u32>,
    pub sorted: (Sort, bool),
    /// Median of the slowest valid point, including the recorded launch.
    pub slowest: u64,
    pub rejected: u64,
    /// Whether blocks or grids have more than one dimension, and therefore long labels.
    pub long: bool,
}

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    pub(super) launch_lookup: LaunchLookup,
    /// Recording of the other fields.
    pub(super) recording: Option<Arc<Recording>>,
    /// The launch that the user chose; `None`: the one at the current event.
    pub chosen: Option<u64>,
    /// Content of the fields.
    pub form: Form,
    /// The launch that the fields were filled for, and the filled form.
    pub(super) filled: Option<(u64, Form)>,
    /// The target.
    pub target: String,
    /// Axes of the map that the user chose.
    pub axes: (Option<Axis>, Option<Axis>),
    /// Sort key of the table, and whether the order is reversed.
    pub sort: (Sort, bool),
    /// The selected point, an index into the points.
    pub point: Option<u32>,
    /// Whether more than the first fields are shown.
    pub more: bool,
    pub(super) parsed_form: Option<(Form, u64, Arc<ParsedForm>)>,
    pub(super) drawn: Option<DrawnTuning>,
    pub(super) rows: Rows,
}

impl View {
    /// Returns the launches, once they are known.
    #[must_use]
    pub fn launches(&self) -> Option<&Arc<Launches>> {
        match &self.launch_lookup {
            LaunchLookup::Ready(Some(l)) => Some(l),
            _ => None,
        }
    }

    /// Returns the current launch: the chosen one, or the last one up to the current event, or the first.
    #[must_use]
    pub fn current_launch(&self, event: u64) -> Option<Launch> {
        let launches = self.launches()?;
        if let Some(chosen) = self.chosen.and_then(|e| launches.at(e)) {
            return Some(*chosen);
        }
        let n = launches.list.partition_point(|l| l.event <= event);
        launches.list.get(n.saturating_sub(1)).copied()
    }

    /// Fills the fields for another launch, if the user changed none.
    pub(super) fn fill(&mut self, launch: &Launch) {
        let Some(launches) = self.launches().cloned() else {
            return;
        };
        let untouched = match &self.filled {
            None => self.form == Form::default(),
            Some((event, form)) => *event != launch.event && self.form == *form,
        };
        if untouched {
            self.form = Form::for_launch(&launches.default_axes(launch));
            self.filled = Some((launch.event, self.form.clone()));
        }
    }

    /// Returns the parsed fields, parsed again when they change.
    pub(super) fn parse_form(&mut self, recording: &Recording, launch: &Launch) -> Arc<ParsedForm> {
        if let Some((form, event, asked)) = &self.parsed_form
            && *form == self.form
            && *event == launch.event
        {
            return Arc::clone(asked);
        }
        let asked = match self.launches() {
            Some(launches) => self.form.parse(recording, launches, launch),
            None => ParsedForm::default(),
        };
        let asked = Arc::new(asked);
        self.parsed_form = Some((self.form.clone(), launch.event, Arc::clone(&asked)));
        asked
    }

    /// Returns the derived data of a tuning, computed again for another tuning, other axes or another order.
    pub(super) fn update_drawn(&mut self, tuned: &Arc<TuneReport>) -> &mut DrawnTuning {
        let same = self.drawn.as_ref().is_some_and(|s| Arc::ptr_eq(&s.tuning, tuned));
        if !same {
            self.axes = (None, None);
            self.point = tuned.best;
            self.rows = Rows::default();
        }
        let (axes, sort) = (self.axes, self.sort);
        let shown = match self.drawn.take().filter(|_| same) {
            Some(shown) => shown,
            None => DrawnTuning::new(tuned),
        };
        let shown = self.drawn.insert(shown);
        let first = shown.varied.first().copied().unwrap_or(Axis::Block);
        let x = axes.0.unwrap_or(first);
        let y = match axes.1 {
            Some(y) => Some(y),
            None => shown.varied.iter().copied().find(|a| *a != x),
        };
        let y = y.filter(|y| *y != x);
        if (shown.map.x, shown.map.y) != (Some(x), y) {
            shown.map = TuningMap::with_axes(tuned, Some(x), y);
        }
        if shown.sorted != sort {
            shown.order = sort_points(tuned, sort);
            shown.sorted = sort;
        }
        shown
    }
}

impl DrawnTuning {
    fn new(tuned: &Arc<TuneReport>) -> Self {
        let medians = tuned.points.iter().map(|t| &t.measured).chain([&tuned.baseline]);
        Self {
            tuning: Arc::clone(tuned),
            varied: list_varied_axes(tuned),
            map: TuningMap::with_default_axes(tuned),
            order: sort_points(tuned, (Sort::Time, false)),
            sorted: (Sort::Time, false),
            slowest: medians.filter_map(|m| m.spread()).map(|s| s.median).max().unwrap_or(0),
            rejected: tuned.rejected().count() as u64,
            long: tuned.points.iter().map(|t| &t.point).chain([&tuned.recorded]).any(|p| {
                let [.., a, b] = p.grid;
                let [.., c, d] = p.block;
                [a, b, c, d].iter().any(|n| *n > 1)
            }),
        }
    }
}

/// Returns the points in the table's order.
fn sort_points(tuned: &TuneReport, (sort, back): (Sort, bool)) -> Vec<u32> {
    let mut order = tuned.rank_points();
    let tried = |n: &u32| tuned.points.get(*n as usize);
    let dims = |n: &u32, of: fn(&Point) -> [u32; 3]| tried(n).map(|t| of(&t.point)).map(|[x, y, z]| [z, y, x]);
    let resources = |n: &u32| tried(n).and_then(|t| t.measured.resources);
    match sort {
        Sort::Time => {}
        // For equal values the fastest come first: the sort is stable.
        Sort::Grid => order.sort_by_cached_key(|n| dims(n, |p| p.grid)),
        Sort::Block => order.sort_by_cached_key(|n| dims(n, |p| p.block)),
        Sort::Registers => order.sort_by_cached_key(|n| resources(n).map(|r| r.registers)),
        Sort::Occupancy => order.sort_by_cached_key(|n| resources(n).map(|r| (r.occupancy * 1e6) as u32)),
        Sort::Order => order.sort_unstable(),
    }
    if back {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::tune::{Measurement, PointResult};

    #[test]
    fn the_table_is_sorted_when_asked_and_the_map_follows_its_axes() {
        let tried = |grid: u32, time: u64| PointResult {
            point: Point {
                grid: [grid, 1, 1],
                block: [64, 1, 1],
                ..Point::default()
            },
            measured: Measurement {
                times: vec![time],
                ..Measurement::default()
            },
        };
        let tuned = Arc::new(TuneReport {
            points: vec![tried(3, 50), tried(1, 70), tried(2, 60)],
            best: Some(0),
            ..TuneReport::default()
        });
        let mut view = View::default();
        let shown = view.update_drawn(&tuned);
        assert_eq!(shown.order, [0, 2, 1]);
        assert_eq!((shown.map.x, shown.map.y, shown.slowest), (Some(Axis::Grid), None, 70));
        view.sort = (Sort::Grid, false);
        assert_eq!(view.update_drawn(&tuned).order, [1, 2, 0]);
        view.sort = (Sort::Order, true);
        assert_eq!(view.update_drawn(&tuned).order, [2, 1, 0]);
        view.axes = (Some(Axis::Block), Some(Axis::Grid));
        let shown = view.update_drawn(&tuned);
        assert_eq!((shown.map.columns.len(), shown.map.rows.len()), (1, 3));
        assert_eq!(view.point, Some(0));
        let other = Arc::new(TuneReport::default());
        view.update_drawn(&other);
        assert_eq!((view.axes, view.point), ((None, None), None));
    }
}
