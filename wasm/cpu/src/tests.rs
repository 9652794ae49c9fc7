//! Tests of runs: exits, traps with their places, limits, system calls.

mod calls;
mod damaged;
mod limits;
mod link_order;
mod traps;

use crate::CpuBackend;
use std::sync::Mutex;
use wasm_run::{Backend, BackendError, Control, Input, Program, ProgramError, ProgramRun, RunEnd, RunOptions, Trap};

/// Collects the results of a run.
pub(crate) struct Results(pub Mutex<Vec<Option<ProgramRun>>>);

impl Control for Results {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String> {
        let previous = self.0.lock().unwrap()[index].replace(run);
        assert_eq!(previous, None, "a second result of input {index}");
        Ok(())
    }
}

/// Returns the binary of a program in text form.
pub(crate) fn program(text: &str) -> Program {
    Program::parse(wat::parse_str(text).unwrap()).unwrap()
}

/// Runs a program in text form once for each input.
pub(crate) fn run_all(text: &str, options: &RunOptions, inputs: &[Input]) -> Vec<ProgramRun> {
    let backend = CpuBackend::new(program(text), options.clone()).unwrap();
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

/// Returns an input with these bytes.
pub(crate) fn input(bytes: &[u8]) -> Input {
    Input {
        name: "input".into(),
        bytes: bytes.to_vec(),
        more_requests: Vec::new(),
    }
}

/// Runs a program in text form once, with the default options.
pub(crate) fn run(text: &str, bytes: &[u8]) -> ProgramRun {
    run_all(text, &RunOptions::default(), &[input(bytes)]).remove(0)
}

/// Returns the trap of a run.
pub(crate) fn trap(run: &ProgramRun) -> &Trap {
    match &run.end {
        RunEnd::Trap(trap) => trap,
        RunEnd::Exit(code) => panic!("exit {code}"),
    }
}

/// Returns why a program in text form cannot run.
fn refusal(text: &str) -> ProgramError {
    let parsed = Program::parse(wat::parse_str(text).unwrap());
    parsed
        .and_then(|p| CpuBackend::new(p, RunOptions::default()))
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn each_input_has_fresh_memory_and_its_own_result() {
    // Reads one byte, adds it to a counter in memory, exits with the counter.
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "\10\00\00\00\01\00\00\00")
        (func (export "_start")
            (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
            (i32.store (i32.const 32) (i32.add (i32.load (i32.const 32)) (i32.load8_u (i32.const 16))))
            (call $exit (i32.load (i32.const 32)))))"#;
    let inputs: Vec<Input> = (0..100).map(|i| input(&[i])).collect();
    for copies in [None, Some(1), Some(7)] {
        let options = RunOptions {
            copies,
            ..RunOptions::default()
        };
        let ends: Vec<RunEnd> = run_all(text, &options, &inputs).into_iter().map(|r| r.end).collect();
        assert_eq!(ends, (0..100).map(RunEnd::Exit).collect::<Vec<_>>());
    }
}

#[test]
fn start_function_and_initialize_run_before_the_function() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
        (memory (export "memory") 1)
        (global $g (mut i32) (i32.const 1))
        (func $begin (global.set $g (i32.mul (global.get $g) (i32.add (i32.const 3) (call $yield)))))
        (func (export "_initialize") (global.set $g (i32.add (global.get $g) (i32.const 4))))
        (func (export "_start") (call $exit (global.get $g)))
        (start $begin))"#;
    let run = run(text, b"");
    assert_eq!(run.end, RunEnd::Exit(7));
    assert_eq!(run.calls.len(), 2);
}

#[test]
fn a_program_without_system_calls_runs() {
    assert_eq!(
        run("(module (func (export \"_start\")))", b"unused").end,
        RunEnd::Exit(0)
    );
}

#[test]
fn refusals_name_what_they_refuse() {
    let shown = |text: &str| refusal(text).to_string();
    let start = r#"(func (export "_start"))"#;
    assert_eq!(
        shown(&format!(r#"(module (import "env" "puts" (func (param i32))) {start})"#)),
        "import env.puts: no system call has this name (wasi_snapshot_preview1, kinescope.invoke, kinescope.respond)"
    );
    assert_eq!(
        shown(&format!(r#"(module (import "env" "memory" (memory 1)) {start})"#)),
        "import env.memory is a memory: a program may import only functions"
    );
    assert_eq!(
        shown(&format!(
            r#"(module (import "wasi_snapshot_preview1" "sched_yield" (func)) (memory (export "memory") 1) {start})"#
        )),
        "import wasi_snapshot_preview1.sched_yield has the signature () -> () (expected () -> (i32))"
    );
    assert_eq!(
        refusal(&format!(
            r#"(module (import "wasi_snapshot_preview1" "sched_yield" (func (result i32))) (memory 1) {start})"#
        )),
        ProgramError::NoMemory
    );
    assert_eq!(
        refusal(&format!("(module (memory 257) {start})")),
        ProgramError::MemoryTooLarge { pages: 257, limit: 256 }
    );
    assert_eq!(
        shown(r#"(module (func (export "main") (param i32)) (func (export "other")))"#),
        "no exported function has the name `_start`; the program exports main, other"
    );
    assert_eq!(
        shown(r#"(module (func (export "_start") (param i32)))"#),
        "the function `_start` has parameters: only a function without parameters can be called"
    );
    // SIMD, reference types and 64-bit memories are refused by the validator, with their offset.
    for text in [
        r#"(module (func (export "_start") (drop (v128.const i32x4 0 0 0 0))))"#,
        r#"(module (table 1 externref) (func (export "_start")))"#,
        r#"(module (memory i64 1) (func (export "_start")))"#,
        r#"(module (memory 1) (memory 1) (func (export "_start")))"#,
        r#"(module (func (export "_start") (return_call 0)))"#,
    ] {
        let refused = refusal(text);
        assert!(
            matches!(refused, ProgramError::Invalid { offset, .. } if offset > 8),
            "{text}: {refused}"
        );
    }
}

#[test]
fn a_result_that_is_not_taken_stops_the_run() {
    struct Full;
    impl Control for Full {
        fn is_cancelled(&self) -> bool {
            false
        }
        fn take_result(&self, _: usize, _: ProgramRun) -> Result<(), String> {
            Err("the disk is full".into())
        }
    }
    let program = program("(module (func (export \"_start\")))");
    let backend = CpuBackend::new(program, RunOptions::default()).unwrap();
    let inputs = vec![input(b""); 50];
    let error = backend.run(&inputs, &Full).unwrap_err();
    assert!(matches!(error, BackendError::ResultNotTaken(m) if m == "the disk is full"));
}

#[test]
fn a_cancelled_run_ends_within_a_slice() {
    struct Cancelled(std::time::Instant);
    impl Control for Cancelled {
        fn is_cancelled(&self) -> bool {
            self.0.elapsed().as_millis() > 50
        }
        fn take_result(&self, _: usize, _: ProgramRun) -> Result<(), String> {
            Err("an endless loop has no result".into())
        }
    }
    let program = program("(module (func (export \"_start\") (loop (br 0))))");
    let backend = CpuBackend::new(program, RunOptions::default()).unwrap();
    let start = std::time::Instant::now();
    let error = backend.run(&[input(b"")], &Cancelled(start)).unwrap_err();
    assert!(matches!(error, BackendError::Cancelled));
    assert!(start.elapsed().as_secs() < 20);
}
