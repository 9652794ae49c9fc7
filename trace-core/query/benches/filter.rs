//! The cost of a filter over a hundred million events: first rows and all of them, against polars and DuckDB on the
//! same columns in the same run. Prints its own table, because the ratio counts. The Python that `KINESCOPE_DUCKDB`
//! names (`scripts/bench.sh` creates it) runs both, by `polars_filter.py` and `duckdb_filter.py`.
#![allow(
    clippy::print_stdout,
    clippy::panic,
    reason = "a benchmark prints, and ends where something is wrong"
)]

use std::ffi::OsStr;
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use trace_core::filter::{Derived, Filter, JobBounds, Query};
use trace_core::progress::Progress;
use trace_core::recording::{ColumnBuilder, EventKind, Events, Space, SpaceKind};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, Recording};

const EVENTS: usize = 100_000_000;

/// Times that each thing is done.
const RUNS: usize = 5;

/// Rows that a table shows at once.
const ROWS: u64 = 100;

fn constant<T: bytemuck::Pod>(value: T) -> trace_core::recording::Column<T> {
    let mut b = ColumnBuilder::new();
    b.push_constant(value, EVENTS);
    b.finish()
}

/// A driver's accesses: the registers of a Mali, of which few are used most, with values that count, repeat or vary.
fn recording() -> (Recording, u32) {
    let map = RegisterMap::by_name("mali-jm").unwrap_or_else(|| panic!("no map"));
    let offsets: Vec<u32> = map.registers().map(|r| r.offset.get()).collect();
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 31)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .rotate_left(32)
    };
    let mut kind = Vec::with_capacity(EVENTS);
    let mut offset = Vec::with_capacity(EVENTS);
    let mut value = Vec::with_capacity(EVENTS);
    for n in 0..EVENTS as u64 {
        let random = next();
        let many = offsets.len() as u64;
        let register = (random % many).min((random >> 20) % many);
        kind.push(if random >> 40 & 1 == 0 {
            EventKind::Read
        } else {
            EventKind::Write
        } as u8);
        offset.push(offsets.get(register as usize).copied().unwrap_or(0));
        value.push(match register % 4 {
            0 => n,
            1 => 1,
            2 => random >> 44 & 15,
            _ => random >> 32,
        });
    }
    let often = offsets.get(15).copied().unwrap_or(0);
    let mut r = Recording {
        events: Events {
            kind: kind.into(),
            space: constant(0),
            time: constant(0),
            thread: constant(1),
            payload: (0..EVENTS as u32).collect::<Vec<_>>().into(),
            offset: offset.into(),
            width: constant(4),
            value: value.into(),
            ..Events::default()
        },
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = 0x6000_0000;
    r.metadata.spaces = vec![Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: 1 << 16,
    }];
    (r, often)
}

/// The shortest of some runs, each of which gives how many rows it found.
fn shortest(what: &str, mut run: impl FnMut() -> (u64, Duration)) -> (u64, Duration) {
    let runs: Vec<(u64, Duration)> = (0..RUNS).map(|_| run()).collect();
    let (rows, best) = runs.iter().copied().min_by_key(|r| r.1).unwrap_or_default();
    let worst = runs.iter().map(|r| r.1).max().unwrap_or_default();
    println!(
        "  {what:<44} {:>9.1} ms   (slowest of {RUNS}: {:.1} ms; {rows} rows)",
        ms(best),
        ms(worst)
    );
    (rows, best)
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn first(f: &Filter, events: &Events) -> (u64, Duration) {
    let (start, mut rows) = (Instant::now(), 0);
    let scanned = f.scan(events, 0..u64::MAX, &Progress::new(), |found| {
        rows += found.count();
        if rows >= ROWS {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    black_box(scanned).unwrap_or_else(|e| panic!("{e}"));
    (rows, start.elapsed())
}

fn complete(f: &Filter, events: &Events) -> (u64, Duration) {
    let start = Instant::now();
    let all = f.select(events, &Progress::new()).unwrap_or_else(|e| panic!("{e}"));
    (black_box(all).len(), start.elapsed())
}

/// The answer of another engine to a question: how many rows pass, and the shortest run for the rows and for their
/// count, ms.
#[derive(Clone, Copy)]
struct Answer {
    rows: u64,
    complete: f64,
    count: f64,
}

/// Writes the columns to files in a folder.
fn write_columns(events: &Events, folder: &Path) {
    let file = |name: &str| {
        let created = std::fs::File::create(folder.join(name));
        BufWriter::with_capacity(1 << 20, created.unwrap_or_else(|e| panic!("{e}")))
    };
    let (mut offsets, mut writes, mut values) = (file("offset.u32"), file("write.u8"), file("value.u64"));
    for (_, a) in events.accesses(0..events.len()) {
        let done = offsets
            .write_all(&a.offset.get().to_le_bytes())
            .and_then(|()| writes.write_all(&[u8::from(a.write)]))
            .and_then(|()| values.write_all(&a.value.to_le_bytes()));
        done.unwrap_or_else(|e| panic!("{e}"));
    }
    for f in [&mut offsets, &mut writes, &mut values] {
        f.flush().unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Runs another engine on the columns in `folder`. Returns no answers, and says why, if Python does not have it.
fn ask(engine: &str, python: &OsStr, folder: &Path, register: u32) -> Vec<Answer> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let out = Command::new(python)
        .arg(format!("{}/benches/{engine}_filter.py", env!("CARGO_MANIFEST_DIR")))
        .arg(folder)
        .args([register.to_string(), threads.to_string()])
        .output()
        .unwrap_or_else(|e| panic!("{e}"));
    if !out.status.success() {
        let error = String::from_utf8_lossy(&out.stderr);
        println!("skipped: {engine} ({})", error.lines().last().unwrap_or("it failed"));
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let mut all = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        match cells.as_slice() {
            [_, rows, complete, count] => all.push(Answer {
                rows: rows.parse().unwrap_or_else(|e| panic!("{e}")),
                complete: complete.parse().unwrap_or_else(|e| panic!("{e}")),
                count: count.parse().unwrap_or_else(|e| panic!("{e}")),
            }),
            _ => println!("{engine} {}", cells.join(" ")),
        }
    }
    all
}

/// Runs the other engines. Returns each with its answers.
fn ask_all(events: &Events, register: u32) -> Vec<(&'static str, Vec<Answer>)> {
    let Some(python) = std::env::var_os("KINESCOPE_DUCKDB") else {
        println!("skipped: polars and DuckDB (KINESCOPE_DUCKDB names no Python that has them)");
        return Vec::new();
    };
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    write_columns(events, folder.path());
    ["polars", "duckdb"]
        .into_iter()
        .map(|engine| (engine, ask(engine, &python, folder.path(), register)))
        .collect()
}

fn main() {
    let (recording, often) = recording();
    let events = &recording.events;
    let others = ask_all(events, often);
    let jobs = (0..10_000u64).map(|n| JobBounds {
        slot: 1,
        submit: n * 10_000,
        done: Some(n * 10_000 + 5_000),
        head_va: GpuVa::ZERO,
    });
    let derived = Derived {
        jobs: jobs.collect(),
        ..Derived::default()
    };
    let compile = |text: &str| {
        let query = Query::parse(text).unwrap_or_else(|e| panic!("{e}"));
        query
            .compile(&recording, Some(&derived))
            .unwrap_or_else(|e| panic!("{e}"))
    };
    println!("{EVENTS} events");
    let cases = [
        format!("offset = {often:#x} and value & 0x100 != 0"),
        "write and value >= 0x8000_0000".to_owned(),
    ];
    for (n, text) in cases.iter().enumerate() {
        println!("\n{text}");
        let f = compile(text);
        shortest("first rows", || first(&f, events));
        let (rows, own) = shortest("complete", || complete(&f, events));
        for (engine, answers) in &others {
            let Some(answer) = answers.get(n) else { continue };
            assert_eq!(answer.rows, rows);
            println!("  {:<44} {:>9.1} ms", format!("{engine}, the rows"), answer.complete);
            println!("  {:<44} {:>9.1} ms", format!("{engine}, their count"), answer.count);
            println!(
                "  complete to {engine}: {:.2} of its rows, {:.2} of its count",
                ms(own) / answer.complete,
                ms(own) / answer.count
            );
        }
    }
    // What a general engine has no columns for.
    for text in [
        "reg =~ \"JS1_.*\" and write and value & 0x100 != 0 and job in 4..9",
        "reg =~ \"JS1_.*\"",
        "JS_CONFIG_NEXT.start_flush = clean",
        "job in 4..9",
        "value in {1, 5, 9, 13, 17, 21, 25}",
    ] {
        println!("\n{text}");
        let start = Instant::now();
        let f = compile(text);
        println!("  {:<44} {:>9.1} ms", "compiled", ms(start.elapsed()));
        shortest("first rows", || first(&f, events));
        shortest("complete", || complete(&f, events));
    }
}
