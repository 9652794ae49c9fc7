//! Branches, calls, limits.

use super::{BASE, ONE, fault, module, parse_error, regions, run_text, word};
use crate::{FaultKind, GlobalAddress, LaunchShape, Limits, ParseErrorKind, Program};
use std::time::Instant;

#[test]
fn loops_count_and_joined_comparisons_keep_their_predicate() {
    let body = "mov.b64 %d0, 0; mov.b32 %r0, 0;\nLOOP:\nadd.s64 %d0, %d0, 3; add.s32 %r0, %r0, 1;\n\
                setp.lt.u32 %p0, %r0, 10;\n@%p0 bra LOOP;\n@!%p0 add.s64 %d0, %d0, 100;\nst.global.b64 [%out], %d0;";
    assert_eq!(word(body), 130);
}

#[test]
fn indexed_branches_stay_in_their_list() {
    let body = |index: u32| {
        format!(
            "mov.b32 %r0, {index};\nLIST: .branchtargets A, B, A;\nbrx.idx %r0, LIST;\n\
             A: st.global.b64 [%out], 10; bra END;\nB: st.global.b64 [%out], 20;\nEND:"
        )
    };
    assert_eq!([0, 1, 2].map(|n| word(&body(n))), [10, 20, 10]);
    assert_eq!(fault(&body(3)).kind, FaultKind::BranchIndex(3));
}

const FACTORIAL: &str = ".func (.param .align 8 .b8 r[16]) fac(.param .b64 n);\n\
    .func (.param .align 8 .b8 r[16]) fac(.param .b64 n)\n{\n.reg .b64 %d<4>; .reg .b32 %s; .reg .pred %p;\n\
    ld.param.b64 %d0, [n];\nsetp.le.u64 %p, %d0, 1;\n@%p bra BASE;\nsub.s64 %d1, %d0, 1;\n\
    { .param .b64 a; .param .align 8 .b8 o[16]; st.param.b64 [a], %d1; call (o), fac, (a);\n\
      ld.param.b64 %d2, [o+8]; ld.param.b32 %s, [o]; }\n\
    mul.lo.s64 %d3, %d2, %d0; st.param.b32 [r], %s; st.param.b64 [r+8], %d3; ret;\n\
    BASE: st.param.b32 [r], 5; st.param.b64 [r+8], 1; ret;\n}";

#[test]
fn calls_keep_the_registers_of_their_callers() {
    let body = "{ .param .b64 a; .param .align 8 .b8 o[16]; st.param.b64 [a], 10; call (o), fac, (a);\n\
                ld.param.b64 %d0, [o+8]; ld.param.b32 %r0, [o]; }\ncvt.u64.u32 %d1, %r0; add.s64 %d0, %d0, %d1;\n\
                st.global.b64 [%out], %d0;";
    let mut memory = regions();
    let stats = run_text(&module(FACTORIAL, body), &mut memory, ONE, Limits::default()).unwrap();
    let bytes = memory.bytes(GlobalAddress(BASE)).unwrap();
    assert_eq!(u64::from_le_bytes(*bytes.first_chunk().unwrap()), 3_628_805);
    assert_eq!(stats.depth, 11);
    let limits = Limits {
        depth: 5,
        ..Limits::default()
    };
    let fault = run_text(&module(FACTORIAL, body), &mut memory, ONE, limits).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StackOverflow);
}

#[test]
fn indirect_calls_check_the_prototype() {
    let before = ".func (.reg .b32 %r) twice(.reg .b32 %a) { add.s32 %r, %a, %a; ret; }\n\
                  .func (.reg .b32 %r) square(.reg .b32 %a) { mul.lo.s32 %r, %a, %a; ret; }\n\
                  .func nothing() { ret; }\n.global .u64 table[3] = { twice, square, nothing };";
    let body = |offset: u32| {
        format!(
            "ld.global.u64 %d0, [table+{offset}];\nP: .callprototype (.reg .b32 _) _ (.reg .b32 _);\n\
             call (%r0), %d0, (7), P;\nst.global.b32 [%out], %r0;"
        )
    };
    let run = |offset| {
        let mut memory = regions();
        run_text(&module(before, &body(offset)), &mut memory, ONE, Limits::default())
            .map(|_| memory.bytes(GlobalAddress(BASE)).unwrap()[0])
            .map_err(|fault| fault.kind)
    };
    assert_eq!((run(0), run(8)), (Ok(14), Ok(49)));
    assert!(matches!(run(16), Err(FaultKind::IndirectCall(_))));
    assert!(matches!(run(24), Err(FaultKind::IllegalAddress(_))));
}

#[test]
fn wrong_calls_are_refused() {
    let before = ".func f(.param .b64 a) { ret; }";
    assert!(matches!(
        parse_error(before, "call f;"),
        ParseErrorKind::ArgumentMismatch(_)
    ));
    assert!(matches!(
        parse_error(before, "call f, (%r0);"),
        ParseErrorKind::ArgumentMismatch(_)
    ));
    assert!(matches!(parse_error("", "call g;"), ParseErrorKind::UnknownName(_)));
    assert!(matches!(
        parse_error(".func g();", "call g;"),
        ParseErrorKind::NoBody(_)
    ));
}

#[test]
fn launches_are_limited() {
    let limits = Limits {
        steps: 1000,
        ..Limits::default()
    };
    let fault = run_text(&module("", "L: bra L;"), &mut regions(), ONE, limits).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StepLimit);
    let program = Program::parse(&module("", "")).unwrap();
    let run = |name, parameters: &[u64], shape| {
        program
            .run_entry(name, parameters, shape, &mut regions(), Limits::default())
            .map_err(|e| e.kind)
    };
    assert_eq!(run("j", &[0], ONE), Err(FaultKind::NoEntry));
    assert_eq!(run("k", &[], ONE), Err(FaultKind::ParameterCount));
    assert_eq!(
        run("k", &[0], LaunchShape { blocks: 1, threads: 65 }),
        Err(FaultKind::Shape)
    );
    assert_eq!(
        run("k", &[0], LaunchShape { blocks: 0, threads: 1 }),
        Err(FaultKind::Shape)
    );
    assert_eq!(program.entries()[0].max_threads, 64);
}

/// Reports the speed of a loop of arithmetic, memory and a branch: `cargo nextest run --run-ignored only speed`.
#[test]
#[ignore = "make test-full: measures the speed"]
fn speed_of_simple_operations() {
    let body = "mov.b32 %r0, 0; mov.b32 %r1, 1;\nLOOP:\nadd.s32 %r1, %r1, %r0; xor.b32 %r1, %r1, 0x1234;\n\
                shl.b32 %r2, %r1, 3; and.b32 %r3, %r2, 1023; shr.u32 %r3, %r3, 2; mul.wide.u32 %d0, %r3, 4;\n\
                add.s64 %d0, %out, %d0; ld.global.b32 %r4, [%d0]; add.s32 %r4, %r4, 1; st.global.b32 [%d0], %r4;\n\
                add.s32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 10000000;\n@%p0 bra LOOP;";
    let start = Instant::now();
    let stats = run_text(&module("", body), &mut regions(), ONE, Limits::default()).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    eprintln!(
        "{:.0} million operations per second",
        stats.steps as f64 / seconds / 1e6
    );
}
