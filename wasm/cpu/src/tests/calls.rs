//! System calls, one by one, with hostile arguments.

use super::{input, run_all, trap};
use wasm_run::{Input, ProgramRun, RunEnd, RunOptions, TrapKind};

/// All imports of the tests, and two functions that print: `$show` a number of 4 bytes, `$print` a range.
const PRELUDE: &str = r#"
    (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "clock_res_get" (func $clock_res_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fd_fdstat_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_fdstat_set_flags" (func $fd_fdstat_set_flags (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_filestat_get" (func $fd_filestat_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_seek" (func $fd_seek (param i32 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
    (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "sched_yield" (func $sched_yield (result i32)))
    (import "wasi_snapshot_preview1" "fd_tell" (func $fd_tell (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "path_open"
        (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "kinescope" "invoke" (func $invoke (param i32 i32) (result i32)))
    (import "kinescope" "respond" (func $respond (param i32 i32)))
    (import "env" "serverless_invoke" (func $serverless_invoke (param i32 i32) (result i32)))
    (import "env" "serverless_response" (func $serverless_response (param i32 i32)))
    (memory (export "memory") 1)
    (func $print (param $at i32) (param $length i32)
        (i32.store (i32.const 0xff00) (local.get $at))
        (i32.store (i32.const 0xff04) (local.get $length))
        (if (call $fd_write (i32.const 1) (i32.const 0xff00) (i32.const 1) (i32.const 0xff08)) (then unreachable)))
    (func $show (param $value i32)
        (i32.store (i32.const 0xff10) (local.get $value))
        (call $print (i32.const 0xff10) (i32.const 4)))
"#;

fn run_body(body: &str, options: &RunOptions, input: &Input) -> ProgramRun {
    let text = format!("(module {PRELUDE} (func (export \"_start\") {body}))");
    run_all(&text, options, std::slice::from_ref(input)).remove(0)
}

/// Runs a body that shows numbers, and returns them.
fn numbers(body: &str, bytes: &[u8]) -> Vec<u32> {
    let run = run_body(body, &RunOptions::default(), &input(bytes));
    assert_eq!(run.end, RunEnd::Exit(0), "{body}");
    let shown = run.standard_output.chunks_exact(4);
    shown.map(|n| u32::from_le_bytes(n.try_into().unwrap())).collect()
}

/// Checks the error numbers of calls.
fn check_errors(calls: &[(&str, u32)]) {
    let body: String = calls
        .iter()
        .map(|(call, _)| format!("(call $show (call {call}))\n"))
        .collect();
    let errors = numbers(&body, b"abc");
    for ((call, expected), error) in calls.iter().zip(errors) {
        assert_eq!(error, *expected, "{call}");
    }
}

const FAULT: u32 = 21;
const BAD_DESCRIPTOR: u32 = 8;
const INVALID: u32 = 28;

#[test]
fn arguments_and_environment_arrive() {
    let options = RunOptions {
        arguments: vec![b"tool".to_vec(), Vec::new(), "größer".into()],
        environment: vec![(b"HOME".to_vec(), b"/".to_vec()), (b"EMPTY".to_vec(), Vec::new())],
        ..RunOptions::default()
    };
    for (sizes, get, count, text) in [
        ("$args_sizes_get", "$args_get", 3, "tool\0\0größer\0"),
        ("$environ_sizes_get", "$environ_get", 2, "HOME=/\0EMPTY=\0"),
    ] {
        let body = format!(
            "(call $show (call {sizes} (i32.const 16) (i32.const 20)))
             (call $show (i32.load (i32.const 16)))
             (call $show (i32.load (i32.const 20)))
             (call $show (call {get} (i32.const 101) (i32.const 201)))
             (call $print (i32.const 101) (i32.mul (i32.load (i32.const 16)) (i32.const 4)))
             (call $print (i32.const 201) (i32.load (i32.const 20)))"
        );
        let run = run_body(&body, &options, &input(b""));
        let starts = text.split_inclusive('\0').scan(201, |at, part| {
            let start = *at;
            *at += u32::try_from(part.len()).unwrap();
            Some(start)
        });
        let mut expected: Vec<u8> = [0, count, u32::try_from(text.len()).unwrap(), 0]
            .into_iter()
            .chain(starts)
            .flat_map(u32::to_le_bytes)
            .collect();
        expected.extend_from_slice(text.as_bytes());
        assert_eq!(run.standard_output, expected);
    }
}

#[test]
fn hostile_pointers_are_faults() {
    let end = "(i32.const 65533)";
    let high = "(i32.const -4)";
    // A vector at 32 with a bad range, a good one at 48.
    check_errors(&[
        (&format!("$args_get {end} (i32.const 0)"), FAULT),
        (&format!("$args_get (i32.const 0) {high}"), FAULT),
        (&format!("$args_sizes_get {end} (i32.const 0)"), FAULT),
        (&format!("$args_sizes_get (i32.const 0) {high}"), FAULT),
        (&format!("$environ_sizes_get {high} (i32.const 0)"), FAULT),
        (&format!("$clock_time_get (i32.const 0) (i64.const 0) {end}"), FAULT),
        (&format!("$clock_res_get (i32.const 1) {high}"), FAULT),
        (&format!("$fd_fdstat_get (i32.const 0) {end}"), FAULT),
        (&format!("$fd_filestat_get (i32.const 1) {high}"), FAULT),
        (
            &format!("$fd_read (i32.const 0) {end} (i32.const 1) (i32.const 0)"),
            FAULT,
        ),
        (
            &format!("$fd_read (i32.const 0) (i32.const 0) (i32.const 1) {end}"),
            FAULT,
        ),
        (
            &format!("$fd_write (i32.const 1) {high} (i32.const 1) (i32.const 0)"),
            FAULT,
        ),
        (
            &format!("$fd_write (i32.const 1) (i32.const 0) (i32.const 1) {end}"),
            FAULT,
        ),
        (&format!("$random_get (i32.const 0) {high}"), FAULT),
        (&format!("$random_get {high} (i32.const 8)"), FAULT),
        (
            &format!("$poll_oneoff {end} (i32.const 0) (i32.const 1) (i32.const 0)"),
            FAULT,
        ),
        (
            &format!("$poll_oneoff (i32.const 0) {end} (i32.const 1) (i32.const 0)"),
            FAULT,
        ),
        (
            &format!("$poll_oneoff (i32.const 0) (i32.const 0) (i32.const 1) {end}"),
            FAULT,
        ),
        (
            "$poll_oneoff (i32.const 20000) (i32.const 0) (i32.const 1024) (i32.const 0)",
            FAULT,
        ),
        (
            "$fd_read (i32.const 0) (i32.const 65000) (i32.const 1024) (i32.const 0)",
            FAULT,
        ),
    ]);
}

#[test]
fn bad_arguments_have_their_errors() {
    check_errors(&[
        ("$clock_time_get (i32.const 4) (i64.const 0) (i32.const 0)", INVALID),
        ("$clock_res_get (i32.const -1) (i32.const 0)", INVALID),
        ("$fd_close (i32.const 3)", BAD_DESCRIPTOR),
        ("$fd_close (i32.const 34)", BAD_DESCRIPTOR),
        ("$fd_fdstat_get (i32.const 3) (i32.const 0)", BAD_DESCRIPTOR),
        ("$fd_fdstat_set_flags (i32.const 0) (i32.const 32)", INVALID),
        ("$fd_fdstat_set_flags (i32.const 0) (i32.const 4)", 0),
        ("$fd_filestat_get (i32.const -1) (i32.const 0)", BAD_DESCRIPTOR),
        ("$fd_prestat_get (i32.const 3) (i32.const 0)", BAD_DESCRIPTOR),
        ("$fd_read (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)", BAD_DESCRIPTOR),
        ("$fd_write (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)", BAD_DESCRIPTOR),
        ("$fd_write (i32.const 9) (i32.const 0) (i32.const 0) (i32.const 0)", BAD_DESCRIPTOR),
        ("$fd_read (i32.const 0) (i32.const 0) (i32.const 1025) (i32.const 0)", INVALID),
        ("$fd_write (i32.const 1) (i32.const 0) (i32.const -1) (i32.const 0)", INVALID),
        ("$fd_seek (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0)", 70),
        ("$fd_seek (i32.const 3) (i64.const 0) (i32.const 0) (i32.const 0)", BAD_DESCRIPTOR),
        ("$poll_oneoff (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)", INVALID),
        ("$fd_tell (i32.const 0) (i32.const 0)", 52),
        (
            "$path_open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i64.const 0)
             (i32.const 0) (i32.const 0)",
            76,
        ),
        ("$sched_yield", 0),
        // Twice: the second one finds it closed.
        ("$fd_close (i32.const 0)", 0),
        ("$fd_close (i32.const 0)", BAD_DESCRIPTOR),
        ("$fd_read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)", BAD_DESCRIPTOR),
    ]);
}

#[test]
fn reads_scatter_the_input_until_its_end() {
    let body = "
        (i32.store (i32.const 0) (i32.const 1000)) (i32.store (i32.const 4) (i32.const 3))
        (i32.store (i32.const 8) (i32.const 2001)) (i32.store (i32.const 12) (i32.const 0))
        (i32.store (i32.const 16) (i32.const 3000)) (i32.store (i32.const 20) (i32.const 100))
        (call $show (call $fd_read (i32.const 0) (i32.const 0) (i32.const 3) (i32.const 24)))
        (call $show (i32.load (i32.const 24)))
        (call $show (i32.load (i32.const 1000)))
        (call $show (i32.load (i32.const 3000)))
        (call $show (call $fd_read (i32.const 0) (i32.const 0) (i32.const 3) (i32.const 24)))
        (call $show (i32.load (i32.const 24)))";
    assert_eq!(
        numbers(body, b"abcdef"),
        [0, 6, u32::from_le_bytes(*b"abc\0"), u32::from_le_bytes(*b"def\0"), 0, 0]
    );
}

#[test]
fn a_read_that_replaces_its_own_vectors_stays_inside_the_memory() {
    // The first vector covers the second one: the input replaces it with a range outside the memory.
    let body = "
        (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 8))
        (i32.store (i32.const 8) (i32.const 100)) (i32.store (i32.const 12) (i32.const 4))
        (call $show (call $fd_read (i32.const 0) (i32.const 0) (i32.const 2) (i32.const 40)))
        (call $show (i32.load (i32.const 40)))";
    assert_eq!(numbers(body, b"\xff\xff\xff\xff\xff\xff\xff\xffrest"), [0, 8]);
}

#[test]
fn sums_of_vectors_do_not_wrap() {
    // Each of 600 vectors is the whole memory: together more than 2 GiB would need 32,768 of them; the count is bounded.
    let body = "(local $i i32)
        (drop (memory.grow (i32.const 100)))
        (loop $next
            (i32.store (i32.shl (local.get $i) (i32.const 3)) (i32.const 0))
            (i32.store offset=4 (i32.shl (local.get $i) (i32.const 3)) (i32.const 0x600000))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (i32.const 1024))))
        (call $show (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1024) (i32.const 0x8000)))
        (call $show (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 0x8000)))";
    assert_eq!(numbers(body, b"x"), [INVALID, INVALID]);
}

#[test]
fn descriptors_describe_themselves() {
    let body = "
        (call $show (call $fd_fdstat_set_flags (i32.const 1) (i32.const 1)))
        (call $show (call $fd_fdstat_get (i32.const 1) (i32.const 1001)))
        (call $print (i32.const 1001) (i32.const 24))
        (call $show (call $fd_filestat_get (i32.const 0) (i32.const 2001)))
        (call $print (i32.const 2001) (i32.const 64))";
    let shown = numbers(body, b"hello");
    assert_eq!(shown[..8], [0, 0, 1 << 16, 0, 0x800_0048, 0, 0, 0]);
    assert_eq!(shown[8], 0);
    let stat = &shown[9..];
    // Device, number, type, links, size.
    assert_eq!(stat[..12], [0, 0, 0, 0, 0, 0, 1, 0, 5, 0, 0, 0]);
}

#[test]
fn the_clock_is_virtual() {
    let options = RunOptions {
        clock_start: 1_700_000_000_000_000_000,
        clock_step: 250,
        ..RunOptions::default()
    };
    let body = "
        (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 3)))
        (drop (call $sched_yield))
        (drop (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 11)))
        (drop (call $clock_res_get (i32.const 0) (i32.const 19)))
        (call $print (i32.const 3) (i32.const 24))";
    let run = run_body(body, &options, &input(b""));
    let times: Vec<u64> = run
        .standard_output
        .chunks_exact(8)
        .map(|t| u64::from_le_bytes(t.try_into().unwrap()))
        .collect();
    assert_eq!(times, [1_700_000_000_000_000_000, 1_700_000_000_000_000_500, 250]);
    let logged: Vec<u64> = run.calls.iter().map(|c| c.time - options.clock_start).collect();
    assert_eq!(logged, [0, 250, 500, 750, 1000]);
}

/// A subscription of `poll_oneoff` as stores: user data, kind, number, timeout, flags.
fn subscription(at: u32, user: u64, kind: u8, number: u32, timeout: u64, flags: u16) -> String {
    let timeout = timeout.cast_signed();
    format!(
        "(i64.store offset={at} (i32.const 0) (i64.const {user}))
         (i32.store8 offset={} (i32.const 0) (i32.const {kind}))
         (i32.store offset={} (i32.const 0) (i32.const {number}))
         (i64.store offset={} (i32.const 0) (i64.const {timeout}))
         (i32.store16 offset={} (i32.const 0) (i32.const {flags}))",
        at + 8,
        at + 16,
        at + 24,
        at + 40
    )
}

#[test]
fn poll_moves_the_clock_to_the_first_deadline() {
    let body = [
        subscription(1000, 7, 0, 1, 5_000_000, 0),
        subscription(1048, 8, 0, 1, 3_000_000, 0),
        subscription(1096, 9, 0, 0, u64::MAX, 0),
        "(call $show (call $poll_oneoff (i32.const 1000) (i32.const 3000) (i32.const 3) (i32.const 4000)))
         (call $show (i32.load (i32.const 4000)))
         (call $print (i32.const 3000) (i32.const 32))
         (drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 0)))
         (call $show (i32.load (i32.const 0)))"
            .to_owned(),
    ]
    .concat();
    let shown = numbers(&body, b"");
    assert_eq!(shown[..2], [0, 1]);
    assert_eq!(shown[2..10], [8, 0, 0, 0, 0, 0, 0, 0]);
    // The poll itself and the three prints of the results took 1 us each.
    assert_eq!(shown[10], 3_000_000 + 4 * 1000);
}

#[test]
fn poll_answers_descriptors_at_once() {
    let body = [
        subscription(1000, 1, 0, 1, 5_000_000, 0),
        subscription(1048, 2, 1, 0, 0, 0),
        subscription(1096, 3, 2, 1, 0, 0),
        subscription(1144, 4, 2, 0, 0, 0),
        subscription(1192, 5, 1, 77, 0, 0),
        subscription(1240, 6, 0, 9, 0, 0),
        "(call $show (call $poll_oneoff (i32.const 1000) (i32.const 3000) (i32.const 6) (i32.const 4000)))
         (call $show (i32.load (i32.const 4000)))
         (call $print (i32.const 3000) (i32.const 160))"
            .to_owned(),
    ]
    .concat();
    let shown = numbers(&body, b"seven b");
    assert_eq!(shown[..2], [0, 5]);
    let events: Vec<(u32, u32, u32, u32)> = shown[2..]
        .chunks(8)
        .map(|e| (e[0], e[2] & 0xffff, e[2] >> 16, e[4]))
        .collect();
    let bad = BAD_DESCRIPTOR;
    assert_eq!(
        events,
        [
            (2, 0, 1, 7),
            (3, 0, 2, 0),
            (4, bad, 2, 0),
            (5, bad, 1, 0),
            (6, INVALID, 0, 0)
        ]
    );
}

#[test]
fn random_bytes_are_philox_of_seed_and_input_number() {
    let body = "
        (call $show (call $random_get (i32.const 1001) (i32.const 16)))
        (call $print (i32.const 1001) (i32.const 16))
        (call $show (call $random_get (i32.const 1001) (i32.const 21)))
        (call $print (i32.const 1001) (i32.const 24))";
    let shown = numbers(body, b"");
    // The published vector of Philox4x32-10 for a counter and a key of zeros.
    assert_eq!(shown[1..5], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    let text = format!("(module {PRELUDE} (func (export \"_start\") {body}))");
    let options = RunOptions {
        seed: 0x0123_4567_89ab_cdef,
        ..RunOptions::default()
    };
    let inputs = [input(b""), input(b""), input(b"")];
    let first = run_all(&text, &options, &inputs);
    assert_eq!(first, run_all(&text, &options, &inputs));
    assert_ne!(first[0].standard_output, first[1].standard_output);
    assert_ne!(first[1].standard_output, first[2].standard_output);
    assert!(
        !first[0]
            .standard_output
            .windows(4)
            .any(|w| w == 0x6627_e8d5_u32.to_le_bytes())
    );
}

#[test]
fn exit_codes_arrive_from_nested_calls() {
    for code in [0, 1, 255, u32::MAX] {
        let text = format!(
            "(module {PRELUDE}
                (func $deep (param i32)
                    (if (local.get 0)
                        (then (call $deep (i32.sub (local.get 0) (i32.const 1))))
                        (else (call $proc_exit (i32.const {})))))
                (func (export \"_start\") (call $deep (i32.const 20)) unreachable))",
            code.cast_signed()
        );
        let run = run_all(&text, &RunOptions::default(), &[input(b"")]).remove(0);
        assert_eq!(run.end, RunEnd::Exit(code));
        assert_eq!(run.calls.len(), 1);
        assert_eq!(run.calls[0].name(), Some("proc_exit"));
    }
}

#[test]
fn the_log_has_each_call() {
    let body = "
        (call $print (i32.const 0x500) (i32.const 5))
        (drop (call $fd_close (i32.const 9)))
        (drop (call $random_get (i32.const 1) (i32.const 1)))";
    let run = run_body(body, &RunOptions::default(), &input(b""));
    let lines: Vec<String> = run.calls.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "fd_write(fd=1, iovs=0xff00) = 0 (5 bytes)",
            "fd_close(fd=9) = 8",
            "random_get(buf=1, buf_len=1) = 0 (1 byte)",
        ]
    );
}

/// Serves requests until there is none: answers with the request between brackets.
const SERVER: &str = r#"(local $length i32)
    (i32.store8 (i32.const 99) (i32.const 91))
    (loop $next
        (local.set $length (call $invoke (i32.const 100) (i32.const 10)))
        (if (i32.gt_u (local.get $length) (i32.const 10))
            (then (local.set $length (call $serverless_invoke (i32.const 100) (local.get $length)))))
        (i32.store8 offset=100 (local.get $length) (i32.const 93))
        (call $respond (i32.const 99) (i32.add (local.get $length) (i32.const 1)))
        (call $serverless_response (i32.add (i32.const 100) (local.get $length)) (i32.const 1))
        (br $next))"#;

#[test]
fn requests_come_one_after_the_other() {
    let requests = Input {
        name: "requests".into(),
        bytes: b"first".to_vec(),
        more_requests: vec![
            Vec::new(),
            b"a longer request than the buffer".to_vec(),
            b"last".to_vec(),
        ],
    };
    let run = run_body(SERVER, &RunOptions::default(), &requests);
    assert_eq!(run.end, RunEnd::Exit(0));
    assert_eq!(
        String::from_utf8(run.standard_output).unwrap(),
        "[first][][a longer request than the buffer][last]"
    );
    let results: Vec<i32> = run
        .calls
        .iter()
        .filter(|c| c.name() == Some("invoke"))
        .map(|c| c.result)
        .collect();
    // The long request is asked for twice; after the last one, the copy ends.
    assert_eq!(results, [5, 0, 32, 32, 4, -1]);
}

#[test]
fn hostile_ranges_of_requests() {
    assert_eq!(
        numbers("(call $show (call $invoke (i32.const 65530) (i32.const 100)))", b"x"),
        [(-21_i32).cast_unsigned()]
    );
    let run = run_body(
        "(call $respond (i32.const 65530) (i32.const 7))",
        &RunOptions::default(),
        &input(b""),
    );
    assert_eq!(trap(&run).kind, TrapKind::MemoryOutOfBounds);
    assert!(run.standard_output.is_empty());
    // A request after a partial read of standard input starts at its own beginning.
    let body = "
        (i32.store (i32.const 0) (i32.const 100)) (i32.store (i32.const 4) (i32.const 1000))
        (drop (call $invoke (i32.const 100) (i32.const 100)))
        (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (call $show (i32.load (i32.const 8)))
        (drop (call $invoke (i32.const 100) (i32.const 100)))
        (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (call $show (i32.load (i32.const 8)))";
    let two = Input {
        name: "two".into(),
        bytes: b"a long first request".to_vec(),
        more_requests: vec![b"b".to_vec()],
    };
    let run = run_body(body, &RunOptions::default(), &two);
    assert_eq!(
        run.standard_output,
        [20_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat()
    );
}
