//! Damaged programs: refused, or run to an end within their limits. Nothing panics.

use super::{Results, input};
use crate::CpuBackend;
use std::sync::Mutex;
use std::time::Duration;
use wasm_run::{Backend as _, Limits, Program, RunOptions};
use wasm_system::SharedProgram;

/// Number of damaged copies of each program.
const COPIES: u32 = 4000;

const PROGRAMS: [&str; 2] = [
    r#"(module
        (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
        (import "kinescope" "invoke" (func $invoke (param i32 i32) (result i32)))
        (import "kinescope" "respond" (func $respond (param i32 i32)))
        (memory (export "memory") 1 3)
        (table 4 funcref)
        (elem (i32.const 1) func $answer)
        (data (i32.const 0) "\20\00\00\00\40\00\00\00")
        (global $count (mut i32) (i32.const 3))
        (func $answer (param i32) (result i32)
            (call $respond (local.get 0) (i32.const 8))
            (i32.div_u (i32.const 100) (global.get $count)))
        (func (export "_start")
            (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
            (drop (call $random (i32.const 40) (i32.const 20)))
            (drop (call $poll (i32.const 64) (i32.const 128) (i32.const 1) (i32.const 12)))
            (loop $next
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
                (drop (call_indirect (param i32) (result i32) (i32.const 32) (i32.const 1)))
                (global.set $count (i32.sub (global.get $count) (i32.const 1)))
                (br_if $next (global.get $count)))
            (drop (call $invoke (i32.const 100) (i32.const 10)))))"#,
    r#"(module
        (memory 1)
        (data $passive "abcdef")
        (func $begin (i64.store (i32.const 8) (i64.const 7)))
        (func $deep (param f64) (result i64)
            (if (f64.lt (local.get 0) (f64.const 1)) (then (return (i64.const 1))))
            (i64.mul (i64.load (i32.const 8)) (call $deep (f64.sub (local.get 0) (f64.const 1)))))
        (func (export "_start")
            (memory.init $passive (i32.const 100) (i32.const 1) (i32.const 3))
            (memory.copy (i32.const 200) (i32.const 100) (i32.const 50))
            (drop (memory.grow (i32.const 1)))
            (drop (i32.trunc_f64_s (f64.convert_i64_s (call $deep (f64.const 9))))))
        (start $begin))"#,
];

/// Runs a program that is valid, with small limits. Returns whether it could run.
fn run(binary: Vec<u8>) -> bool {
    let options = RunOptions {
        limits: Limits {
            memory_pages: 4,
            call_depth: 50,
            fuel: Some(20_000),
            time: Some(Duration::from_secs(5)),
            output_bytes: 10_000,
            log_entries: 10,
        },
        ..RunOptions::default()
    };
    let backend = Program::parse(binary).and_then(|p| CpuBackend::new(p, options));
    let Ok(backend) = backend else { return false };
    let results = Results(Mutex::new(vec![None]));
    backend.run(&[input(b"some input")], &results).unwrap();
    let run = results.0.into_inner().unwrap().remove(0).unwrap();
    assert!(run.standard_output.len() + run.standard_error.len() <= 10_000);
    assert!(run.calls.len() <= 10);
    true
}

#[test]
fn damaged_programs_are_refused_or_end() {
    let mut random = 0x1234_5678_9abc_def0_u64;
    let mut next = |end: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % end
    };
    for text in PROGRAMS {
        let sound = wat::parse_str(text).unwrap();
        assert!(run(sound.clone()));
        let mut runs = 0;
        for _ in 0..COPIES {
            let mut binary = sound.clone();
            for _ in 0..=next(3) {
                let at = next(binary.len());
                match next(4) {
                    0 => binary[at] = u8::try_from(next(256)).unwrap(),
                    1 => binary[at] ^= 1 << next(8),
                    2 => binary.insert(at, u8::try_from(next(256)).unwrap()),
                    _ => {
                        binary.remove(at);
                    }
                }
            }
            let _ = SharedProgram::divide(&binary);
            runs += u32::from(run(binary));
        }
        // Constants and names can change without a refusal.
        assert!(runs > COPIES / 50, "only {runs} damaged programs run");
    }
}
