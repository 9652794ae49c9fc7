//! The cost of a table of a million events in memory, as Python gets it, against polars reading the same table from
//! Parquet in the same run. Prints its own table, because the ratio counts. The Python that `KINESCOPE_DUCKDB` names
//! (`scripts/bench.sh` creates it) reads the file.
//!
//! Both use all cores. Times are the shortest of several, which other programs on the machine make longer; processor times
//! are means, which they make longer by less. An argument selects the cases whose name contains it.
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
use trace_query::{EventColumns, EventSelection, EventStream, Format, Table, collect_table, export};

const EVENTS: usize = 1_000_000;
/// Times that each thing is done.
const RUNS: u32 = 15;
/// Duration of a tick of processor time in Linux.
const TICK: Duration = Duration::from_millis(10);

/// Reads a file this many times. Prints the shortest time and the mean processor time in seconds.
const READ: &str = "
import sys, time, polars
runs = int(sys.argv[2])
times = []
polars.read_parquet(sys.argv[1])
used = time.process_time()
for _ in range(runs):
    start = time.perf_counter()
    frame = polars.read_parquet(sys.argv[1])
    times.append(time.perf_counter() - start)
used = time.process_time() - used
assert len(frame) == 1_000_000
print(min(times), used / runs)
";

/// The shortest time of an operation, and its mean processor time.
#[derive(Clone, Copy)]
struct Cost {
    time: Duration,
    processor: Duration,
}

impl Cost {
    /// Measures an operation [`RUNS`] times.
    fn measure(operation: impl Fn()) -> Self {
        let used = processor_time();
        let time = (0..RUNS).map(|_| {
            let start = Instant::now();
            operation();
            start.elapsed()
        });
        let time = time.min().unwrap_or_default();
        Self {
            time,
            processor: (processor_time() - used) / RUNS,
        }
    }
}

/// Returns the processor time of this process so far, in steps of [`TICK`].
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_else(|e| panic!("{e}"));
    // The name of the program, in parentheses, may have spaces.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u32 = fields.skip(11).take(2).filter_map(|f| f.parse::<u32>().ok()).sum();
    TICK * ticks
}

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

fn build(recording: &Recording) {
    let table = collect_table(Table::Events, recording, &Timeline::default(), &Progress::new());
    black_box(table.unwrap_or_else(|e| panic!("{e}")));
}

fn stream(recording: &Recording) {
    for batch in EventStream::new(recording.clone(), EventSelection::All, EventColumns::default()) {
        black_box(batch.unwrap_or_else(|e| panic!("{e}")));
    }
}

fn read_parquet(recording: &Recording, file: &Path) -> Option<Cost> {
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
    let out = Command::new(python)
        .arg("-c")
        .arg(READ)
        .arg(file)
        .arg(RUNS.to_string())
        .output();
    let out = out.unwrap_or_else(|e| panic!("{e}"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut seconds = text.split_whitespace().map(|t| t.parse().ok());
    let mut next = || Duration::from_secs_f64(seconds.next().flatten().unwrap_or_else(|| panic!("polars: {out:?}")));
    Some(Cost {
        time: next(),
        processor: next(),
    })
}

fn main() {
    // A part of a name selects cases.
    let wanted = std::env::args()
        .skip(1)
        .find(|a| !a.starts_with('-'))
        .unwrap_or_default();
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    for (name, values) in [
        ("random values, no register map", Values::Unnamed),
        ("sixteen values of each register", Values::Repeated),
        ("random values, each described", Values::Random),
    ] {
        if !name.contains(&wanted) {
            continue;
        }
        let recording = recording(values);
        let show = |what: &str, cost: Cost| {
            let ms = |d: Duration| d.as_secs_f64() * 1e3;
            println!(
                "{name:<34} {what:<20} {:>7.1} ms, processor {:>7.1} ms",
                ms(cost.time),
                ms(cost.processor)
            );
        };
        let built = Cost::measure(|| build(&recording));
        show("table built", built);
        show("batches streamed", Cost::measure(|| stream(&recording)));
        match read_parquet(&recording, &folder.path().join("events.parquet")) {
            Some(read) => {
                show("Parquet into polars", read);
                let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
                println!(
                    "{name:<34} {:.2} of the speed of Parquet, {:.2} by processor time",
                    ratio(read.time, built.time),
                    ratio(read.processor, built.processor)
                );
            }
            None => println!("{name:<34} not compared: KINESCOPE_DUCKDB names no Python"),
        }
    }
}
