//! WebAssembly programs translated: interpreted, and in a worker process on the stand-in driver.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::cuda::CudaStandIn;
use whole_program_tests::cuda::run_to_end;
use whole_program_tests::wasm_programs::{TEST_PROGRAMS, TestProgram};
use whole_program_tests::{HANG_LIMIT, ProgramOutput, program, run, send_signal};

/// Copies the first four bytes of its input in reverse order; traps for `trap`, exits with 5 for `exit`.
const REVERSE: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1 1)
  (data (i32.const 0) "\40\00\00\00\04\00\00\00")
  (func $byte (param $from i32) (param $to i32) (i32.store8 (local.get $to) (i32.load8_u (local.get $from))))
  (func $check (param $word i32)
    (if (i32.eq (local.get $word) (i32.const 0x70617274)) (then unreachable))
    (if (i32.eq (local.get $word) (i32.const 0x74697865)) (then (call $exit (i32.const 5)))))
  (func (export "_start")
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $check (i32.load (i32.const 64)))
    (call $byte (i32.const 64) (i32.const 83)) (call $byte (i32.const 65) (i32.const 82))
    (call $byte (i32.const 66) (i32.const 81)) (call $byte (i32.const 67) (i32.const 80))
    (i32.store (i32.const 0) (i32.const 80))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// The stand-in with a program and 70 inputs: input 33 traps, input 40 exits with 5.
struct Machine {
    stand_in: CudaStandIn,
}

impl Machine {
    fn new() -> Self {
        let stand_in = CudaStandIn::default();
        fs::write(stand_in.file("reverse.wat"), REVERSE).unwrap();
        let lines = (0..70).map(|n| match n {
            33 => "trap\n".to_owned(),
            40 => "exit\n".to_owned(),
            n => format!("{n:04}\n"),
        });
        fs::write(stand_in.file("inputs.jsonl"), lines.collect::<String>()).unwrap();
        Self { stand_in }
    }

    /// Runs `kinescope wasm` with the stand-in as the driver.
    fn wasm(&self, verb: &str, more: &[&str]) -> ProgramOutput {
        let mut command = Command::new(program("kinescope"));
        command
            .arg("wasm")
            .arg(verb)
            .arg(self.stand_in.file("reverse.wat"))
            .args(more);
        command.env("XDG_CACHE_HOME", self.stand_in.file("cache"));
        run_to_end(self.stand_in.set_environment(&mut command))
    }

    fn run(&self, on: &str, out: &str, more: &[&str]) -> ProgramOutput {
        let (inputs, out) = (self.text("inputs.jsonl"), self.text(out));
        self.wasm(
            "run",
            &[&["--inputs", &inputs, "--on", on, "-o", &out, "--calls"], more].concat(),
        )
    }

    fn text(&self, name: &str) -> String {
        self.stand_in.file(name).to_str().unwrap().to_owned()
    }
}

/// Returns the files of a folder but the report, with their contents.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name() != "report.json")
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn copies_on_a_gpu_give_the_results_of_the_cpu() {
    let machine = Machine::new();
    let cpu = machine.run("cpu", "cpu", &["--json"]);
    assert_eq!(cpu.code, Some(1), "{cpu:?}");
    for (name, more) in [
        ("whole", &["--json"][..]),
        ("few", &["--json", "--copies", "3", "--sort"]),
        ("strict", &["--json", "--strict", "--cell", "16", "--no-cache"]),
    ] {
        let gpu = machine.run("cuda:0", name, more);
        assert_eq!(gpu.code, Some(1), "{name}: {gpu:?}");
        assert_eq!(gpu.json()["runs"], cpu.json()["runs"], "{name}");
        assert_eq!(
            files(&machine.stand_in.file(name)),
            files(&machine.stand_in.file("cpu")),
            "{name}"
        );
    }
    let report: Value = serde_json::from_slice(&fs::read(machine.stand_in.file("whole/report.json")).unwrap()).unwrap();
    assert_eq!(report["copies"], 70);
    let few: Value = serde_json::from_slice(&fs::read(machine.stand_in.file("few/report.json")).unwrap()).unwrap();
    assert_eq!(few["copies"], 3);
    // The first two runs shared a compilation, and the third kept none.
    assert_eq!(
        fs::read_dir(machine.stand_in.file("cache/kinescope/wasm"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn targets_are_compared() {
    let machine = Machine::new();
    let inputs = machine.text("inputs.jsonl");
    for on in ["interpreter", "cuda:0"] {
        let checked = machine.wasm("check", &["--inputs", &inputs, "--on", on]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        assert_eq!(
            checked.out.trim_end(),
            format!("70 inputs: cpu and {on} have equal results")
        );
    }
    let refused = machine.wasm("check", &["--inputs", &inputs, "--on", "cpu"]);
    refused.assert_refused("give the target that is compared");
}

#[test]
fn a_gpu_that_is_missing_or_fails_is_an_error() {
    let machine = Machine::new();
    machine
        .run("cuda:7", "out", &[])
        .assert_refused("there is no device cuda:7");
    let inputs = machine.text("inputs.jsonl");
    let mut command = Command::new(program("kinescope"));
    command
        .args(["wasm", "check"])
        .arg(machine.stand_in.file("reverse.wat"));
    command.args(["--inputs", &inputs, "--on", "cuda:0"]);
    command.env("KINESCOPE_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
    run_to_end(&mut command).assert_refused("there is no CUDA driver here");
}

/// Runs the program with another program as the worker process.
fn run_with_worker(machine: &Machine, worker: &str) -> ProgramOutput {
    let mut command = Command::new(program("kinescope"));
    command.args(["wasm", "run"]).arg(machine.stand_in.file("reverse.wat"));
    command.args([
        "--inputs",
        &machine.text("inputs.jsonl"),
        "--on",
        "cuda:0",
        "-o",
        &machine.text("out"),
    ]);
    run_to_end(command.env("KINESCOPE_CALLS_PLAYER", worker))
}

#[test]
fn a_worker_that_ends_or_says_nonsense_is_an_error() {
    let machine = Machine::new();
    run_with_worker(&machine, "/bin/false")
        .assert_refused("the worker process ended before its last result: exit status: 1");
    run_with_worker(&machine, "/bin/echo").assert_refused("the worker process: a message of");
    run_with_worker(&machine, "/nowhere/worker").assert_refused("the worker process cannot start");
}

#[test]
fn a_signal_ends_a_run_whose_copy_never_ends() {
    let machine = Machine::new();
    let endless = machine.stand_in.file("endless.wat");
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_filestat_get" (func $stat (param i32 i32) (result i32)))
        (memory (export "memory") 1 1)
        (func (export "_start")
            (drop (call $stat (i32.const 0) (i32.const 0)))
            (loop $forever (br_if $forever (i64.ne (i64.load (i32.const 32)) (i64.const 0))))))"#;
    fs::write(&endless, text).unwrap();
    let inputs = machine.stand_in.file("endless-inputs");
    fs::create_dir(&inputs).unwrap();
    fs::write(inputs.join("a"), "").unwrap();
    fs::write(inputs.join("b"), "x").unwrap();
    let out = machine.stand_in.file("endless");
    let started = Instant::now();
    let mut command = Command::new(program("kinescope"));
    command.args(["wasm", "run"]).arg(&endless).arg("--inputs").arg(&inputs);
    command
        .args(["--on", "cuda:0", "--strict", "--no-cache", "--limit-time", "0", "-o"])
        .arg(&out);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = machine.stand_in.set_environment(&mut command).spawn().unwrap();
    while !out.join("a.stderr").exists() {
        assert!(started.elapsed() < HANG_LIMIT, "the first copy does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    send_signal(running.id(), "INT");
    let ended = ProgramOutput::from(running.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(!out.join("report.json").exists());
}

#[test]
fn the_text_of_a_program_is_written_and_described() {
    let machine = Machine::new();
    let to = machine.text("reverse.ptx");
    let described = machine.wasm("translate", &["-o", &to, "--json"]).json();
    let text = fs::read_to_string(&to).unwrap();
    assert!(text.contains("// kinescope wasm 1"));
    assert_eq!(described["text_bytes"], text.len());
    assert_eq!(described["cell"], 4);
    assert_eq!(described["memories"][0]["max_pages"], 1);
    assert_eq!(described["memories"][1]["placement"], "contiguous");
    let printed = machine.wasm("translate", &["-o", &to, "--cell", "8"]);
    assert!(printed.out.contains("cells of 8 bytes"), "{printed:?}");
}

#[test]
fn measurements_have_a_row_for_each_cell_size() {
    let machine = Machine::new();
    let inputs = machine.text("inputs.jsonl");
    let measured = machine
        .wasm("bench", &["--inputs", &inputs, "--on", "cuda:0", "--json"])
        .json();
    let rows = measured.as_array().unwrap();
    let cells: Vec<_> = rows.iter().map(|r| r["cell"].as_u64()).collect();
    assert_eq!(cells, [None, Some(4), Some(8), Some(16)]);
    assert!(rows.iter().all(|r| r["failed"] == 2 && r["inputs"] == 70));
}

/// Compares a test program interpreted with the CPU.
fn check_program(program: &TestProgram) {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..2 {
        fs::write(folder.path().join(format!("{seed}")), program.make_input(seed)).unwrap();
    }
    let (path, inputs) = (program.path(), folder.path().to_str().unwrap().to_owned());
    let mut arguments = vec!["wasm", "check", path.to_str().unwrap(), "--inputs", &inputs];
    arguments.extend(program.arguments.iter().flat_map(|a| ["--arg", a]));
    let checked = run(arguments);
    assert_eq!(checked.code, Some(0), "{}: {checked:?}", program.name);
}

#[test]
fn programs_on_text_are_equal_translated() {
    for name in ["wordcount", "filter", "lz4", "histogram"] {
        check_program(TEST_PROGRAMS.iter().find(|p| p.name == name).unwrap());
    }
}

/// Calls itself as often as the first byte of its input says.
const RECURSIVE: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1 1)
  (data (i32.const 0) "\40\00\00\00\01\00\00\00")
  (func $down (param $n i32) (result i32)
    (if (result i32) (local.get $n)
      (then (i32.add (i32.load8_u (local.get $n)) (call $down (i32.sub (local.get $n) (i32.const 1)))))
      (else (i32.const 0))))
  (func (export "_start")
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (drop (call $down (i32.load8_u (i32.const 64))))))"#;

#[test]
fn a_lowered_limit_of_nested_calls_is_reported() {
    let machine = Machine::new();
    fs::write(machine.stand_in.file("reverse.wat"), RECURSIVE).unwrap();
    // The first byte is the number of nested calls: more than the first stack has.
    fs::write(machine.stand_in.file("inputs.jsonl"), "\u{c0}\n").unwrap();
    let run = |more: &[&str]| {
        let mut command = Command::new(program("kinescope"));
        command.args(["wasm", "run", &machine.text("reverse.wat")]);
        command.args(["--inputs", &machine.text("inputs.jsonl"), "--on", "cuda:0"]);
        command.args(["-o", &machine.text("out")]).args(more);
        command.env("XDG_CACHE_HOME", machine.stand_in.file("cache"));
        // Half of the memory is the stack of 32,768 threads: room for some hundred calls.
        command.env("STAND_IN_MEMORY", (4u64 << 30).to_string());
        run_to_end(machine.stand_in.set_environment(&mut command))
    };
    let report = run(&["--json"]);
    assert_eq!(report.code, Some(0), "{report:?}");
    let depth = report.json()["call_depth"].as_u64().unwrap();
    assert!((64..1024).contains(&depth), "{depth}");
    let text = run(&[]);
    let note = format!("note: a copy has at most {depth} nested calls, not 1024");
    assert!(text.out.contains(&note), "{text:?}");
    let small = run(&["--json", "--limit-depth", "70"]);
    assert_eq!(small.json()["call_depth"], 70);
}
