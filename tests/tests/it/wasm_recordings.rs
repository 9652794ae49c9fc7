//! Recordings of WebAssembly runs: `wasm run --record`, `replay` on other targets and with other inputs, `diff`, and the
//! verbs of API traces on them.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use whole_program_tests::wasm_programs::TEST_PROGRAMS;
use whole_program_tests::{ProgramOutput, root, run};

/// A folder with inputs and recordings of a program.
struct Runs {
    folder: TempDir,
    program: PathBuf,
}

impl Runs {
    fn new(program: &str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            program: root().join("tests/wasm/programs").join(program),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        self.path(name)
    }

    /// Records a run over `inputs`, and returns the path of the recording.
    fn record(&self, inputs: &str, file: &str, more: &[&str]) -> String {
        let file = self.path(file);
        let (out, program) = (self.path("out"), self.program.to_str().unwrap());
        let start = [
            "wasm", "run", program, "--inputs", inputs, "-o", &out, "--record", &file,
        ];
        let ended = run(start.iter().chain(more));
        assert!(ended.code.is_some_and(|c| c < 2), "{ended:?}");
        file
    }
}

fn replay(file: &str, on: &str, more: &[&str]) -> ProgramOutput {
    run(["replay", file, "--on", on].iter().chain(more))
}

fn diff(first: &str, second: &str) -> (Option<i32>, Value) {
    let ended = run(["diff", first, second, "--json"]);
    (ended.code, ended.json())
}

#[test]
fn programs_replay_equal_on_other_targets() {
    for program in TEST_PROGRAMS
        .iter()
        .filter(|p| ["wordcount", "lz4", "histogram"].contains(&p.name))
    {
        let runs = Runs::new(&format!("{}.wasm", program.name));
        for seed in 0..3 {
            runs.write(&format!("inputs/{seed}.in"), program.make_input(seed));
        }
        let arguments: Vec<&str> = program.arguments.iter().flat_map(|a| ["--arg", a]).collect();
        let cpu = runs.record(&runs.path("inputs"), "cpu.kine", &arguments);
        for target in ["cpu", "interpreter"] {
            let (again, out) = (runs.path(&format!("{target}-again.kine")), runs.path("out0"));
            let assignment = format!("0.in.stdout={out}");
            let ended = replay(&cpu, target, &["-o", &again, "--output", &assignment, "--json"]);
            assert_eq!(ended.code, Some(0), "{}: {ended:?}", program.name);
            let report = ended.json();
            assert_eq!(
                (&report["outcome"], &report["board"]),
                (&json!("match"), &json!(target))
            );
            assert_eq!(
                (&report["copies_matched"], &report["divergence_count"]),
                (&json!(3), &json!(0))
            );
            program
                .check_output(&program.make_input(0), &fs::read(&out).unwrap())
                .unwrap();
            let (code, found) = diff(&cpu, &again);
            assert_eq!(
                (code, &found["same"], &found["compared"]),
                (Some(0), &json!(true), &json!(3)),
                "{found}"
            );
            // The interpreter has launches, which are no differences.
            let launches = run(["launches", &again, "--json"]).json();
            assert_eq!(launches.as_array().unwrap().is_empty(), target == "cpu");
        }
    }
}

#[test]
fn another_input_diverges_and_is_named() {
    let runs = Runs::new("filter.wasm");
    let lines = runs.write("lines.jsonl", "one 1.5\ntwo 2.5\nthree 3.5\n");
    let file = runs.record(&lines, "run.kine", &["--arg", "--upper"]);
    let other = runs.write("other", "two 2.5 and 4.5\nno number\n");
    for (name, on) in [("000002", "cpu"), ("in1", "interpreter")] {
        let outcome = runs.path("outcome.kine");
        let assignment = format!("{name}={other}");
        let ended = replay(&file, on, &["--input", &assignment, "-o", &outcome, "--json"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let report = ended.json();
        assert_eq!(
            (&report["outcome"], &report["divergence_count"]),
            (&json!("diverged"), &json!(1))
        );
        assert_eq!(report["replaced_inputs"], json!(["000002"]));
        let divergence = &report["divergences"][0];
        assert_eq!(
            (&divergence["input"], &divergence["input_differs"]),
            (&json!("000002"), &json!(true))
        );
        assert!(
            divergence["call"]["a"].as_str().unwrap().starts_with("fd_read(fd=0, "),
            "{report}"
        );
        assert!(
            divergence["call"]["a_event"].is_u64() && divergence["stdout_offset"].is_u64(),
            "{report}"
        );
        // The outcome has the replaced input, so the same difference is found later.
        let (code, found) = diff(&file, &outcome);
        assert_eq!((code, &found["changed_inputs"]), (Some(1), &json!(["000002"])));
        assert_eq!(found["copies"][0]["call"], divergence["call"]);
        let text = run(["diff", &file, &outcome]).out;
        assert!(
            text.contains("the results of 1 of 3 inputs differ, first those of 000002"),
            "{text}"
        );
        assert!(
            text.contains("000002 (copy 1): the input differs") && text.contains("  system call "),
            "{text}"
        );
        let info = run(["info", &outcome, "--json"]).json();
        assert_eq!(info["applied_edits"][0]["buffer"], "000002");
    }
}

#[test]
fn diff_tells_inputs_from_results() {
    let runs = Runs::new("filter.wasm");
    let first = runs.record(&runs.write("a.jsonl", "one 1\ntwo 2\n"), "a.kine", &[]);
    let second = runs.record(
        &runs.write("b.jsonl", "one 1\ntwo 2\nthree 3\n"),
        "b.kine",
        &["--env", "PREFIX=>"],
    );
    let (code, found) = diff(&first, &second);
    assert_eq!(code, Some(1));
    assert_eq!(found["only_b"], json!(["000003"]));
    assert_eq!(
        (&found["changed_inputs"], &found["program_differs"]),
        (&json!([]), &json!(false))
    );
    assert_eq!(found["options"][0]["option"], "environment");
    assert_eq!(
        (&found["compared"], found["copies"].as_array().unwrap().len()),
        (&json!(2), 2)
    );
    let refused = run(["diff", &first, &second, "--ignore", "events call"]);
    refused.assert_refused("does not apply to WebAssembly runs");
    let same = run(["diff", &first, &first]);
    assert_eq!(same.code, Some(0));
    assert!(
        same.out
            .starts_with("same program, options and inputs; the results of 2 inputs are the same"),
        "{same:?}"
    );
}

/// Divides 100 by the number of bytes of the input, which traps without input.
const DIVIDE: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $divide (param i32) (drop (i32.div_u (i32.const 100) (local.get 0))))
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 64))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $divide (i32.load (i32.const 8)))))"#;

#[test]
fn traps_and_requests_replay() {
    let mut runs = Runs::new("filter.wasm");
    runs.program = PathBuf::from(runs.write("divide.wat", DIVIDE));
    runs.write("inputs/empty", "");
    runs.write("inputs/full", "abc");
    let file = runs.record(&runs.path("inputs"), "run.kine", &[]);
    for target in ["cpu", "interpreter"] {
        let ended = replay(&file, target, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(
            ended
                .out
                .starts_with("match: the results of 2 of 2 inputs are as recorded\n"),
            "{ended:?}"
        );
    }
    let filled = runs.write("filled", "x");
    let ended = replay(&file, "cpu", &["--input", &format!("empty={filled}")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended
            .out
            .contains("  end: recorded trap: integer divide by zero in divide at byte 0x"),
        "{ended:?}"
    );
    assert!(ended.out.contains(", replayed exit code 0\n"), "{ended:?}");
    let events = run(["events", &file]).out;
    assert!(
        events.contains("trap: integer divide by zero(function=1, offset="),
        "{events}"
    );
}

#[test]
fn verbs_list_inputs_calls_and_outputs() {
    let runs = Runs::new("filter.wasm");
    let file = runs.record(&runs.write("lines.jsonl", "one 1.5\ntwo 2\n"), "run.kine", &[]);
    let events = run(["events", &file, "--json"]).json();
    let means: Vec<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|e| e["means"].as_str())
        .collect();
    assert_eq!(means[0], "run(copies=2)");
    assert!(means.iter().any(|m| m.starts_with("fd_read(fd=0, iovs=")), "{means:?}");
    assert_eq!(means.iter().filter(|m| **m == "exit(code=0)").count(), 2);
    let threads = events.as_array().unwrap().iter().filter(|e| e["thread"] == 1).count();
    assert!(threads > 3, "{events}");
    let info = run(["info", &file]).out;
    assert!(
        info.contains("filter.wasm (") && info.contains("2 (0 trapped, 0 failed)"),
        "{info}"
    );
    let list = run(["memory", &file]).out;
    assert!(
        list.contains("000002.stdout") && list.contains("standard input"),
        "{list}"
    );
    let bytes = run(["memory", &file, "000002", "--json"]).json();
    assert_eq!(bytes["hex"], "74776f2032");
    let output = run(["memory", &file, "000002.stdout", "--json"]).json();
    assert!(output["hex"].as_str().unwrap().ends_with("0a"), "{output}");
    for line in ["verify", "check", "memory", "kernels", "stats", "jobs", "launches"] {
        let ended = run([line, &file]);
        assert!(ended.code.is_some_and(|c| c < 2), "{line}: {ended:?}");
    }
    run(["replay", &file]).assert_refused("`--on cpu` fits this recording");
    run(["replay", &file, "--on", "software:mali-g71"])
        .assert_refused("WebAssembly programs run on cpu, cuda:N and interpreter");
    run(["replay", &file, "--on", "cpu", "--graph"]).assert_refused("--graph does not apply to WebAssembly runs");
    run(["replay", &file, "--on", "cpu", "--input", "none=x"]).assert_refused("no input has the name none");
    run(["replay", &file, "--on", "cpu", "--output", "none=x"]).assert_refused("no output has the name none");
}

#[test]
fn broken_recordings_are_refused() {
    let runs = Runs::new("filter.wasm");
    let file = runs.record(&runs.write("lines.jsonl", "one 1.5\n"), "run.kine", &[]);
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    // A byte of the first page image.
    let page = whole.windows(4).position(|w| w == b"\0asm").unwrap();
    damaged[page + 8] ^= 1;
    let damaged = runs.write("damaged.kine", &damaged);
    run(["replay", &damaged, "--on", "cpu"]).assert_refused("the recording is damaged");
    let cut = runs.path("cut.kine");
    let ended = run(["trim", &file, "--events", "0..=3", "-o", &cut]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    run(["replay", &cut, "--on", "cuda:0"]).assert_refused("the section `wasm-run` is missing: it is no whole run");
    assert_eq!(run(["info", &cut]).code, Some(0));
}

#[test]
fn two_thousand_copies_are_recorded_and_replayed() {
    let runs = Runs::new("wordcount.wasm");
    let lines: String = (0..2000).map(|n| format!("word{n} and {} more\n", n * 7)).collect();
    let lines = runs.write("lines.jsonl", lines);
    let start = Instant::now();
    let file = runs.record(&lines, "run.kine", &[]);
    let bytes = fs::metadata(Path::new(&file)).unwrap().len();
    assert!(bytes < 16 << 20, "{bytes} bytes");
    let opening = Instant::now();
    let info = run(["info", &file, "--json"]).json();
    assert!(opening.elapsed() < Duration::from_secs(20), "{:?}", opening.elapsed());
    assert!(info["events"].as_u64().unwrap() > 10_000, "{info}");
    let ended = replay(&file, "cpu", &["--json"]);
    assert_eq!((ended.code, &ended.json()["copies_matched"]), (Some(0), &json!(2000)));
    let other = runs.write("other", "another text");
    let ended = replay(&file, "cpu", &["--input", &format!("001234={other}"), "--json"]);
    assert_eq!(ended.json()["divergences"][0]["a_copy"], 1233);
    println!("{bytes} bytes, {:?} in all", start.elapsed());
}

#[test]
fn recordings_and_texts_never_replace_programs_inputs_and_outputs() {
    let mut runs = Runs::new("wordcount.wasm");
    let input = runs.write("inputs/a.txt", "one two");
    runs.program = PathBuf::from(runs.write("p.wasm", fs::read(&runs.program).unwrap()));
    let program = runs.program.to_str().unwrap().to_owned();
    let (inputs, out) = (runs.path("inputs"), runs.path("out"));
    let record = |inputs: &str, file: &str| {
        run([
            "wasm", "run", &program, "--inputs", inputs, "-o", &out, "--record", file,
        ])
    };
    record(&inputs, &program).assert_refused("the program");
    record(&inputs, &input).assert_refused("--inputs");
    record(&input, &input).assert_refused("--inputs");
    fs::create_dir_all(&out).unwrap();
    for name in ["a.txt.stdout", "report.json"] {
        record(&inputs, &runs.path(&format!("out/{name}"))).assert_refused("names an output of the run");
    }
    run(["wasm", "translate", &program, "-o", &program]).assert_refused("the program");
    assert_eq!(fs::read(&input).unwrap(), b"one two");
    assert!(fs::read(&program).unwrap().starts_with(b"\0asm"));
}

#[test]
fn the_report_of_an_earlier_run_does_not_stay() {
    let runs = Runs::new("wordcount.wasm");
    let input = runs.write("a.txt", "one two");
    let _ = runs.record(&input, "a.kine", &[]);
    let report = runs.path("out/report.json");
    assert!(Path::new(&report).exists());
    // A target that fails writes no report.
    let (program, out) = (runs.program.to_str().unwrap(), runs.path("out"));
    let ended = run([
        "wasm", "run", program, "--inputs", &input, "-o", &out, "--on", "cuda:77",
    ]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(!Path::new(&report).exists());
}

#[test]
fn a_run_is_not_compared_with_another_kind_of_recording() {
    let runs = Runs::new("wordcount.wasm");
    let recording = runs.record(&runs.write("a.txt", "one two"), "a.kine", &[]);
    let other = root().join("sample-traces/vecadd.kine");
    let other = other.to_str().unwrap();
    for pair in [[&recording, other], [other, &recording]] {
        run(["diff", pair[0], pair[1]]).assert_refused("this is a run of a WebAssembly program");
    }
}
