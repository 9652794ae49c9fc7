//! How fast text becomes a committed `.kine`, next to `wc -l` and a memory copy of the same bytes: a history of
//! GPUReplay, and an mmiotrace log.
//!
//! The history is made up: ten million lines of a driver that boots once and then submits jobs, in the spelling and
//! with the mix of the published ones. Every round runs all three, so that the ratios are of one run. The figures
//! include everything up to the synced commit: reading, parsing, derived data, writing, `fsync`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark talks, and has nobody to hand an error to"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trace_core::container::KineFile;
use trace_core::progress::Progress;
use trace_core::recording::SectionKind;
use trace_core::{Recording, timeline};
use trace_import::{OpenOptions, Opened};

const LINES: usize = 10_000_000;
/// Lines of the mmiotrace log: 200 MB of them.
const LOG_LINES: usize = 5_000_000;
/// Bytes of the logs of other formats: excerpts of real ones, repeated.
const LOG_BYTES: usize = 200_000_000;
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

/// An mmiotrace log in the mix of a frame-buffer console: long runs of stores of 4 and of 8 bytes to display memory,
/// between them registers read and written.
fn mmiotrace(lines: usize) -> String {
    let mut text = String::with_capacity(lines * 38);
    text.push_str("VERSION 20070824\n");
    text.push_str("PCIDEV 0018 10025159 b fd000008 c001 febf0000 0 0 0 c0002 1000000 100 4000 0 0 0 20000 radeonfb\n");
    text.push_str("MAP 4.863207 1 0xfebf0000 0xffffcc9ec05b0000 0x4000 0x0 0\n");
    let mut now = 4_863_300u64;
    for n in 0..lines as u64 {
        now += 15 + n % 37;
        let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
        let (way, width, address, value) = match n % 64 {
            0 => ('R', 4, 0xfebf_0140 + (n / 64 % 64) * 4, n & 0xffff),
            1 => ('W', 4, 0xfebf_0200 + (n / 64 % 512) * 4, n & 0xffff_ffff),
            2 => ('R', 1, 0xfebf_0008, 3),
            k if k < 60 => (
                'W',
                4,
                0xfd00_0000 + ((n * 4) & 0xff_fffc),
                if k % 5 == 0 { 0xaa_aaaa } else { 0 },
            ),
            _ => ('W', 8, 0xfd00_0000 + ((n * 8) & 0xff_fff8), 0xaa_aaaa_00aa_aaaa),
        };
        let id = if address >= 0xfebf_0000 { 1 } else { 2 };
        writeln!(
            text,
            "{way} {width} {seconds}.{micros:06} {id} {address:#x} {value:#x} 0x0 0"
        )
        .unwrap();
    }
    text
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn open(path: &Path) -> Recording {
    let opened = trace_import::open(path, &OpenOptions::default(), &Progress::new());
    opened.and_then(Opened::into_recording).expect("the text is sound")
}

/// Runs the three once, and gives their times. The fourth is that of reading the source into memory alone.
fn round(source: &Path, file: &Path, text: &[u8], copy: &mut [u8]) -> [Duration; 4] {
    let dest = file.with_file_name("out.kine");
    let imported = time(|| {
        let r = open(source);
        timeline::write(&r, &dest, &Progress::new()).expect("the folder takes a file");
        black_box(r.events.len());
    });
    std::fs::remove_file(&dest).unwrap();
    let counted = time(|| {
        let out = Command::new("wc").arg("-l").arg(file).output().expect("wc runs");
        black_box(out.stdout);
    });
    let copied = time(|| {
        copy.copy_from_slice(text);
        black_box(&*copy);
    });
    let opened = time(|| {
        let r = open(source);
        black_box(r.events.len());
    });
    [imported, counted, copied, opened]
}

/// Measures one text: `source` is what is imported, `file` where its text lies.
fn measure(name: &str, source: &Path, file: &Path, text: &[u8], rounds: usize) {
    std::fs::write(file, text).unwrap();
    let mut copy = vec![1u8; text.len()];
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "{name}: {} lines, {megabytes:.0} MB, {} threads",
        text.iter().filter(|b| **b == b'\n').count(),
        rayon::current_num_threads()
    );
    let mut all: Vec<[Duration; 4]> = (0..rounds).map(|_| round(source, file, text, &mut copy)).collect();
    all.sort();
    let median = all[all.len() / 2][0].as_secs_f64();
    let best = all[0][0].as_secs_f64();
    let mut opened: Vec<f64> = all.iter().map(|t| t[3].as_secs_f64()).collect();
    opened.sort_by(f64::total_cmp);
    let other = |i: usize| all.iter().map(|t| t[i].as_secs_f64()).fold(f64::INFINITY, f64::min);
    println!(
        "import to committed .kine   median {:6.0} MB/s, best {:6.0} MB/s",
        megabytes / median,
        megabytes / best
    );
    println!(
        "import into memory          median {:6.0} MB/s, best {:6.0} MB/s",
        megabytes / opened[opened.len() / 2],
        megabytes / opened[0]
    );
    println!("wc -l                       best   {:6.0} MB/s", megabytes / other(1));
    println!("memory copy                 best   {:6.0} MB/s", megabytes / other(2));
    print_size(source, file, text);
    println!(
        "ratios of the median        {:.2} x the time of wc -l, {:.2} x that of the copy",
        median / other(1),
        median / other(2)
    );
}

/// Prints the size of the file, next to that of the text packed by `zstd -3`.
fn print_size(source: &Path, file: &Path, text: &[u8]) {
    let dest = file.with_file_name("out.kine");
    timeline::write(&open(source), &dest, &Progress::new()).unwrap();
    let sections = KineFile::open(&dest).unwrap().sections();
    let derived = sections.iter().filter(|s| s.kind == Some(SectionKind::Derived));
    let derived: u64 = derived.map(|s| s.stored_bytes).sum();
    let bytes = std::fs::metadata(&dest).unwrap().len();
    let packed = zstd::bulk::compress(text, 3).unwrap().len();
    std::fs::remove_file(&dest).unwrap();
    println!(
        "size of the file            {:.2} MB, {:.2} MB of it derived; {:.2} x the text packed by zstd -3, {:.2} MB",
        bytes as f64 / 1e6,
        derived as f64 / 1e6,
        bytes as f64 / packed as f64,
        packed as f64 / 1e6
    );
    let mut by_size: Vec<_> = sections.iter().filter(|s| s.stored_bytes * 20 > bytes).collect();
    by_size.sort_by_key(|s| std::cmp::Reverse(s.stored_bytes));
    for s in by_size {
        let name = s.kind.map_or("unknown", SectionKind::name);
        println!(
            "    {name:24}  {:.2} of {:.2} MB",
            s.stored_bytes as f64 / 1e6,
            s.bytes as f64 / 1e6
        );
    }
}

/// An excerpt of a real log, its lines again and again until there are so many bytes.
fn repeated(name: &str, bytes: usize) -> String {
    let excerpt = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mmio").join(name);
    let lines = std::fs::read_to_string(excerpt).unwrap();
    lines.repeat(bytes / lines.len() + 1)
}

/// The text packed by a program. `None` where the program is missing.
fn packed(packer: &[&str], text: &str) -> Option<Vec<u8>> {
    let mut child = Command::new(packer[0])
        .args(&packer[1..])
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut to = child.stdin.take()?;
    let out = std::thread::scope(|scope| {
        scope.spawn(move || to.write_all(text.as_bytes()));
        child.wait_with_output()
    });
    out.ok().map(|out| out.stdout)
}

/// Measures the import of a packed text against its unpacker alone.
fn measure_packed(packer: &[&str], log: &Path, text: &str, rounds: usize) {
    let Some(bytes) = packed(packer, text) else {
        println!(
            "mmiotrace, packed by {}: skipped, the program is missing",
            packer.join(" ")
        );
        return;
    };
    std::fs::write(log, &bytes).unwrap();
    let unpack = || {
        let mut from = trace_import::open_unpacked(log).unwrap();
        std::io::copy(&mut from, &mut std::io::sink()).unwrap();
    };
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (mut alone, mut imported) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(time(unpack).as_secs_f64());
        imported.push(time(|| drop(open(log))).as_secs_f64());
    }
    let (alone, imported) = (median(alone), median(imported));
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "mmiotrace, packed by {} to {:.0} MB: import into memory, median {:.0} MB/s of its text, {:.2} of the unpacker \
         alone ({:.0} MB/s)",
        packer.join(" "),
        bytes.len() as f64 / 1e6,
        megabytes / imported,
        alone / imported,
        megabytes / alone
    );
}

fn main() {
    // `cargo test --benches` only checks that it runs.
    let whole = std::env::args().any(|a| a == "--bench");
    let (lines, log_lines, bytes, rounds) = if whole {
        (LINES, LOG_LINES, LOG_BYTES, ROUNDS)
    } else {
        (10_000, 10_000, 100_000, 1)
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let log = folder.path().join("log.txt");
    let text = mmiotrace(log_lines);
    measure("mmiotrace", &log, &log, text.as_bytes(), rounds);
    for packer in [
        &["gzip", "-1"][..],
        &["zstd", "-3"],
        &["xz", "-1", "-T1"],
        &["bzip2", "-1"],
    ] {
        measure_packed(packer, &log, &text, rounds);
    }
    for name in ["radeonfb-arm64.txt", "igb.txt", "qemu-rv100.txt"] {
        measure(name, &log, &log, repeated(name, bytes).as_bytes(), rounds);
    }
    std::fs::remove_file(&log).unwrap();
    let history_file = folder.path().join("gr_io_history");
    measure(
        "history",
        folder.path(),
        &history_file,
        history(lines).as_bytes(),
        rounds,
    );
}
