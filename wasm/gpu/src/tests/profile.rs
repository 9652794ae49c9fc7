//! The profile: executions of blocks, and the lanes that are active in them.

use super::{Results, inputs, parse};
use crate::{InterpreterBackend, TranslationOptions};
use wasm_run::{Backend, BlockProfile, RunOptions};

/// Reads the number of its input, and counts down from it.
const PROGRAM: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $count (param $n i32)
    (loop $again
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $again (local.get $n))))
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 1))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $count (i32.load8_u (i32.const 16)))))"#;

fn profile(copies: u8, counters: bool) -> Option<Vec<BlockProfile>> {
    let program = parse(PROGRAM);
    let translation = TranslationOptions {
        counters,
        ..TranslationOptions::default()
    };
    let backend = InterpreterBackend::new(program, RunOptions::default(), translation, false).unwrap();
    let all = inputs((1..=copies).map(|n| vec![n]));
    let results = Results::new(all.len());
    backend.run(&all, &results).unwrap();
    assert!(results.into_runs().iter().all(wasm_run::ProgramRun::is_success));
    backend.profile()
}

#[test]
fn blocks_count_executions_and_active_lanes() {
    let program = parse(PROGRAM);
    let profile = profile(96, true).unwrap();
    let in_count = |b: &&BlockProfile| program.find_place(b.offset).is_some_and(|p| p.function == "count");
    let counted: Vec<(u64, u64)> = profile
        .iter()
        .filter(in_count)
        .map(|b| (b.executions, b.active_lanes))
        .collect();
    // Copy n makes n rounds, and its warp as many as its last lane. All lanes leave the loop.
    let lanes = (1..=96).sum();
    assert_eq!(counted, [(32 + 64 + 96, lanes), (3, 96)]);
    assert!(profile.is_sorted_by_key(|b| b.offset));
}

#[test]
fn a_run_without_counters_has_no_profile() {
    assert_eq!(profile(2, false), None);
}
