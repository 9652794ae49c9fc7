//! Traps: each kind, with its function and the offset of its instruction.

use super::{input, program, run, run_all, trap};
use wasm_run::{RunEnd, RunOptions, TrapKind};

/// Runs a body that traps, and checks kind, function and the bytes at the offset.
fn check(body: &str, kind: TrapKind, instruction: &[u8]) {
    let text = format!(
        r#"(module
            (memory 1)
            (table $t 4 funcref)
            (elem (table $t) (i32.const 0) func $ok $parameter)
            (elem $passive func $ok)
            (data $data "ab")
            (type $none (func))
            (func $ok)
            (func $parameter (param i32))
            (func $culprit {body})
            (func (export "_start") (call $ok) (call $culprit)))"#
    );
    let run = run(&text, b"");
    let trap = trap(&run);
    assert_eq!(trap.kind, kind, "{body}");
    let place = trap.place.as_ref().unwrap_or_else(|| panic!("{body}: no place"));
    assert_eq!(
        (place.function.as_str(), place.function_index),
        ("culprit", 2),
        "{body}"
    );
    let bytes = program(&text);
    let at = usize::try_from(place.offset).unwrap();
    assert_eq!(&bytes.bytes()[at..at + instruction.len()], instruction, "{body}");
}

#[test]
fn each_kind_has_its_place() {
    let zero = "(i32.const 0)";
    check(
        &format!("(drop (i32.div_s (i32.const 1) {zero}))"),
        TrapKind::DivideByZero,
        &[0x6d],
    );
    check(
        &format!("(drop (i32.rem_u (i32.const 1) {zero}))"),
        TrapKind::DivideByZero,
        &[0x70],
    );
    check(
        "(drop (i64.div_u (i64.const 1) (i64.const 0)))",
        TrapKind::DivideByZero,
        &[0x80],
    );
    check(
        "(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))",
        TrapKind::IntegerOverflow,
        &[0x6d],
    );
    check(
        "(drop (i32.trunc_f32_s (f32.const 1e10)))",
        TrapKind::IntegerOverflow,
        &[0xa8],
    );
    check(
        "(drop (i64.trunc_f64_u (f64.const nan)))",
        TrapKind::InvalidConversion,
        &[0xb1],
    );
    check(
        "(drop (i32.load (i32.const 65533)))",
        TrapKind::MemoryOutOfBounds,
        &[0x28],
    );
    check(
        "(i64.store8 (i32.const -1) (i64.const 1))",
        TrapKind::MemoryOutOfBounds,
        &[0x3c],
    );
    check(
        "(memory.fill (i32.const 65535) (i32.const 0) (i32.const 2))",
        TrapKind::MemoryOutOfBounds,
        &[0xfc, 0x0b],
    );
    check(
        "(memory.init $data (i32.const 0) (i32.const 1) (i32.const 2))",
        TrapKind::MemoryOutOfBounds,
        &[0xfc, 0x08],
    );
    check(
        "(call_indirect $t (type $none) (i32.const 4))",
        TrapKind::UndefinedElement,
        &[0x11],
    );
    check(
        "(call_indirect $t (type $none) (i32.const 3))",
        TrapKind::UninitializedElement,
        &[0x11],
    );
    check(
        "(call_indirect $t (type $none) (i32.const 1))",
        TrapKind::IndirectCallType,
        &[0x11],
    );
    check(
        "(table.init $t $passive (i32.const 4) (i32.const 0) (i32.const 1))",
        TrapKind::TableOutOfBounds,
        &[0xfc, 0x0c],
    );
    check("(unreachable)", TrapKind::Unreachable, &[0x00]);
}

#[test]
fn a_function_without_a_name_has_its_index() {
    let bytes = wat::parse_str("(module (func) (func (export \"_start\") unreachable))").unwrap();
    let backend = crate::CpuBackend::new(wasm_run::Program::parse(bytes).unwrap(), RunOptions::default()).unwrap();
    let results = super::Results(std::sync::Mutex::new(vec![None]));
    wasm_run::Backend::run(&backend, &[input(b"")], &results).unwrap();
    let run = results.0.into_inner().unwrap().remove(0).unwrap();
    assert_eq!(trap(&run).place.as_ref().unwrap().function, "func[1]");
}

#[test]
fn endless_recursion_is_a_trap_at_its_call() {
    let text = r#"(module (func $deep (param i32) (call $deep (i32.add (local.get 0) (i32.const 1))))
        (func (export "_start") (call $deep (i32.const 0))))"#;
    let run = run(text, b"");
    assert_eq!(trap(&run).kind, TrapKind::CallStackExhausted);
    assert_eq!(trap(&run).place.as_ref().unwrap().function, "deep");
}

#[test]
fn a_segment_outside_memory_or_table_is_a_trap_without_a_place() {
    for (segment, kind) in [
        (
            "(memory 1) (data (i32.const 65535) \"ab\")",
            TrapKind::MemoryOutOfBounds,
        ),
        (
            "(table 1 funcref) (elem (i32.const 1) func 0)",
            TrapKind::TableOutOfBounds,
        ),
    ] {
        let run = run(&format!("(module {segment} (func (export \"_start\")))"), b"");
        assert_eq!(trap(&run).kind, kind);
        assert_eq!(trap(&run).place, None);
    }
}

#[test]
fn one_trapped_copy_leaves_the_others_alone() {
    // Divides 100 by the first byte of the input.
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "\10\00\00\00\01\00\00\00")
        (func $divide (result i32) (i32.div_u (i32.const 100) (i32.load8_u (i32.const 16))))
        (func (export "_start")
            (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
            (call $exit (call $divide))))"#;
    let inputs: Vec<_> = [5, 0, 20].into_iter().map(|b| input(&[b])).collect();
    let runs = run_all(text, &RunOptions::default(), &inputs);
    assert_eq!(runs[0].end, RunEnd::Exit(20));
    assert_eq!(runs[2].end, RunEnd::Exit(5));
    assert_eq!(trap(&runs[1]).kind, TrapKind::DivideByZero);
    let place = trap(&runs[1]).place.as_ref().unwrap();
    assert_eq!((place.function.as_str(), place.function_index), ("divide", 2));
}
