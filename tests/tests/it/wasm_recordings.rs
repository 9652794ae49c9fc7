//! Recordings of WebAssembly runs: `wasm run --record`, `replay` on other targets and with other inputs, `diff`, and the
//! verbs of API traces on them.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_core::progress::Progress;
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
        info.contains("filter.wasm (") && info.contains("2: 2 with exit code 0, 0 with another exit code, 0 trapped\n"),
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
    remove_description(&file, &cut);
    run(["replay", &cut, "--on", "cuda:0"]).assert_refused("the section `wasm-run` is missing: it is no whole run");
    let info = run(["info", &cut]);
    assert_eq!(info.code, Some(0));
    assert!(!info.out.contains("GPU"), "{info:?}");
    let findings = run(["check", &cut]).out;
    assert!(findings.contains("this is a part of a run"), "{findings}");
}

/// Writes a recording of a run without the description of the run.
fn remove_description(from: &str, to: &str) {
    let progress = Progress::new();
    let mut recording = trace_core::container::open(Path::new(from)).unwrap();
    recording.extras.remove("wasm-run");
    trace_core::container::write(&recording, Path::new(to), &progress).unwrap();
}

/// Ends each copy in a way that the first byte of its input chooses: `t` and `u` trap, `x` exits with 3, `l` runs out of
/// fuel, anything else writes one byte to each of a valid descriptor and a closed one.
const ENDS: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func $byte (result i32) (i32.load8_u (i32.const 64)))
  (func $parse (unreachable))
  (func $divide (drop (i32.div_u (i32.const 1) (i32.sub (call $byte) (i32.const 117)))))
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 1))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (if (i32.eq (call $byte) (i32.const 116)) (then (call $parse)))
    (if (i32.eq (call $byte) (i32.const 117)) (then (call $divide)))
    (if (i32.eq (call $byte) (i32.const 120)) (then (call $exit (i32.const 3))))
    (if (i32.eq (call $byte) (i32.const 108)) (then (loop $forever (br $forever))))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (drop (call $write (i32.const 77) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// Records a run of [`ENDS`] with 10 inputs; 5 of them trap in `parse`.
fn record_ends() -> (Runs, String) {
    let mut runs = Runs::new("filter.wasm");
    runs.program = PathBuf::from(runs.write("ends.wat", ENDS));
    for (name, content) in [("a", "ok"), ("b", "x"), ("c", "u"), ("d", "l"), ("e.txt", "ok")] {
        runs.write(&format!("inputs/{name}"), content);
    }
    for number in 0..5 {
        runs.write(&format!("inputs/t{number}"), "t");
    }
    let limits = ["--limit-fuel", "100000", "--limit-calls", "2"];
    let file = runs.record(&runs.path("inputs"), "ends.kine", &limits);
    (runs, file)
}

#[test]
fn filters_choose_system_calls_of_runs() {
    let (runs, file) = record_ends();
    let means = |filter: &str| -> Vec<String> {
        let events = run(["events", &file, "--where", filter, "--json"]);
        assert_eq!(events.code, Some(0), "{filter}: {events:?}");
        let events = events.json();
        let events = events.as_array().unwrap().iter();
        events.map(|e| e["means"].as_str().unwrap().to_owned()).collect()
    };
    let writes = means("call.name = fd_write");
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert!(writes.iter().all(|m| m.starts_with("fd_write(fd=1, ")), "{writes:?}");
    let of_input = means("input = 'e.txt' and call.name =~ '^fd_'");
    assert!(
        of_input.len() == 2 && of_input[0].starts_with("fd_read(") && of_input[1].starts_with("fd_write("),
        "{of_input:?}"
    );
    assert_eq!(means("call.name =~ '^trap: unreachable' and input =~ '^t'").len(), 5);
    assert_eq!(means("copy.number = 1 and call.name = exit"), ["exit(code=3)"]);
    assert!(means("errno != 0").is_empty());
    let all = runs.record(&runs.path("inputs/a"), "all.kine", &[]);
    let failed = run(["events", &all, "--where", "errno = 8"]).out;
    assert!(
        failed.contains("fd_write(fd=77") && failed.contains("failed with 8"),
        "{failed}"
    );
    for (filter, message) in [
        ("call.name = fd_wirte", "did you mean `fd_write`?"),
        ("input = 'none'", "no input is called `none`"),
    ] {
        let refused = run(["events", &file, "--where", filter]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(message), "{refused:?}");
    }
    // Statistics and exports use the same filters.
    assert_eq!(run(["stats", &file, "--where", "input = a"]).code, Some(0));
}

#[test]
fn info_and_check_tell_how_copies_ended() {
    let (runs, file) = record_ends();
    let info = run(["info", &file]).out;
    for text in [
        "ends.wat (",
        ", _start\n",
        "cpu, ",
        "10: 2 with exit code 0, 1 with another exit code, 7 trapped\n",
        "5 unreachable, 1 integer divide by zero, 1 time limit\n",
        ", and 2 after the logs\n",
        "16 MiB of memory, 1024 nested calls, 60.00 s, 100000 fuel, 16 MiB of output, 2 system calls in the log\n",
        "Virtual time",
    ] {
        assert!(info.contains(text), "{text}: {info}");
    }
    for text in ["GPU", "Driver", "Board", "unknown", "Buffers", "Translation"] {
        assert!(!info.contains(text), "{text}: {info}");
    }
    let counts = run(["info", &file, "--json"]).json();
    let counts = &counts["run"];
    assert_eq!(counts["digest"].as_str().unwrap().len(), 64, "{counts}");
    assert_eq!(counts["traps"][0], json!({"kind": "unreachable", "copies": 5}));
    assert_eq!(
        (&counts["translation"], &counts["limits"]["fuel"]),
        (&Value::Null, &json!(100_000))
    );
    let translated = runs.record(
        &runs.path("inputs/a"),
        "translated.kine",
        &["--on", "interpreter", "--cell", "8", "--strict"],
    );
    let info = run(["info", &translated]).out;
    assert!(
        info.contains("cells of 8 bytes, strict\n") && info.contains("Launches"),
        "{info}"
    );

    let checked = run(["check", &file]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert_eq!(run(["check", &file, "--strict"]).code, Some(1));
    for text in [
        ": 5 copies trapped, unreachable: inputs t0, t1, t2, t3, t4 (copy-trapped)\n",
        ": 1 copy trapped, integer divide by zero: input c (copy-trapped)\n",
        ": 1 copy stopped at a limit, 60 s (--limit-time) or 100000 fuel (--limit-fuel): input d (copy-limit)\n",
        "note: exit code 3: 1 copy ended with it: input b (copy-failed)\n",
        "2 copies made more system calls than the 2 that a log keeps (--limit-calls), and 2 are missing: inputs a, e.txt",
        "0 errors, 4 warnings, 1 note\n",
    ] {
        assert!(checked.out.contains(text), "{text}: {}", checked.out);
    }
    assert!(checked.out.contains("warning: parse at byte 0x"), "{}", checked.out);
}

#[test]
fn findings_about_many_copies_are_grouped() {
    let mut runs = Runs::new("filter.wasm");
    runs.program = PathBuf::from(runs.write("ends.wat", ENDS));
    let lines = runs.write("lines.jsonl", "t\n".repeat(3000));
    let file = runs.record(&lines, "run.kine", &[]);
    let checked = run(["check", &file]).out;
    assert_eq!(checked.lines().count(), 2, "{checked}");
    assert!(
        checked
            .contains("3000 copies trapped, unreachable: inputs 000001, 000002, 000003, 000004, 000005 and 2995 more"),
        "{checked}"
    );
}

#[test]
fn verbs_that_do_not_apply_to_runs_say_what_does() {
    let runs = Runs::new("filter.wasm");
    let file = runs.record(&runs.write("a.txt", "one 1.5\n"), "run.kine", &[]);
    let out = runs.path("out.kine");
    let assignment = format!("a.txt={}", runs.write("other", "two 2\n"));
    for (arguments, message) in [
        (
            vec!["trim", &file, "--events", "0..=3", "-o", &out],
            "a part of a run of a WebAssembly program can be neither replayed nor compared",
        ),
        (
            vec!["trim", &file, "--jobs", "0", "-o", &out],
            "`kinescope wasm run --record` with fewer inputs",
        ),
        (
            vec!["apply", &file, "--input", &assignment, "-o", &out],
            "`kinescope replay --on cpu --input NAME=FILE -o OUT.kine` runs it with other inputs",
        ),
        (
            vec!["bisect", &file, "--on", "cpu"],
            "its copies do not depend on each other; `kinescope replay --on TARGET`",
        ),
        (
            vec!["bisect", &file, "--test", "false"],
            "its copies do not depend on each other",
        ),
        (
            vec!["last-writer", &file, "a.txt.stdout"],
            "no memory of the program; `kinescope events --where 'call.name = fd_write'`",
        ),
        (
            vec!["memory", &file, "a.txt", "--on", "cuda:0"],
            "without --on, `kinescope memory` prints inputs and outputs by name",
        ),
        (
            vec!["memory", &file, "none"],
            "'none' is neither an address nor a buffer",
        ),
    ] {
        run(&arguments).assert_refused(message);
        assert!(!Path::new(&out).exists(), "{arguments:?}");
    }
    assert_eq!(run(["memory", &file, "a.txt"]).code, Some(0));
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
