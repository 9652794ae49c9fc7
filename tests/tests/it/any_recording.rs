//! Every verb answers on every recording, also if the recording has no data for the verb. No verb panics or ends by a
//! signal, and each verb reports what it cannot do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, DmaMapRow, Events, EventsBuilder, Hardware, InterruptRow, PciFunction, Space, SpaceKind, SubmitRow,
    UndecodedRow,
};
use trace_core::{BusAddr, GpuVa, Recording, RegOffset};
use whole_program_tests::{ProgramOutput, field_cases, recordings, root, run};

/// Verbs with their usual options. `{}` is the recording, and `{out}` is a path in a temporary folder of the run.
const VERBS: &[&str] = &[
    "info {}",
    "info {} --json",
    "events {}",
    "events {} --json",
    "events {} --writes",
    "events {} --register 0",
    "events {} --range 0..=3",
    "events {} --where write",
    "events {} --where undecoded",
    "events {} --where errno",
    "events {} --where input",
    "events {} --job 0",
    "stats {}",
    "stats {} --json",
    "stats {} --histogram",
    "stats {} --histogram --json",
    "stats {} --by block",
    "stats {} --by thread",
    "stats {} --by job",
    "stats {} --by job --json",
    "stats {} --where write",
    "stats {} --register 0x0",
    "stats {} --register 0x0 --json",
    "stats {} --between write read",
    "jobs {}",
    "jobs {} --json",
    "jobs {} --job 0",
    "launches {}",
    "launches {} --json",
    "kernels {}",
    "kernels {} --json",
    "objects {}",
    "objects {} --json",
    "channels {}",
    "channels {} --json",
    "pushbuffer {}",
    "pushbuffer {} --json",
    "pushbuffer {} --submit 0",
    "pushbuffer {} --submit 0 --json",
    "shader {}",
    "shader {} --json",
    "pagetables {}",
    "pagetables {} --json",
    "pagetables {} --walk 0x1000",
    "pagetables {} --walk 0x1000 --json",
    "references {} 0x1000",
    "references {} 0x1000 --json",
    "memory {}",
    "memory {} 0x1000",
    "memory {} --search 00ff",
    "screen {}",
    "screen {} --json",
    "check {}",
    "check {} --json",
    "diff {} {}",
    "diff {} {} --json",
    "diff {} {} --html {out}.html",
    "import {} -o {out}.kine",
    "trim {} --jobs 0 -o {out}.kine",
    "trim {} --events 0..=0 -o {out}.kine",
    "export {} --table events -o {out}.parquet",
    "export {} --table events -o {out}.arrow",
    "export {} --table events -o {out}.csv",
    "export {} --table events --where write -o {out}.parquet",
    "export {} --table jobs -o {out}.parquet",
    "export {} --table registers -o {out}.parquet",
    "export {} --table registers -o {out}.arrow",
    "export {} --table registers -o {out}.csv --json",
    "export {} --table pages -o {out}.csv",
    "export {} --table mappings -o {out}.csv",
    "export {} --table buffers -o {out}.parquet",
    "export {} --table shaders -o {out}.arrow",
    "export {} --to vcd -o {out}.vcd",
    "export {} --to fst -o {out}.fst",
    "export {} --to perfetto -o {out}.pftrace",
    "export {} --to channel -o {out}.chan",
    "notebook {} -o {out}.html",
    "link {}",
    "verify {}",
    "plan {} --on software:mali-g71",
    "plan {} --on software:mali-g71 --json",
    "replay {}",
];

/// Verbs that do much work, for the long tier only.
const LONG: &[&str] = &[
    "last-writer {} 0x1000",
    "replay {} --on software:mali-g71",
    "replay {} --on software:mali-g71 --json -o {out}.kine",
    "bisect {} --test false --jobs-only",
    "export {} --to program -o {out}",
    "tune {} --on cuda:0",
    "--screenshot {out}.png {}",
    "--screenshot {out}.png --panel plots {}",
];

/// Verbs that take no recording, or that need more than one, and why the sweeps leave them out.
const LEFT_OUT: &[(&str, &str)] = &[
    ("regmaps", "takes register maps"),
    ("apply", "takes a file of edits"),
    ("targets", "takes no file"),
    ("doctor", "takes no file"),
    ("record", "takes a program"),
    ("run", "takes a program"),
    ("pair", "takes an agent"),
    ("agents", "takes no file"),
    ("completions", "takes a shell"),
    ("man", "takes no file"),
    ("wasm", "takes a program"),
    ("campaign", "takes the description of a campaign"),
    ("pipeline", "takes a pipeline file"),
    ("help", "takes a verb"),
];

/// Every verb of the program is in the sweeps or has a reason to be absent, so that a new verb cannot be forgotten.
#[test]
fn every_verb_is_in_the_sweeps() {
    let help = run(["--help"]).out;
    let commands = help.split("Commands:\n").nth(1).and_then(|t| t.split("\n\n").next());
    let listed = commands
        .unwrap()
        .lines()
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    let listed: BTreeSet<&str> = listed.filter_map(|l| l.split_whitespace().next()).collect();
    let lines = VERBS.iter().chain(LONG).filter_map(|l| l.split(' ').next());
    let swept = lines.filter(|word| !word.starts_with('-'));
    let known: BTreeSet<&str> = swept.chain(LEFT_OUT.iter().map(|l| l.0)).collect();
    assert!(listed.len() > 30, "{listed:?}");
    assert_eq!(listed, known);
}

fn recording(events: Events) -> Recording {
    Recording {
        events,
        ..Recording::default()
    }
}

fn access(offset: u32) -> Access {
    Access {
        space: 0,
        write: true,
        offset: RegOffset::new(offset),
        width: 4,
        value: 1,
    }
}

/// Writes recordings that each lack some kind of data to a folder. Their names say what they contain or lack.
fn write_sparse_recordings(folder: &Path) -> Vec<PathBuf> {
    let g71 = |mut r: Recording| {
        r.metadata.identity.gpu_id = 0x6000_0000;
        r.metadata.spaces.push(Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        });
        r
    };
    let build = |fill: &dyn Fn(&mut EventsBuilder)| {
        let mut b = EventsBuilder::new();
        fill(&mut b);
        recording(b.finish())
    };
    let mut pci = build(&|b| b.access(1, 0, access(0x10)));
    pci.set_hardware(&Hardware::Pci(PciFunction::default()));
    let submit = SubmitRow {
        head_va: GpuVa::new(0x1000),
        address_space: 0,
        slot: 1,
    };
    let mapping = DmaMapRow {
        bus: BusAddr::new(0x8000),
        bytes: 4096,
        kind: 1,
        reserved: 0,
    };
    let undecoded = |b: &mut EventsBuilder| {
        for n in 0..3 {
            b.undecoded(n, 1, 0, UndecodedRow::from_access(RegOffset::new(0x20), true, 4));
        }
    };
    let all = [
        ("no-events", recording(EventsBuilder::new().finish())),
        ("no-events-of-a-mali", g71(recording(EventsBuilder::new().finish()))),
        ("marks-alone", build(&|b| b.mark(1, "begin"))),
        (
            "interrupts-alone",
            g71(build(&|b| b.interrupt(2, InterruptRow { line: 0, status: 1 }))),
        ),
        ("no-jobs", g71(build(&|b| b.access(1, 1, access(0x24))))),
        ("no-names", build(&|b| b.access(1, 1, access(0x24)))),
        ("nameless-device", pci),
        ("undecoded-alone", g71(build(&undecoded))),
        ("undecoded-without-spaces", build(&undecoded)),
        ("submits-alone", g71(build(&|b| b.submit(1, submit)))),
        ("given-memory-alone", build(&|b| b.dma_map(1, 1, mapping))),
    ];
    let write = |(name, r): (&str, Recording)| {
        let path = folder.join(format!("{name}.kine"));
        trace_core::container::write(&r, &path, &Progress::new()).unwrap();
        path
    };
    all.map(write).to_vec()
}

/// Returns every recording in a folder and its subfolders with at most `max_bytes`, in order.
fn find_recordings(folder: &Path, max_bytes: u64) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
            let (path, bytes) = (entry.path(), entry.metadata().map_or(u64::MAX, |m| m.len()));
            if trace_import::fits(&path) && bytes <= max_bytes {
                files.push(path);
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Returns the fault of a run, or `None` if the verb answered.
fn find_fault(line: &str, ended: &ProgramOutput) -> Option<&'static str> {
    let json = line.contains("--json");
    let quiet = ended.out.is_empty() && ended.err.is_empty();
    match ended.code {
        None => Some("ended by a signal"),
        Some(0..=2) if ended.err.contains("panicked") || ended.out.contains("panicked") => Some("a thread panicked"),
        Some(0..=2) if ended.err.contains("RUST_BACKTRACE") => Some("a thread panicked"),
        Some(2) if ended.err.trim().is_empty() => Some("refused without a message"),
        Some(0 | 1) if json && serde_json::from_str::<serde_json::Value>(&ended.out).is_err() => Some("not JSON"),
        Some(0) if quiet && !line.contains("-o ") && !line.contains("{out}") && !line.contains("--search") => {
            Some("printed nothing")
        }
        Some(0..=2) => None,
        Some(_) => Some("another exit code than 0, 1 and 2"),
    }
}

/// Returns every line for each recording.
fn all_lines(all: &[PathBuf], lines: &[&'static str]) -> Vec<(PathBuf, &'static str)> {
    let of = |file: &PathBuf| lines.iter().map(|l| (file.clone(), *l)).collect::<Vec<_>>();
    all.iter().flat_map(of).collect()
}

/// Returns every other line of each verb for each recording, so that two neighbours have all lines of a verb. Neighbours
/// are mostly of one kind, and a verb has at least one line for each recording.
fn alternate_lines(all: &[PathBuf], lines: &[&'static str]) -> Vec<(PathBuf, &'static str)> {
    let mut verbs: Vec<Vec<&str>> = Vec::new();
    for line in lines {
        let verb = line.split(' ').next();
        match verbs
            .iter_mut()
            .find(|v| v.first().and_then(|l| l.split(' ').next()) == verb)
        {
            Some(known) => known.push(line),
            None => verbs.push(vec![line]),
        }
    }
    let mut work = Vec::new();
    for (n, file) in all.iter().enumerate() {
        for verb in &verbs {
            let first = if verb.len() == 1 { 0 } else { n % 2 };
            work.extend(verb.iter().skip(first).step_by(2).map(|line| (file.clone(), *line)));
        }
    }
    work
}

/// Runs command lines on recordings, as many at once as the machine has cores. Fails with a list of all faults.
fn sweep(work: &[(PathBuf, &str)]) {
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((recording, line)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let folder = tempfile::tempdir().unwrap();
                    let (file, out) = (recording.display().to_string(), folder.path().join("out"));
                    let out = out.display().to_string();
                    let arguments = line.split(' ').map(|a| a.replace("{out}", &out).replace("{}", &file));
                    let ended = run(arguments);
                    if let Some(fault) = find_fault(line, &ended) {
                        let line = line.replace("{}", &file);
                        let error = ended.err.lines().last().unwrap_or_default().to_owned();
                        faults.lock().unwrap().push(format!("{line}: {fault}: {error}"));
                    }
                }
            });
        }
    });
    let mut faults = faults.into_inner().unwrap();
    faults.sort();
    assert!(
        faults.is_empty(),
        "{} of {} runs:\n{}",
        faults.len(),
        work.len(),
        faults.join("\n")
    );
    println!("{} runs", work.len());
}

fn api_trace() -> PathBuf {
    root().join("sample-traces/cuda/net.kine")
}

/// Records a run of a WebAssembly program with two inputs.
fn record_wasm_run(folder: &Path) -> PathBuf {
    let input = folder.join("lines.jsonl");
    std::fs::write(&input, "one two\nthree\n").unwrap();
    let file = folder.join("wasm-run.kine");
    let path = |p: PathBuf| p.to_str().unwrap().to_owned();
    let program = path(root().join("tests/wasm/programs/wordcount.wasm"));
    let (input, out, to) = (path(input), path(folder.join("out")), path(file.clone()));
    let ended = run(["wasm", "run", &program, "--inputs", &input, "-o", &out, "--record", &to]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    file
}

#[test]
fn verbs_handle_recordings_without_their_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = write_sparse_recordings(folder.path());
    all.push(api_trace());
    all.push(record_wasm_run(folder.path()));
    all.push(root().join("trace-core/tests/golden/v2-driver.kine"));
    all.extend(["several-spaces.txt", "configuration-space.log"].map(|n| root().join("tests/excerpts").join(n)));
    sweep(&all_lines(&all, VERBS));
}

#[test]
fn empty_results_print_one_line() {
    let run_checked = |line: &str, file: &Path| {
        let arguments = line.split(' ').map(|a| a.replace("{}", &file.display().to_string()));
        let ended = run(arguments);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{line}: {ended:?}");
        ended.out
    };
    let net = api_trace();
    for by in ["register", "block", "thread", "job"] {
        let out = run_checked(&format!("stats {{}} --by {by}"), &net);
        assert!(
            out.ends_with("no register accesses; `launches` and `kernels` count calls\n"),
            "{out}"
        );
        assert_eq!(run_checked(&format!("stats {{}} --by {by} --json"), &net), "[]\n");
    }
    let jobs = run_checked("jobs {}", &net);
    assert!(
        jobs.contains("API trace with 8 launches; `launches` lists them"),
        "{jobs}"
    );
    assert!(run_checked("pagetables {}", &net).contains("no page tables in this recording"));
    let info = run_checked("info {}", &net);
    for row in ["Launches", "Streams", "Buffers", "Copies"] {
        assert!(info.contains(row), "{row}: {info}");
    }
    assert!(!info.contains("Interrupts") && !info.contains("Polls"), "{info}");
    let folder = tempfile::tempdir().unwrap();
    let sparse = write_sparse_recordings(folder.path());
    let named = |name: &str| sparse.iter().find(|p| p.ends_with(format!("{name}.kine"))).unwrap();
    assert!(run_checked("stats {}", named("no-events")).contains("no register accesses"));
    let undecoded = run_checked("stats {}", named("undecoded-alone"));
    assert!(
        undecoded.contains("`events --where undecoded` lists 3 accesses without one"),
        "{undecoded}"
    );
    assert!(run_checked("jobs {}", named("no-jobs")).ends_with("no jobs\n"));
    assert!(run_checked("events {}", named("no-events")).contains("No times"));
    for table in ["registers", "jobs", "mappings", "buffers", "events", "shaders"] {
        for form in ["parquet", "arrow", "csv"] {
            let to = folder.path().join(format!("table.{form}"));
            let line = format!("export {{}} --table {table} -o {}", to.display());
            let rows = run_checked(&line, named("no-events"));
            assert!(rows.contains(&format!("{table}, 0 rows")), "{rows}");
            assert!(std::fs::metadata(&to).unwrap().len() > 0, "{table} {form}");
        }
    }
}

/// Runs every verb, with half of its lines, on one quarter of all recordings. These are the recordings of the project and,
/// if present, the published ones and the inputs from the field.
fn sweep_quarter(quarter: usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut all = write_sparse_recordings(folder.path());
    let own = ["sample-traces", "tests/excerpts", "trace-core/tests/golden"].map(|f| root().join(f));
    for folder in own.into_iter().chain(recordings()).chain(field_cases()) {
        // Each verb takes seconds to minutes on a larger recording in a development build.
        all.extend(find_recordings(&folder, 192 << 10));
    }
    assert!(all.len() > 50, "{all:?}");
    let part: Vec<PathBuf> = all.into_iter().skip(quarter).step_by(4).collect();
    sweep(&alternate_lines(&part, &[VERBS, LONG].concat()));
}

#[test]
#[ignore = "make test-full: every verb on a quarter of all recordings, some minutes"]
fn every_verb_answers_on_the_first_quarter_of_recordings() {
    sweep_quarter(0);
}

#[test]
#[ignore = "make test-full: every verb on a quarter of all recordings, some minutes"]
fn every_verb_answers_on_the_second_quarter_of_recordings() {
    sweep_quarter(1);
}

#[test]
#[ignore = "make test-full: every verb on a quarter of all recordings, some minutes"]
fn every_verb_answers_on_the_third_quarter_of_recordings() {
    sweep_quarter(2);
}

#[test]
#[ignore = "make test-full: every verb on a quarter of all recordings, some minutes"]
fn every_verb_answers_on_the_last_quarter_of_recordings() {
    sweep_quarter(3);
}
