//! The result of a tuning as a table, with Kinescope's columns or those of RecordReplay.

use kinescope_files::output::{self, OutputError};
use replay_engine::tune::{Bounds, Measurement, Point, PointResult, TuneReport};
use std::io::Write;
use std::path::Path;
use trace_query::{Cells, Format, TableError, write_columns};

/// The column set of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// All columns.
    #[default]
    All,
    /// Columns of RecordReplay's tuner.
    RecordReplay,
}

/// The role of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The recorded launch with the recorded code.
    Baseline,
    /// The fastest valid point.
    Best,
    /// Another point.
    Point,
}

impl Role {
    /// Returns the label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Baseline => "recorded",
            Self::Best => "best",
            Self::Point => "",
        }
    }
}

/// A row: a point and its measurement.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Role of the row.
    pub role: Role,
    /// The point.
    pub point: Point,
    /// Measurement of the point.
    pub measured: &'a Measurement,
    /// Index of the point; `None` for the baseline.
    pub place: Option<u32>,
}

/// Returns the rows: the recorded launch, then valid points by time, then the others.
pub fn rows(tuned: &TuneReport) -> impl Iterator<Item = Row<'_>> {
    let baseline = Row {
        role: Role::Baseline,
        point: tuned.recorded,
        measured: &tuned.baseline,
        place: None,
    };
    let of = |n: u32| {
        let PointResult { point, measured } = tuned.points.get(n as usize)?;
        let role = match tuned.best == Some(n) {
            true => Role::Best,
            false => Role::Point,
        };
        Some(Row {
            role,
            point: *point,
            measured,
            place: Some(n),
        })
    };
    std::iter::once(baseline).chain(tuned.rank_points().into_iter().filter_map(of))
}

/// Returns a one-word verdict of a point: `right`, or why it is not valid.
#[must_use]
pub fn verdict(measured: &Measurement) -> &'static str {
    match (&measured.rejected, measured.times.is_empty()) {
        (Some(rejected), _) => rejected.label(),
        (None, false) => "right",
        (None, true) => "not measured",
    }
}

/// Returns the name of the code of a point; empty for the recorded code.
#[must_use]
pub fn code<'a>(tuned: &'a TuneReport, point: &Point) -> &'a str {
    let at = (point.module as usize).checked_sub(1);
    at.and_then(|n| tuned.modules.get(n)).map_or("", String::as_str)
}

/// Writes the table and returns the number of rows.
///
/// # Errors
/// Returns an error if `to` cannot be written.
pub fn write(
    tuned: &TuneReport,
    columns: Columns,
    format: Format,
    to: &mut (dyn Write + Send),
) -> Result<u64, TableError> {
    let rows: Vec<Row<'_>> = rows(tuned).collect();
    let columns = match columns {
        Columns::All => ours(tuned, &rows),
        Columns::RecordReplay => record_replay(tuned, &rows),
    };
    write_columns(columns, format, to)
}

/// Why a table file was not written.
#[derive(Debug, thiserror::Error)]
pub enum TableFileError {
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The table cannot be encoded.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// Writes the table to a file and returns the number of rows.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write_file(tuned: &TuneReport, columns: Columns, format: Format, path: &Path) -> Result<u64, TableFileError> {
    let mut rows = 0;
    output::write_with(path, |to| {
        rows = write(tuned, columns, format, to)?;
        Ok::<(), TableFileError>(())
    })?;
    Ok(rows)
}

fn whole(rows: &[Row<'_>], of: impl Fn(&Row<'_>) -> Option<u64>) -> Cells {
    Cells::Whole(rows.iter().map(of).collect())
}

fn real(rows: &[Row<'_>], of: impl Fn(&Row<'_>) -> Option<f64>) -> Cells {
    Cells::Real(rows.iter().map(of).collect())
}

fn text(rows: &[Row<'_>], of: impl Fn(&Row<'_>) -> Option<String>) -> Cells {
    Cells::Text(rows.iter().map(of).collect())
}

fn ours(tuned: &TuneReport, rows: &[Row<'_>]) -> Vec<(&'static str, Cells)> {
    let word = |t: &str| (!t.is_empty()).then(|| t.to_owned());
    let bounds = |r: &Row<'_>| -> Option<Bounds> { r.point.bounds() };
    let resources = |r: &Row<'_>| r.measured.resources;
    let wrong = |r: &Row<'_>| match &r.measured.rejected {
        Some(replay_engine::tune::RejectReason::Wrong(w)) => Some((w.at, w.count)),
        _ => None,
    };
    let mut columns = vec![
        ("role", text(rows, |r| word(r.role.label()))),
        ("verdict", text(rows, |r| word(verdict(r.measured)))),
        ("code", text(rows, |r| word(code(tuned, &r.point)))),
    ];
    for (n, name) in ["grid_x", "grid_y", "grid_z"].into_iter().enumerate() {
        columns.push((name, whole(rows, |r| r.point.grid.get(n).map(|v| u64::from(*v)))));
    }
    for (n, name) in ["block_x", "block_y", "block_z"].into_iter().enumerate() {
        columns.push((name, whole(rows, |r| r.point.block.get(n).map(|v| u64::from(*v)))));
    }
    let spread = |r: &Row<'_>| r.measured.spread();
    columns.extend([
        ("shared", whole(rows, |r| Some(u64::from(r.point.shared)))),
        ("cache", text(rows, |r| r.point.cache.map(|c| c.name().to_owned()))),
        ("max_registers", whole(rows, |r| r.point.max_registers.map(u64::from))),
        (
            "max_threads",
            whole(rows, |r| bounds(r).map(|b| u64::from(b.max_threads))),
        ),
        (
            "min_blocks",
            whole(rows, |r| bounds(r).map(|b| u64::from(b.min_blocks)).filter(|n| *n > 0)),
        ),
        ("repeats", whole(rows, |r| Some(r.measured.times.len() as u64))),
        ("median_ns", whole(rows, |r| spread(r).map(|s| s.median))),
        ("min_ns", whole(rows, |r| spread(r).map(|s| s.min))),
        ("max_ns", whole(rows, |r| spread(r).map(|s| s.max))),
        ("mean_ns", real(rows, |r| spread(r).map(|s| s.mean))),
        ("stdev_ns", real(rows, |r| spread(r).map(|s| s.stdev))),
        ("mad_ns", whole(rows, |r| spread(r).map(|s| s.mad))),
        ("speed_up", real(rows, |r| tuned.speed_up(r.measured))),
        (
            "registers",
            whole(rows, |r| resources(r).map(|u| u64::from(u.registers))),
        ),
        (
            "shared_in_all",
            whole(rows, |r| resources(r).map(|u| u64::from(u.shared))),
        ),
        ("local", whole(rows, |r| resources(r).map(|u| u64::from(u.local)))),
        (
            "blocks_a_multiprocessor",
            whole(rows, |r| resources(r).map(|u| u64::from(u.blocks))),
        ),
        (
            "occupancy",
            real(rows, |r| resources(r).map(|u| f64::from(u.occupancy))),
        ),
        (
            "first_wrong",
            text(rows, |r| wrong(r).map(|(at, _)| format!("{at:#x}"))),
        ),
        ("wrong", whole(rows, |r| wrong(r).map(|(_, count)| count))),
        (
            "why",
            text(rows, |r| r.measured.rejected.as_ref().map(ToString::to_string)),
        ),
    ]);
    columns
}

/// Returns RecordReplay's columns, in its order and with its names. Its durations are milliseconds.
fn record_replay(tuned: &TuneReport, rows: &[Row<'_>]) -> Vec<(&'static str, Cells)> {
    let bounds = |r: &Row<'_>| r.point.bounds().unwrap_or_default();
    let ms = |ns: f64| ns / 1e6;
    let spread = |r: &Row<'_>| r.measured.spread();
    vec![
        ("Kernel-Name", text(rows, |_| Some(tuned.function.clone()))),
        ("GridDim-X", whole(rows, |r| Some(u64::from(r.point.grid[0])))),
        ("BlockDim-X", whole(rows, |r| Some(u64::from(r.point.block[0])))),
        ("MaxThreads", whole(rows, |r| Some(u64::from(bounds(r).max_threads)))),
        ("MinBlock", whole(rows, |r| Some(u64::from(bounds(r).min_blocks)))),
        ("Duration (ms)", real(rows, |r| spread(r).map(|s| ms(s.median as f64)))),
        ("Duration (stdev)", real(rows, |r| spread(r).map(|s| ms(s.stdev)))),
        (
            "Verify (0 means correct)",
            whole(rows, |r| Some(u64::from(spread(r).is_none()))),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::tune::{OutputMismatch, RejectReason, Resources};

    /// Returns a baseline, two valid points and one that is not valid.
    pub(crate) fn tuned() -> TuneReport {
        let point = |x, grid| Point {
            grid: [grid, 1, 1],
            block: [x, 1, 1],
            ..Point::default()
        };
        let times = |times: &[u64]| Measurement {
            times: times.to_vec(),
            resources: Some(Resources {
                registers: 16,
                blocks: 8,
                occupancy: 0.5,
                ..Resources::default()
            }),
            rejected: None,
        };
        TuneReport {
            function: "add(float*, int)".into(),
            recorded: point(256, 80),
            baseline: times(&[2_000_000, 2_000_000]),
            points: vec![
                PointResult {
                    point: point(32, 80),
                    measured: times(&[3_000_000, 3_000_000]),
                },
                PointResult {
                    point: point(64, 80),
                    measured: Measurement::from_rejection(RejectReason::Wrong(OutputMismatch {
                        at: 0x1000,
                        count: 7,
                        wanted: "00".into(),
                        got: "01".into(),
                        ..OutputMismatch::default()
                    })),
                },
                PointResult {
                    point: Point {
                        bounds: Some(Bounds {
                            max_threads: 0,
                            min_blocks: 2,
                        }),
                        ..point(128, 160)
                    },
                    measured: times(&[1_000_000, 1_000_000]),
                },
            ],
            best: Some(2),
            ..TuneReport::default()
        }
    }

    fn csv(columns: Columns) -> Vec<String> {
        let mut out = Vec::new();
        assert_eq!(write(&tuned(), columns, Format::Csv, &mut out).unwrap(), 4);
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn tune_csv_lists_recorded_then_best_then_wrong_points() {
        let lines = csv(Columns::All);
        assert!(
            lines[0].starts_with("role,verdict,code,grid_x,grid_y,grid_z,block_x"),
            "{}",
            lines[0]
        );
        assert!(
            lines[1].starts_with("recorded,right,,80,1,1,256,1,1,0,,,,,2,2000000,"),
            "{}",
            lines[1]
        );
        assert!(
            lines[2].starts_with("best,right,,160,1,1,128,1,1,0,,,128,2,2,1000000,"),
            "{}",
            lines[2]
        );
        assert!(lines[2].contains(",0,2,16,"), "twice as fast: {}", lines[2]);
        assert!(lines[4].starts_with(",wrong,,80,1,1,64,1,1,0,,,,,0,,"), "{}", lines[4]);
        assert!(lines[4].contains("0x1000,7,\"wrong at 7 places"), "{}", lines[4]);
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn csv_columns_match_record_replay() {
        let lines = csv(Columns::RecordReplay);
        assert_eq!(
            lines[0],
            "Kernel-Name,GridDim-X,BlockDim-X,MaxThreads,MinBlock,Duration (ms),Duration (stdev),Verify (0 means correct)"
        );
        assert_eq!(lines[1], "\"add(float*, int)\",80,256,0,0,2,0,0");
        assert_eq!(lines[2], "\"add(float*, int)\",160,128,128,2,1,0,0");
        assert_eq!(lines[4], "\"add(float*, int)\",80,64,0,0,,,1");
    }

    #[test]
    fn parquet_has_the_same_rows() {
        let mut out = Vec::new();
        assert_eq!(write(&tuned(), Columns::All, Format::Parquet, &mut out).unwrap(), 4);
        assert!(out.starts_with(b"PAR1") && out.ends_with(b"PAR1"));
    }
}
