//! The text output of a tuning run.

use crate::cli::Out;
use crate::cli::out::{format_count, format_duration};
use kinescope_session::tuning::clocks;
use kinescope_session::tuning::table::{Role, Row, code, rows, verdict};
use replay_engine::tune::{Health, Measurement, Point, RejectReason, Spread, TuneEnd, TuneReport};
use std::collections::BTreeMap;
use std::io;

/// Maximum number of points shown by default.
const MAX_SHOWN_POINTS: usize = 20;
/// Maximum drift of the recorded launch between start and end. A larger one makes the times of points unreliable.
const MAX_DRIFT: f64 = 0.05;

/// Prints the report.
pub fn print(tuned: &TuneReport, target: &str, all: bool, out: &mut Out) -> io::Result<()> {
    out.line(format_args!("{}, event {}", tuned.function, tuned.event))?;
    out.line(format_args!("on {target}, {}", tuned.device))?;
    if let Some(rejected) = &tuned.baseline.rejected {
        out.line("")?;
        out.line(format_args!("The recorded launch itself is rejected: {rejected}."))?;
        if let RejectReason::Wrong(_) = rejected {
            out.line("Its results differ between runs, or from the recording: allow a difference with --tolerance.")?;
        }
        return Ok(());
    }
    out.line("")?;
    table(tuned, all, out)?;
    out.line("")?;
    notes(tuned, out)
}

/// The optional columns that at least one row uses.
struct OptionalColumns {
    code: bool,
    shared: bool,
    cache: bool,
    registers: bool,
    bounds: bool,
}

impl OptionalColumns {
    fn for_tuned(tuned: &TuneReport) -> Self {
        let any = |f: &dyn Fn(&Point) -> bool| tuned.points.iter().any(|t| f(&t.point));
        Self {
            code: any(&|p| p.module > 0),
            shared: any(&|p| p.shared != tuned.recorded.shared) || tuned.recorded.shared > 0,
            cache: any(&|p| p.cache.is_some()),
            registers: any(&|p| p.max_registers.is_some()),
            bounds: any(&|p| p.bounds.is_some()),
        }
    }
}

fn dimensions([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    }
}

fn table(tuned: &TuneReport, all: bool, out: &mut Out) -> io::Result<()> {
    let optional = OptionalColumns::for_tuned(tuned);
    let mut head = vec!["".to_owned(), "grid".into(), "block".into()];
    for (there, name) in [
        (optional.shared, "shared"),
        (optional.cache, "cache"),
        (optional.registers, "max regs"),
        (optional.bounds, "bounds"),
        (optional.code, "code"),
    ] {
        if there {
            head.push(name.to_owned());
        }
    }
    head.extend(["median", "spread", "speed-up", "regs", "occupancy", ""].map(str::to_owned));
    let mut lines = vec![head];
    let max = if all { usize::MAX } else { MAX_SHOWN_POINTS };
    let mut left_out = 0;
    for (n, row) in rows(tuned).enumerate() {
        if n > max {
            left_out += 1;
            continue;
        }
        lines.push(format_row(tuned, &row, &optional));
    }
    out.table(&lines)?;
    if left_out > 0 {
        out.line(format_args!(
            "and {} more (--table shows all)",
            format_count(left_out, "point")
        ))?;
    }
    Ok(())
}

fn format_row(tuned: &TuneReport, row: &Row<'_>, optional: &OptionalColumns) -> Vec<String> {
    let (point, measured): (Point, &Measurement) = (row.point, row.measured);
    let spread = measured.spread();
    let mut cells = vec![
        row.role.label().to_owned(),
        dimensions(point.grid),
        dimensions(point.block),
    ];
    if optional.shared {
        cells.push(point.shared.to_string());
    }
    if optional.cache {
        cells.push(point.cache.map_or("-", |c| c.name()).to_owned());
    }
    if optional.registers {
        cells.push(point.max_registers.map_or_else(|| "-".to_owned(), |n| n.to_string()));
    }
    if optional.bounds {
        let text = point.bounds().map_or_else(
            || "-".to_owned(),
            |b| match b.min_blocks {
                0 => b.max_threads.to_string(),
                n => format!("{},{n}", b.max_threads),
            },
        );
        cells.push(text);
    }
    if optional.code {
        let name = code(tuned, &point);
        cells.push(if name.is_empty() { "recorded" } else { name }.to_owned());
    }
    let of = |f: &dyn Fn(&Spread) -> String| spread.as_ref().map_or_else(|| "-".to_owned(), f);
    cells.push(of(&|s| format_duration(s.median)));
    cells.push(of(&|s| {
        format!("{} to {}", format_duration(s.min), format_duration(s.max))
    }));
    cells.push(match row.role {
        Role::Baseline => "1.00".to_owned(),
        _ => tuned
            .speed_up(measured)
            .map_or_else(|| "-".to_owned(), |s| format!("{s:.2}")),
    });
    let resources = measured.resources;
    cells.push(resources.map_or_else(|| "-".to_owned(), |r| r.registers.to_string()));
    cells.push(resources.map_or_else(|| "-".to_owned(), |r| format!("{:.0} %", r.occupancy * 100.0)));
    cells.push(match &measured.rejected {
        Some(why) => first_line(&why.to_string()),
        None if measured.times.is_empty() => verdict(measured).to_owned(),
        None => String::new(),
    });
    cells
}

/// Returns the first line of a text that may be a compiler log.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn notes(tuned: &TuneReport, out: &mut Out) -> io::Result<()> {
    let tried = tuned.points.len() as u64;
    let mut rejected: BTreeMap<&str, u64> = BTreeMap::new();
    for t in tuned.rejected() {
        if let Some(why) = &t.measured.rejected {
            *rejected.entry(why.label()).or_default() += 1;
        }
    }
    let mut text = format!("{} of {} tried", format_count(tried, "point"), tuned.space);
    if rejected.is_empty() {
        text.push_str(", all correct");
    } else {
        let parts: Vec<String> = rejected.iter().map(|(word, n)| format!("{n} {word}")).collect();
        text.push_str(&format!(
            ", {} rejected ({})",
            rejected.values().sum::<u64>(),
            parts.join(", ")
        ));
    }
    out.line(format_args!("{text}; compared with {}", tuned.reference.label()))?;
    if tuned.left_out > 0 {
        let n = format_count(tuned.left_out, "combination");
        out.line(format_args!(
            "{n} of the values can be launched on no device and were left out"
        ))?;
    }
    match tuned.best() {
        None => out.line("No point is correct.")?,
        Some(best) if best.point == tuned.recorded => out.line("No point is faster than the recorded launch.")?,
        Some(best) => {
            let speed_up = tuned.speed_up(&best.measured).unwrap_or(1.0);
            let how = if speed_up >= 1.0 {
                format!("{speed_up:.2} times as fast as recorded")
            } else {
                format!("{:.2} of the recorded speed", speed_up)
            };
            out.line(format_args!("Best is {}, {how}.", best.point))?;
            if tuned.is_unclear() {
                out.line("The difference is smaller than the spread of the two: measure more launches with --repeat.")?;
            }
        }
    }
    if let Some(drift) = tuned.drift().filter(|d| d.abs() > MAX_DRIFT) {
        out.line(format_args!(
            "The recorded launch took {:+.0} % after the points, compared with before them: clocks or temperature changed.",
            drift * 100.0
        ))?;
    }
    match &tuned.ended {
        TuneEnd::Done => {}
        TuneEnd::TimeOver => out.line("The time limit (--time-limit) ended before all points were tried.")?,
        TuneEnd::Cancelled => out.line("It was stopped before all points were tried.")?,
        TuneEnd::Broken { why } => out.line(format_args!("It ended before all points were tried: {why}."))?,
    }
    out.line(format_args!("device before  {}", health(&tuned.before)))?;
    if let Some(load) = clocks::format_load_clocks(&tuned.load) {
        out.line(format_args!("device working {load}"))?;
    }
    out.line(format_args!("device after   {}", health(&tuned.after)))?;
    let p = &tuned.phases;
    let mut parts = format!(
        "{} in all: ready {}, replay up to the launch {}, code {}, restore {}, launches {}, compared {}",
        format_duration(p.total_ns),
        format_duration(p.ready_ns),
        format_duration(p.before_ns),
        format_duration(p.code_ns),
        format_duration(p.restore_ns),
        format_duration(p.launch_ns),
        format_duration(p.compare_ns)
    );
    if tuned.processes > 1 {
        parts.push_str(&format!("; {} processes, because points crashed some", tuned.processes));
    }
    out.line(parts)
}

fn health(h: &Health) -> String {
    clocks::format_clocks(h).unwrap_or_else(|| {
        let why = h.unknown.as_deref().unwrap_or_default();
        format!("clocks and temperature unknown: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::tune::{OutputMismatch, PointResult, Resources};

    fn measured(times: &[u64]) -> Measurement {
        Measurement {
            times: times.to_vec(),
            resources: Some(Resources {
                registers: 24,
                occupancy: 0.75,
                ..Resources::default()
            }),
            rejected: None,
        }
    }

    fn tuned() -> TuneReport {
        let point = |block: u32| Point {
            grid: [80, 1, 1],
            block: [block, 1, 1],
            ..Point::default()
        };
        let tried = |block, measured| PointResult {
            point: point(block),
            measured,
        };
        TuneReport {
            device: "Stand-in".into(),
            function: "add(float*)".into(),
            event: 12,
            recorded: point(256),
            baseline: measured(&[20_000, 20_100, 20_200]),
            baseline_again: Some(measured(&[24_000])),
            points: vec![
                tried(64, measured(&[30_000, 31_000, 32_000])),
                tried(
                    512,
                    Measurement::from_rejection(RejectReason::Wrong(OutputMismatch {
                        at: 0x1000,
                        count: 1,
                        wanted: "00".into(),
                        got: "ff".into(),
                        ..OutputMismatch::default()
                    })),
                ),
                tried(
                    1024,
                    Measurement::from_rejection(RejectReason::Code {
                        why: "ptxas says\nmuch more".into(),
                    }),
                ),
                tried(128, measured(&[10_000, 10_100, 10_200])),
            ],
            best: Some(3),
            space: 4,
            before: Health {
                celsius: Some(40),
                clock_mhz: Some(1980),
                held_back: vec!["power limit".into()],
                ..Health::default()
            },
            after: Health {
                unknown: Some("no NVML".into()),
                ..Health::default()
            },
            ..TuneReport::default()
        }
    }

    fn printed(tuned: &TuneReport, all: bool) -> Vec<String> {
        let text = Out::capture(|out| print(tuned, "cuda:0", all, out).unwrap());
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn tune_text_lists_best_first_and_rejected_last() {
        let lines = printed(&tuned(), true);
        let at = |start: &str| lines.iter().position(|l| l.starts_with(start)).unwrap();
        assert_eq!(lines[0], "add(float*), event 12");
        let first = at("recorded");
        assert!(
            lines[first].contains("20.1 us") && lines[first].contains("1.00"),
            "{}",
            lines[first]
        );
        assert!(
            lines[first + 1].starts_with("best") && lines[first + 1].contains("1.99"),
            "{}",
            lines[first + 1]
        );
        assert!(
            lines[first + 2].contains("64") && lines[first + 2].contains("0.65"),
            "{}",
            lines[first + 2]
        );
        assert!(lines[first + 3].ends_with("wrong at 1 place, first at 0x1000 (ff instead of 00)"));
        assert!(lines[first + 4].ends_with("the code cannot be built for this point: ptxas says"));
        let text = lines.join("\n");
        assert!(
            text.contains("4 points of 4 tried, 2 rejected (1 no code, 1 wrong)"),
            "{text}"
        );
        assert!(
            text.contains("Best is grid 80, block 128, 1.99 times as fast as recorded."),
            "{text}"
        );
        assert!(text.contains("took +19 % after the points"), "{text}");
        assert!(
            text.contains("1980 MHz, 40 °C, held back by power limit") && text.contains("temperature unknown: no NVML"),
            "{text}"
        );
        assert!(!text.contains("smaller than the spread"), "{text}");
    }

    #[test]
    fn tune_text_reports_doubtful_results() {
        let mut t = tuned();
        t.points[3].measured = measured(&[10_000, 20_050, 30_000]);
        let text = printed(&t, true).join("\n");
        assert!(text.contains("smaller than the spread"), "{text}");
        t.ended = TuneEnd::TimeOver;
        (t.best, t.left_out) = (None, 2);
        let text = printed(&t, true).join("\n");
        assert!(
            text.contains("No point is correct.") && text.contains("--time-limit"),
            "{text}"
        );
        assert!(text.contains("2 combinations of the values"), "{text}");
        t.baseline = t.points[1].measured.clone();
        let lines = printed(&t, true);
        assert!(lines.last().unwrap().contains("--tolerance"), "{lines:?}");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn long_point_lists_are_shortened() {
        let mut t = tuned();
        t.points = (1..=50)
            .map(|n| PointResult {
                point: Point {
                    grid: [n, 1, 1],
                    ..t.recorded
                },
                measured: measured(&[10_000 * u64::from(n)]),
            })
            .collect();
        t.best = Some(0);
        let lines = printed(&t, false);
        assert!(
            lines.contains(&"and 30 points more (--table shows all)".to_owned()),
            "{lines:?}"
        );
        assert!(printed(&t, true).len() > lines.len());
    }
}
