//! WebAssembly programs on an agent in another process: results of the CPU and of the stand-in driver, refusals, limits,
//! cancellation, and ends of agent and worker process in the middle of a run.

use replay_engine::client::{Client, ClientError, Endpoint, WasmInputRef};
use replay_engine::wasm::{WasmCopyLimits, WasmObserver, WasmResult, WasmRun};
use replay_engine::wire::KeyStore;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::cuda::{CudaStandIn, run_to_end};
use whole_program_tests::cuda_agent::Agent;
use whole_program_tests::wasm_programs::TEST_PROGRAMS;
use whole_program_tests::{HANG_LIMIT, ProgramOutput, program, send_signal};

/// Returns at once for an empty input, and never for another one.
const ENDLESS: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_filestat_get" (func $stat (param i32 i32) (result i32)))
    (memory (export "memory") 1 1)
    (func (export "_start")
        (drop (call $stat (i32.const 0) (i32.const 0)))
        (loop $forever (br_if $forever (i64.ne (i64.load (i32.const 32)) (i64.const 0))))))"#;

/// Copies its input; traps for `t`, exits with 5 for `x`.
const COPY: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1 1)
    (data (i32.const 0) "\40\00\00\00\00\10\00\00")
    (func $fail (unreachable))
    (func (export "_start")
        (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 0x74)) (then (call $fail)))
        (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 0x78)) (then (call $exit (i32.const 5))))
        (i32.store (i32.const 4) (i32.load (i32.const 8)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// An agent on the stand-in driver, and a client of it.
struct Lab {
    cuda: CudaStandIn,
    agent: Agent,
}

impl Lab {
    fn new(options: &[&str]) -> Self {
        let cuda = CudaStandIn::default();
        let agent = Agent::start_with(&cuda, options);
        fs::write(cuda.file("endless.wat"), ENDLESS).unwrap();
        fs::write(cuda.file("copy.wat"), COPY).unwrap();
        let inputs = cuda.file("endless-inputs");
        fs::create_dir(&inputs).unwrap();
        fs::write(inputs.join("a"), "").unwrap();
        fs::write(inputs.join("b"), "x").unwrap();
        Self { cuda, agent }
    }

    fn text(&self, name: &str) -> String {
        self.cuda.file(name).to_str().unwrap().to_owned()
    }

    /// Returns the command of a run of a program with inputs, both in the folder or with whole paths.
    fn command(&self, program_file: &Path, inputs: &str, on: &str, out: &str) -> Command {
        let mut command = Command::new(program("kinescope"));
        command.args(["wasm", "run"]).arg(program_file);
        command.args(["--inputs", &self.text(inputs), "--on", on, "-o", &self.text(out)]);
        command.env("KINESCOPE_KEYS", self.cuda.file("keys"));
        self.cuda.set_environment(&mut command);
        command
    }

    fn run(&self, name: &str, inputs: &str, on: &str, more: &[&str]) -> ProgramOutput {
        run_to_end(self.command(&self.cuda.file(name), inputs, on, "out").args(more))
    }

    /// Starts a run of the endless program, and waits for its first result.
    fn start_endless(&self, on: &str, out: &str) -> Child {
        let mut command = self.command(&self.cuda.file("endless.wat"), "endless-inputs", on, out);
        // The copy that ends does not wait for the other one.
        command.args(["--strict", "--limit-time", "0", "--no-cache"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let written = self.cuda.file(out).join("a.stderr");
        wait("the first result", || written.exists());
        child
    }

    /// Checks that the agent still runs programs.
    fn check_works(&self) {
        fs::write(self.cuda.file("again"), "again").unwrap();
        for on in ["agent:lab/cpu", "agent:lab/cuda0"] {
            let ended = self.run("copy.wat", "again", on, &["--no-cache"]);
            assert_eq!(ended.code, Some(0), "{on}: {ended:?}");
            assert_eq!(fs::read(self.cuda.file("out/again.stdout")).unwrap(), b"again");
        }
    }

    /// Returns the worker processes of the agent that run programs.
    fn workers(&self) -> Vec<u32> {
        let agent = self.agent.child.id();
        let runs = |entry: &fs::DirEntry| {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat
                .rsplit(')')
                .next()
                .and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            parent == Some(agent) && line.split(|b| *b == 0).any(|word| word == b"run-wasm")
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter(runs)
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .collect()
    }

    fn client(&self) -> Client {
        let keys = KeyStore::open(&self.cuda.file("keys")).unwrap();
        Client::connect(&Endpoint::Unix(self.agent.socket.clone()), &keys, None).unwrap()
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < HANG_LIMIT, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a command.
fn end(child: Child) -> ProgramOutput {
    ProgramOutput::from(child.wait_with_output().unwrap())
}

/// Returns the files of a folder but the report, with their contents.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let outputs = all.filter(|entry| entry.file_name() != "report.json");
    let mut files: Vec<_> = outputs
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

/// Runs a program here and on targets of the agent, and compares all outputs.
fn compare(lab: &Lab, path: &Path, inputs: &str, targets: &[&str], more: &[&str]) {
    let here = run_to_end(
        lab.command(path, inputs, "cpu", "here")
            .args(["--json", "--calls"])
            .args(more),
    );
    for on in targets {
        let out = on.replace([':', '/'], "-");
        let there = run_to_end(
            lab.command(path, inputs, on, &out)
                .args(["--json", "--calls"])
                .args(more),
        );
        assert_eq!(there.code, here.code, "{on}: {there:?}");
        assert_eq!(there.json()["runs"], here.json()["runs"], "{on}");
        assert!(there.json()["copies"].as_u64().unwrap() > 0);
        assert!(there.json()["compile_seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(files(&lab.cuda.file(&out)), files(&lab.cuda.file("here")), "{on}");
        assert!(lab.cuda.file(&out).join("report.json").exists());
    }
}

#[test]
fn programs_on_an_agent_give_the_results_of_this_machine() {
    let lab = Lab::new(&[]);
    for name in ["wordcount", "scrypt"] {
        let program = TEST_PROGRAMS.iter().find(|p| p.name == name).unwrap();
        let inputs = lab.cuda.file(name);
        fs::create_dir(&inputs).unwrap();
        for seed in 0..100 {
            fs::write(inputs.join(format!("{seed:03}")), program.make_input(seed)).unwrap();
        }
        let mut arguments = vec!["--limit-memory", "1MiB"];
        arguments.extend(program.arguments.iter().flat_map(|a| ["--arg", a]));
        let targets = ["agent:lab/cpu", "agent:lab/cuda0"];
        compare(&lab, &program.path(), name, &targets, &arguments);
        for seed in 0..100 {
            let output = lab.cuda.file("agent-lab-cuda0").join(format!("{seed:03}.stdout"));
            let checked = program.check_output(&program.make_input(seed), &fs::read(output).unwrap());
            checked.unwrap();
        }
    }
}

#[test]
fn traps_exits_and_requests_are_those_of_this_machine() {
    let lab = Lab::new(&[]);
    fs::write(lab.cuda.file("lines.jsonl"), "one\ntrap\nx\n\nlast\n").unwrap();
    let targets = ["agent:lab/cpu", "agent:lab/cuda0", "agent:lab/interpreter"];
    compare(
        &lab,
        &lab.cuda.file("copy.wat"),
        "lines.jsonl",
        &targets,
        &["--seed", "7"],
    );
    let program = lab.text("copy.wat");
    let mut check = Command::new(program_path());
    check.args([
        "wasm",
        "check",
        &program,
        "--inputs",
        &lab.text("lines.jsonl"),
        "--on",
        "agent:lab/cuda0",
    ]);
    check.env("KINESCOPE_KEYS", lab.cuda.file("keys"));
    let checked = run_to_end(&mut check);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(
        checked.out.contains("cpu and agent:lab/cuda0 have equal results"),
        "{checked:?}"
    );
    let mut bench = Command::new(program_path());
    bench.args([
        "wasm",
        "bench",
        &program,
        "--inputs",
        &lab.text("lines.jsonl"),
        "--on",
        "agent:lab/cuda0",
    ]);
    run_to_end(&mut bench).assert_refused("a measurement is of this machine");
}

fn program_path() -> PathBuf {
    program("kinescope")
}

#[test]
fn an_agent_that_is_killed_leaves_the_finished_outputs() {
    let mut lab = Lab::new(&[]);
    let running = lab.start_endless("agent:lab/cpu", "lost");
    lab.agent.child.kill().unwrap();
    lab.agent.child.wait().unwrap();
    let ended = end(running);
    ended.assert_refused("the connection to the agent was lost while the program was running");
    assert!(
        ended
            .err
            .contains("1 of 2 inputs finished, 0 failed, 1 without a result; outputs are in "),
        "{ended:?}"
    );
    assert!(lab.cuda.file("lost/a.stdout").exists() && !lab.cuda.file("lost/report.json").exists());
    // The worker process ends with its agent.
    wait("the end of the worker process", || lab.workers().is_empty());
}

#[test]
fn a_worker_process_that_is_killed_ends_its_run_alone() {
    let lab = Lab::new(&[]);
    for on in ["agent:lab/cpu", "agent:lab/cuda0"] {
        let running = lab.start_endless(on, "killed");
        let workers = lab.workers();
        assert_eq!(workers.len(), 1, "{workers:?}");
        send_signal(workers[0], "KILL");
        let ended = end(running);
        ended.assert_refused("the run on the agent failed: the worker process ended before its last result: signal: 9");
        fs::remove_dir_all(lab.cuda.file("killed")).unwrap();
    }
    lab.check_works();
}

#[test]
fn an_interrupt_ends_the_run_on_the_agent() {
    let lab = Lab::new(&[]);
    for on in ["agent:lab/cpu", "agent:lab/cuda0"] {
        let out = on.replace([':', '/'], "-");
        let running = lab.start_endless(on, &out);
        send_signal(running.id(), "INT");
        let ended = end(running);
        assert_eq!(ended.code, Some(130), "{ended:?}");
        assert!(!lab.cuda.file(&out).join("report.json").exists());
        wait("the end of the worker process", || lab.workers().is_empty());
    }
    // So does a client that is killed.
    let mut running = lab.start_endless("agent:lab/cpu", "dead");
    running.kill().unwrap();
    running.wait().unwrap();
    wait("the end of the worker process", || lab.workers().is_empty());
    lab.check_works();
}

#[test]
fn an_interrupt_does_not_wait_for_an_agent_that_hangs() {
    let lab = Lab::new(&[]);
    let running = lab.start_endless("agent:lab/cpu", "hung");
    send_signal(lab.agent.child.id(), "STOP");
    let begun = Instant::now();
    send_signal(running.id(), "INT");
    let ended = end(running);
    let time = begun.elapsed();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(
        ended
            .err
            .contains("stopped: 1 of 2 inputs finished, 0 failed, 1 without a result; "),
        "{ended:?}"
    );
    assert!(time < Duration::from_secs(4), "{time:?}");
    // The second interrupt ends the client at once.
    send_signal(lab.agent.child.id(), "CONT");
    wait("the end of the worker process", || lab.workers().is_empty());
    let running = lab.start_endless("agent:lab/cpu", "hung-again");
    send_signal(lab.agent.child.id(), "STOP");
    let begun = Instant::now();
    send_signal(running.id(), "INT");
    std::thread::sleep(Duration::from_millis(200));
    send_signal(running.id(), "INT");
    assert_eq!(end(running).code, Some(130));
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    send_signal(lab.agent.child.id(), "CONT");
    wait("the end of the worker process", || lab.workers().is_empty());
    lab.check_works();
}

#[test]
fn the_agent_logs_a_line_for_each_run() {
    let lab = Lab::new(&[]);
    fs::write(lab.cuda.file("lines.jsonl"), "one\ntrap\n").unwrap();
    let on = "agent:lab/cpu";
    let ended = lab.run("copy.wat", "lines.jsonl", on, &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let refused = lab.run("copy.wat", "lines.jsonl", on, &["--limit-output", "1GiB"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let running = lab.start_endless(on, "stopped");
    send_signal(running.id(), "INT");
    assert_eq!(end(running).code, Some(130));
    let lines = || -> Vec<String> {
        let log = lab.agent.log();
        let lines = log.lines().filter(|line| line.contains("WebAssembly run of client "));
        lines.map(str::to_owned).collect()
    };
    wait("the lines of the log", || lines().len() == 3);
    let lines = lines();
    let digit = |c: char| c.is_ascii_hexdigit();
    let digest = lines[0].split("program ").nth(1).unwrap();
    assert!(digest.chars().take_while(|c| digit(*c)).count() == 64, "{lines:?}");
    assert!(
        lines[0].contains(", 2 inputs on cpu, ") && lines[0].ends_with(" s: finished"),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("program not received, 2 inputs on cpu, ") && lines[1].contains(" s: refused, "),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("--limit-output") && lines[2].ends_with(" s: cancelled by the client"),
        "{lines:?}"
    );
    assert!(!lab.agent.log().contains("Limit("), "{}", lab.agent.log());
}

#[test]
fn one_client_at_a_time_has_a_target() {
    let lab = Lab::new(&[]);
    for (on, device) in [("agent:lab/cpu", "cpu"), ("agent:lab/cuda0", "cuda0")] {
        let out = on.replace([':', '/'], "-");
        let first = lab.start_endless(on, &out);
        let second = lab.run("copy.wat", "endless-inputs/a", on, &[]);
        second.assert_refused(&format!("the device `{device}` is in use by "));
        send_signal(first.id(), "INT");
        assert_eq!(end(first).code, Some(130));
    }
    // Two clients use two targets.
    let first = lab.start_endless("agent:lab/cpu", "both");
    let second = lab.run("copy.wat", "endless-inputs/a", "agent:lab/cuda0", &["--no-cache"]);
    assert_eq!(second.code, Some(0), "{second:?}");
    send_signal(first.id(), "INT");
    assert_eq!(end(first).code, Some(130));
}

#[test]
fn the_limits_of_the_agent_are_named() {
    let lab = Lab::new(&["--program-memory", "4", "--device", "cpu"]);
    let on = "agent:lab/cpu";
    let refused = |more: &[&str], message: &str| {
        let ended = lab.run("copy.wat", "endless-inputs/a", on, more);
        ended.assert_refused(message);
    };
    refused(
        &[],
        "memory of a copy (--limit-memory): 16777216 bytes; this agent allows 2097152",
    );
    let small = ["--limit-memory", "64KiB"];
    refused(&[&small[..], &["--limit-output", "1GiB"]].concat(), "(--limit-output)");
    refused(
        &[&small[..], &["--calls", "--limit-calls", "1000000"]].concat(),
        "(--limit-calls)",
    );
    refused(&[&small[..], &["--limit-time", "90000"]].concat(), "(--limit-time)");
    fs::write(lab.cuda.file("large"), vec![0; 1 << 20]).unwrap();
    let ended = lab.run("copy.wat", "large", on, &small);
    ended.assert_refused("this agent allows 1048576");
    // The process of the program has more than 4 MiB.
    let mut command = lab.command(&lab.cuda.file("endless.wat"), "endless-inputs/b", on, "full");
    let ended = run_to_end(command.args(small).args(["--limit-time", "0"]));
    ended.assert_refused("bytes of memory (limit 4194304)");
    wait("the end of the worker process", || lab.workers().is_empty());
    // Only the named targets are served.
    let ended = lab.run("copy.wat", "endless-inputs/a", "agent:lab/cuda0", &small);
    ended.assert_refused("`cuda0` runs no WebAssembly programs; it runs them on cpu");
}

/// Takes all results.
struct Nothing;

impl WasmObserver for Nothing {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn take_result(&self, _: WasmResult) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn bytes_that_are_no_program_are_refused_by_the_agent() {
    let lab = Lab::new(&[]);
    let run = |target: &str, function: &str| WasmRun {
        target: target.to_owned(),
        function: function.to_owned(),
        limits: WasmCopyLimits {
            memory_pages: 16,
            call_depth: 100,
            output_bytes: 1 << 20,
            ..WasmCopyLimits::default()
        },
        ..WasmRun::default()
    };
    let ptx = lab.text("copy.ptx");
    let mut translate = Command::new(program_path());
    translate.args(["wasm", "translate", &lab.text("copy.wat"), "-o", &ptx]);
    assert_eq!(run_to_end(&mut translate).code, Some(0));
    let ptx = fs::read(ptx).unwrap();
    let wordcount = fs::read(TEST_PROGRAMS.iter().find(|p| p.name == "wordcount").unwrap().path()).unwrap();
    let cut = &wordcount[..wordcount.len() / 2];
    // A module of one function whose code is an operator that does not exist.
    let damaged = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x05\x01\x03\0\xff\x0b";
    for target in ["cpu", "cuda0"] {
        for (bytes, function, message) in [
            (&ptx[..], "_start", "no WebAssembly program in binary form"),
            (b"\x7fELF cubin", "_start", "no WebAssembly program in binary form"),
            (&ptx[..0], "_start", "no WebAssembly program in binary form"),
            (cut, "_start", "byte 0x"),
            (damaged, "_start", "byte 0x"),
            (&wordcount, "main", "no exported function has the name `main`"),
        ] {
            let input = WasmInputRef {
                name: "x",
                requests: vec![b"x"],
            };
            let ended = lab.client().run_wasm(run(target, function), bytes, [input], &Nothing);
            let e = ended.unwrap_err();
            assert!(
                matches!(&e, ClientError::ProgramRefused(why) if why.contains(message)),
                "{e}"
            );
        }
    }
    assert!(lab.workers().is_empty());
    lab.check_works();
}
