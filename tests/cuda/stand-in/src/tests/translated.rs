//! Tests of translated programs: their texts run in the PTX interpreter.

use super::{CALL, TestContext, alloc, function, launch, read};
use crate::calls::copies::{cuMemcpyDtoH_v2, cuMemcpyHtoD_v2};
use crate::calls::modules::cuModuleLoadData;
use crate::codes::{ILLEGAL_ADDRESS, INVALID_PTX, INVALID_VALUE, MISALIGNED_ADDRESS};
use std::ffi::CString;
use std::ptr::null_mut;
use wasm_ptx::{
    BLOCK_THREADS, BufferOffset, CopyState, ENTRY_NAME, LaunchBlock, MemoryId, ModuleRole, Options, ProgramBuilder,
    TrapKind, Word,
};

/// A kernel that no function of the stand-in implements. Its text is in the interpreter's subset.
const TRANSLATED: &str = ".version 7.8\n// kinescope wasm 1\n.target sm_80\n.address_size 64\n\
    .visible .entry add_up(.param .u64 out, .param .u32 n)\n.maxntid 64\n{\n\
    .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p;\n\
    ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n];\n\
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3;\n\
    setp.ge.u32 %p, %r1, %r0;\n@%p ret;\n\
    mad.wide.u32 %d1, %r1, 4, %d0; st.global.b32 [%d1+8], %r1; st.global.b16 [%d1+10], 7;\n\
    cvt.u64.u32 %d2, %r1; red.global.add.u64 [%d0], %d2;\n}\n";

#[test]
fn translated_programs_run_by_their_text() {
    let _context = TestContext::new();
    let (_, add_up) = function(TRANSLATED, "add_up");
    let out = alloc(8 + 4 * 200);
    launch(add_up, 4, 64, null_mut(), &[out, 200]).unwrap();
    let words = read(out, 202).unwrap();
    assert_eq!(words[0], 199 * 200 / 2);
    assert!((0..200).all(|n| words[n as usize + 2] == n | 7 << 16));
    assert_eq!(launch(add_up, 1, 65, null_mut(), &[out, 1]), Err(INVALID_VALUE));
}

#[test]
fn faults_of_translated_programs_are_errors_of_the_device() {
    let _context = TestContext::new();
    let (_, add_up) = function(TRANSLATED, "add_up");
    let out = alloc(1024);
    launch(add_up, 1, 32, null_mut(), &[out + 4, 1]).unwrap();
    assert_eq!(read(out, 1), Err(MISALIGNED_ADDRESS));
    let _context = TestContext::new();
    let (_, add_up) = function(TRANSLATED, "add_up");
    launch(add_up, 1, 32, null_mut(), &[8, 1]).unwrap();
    assert_eq!(read(alloc(4), 1), Err(ILLEGAL_ADDRESS));
}

#[test]
fn wrong_texts_of_translated_programs_are_refused() {
    let _context = TestContext::new();
    let text = CString::new(TRANSLATED.replace("mad.wide.u32", "mad.hi.u32")).unwrap();
    let mut module = null_mut();
    assert_eq!(
        cuModuleLoadData(&CALL, &mut module, text.as_ptr().cast()),
        Err(INVALID_PTX)
    );
}

/// A program that reads its number from memory where the host put it, and writes a text and a product.
const PROGRAM: &str = r#"(module
    (memory (export "memory") 1)
    (data (i32.const 100) "copy ")
    (func (export "run") (param i32) (result i32)
        (if (i32.eq (local.get 0) (i32.const 40)) (then (unreachable)))
        (i32.store8 (i32.const 105) (i32.add (i32.const 48) (i32.rem_u (local.get 0) (i32.const 10))))
        (i32.div_u (i32.const 1000000) (i32.sub (local.get 0) (i32.const 7)))))"#;

#[test]
fn copies_of_a_webassembly_program_run_in_one_launch() {
    const COPIES: u32 = 100;
    let _context = TestContext::new();
    let mut builder = ProgramBuilder::new(Options::default());
    builder
        .add_module("program", &wat::parse_str(PROGRAM).unwrap(), ModuleRole::User)
        .unwrap();
    let program = builder.translate().unwrap();
    let layout = &program.layout;
    let mut areas = vec![0u8; layout.bytes_of_copies(COPIES) as usize];
    let mut set = |at: BufferOffset, value: u32| {
        areas[at.0 as usize..][..4].copy_from_slice(&value.to_le_bytes());
    };
    for copy in 0..COPIES {
        set(layout.word(copy, Word::State), CopyState::Fresh as u32);
        set(layout.word(copy, Word::Function), program.entry("run").unwrap().number);
        set(layout.word(copy, Word::FuelLow), 1000);
        set(layout.word(copy, Word::DepthLimit), 10);
        set(layout.argument(copy, 0)[0], copy);
    }
    let copy_in = |bytes: &[u8]| {
        let at = alloc(bytes.len());
        cuMemcpyHtoD_v2(&CALL, at, bytes.as_ptr().cast(), bytes.len()).unwrap();
        at
    };
    let device = copy_in(&areas);
    let block = LaunchBlock {
        areas: device,
        constants: copy_in(&program.constants),
        counters: 0,
        copies: COPIES,
        slice: 1000,
        area_bytes: program.layout.area_bytes(),
    };
    let (_, entry) = function(&program.text, ENTRY_NAME);
    launch(
        entry,
        block.grid_blocks(),
        BLOCK_THREADS,
        null_mut(),
        &[copy_in(&block.encode())],
    )
    .unwrap();
    cuMemcpyDtoH_v2(&CALL, areas.as_mut_ptr().cast(), device, areas.len()).unwrap();
    let word = |at: BufferOffset| u32::from_le_bytes(areas[at.0 as usize..][..4].try_into().unwrap());
    let memory = layout.memory(MemoryId(0)).unwrap();
    for copy in 0..COPIES {
        let state = CopyState::from_code(word(layout.word(copy, Word::State)));
        let trap = TrapKind::from_code(word(layout.word(copy, Word::TrapKind)));
        let result = word(layout.argument(copy, 0)[0]);
        match copy {
            7 => assert_eq!((state, trap), (Some(CopyState::Trapped), Some(TrapKind::DivideByZero))),
            40 => assert_eq!((state, trap), (Some(CopyState::Trapped), Some(TrapKind::Unreachable))),
            _ => assert_eq!(
                (state, result),
                (Some(CopyState::Returned), 1_000_000 / copy.wrapping_sub(7))
            ),
        }
        let runs = layout.memory_runs(copy, memory, 100, 6);
        let text: Vec<u8> = runs
            .flat_map(|run| areas[run.start.0 as usize..][..run.bytes as usize].to_vec())
            .collect();
        let digit = if copy == 40 { 0 } else { b'0' + (copy % 10) as u8 };
        assert_eq!(text, [b"copy ", &[digit][..]].concat(), "copy {copy}");
    }
}
