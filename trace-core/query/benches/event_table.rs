//! The cost of a table of a million events in memory, as Python gets it, against polars reading the same table from
//! Parquet in the same run. Prints its own table, because the ratio counts. The Python that `KINESCOPE_DUCKDB` names
//! (`scripts/bench.sh` creates it) reads the file.
#![allow(
    clippy::print_stdout,
    clippy::panic,
    reason = "a benchmark prints, and ends where something is wrong"
)]

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::{ColumnBuilder, EventKind, Events, Space, SpaceKind};
use trace_core::registers::RegisterMap;
use trace_core::timeline::Timeline;
use trace_query::{Format, Table, collect_table, export};

const EVENTS: usize = 1_000_000;
/// Times that each thing is done.
const RUNS: usize = 7;

/// Reads a file this many times and prints the shortest time in seconds.
const READ: &str = "
import sys, time, polars
times = []
for _ in range(7):
    start = time.perf_counter()
    frame = polars.read_parquet(sys.argv[1])
    times.append(time.perf_counter() - start)
assert len(frame) == 1_000_000
print(min(times))
";

/// Values of the events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Random ones of a device that no register map knows.
    Unnamed,
    /// Few values of each register of a Mali.
    Repeated,
    /// Random ones of each register of a Mali: each has a description of its own.
    Random,
}

fn constant<T: bytemuck::Pod>(value: T) -> trace_core::recording::Column<T> {
    let mut b = ColumnBuilder::new();
    b.push_constant(value, EVENTS);
    b.finish()
}

fn recording(values: Values) -> Recording {
    let map = RegisterMap::by_name("mali-jm").unwrap_or_else(|| panic!("no map"));
    let offsets: Vec<u32> = map.registers().map(|r| r.offset.get()).collect();
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 31
    };
    let random: Vec<u64> = (0..EVENTS).map(|_| next()).collect();
    let kind = |r: &u64| {
        if r >> 40 & 1 == 0 {
            EventKind::Read as u8
        } else {
            EventKind::Write as u8
        }
    };
    let mask = if values == Values::Repeated { 0xf } else { 0xffff_ffff };
    let offset = |r: &u64| offsets.get((r >> 16) as usize % offsets.len()).copied().unwrap_or(0);
    let mut recording = Recording {
        events: Events {
            kind: random.iter().map(kind).collect::<Vec<_>>().into(),
            space: constant(0),
            time: (0..EVENTS as u64).map(|n| n * 100).collect::<Vec<_>>().into(),
            thread: constant(1),
            payload: (0..EVENTS as u32).collect::<Vec<_>>().into(),
            offset: random.iter().map(offset).collect::<Vec<_>>().into(),
            width: constant(4),
            value: random.iter().map(|r| r >> 12 & mask).collect::<Vec<_>>().into(),
            ..Events::default()
        },
        ..Recording::default()
    };
    if values != Values::Unnamed {
        recording.metadata.identity.gpu_id = 0x6000_0000;
    }
    recording.metadata.spaces = vec![Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: 1 << 16,
    }];
    recording
}

fn build(recording: &Recording) -> Duration {
    let start = Instant::now();
    let table = collect_table(Table::Events, recording, &Timeline::default(), &Progress::new());
    black_box(table.unwrap_or_else(|e| panic!("{e}")));
    start.elapsed()
}

fn read_parquet(recording: &Recording, file: &Path) -> Option<Duration> {
    let python = std::env::var_os("KINESCOPE_DUCKDB")?;
    let mut to = std::fs::File::create(file).unwrap_or_else(|e| panic!("{e}"));
    let timeline = Timeline::default();
    let done = export(
        Table::Events,
        recording,
        &timeline,
        Format::Parquet,
        &mut to,
        &Progress::new(),
    );
    done.unwrap_or_else(|e| panic!("{e}"));
    let out = Command::new(python).arg("-c").arg(READ).arg(file).output();
    let out = out.unwrap_or_else(|e| panic!("{e}"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let seconds = text.trim().parse().unwrap_or_else(|_| panic!("polars: {out:?}"));
    Some(Duration::from_secs_f64(seconds))
}

fn main() {
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    for (name, values) in [
        ("random values, no register map", Values::Unnamed),
        ("sixteen values of each register", Values::Repeated),
        ("random values, each described", Values::Random),
    ] {
        let recording = recording(values);
        let built = (0..RUNS).map(|_| build(&recording)).min().unwrap_or_default();
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        match read_parquet(&recording, &folder.path().join("events.parquet")) {
            Some(read) => println!(
                "{name:<34} table built in {:>7.1} ms, Parquet into polars {:>6.1} ms: {:.2} of its speed",
                ms(built),
                ms(read),
                read.as_secs_f64() / built.as_secs_f64()
            ),
            None => println!(
                "{name:<34} table built in {:>7.1} ms (KINESCOPE_DUCKDB names no Python)",
                ms(built)
            ),
        }
    }
}
