//! The JSON report of a tuning run.

use kinescope_session::tuning::table::{Role, Row, code, rows, verdict};
use replay_engine::tune::{Health, Load, Phases, Point, Reference, RejectReason, Resources, TuneEnd, TuneReport};
use serde::Serialize;

/// The report: medians, speed-ups and names, which the engine computes on demand. The keys are fixed: scripts read
/// them.
#[derive(Serialize)]
pub struct Report<'a> {
    /// Target, as `--on` gave it.
    #[serde(rename = "board")]
    target: &'a str,
    /// Name of the device.
    device: &'a str,
    /// The launch, and its function.
    event: u64,
    kernel: &'a str,
    /// What outputs were compared with: `recorded` (the result of the recorded launch on this device, which matches the
    /// recording), `device` (the same, if the recording does not hold the result).
    reference: &'static str,
    /// The recorded launch, a point.
    baseline: PointReport<'a>,
    /// Its median after the points; `null` if it was not measured again.
    baseline_again_ns: Option<u64>,
    /// How far it moved, as a fraction of its time; `null` if it was not measured again.
    drift: Option<f64>,
    /// The fastest valid point, as an index into `points`; `null` if there is none.
    best: Option<u32>,
    /// Time of the recorded launch divided by the time of the best point.
    speed_up: Option<f64>,
    /// Whether the two differ by less than the variation of both.
    within_spread: bool,
    /// Number of points in the lists of values.
    space: u64,
    /// Number of combinations that no device launches.
    left_out: u64,
    /// Number of launches, and of processes.
    launches: u64,
    processes: u32,
    /// Memory that was compared and restored.
    memory_bytes: u64,
    /// Number of restored pages in total.
    restored_pages: u64,
    /// The device before and after.
    before: &'a Health,
    after: &'a Health,
    /// The device directly after launches.
    load: &'a Load,
    /// Where the time went.
    phases: Phases,
    /// `done`, `time-over`, `stopped` or `broken`.
    ended: &'static str,
    /// Why it is broken.
    why: Option<&'a str>,
    /// The points in the order in which they were tried.
    points: Vec<PointReport<'a>>,
}

/// A point with its measurement at the same level, with its median and the names of code and verdict.
#[derive(Serialize)]
struct PointReport<'a> {
    /// `right`, `wrong`, `refused`, `no code`, `too slow`, `stuck`, `failed` or `not measured`.
    verdict: &'static str,
    /// Name of the file; `null` for the recorded code.
    code: Option<&'a str>,
    /// Three numbers each.
    grid: [u32; 3],
    block: [u32; 3],
    /// Bytes of shared memory.
    shared: u32,
    /// Preference of the cache, and maximum number of registers of a thread; `null` if they are those of the code.
    cache: Option<&'static str>,
    max_registers: Option<u32>,
    /// Threads and blocks; `null` if they are those of the code.
    launch_bounds: Option<[u32; 2]>,
    /// Times of the launches.
    times_ns: &'a [u64],
    /// Their median, standard deviation, and median absolute deviation.
    median_ns: Option<u64>,
    stdev_ns: Option<f64>,
    mad_ns: Option<u64>,
    /// Time of the recorded launch divided by the median; `null` if the point is not valid.
    speed_up: Option<f64>,
    /// What a launch uses; `null` if it was not launched.
    resources: Option<Resources>,
    /// Why the point is not valid.
    why: Option<String>,
    /// How the result differs.
    wrong: Option<MismatchReport<'a>>,
}

/// How a result differs, with its address as text and keys in another order than the engine's, which agents send.
#[derive(Serialize)]
struct MismatchReport<'a> {
    /// Address of the first difference.
    at: String,
    /// Number of differences.
    count: u64,
    /// Whether there may be more.
    at_least: bool,
    /// The bytes in hexadecimal.
    wanted: &'a str,
    got: &'a str,
    /// Maximum difference of two elements.
    largest: Option<f64>,
}

fn point_report<'a>(tuned: &'a TuneReport, row: &Row<'a>) -> PointReport<'a> {
    let spread = row.measured.spread();
    let point: Point = row.point;
    PointReport {
        verdict: verdict(row.measured),
        code: Some(code(tuned, &point)).filter(|c| !c.is_empty()),
        grid: point.grid,
        block: point.block,
        shared: point.shared,
        cache: point.cache.map(|c| c.name()),
        max_registers: point.max_registers,
        launch_bounds: point.bounds().map(|b| [b.max_threads, b.min_blocks]),
        times_ns: &row.measured.times,
        median_ns: spread.map(|s| s.median),
        stdev_ns: spread.map(|s| s.stdev),
        mad_ns: spread.map(|s| s.mad),
        speed_up: tuned.speed_up(row.measured),
        resources: row.measured.resources,
        why: row.measured.rejected.as_ref().map(ToString::to_string),
        wrong: match &row.measured.rejected {
            Some(RejectReason::Wrong(w)) => Some(MismatchReport {
                at: crate::cli::format_hex(w.at),
                count: w.count,
                at_least: w.at_least,
                wanted: &w.wanted,
                got: &w.got,
                largest: w.largest,
            }),
            _ => None,
        },
    }
}

/// Builds the report. Points are in the order of their tests.
pub fn report<'a>(tuned: &'a TuneReport, target: &'a str) -> Report<'a> {
    let mut all: Vec<Row<'a>> = rows(tuned).collect();
    all.sort_by_key(|r| r.place);
    let mut told_all = all.iter().map(|r| point_report(tuned, r));
    let baseline = told_all.next();
    let best = tuned.best();
    Report {
        target,
        device: &tuned.device,
        event: tuned.event,
        kernel: &tuned.function,
        reference: match tuned.reference {
            Reference::Recorded => "recorded",
            Reference::Device => "device",
        },
        baseline: baseline.unwrap_or_else(|| {
            let row = Row {
                role: Role::Baseline,
                point: tuned.recorded,
                measured: &tuned.baseline,
                place: None,
            };
            point_report(tuned, &row)
        }),
        baseline_again_ns: tuned.baseline_again.as_ref().and_then(|m| m.spread()).map(|s| s.median),
        drift: tuned.drift(),
        best: tuned.best,
        speed_up: best.and_then(|b| tuned.speed_up(&b.measured)),
        within_spread: tuned.is_unclear(),
        space: tuned.space,
        left_out: tuned.left_out,
        launches: tuned.launches,
        processes: tuned.processes,
        memory_bytes: tuned.memory,
        restored_pages: tuned.restored_pages,
        before: &tuned.before,
        after: &tuned.after,
        load: &tuned.load,
        phases: tuned.phases,
        ended: match tuned.ended {
            TuneEnd::Done => "done",
            TuneEnd::TimeOver => "time-over",
            TuneEnd::Cancelled => "stopped",
            TuneEnd::Broken { .. } => "broken",
        },
        why: match &tuned.ended {
            TuneEnd::Broken { why } => Some(why),
            _ => None,
        },
        points: told_all.collect(),
    }
}
