//! Results computed for the Plots panel, and the keys of their requests.

use kinescope_files::changes::PlotLine;
use kinescope_session::axis::AxisKind;
use std::sync::Arc;
use trace_core::values::Values;
use trace_query::{IntervalStatistics, Usage};

/// The inputs of the count: the filter, the grouping, and the number of known lists of jobs.
pub(super) type CountsKey = (String, &'static str, usize);

/// The counted groups, and both orders.
#[derive(Clone, Debug)]
pub(super) struct AccessCounts {
    pub(super) groups: Vec<Usage>,
    /// Indices of the groups, those with the most accesses first.
    most_first: Vec<u32>,
}

impl AccessCounts {
    /// Returns the counts of these groups, which are in order.
    pub(super) fn new(groups: Vec<Usage>) -> Self {
        let mut most_first: Vec<u32> = (0..groups.len() as u32).collect();
        most_first.sort_by_key(|i| std::cmp::Reverse(groups.get(*i as usize).map_or(0, |g| g.accesses)));
        Self { groups, most_first }
    }

    /// Returns the group in a row of the table, by number or name if `in_order`.
    pub(super) fn get(&self, row: usize, in_order: bool) -> Option<&Usage> {
        let index = if in_order {
            row
        } else {
            *self.most_first.get(row)? as usize
        };
        self.groups.get(index)
    }
}

/// The two filters of measured times.
pub(super) type IntervalsKey = (String, String);

/// The result of the measurement.
#[derive(Clone, Debug)]
pub(super) struct IntervalResult(pub(super) IntervalStatistics);

/// A step from a position on: the range of the line there, and the value with which it continues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) x: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) end: f64,
}

/// The inputs of the points of lines.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LinesKey {
    pub(super) axis: AxisKind,
    pub(super) range: (f64, f64),
    pub(super) columns: usize,
    pub(super) apart: bool,
    /// Lines with the memory address of their values, which changes with the values.
    pub(super) lines: Vec<(PlotLine, usize)>,
}

/// Points of the last frame: a frame with the same view computes none.
#[derive(Clone, Debug)]
pub(super) struct DrawnLines {
    pub(super) key: LinesKey,
    pub(super) lines: Arc<Vec<Vec<Step>>>,
    /// The values of the points, kept alive so that no other values get their memory address.
    _of: Vec<Arc<Values>>,
    /// From the lowest to the highest value.
    pub(super) height: (f64, f64),
}

impl DrawnLines {
    /// Returns the points of lines with these values; `height` is the lowest and the highest value.
    pub(super) fn new(key: LinesKey, lines: Vec<Vec<Step>>, height: (f64, f64), values: Vec<Arc<Values>>) -> Self {
        Self {
            key,
            lines: Arc::new(lines),
            _of: values,
            height,
        }
    }

    /// Returns the number of points.
    pub(super) fn point_count(&self) -> usize {
        self.lines.iter().map(Vec::len).sum()
    }
}
