//! Recorded runs of a WebAssembly program whose copies diverge, and of which some trap.

use std::sync::Mutex;
use trace_core::Recording;
use trace_core::progress::Progress;
use wasm_cpu::CpuBackend;
use wasm_gpu::{InterpreterBackend, TranslationOptions};
use wasm_recording::{ALL_ENDED, RunToRecord, Target, to_recording};
use wasm_run::{Backend, Control, Input, Program, ProgramRun, RunEnd, RunOptions};

/// Counts the steps of the Collatz sequence from the number in the input. Traps at a character that is no digit.
pub const COLLATZ: &str = r#"(module $collatz
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $parse (result i32) (local $at i32) (local $digit i32) (local $value i32)
    (loop $next
      (local.set $digit (i32.sub (i32.load8_u offset=64 (local.get $at)) (i32.const 48)))
      (if (i32.gt_u (local.get $digit) (i32.const 9)) (then unreachable))
      (local.set $value (i32.add (i32.mul (local.get $value) (i32.const 10)) (local.get $digit)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $at) (i32.load (i32.const 8)))))
    (local.get $value))
  (func $collatz (param $n i32) (result i32) (local $steps i32)
    (block $done
      (loop $again
        (br_if $done (i32.eq (local.get $n) (i32.const 1)))
        (if (i32.and (local.get $n) (i32.const 1))
          (then (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 3)) (i32.const 1))))
          (else (local.set $n (i32.shr_u (local.get $n) (i32.const 1)))))
        (local.set $steps (i32.add (local.get $steps) (i32.const 1)))
        (br $again)))
    (local.get $steps))
  (func $print (param $value i32) (local $at i32)
    (local.set $at (i32.const 160))
    (i32.store8 (i32.const 160) (i32.const 10))
    (loop $digit
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.add (i32.rem_u (local.get $value) (i32.const 10)) (i32.const 48)))
      (br_if $digit (local.tee $value (i32.div_u (local.get $value) (i32.const 10)))))
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (i32.sub (i32.const 161) (local.get $at)))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func $main (export "_start")
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 32))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $print (call $collatz (call $parse)))))"#;

/// Exits with the digit in the input. Divides by zero at a slash, and writes to descriptor 9 before it exits with 9.
pub const EXITS: &str = r#"(module $exits
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (func $main (export "_start") (local $code i32)
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 1))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (local.set $code (i32.sub (i32.load8_u (i32.const 64)) (i32.const 48)))
    (drop (i32.div_u (i32.const 1) (i32.add (local.get $code) (i32.const 1))))
    (if (i32.eq (local.get $code) (i32.const 9))
      (then (drop (call $fd_write (i32.const 9) (i32.const 0) (i32.const 1) (i32.const 8)))))
    (call $proc_exit (local.get $code))))"#;

/// Fuel of a copy: more than a sequence of these numbers needs.
const MAX_FUEL: u64 = 600;

/// Keeps results.
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

/// Returns an input for each text.
pub fn inputs(texts: &[String]) -> Vec<Input> {
    let named = texts.iter().enumerate().map(|(number, text)| Input {
        name: format!("{:06}", number + 1),
        bytes: text.as_bytes().to_vec(),
        more_requests: Vec::new(),
    });
    named.collect()
}

/// Returns 64 numbers as texts. Two are no numbers, and the sequence of one never ends.
pub fn numbers() -> Vec<String> {
    let mut texts: Vec<String> = (1..=64u32).map(|n| (n * 7 + 20).to_string()).collect();
    texts[11] = "12a4".to_owned();
    texts[40] = "-3".to_owned();
    texts[51] = "0".to_owned();
    texts
}

/// Records a run of a program in text form. Interpreted runs count active lanes; the CPU has none.
pub fn record(program: &str, inputs: &[Input], interpreted: bool) -> Recording {
    let binary = wat::parse_str(program).unwrap();
    let parsed = Program::parse(binary.clone()).unwrap();
    let mut options = RunOptions::default();
    // Each target has its own unit of fuel.
    options.limits.fuel = interpreted.then_some(MAX_FUEL);
    let results = Results(Mutex::new(vec![None; inputs.len()]));
    let backend: Box<dyn Backend> = if interpreted {
        let translation = TranslationOptions {
            counters: true,
            ..TranslationOptions::default()
        };
        Box::new(InterpreterBackend::new(parsed, options.clone(), translation, false).unwrap())
    } else {
        Box::new(CpuBackend::new(parsed, options.clone()).unwrap())
    };
    backend.run(inputs, &results).unwrap();
    let runs: Vec<ProgramRun> = results
        .0
        .into_inner()
        .unwrap()
        .into_iter()
        .map(Option::unwrap)
        .collect();
    let profile = backend.profile().unwrap_or_default();
    let run = RunToRecord {
        program: &binary,
        program_name: "collatz.wasm",
        options: &options,
        target: Target {
            name: if interpreted { "interpreter" } else { "cpu" }.to_owned(),
            copies: backend.copies(inputs.len()),
            ..Target::default()
        },
        inputs,
        runs: &runs,
        unfinished: &ALL_ENDED,
        launches: &[],
        profile: &profile,
        tool: "test",
        when: "",
        source: "wasm-run",
        edits: Vec::new(),
    };
    to_recording(&run, &Progress::new()).unwrap()
}

/// Records a run that stopped when one copy had ended and one had started.
pub fn stopped() -> Recording {
    let inputs = inputs(&numbers()[..5]);
    let run = RunToRecord {
        program: &wat::parse_str(COLLATZ).unwrap(),
        program_name: "collatz.wasm",
        options: &RunOptions::default(),
        target: Target::default(),
        inputs: &inputs,
        runs: &[ProgramRun {
            end: RunEnd::Exit(0),
            standard_output: b"111\n".to_vec(),
            standard_error: Vec::new(),
            calls: Vec::new(),
            lost_calls: 0,
        }],
        unfinished: &(1..5).map(|number| (number, number == 1)).collect(),
        launches: &[],
        profile: &[],
        tool: "test",
        when: "",
        source: "wasm-run",
        edits: Vec::new(),
    };
    to_recording(&run, &Progress::new()).unwrap()
}

/// Records the program on the numbers, interpreted.
pub fn collatz() -> Recording {
    record(COLLATZ, &inputs(&numbers()), true)
}
