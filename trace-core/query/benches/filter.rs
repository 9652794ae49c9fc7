//! What it costs to filter a hundred million events: first rows and all of them, against polars and DuckDB on the same
//! columns in the same run. Prints a table of its own, since what counts is the ratio. DuckDB is asked through the Python
//! that `KINESCOPE_DUCKDB` names (`scripts/bench.sh` makes one), by `duckdb_filter.py`.
#![allow(
    clippy::print_stdout,
    clippy::panic,
    reason = "a benchmark prints, and ends where something is wrong"
)]

use polars::prelude::{DataFrame, Expr, IntoLazy, col, lit};
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::process::Command;
use std::time::{Duration, Instant};
use trace_core::Recording;
use trace_core::filter::{Derived, Filter, JobBounds, Query};
use trace_core::progress::Progress;
use trace_core::recording::{ColumnBuilder, EventKind, Events, Space, SpaceKind};
use trace_core::registers::RegisterMap;

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
    let offsets: Vec<u32> = map.registers().map(|r| r.offset).collect();
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
    r.facts.identity.gpu_id = 0x6000_0000;
    r.facts.spaces = vec![Space {
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

fn rows_of_polars(table: &DataFrame, passes: &Expr) -> (u64, Duration) {
    let lazy = table.clone().lazy().filter(passes.clone());
    let start = Instant::now();
    let all = lazy.collect().unwrap_or_else(|e| panic!("{e}"));
    (black_box(all).height() as u64, start.elapsed())
}

fn count_of_polars(table: &DataFrame, passes: &Expr) -> (u64, Duration) {
    let lazy = table.clone().lazy().select([passes.clone().sum().alias("n")]);
    let start = Instant::now();
    let all = black_box(lazy.collect()).unwrap_or_else(|e| panic!("{e}"));
    let took = start.elapsed();
    let n = all.column("n").and_then(|c| c.get(0)?.try_extract::<u64>());
    (n.unwrap_or_else(|e| panic!("{e}")), took)
}

/// What DuckDB says of a question: how many rows pass, and the shortest run for their numbers and for their count, ms.
#[derive(Clone, Copy)]
struct Duck {
    rows: u64,
    numbers: f64,
    count: f64,
}

/// Writes the columns to a folder, a chunk at a time, and has DuckDB answer the two questions; `None`, and why is said,
/// where there is no DuckDB.
fn duckdb(events: &Events, register: u32) -> Option<Vec<Duck>> {
    let Some(python) = std::env::var_os("KINESCOPE_DUCKDB") else {
        println!("without DuckDB: KINESCOPE_DUCKDB names no Python that has it");
        return None;
    };
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let file = |name: &str| {
        let made = std::fs::File::create(folder.path().join(name));
        BufWriter::with_capacity(1 << 20, made.unwrap_or_else(|e| panic!("{e}")))
    };
    let (mut offsets, mut writes, mut values) = (file("offset.u32"), file("write.u8"), file("value.u64"));
    for (_, a) in events.accesses(0..events.len()) {
        let done = offsets
            .write_all(&a.offset.to_le_bytes())
            .and_then(|()| writes.write_all(&[u8::from(a.write)]))
            .and_then(|()| values.write_all(&a.value.to_le_bytes()));
        done.unwrap_or_else(|e| panic!("{e}"));
    }
    for f in [&mut offsets, &mut writes, &mut values] {
        f.flush().unwrap_or_else(|e| panic!("{e}"));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let out = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/duckdb_filter.py"))
        .arg(folder.path())
        .args([register.to_string(), threads.to_string()])
        .output()
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    let mut all = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        match cells.as_slice() {
            [_, rows, numbers, count] => all.push(Duck {
                rows: rows.parse().unwrap_or_else(|e| panic!("{e}")),
                numbers: numbers.parse().unwrap_or_else(|e| panic!("{e}")),
                count: count.parse().unwrap_or_else(|e| panic!("{e}")),
            }),
            _ => println!("DuckDB {}", cells.join(" ")),
        }
    }
    Some(all)
}

fn main() {
    let (recording, often) = recording();
    let events = &recording.events;
    let duck = duckdb(events, often);
    let table = trace_query::accesses(&recording).unwrap_or_else(|e| panic!("{e}"));
    let only = |names: [&str; 2]| table.select(names).unwrap_or_else(|e| panic!("{e}"));
    let tables = [only(["offset", "value"]), only(["write", "value"])];
    drop(table);
    let jobs = (0..10_000u64).map(|n| JobBounds {
        slot: 1,
        submit: n * 10_000,
        done: Some(n * 10_000 + 5_000),
        head_va: 0,
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
    let bits = || col("value").and(lit(0x100u64)).neq(lit(0u64));
    let cases = [
        (
            format!("offset = {often:#x} and value & 0x100 != 0"),
            &tables[0],
            col("offset").eq(lit(often)).and(bits()),
        ),
        (
            "write and value >= 0x8000_0000".to_owned(),
            &tables[1],
            col("write").and(col("value").gt_eq(lit(0x8000_0000u64))),
        ),
    ];
    for (n, (text, table, passes)) in cases.iter().enumerate() {
        println!("\n{text}");
        let f = compile(text);
        shortest("first rows", || first(&f, events));
        let (rows, own) = shortest("complete", || complete(&f, events));
        let (theirs, polars) = shortest("polars, the rows of the two columns", || rows_of_polars(table, passes));
        let (counted, count) = shortest("polars, how many they are", || count_of_polars(table, passes));
        assert_eq!((rows, rows), (theirs, counted));
        println!(
            "  complete to polars: {:.2} of its rows, {:.2} of its count",
            own.as_secs_f64() / polars.as_secs_f64(),
            own.as_secs_f64() / count.as_secs_f64()
        );
        if let Some(d) = duck.as_ref().and_then(|d| d.get(n)) {
            assert_eq!(d.rows, rows);
            println!("  {:<44} {:>9.1} ms", "DuckDB, the numbers of the rows", d.numbers);
            println!("  {:<44} {:>9.1} ms", "DuckDB, how many they are", d.count);
            println!(
                "  complete to DuckDB: {:.2} of its numbers, {:.2} of its count",
                ms(own) / d.numbers,
                ms(own) / d.count
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
