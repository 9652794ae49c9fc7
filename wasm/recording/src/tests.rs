//! Tests of recordings of runs: what is written comes back, damaged recordings are errors, differences are named.

use super::*;
use std::sync::Mutex;
use trace_core::Recording;
use trace_core::container;
use trace_core::progress::Progress;
use trace_core::recording::{CopyRow, TraceKind};
use wasm_cpu::CpuBackend;
use wasm_run::{
    Backend as _, BlockProfile, Control, Input, LaunchRecord, Program, ProgramRun, RunEnd, RunOptions, TrapKind,
};

/// Copies its input to its output in pieces of 8 bytes, writes its size to standard error, and traps at a `!`.
const PROGRAM: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func $check (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 33)) (then unreachable)))
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 64))
    (loop $more
      (i32.store (i32.const 4) (i32.const 8))
      (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
      (if (i32.load (i32.const 8))
        (then
          (call $check)
          (i32.store (i32.const 4) (i32.load (i32.const 8)))
          (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)))
          (br $more))))
    (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 63)) (then (call $exit (i32.const 3))))))"#;

fn program() -> Vec<u8> {
    wat::parse_str(PROGRAM).unwrap()
}

fn input(name: &str, bytes: &[u8]) -> Input {
    Input {
        name: name.into(),
        bytes: bytes.to_vec(),
        more_requests: Vec::new(),
    }
}

/// Keeps the results of a run.
struct Results(Mutex<Vec<Option<ProgramRun>>>);

impl Control for Results {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String> {
        self.0.lock().unwrap()[index] = Some(run);
        Ok(())
    }
}

fn run(inputs: &[Input], options: &RunOptions) -> Vec<ProgramRun> {
    let backend = CpuBackend::new(Program::parse(program()).unwrap(), options.clone()).unwrap();
    let results = Results(Mutex::new(vec![None; inputs.len()]));
    backend.run(inputs, &results).unwrap();
    results
        .0
        .into_inner()
        .unwrap()
        .into_iter()
        .map(Option::unwrap)
        .collect()
}

fn record(inputs: &[Input], runs: &[ProgramRun], options: &RunOptions) -> Recording {
    let launches = [LaunchRecord {
        start: 5,
        duration: 1 << 40,
        copies: 65,
        slice: 77,
    }];
    let counts = [BlockProfile {
        offset: 0x40,
        executions: 3,
        active_lanes: u64::MAX,
    }];
    let run = RunToRecord {
        program: &program(),
        program_name: "copy.wasm",
        options,
        target: Target {
            name: "cpu".into(),
            copies: 2,
            ..Target::default()
        },
        inputs,
        runs,
        unfinished: &ALL_ENDED,
        launches: &launches,
        profile: &counts,
        tool: "test",
        when: "",
        source: "wasm-run",
        edits: Vec::new(),
    };
    to_recording(&run, &Progress::new()).unwrap()
}

/// Records a run of the program.
fn recorded(inputs: &[Input], options: &RunOptions) -> Recording {
    record(inputs, &run(inputs, options), options)
}

fn read(recording: &Recording) -> Result<WasmRun, WasmRecordingError> {
    WasmRun::from_recording(recording, &Progress::new())
}

fn inputs() -> Vec<Input> {
    let long: Vec<u8> = (0..10_000u32).map(|n| b'a' + (n % 26) as u8).collect();
    let mut requests = input("requests", b"one");
    requests.more_requests = vec![b"".to_vec(), b"three".to_vec()];
    vec![
        input("empty", b""),
        input("short", b"0123456789"),
        input("trap", b"01234567!"),
        input("exit", b"?"),
        input("long", &long),
        requests,
    ]
}

#[test]
fn a_run_comes_back_from_its_file() {
    let options = RunOptions {
        arguments: vec![b"copy.wasm".to_vec(), vec![0xff, b'a']],
        environment: vec![(b"A".to_vec(), b"b c".to_vec())],
        seed: 7,
        clock_start: 1000,
        ..RunOptions::default()
    };
    let inputs = inputs();
    let runs = run(&inputs, &options);
    let recording = record(&inputs, &runs, &options);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.kine");
    container::write(&recording, &path, &Progress::new()).unwrap();
    let opened = container::open(&path).unwrap();
    let view = read(&opened).unwrap();
    assert_eq!(view.options(), &options);
    assert_eq!(view.program(), program());
    assert_eq!((view.program_name(), view.target().name.as_str()), ("copy.wasm", "cpu"));
    assert_eq!(view.copies().len(), inputs.len());
    for (copy, (input, result)) in inputs.iter().zip(&runs).enumerate() {
        assert_eq!(view.input(copy).as_ref(), Some(input));
        assert_eq!(view.result(copy).as_ref(), Some(result), "{}", input.name);
        assert_eq!(view.calls(copy).count(), result.calls.len());
        let recorded = &view.copies()[copy];
        assert_eq!(view.find_copy_at(recorded.events.start), Some(copy));
        assert_eq!(view.find_copy_at(recorded.events.end - 1), Some(copy));
    }
    let CopyEnd::Ended(RunEnd::Trap(trap)) = &view.copies()[2].end else {
        panic!("no trap");
    };
    assert_eq!(
        (trap.kind, trap.place.as_ref().unwrap().function_index),
        (TrapKind::Unreachable, 3)
    );
    assert_eq!(view.copies()[3].end, CopyEnd::Ended(RunEnd::Exit(3)));
    assert_eq!(view.launches()[0].duration, 1 << 40);
    assert_eq!(view.profile()[0].active_lanes, u64::MAX);
    let mut part = [0; 3];
    assert!(view.read_stream(4, CopyStream::Output, 5000, &mut part));
    assert_eq!(part, runs[4].standard_output[5000..5003]);
    assert!(!view.read_stream(4, CopyStream::Output, 9999, &mut part));
    assert!(!view.read_stream(0, CopyStream::Output, 0, &mut part));
    assert_eq!(view.replace_input(5, b"a\nb\n".to_vec()).unwrap().more_requests, [b"b"]);
    assert_eq!(view.replace_input(1, b"a\nb\n".to_vec()).unwrap().bytes, b"a\nb\n");
    let call = view.call(1, 1).unwrap();
    let event = usize::try_from(call.event).unwrap();
    assert_eq!(opened.describe_call(event).unwrap(), "fd_write(fd=1, iovs=0, bytes=8)");
    let events = (0..opened.events.len()).filter_map(|e| opened.describe_call(e));
    let texts: Vec<String> = events.collect();
    assert!(texts[0].starts_with("run(copies=6)"), "{texts:?}");
    assert!(texts.iter().any(|t| t == "10 bytes of standard input"), "{texts:?}");
    assert!(texts.iter().any(|t| t == "exit(code=3)"));
    assert!(
        texts
            .iter()
            .any(|t| t.starts_with("trap: unreachable(function=3, offset="))
    );
}

#[test]
fn lost_calls_and_unknown_functions_come_back() {
    let options = RunOptions::default();
    let inputs = [input("a", b"0123456789")];
    let mut runs = run(&inputs, &options);
    runs[0].lost_calls = 1 << 40;
    runs[0].calls[0].function = 4000;
    runs[0].calls[1].result = i32::MIN;
    let view = read(&record(&inputs, &runs, &options)).unwrap();
    assert_eq!(view.result(0).as_ref(), runs.first());
}

#[test]
fn differences_name_the_input_and_the_call() {
    let options = RunOptions::default();
    let first = inputs();
    let mut second = inputs();
    second[1].bytes = b"0123456789abcdefgh".to_vec();
    second.swap(3, 4);
    second[0].name = "other".into();
    let other_options = RunOptions {
        seed: 9,
        ..RunOptions::default()
    };
    let (a, b) = (
        read(&recorded(&first, &options)).unwrap(),
        read(&recorded(&second, &other_options)).unwrap(),
    );
    let found = WasmDifference::find(&a, &b, &Progress::new()).unwrap();
    assert!(!found.is_same() && !found.program_differs);
    assert_eq!(found.options, [("seed", "0".to_owned(), "9".to_owned())]);
    assert_eq!(
        (found.only_first.as_slice(), found.only_second.as_slice()),
        (&["empty".to_owned()][..], &["other".to_owned()][..])
    );
    assert_eq!(found.changed_inputs, ["short"]);
    assert_eq!(found.compared, 5);
    let [copy] = found.copies.as_slice() else {
        panic!("{:?}", found.copies);
    };
    assert!(copy.input_differs && copy.input == "short" && copy.copies == [1, 1]);
    let texts: Vec<String> = copy.differences.iter().map(ToString::to_string).collect();
    // The third call is the second read, of 2 and of 8 bytes.
    assert!(
        texts[0].starts_with("system call 2: fd_read(fd=0, iovs=0) = 0 (2 bytes) and "),
        "{texts:?}"
    );
    assert_eq!(texts[1], "standard output differs at byte 10");
    let same = WasmDifference::find(&a, &a, &Progress::new()).unwrap();
    assert!(same.is_same() && same.compared == 6);
}

#[test]
fn damaged_recordings_are_errors() {
    let options = RunOptions::default();
    let whole = recorded(&inputs(), &options);
    assert_eq!(read(&Recording::default()).unwrap_err(), WasmRecordingError::NotWasm);
    let check = |change: &dyn Fn(&mut Recording), text: &str| {
        let mut changed = whole.clone();
        change(&mut changed);
        let error = read(&changed).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    check(&|r| r.extras.clear(), "the section `wasm-run` is missing");
    check(
        &|r| drop(r.extras.insert("wasm-run".into(), b"{}".to_vec())),
        "missing field",
    );
    check(
        &|r| drop(r.extras.insert("wasm-profile".into(), vec![0; 25])),
        "no multiple of 24",
    );
    let edit = |r: &mut Recording, from: &str, to: &str| {
        let text = String::from_utf8(r.extras["wasm-run"].clone()).unwrap();
        assert!(text.contains(from), "{text}");
        r.extras
            .insert("wasm-run".into(), text.replacen(from, to, 1).into_bytes());
    };
    check(&|r| edit(r, "\"version\":1", "\"version\":2"), "version 2");
    check(&|r| edit(r, "[3,0,5]", "[3,0,6]"), "the requests of input requests");
    check(&|r| edit(r, "{\"name\":\"empty\"},", ""), "5 inputs have 6 results");
    check(
        &|r| r.events = Default::default(),
        "the recording ends before the start of the run",
    );
    check(&|r| r.memory = Default::default(), "the program");
    let metadata = |r: &mut Recording, change: &dyn Fn(&mut trace_core::recording::ApiTraceMetadata)| {
        if let TraceKind::Api(m) = &mut r.metadata.kind {
            change(m);
        }
    };
    check(&|r| metadata(r, &|m| m.names.clear()), "unknown name");
    check(
        &|r| metadata(r, &|m| m.names.swap(0, 1)),
        "another event than the start of the run",
    );
    check(&|r| metadata(r, &|m| m.modules.clear()), "the program: it is missing");
    check(
        &|r| metadata(r, &|m| m.modules[0].digest.clear()),
        "differ from its digest",
    );
    let share_rows = |r: &mut Recording| {
        let mut rows: Vec<CopyRow> = r.events.copies.iter().collect();
        let long = *rows.iter().max_by_key(|row| row.bytes).unwrap();
        for row in &mut rows {
            let address = long.device().get();
            (row.bytes, row.pages_at, row.to, row.from) = (10_000, long.pages_at, address, address);
        }
        r.events.copies = rows.into();
    };
    check(&share_rows, "more than the");
    check(&|r| metadata(r, &|m| m.modules[0].bytes = u64::MAX), "more than 64 MiB");
}

#[test]
fn many_copies_share_pages() {
    let options = RunOptions::default();
    let inputs: Vec<Input> = (0..2000)
        .map(|n| input(&format!("{n:06}"), format!("line {n}").as_bytes()))
        .collect();
    let recording = recorded(&inputs, &options);
    // Input and output take 16 bytes each.
    assert!(recording.memory.pages.len() < 40, "{}", recording.memory.pages.len());
    let view = read(&recording).unwrap();
    assert_eq!(view.stream(1999, CopyStream::Output).unwrap(), b"line 1999");
    let names = input_names(view.copies().iter().map(|c| c.name.as_str()));
    assert_eq!((names["000005"], names["in5"]), (5, 5));
}

#[test]
fn copies_of_a_stopped_run_have_no_result() {
    let inputs = inputs();
    let mut runs = run(&inputs, &RunOptions::default());
    let (first, last) = (runs.remove(0), runs.pop().unwrap());
    let count = inputs.len();
    let mut stopped = RunToRecord {
        program: &program(),
        program_name: "copy.wasm",
        options: &RunOptions::default(),
        target: Target::default(),
        inputs: &inputs,
        runs: &[first, last],
        unfinished: &(1..count - 1).map(|number| (number, number == 1)).collect(),
        launches: &[],
        profile: &[],
        tool: "test",
        when: "",
        source: "wasm-run",
        edits: Vec::new(),
    };
    let view = read(&to_recording(&stopped, &Progress::new()).unwrap()).unwrap();
    let ends: Vec<bool> = view.copies().iter().map(|c| c.end.ended().is_some()).collect();
    assert_eq!(ends.iter().filter(|e| **e).count(), 2);
    assert!(ends[0] && ends[count - 1]);
    assert_eq!(view.copies()[1].end, CopyEnd::Running);
    assert_eq!(view.copies()[2].end, CopyEnd::Waiting);
    assert_eq!(view.result(1), None);
    assert_eq!(view.input(1).unwrap(), inputs[1]);
    assert_eq!(view.result(0).unwrap(), stopped.runs[0]);
    stopped.unfinished = &ALL_ENDED;
    let missing = to_recording(&stopped, &Progress::new());
    assert!(matches!(missing, Err(WasmRecordingError::Results { .. })));
}

#[test]
fn inputs_of_many_requests_are_divided_in_one_pass() {
    let mut all = input("a", b"first");
    all.more_requests = (0..100_000u32).map(|n| n.to_le_bytes().to_vec()).collect();
    let runs = run(&[input("a", b"x")], &RunOptions::default());
    let recording = record(&[all.clone()], &runs, &RunOptions::default());
    let read = WasmRun::from_recording(&recording, &Progress::new()).unwrap();
    assert_eq!(read.input(0), Some(all));
}

#[test]
fn inputs_of_the_same_name_are_refused() {
    let inputs = [input("a", b"x"), input("a", b"y")];
    let runs = run(&inputs, &RunOptions::default());
    let recording = record(&inputs, &runs, &RunOptions::default());
    let error = WasmRun::from_recording(&recording, &Progress::new()).unwrap_err();
    assert!(error.to_string().contains("two inputs have the name a"), "{error}");
}

#[test]
fn long_names_of_functions_are_shortened() {
    let mut runs = run(&[input("a", b"!")], &RunOptions::default());
    let RunEnd::Trap(trap) = &mut runs[0].end else {
        panic!("{:?}", runs[0].end)
    };
    // Two bytes for each letter: the limit is inside of none.
    trap.place.as_mut().unwrap().function = format!("x{}", "ä".repeat(5000));
    let recording = record(&[input("a", b"!")], &runs, &RunOptions::default());
    let read = WasmRun::from_recording(&recording, &Progress::new()).unwrap();
    let CopyEnd::Ended(RunEnd::Trap(trap)) = &read.copies()[0].end else {
        panic!()
    };
    let name = &trap.place.as_ref().unwrap().function;
    assert!(
        name.len() <= MAX_FUNCTION_NAME && name.len() > MAX_FUNCTION_NAME - 2,
        "{}",
        name.len()
    );
    assert!(name.starts_with("xää"));
}
