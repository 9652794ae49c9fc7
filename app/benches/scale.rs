//! What the window costs on recordings of a million, ten million and a hundred million events: the first frame with
//! real content, panning and zooming over twenty lanes and more, the event table, state at any event, and memory.
//!
//! Each recording is made in one process and looked at in a fresh one, so that memory is that of the window alone. What
//! is timed is the interface's code of a frame (layout, panels, shapes): there is no graphics card in it. The yardstick
//! of every figure is the same figure at a million events, in the same run. `KINESCOPE_SCALE` names other sizes:
//! `KINESCOPE_SCALE=1000000,20000000`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark prints, and ends where something is wrong"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Window, long};
use egui::{Event, Modifiers, MouseWheelUnit, TouchPhase, pos2, vec2};
use kinescope::document::moment::Selection;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

const SIZES: [u64; 3] = [1_000_000, 10_000_000, 100_000_000];

/// Reads of a status before each job, so that a job comes with 142 accesses: as many as in GPUReplay's recording of
/// alexnet, 8542 accesses of 60 jobs.
const WAITS: u64 = 127;

/// Frames of each way to move.
const FRAMES: u32 = 600;

/// A file of `bytes` is in the page cache, as far as that holds it.
fn warm(path: &Path) {
    let mut file = std::fs::File::open(path).unwrap();
    std::io::copy(&mut file, &mut std::io::sink()).unwrap();
}

/// KiB of memory that no file backs.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// Numbers that look random, the same in each run.
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

/// Times `FRAMES` frames, each after a step: median, 99th of a hundred, longest; ms.
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

fn tell(name: &str, value: f64) {
    println!("{name}\t{value}");
    std::io::stdout().flush().unwrap();
}

fn tell_frames(name: &str, [median, p99, longest]: [f64; 3]) {
    tell(&format!("{name}: median"), median);
    tell(&format!("{name}: p99"), p99);
    tell(&format!("{name}: longest"), longest);
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

/// Looks at a recording, and tells what it cost, a line each.
fn look(path: &Path) {
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
    // The frame in which the document came in shows it.
    w.harness.step();
    tell("first frame with content, ms", ms(opened.elapsed()));
    tell("the window itself before that, ms", ms(window));
    // What is found out behind it, while the window goes on.
    let mut worst = 0f64;
    let since = Instant::now();
    while !w.app().tasks.running().is_empty() || !w.doc().facts.pending.is_empty() {
        let start = Instant::now();
        w.harness.step();
        worst = worst.max(ms(start.elapsed()));
        assert!(since.elapsed() < Duration::from_secs(600), "work did not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    tell("everything found out, ms", ms(since.elapsed()));
    tell("longest frame meanwhile, ms", worst);
    tell("memory when all is known, MiB", anonymous() as f64 / 1024.0);
    tell("of that before opening, MiB", before as f64 / 1024.0);
    let n = w.doc().len();
    let registers: Vec<u32> = w.doc().facts.registers.keys().copied().take(14).collect();
    for r in &registers {
        w.doc().pin(*r);
    }
    w.run("show-events");
    w.settle();
    let lanes = w.doc().facts.pyramid.lanes().len() + registers.len() + 5;
    tell("lanes", lanes as f64);
    let mut random = Random(7);

    let middle = n as f64 / 2.0;
    let mut wide = n as f64;
    let panned = frames(&mut w, |w, i| {
        // Whole, and closer by steps; panned a hundredth at each width.
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

    let scrolled = frames(&mut w, |w, i| {
        match i % 4 {
            // Anywhere, then on by pages and by the wheel.
            0 => {
                let to = random.below(n);
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
        }
    });
    tell_frames("event table, ms", scrolled);
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
    tell("memory at the end, MiB", anonymous() as f64 / 1024.0);
}

fn make(path: &Path, events: u64) {
    let recording = long::driver(events, WAITS);
    trace_core::timeline::write(&recording, path, &Progress::new()).unwrap();
}

/// Runs this program again for one thing.
fn apart(what: &str, path: &Path, events: u64) -> Vec<(String, f64)> {
    let out = Command::new(std::env::current_exe().unwrap())
        .env("KINESCOPE_SCALE_DO", what)
        .env("KINESCOPE_SCALE_FILE", path)
        .env("KINESCOPE_SCALE_EVENTS", events.to_string())
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
        let events = var("KINESCOPE_SCALE_EVENTS").unwrap().parse().unwrap();
        return match what.as_str() {
            "make" => make(Path::new(&path), events),
            _ => look(Path::new(&path)),
        };
    }
    // A test run of all targets only looks whether it works.
    let measured = std::env::args().any(|a| a == "--bench");
    let sizes: Vec<u64> = match var("KINESCOPE_SCALE") {
        Some(list) => list
            .split(',')
            .map(|n| n.trim().parse().expect("sizes are numbers"))
            .collect(),
        None if measured => SIZES.to_vec(),
        None => vec![10_000],
    };
    let folder = tempfile::tempdir().unwrap();
    let mut columns: Vec<Vec<(String, f64)>> = Vec::new();
    for events in &sizes {
        let path = folder.path().join(format!("{events}.kine"));
        apart("make", &path, *events);
        let bytes = std::fs::metadata(&path).unwrap().len();
        warm(&path);
        println!("{events} events, {} MiB", bytes >> 20);
        columns.push(apart("look", &path, *events));
        std::fs::remove_file(&path).unwrap();
    }
    let first = &columns[0];
    for (row, (name, least)) in first.iter().enumerate() {
        let all: Vec<f64> = columns.iter().map(|c| c[row].1).collect();
        let figures: Vec<String> = all.iter().map(|v| format!("{v:>10.2}")).collect();
        let ratio = all.last().unwrap() / least;
        println!("  {name:<44} {}   largest to smallest {ratio:.2}", figures.join(" "));
    }
}
