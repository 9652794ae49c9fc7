//! Runs the official WebAssembly test-suite, or a table of operations on floats, on a GPU or in the interpreter.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use wasm_gpu::{CodeCache, CudaDevice, Device, InterpreterDevice};
use wasm_ptx::{BufferOffset, CellSize, Program, Run};
use wasm_tests::{
    CopyTarget, Counts, DeviceCounts, EXCEPTIONS, FileReport, FloatCounts, FloatTable, InterpretedCopy, MachineError,
    SUITE_FILES, Settings, SharedDevice, SuiteFile, cell_of_bytes, compare_tables, run_file_on,
};

const USAGE: &str =
    "usage: wasm_suite [--on cuda:N|interpreter] [--cell 4|8|16] [--only TEXT] [--skip TEXT] [--threads N]
                  [--depth N] [--cache FOLDER] [--compile-only] [--part I/N] [--table] [--seed N]

  --on TARGET       a GPU through NVIDIA's driver, or the interpreter (default: cuda:0)
  --cell BYTES      bytes of a copy that stand together in memory (default: 4)
  --only TEXT       run only the files whose path contains TEXT, such as wasm-v1/f32
  --skip TEXT       leave out the files whose path contains TEXT
  --threads N       threads that compile, or that interpret (default: all cores)
  --depth N         maximum number of nested calls (default: 300)
  --cache FOLDER    keep compiled programs there (default: a temporary folder)
  --compile-only    compile the programs into the cache, and run none
  --part I/N        with --compile-only: only the I-th of N parts of the programs, to share them among processes
  --table           compare a table of operations on floats with the interpreter, in place of the suite
  --seed N          seed of the table (default: 1)";

/// Seed of the table.
const DEFAULT_SEED: u64 = 1;
/// Maximum number of nested calls: enough for the suite, and a small stack for all threads of a GPU.
const DEFAULT_DEPTH: u32 = 300;
/// Failures that are printed for each file.
const SHOWN_FAILURES: usize = 5;

/// Where programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Cuda(u32),
    Interpreter,
}

#[derive(Debug)]
struct Arguments {
    target: Target,
    cell: CellSize,
    only: String,
    skip: Option<String>,
    threads: usize,
    depth: u32,
    cache: Option<PathBuf>,
    compile_only: bool,
    /// Number of the part, from 0, and number of parts.
    part: (u64, u64),
    table: bool,
    seed: u64,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            target: Target::Cuda(0),
            cell: CellSize::Four,
            only: String::new(),
            skip: None,
            threads: thread::available_parallelism().map_or(1, usize::from),
            depth: DEFAULT_DEPTH,
            cache: None,
            compile_only: false,
            part: (0, 1),
            table: false,
            seed: DEFAULT_SEED,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--on" => arguments.target = parse_target(&value()?)?,
                "--cell" => {
                    let cell = value()?.parse().ok().and_then(cell_of_bytes);
                    arguments.cell = cell.ok_or("--cell is 4, 8 or 16")?;
                }
                "--only" => arguments.only = value()?,
                "--skip" => arguments.skip = Some(value()?),
                "--threads" => arguments.threads = parse_number(&word, &value()?)?.clamp(1, 256) as usize,
                "--depth" => {
                    let depth = parse_number(&word, &value()?)?;
                    arguments.depth = u32::try_from(depth).map_err(|_| "--depth is too large")?;
                }
                "--cache" => arguments.cache = Some(value()?.into()),
                "--compile-only" => arguments.compile_only = true,
                "--part" => arguments.part = parse_part(&value()?)?,
                "--table" => arguments.table = true,
                "--seed" => arguments.seed = parse_number(&word, &value()?)?,
                _ => return Err(format!("{word} is no option")),
            }
        }
        Ok(arguments)
    }

    fn files(&self) -> Vec<&'static SuiteFile> {
        let is_skipped = |path: &str| self.skip.as_ref().is_some_and(|text| path.contains(text));
        let is_chosen = |file: &&SuiteFile| {
            let path = file.path();
            path.contains(&self.only) && !is_skipped(&path)
        };
        SUITE_FILES.iter().filter(is_chosen).collect()
    }

    fn settings(&self) -> Settings {
        Settings {
            depth: self.depth,
            ..Settings::default()
        }
    }
}

fn parse_number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name} needs a number, not {text}"))
}

fn parse_target(text: &str) -> Result<Target, String> {
    if text == "interpreter" {
        return Ok(Target::Interpreter);
    }
    let number = text.strip_prefix("cuda:").and_then(|n| n.parse().ok());
    number
        .map(Target::Cuda)
        .ok_or_else(|| format!("--on is cuda:N or interpreter, not {text}"))
}

fn parse_part(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let numbers = text.split_once('/').and_then(|(i, n)| number(i).zip(number(n)));
    match numbers {
        Some((part, parts)) if 1 <= part && part <= parts => Ok((part - 1, parts)),
        _ => Err(format!("--part is I/N with I from 1 to N, not {text}")),
    }
}

/// Prints a line at once: a run that hangs shows where. A closed output is no failure of the run.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// What compilation in advance did.
#[derive(Debug, Default)]
struct Compilations {
    programs: u64,
    /// Programs that the cache did not have.
    compiled: u64,
    /// Sum of the times of all threads.
    thread_time: Duration,
    /// Longest compilation.
    longest: Duration,
    text_bytes: u64,
    failures: Vec<String>,
}

/// An interpreted copy that also sends each program that it loads to the threads that compile.
struct Sender<'a> {
    copy: InterpretedCopy,
    to: mpsc::Sender<Program>,
    seen: &'a Mutex<HashSet<u64>>,
    part: (u64, u64),
}

impl CopyTarget for Sender<'_> {
    fn copy(&self) -> u32 {
        self.copy.copy()
    }

    fn load(&mut self, program: &Program, depth: u32) -> Result<u32, MachineError> {
        let mut hash = DefaultHasher::new();
        program.text.hash(&mut hash);
        let hash = hash.finish();
        let is_new = self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(hash);
        if is_new && hash % self.part.1 == self.part.0 {
            // Without a receiver all threads that compile have failed, and say so.
            let _ = self.to.send(program.clone());
        }
        self.copy.load(program, depth)
    }

    fn read_words(&mut self, at: BufferOffset, words: &mut [u32]) -> Result<(), MachineError> {
        self.copy.read_words(at, words)
    }

    fn write_words(&mut self, at: BufferOffset, words: &[u32]) -> Result<(), MachineError> {
        self.copy.write_words(at, words)
    }

    fn read_runs(&mut self, runs: &[Run], to: &mut [u8]) -> Result<(), MachineError> {
        self.copy.read_runs(runs, to)
    }

    fn write_runs(&mut self, runs: &[Run], from: &[u8]) -> Result<(), MachineError> {
        self.copy.write_runs(runs, from)
    }

    fn launch(&mut self, slice: u32) -> Result<(), MachineError> {
        self.copy.launch(slice)
    }
}

/// Compiles all programs of the suite into the cache. The interpreter runs the scripts to find the programs: sizes of
/// memories that have grown are a part of later ones.
fn compile_all(arguments: &Arguments, number: u32, cache: &Path) -> Compilations {
    let files = arguments.files();
    let next = AtomicUsize::new(0);
    let seen = Mutex::new(HashSet::new());
    let done = Mutex::new(Compilations::default());
    let (to, from) = mpsc::channel::<Program>();
    let from = Mutex::new(from);
    let note = |failure: String| {
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.failures.push(failure);
    };
    let compile = || {
        let mut device = match CudaDevice::open(number, Some(CodeCache::new(cache))) {
            Ok(device) => device,
            Err(e) => return note(e.to_string()),
        };
        loop {
            let received = from.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(program) = received else { return };
            let start = Instant::now();
            // Nothing is launched, so that no stack is needed.
            let loaded = device.load(&program, 0);
            let time = start.elapsed();
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.programs += 1;
            done.text_bytes += program.text.len() as u64;
            match loaded {
                Ok(loaded) => {
                    done.compiled += u64::from(!loaded.cached);
                    done.thread_time += time;
                    done.longest = done.longest.max(time);
                }
                Err(e) => done.failures.push(e.to_string()),
            }
        }
    };
    let settings = arguments.settings();
    let find = |to: mpsc::Sender<Program>| {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut new_target = || Sender {
                copy: InterpretedCopy::new(settings.copy, settings.steps),
                to: to.clone(),
                seen: &seen,
                part: arguments.part,
            };
            let report = run_file_on(
                &mut new_target,
                file,
                &file.options(arguments.cell),
                settings,
                EXCEPTIONS,
            );
            for failure in report.failures.iter().take(SHOWN_FAILURES) {
                note(format!("interpreter: {failure}"));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(compile);
            let to = to.clone();
            scope.spawn(move || find(to));
        }
        drop(to);
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Results of all files.
#[derive(Debug, Default)]
struct Totals {
    counts: Counts,
    failed_assertions: usize,
    failures: usize,
    floats: BTreeMap<String, FloatCounts>,
    device: DeviceCounts,
    files: usize,
    device_failed: bool,
}

impl Totals {
    fn add(&mut self, report: &FileReport, time: Duration) {
        let others = report.failures.len() - report.failed_assertions.min(report.failures.len());
        print_line(&format!(
            "{:<64} {:>6} passed, {} failed{} ({:.1} s)",
            report.name,
            report.counts.assertions(),
            report.failed_assertions,
            if others == 0 {
                String::new()
            } else {
                format!(", and {others} modules or calls")
            },
            time.as_secs_f64()
        ));
        for failure in report.failures.iter().take(SHOWN_FAILURES) {
            print_line(&format!("    {failure}"));
        }
        self.files += 1;
        self.counts.merge(&report.counts);
        self.failed_assertions += report.failed_assertions;
        self.failures += report.failures.len();
        self.device_failed |= report.device_failed;
        for (group, counts) in &report.floats {
            self.floats.entry(group.clone()).or_default().merge(*counts);
        }
    }

    fn add_device(&mut self, counts: DeviceCounts) {
        self.device.loads += counts.loads;
        self.device.compilations += counts.compilations;
        self.device.load_time += counts.load_time;
        self.device.launches += counts.launches;
    }

    fn print_floats(&self) {
        if self.floats.is_empty() {
            return;
        }
        print_line(&format!(
            "\n{:<34} {:>6} {:>6} {:>6} {:>6} {:>9}",
            "assertions with floats", "passed", "failed", "NaN", "zero", "subnormal"
        ));
        let mut total = FloatCounts::default();
        let row = |name: &str, counts: FloatCounts| {
            print_line(&format!(
                "{name:<34} {:>6} {:>6} {:>6} {:>6} {:>9}",
                counts.passed, counts.failed, counts.nan, counts.zero, counts.subnormal
            ));
        };
        for (group, counts) in &self.floats {
            row(group, *counts);
            total.merge(*counts);
        }
        row("all", total);
    }
}

/// Runs files on one device, until there are none or the device fails.
fn run_files<D: Device>(
    arguments: &Arguments,
    device: D,
    next: &AtomicUsize,
    totals: &Mutex<Totals>,
) -> Result<(), String> {
    let shared = SharedDevice::new(device).map_err(|e| e.to_string())?;
    let files = arguments.files();
    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        let start = Instant::now();
        let options = file.options(arguments.cell);
        let mut new_target = || shared.new_copy();
        let report = run_file_on(&mut new_target, file, &options, arguments.settings(), EXCEPTIONS);
        totals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(&report, start.elapsed());
        if report.device_failed {
            break;
        }
    }
    let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
    totals.add_device(shared.counts());
    Ok(())
}

/// Runs the suite. Returns whether everything passed.
fn run_suite(arguments: &Arguments) -> Result<bool, String> {
    let files = arguments.files();
    if files.is_empty() {
        return Err(format!("no file of the suite has {} in its path", arguments.only));
    }
    let next = AtomicUsize::new(0);
    let totals = Mutex::new(Totals::default());
    let start = Instant::now();
    let mut is_compiled = true;
    match arguments.target {
        Target::Interpreter => {
            let failure = Mutex::new(None);
            thread::scope(|scope| {
                for _ in 0..arguments.threads {
                    scope.spawn(|| {
                        if let Err(e) = run_files(arguments, InterpreterDevice::new(), &next, &totals) {
                            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                        }
                    });
                }
            });
            if let Some(e) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
                return Err(e);
            }
        }
        Target::Cuda(number) => {
            let temporary = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
            let cache = arguments.cache.as_deref().unwrap_or(temporary.path());
            let done = compile_all(arguments, number, cache);
            print_line(&format!(
                "{} programs ({:.1} MB of text): {} driver compilations in {:.1} s, {:.1} s of {} threads together, the \
                 longest {:.2} s",
                done.programs,
                done.text_bytes as f64 / 1e6,
                done.compiled,
                start.elapsed().as_secs_f64(),
                done.thread_time.as_secs_f64(),
                arguments.threads,
                done.longest.as_secs_f64()
            ));
            for failure in done.failures.iter().take(SHOWN_FAILURES) {
                print_line(&format!("    {failure}"));
            }
            is_compiled = done.failures.is_empty();
            if arguments.compile_only {
                return Ok(is_compiled);
            }
            let device = CudaDevice::open(number, Some(CodeCache::new(cache))).map_err(|e| e.to_string())?;
            run_files(arguments, device, &next, &totals)?;
        }
    }
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    totals.print_floats();
    print_line(&format!(
        "\n{} of {} files, cells of {} bytes: {} loads ({:.1} s), {} of them compiled, {} launches; {:.1} s in all",
        totals.files,
        files.len(),
        arguments.cell.bytes(),
        totals.device.loads,
        totals.device.load_time.as_secs_f64(),
        totals.device.compilations,
        totals.device.launches,
        start.elapsed().as_secs_f64()
    ));
    if totals.device_failed {
        print_line("the device failed: the files after it did not run");
    }
    print_line(&format!(
        "{} assertions passed, {} failed",
        totals.counts.assertions(),
        totals.failed_assertions
    ));
    Ok(is_compiled && totals.failures == 0 && totals.files == files.len())
}

/// Compares the table of operations on floats. Returns whether all results are equal.
fn run_table(arguments: &Arguments) -> Result<bool, String> {
    let start = Instant::now();
    let table = FloatTable::new(arguments.seed);
    let settings = arguments.settings();
    let interpreted = InterpretedCopy::new(settings.copy, settings.steps);
    let expected = table.run(interpreted, arguments.cell, settings);
    let expected = expected.map_err(|e| format!("interpreter: {e}"))?;
    let found = match arguments.target {
        Target::Interpreter => run_table_on(&table, InterpreterDevice::new(), arguments),
        Target::Cuda(number) => {
            let device = CudaDevice::open(number, None).map_err(|e| e.to_string())?;
            run_table_on(&table, device, arguments)
        }
    }?;
    let mut results = 0;
    for row in &found {
        let traps = row.results.iter().filter(|r| r.is_err()).count();
        let nans = row
            .results
            .iter()
            .filter(|r| is_nan(&row.name, r.as_ref().ok()))
            .count();
        results += row.results.len();
        print_line(&format!(
            "{:<26} {:>5} results, {nans:>4} NaN, {traps:>3} traps",
            row.name,
            row.results.len()
        ));
    }
    let differences = compare_tables(&table, &expected, &found);
    for line in &differences {
        print_line(line);
    }
    let is_equal = differences.is_empty();
    print_line(&format!(
        "seed {}: {} results of {} operations {} ({:.1} s)",
        arguments.seed,
        results,
        found.len(),
        if is_equal { "are equal" } else { "DIFFER" },
        start.elapsed().as_secs_f64()
    ));
    Ok(is_equal)
}

/// Returns whether a result of an operation is a NaN.
fn is_nan(name: &str, bits: Option<&u64>) -> bool {
    let is_comparison = ["eq", "ne", "lt", "gt", "le", "ge"]
        .iter()
        .any(|c| name.ends_with(c) && name.len() == 6);
    match bits {
        Some(bits) if name.starts_with("f32") && !is_comparison => f32::from_bits(*bits as u32).is_nan(),
        Some(bits) if name.starts_with("f64") && !is_comparison => f64::from_bits(*bits).is_nan(),
        _ => false,
    }
}

fn run_table_on<D: Device>(
    table: &FloatTable,
    device: D,
    arguments: &Arguments,
) -> Result<Vec<wasm_tests::TableRow>, String> {
    let shared = SharedDevice::new(device).map_err(|e| e.to_string())?;
    let rows = table.run(shared.new_copy(), arguments.cell, arguments.settings());
    rows.map_err(|e| e.to_string())
}

fn main() -> ExitCode {
    let result = Arguments::parse(std::env::args().skip(1))
        .map_err(|e| format!("{e}\n{USAGE}"))
        .and_then(|arguments| {
            if arguments.table {
                run_table(&arguments)
            } else {
                run_suite(&arguments)
            }
        });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "wasm_suite: {e}");
            ExitCode::from(2)
        }
    }
}
