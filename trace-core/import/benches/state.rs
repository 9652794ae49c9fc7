//! How long the whole state at any event takes: what every register held, and every mapping of every address space.
//!
//! Registers of a hundred million accesses of a made-up driver; registers and page tables of the published recording of
//! alexnet, where it is (`KINESCOPE_RECORDINGS`), else of this project's own sample. The yardstick of the registers is
//! what there is without sorting: reading the accesses back from the event until each register was met.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark talks, and has nobody to hand an error to"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace_core::RegOffset;
use trace_core::mmu;
use trace_core::progress::Progress;
use trace_core::recording::{ColumnBuilder, EventKind, Events, Recording, Space, SpaceKind};
use trace_core::registers::{Accesses, RecordedRegisters, RegisterMap, history};
use trace_import::{OpenOptions, Opened};

const EVENTS: usize = 100_000_000;
const SEEKS: usize = 1000;
/// Seeks of the yardstick, which takes seconds each where a register is rarely met.
const FEW: usize = 5;

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }
}

fn constant<T: bytemuck::Pod>(value: T, events: usize) -> trace_core::recording::Column<T> {
    let mut b = ColumnBuilder::new();
    b.push_constant(value, events);
    b.finish()
}

/// A driver that uses few of a Mali's registers most, and every one now and then.
fn made_up(events: usize) -> Recording {
    let map = RegisterMap::by_name("mali-jm").unwrap();
    let offsets: Vec<u32> = map.registers().map(|r| r.offset.get()).collect();
    let mut random = Random(1);
    let (mut kind, mut offset, mut value) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..events {
        let (a, b, many) = (random.next(), random.next(), offsets.len() as u64);
        let register = (a % many).min(b % many).min((a >> 20) % many);
        kind.push(if b >> 30 & 3 == 0 {
            EventKind::Write
        } else {
            EventKind::Read
        } as u8);
        offset.push(offsets[register as usize]);
        value.push(a >> 12 & 0xffff_ffff);
    }
    let mut r = Recording {
        events: Events {
            kind: kind.into(),
            space: constant(0, events),
            time: constant(0, events),
            thread: constant(1, events),
            payload: (0..events as u32).collect::<Vec<_>>().into(),
            offset: offset.into(),
            width: constant(4, events),
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
    r
}

/// Times each of some events: median, 99th of a hundred, longest.
fn seeks(what: &str, events: usize, seeks: usize, mut state: impl FnMut(u64)) {
    let mut random = Random(3);
    let mut all: Vec<Duration> = (0..seeks)
        .map(|_| {
            let event = random.next() % events.max(1) as u64;
            let start = Instant::now();
            state(event);
            start.elapsed()
        })
        .collect();
    all.sort();
    let ms = |n: usize| all[n * (seeks - 1) / 1000].as_secs_f64() * 1e3;
    println!(
        "  {what:<58} median {:>8.3} ms   p99 {:>8.3} ms   longest {:>8.3} ms",
        ms(500),
        ms(990),
        ms(1000)
    );
}

/// What every register held.
fn registers(r: &Recording, device: Option<RecordedRegisters>, of: &BTreeMap<RegOffset, Accesses>, event: u64) -> u64 {
    of.iter()
        .filter_map(|(register, accesses)| history::value_at(r, device, *register, accesses, event))
        .fold(0, |sum, held| sum ^ held.value)
}

/// The same without sorting: back from the event until every register was met.
fn read_back(r: &Recording, offsets: usize, event: u64) -> u64 {
    let mut met = BTreeMap::new();
    for e in (0..=event as usize).rev() {
        if let Some(a) = r.events.access(e) {
            met.entry(a.offset).or_insert(a.value);
            if met.len() == offsets {
                break;
            }
        }
    }
    met.values().fold(0, |sum, v| sum ^ v)
}

/// Every mapping of every address space.
fn mappings(r: &Recording, event: u64) -> usize {
    let memory = r.memory.at(event);
    let spaces = r.metadata.address_spaces.iter();
    spaces
        .map(|s| mmu::mappings(s.format, s.root, &memory).map_or(0, |m| m.len()))
        .sum()
}

fn whole(path: &Path) {
    let r = trace_import::open(path, &OpenOptions::default(), &Progress::new())
        .and_then(Opened::into_recording)
        .unwrap();
    let device = RecordedRegisters::new(&r);
    let of = history::by_register(
        &r,
        device.map(RecordedRegisters::map),
        device.map_or(0, RecordedRegisters::space),
        &Progress::new(),
    )
    .unwrap();
    let last = r.events.len();
    println!("{}: {last} events, {} registers", path.display(), of.len());
    println!("  {} mappings at its end", mappings(&r, last as u64));
    seeks("every register", last, SEEKS, |e| {
        black_box(registers(&r, device, &of, e));
    });
    seeks("every mapping", last, SEEKS, |e| {
        black_box(mappings(&r, e));
    });
    seeks("both", last, SEEKS, |e| {
        black_box(registers(&r, device, &of, e) + mappings(&r, e) as u64);
    });
}

fn main() {
    // A test run of all targets only looks whether it works.
    let events = if std::env::args().any(|a| a == "--bench") {
        EVENTS
    } else {
        10_000
    };
    let r = made_up(events);
    let device = RecordedRegisters::new(&r);
    let start = Instant::now();
    let of = history::by_register(
        &r,
        device.map(RecordedRegisters::map),
        device.map_or(0, RecordedRegisters::space),
        &Progress::new(),
    )
    .unwrap();
    let took = start.elapsed();
    let bytes: usize = of.values().map(Accesses::bytes).sum();
    println!(
        "{events} events, {} registers: sorted in {:.0} ms, {:.2} bytes an access",
        of.len(),
        took.as_secs_f64() * 1e3,
        bytes as f64 / events as f64
    );
    seeks("every register", events, SEEKS, |e| {
        black_box(registers(&r, device, &of, e));
    });
    seeks("every register, by reading back (the yardstick)", events, FEW, |e| {
        black_box(read_back(&r, of.len(), e));
    });
    drop((r, of));
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces/matmul.kine");
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map(PathBuf::from);
    let alexnet = root.map(|r| r.join("gpureplay/alexnet")).filter(|p| p.is_dir());
    whole(&alexnet.unwrap_or(here));
}
