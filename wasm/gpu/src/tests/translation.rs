//! What a translation chooses: cells, reserves of memories, sizes of buffers.

use super::parse;
use crate::{TranslationError, TranslationOptions, choose_cell, translate};
use wasm_ptx::{CellSize, Placement};
use wasm_run::{Limits, RunOptions};

const YIELD: &str = r#"(import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))"#;

#[test]
fn programs_of_wide_accesses_get_cells_of_8_bytes() {
    let body = |accesses: &str| parse(&format!("(module (memory 1) (func (export \"_start\") {accesses}))"));
    let wide = "(drop (i64.load (i32.const 0)))";
    let narrow = "(drop (i32.load8_u (i32.const 0)))";
    assert_eq!(choose_cell(&body("")), CellSize::Four);
    assert_eq!(choose_cell(&body(&[wide, narrow].concat())), CellSize::Four);
    assert_eq!(choose_cell(&body(&[wide, wide, narrow].concat())), CellSize::Eight);
}

#[test]
fn only_memories_that_grow_reserve_their_limit() {
    let options = RunOptions {
        limits: Limits {
            memory_pages: 7,
            ..Limits::default()
        },
        ..RunOptions::default()
    };
    for (memory, grow, pages) in [
        ("1", "", 1),
        ("1", "(drop (memory.grow (i32.const 1)))", 7),
        ("1 3", "(drop (memory.grow (i32.const 1)))", 3),
    ] {
        let program = parse(&format!(
            r#"(module {YIELD} (memory (export "memory") {memory}) (func (export "_start") {grow} (drop (call $yield))))"#
        ));
        let translated = translate(&program, &options, TranslationOptions::default(), 0).unwrap();
        let memories = translated.program.layout.memories();
        assert_eq!(
            (memories[0].placement, memories[0].max_pages),
            (Placement::Interleaved, pages)
        );
        let system = translated.system.unwrap();
        assert_eq!(system.region.placement, Placement::Contiguous);
        // The output buffer fills the last page.
        assert_eq!((system.region.max_pages, system.layout.bytes()), (1, 1 << 16));
    }
}

#[test]
fn inputs_that_no_memory_holds_are_refused() {
    let program = parse(&format!(
        r#"(module {YIELD} (memory (export "memory") 1) (func (export "_start") (drop (call $yield))))"#
    ));
    let result = translate(&program, &RunOptions::default(), TranslationOptions::default(), 1 << 40);
    assert!(matches!(result, Err(TranslationError::Layout(_))));
}

/// `groups` comes from rustc, which pads the numbers of tables.
#[test]
fn programs_of_clang_and_of_rustc_are_translated() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wasm/programs");
    for name in [
        "blockhash",
        "blur",
        "filter",
        "groups",
        "histogram",
        "lz4",
        "pbkdf2",
        "scrypt",
        "wordcount",
    ] {
        let bytes = std::fs::read(folder.join(format!("{name}.wasm"))).unwrap();
        let program = wasm_run::Program::parse(bytes).unwrap();
        let translated = translate(&program, &RunOptions::default(), TranslationOptions::default(), 1 << 16);
        assert!(translated.is_ok(), "{name}: {:?}", translated.err());
    }
}
