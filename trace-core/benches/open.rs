//! How long the first useful answer of a `.kine` file takes, and how little its size matters; how fast one is written
//! and verified, against a copy of the same bytes in memory.
//!
//! Prints the ratios first, then divan's table. Files are made in the folder for temporary files and are in the page
//! cache when they are opened.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark talks, and has nobody to hand an error to"
)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use trace_core::container::{self, MemorySink, Writer};
use trace_core::progress::Progress;
use trace_core::recording::{Access, Metadata, SectionKind as K, Space, SpaceKind};

const LARGE: u64 = 10_000_000;
const SMALL: u64 = 100_000;
/// Rows pushed at once, as an importer would.
const CHUNK: u64 = 1 << 20;

struct Rows {
    kinds: Vec<u8>,
    times: Vec<u64>,
    payloads: Vec<u32>,
    offsets: Vec<u32>,
    values: Vec<u64>,
}

impl Rows {
    fn of(first: u64, count: u64) -> Self {
        let rows = first..first + count;
        Self {
            kinds: rows.clone().map(|i| 1 + (i % 3 == 0) as u8).collect(),
            times: rows.clone().map(|i| i * 130).collect(),
            payloads: rows.clone().map(|i| i as u32).collect(),
            offsets: rows
                .clone()
                .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 7) as u32 & 0x3ffc)
                .collect(),
            values: rows.map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).collect(),
        }
    }

    fn push<S: container::Sink>(&self, w: &mut Writer<S>) {
        let n = self.kinds.len() as u64;
        w.push(K::EventKind, &self.kinds).unwrap();
        w.push_constant(K::EventSpace, 0u8, n).unwrap();
        w.push(K::EventTime, &self.times).unwrap();
        w.push_constant(K::EventThread, 1u32, n).unwrap();
        w.push(K::EventPayload, &self.payloads).unwrap();
        w.push(K::AccessOffset, &self.offsets).unwrap();
        w.push_constant(K::AccessWidth, 4u8, n).unwrap();
        w.push(K::AccessValue, &self.values).unwrap();
    }
}

fn metadata() -> Metadata {
    Metadata {
        spaces: vec![Space {
            name: "gpu".to_owned(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        }],
        ..Metadata::default()
    }
}

fn make(path: &Path, events: u64) {
    let mut w = Writer::create(path).unwrap();
    w.metadata(&metadata()).unwrap();
    let mut at = 0;
    while at < events {
        let count = CHUNK.min(events - at);
        Rows::of(at, count).push(&mut w);
        at += count;
    }
    w.commit().unwrap();
}

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

fn file(events: u64) -> PathBuf {
    let path = folder().join(format!("{events}.kine"));
    if !path.exists() {
        make(&path, events);
    }
    path
}

/// What a user sees first: how many events there are, and the first one.
fn first_answer(path: &Path) -> (usize, Option<Access>) {
    let r = container::open(path).unwrap();
    (r.events.len(), r.events.access(0))
}

fn median(mut work: impl FnMut(), times: usize) -> Duration {
    let mut all: Vec<Duration> = (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    all.sort();
    all[times / 2]
}

/// What digests cost where a file is used: each column read for the first time, which compares its blocks, and again.
fn first_use(path: &Path) {
    let sum = |r: &trace_core::Recording| {
        let e = &r.events;
        let narrow = e.kind.iter().fold(0u64, |s, v| s.wrapping_add(u64::from(v)));
        e.value.iter().chain(e.time.iter()).fold(narrow, u64::wrapping_add)
    };
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let r = container::open(path).unwrap();
        for times in [&mut first, &mut again] {
            let start = Instant::now();
            black_box(sum(&r));
            times.push(start.elapsed());
        }
        assert_eq!(r.damage.count(), 0);
    }
    first.sort();
    again.sort();
    println!(
        "kinds, times and values of {LARGE} events summed up: {:?} the first time, digests included, {:?} again",
        first[2], again[2]
    );
    let whole = median(
        || {
            assert!(
                container::open(path)
                    .unwrap()
                    .find_damage(&Progress::new())
                    .unwrap()
                    .is_none()
            )
        },
        3,
    );
    println!("all of that recording compared with its digests: {whole:?}");
}

/// Why a block has as many bytes as it has: how fast blocks of a size are hashed, how long the first use of one row
/// waits for its block, and what the digests take in the file.
fn block_sizes() {
    let data: Vec<u8> = (0..64usize << 20)
        .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 11) as u8)
        .collect();
    for shift in [12, 14, 15, 16, 17, 18, 20, 22] {
        let size = 1usize << shift;
        let all = median(
            || {
                for block in data.chunks(size) {
                    black_box(blake3::hash(block));
                }
            },
            5,
        );
        let each = all.as_secs_f64() * size as f64 / data.len() as f64;
        println!(
            "blocks of {:>5} KiB: {:.2} GB/s, {:>7.1} us each, digests {:.3} % of the file",
            size >> 10,
            data.len() as f64 / all.as_secs_f64() / 1e9,
            each * 1e6,
            4000.0 / size as f64
        );
    }
}

/// The first answer with nothing of the file in the page cache: dd makes the system drop it.
fn cold(path: &Path) {
    let mut all = Vec::new();
    for _ in 0..11 {
        let from = format!("if={}", path.display());
        let dropped = std::process::Command::new("dd")
            .args([from.as_str(), "iflag=nocache", "count=0"])
            .output();
        if !dropped.is_ok_and(|o| o.status.success()) {
            println!("skipped: this system's dd cannot drop a file from the page cache");
            return;
        }
        let start = Instant::now();
        black_box(first_answer(path));
        all.push(start.elapsed());
    }
    all.sort();
    println!(
        "open to first answer from the disk: {:?}, at worst {:?}",
        all[5], all[10]
    );
}

fn ratios() {
    let (large, small) = (file(LARGE), file(SMALL));
    let (len, first) = first_answer(&large);
    assert!(len as u64 == LARGE && first.is_some());
    let of = |path: &Path| {
        median(
            || {
                black_box(first_answer(path));
            },
            101,
        )
    };
    let (a, b) = (of(&large), of(&small));
    let size = |p: &Path| std::fs::metadata(p).unwrap().len() >> 20;
    println!(
        "open to first answer: {a:?} for {LARGE} events ({} MiB), {b:?} for {SMALL} ({} MiB): {:.2} times as long",
        size(&large),
        size(&small),
        a.as_secs_f64() / b.as_secs_f64()
    );
    cold(&large);
    first_use(&large);
    block_sizes();
    let rows = Rows::of(0, CHUNK);
    let bytes = CHUNK * 25;
    // Both fill the same buffer again and again, so that neither pays for fresh memory.
    let mut buffer = vec![0u8; bytes as usize + (1 << 17)];
    let copy = median(
        || {
            let mut at = 0;
            let columns: [&[u8]; 5] = [
                &rows.kinds,
                bytemuck::cast_slice(&rows.times),
                bytemuck::cast_slice(&rows.payloads),
                bytemuck::cast_slice(&rows.offsets),
                bytemuck::cast_slice(&rows.values),
            ];
            for column in columns {
                buffer[at..at + column.len()].copy_from_slice(column);
                at += column.len();
            }
            black_box(&buffer);
        },
        21,
    );
    let push = median(
        || {
            let mut w = Writer::begin(MemorySink {
                bytes: std::mem::take(&mut buffer),
            })
            .unwrap();
            rows.push(&mut w);
            w.commit().unwrap();
            buffer = w.into_sink().bytes;
        },
        21,
    );
    let rate = |d: Duration| bytes as f64 / d.as_secs_f64() / 1e9;
    println!(
        "push of {CHUNK} events, digests included: {:.2} GB/s; a copy in memory {:.2} GB/s: {:.2} times as long",
        rate(push),
        rate(copy),
        push.as_secs_f64() / copy.as_secs_f64()
    );
    let whole = std::fs::metadata(&large).unwrap().len() as f64;
    let verify = median(|| assert!(container::verify(&large).unwrap().is_sound()), 3);
    let read = median(|| drop(black_box(std::fs::read(&large).unwrap())), 3);
    println!(
        "verify: {:.2} GB/s; reading the file into memory {:.2} GB/s: {:.2} times as long",
        whole / verify.as_secs_f64() / 1e9,
        whole / read.as_secs_f64() / 1e9,
        verify.as_secs_f64() / read.as_secs_f64()
    );
}

#[divan::bench(args = [SMALL, LARGE])]
fn open_to_first_answer(bencher: divan::Bencher<'_, '_>, events: u64) {
    let path = file(events);
    bencher.bench(|| first_answer(&path));
}

#[divan::bench(sample_count = 5)]
fn write_and_commit_ten_million(bencher: divan::Bencher<'_, '_>) {
    let r = container::open(&file(LARGE)).unwrap();
    let path = folder().join("written.kine");
    bencher.bench(|| container::write(&r, &path, &Progress::new()).unwrap());
}

fn main() {
    // `cargo bench` says so; a test run of all targets only looks whether it works.
    if std::env::args().any(|a| a == "--bench") {
        ratios();
    }
    divan::main();
    // A static is never dropped, and the files are large.
    std::fs::remove_dir_all(folder()).unwrap();
}
