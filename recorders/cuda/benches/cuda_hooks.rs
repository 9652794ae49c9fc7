//! Benchmark of CUDA driver calls with the recorder's library: the extra time of calls that are not recorded, and of
//! recorded calls.
//!
//! The benchmark loads the real library into a process of this program, with a driver that does nothing (`driver.c`).
//! It looks up functions like programs do. Each case is a separate process, the first one without the library.
#![allow(
    unsafe_code,
    reason = "calls functions of a C library, like a CUDA program; each has a comment on its soundness"
)]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run ends with a message")]

use divan::Bencher;
use std::ffi::{CStr, c_void};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

/// Environment variable that names the case of a process.
const CASE: &str = "KINESCOPE_BENCH_CASE";
/// Environment variable that names the file for the figures of a process.
const FIGURES: &str = "KINESCOPE_BENCH_FIGURES";

/// A case: its name, whether the library is loaded, and the environment. `{}` is a file that does not exist.
struct Case {
    name: &'static str,
    library: bool,
    environment: &'static [(&'static str, &'static str)],
}

const CASES: [Case; 6] = [
    Case {
        name: "without the library",
        library: false,
        environment: &[],
    },
    Case {
        name: "no recording requested",
        library: true,
        environment: &[],
    },
    Case {
        name: "before the first mark",
        library: true,
        environment: &[("KINESCOPE_RECORD_TO", "{}"), ("KINESCOPE_CUDA_RANGE", "marks")],
    },
    Case {
        name: "after the range",
        library: true,
        environment: &[("KINESCOPE_RECORD_TO", "{}"), ("KINESCOPE_CUDA_RANGE", "first:1")],
    },
    Case {
        name: "other kernels selected",
        library: true,
        environment: &[("KINESCOPE_RECORD_TO", "{}"), ("KINESCOPE_CUDA_KERNELS", "other")],
    },
    Case {
        name: "recorded",
        library: true,
        environment: &[("KINESCOPE_RECORD_TO", "{}")],
    },
];

type Plain = unsafe extern "C" fn(*mut c_void) -> u32;
type Two = unsafe extern "C" fn(*mut c_void, *mut c_void) -> u32;
type Copy = unsafe extern "C" fn(u64, *const c_void, usize, *mut c_void) -> u32;
type Launch = unsafe extern "C" fn(
    *mut c_void,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> u32;

/// The measured functions, as the loader returns them.
struct Functions {
    stream_query: Plain,
    event_record: Two,
    launch: Launch,
    copy: Copy,
    at: u64,
}

fn functions() -> &'static Functions {
    static ALL: OnceLock<Functions> = OnceLock::new();
    ALL.get_or_init(|| {
        // SAFETY: the name ends in a zero, and the driver of the benchmark is never unloaded.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "the benchmark's driver is missing");
        let find = |name: &CStr| {
            // SAFETY: the handle is from the loader, and the name ends in a zero.
            let at = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!at.is_null(), "{name:?}");
            at
        };
        // SAFETY: functions of these names have these signatures.
        let (alloc, all) = unsafe {
            (
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut u64, usize) -> u32>(find(
                    c"cuMemAlloc_v2",
                )),
                Functions {
                    stream_query: std::mem::transmute::<*mut c_void, Plain>(find(c"cuStreamQuery")),
                    event_record: std::mem::transmute::<*mut c_void, Two>(find(c"cuEventRecord")),
                    launch: std::mem::transmute::<*mut c_void, Launch>(find(c"cuLaunchKernel")),
                    copy: std::mem::transmute::<*mut c_void, Copy>(find(c"cuMemcpyHtoDAsync_v2")),
                    at: 0,
                },
            )
        };
        let mut at = 0;
        // SAFETY: the pointer is valid for the answer.
        assert_eq!(unsafe { alloc(&raw mut at, 4096) }, 0);
        Functions { at, ..all }
    })
}

fn stream_query(f: &Functions) -> u32 {
    // SAFETY: the handle is the default stream.
    unsafe { (f.stream_query)(std::ptr::null_mut()) }
}

fn event_record(f: &Functions) -> u32 {
    // SAFETY: the driver of the benchmark reads neither argument.
    unsafe { (f.event_record)(0x1000 as *mut c_void, std::ptr::null_mut()) }
}

fn launch(f: &Functions) -> u32 {
    let (mut a, mut b, mut n) = (f.at, f.at + 1024, 256u32);
    let mut parameters: [*mut c_void; 3] = [(&raw mut a).cast(), (&raw mut b).cast(), (&raw mut n).cast()];
    let (none, p) = (std::ptr::null_mut(), parameters.as_mut_ptr());
    // SAFETY: there are as many parameters as the driver of the benchmark reports for its function.
    unsafe {
        (f.launch)(
            0x2000 as *mut c_void,
            4,
            1,
            1,
            64,
            1,
            1,
            0,
            none,
            p,
            std::ptr::null_mut(),
        )
    }
}

fn copy(f: &Functions) -> u32 {
    let bytes = [7u8; 64];
    // SAFETY: the source has as many bytes as the length says.
    unsafe { (f.copy)(f.at, bytes.as_ptr().cast(), bytes.len(), std::ptr::null_mut()) }
}

/// A measured call: name, call, and maximum extra time when it is recorded, in nanoseconds.
type Measured = (&'static str, fn(&Functions) -> u32, Option<f64>);

const MEASURED: [Measured; 4] = [
    ("cuStreamQuery", stream_query, Some(2000.0)),
    ("cuEventRecord", event_record, Some(2000.0)),
    ("cuLaunchKernel, 20 bytes of arguments", launch, Some(2000.0)),
    ("cuMemcpyHtoDAsync, 64 bytes", copy, None),
];
/// Maximum extra time of a call that is not recorded, in nanoseconds.
const MAX_OUTSIDE: f64 = 100.0;

#[divan::bench]
fn query_a_stream(bencher: Bencher<'_, '_>) {
    let f = functions();
    bencher.bench_local(|| stream_query(f));
}

#[divan::bench]
fn record_an_event(bencher: Bencher<'_, '_>) {
    let f = functions();
    bencher.bench_local(|| event_record(f));
}

#[divan::bench]
fn launch_a_function(bencher: Bencher<'_, '_>) {
    let f = functions();
    bencher.bench_local(|| launch(f));
}

#[divan::bench]
fn copy_64_bytes(bencher: Bencher<'_, '_>) {
    let f = functions();
    bencher.bench_local(|| copy(f));
}

fn main() {
    match std::env::var_os(FIGURES) {
        Some(figures) => one(Path::new(&figures)),
        None => all(),
    }
}

/// Measures one case, in its own process.
fn one(figures: &Path) {
    let f = functions();
    // With `first:1`, this launch is the last recorded launch.
    assert_eq!(launch(f), 0);
    divan::main();
    let mut text = String::new();
    for (_, call, _) in MEASURED {
        // The figure is the median of many short runs, because other load on the machine affects only a few of them.
        let mut runs: Vec<f64> = (0..101)
            .map(|_| {
                let begun = Instant::now();
                (0..200).for_each(|_| assert_eq!(call(f), 0));
                begun.elapsed().as_nanos() as f64 / 200.0
            })
            .collect();
        runs.sort_by(f64::total_cmp);
        text.push_str(&format!("{}\n", runs[50]));
    }
    std::fs::write(figures, text).expect("the figures");
}

/// Runs every case and prints the combined figures.
fn all() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/driver.c");
    let built = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .arg(folder.path().join("libcuda.so.1"))
        .arg(source)
        .status();
    assert!(
        built.expect("cc").success(),
        "the benchmark's driver could not be built"
    );
    let program = std::env::current_exe().expect("this program");
    // Cargo builds libraries into a parent folder of the benchmarks' folder.
    let library = program
        .ancestors()
        .nth(2)
        .expect("a folder")
        .join("libkinescope_cuda.so");
    assert!(
        library.exists(),
        "{} is missing: run cargo build --release -p kinescope-cuda",
        library.display()
    );
    let mut out = std::io::stdout();
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for (n, case) in CASES.iter().enumerate() {
        writeln!(out, "== {}", case.name).expect("output");
        let figures = folder.path().join(format!("figures-{n}"));
        let mut child = Command::new(&program);
        child
            .args(std::env::args_os().skip(1))
            .env(CASE, case.name)
            .env(FIGURES, &figures)
            .env("LD_LIBRARY_PATH", folder.path());
        if case.library {
            child.env("LD_PRELOAD", &library);
        }
        for (name, value) in case.environment {
            let file = folder.path().join(format!("{n}.kine"));
            let value = if *value == "{}" { file } else { PathBuf::from(value) };
            child.env(name, value);
        }
        assert!(child.status().expect("a process").success(), "{}", case.name);
        let text = std::fs::read_to_string(&figures).expect("figures");
        rows.push(text.lines().map(|l| l.parse().expect("a number")).collect());
    }
    let (plain, with) = rows.split_first().expect("cases");
    let mut late = false;
    for (n, (name, _, max)) in MEASURED.iter().enumerate() {
        writeln!(
            out,
            "{name}: {:.1} ns without the library; extra time with it:",
            plain[n]
        )
        .expect("output");
        for (case, row) in CASES.iter().skip(1).zip(with) {
            let more = row[n] - plain[n];
            let max = match case.name {
                "recorded" => *max,
                _ => Some(MAX_OUTSIDE),
            };
            let aim = match max {
                Some(max) if more > max => {
                    late = true;
                    format!(", more than {max:.0} ns")
                }
                Some(max) => format!(", limit {max:.0} ns"),
                None => String::new(),
            };
            writeln!(out, "  {}: {more:.1} ns{aim}", case.name).expect("output");
        }
    }
    assert!(!late, "a call exceeds its limit");
}
