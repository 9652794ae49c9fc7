//! `wasm run` on real programs: outputs, reports, traps, refusals, cancellation.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use whole_program_tests::wasm_programs::{TEST_PROGRAMS, TestProgram};
use whole_program_tests::{HANG_LIMIT, ProgramOutput, program, run, send_signal};

/// Number of inputs of each test program.
const INPUTS: u64 = 6;

fn path_text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Runs `wasm run` with the outputs in `out` of the folder.
fn wasm_run(folder: &TempDir, program: &Path, inputs: &Path, more: &[&str]) -> ProgramOutput {
    let (program, inputs) = (path_text(program), path_text(inputs));
    let out = path_text(&folder.path().join("out"));
    let start = ["wasm", "run", &program, "--inputs", &inputs, "-o", &out];
    run(start.iter().chain(more))
}

/// Writes a file of the folder, and returns its path.
fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

fn output(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join("out").join(name)).unwrap()
}

fn test_program(name: &str) -> &'static TestProgram {
    TEST_PROGRAMS.iter().find(|p| p.name == name).unwrap()
}

#[test]
fn test_programs_give_the_outputs_of_other_implementations() {
    for program in &TEST_PROGRAMS {
        let folder = tempfile::tempdir().unwrap();
        let inputs = folder.path().join("inputs");
        fs::create_dir(&inputs).unwrap();
        for seed in 0..INPUTS {
            fs::write(inputs.join(format!("{seed:03}.in")), program.make_input(seed)).unwrap();
        }
        let arguments: Vec<&str> = program.arguments.iter().flat_map(|a| ["--arg", a]).collect();
        let ended = wasm_run(
            &folder,
            &program.path(),
            &inputs,
            &[&arguments[..], &["--json"]].concat(),
        );
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", program.name);
        let report = ended.json();
        let runs = report["runs"].as_array().unwrap();
        assert_eq!(runs.len() as u64, INPUTS);
        for (seed, run) in (0..).zip(runs) {
            let name = format!("{seed:03}.in");
            assert_eq!(*run, json!({ "input": name, "exit": 0, "trap": null }));
            let written = fs::read(folder.path().join("out").join(format!("{name}.stdout"))).unwrap();
            program.check_output(&program.make_input(seed), &written).unwrap();
            assert!(folder.path().join("out").join(format!("{name}.stderr")).exists());
        }
    }
}

#[test]
fn published_vector_of_pbkdf2() {
    // RFC 7914, section 11: the first 32 bytes of each key.
    for (rounds, pair, key) in [
        (
            "1",
            "passwd\tsalt",
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc",
        ),
        (
            "80000",
            "Password\tNaCl",
            "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let input = write(&folder, "pair", pair);
        let ended = wasm_run(&folder, &test_program("pbkdf2").path(), &input, &["--arg", rounds]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(output(&folder, "pair.stdout"), format!("{key}\n"));
    }
}

#[test]
fn arguments_environment_and_exit_codes_of_a_c_program() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = write(&folder, "lines.jsonl", "one 1.5\n\nno number\none 1e3\n");
    let filter = test_program("filter").path();
    let more = ["--arg", "--upper", "--env", "PREFIX=>", "--calls"];
    let ended = wasm_run(&folder, &filter, &inputs, &more);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines[0], "000003: exit code 1");
    assert!(
        lines[1].starts_with("3 inputs in ") && lines[1].contains(", 1 failed; outputs in "),
        "{ended:?}"
    );
    assert_eq!(output(&folder, "000001.stdout"), ">   1  ONE 1.5\nsum 1.5\n");
    assert_eq!(output(&folder, "000001.stderr"), "1 lines, 0 without a number\n");
    assert_eq!(output(&folder, "000004.stdout"), ">   1  ONE 1E3\nsum 1000\n");
    let calls = output(&folder, "000003.calls");
    assert!(
        calls.contains("fd_read(fd=0, ") && calls.contains("proc_exit(code=1) = 0"),
        "{calls}"
    );
    assert!(!folder.path().join("out/000002.stdout").exists());
}

/// Divides 100 by the number of bytes of the input, and calls through a table with it.
const DIVIDER: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_filestat_get" (func $stat (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (func $divide (param i32) (result i32) (i32.div_u (i32.const 100) (local.get 0)))
    (func (export "_start")
        (drop (call $stat (i32.const 0) (i32.const 0)))
        (call $exit (i32.sub (call $divide (i32.load (i32.const 32))) (i32.const 100)))))"#;

#[test]
fn a_failed_copy_is_in_the_report_with_its_trap() {
    let folder = tempfile::tempdir().unwrap();
    let program = write(&folder, "divider.wat", DIVIDER);
    let inputs = folder.path().join("inputs");
    fs::create_dir(&inputs).unwrap();
    for (name, content) in [("a", "1"), ("b", ""), ("c", "12")] {
        fs::write(inputs.join(name), content).unwrap();
    }
    let ended = wasm_run(&folder, &program, &inputs, &["--json", "--copies", "1"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = ended.json();
    assert_eq!(report["copies"], 1);
    assert_eq!(report["runs"][0], json!({ "input": "a", "exit": 0, "trap": null }));
    assert_eq!(report["runs"][1]["exit"], Value::Null);
    assert_eq!(report["runs"][1]["trap"]["kind"], "integer divide by zero");
    assert_eq!(report["runs"][1]["trap"]["function"], "divide");
    assert_eq!(report["runs"][2]["exit"], 0xffff_ffce_u32);
    let text = wasm_run(&folder, &program, &inputs, &[]);
    assert_eq!(text.code, Some(1));
    let offset = report["runs"][1]["trap"]["offset"].as_str().unwrap();
    let line = format!("b: trap: integer divide by zero in divide at byte {offset}");
    assert_eq!(text.out.lines().next(), Some(line.as_str()));
}

#[test]
fn equal_runs_are_equal_on_any_number_of_copies() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
        (import "kinescope" "respond" (func $respond (param i32 i32)))
        (memory (export "memory") 1)
        (func (export "_start")
            (drop (call $random (i32.const 0) (i32.const 8)))
            (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 8)))
            (call $respond (i32.const 0) (i32.const 16))))"#;
    let outputs = |copies: &str, seed: &str| -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let program = write(&folder, "random.wat", text);
        let inputs = write(&folder, "lines.jsonl", "x\n".repeat(20));
        let ended = wasm_run(&folder, &program, &inputs, &["--copies", copies, "--seed", seed]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let names = (1..=20).map(|n| folder.path().join(format!("out/{n:06}.stdout")));
        names.map(|path| fs::read(path).unwrap()).collect()
    };
    let one = outputs("1", "5");
    assert_eq!(one, outputs("8", "5"));
    assert_ne!(one, outputs("8", "6"));
    assert!(one.windows(2).all(|w| w[0] != w[1] && w[0][8..] == w[1][8..]));
}

#[test]
fn lines_are_requests_of_a_server() {
    let text = r#"(module
        (import "env" "serverless_invoke" (func $invoke (param i32 i32) (result i32)))
        (import "env" "serverless_response" (func $respond (param i32 i32)))
        (memory (export "memory") 1)
        (func (export "_start") (local $length i32)
            (loop $next
                (local.set $length (call $invoke (i32.const 0) (i32.const 1000)))
                (i32.store8 (local.get $length) (i32.const 10))
                (call $respond (i32.const 0) (i32.add (local.get $length) (i32.const 1)))
                (br $next))))"#;
    let folder = tempfile::tempdir().unwrap();
    let program = write(&folder, "server.wat", text);
    let requests = write(&folder, "requests", "first\nsecond request\n\nlast");
    let ended = wasm_run(&folder, &program, &requests, &["--requests"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(output(&folder, "requests.stdout"), "first\nsecond request\n\nlast\n");
}

#[test]
fn limits_are_traps() {
    let folder = tempfile::tempdir().unwrap();
    let input = write(&folder, "input", "");
    let endless = write(
        &folder,
        "endless.wat",
        "(module (func (export \"_start\") (loop (br 0))))",
    );
    for limit in [["--limit-time", "0.05"], ["--limit-fuel", "100000"]] {
        let ended = wasm_run(&folder, &endless, &input, &limit);
        assert_eq!(
            (ended.code, ended.out.lines().next()),
            (Some(1), Some("input: trap: time limit"))
        );
    }
    let deep = "(module (func $deep (export \"_start\") (call $deep)))";
    let deep = write(&folder, "deep.wat", deep);
    let ended = wasm_run(&folder, &deep, &input, &["--limit-depth", "50"]);
    assert!(
        ended
            .out
            .starts_with("input: trap: call stack exhausted in deep at byte 0x"),
        "{ended:?}"
    );
    let filter = test_program("filter").path();
    let ended = wasm_run(&folder, &filter, &input, &["--limit-output", "3", "--json"]);
    assert_eq!(ended.json()["runs"][0]["trap"]["kind"], "output limit");
    assert_eq!(output(&folder, "input.stdout"), "sum");
    wasm_run(&folder, &filter, &input, &["--limit-memory", "64KiB"]).assert_refused("raise --limit-memory");
}

#[test]
fn refusals_name_file_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let input = write(&folder, "input", "");
    let refused = |name: &str, content: &[u8], more: &[&str], message: &str| {
        let program = write(&folder, name, content);
        wasm_run(&folder, &program, &input, more).assert_refused(message);
    };
    let good = b"(module (func (export \"_start\")))";
    refused("zeros.wasm", &[0; 64], &[], "zeros.wasm: ");
    refused("cut.wasm", b"\0asm\x01\0\0\0\x01\x40", &[], "cut.wasm: byte 0xa: ");
    refused(
        "picture.wasm",
        b"\x89PNG\r\n\x1a\n\xff",
        &[],
        "no WebAssembly program: neither the binary form",
    );
    refused(
        "bad.wat",
        b"(module\n  (func (bogus)))",
        &[],
        "bad.wat: line 2, column 10: unknown operator",
    );
    refused("type.wat", b"(module (func (result i32)))", &[], "type.wat: byte 0x");
    refused(
        "simd.wat",
        b"(module (func (drop (v128.const i64x2 0 0))))",
        &[],
        "SIMD",
    );
    let import = b"(module (import \"env\" \"printf\" (func)) (func (export \"_start\")))";
    refused(
        "import.wat",
        import,
        &[],
        "import env.printf: no system call has this name",
    );
    refused(
        "main.wat",
        b"(module (func (export \"main\")))",
        &[],
        "the program exports main",
    );
    refused("good.wat", good, &["--on", "gpu"], "run on cpu, cuda:N and interpreter");
    refused(
        "good.wat",
        good,
        &["--on", "agent:a/cuda0"],
        "no agent called `a` is paired",
    );
    refused("good.wat", good, &["--on", "agent:a"], "the device is missing");
    refused("good.wat", good, &["--limit-memory", "5GiB"], "at most 4GiB");
    let program = write(&folder, "good.wat", good);
    let variable = wasm_run(&folder, &program, &input, &["--env", "=x"]);
    assert!(
        variable.code == Some(2) && variable.err.contains("expected NAME=VALUE"),
        "{variable:?}"
    );
    let missing = folder.path().join("missing");
    wasm_run(&folder, &program, &missing, &[]).assert_refused("missing: No such file");
    wasm_run(&folder, &missing, &input, &[]).assert_refused("missing: No such file");
    // Outputs never replace inputs.
    let here = path_text(folder.path());
    let into_inputs = [
        "wasm",
        "run",
        &path_text(&program),
        "--inputs",
        &path_text(&input),
        "-o",
        &here,
    ];
    run(into_inputs).assert_refused("outputs could replace");
}

/// Ends at once for an empty input, and never for another one.
const ENDLESS: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_filestat_get" (func $stat (param i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "_start")
        (drop (call $stat (i32.const 0) (i32.const 0)))
        (if (i32.load (i32.const 32)) (then (loop (br 0))))))"#;

/// Starts the endless program with one copy at a time, waits for the end of the first one, and sends a signal.
fn interrupt(folder: &TempDir, signal: &str, more: &[&str]) -> ProgramOutput {
    let endless = write(folder, "endless.wat", ENDLESS);
    let inputs = folder.path().join("inputs");
    fs::create_dir_all(&inputs).unwrap();
    for (name, content) in [("a", ""), ("b", "x"), ("c", ""), ("d", "")] {
        fs::write(inputs.join(name), content).unwrap();
    }
    let out = folder.path().join("out");
    let running = Command::new(program("kinescope"))
        .args(["wasm", "run", &path_text(&endless), "--inputs", &path_text(&inputs)])
        .args(["--limit-time", "0", "--copies", "1", "-o", &path_text(&out)])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !out.join("a.stderr").exists() {
        assert!(started.elapsed() < HANG_LIMIT, "the first copy does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The next copy has started.
    std::thread::sleep(Duration::from_millis(300));
    send_signal(running.id(), signal);
    ProgramOutput::from(running.wait_with_output().unwrap())
}

#[test]
fn an_interrupted_run_ends_soon() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let folder = tempfile::tempdir().unwrap();
        let (out, recording) = (folder.path().join("out"), folder.path().join("stopped.kine"));
        let ended = interrupt(&folder, signal, &["--record", &path_text(&recording)]);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let message = format!(
            "kinescope: stopped: 1 of 4 inputs finished, 0 failed, 1 running, 2 not run; outputs are in {}; report.json \
             is not written, {} is\n",
            out.display(),
            recording.display()
        );
        assert_eq!(ended.err, message);
        assert!(!out.join("report.json").exists());
        // The recording has the copy that ended, and says that the others did not.
        let recording = path_text(&recording);
        let counts = &run(["info", &recording, "--json"]).json()["run"];
        assert_eq!(
            (&counts["inputs"], &counts["unfinished"], &counts["running"]),
            (&json!(4), &json!(3), &json!(1))
        );
        assert!(
            run(["info", &recording])
                .out
                .contains("0 trapped, 1 running, 2 not run\n")
        );
        let findings = run(["check", &recording]).out;
        assert!(
            findings
                .contains("the run stopped before 3 of 4 copies ended, 1 running and 2 not started: inputs b, c, d"),
            "{findings}"
        );
        assert!(run(["events", &recording]).out.contains("running"));
        let refused = run(["diff", &recording, &recording]);
        assert_eq!(refused.code, Some(2));
        assert!(refused.err.contains("before the copy of input b ended"), "{refused:?}");
        // A replay would never end: it does not start.
        run(["replay", &recording, "--on", "cpu"]).assert_refused("before the copy of input b ended");
    }
}

#[test]
fn an_interrupted_run_without_a_recording_counts_too() {
    let folder = tempfile::tempdir().unwrap();
    let ended = interrupt(&folder, "INT", &[]);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(
        ended
            .err
            .starts_with("kinescope: stopped: 1 of 4 inputs finished, 0 failed, 1 running, 2 not run; ")
            && ended.err.ends_with("report.json is not written\n"),
        "{ended:?}"
    );
}

#[test]
fn profile_counts_active_lanes_of_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let program = write(&folder, "divider.wat", DIVIDER);
    let inputs = folder.path().join("inputs");
    fs::create_dir(&inputs).unwrap();
    for name in ["a", "b", "c", "d"] {
        fs::write(inputs.join(name), "1").unwrap();
    }
    let on = ["--on", "interpreter"];
    let without = wasm_run(&folder, &program, &inputs, &[&on[..], &["--json"]].concat());
    assert_eq!(without.json()["profile"], Value::Null);
    let report = wasm_run(
        &folder,
        &program,
        &inputs,
        &[&on[..], &["--profile", "--json"]].concat(),
    )
    .json();
    let blocks = report["profile"].as_array().unwrap();
    let divide = blocks.iter().find(|b| b["function"] == "divide").unwrap();
    assert_eq!(
        (&divide["executions"], &divide["active_share"]),
        (&json!(1), &json!(0.125))
    );
    let text = wasm_run(&folder, &program, &inputs, &[&on[..], &["--profile"]].concat());
    assert!(
        text.out
            .lines()
            .any(|line| line.contains("divide") && line.split_whitespace().skip(1).eq(["divide", "1", "12", "%"])),
        "{text:?}"
    );
    let cpu = wasm_run(&folder, &program, &inputs, &["--profile"]);
    assert_eq!(cpu.code, Some(2));
    assert!(
        cpu.err
            .contains("--profile: a profile counts the active lanes of a GPU"),
        "{cpu:?}"
    );
}
