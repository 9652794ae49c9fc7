//! Launches of CUDA programs recorded one by one on the stand-in for the driver. Covers which launches the file has,
//! and the memory before and after each launch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::process::Command;
use trace_core::Recording;
use trace_core::recording::{AllocationKind, ApiTraceMetadata, CallEvent, CopyKind, LaunchRow, OrderRow};
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, open, run_to_end};
use whole_program_tests::program;

/// Memory content from a recording: allocations and variables, by their first address.
type Memory = BTreeMap<u64, Vec<u8>>;

/// A launch with the memory before and after it.
struct RecordedLaunch {
    function: String,
    /// Numbers of the launch in the program and among the launches of its function.
    numbers: (u64, u64),
    row: LaunchRow,
    before: Memory,
    after: Option<Memory>,
    /// Number of bytes in the snapshots before and after the launch.
    report: (u64, u64),
}

fn put(memory: &mut Memory, at: u64, bytes: &[u8], metadata: &ApiTraceMetadata) {
    let allocation = memory.range_mut(..=at).next_back();
    if let Some((first, content)) = allocation
        && ((at - first) as usize) < content.len()
    {
        content[(at - first) as usize..][..bytes.len()].copy_from_slice(bytes);
        return;
    }
    // The address is in no allocation, so it must be in a variable of a module.
    let variables = metadata.modules.iter().flat_map(|m| &m.globals);
    let g = { variables }
        .find(|g| at >= g.at.get() && at - g.at.get() < g.bytes)
        .unwrap_or_else(|| panic!("{at:#x} is in no allocation and no variable"));
    memory.insert(g.at.get(), vec![0; g.bytes as usize]);
    put(memory, at, bytes, metadata);
}

/// Returns the launches of a recording, read as the format specifies.
fn read_launches(r: &Recording) -> Vec<RecordedLaunch> {
    let metadata = r.api().unwrap();
    let mut memory = Memory::new();
    let mut all: Vec<RecordedLaunch> = Vec::new();
    let mut call_name = String::new();
    let mut reported = 0u64;
    let mut pending: Option<(u32, (u64, u64))> = None;
    for at in 0..r.events.len() {
        match r.events.call(at).expect("every event is a call") {
            CallEvent::Call(c) => {
                call_name = metadata.names[c.name as usize].clone();
                assert!(
                    matches!(&*call_name, "snapshot before launch" | "snapshot after launch"),
                    "{call_name}"
                );
                let arguments = r.events.call_arguments(c.arguments_at, c.arguments).unwrap();
                let numbers: Vec<u64> = arguments
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .map(|n| u64::from_le_bytes(*n))
                    .collect();
                let launch_key = (c.about, (numbers[0], numbers[1]));
                if call_name == "snapshot before launch" {
                    pending = Some(launch_key);
                } else {
                    assert_eq!(pending.take(), Some(launch_key));
                }
                reported = 0;
            }
            CallEvent::Allocation(a) if a.kind == AllocationKind::Take as u32 => {
                memory.insert(a.at.get(), vec![0; a.bytes as usize]);
            }
            CallEvent::Allocation(a) => {
                assert_eq!(a.kind, AllocationKind::Give as u32);
                memory.remove(&a.at.get()).expect("a freed allocation exists");
            }
            CallEvent::Copy(c) => {
                assert_eq!((c.kind, c.stream), (CopyKind::DeviceToHost as u32, OrderRow::NONE));
                put(&mut memory, c.from, &r.copy_content(&c).expect("content"), metadata);
                reported += c.bytes;
                if call_name == "snapshot after launch" {
                    let last = all.last_mut().unwrap();
                    last.report.1 = reported;
                    last.after = Some(memory.clone());
                }
            }
            CallEvent::Launch(row) => {
                let (function, numbers) = pending.expect("a launch follows its snapshot");
                assert_eq!(row.function, function);
                all.push(RecordedLaunch {
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

fn record_kernels(
    name: &str,
    options: &[&str],
    arguments: &[&str],
    set: &[(&str, &str)],
) -> (RecordedProgram, Recording, Vec<RecordedLaunch>) {
    let cuda = CudaStandIn::default();
    let (alone, bytes) = cuda.run_unrecorded(arguments);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let recorded = cuda.record(name, options, arguments, set);
    assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
    assert_eq!((&recorded.ended.out, &recorded.out), (&alone.out, &bytes));
    let recording = open(&recorded.path);
    let all = read_launches(&recording);
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

/// The memory before and after its launch contains everything that a vector sum reads and writes.
#[test]
fn memory_around_a_launch_covers_its_reads_and_writes() {
    let (recorded, r, all) = record_kernels("add", &["--kernels", "vector_add"], &["vector_add", "5000"], &[]);
    let [single] = all.as_slice() else {
        panic!("{} launches", all.len())
    };
    assert_eq!((&*single.function, single.numbers), ("vector_add", (1, 1)));
    let arguments = r
        .events
        .call_arguments(single.row.arguments_at, single.row.arguments)
        .unwrap();
    let word = |n: usize| u64::from_le_bytes(arguments[n * 8..][..8].try_into().unwrap());
    let (c, a, b, n) = (word(0), word(1), word(2), word(3) as usize);
    let after = single.after.as_ref().unwrap();
    let (a, b) = (floats(&single.before[&a]), floats(&single.before[&b]));
    let sums = floats(&after[&c]);
    assert!(n == 5000 && (0..n).all(|i| sums[i] == a[i] + b[i]));
    assert!(recorded.out.starts_with(&after[&c][..n * 4]) || recorded.out.ends_with(&after[&c][..n * 4]));
    // Unchanged memory is not reported again. The result takes five pages and parts of at most two other pages.
    assert!(single.report.1 <= 7 * 4096, "{:?}", single.report);
    assert_eq!(r.api().unwrap().range, "the first launch of functions named vector_add");
}

/// Hashes on the device and copies to the host find the same changes.
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
            let (recorded, r, mut all) = record_kernels(hash, &options, &[program, size], &set);
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
            // Variables have other addresses in each process.
            let window = r.api().unwrap().window;
            let mut after = all.pop().unwrap().after.unwrap();
            after.retain(|at, _| at.checked_sub(window.base.get()).is_some_and(|n| n < window.bytes));
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
        let (_, _, all) = record_kernels("picked", options, &["net", "20"], &[]);
        let mut functions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for s in all {
            functions.entry(s.function).or_default().push(s.numbers.1);
        }
        functions
    };
    let all = count(&["--kernels", "*", "--pick", "all"]);
    assert!(!all.is_empty());
    for (name, numbers) in &all {
        let n = numbers.len() as u64;
        assert_eq!(*numbers, (1..=n).collect::<Vec<_>>());
        let one = |options: &[&str]| count(options).remove(name).unwrap();
        assert_eq!(one(&["--kernels", name]), [1]);
        assert_eq!(
            one(&["--kernels", name, "--pick", "all", "--max-launches", "2"]),
            numbers[..2.min(numbers.len())]
        );
        let third: Vec<u64> = (1..=n).step_by(3).collect();
        assert_eq!(one(&["--kernels", &format!("/^{name}$/"), "--pick", "every:3"]), third);
    }
    assert_eq!(count(&["--kernels", "no such function"]), BTreeMap::new());
}

/// Threads launch at the same time. Each recorded launch is still between its own snapshots.
#[test]
fn launches_of_many_threads_do_not_mix() {
    let options = ["--kernels", "turn", "--pick", "every:40"];
    let (_, _, all) = record_kernels("threads", &options, &["threads"], &[]);
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
        // The command-line parser prints more than the message, so `assert_refused` does not fit.
        assert_eq!(recorded.ended.code, Some(2), "{:?}", recorded.ended);
        assert!(recorded.ended.err.contains(needle), "{:?}", recorded.ended);
        assert!(!recorded.path.exists());
    }
    // The library alone prints a message and lets the program continue.
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
