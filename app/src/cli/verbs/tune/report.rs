//! The JSON report of a tuning run.

use crate::document::tuning::table::{Role, Row, code, rows, verdict};
use replay_engine::tune::{Health, Load, Phases, Point, Reference, RejectReason, TuneEnd, TuneReport};
use serde::Serialize;

/// The report. The keys are fixed: scripts read them.
#[derive(Serialize)]
pub struct Report<'a> {
    #[serde(rename = "board")]
    target: &'a str,
    device: &'a str,
    event: u64,
    kernel: &'a str,
    reference: &'static str,
    baseline: PointReport<'a>,
    /// Time of the recorded launch, measured again after the points.
    baseline_again_ns: Option<u64>,
    /// Drift of the recorded launch, as a fraction of its time.
    drift: Option<f64>,
    /// Index in `points`.
    best: Option<u32>,
    speed_up: Option<f64>,
    /// Whether the best point differs from the recorded launch by less than the variation of both.
    within_spread: bool,
    space: u64,
    left_out: u64,
    launches: u64,
    processes: u32,
    memory_bytes: u64,
    restored_pages: u64,
    before: DeviceState<'a>,
    after: DeviceState<'a>,
    /// The minimum and maximum observed directly after launches.
    load: &'a Load,
    phases: PhaseTimes,
    ended: &'static str,
    why: Option<&'a str>,
    points: Vec<PointReport<'a>>,
}

#[derive(Serialize)]
struct PointReport<'a> {
    verdict: &'static str,
    code: Option<&'a str>,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    cache: Option<&'static str>,
    max_registers: Option<u32>,
    launch_bounds: Option<[u32; 2]>,
    times_ns: &'a [u64],
    median_ns: Option<u64>,
    stdev_ns: Option<f64>,
    mad_ns: Option<u64>,
    speed_up: Option<f64>,
    resources: Option<ResourceUse>,
    why: Option<String>,
    wrong: Option<MismatchReport<'a>>,
}

#[derive(Serialize)]
struct ResourceUse {
    registers: u32,
    shared: u32,
    local: u32,
    blocks: u32,
    occupancy: f32,
}

#[derive(Serialize)]
struct MismatchReport<'a> {
    at: String,
    count: u64,
    at_least: bool,
    wanted: &'a str,
    got: &'a str,
    largest: Option<f64>,
}

#[derive(Serialize)]
struct DeviceState<'a> {
    celsius: Option<u32>,
    clock_mhz: Option<u32>,
    memory_mhz: Option<u32>,
    watts: Option<u32>,
    held_back: &'a [String],
    unknown: Option<&'a str>,
}

#[derive(Serialize)]
struct PhaseTimes {
    ready_ns: u64,
    before_ns: u64,
    code_ns: u64,
    restore_ns: u64,
    launch_ns: u64,
    compare_ns: u64,
    total_ns: u64,
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
        resources: row.measured.resources.map(|r| ResourceUse {
            registers: r.registers,
            shared: r.shared,
            local: r.local,
            blocks: r.blocks,
            occupancy: r.occupancy,
        }),
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

fn device_state(h: &Health) -> DeviceState<'_> {
    DeviceState {
        celsius: h.celsius,
        clock_mhz: h.clock_mhz,
        memory_mhz: h.memory_mhz,
        watts: h.watts,
        held_back: &h.held_back,
        unknown: h.unknown.as_deref(),
    }
}

fn phase_times(p: &Phases) -> PhaseTimes {
    PhaseTimes {
        ready_ns: p.ready,
        before_ns: p.before,
        code_ns: p.code,
        restore_ns: p.restore,
        launch_ns: p.launch,
        compare_ns: p.compare,
        total_ns: p.total,
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
        before: device_state(&tuned.before),
        after: device_state(&tuned.after),
        load: &tuned.load,
        phases: phase_times(&tuned.phases),
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
