//! Costs of the window on large recordings: register traces of a million, ten million and a hundred million events, and
//! API traces of ten thousand, a hundred thousand and a million launches. It measures the first frame with real
//! content, panning and zooming the lanes, the tables, a filter, state at any event, and memory.
//!
//! One process makes each recording and a new one measures it, so that the memory is that of the window alone. The
//! timed part is the interface code of a frame (layout, panels, shapes), without a graphics card. The reference for
//! every figure is the same figure at the smallest size, in the same run. `KINESCOPE_SCALE` sets other numbers of
//! events, `KINESCOPE_SCALE_LAUNCHES` of launches: `KINESCOPE_SCALE=1000000,20000000`. An empty list skips that part.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark prints, and ends where something is wrong"
)]

#[path = "../tests/it/common/mod.rs"]
mod common;

use common::{Window, long};
use egui::{Event, Modifiers, MouseWheelUnit, TouchPhase, pos2, vec2};
use kinescope_files::scene::Selection;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use trace_core::RegOffset;
use trace_core::progress::Progress;

/// Numbers of events of the register traces.
const EVENTS: [u64; 3] = [1_000_000, 10_000_000, 100_000_000];

/// Numbers of launches of the API traces.
const LAUNCHES: [u64; 3] = [10_000, 100_000, 1_000_000];

/// Launches in one run of the network in the API traces.
const LAUNCHES_A_RUN: u64 = 4;

/// Status reads before each job. A job then has 142 accesses, as many as in GPUReplay's recording of alexnet, which has
/// 8542 accesses in 60 jobs.
const WAITS: u64 = 127;

/// Frames for each kind of movement.
const FRAMES: u32 = 600;

/// Reads a file to bring it into the page cache, as far as it fits.
fn warm(path: &Path) {
    let mut file = std::fs::File::open(path).unwrap();
    std::io::copy(&mut file, &mut std::io::sink()).unwrap();
}

/// Returns the anonymous memory of this process, KiB.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// Pseudo-random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 20) % n.max(1)
    }
}

/// Times `FRAMES` frames, each after a step: median, 99th percentile and maximum, ms.
fn frames(w: &mut Window, mut step: impl FnMut(&mut Window, u32)) -> [f64; 3] {
    let mut all: Vec<f64> = (0..FRAMES)
        .map(|i| {
            step(w, i);
            let start = Instant::now();
            w.harness.step();
            ms(start.elapsed())
        })
        .collect();
    all.sort_by(f64::total_cmp);
    let at = |part: usize| all[(all.len() * part / 1000).min(all.len() - 1)];
    [at(500), at(990), at(1000)]
}

fn print_figure(name: &str, value: f64) {
    println!("{name}\t{value}");
    std::io::stdout().flush().unwrap();
}

fn tell_frames(name: &str, [median, p99, longest]: [f64; 3]) {
    print_figure(&format!("{name}: median"), median);
    print_figure(&format!("{name}: p99"), p99);
    print_figure(&format!("{name}: longest"), longest);
}

fn key(w: &mut Window, key: egui::Key) {
    for pressed in [true, false] {
        w.harness.event(Event::Key {
            key,
            physical_key: None,
            pressed,
            repeat: false,
            modifiers: Modifiers::NONE,
        });
    }
}

/// Opens a recording in a new window, and prints the cost until all derived data is computed.
fn opened(path: &Path) -> Window {
    let began = Instant::now();
    let mut w = Window::empty();
    let window = began.elapsed();
    let before = anonymous();
    let opened = Instant::now();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path.to_owned());
    while w.app().doc.is_none() {
        std::thread::sleep(Duration::from_micros(200));
        w.harness.step();
    }
    // This frame receives the document and shows it.
    w.harness.step();
    print_figure("first frame with content, ms", ms(opened.elapsed()));
    print_figure("the window itself before that, ms", ms(window));
    // Background computation of derived data, while the window keeps running.
    let mut worst = 0f64;
    let since = Instant::now();
    while !w.app().tasks.running().is_empty() || !w.doc().derived.pending.is_empty() {
        let start = Instant::now();
        w.harness.step();
        worst = worst.max(ms(start.elapsed()));
        assert!(since.elapsed() < Duration::from_secs(600), "work did not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    print_figure("everything found out, ms", ms(since.elapsed()));
    print_figure("longest frame meanwhile, ms", worst);
    print_figure("memory when all is known, MiB", anonymous() as f64 / 1024.0);
    print_figure("of that before opening, MiB", before as f64 / 1024.0);
    w
}

/// Prints the cost of frames while the timeline is panned and zoomed.
fn pan_and_zoom(w: &mut Window) {
    let n = w.doc().len();
    let middle = n as f64 / 2.0;
    let mut wide = n as f64;
    let panned = frames(w, |w, i| {
        // The whole view, then closer in steps; panned by a hundredth at each width.
        if i % 30 == 0 {
            wide = if wide < 500.0 { n as f64 } else { wide / 2.5 };
        }
        let from = (middle + f64::from(i % 30) * wide / 100.0)
            .min(n as f64 - wide)
            .max(0.0);
        w.views().timeline.range = Some((from, from + wide));
    });
    tell_frames("pan and zoom, ms", panned);
    w.views().timeline.range = None;
    w.settle();
}

/// Prints the cost of frames while the front table is scrolled: to random rows, then by pages and by the wheel. `any`
/// returns an event that has a row.
fn scroll(w: &mut Window, name: &str, mut any: impl FnMut(&mut Window) -> u64) {
    let scrolled = frames(w, |w, i| match i % 4 {
        0 => {
            let to = any(w);
            w.doc().go(to);
        }
        1 => key(w, egui::Key::PageDown),
        _ => {
            w.harness.event(Event::PointerMoved(pos2(420.0, 560.0)));
            w.harness.event(Event::MouseWheel {
                unit: MouseWheelUnit::Point,
                delta: vec2(0.0, -700.0),
                phase: TouchPhase::Move,
                source: egui::MouseWheelSource::Wheel,
                modifiers: Modifiers::NONE,
            });
        }
    });
    tell_frames(name, scrolled);
}

/// Types a filter of the event table. Prints the time until its rows are shown, and the longest frame meanwhile.
fn filter(w: &mut Window, text: &str, name: &str) {
    let since = Instant::now();
    w.views().events.filter = text.to_owned();
    let mut worst = 0f64;
    while w.views().events.found_for != text {
        let start = Instant::now();
        w.harness.step();
        worst = worst.max(ms(start.elapsed()));
        assert!(since.elapsed() < Duration::from_secs(60), "the filter did not end");
        std::thread::sleep(Duration::from_micros(500));
    }
    print_figure(&format!("{name}, ms"), ms(since.elapsed()));
    print_figure(&format!("{name}: longest frame meanwhile, ms"), worst);
    let rows = w.views().events.rows.as_ref().map_or(0, |r| r.len());
    print_figure(&format!("{name}: events that pass"), rows as f64);
    w.views().events.filter.clear();
    w.settle();
}

/// Measures a register trace and prints the figures, one per line.
fn look(path: &Path) {
    let mut w = opened(path);
    let n = w.doc().len();
    let registers: Vec<RegOffset> = w.doc().derived.registers.keys().copied().take(14).collect();
    for r in &registers {
        w.doc().pin(*r);
    }
    w.run("show-events");
    w.settle();
    let lanes = w.doc().derived.pyramid.lanes().len() + registers.len() + 5;
    print_figure("lanes", lanes as f64);
    let mut random = Random(7);
    pan_and_zoom(&mut w);
    filter(&mut w, "write and value = 0x87b00", "filter");
    scroll(&mut w, "event table, ms", |_| random.below(n));
    for (panel, name) in [
        ("show-register", "state of a register"),
        ("show-page-tables", "state of page tables"),
        ("show-memory", "state of memory"),
    ] {
        w.run(panel);
        let first = registers[0];
        let there = frames(&mut w, |w, _| {
            let to = random.below(n);
            w.doc().go_with(to, Selection::Register(first));
        });
        tell_frames(&format!("{name} at any event, ms"), there);
    }
    print_figure("memory at the end, MiB", anonymous() as f64 / 1024.0);
}

/// Measures an API trace and prints the figures, one per line.
fn look_at_launches(path: &Path) {
    let mut w = opened(path);
    let api_trace = w.doc().api_trace().unwrap();
    print_figure("events", w.doc().len() as f64);
    w.run("show-events");
    w.settle();
    print_figure("lanes", w.doc().derived.pyramid.lanes().len() as f64);
    let mut random = Random(7);
    let all = api_trace.launches().len() as u64;
    let mut launch = |_: &mut Window| api_trace.launches()[random.below(all) as usize].event;
    pan_and_zoom(&mut w);
    filter(&mut w, "launch", "filter");
    scroll(&mut w, "event table, ms", &mut launch);
    w.run("show-launches");
    w.settle();
    scroll(&mut w, "launches, ms", &mut launch);
    let buffer = api_trace.buffers().list()[2].at;
    w.show_memory(0, buffer.get(), 4);
    w.run("show-memory");
    w.settle();
    let there = frames(&mut w, |w, _| {
        let to = launch(w);
        let bytes = Selection::Memory {
            space: 0,
            va: buffer,
            bytes: 4,
        };
        w.doc().go_with(to, bytes);
    });
    tell_frames("memory of the device at any launch, ms", there);
    print_figure("memory at the end, MiB", anonymous() as f64 / 1024.0);
}

fn make(path: &Path, events: u64) {
    let recording = long::driver(events, WAITS);
    trace_core::timeline::write(&recording, path, &Progress::new()).unwrap();
}

fn make_launches(path: &Path, launches: u64) {
    let runs = u32::try_from(launches / LAUNCHES_A_RUN).unwrap();
    let recording = common::net::net(runs).recording;
    trace_core::timeline::write(&recording, path, &Progress::new()).unwrap();
}

/// Runs this program again in a new process for one measurement.
fn apart(what: &str, path: &Path, size: u64) -> Vec<(String, f64)> {
    let out = Command::new(std::env::current_exe().unwrap())
        .env("KINESCOPE_SCALE_DO", what)
        .env("KINESCOPE_SCALE_FILE", path)
        .env("KINESCOPE_SCALE_SIZE", size.to_string())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let line = |l: &str| {
        let (name, value) = l.split_once('\t')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn main() {
    let var = |name: &str| std::env::var(name).ok();
    if let Some(what) = var("KINESCOPE_SCALE_DO") {
        let path = var("KINESCOPE_SCALE_FILE").unwrap();
        let size = var("KINESCOPE_SCALE_SIZE").unwrap().parse().unwrap();
        return match what.as_str() {
            "make" => make(Path::new(&path), size),
            "look" => look(Path::new(&path)),
            "make launches" => make_launches(Path::new(&path), size),
            _ => look_at_launches(Path::new(&path)),
        };
    }
    // A test run of all targets only checks that the benchmark works.
    let measured = std::env::args().any(|a| a == "--bench");
    let sizes = |name: &str, all: &[u64], min: u64| -> Vec<u64> {
        let list = |text: String| {
            let numbers = text.split(',').map(str::trim).filter(|n| !n.is_empty());
            numbers.map(|n| n.parse().expect("sizes are numbers")).collect()
        };
        match var(name) {
            Some(text) => list(text),
            None if measured => all.to_vec(),
            None => vec![min],
        }
    };
    let folder = tempfile::tempdir().unwrap();
    for (what, unit, sizes) in [
        ("", "events", sizes("KINESCOPE_SCALE", &EVENTS, 10_000)),
        (
            " launches",
            "launches",
            sizes("KINESCOPE_SCALE_LAUNCHES", &LAUNCHES, 1000),
        ),
    ] {
        let mut columns: Vec<Vec<(String, f64)>> = Vec::new();
        for size in &sizes {
            let path = folder.path().join(format!("{size}.kine"));
            apart(&format!("make{what}"), &path, *size);
            let bytes = std::fs::metadata(&path).unwrap().len();
            warm(&path);
            println!("{size} {unit}, {} MiB", bytes >> 20);
            columns.push(apart(&format!("look{what}"), &path, *size));
            std::fs::remove_file(&path).unwrap();
        }
        print_columns(&columns);
    }
}

/// Prints one line per figure, with a column for each size.
fn print_columns(columns: &[Vec<(String, f64)>]) {
    let Some(first) = columns.first() else { return };
    for (row, (name, min)) in first.iter().enumerate() {
        let all: Vec<f64> = columns.iter().map(|c| c[row].1).collect();
        let figures: Vec<String> = all.iter().map(|v| format!("{v:>10.2}")).collect();
        let ratio = all.last().unwrap() / min;
        println!("  {name:<44} {}   largest to smallest {ratio:.2}", figures.join(" "));
    }
}
