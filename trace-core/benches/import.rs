//! How fast a text history becomes a committed `.kine`, beside `wc -l` and a memory copy of the same bytes.
//!
//! The history is made up: ten million lines of a driver that boots once and then submits jobs, in the spelling and
//! with the mix of the published ones. Every round runs all three, so that the ratios are of one run. The figures
//! include everything up to the synced commit: reading, parsing, derived facts, writing, `fsync`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark talks, and has nobody to hand an error to"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use trace_core::import;
use trace_core::progress::Progress;

const LINES: usize = 10_000_000;
const ROUNDS: usize = 5;

/// The history's text.
fn history(lines: usize) -> String {
    let mut text = String::with_capacity(lines * 27);
    let mut n = 0u64;
    let mut line = |text: &mut String, way: char, offset: u32, value: u64| {
        n += 1;
        let delta = [0, 520, 521, 1041, 1042, 1562, 2083, 5209][(n * 7 % 8) as usize];
        writeln!(text, "{delta},{way},0x{offset:08x},{value:08x}").unwrap();
        n as usize
    };
    line(&mut text, 'R', 0, 0x60a0_0002);
    let mut job = 0u64;
    loop {
        job += 1;
        line(&mut text, 'R', 0x38, job & 0xff_ffff);
        for offset in [
            0x220, 0x224, 0x160, 0x164, 0x210, 0x214, 0x150, 0x154, 0x200, 0x204, 0x140, 0x144, 0x160, 0x164,
        ] {
            line(&mut text, 'R', offset, u64::from(offset & 4 == 0 && offset < 0x200));
        }
        if job.is_multiple_of(4) {
            line(&mut text, 'W', 0x2418, 5);
            for poll in 0..20 {
                line(&mut text, 'R', 0x2428, u64::from(poll < 18));
            }
        }
        for (offset, value) in [
            (0x18c0, 0xb8f5_b040 + (job & 0xfff) * 64),
            (0x18c4, 0xffff),
            (0x18d0, 0xff),
            (0x18d4, 0),
            (0x18d8, 0x8_7b00),
            (0x18f0, job & 0xff_ffff),
            (0x18e0, 1),
        ] {
            line(&mut text, 'W', offset, value);
        }
        line(&mut text, 'R', 0x100c, 2);
        line(&mut text, 'W', 0x1004, 2);
        line(&mut text, 'R', 0x1010, 0);
        if line(&mut text, 'R', 0x1000, 0) >= lines {
            return text;
        }
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Runs the three once, and gives their times.
fn round(folder: &Path, text: &str, copy: &mut [u8]) -> [Duration; 3] {
    let source = folder.join("gr_io_history");
    let dest = folder.join("out.kine");
    let imported = time(|| {
        let r = import::import_file_to_kine(folder, &dest, &Progress::new()).expect("the history is sound");
        black_box(r.events.len());
    });
    std::fs::remove_file(&dest).unwrap();
    let counted = time(|| {
        let out = Command::new("wc").arg("-l").arg(&source).output().expect("wc runs");
        black_box(out.stdout);
    });
    let copied = time(|| {
        copy.copy_from_slice(text.as_bytes());
        black_box(&*copy);
    });
    [imported, counted, copied]
}

fn main() {
    // `cargo test --benches` asks only whether it runs.
    let lines = if std::env::args().any(|a| a == "--bench") {
        LINES
    } else {
        10_000
    };
    let rounds = if lines == LINES { ROUNDS } else { 1 };
    let text = history(lines);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(folder.path().join("gr_io_history"), &text).unwrap();
    let mut copy = vec![1u8; text.len()];
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "{} lines, {megabytes:.0} MB, {} threads",
        text.lines().count(),
        rayon::current_num_threads()
    );
    let mut all: Vec<[Duration; 3]> = (0..rounds).map(|_| round(folder.path(), &text, &mut copy)).collect();
    all.sort();
    let median = all[all.len() / 2][0].as_secs_f64();
    let best = all[0][0].as_secs_f64();
    let other = |i: usize| all.iter().map(|t| t[i].as_secs_f64()).fold(f64::INFINITY, f64::min);
    println!(
        "import to committed .kine   median {:6.0} MB/s, best {:6.0} MB/s",
        megabytes / median,
        megabytes / best
    );
    println!("wc -l                       best   {:6.0} MB/s", megabytes / other(1));
    println!("memory copy                 best   {:6.0} MB/s", megabytes / other(2));
    println!(
        "ratios of the median        {:.2} x the time of wc -l, {:.2} x that of the copy",
        median / other(1),
        median / other(2)
    );
}
