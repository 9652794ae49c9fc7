//! Launches of CUDA programs recorded one by one, on the stand-in for the driver: which of them are in the file, and
//! what memory held before and after each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::process::Command;
use trace_core::Recording;
use trace_core::recording::{AllocationKind, ApiTraceMetadata, CallEvent, CopyKind, LaunchRow, OrderRow};
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, open, run_to_end};
use whole_program_tests::program;

/// Memory as a recording tells it: allocations and variables, by first byte.
type Memory = BTreeMap<u64, Vec<u8>>;

/// A launch with what memory held before and after it.
struct FunctionRow {
    function: String,
    /// Its numbers in the program and among those of its function.
    numbers: (u64, u64),
    row: LaunchRow,
    before: Memory,
    after: Option<Memory>,
    /// Bytes that are reported of memory before and after it.
    report: (u64, u64),
}

fn put(memory: &mut Memory, at: u64, bytes: &[u8], metadata: &ApiTraceMetadata) {
    let found = memory.range_mut(..=at).next_back();
    if let Some((first, held)) = found
        && ((at - first) as usize) < held.len()
    {
        held[(at - first) as usize..][..bytes.len()].copy_from_slice(bytes);
        return;
    }
    // No allocation: a variable of a module.
    let variables = metadata.modules.iter().flat_map(|m| &m.globals);
    let g = { variables }
        .find(|g| at >= g.at && at - g.at < g.bytes)
        .unwrap_or_else(|| panic!("{at:#x} is of no allocation and no variable"));
    memory.insert(g.at, vec![0; g.bytes as usize]);
    put(memory, at, bytes, metadata);
}

/// The launches of a recording, as the format says that they are to be read.
fn shown(r: &Recording) -> Vec<FunctionRow> {
    let metadata = r.api_trace_metadata().unwrap();
    let mut memory = Memory::new();
    let mut all: Vec<FunctionRow> = Vec::new();
    let mut within = String::new();
    let mut reported = 0u64;
    let mut begun: Option<(u32, (u64, u64))> = None;
    for at in 0..r.events.len() {
        match r.events.call(at).expect("calls alone") {
            CallEvent::Call(c) => {
                within = metadata.names[c.name as usize].clone();
                assert!(
                    matches!(&*within, "snapshot before launch" | "snapshot after launch"),
                    "{within}"
                );
                let arguments = r.events.call_arguments(c.arguments_at, c.arguments).unwrap();
                let numbers: Vec<u64> = arguments
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .map(|n| u64::from_le_bytes(*n))
                    .collect();
                let which = (c.about, (numbers[0], numbers[1]));
                if within == "snapshot before launch" {
                    begun = Some(which);
                } else {
                    assert_eq!(begun.take(), Some(which));
                }
                reported = 0;
            }
            CallEvent::Allocation(a) if a.kind == AllocationKind::Take as u32 => {
                memory.insert(a.at, vec![0; a.bytes as usize]);
            }
            CallEvent::Allocation(a) => {
                assert_eq!(a.kind, AllocationKind::Give as u32);
                memory.remove(&a.at).expect("what is given back was there");
            }
            CallEvent::Copy(c) => {
                assert_eq!((c.kind, c.stream), (CopyKind::DeviceToHost as u32, OrderRow::NONE));
                put(&mut memory, c.from, &r.copy_content(&c).expect("content"), &metadata);
                reported += c.bytes;
                if within == "snapshot after launch" {
                    let last = all.last_mut().unwrap();
                    last.report.1 = reported;
                    last.after = Some(memory.clone());
                }
            }
            CallEvent::Launch(row) => {
                let (function, numbers) = begun.expect("a launch behind its snapshot");
                assert_eq!(row.function, function);
                all.push(FunctionRow {
                    function: metadata.functions[function as usize].name.clone(),
                    numbers,
                    row,
                    before: memory.clone(),
                    after: None,
                    report: (reported, 0),
                });
            }
            CallEvent::Order(_) => {}
            CallEvent::Fill(f) => panic!("{f:?}"),
        }
    }
    all
}

fn kernels(
    name: &str,
    options: &[&str],
    arguments: &[&str],
    set: &[(&str, &str)],
) -> (RecordedProgram, Recording, Vec<FunctionRow>) {
    let cuda = CudaStandIn::default();
    let (alone, bytes) = cuda.run_unrecorded(arguments);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let recorded = cuda.record(name, options, arguments, set);
    assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
    assert_eq!((&recorded.ended.out, &recorded.out), (&alone.out, &bytes));
    let recording = open(&recorded.path);
    let all = shown(&recording);
    (recorded, recording, all)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect()
}

/// What a sum of vectors reads and writes is all in the memory around its launch.
#[test]
fn memory_around_a_launch_covers_its_reads_and_writes() {
    let (recorded, r, all) = kernels("add", &["--kernels", "vector_add"], &["vector_add", "5000"], &[]);
    let [one] = all.as_slice() else {
        panic!("{} launches", all.len())
    };
    assert_eq!((&*one.function, one.numbers), ("vector_add", (1, 1)));
    let arguments = r
        .events
        .call_arguments(one.row.arguments_at, one.row.arguments)
        .unwrap();
    let word = |n: usize| u64::from_le_bytes(arguments[n * 8..][..8].try_into().unwrap());
    let (c, a, b, n) = (word(0), word(1), word(2), word(3) as usize);
    let after = one.after.as_ref().unwrap();
    let (a, b) = (floats(&one.before[&a]), floats(&one.before[&b]));
    let sums = floats(&after[&c]);
    assert!(n == 5000 && (0..n).all(|i| sums[i] == a[i] + b[i]));
    assert!(recorded.out.starts_with(&after[&c][..n * 4]) || recorded.out.ends_with(&after[&c][..n * 4]));
    // What the launch left alone is not reported again: its result takes five pages and two parts of pages at most.
    assert!(one.report.1 <= 7 * 4096, "{:?}", one.report);
    assert_eq!(
        r.api_trace_metadata().unwrap().range,
        "the first launch of functions named vector_add"
    );
}

/// The device's hashes and copies to the host tell the same, whatever is changed in between.
#[test]
fn change_detection_by_hash_and_by_copy_agree() {
    for (program, size) in [
        ("vector_add", "300000"),
        ("net", "3"),
        ("linked", "300"),
        ("globals", "300"),
    ] {
        let mut entries: Vec<Vec<(u64, u64)>> = Vec::new();
        let mut memory: Vec<Memory> = Vec::new();
        for hash in ["no", "yes", "check"] {
            let options = ["--kernels", "*", "--pick", "all"];
            let set = [("KINESCOPE_CUDA_HASH", hash), ("KINESCOPE_CUDA_STATS", "yes")];
            let (recorded, r, mut all) = kernels(hash, &options, &[program, size], &set);
            assert!(!all.is_empty(), "{program}");
            assert_eq!(r.metadata.findings, [], "{program} {hash}");
            assert!(recorded.ended.err.contains("snapshots took"), "{:?}", recorded.ended);
            if hash != "no" && program == "vector_add" {
                assert!(
                    !recorded.ended.err.contains(" 0.000 MB hashed on the device"),
                    "{:?}",
                    recorded.ended
                );
            }
            entries.push(all.iter().map(|s| s.report).collect());
            // Variables lie elsewhere in each process.
            let window = r.api_trace_metadata().unwrap().window;
            let mut after = all.pop().unwrap().after.unwrap();
            after.retain(|at, _| at.checked_sub(window.base).is_some_and(|n| n < window.bytes));
            assert!(!after.is_empty());
            memory.push(after);
        }
        assert!(entries.windows(2).all(|t| t[0] == t[1]), "{program}: {entries:?}");
        assert!(memory.windows(2).all(|m| m[0] == m[1]), "{program}");
    }
}

#[test]
fn launches_are_picked_by_name_order_and_size() {
    let count = |options: &[&str]| {
        let (_, _, all) = kernels("picked", options, &["net", "20"], &[]);
        let mut functions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for s in all {
            functions.entry(s.function).or_default().push(s.numbers.1);
        }
        functions
    };
    let all = count(&["--kernels", "*", "--pick", "all"]);
    assert!(!all.is_empty());
    for (name, own) in &all {
        let n = own.len() as u64;
        assert_eq!(*own, (1..=n).collect::<Vec<_>>());
        let one = |options: &[&str]| count(options).remove(name).unwrap();
        assert_eq!(one(&["--kernels", name]), [1]);
        assert_eq!(
            one(&["--kernels", name, "--pick", "all", "--max-launches", "2"]),
            own[..2.min(own.len())]
        );
        let third: Vec<u64> = (1..=n).step_by(3).collect();
        assert_eq!(one(&["--kernels", &format!("/^{name}$/"), "--pick", "every:3"]), third);
    }
    assert_eq!(count(&["--kernels", "no such function"]), BTreeMap::new());
}

/// Threads that launch at once: each recorded launch still stands between its own snapshots.
#[test]
fn launches_of_many_threads_do_not_mix() {
    let options = ["--kernels", "turn", "--pick", "every:40"];
    let (_, _, all) = kernels("threads", &options, &["threads"], &[]);
    assert!(all.len() >= 10, "{}", all.len());
    assert!(all.iter().all(|s| s.after.is_some()));
}

#[test]
fn invalid_kernel_options_are_refused_before_the_program_runs() {
    let cuda = CudaStandIn::default();
    for (options, needle) in [
        (["--kernels", "/(/"].as_slice(), "pattern 1, '('"),
        (&["--kernels", "a,,b"], "pattern 2 is empty"),
        (
            &["--kernels", "a", "--pick", "last"],
            "expected first, largest, every:N or all",
        ),
        (&["--kernels", "a", "--max-launches", "0"], "0"),
        (&["--pick", "all"], "--kernels"),
    ] {
        let recorded = cuda.record("refused", options, &["vector_add"], &[]);
        // The parser of the command line says where its help is, too.
        assert_eq!(recorded.ended.code, Some(2), "{:?}", recorded.ended);
        assert!(recorded.ended.err.contains(needle), "{:?}", recorded.ended);
        assert!(!recorded.path.exists());
    }
    // The library by itself says it and lets the program go on.
    let to = cuda.file("alone.kine");
    let mut command: Command = cuda.client_command(&["vector_add"]);
    command
        .env("LD_PRELOAD", program("libkinescope_cuda.so"))
        .env("KINESCOPE_RECORD_TO", &to)
        .env("KINESCOPE_CUDA_KERNELS", "/(/");
    let ended = run_to_end(&mut command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.err.contains("nothing is recorded: KINESCOPE_CUDA_KERNELS"),
        "{ended:?}"
    );
    assert!(!to.exists());
}
