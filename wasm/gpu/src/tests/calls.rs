//! Copies that read, write, ask for requests, and end in all ways.

use super::{compare, compare_with, inputs, parse};
use crate::TranslationOptions;
use wasm_ptx::CellSize;
use wasm_run::{Input, RunEnd, RunOptions, Trap, TrapKind};

/// Writes its input in upper case, and ends by its first byte: `t` traps, `d` divides by zero, `x` exits with 3.
const UPPER: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (global $total (mut i32) (i32.const 0))
  (func $upper (param $n i32) (local $i i32) (local $b i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
        (local.set $b (i32.load8_u offset=1024 (local.get $i)))
        (if (i32.lt_u (i32.sub (local.get $b) (i32.const 97)) (i32.const 26))
          (then (i32.store8 offset=1024 (local.get $i) (i32.sub (local.get $b) (i32.const 32)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next))))
  (func (export "_start") (local $n i32) (local $first i32)
    (block $end
      (loop $next
        (i32.store (i32.const 0) (i32.const 1024))
        (i32.store (i32.const 4) (i32.const 1000))
        (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (local.set $n (i32.load (i32.const 8)))
        (br_if $end (i32.eqz (local.get $n)))
        (if (i32.eqz (global.get $total)) (then (local.set $first (i32.load8_u (i32.const 1024)))))
        (global.set $total (i32.add (global.get $total) (local.get $n)))
        (call $upper (local.get $n))
        (i32.store (i32.const 4) (local.get $n))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
        (i32.store (i32.const 4) (i32.const 1))
        (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
        (br $next)))
    (if (i32.eq (local.get $first) (i32.const 116)) (then unreachable))
    (if (i32.eq (local.get $first) (i32.const 100))
      (then (drop (i32.div_u (i32.const 1) (i32.sub (local.get $first) (i32.const 100))))))
    (if (i32.eq (local.get $first) (i32.const 120)) (then (call $exit (i32.const 3))))))"#;

/// Returns inputs of different sizes. Each 13th traps, each 7th exits with 3.
fn mixed_inputs(count: usize) -> Vec<Input> {
    inputs((0..count).map(|i| {
        let first = match i {
            i if i % 26 == 25 => b't',
            i if i % 13 == 12 => b'd',
            i if i % 7 == 6 => b'x',
            _ => b'a',
        };
        let mut bytes = vec![first];
        bytes.extend((0..i * 37 % 2500).map(|n| b'a' + (n % 26) as u8));
        bytes
    }))
}

#[test]
fn copies_end_alone_whatever_their_number() {
    let program = parse(UPPER);
    for count in [1, 33, 200] {
        let runs = compare(&program, &RunOptions::default(), &mixed_inputs(count));
        assert!(runs.iter().any(|r| r.end == RunEnd::Exit(0)));
        if count > 30 {
            assert_eq!(runs[6].end, RunEnd::Exit(3));
            let RunEnd::Trap(trap) = &runs[12].end else {
                panic!("{:?}", runs[12].end)
            };
            assert_eq!(trap.kind, TrapKind::DivideByZero);
            // The import functions come first, then $upper.
            assert_eq!(trap.place.as_ref().unwrap().function_index, 4);
        }
    }
}

#[test]
fn few_copies_take_all_inputs_in_turn() {
    let program = parse(UPPER);
    let options = RunOptions {
        copies: Some(3),
        ..RunOptions::default()
    };
    compare(&program, &options, &mixed_inputs(40));
}

#[test]
fn places_of_traps_are_those_of_the_cpu_target() {
    let program = parse(UPPER);
    let inputs = inputs([b"trap".to_vec(), b"divide".to_vec()]);
    let expected = super::run_on_cpu(&program, &RunOptions::default(), &inputs);
    let found =
        super::run_translated(&program, &RunOptions::default(), TranslationOptions::default(), &inputs).unwrap();
    assert_eq!(expected, found);
}

#[test]
fn full_buffers_drain_in_all_cell_sizes() {
    let program = parse(UPPER);
    let big: Vec<u8> = (0..200_000u32).map(|n| b'a' + (n % 26) as u8).collect();
    let inputs = inputs([big.clone(), b"small".to_vec(), big]);
    for cell in [CellSize::Four, CellSize::Eight, CellSize::Sixteen] {
        for strict in [false, true] {
            let translation = TranslationOptions {
                cell: Some(cell),
                strict,
                counters: false,
            };
            let runs = compare_with(&program, &RunOptions::default(), translation, &inputs);
            assert_eq!(runs[0].standard_output.len(), 200_000);
        }
    }
}

#[test]
fn programs_serve_many_requests() {
    let program = parse(
        r#"(module
          (import "kinescope" "invoke" (func $invoke (param i32 i32) (result i32)))
          (import "env" "serverless_response" (func $respond (param i32 i32)))
          (memory (export "memory") 1)
          (func (export "_start") (local $n i32)
            (loop $next
              (local.set $n (call $invoke (i32.const 16) (i32.const 1000)))
              (i32.store8 (i32.add (i32.const 16) (local.get $n)) (i32.const 10))
              (call $respond (i32.const 16) (i32.add (local.get $n) (i32.const 1)))
              (br $next))))"#,
    );
    let inputs: Vec<Input> = (0..70u32)
        .map(|i| Input {
            name: i.to_string(),
            bytes: format!("first {i}").into_bytes(),
            more_requests: (0..i % 5)
                .map(|n| vec![b'0' + n as u8; (i * n) as usize % 90])
                .collect(),
        })
        .collect();
    let runs = compare(&program, &RunOptions::default(), &inputs);
    assert_eq!(runs[4].standard_output.iter().filter(|b| **b == b'\n').count(), 5);
}

#[test]
fn start_and_initialize_run_before_the_function() {
    let letter = |name: &str, letter: char| {
        format!(
            "(func ${name} (i32.store8 (i32.const 100) (i32.const {}))
               (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))",
            letter as u32
        )
    };
    let text = format!(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "\64\00\00\00\01\00\00\00")
          {} {} {}
          (start $first)
          (export "_initialize" (func $second))
          (export "run" (func $third)))"#,
        letter("first", 's'),
        letter("second", 'i'),
        letter("third", 'r')
    );
    let options = |function: &str| RunOptions {
        function: function.into(),
        ..RunOptions::default()
    };
    for (function, output) in [("run", "sir"), ("_initialize", "si")] {
        let runs = compare(&parse(&text), &options(function), &inputs([Vec::new()]));
        assert_eq!(runs[0].standard_output, output.as_bytes());
    }
}

#[test]
fn programs_without_system_calls_and_segments_outside_memory_end() {
    let runs = compare(
        &parse("(module (func (export \"_start\") unreachable))"),
        &RunOptions::default(),
        &inputs([Vec::new(), Vec::new()]),
    );
    assert!(matches!(
        &runs[1].end,
        RunEnd::Trap(Trap {
            kind: TrapKind::Unreachable,
            place: Some(_)
        })
    ));
    let outside = r#"(module
        (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 65535) "ab")
        (func (export "_start") (drop (call $yield))))"#;
    let runs = compare(&parse(outside), &RunOptions::default(), &inputs([Vec::new()]));
    assert!(matches!(
        &runs[0].end,
        RunEnd::Trap(Trap {
            kind: TrapKind::MemoryOutOfBounds,
            place: None
        })
    ));
}
