//! Tests of the interpreter, and helpers that run short texts.

mod arithmetic;
mod control;
mod memory;
mod text;

use crate::{Fault, FaultKind, GlobalAddress, LaunchShape, Limits, ParseErrorKind, Program, Region, Regions, Stats};

/// Address of the memory of a test.
const BASE: u64 = 0x1000_0000;

/// Returns a module with a kernel that has the parameter `out`, its address in `%out`, and registers of all types.
fn module(before: &str, body: &str) -> String {
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n{before}\n.visible .entry k(.param .u64 out)\n.maxntid 64\n{{\n\
         .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .f32 %f<8>; .reg .f64 %g<8>; .reg .b64 %out;\n\
         ld.param.u64 %out, [out];\n{body}\nret;\n}}\n"
    )
}

fn regions() -> Regions {
    let mut memory = Regions::new();
    assert!(memory.add_region(Region {
        base: GlobalAddress(BASE),
        bytes: vec![0; 4096],
        writable: true,
    }));
    memory
}

fn run_text(text: &str, memory: &mut Regions, shape: LaunchShape, limits: Limits) -> Result<Stats, Fault> {
    let program = Program::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    program.run_entry("k", &[BASE], shape, memory, limits)
}

const ONE: LaunchShape = LaunchShape { blocks: 1, threads: 1 };

/// Runs a body once, and returns the first eight-byte word that it stored at `%out`.
fn word(body: &str) -> u64 {
    let mut memory = regions();
    run_text(&module("", body), &mut memory, ONE, Limits::default()).unwrap();
    u64::from_le_bytes(*memory.bytes(GlobalAddress(BASE)).unwrap().first_chunk().unwrap())
}

/// Runs an instruction on `%r1`, `%r2`, `%r3`, and returns its result in `%r0`.
fn word32(instruction: &str, operands: &[u32]) -> u32 {
    let loads = operands
        .iter()
        .zip(1..)
        .map(|(value, n)| format!("mov.b32 %r{n}, {value};\n"));
    let body = format!("{}{instruction}\nst.global.b32 [%out], %r0;", loads.collect::<String>());
    word(&body) as u32
}

/// Runs an instruction on `%d1`, `%d2`, `%d3`, and returns its result in `%d0`.
fn word64(instruction: &str, operands: &[u64]) -> u64 {
    let loads = operands
        .iter()
        .zip(1..)
        .map(|(value, n)| format!("mov.b64 %d{n}, {value};\n"));
    let body = format!("{}{instruction}\nst.global.b64 [%out], %d0;", loads.collect::<String>());
    word(&body)
}

fn fault(body: &str) -> Fault {
    run_text(&module("", body), &mut regions(), ONE, Limits::default()).unwrap_err()
}

fn parse_error(before: &str, body: &str) -> ParseErrorKind {
    Program::parse(&module(before, body)).unwrap_err().kind
}

#[test]
fn faults_name_thread_function_and_line() {
    let before =
        ".func f(.param .b64 a)\n{\n.reg .b64 %d<2>;\nld.param.b64 %d0, [a];\nst.global.b64 [%d0], 7;\nret;\n}";
    let body = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 3;\n@%p0 bra DONE;\n{ .param .b64 a; st.param.b64 [a], 64; call f, (a); }\nDONE:";
    let shape = LaunchShape { blocks: 2, threads: 8 };
    let fault = run_text(&module(before, body), &mut regions(), shape, Limits::default()).unwrap_err();
    assert_eq!(
        (fault.block, fault.thread, fault.function.as_str(), fault.line),
        (0, 3, "f", 8)
    );
    assert_eq!(fault.kind, FaultKind::IllegalAddress(GlobalAddress(64)));
    assert_eq!(
        fault.to_string(),
        "thread 3 of block 0, f, line 8: illegal address 0x40"
    );
}
