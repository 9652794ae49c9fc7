//! Limits of a copy: fuel, time, memory, depth, output.

use super::{input, run_all, trap};
use std::time::Duration;
use wasm_run::{Limits, ProgramRun, RunEnd, RunOptions, TrapKind};

fn run_limited(text: &str, limits: Limits) -> ProgramRun {
    let options = RunOptions {
        limits,
        ..RunOptions::default()
    };
    run_all(text, &options, &[input(b"")]).remove(0)
}

const ENDLESS: &str = "(module (func (export \"_start\") (loop (br 0))))";

#[test]
fn fuel_ends_an_endless_loop() {
    for fuel in [0, 1, 1000, 3 << 20] {
        let limits = Limits {
            fuel: Some(fuel),
            time: None,
            ..Limits::default()
        };
        let run = run_limited(ENDLESS, limits);
        assert_eq!(trap(&run).kind, TrapKind::TimeLimit, "{fuel}");
    }
}

#[test]
fn time_ends_an_endless_loop() {
    let limits = Limits {
        time: Some(Duration::from_millis(20)),
        ..Limits::default()
    };
    assert_eq!(trap(&run_limited(ENDLESS, limits)).kind, TrapKind::TimeLimit);
}

#[test]
fn memory_grows_up_to_the_limit() {
    // Exits with the number of pages that it got.
    let text = r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (func (export "_start")
            (block $full
                (loop $next
                    (br_if $full (i32.eq (memory.grow (i32.const 1)) (i32.const -1)))
                    (br $next)))
            (call $exit (memory.size))))"#;
    for memory_pages in [1, 2, 9] {
        let limits = Limits {
            memory_pages,
            ..Limits::default()
        };
        assert_eq!(run_limited(text, limits).end, RunEnd::Exit(memory_pages));
    }
}

#[test]
fn depth_of_calls_has_its_limit() {
    // Recurses as many times as the constant says.
    let text = |depth: u32| {
        format!(
            r#"(module
                (func $down (param i32)
                    (if (local.get 0) (then (call $down (i32.sub (local.get 0) (i32.const 1))))))
                (func (export "_start") (call $down (i32.const {depth}))))"#
        )
    };
    let limits = Limits {
        call_depth: 100,
        ..Limits::default()
    };
    assert_eq!(run_limited(&text(90), limits.clone()).end, RunEnd::Exit(0));
    let run = run_limited(&text(110), limits);
    assert_eq!(trap(&run).kind, TrapKind::CallStackExhausted);
}

/// Writes 100 bytes at a time to descriptor `fd`, `count` times.
fn writer(fd: u32, count: u32) -> String {
    format!(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "\10\00\00\00\64\00\00\00")
            (func (export "_start") (local $n i32)
                (memory.fill (i32.const 16) (i32.const 97) (i32.const 100))
                (loop $next
                    (i32.store8 (i32.const 16) (i32.add (i32.const 65) (i32.rem_u (local.get $n) (i32.const 26))))
                    (if (call $write (i32.const {fd}) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
                    (if (i32.ne (i32.load (i32.const 8)) (i32.const 100)) (then unreachable))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $next (i32.lt_u (local.get $n) (i32.const {count}))))))"#
    )
}

#[test]
fn output_beyond_the_buffer_is_complete() {
    for fd in [1, 2] {
        // The buffer has 64 KiB: it is full in the middle of a write, several times.
        let run = run_limited(&writer(fd, 3000), Limits::default());
        assert_eq!(run.end, RunEnd::Exit(0));
        let (written, other) = if fd == 1 {
            (&run.standard_output, &run.standard_error)
        } else {
            (&run.standard_error, &run.standard_output)
        };
        assert!(other.is_empty());
        assert_eq!(written.len(), 300_000);
        for (n, part) in written.chunks(100).enumerate() {
            assert_eq!(part[0], b'A' + u8::try_from(n % 26).unwrap());
            assert!(part[1..].iter().all(|b| *b == b'a'));
        }
        assert_eq!(run.calls.len(), 1024);
        assert_eq!(run.lost_calls, 3000 - 1024);
    }
}

#[test]
fn output_limit_is_a_trap_with_exactly_the_allowed_bytes() {
    for (limit, bytes) in [(0, 0), (1, 1), (199, 199), (200, 200), (100_050, 100_050)] {
        let limits = Limits {
            output_bytes: limit,
            ..Limits::default()
        };
        let run = run_limited(&writer(1, 3000), limits);
        assert_eq!(trap(&run).kind, TrapKind::OutputLimit);
        assert_eq!(run.standard_output.len(), bytes);
        // The place is the call.
        assert_eq!(trap(&run).place.as_ref().unwrap().function_index, 1);
    }
    let limits = Limits {
        output_bytes: 300_000,
        ..Limits::default()
    };
    assert_eq!(run_limited(&writer(1, 3000), limits).end, RunEnd::Exit(0));
}
