//! The result of a tuning as a map of two varied parameters. Each cell shows its fastest valid point.

use replay_engine::tune::{Point, RejectReason, TuneReport, format_dimensions};
use std::collections::{BTreeMap, BTreeSet};

/// A varied parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Threads per block.
    Block,
    /// Blocks.
    Grid,
    /// Launch bounds.
    Bounds,
    /// Maximum number of registers.
    Registers,
    /// Shared memory.
    Shared,
    /// Cache share.
    Cache,
    /// The code.
    Code,
}

type Key = [u64; 3];

impl Axis {
    /// All parameters, in order of preference.
    pub const ALL: [Self; 7] = [
        Self::Block,
        Self::Grid,
        Self::Bounds,
        Self::Registers,
        Self::Shared,
        Self::Cache,
        Self::Code,
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Grid => "grid",
            Self::Bounds => "bounds",
            Self::Registers => "max registers",
            Self::Shared => "shared",
            Self::Cache => "cache",
            Self::Code => "code",
        }
    }

    /// Returns the sort key of a point; unspecified values come first.
    fn key(self, p: &Point) -> Key {
        let dims = |[x, y, z]: [u32; 3]| [u64::from(z), u64::from(y), u64::from(x)];
        let one = |n: u64| [n, 0, 0];
        match self {
            Self::Block => dims(p.block),
            Self::Grid => dims(p.grid),
            Self::Bounds => p
                .bounds()
                .map_or([0; 3], |b| [1, u64::from(b.max_threads), u64::from(b.min_blocks)]),
            Self::Registers => one(p.max_registers.map_or(0, u64::from)),
            Self::Shared => one(u64::from(p.shared)),
            Self::Cache => one(p.cache.map_or(0, |c| 1 + c as u64)),
            Self::Code => one(u64::from(p.module)),
        }
    }

    /// Returns the label of a point on this axis.
    #[must_use]
    pub fn label(self, tuned: &TuneReport, p: &Point) -> String {
        match self {
            Self::Block => format_dimensions(p.block),
            Self::Grid => format_dimensions(p.grid),
            Self::Bounds => p.bounds().map_or_else(
                || "as is".to_owned(),
                |b| match b.min_blocks {
                    0 => b.max_threads.to_string(),
                    n => format!("{}, {n}", b.max_threads),
                },
            ),
            Self::Registers => p.max_registers.map_or_else(|| "as is".to_owned(), |n| n.to_string()),
            Self::Shared => p.shared.to_string(),
            Self::Cache => p.cache.map_or("as is", |c| c.name()).to_owned(),
            Self::Code => match super::table::code(tuned, p) {
                "" => "recorded".to_owned(),
                name => name.to_owned(),
            },
        }
    }
}

/// A cell of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index of the point that represents the cell: the fastest valid one, or else the first.
    pub place: u32,
    /// Median time of that point, if it is valid.
    pub median: Option<u64>,
    /// Number of points in the cell.
    pub points: u32,
    /// Number of points that are not valid.
    pub rejected: u32,
    /// Whether the cell contains the recorded point.
    pub recorded: bool,
    /// Whether the cell contains the best point.
    pub best: bool,
}

/// A tuning map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TuningMap {
    /// Parameter of the horizontal axis.
    pub x: Option<Axis>,
    /// Parameter of the vertical axis; `None` if only one parameter was varied.
    pub y: Option<Axis>,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<Option<Cell>>,
    /// Median times of the fastest and the slowest valid cell.
    pub range: Option<(u64, u64)>,
}

/// Returns the axes along which points differ, without those that depend on another axis. A grid that covers the
/// recorded work has one value for each block.
#[must_use]
pub fn list_varied_axes(tuned: &TuneReport) -> Vec<Axis> {
    let distinct = |axis: Axis| {
        let keys: BTreeSet<Key> = tuned.points.iter().map(|t| axis.key(&t.point)).collect();
        keys.len()
    };
    let mut all: Vec<Axis> = Axis::ALL.into_iter().filter(|a| distinct(*a) > 1).collect();
    if all.contains(&Axis::Block) && all.len() > 1 {
        let blocks = distinct(Axis::Block);
        let follows = |axis: Axis| {
            let pairs: BTreeSet<[Key; 2]> = tuned
                .points
                .iter()
                .map(|t| [Axis::Block.key(&t.point), axis.key(&t.point)])
                .collect();
            pairs.len() == blocks
        };
        all.retain(|a| !matches!(a, Axis::Grid | Axis::Bounds) || !follows(*a));
    }
    all
}

impl TuningMap {
    /// Builds the map along two axes.
    #[must_use]
    pub fn with_axes(tuned: &TuneReport, x: Option<Axis>, y: Option<Axis>) -> Self {
        let along = |axis: Option<Axis>| -> (BTreeMap<Key, usize>, Vec<String>) {
            let mut labels: BTreeMap<Key, String> = BTreeMap::new();
            for t in &tuned.points {
                let (key, label) = match axis {
                    Some(a) => (a.key(&t.point), a.label(tuned, &t.point)),
                    None => ([0; 3], String::new()),
                };
                labels.entry(key).or_insert(label);
            }
            let places = labels.keys().enumerate().map(|(n, k)| (*k, n)).collect();
            (places, labels.into_values().collect())
        };
        let y = y.filter(|y| Some(*y) != x);
        let (columns, column_labels) = along(x);
        let (rows, row_labels) = along(y);
        let mut map = Self {
            x,
            y,
            cells: vec![None; columns.len() * rows.len()],
            columns: column_labels,
            rows: row_labels,
            range: None,
        };
        for (place, t) in (0u32..).zip(&tuned.points) {
            let key = |axis: Option<Axis>| axis.map_or([0; 3], |a| a.key(&t.point));
            let (Some(column), Some(row)) = (columns.get(&key(x)), rows.get(&key(y))) else {
                continue;
            };
            let Some(slot) = map.cells.get_mut(row * columns.len() + column) else {
                continue;
            };
            let median = t.measured.spread().map(|s| s.median);
            let cell = slot.get_or_insert(Cell {
                place,
                median: None,
                points: 0,
                rejected: 0,
                recorded: false,
                best: false,
            });
            cell.points += 1;
            cell.rejected += u32::from(t.measured.rejected.is_some());
            cell.recorded |= t.point == tuned.recorded;
            let best = tuned.best == Some(place);
            cell.best |= best;
            // A point with fewer launches is less certain, so the best point always represents its cell.
            if let Some(m) = median
                && (best || !cell.best && cell.median.is_none_or(|c| m < c))
            {
                (cell.median, cell.place) = (Some(m), place);
            }
        }
        let medians = || map.cells.iter().flatten().filter_map(|c| c.median);
        map.range = medians().min().zip(medians().max());
        map
    }

    /// Builds the map of the first two axes along which points differ.
    #[must_use]
    pub fn with_default_axes(tuned: &TuneReport) -> Self {
        let all = list_varied_axes(tuned);
        Self::with_axes(tuned, all.first().copied().or(Some(Axis::Block)), all.get(1).copied())
    }

    /// Returns the cell of a column and a row.
    #[must_use]
    pub fn cell(&self, column: usize, row: usize) -> Option<Cell> {
        let at = row.checked_mul(self.columns.len())?.checked_add(column)?;
        *self.cells.get(at).filter(|_| column < self.columns.len())?
    }

    /// Returns the relative speed of a cell: 1 for the fastest, 0 for the slowest, on a logarithmic scale.
    #[must_use]
    pub fn strength(&self, median: u64) -> f32 {
        let Some((fast, slow)) = self.range else { return 0.0 };
        let ratio = |n: u64| (n.max(1) as f64).ln();
        let span = ratio(slow) - ratio(fast);
        if span <= 0.0 {
            return 1.0;
        }
        ((ratio(slow) - ratio(median)) / span) as f32
    }
}

/// Describes why a cell is not valid.
#[must_use]
pub fn explain_rejection(tuned: &TuneReport, cell: &Cell) -> Option<String> {
    let tried = tuned.points.get(cell.place as usize)?;
    tried.measured.rejected.as_ref().map(RejectReason::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::tune::{Bounds, Measurement, PointResult};

    fn tuned(points: &[(u32, u32, Option<u64>)]) -> TuneReport {
        let point = |block: u32, grid: u32| Point {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            ..Point::default()
        };
        let points: Vec<PointResult> = points
            .iter()
            .map(|(block, grid, time)| PointResult {
                point: point(*block, *grid),
                measured: match time {
                    Some(t) => Measurement {
                        times: vec![*t],
                        ..Measurement::default()
                    },
                    None => Measurement::from_rejection(RejectReason::Refused { why: "no".into() }),
                },
            })
            .collect();
        TuneReport {
            recorded: point(64, 10),
            best: Some(1),
            points,
            ..TuneReport::default()
        }
    }

    #[test]
    fn tuning_map_sorts_blocks_and_grids() {
        let t = tuned(&[
            (128, 20, Some(400)),
            (128, 10, Some(100)),
            (64, 10, Some(200)),
            (64, 20, None),
        ]);
        let m = TuningMap::with_default_axes(&t);
        assert_eq!((m.x, m.y), (Some(Axis::Block), Some(Axis::Grid)));
        assert_eq!(
            (m.columns.join(" "), m.rows.join(" ")),
            ("64 128".into(), "10 20".into())
        );
        assert_eq!(m.range, Some((100, 400)));
        let best = m.cell(1, 0).unwrap();
        assert!(best.best && best.place == 1 && best.median == Some(100) && !best.recorded);
        assert!(m.cell(0, 0).unwrap().recorded);
        let wrong = m.cell(0, 1).unwrap();
        assert_eq!((wrong.median, wrong.rejected), (None, 1));
        assert!(explain_rejection(&t, &wrong).unwrap().contains("refused"));
        assert_eq!((m.cell(2, 0), m.cell(0, 2), m.cell(0, usize::MAX)), (None, None, None));
        assert_eq!([100, 200, 400].map(|n| m.strength(n)), [1.0, 0.5, 0.0]);
    }

    #[test]
    fn grid_derived_from_block_is_not_an_axis() {
        let mut t = tuned(&[(32, 40, Some(1)), (64, 20, Some(2)), (128, 10, Some(3))]);
        assert_eq!(list_varied_axes(&t), [Axis::Block]);
        let m = TuningMap::with_default_axes(&t);
        assert_eq!((m.y, m.rows.len(), m.columns.len()), (None, 1, 3));
        for (n, p) in t.points.iter_mut().enumerate() {
            p.point.bounds = (n > 0).then_some(Bounds {
                max_threads: 0,
                min_blocks: 2,
            });
        }
        t.points.push(PointResult {
            point: Point {
                bounds: None,
                ..t.points[1].point
            },
            measured: Measurement::default(),
        });
        assert_eq!(list_varied_axes(&t), [Axis::Block, Axis::Bounds]);
        let m = TuningMap::with_default_axes(&t);
        assert_eq!(m.rows[0], "as is");
        assert_eq!(TuningMap::with_default_axes(&TuneReport::default()).cells, []);
    }

    #[test]
    fn map_cell_shows_its_fastest_valid_point() {
        let t = tuned(&[(32, 1, None), (32, 2, Some(9)), (32, 3, Some(5)), (64, 1, Some(7))]);
        let m = TuningMap::with_axes(&t, Some(Axis::Block), None);
        let cell = m.cell(0, 0).unwrap();
        assert_eq!((cell.points, cell.rejected, cell.median), (3, 1, Some(9)));
        assert_eq!(cell.place, 1, "the best point represents its cell");
        let t = TuneReport { best: Some(3), ..t };
        let cell = TuningMap::with_axes(&t, Some(Axis::Block), None).cell(0, 0).unwrap();
        assert_eq!((cell.place, cell.median), (2, Some(5)));
        assert_eq!(TuningMap::with_axes(&t, Some(Axis::Block), Some(Axis::Block)).y, None);
    }
}
