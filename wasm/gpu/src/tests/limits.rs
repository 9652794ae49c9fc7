//! Limits of copies, cancellation, and what a run refuses.

use super::{Results, compare, compare_with, inputs, parse, run_translated};
use crate::scheduler::order::sort_similar;
use crate::{InterpreterBackend, TranslationOptions};
use std::sync::atomic::Ordering;
use std::time::Duration;
use wasm_run::{Backend, BackendError, Control, Limits, ProgramRun, RunEnd, RunOptions, TrapKind};

/// Spins as many times as the first byte of its input says; 255 spins forever.
const SPIN: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1 2)
  (data (i32.const 0) "\40\00\00\00\01\00\00\00")
  (func $spin (param $n i32)
    (loop $next
      (br_if $next (i32.eq (local.get $n) (i32.const 255)))
      (br_if $next (i32.gt_s (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const 0)))))
  (func (export "_start")
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $spin (i32.load8_u (i32.const 64)))))"#;

fn limits(limits: Limits) -> RunOptions {
    RunOptions {
        limits,
        ..RunOptions::default()
    }
}

fn kinds(runs: &[ProgramRun]) -> Vec<Option<TrapKind>> {
    let kind = |run: &ProgramRun| match &run.end {
        RunEnd::Trap(trap) => Some(trap.kind),
        RunEnd::Exit(_) => None,
    };
    runs.iter().map(kind).collect()
}

#[test]
fn fuel_ends_one_copy_alone() {
    let options = limits(Limits {
        fuel: Some(100_000),
        ..Limits::default()
    });
    let inputs = inputs([vec![3], vec![255], vec![9]]);
    for strict in [false, true] {
        let translation = TranslationOptions {
            strict,
            ..TranslationOptions::default()
        };
        let runs = run_translated(&parse(SPIN), &options, translation, &inputs).unwrap();
        assert_eq!(kinds(&runs), [None, Some(TrapKind::TimeLimit), None]);
    }
}

#[test]
fn time_ends_a_copy_that_suspends() {
    let options = limits(Limits {
        time: Some(Duration::from_millis(50)),
        ..Limits::default()
    });
    let translation = TranslationOptions {
        strict: true,
        ..TranslationOptions::default()
    };
    let runs = run_translated(&parse(SPIN), &options, translation, &inputs([vec![255], vec![2]])).unwrap();
    assert_eq!(kinds(&runs), [Some(TrapKind::TimeLimit), None]);
}

#[test]
fn output_and_memory_have_limits() {
    let program = parse(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "\00\01\00\00\0a\00\00\00")
          (func (export "_start")
            (loop $next
              (i32.store8 (i32.const 256) (i32.sub (i32.const 65) (memory.grow (i32.const 1))))
              (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
              (br $next))))"#,
    );
    let options = limits(Limits {
        output_bytes: 1005,
        memory_pages: 4,
        log_entries: 7,
        ..Limits::default()
    });
    let runs = compare(&program, &options, &inputs([Vec::new()]));
    assert_eq!(kinds(&runs), [Some(TrapKind::OutputLimit)]);
    assert_eq!(runs[0].standard_output.len(), 1005);
    assert_eq!((runs[0].calls.len(), runs[0].lost_calls), (7, 94));
    // Three times the memory grows, then it is full.
    let letters: Vec<u8> = runs[0].standard_output.iter().step_by(10).copied().take(5).collect();
    assert_eq!(letters, [64, 63, 62, 66, 66]);
}

#[test]
fn deep_recursion_traps() {
    let program = parse(
        r#"(module
          (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
          (memory (export "memory") 1)
          (func $deep (param $n i32) (result i32)
            (if (result i32) (local.get $n)
              (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get $n) (i32.const 1)))))
              (else (call $yield))))
          (func (export "few") (drop (call $deep (i32.const 50))))
          (func (export "many") (drop (call $deep (i32.const 100000)))))"#,
    );
    for (function, kind) in [("few", None), ("many", Some(TrapKind::CallStackExhausted))] {
        let options = RunOptions {
            function: function.into(),
            ..RunOptions::default()
        };
        let runs = compare(&program, &options, &inputs([Vec::new()]));
        assert_eq!(kinds(&runs), [kind]);
    }
    let options = RunOptions {
        function: "few".into(),
        ..RunOptions::default()
    };
    let translation = TranslationOptions {
        strict: true,
        ..TranslationOptions::default()
    };
    compare_with(&program, &options, translation, &inputs([Vec::new()]));
}

#[test]
fn copies_that_need_more_than_the_first_reserve_start_again() {
    // The first byte of the input is the number of pages to add, and half the number of nested calls.
    let program = parse(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "\40\00\00\00\04\00\00\00")
          (func $deep (param $n i32) (result i32)
            (if (result i32) (local.get $n)
              (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get $n) (i32.const 1)))))
              (else (i32.const 0))))
          (func (export "_start") (local $n i32)
            (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
            (local.set $n (i32.load8_u (i32.const 64)))
            (i32.store (i32.const 64) (memory.grow (local.get $n)))
            (i32.store8 offset=65535 (i32.shl (memory.grow (i32.const 0)) (i32.const 15)) (i32.const 7))
            (i32.store8 (i32.const 66) (memory.size))
            (i32.store8 (i32.const 65) (call $deep (i32.shl (local.get $n) (i32.const 1))))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#,
    );
    let options = limits(Limits {
        memory_pages: 40,
        ..Limits::default()
    });
    let inputs = inputs((0..12u8).map(|i| vec![i * 7, 0, 0, 0]));
    compare(&program, &options, &inputs);
    let backend = InterpreterBackend::new(program, options, TranslationOptions::default(), false).unwrap();
    let statistics = backend.run_measured(&inputs, &Results::new(12)).unwrap();
    assert!(statistics.restarts > 4, "{statistics:?}");
}

/// Cancels the run at its first result.
struct CancelAtFirst(Results);

impl Control for CancelAtFirst {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn take_result(&self, _index: usize, _run: ProgramRun) -> Result<(), String> {
        self.0.cancelled.store(true, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_cancelled_run_and_a_refused_result_end_it() {
    let options = RunOptions {
        copies: Some(1),
        ..RunOptions::default()
    };
    let backend = InterpreterBackend::new(parse(SPIN), options, TranslationOptions::default(), false).unwrap();
    let inputs = inputs((0..50).map(|_| vec![3]));
    let result = backend.run(&inputs, &CancelAtFirst(Results::new(50)));
    assert!(matches!(result, Err(BackendError::Cancelled)), "{result:?}");
}

#[test]
fn inputs_that_cannot_be_given_are_named() {
    let options = RunOptions {
        arguments: vec![b"a\0b".to_vec()],
        ..RunOptions::default()
    };
    let error = run_translated(
        &parse(SPIN),
        &options,
        TranslationOptions::default(),
        &inputs([vec![1]]),
    );
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "input 0: argument 0 has a zero byte");
}

#[test]
fn sorted_inputs_start_by_size_and_then_by_their_first_bytes() {
    let mut all = inputs([
        b"b2 small".to_vec(),
        b"b1 picture".to_vec(),
        b"a1 small".to_vec(),
        b"a1 picture".to_vec(),
        b"a1 picture".to_vec(),
    ]);
    assert_eq!(sort_similar(&all), [3, 4, 1, 2, 0]);
    // Requests after the first count as bytes of the input.
    all[2].more_requests = vec![vec![0; 100]];
    assert_eq!(sort_similar(&all), [2, 3, 4, 1, 0]);
    assert!(sort_similar(&[]).is_empty());
}

#[test]
fn sorted_inputs_have_results_in_their_own_order() {
    let options = RunOptions {
        copies: Some(2),
        ..RunOptions::default()
    };
    let backend = InterpreterBackend::new(parse(SPIN), options, TranslationOptions::default(), true).unwrap();
    let inputs = inputs((0..20u8).map(|i| vec![i; usize::from(i) + 1]));
    let results = Results::new(20);
    backend.run(&inputs, &results).unwrap();
    assert_eq!(backend.copies(20), 2);
    assert!(results.into_runs().iter().all(ProgramRun::is_success));
}
