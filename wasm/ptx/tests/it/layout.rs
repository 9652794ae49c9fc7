//! The layout of areas: regions do not overlap, runs agree with single bytes, later instances keep offsets.

use proptest::prelude::*;
use wasm_ptx::{CellSize, LANES, LaunchBlock, Layout, MemoryId, ModuleRole, Options, Placement, ProgramBuilder, Word};

fn layout(cell: CellSize, contiguous: bool) -> Layout {
    let text =
        r#"(module (memory 1 3) (memory 2 2) (global (mut i64) (i64.const 1)) (global (mut i32) (i32.const 1)))"#;
    let mut builder = ProgramBuilder::new(Options {
        cell,
        ..Options::default()
    });
    builder
        .add_module("program", &wat::parse_str(text).unwrap(), ModuleRole::System)
        .unwrap();
    let placement = if contiguous {
        Placement::Contiguous
    } else {
        Placement::Interleaved
    };
    builder.place_memory(MemoryId(1), placement, None, None).unwrap();
    builder.translate().unwrap().layout
}

fn cells() -> impl Strategy<Value = CellSize> {
    prop_oneof![Just(CellSize::Four), Just(CellSize::Eight), Just(CellSize::Sixteen)]
}

proptest! {
    #[test]
    fn runs_hold_the_bytes_of_a_copy_in_order(
        cell in cells(), contiguous: bool, copy in 0u32..100, memory in 0u32..2, address in 0u32..60_000, bytes in 0u32..300,
    ) {
        let layout = layout(cell, contiguous);
        let region = *layout.memory(MemoryId(memory)).unwrap();
        let runs = layout.memory_runs(copy, &region, address, bytes);
        let found: Vec<u64> = runs.flat_map(|run| run.start.0..run.start.0 + run.bytes).collect();
        let expected: Vec<u64> = (address..address + bytes).map(|at| layout.memory_byte(copy, &region, at).0).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn bytes_of_different_copies_and_memories_differ(
        cell in cells(), contiguous: bool, first in (0u32..64, 0u32..2, 0u32..65_536), second in (0u32..64, 0u32..2, 0u32..65_536),
    ) {
        let layout = layout(cell, contiguous);
        let place = |(copy, memory, address): (u32, u32, u32)| {
            layout.memory_byte(copy, layout.memory(MemoryId(memory)).unwrap(), address).0
        };
        prop_assert_eq!(place(first) == place(second), first == second);
        prop_assert!(place(first) < layout.bytes_of_copies(64));
        // Words stand before all memories.
        let (copy, ..) = first;
        let last = layout.argument(copy, layout.arguments() - 1)[1].0 % layout.area_bytes();
        prop_assert!(last < layout.memories()[0].start.0);
        prop_assert!(layout.word(copy, Word::State).0 < layout.bytes_of_copies(copy / LANES * LANES + 1));
    }
}

#[test]
fn later_instances_keep_the_offsets_of_earlier_ones() {
    let options = Options {
        tables_in_area: true,
        spare_cells: 64,
        ..Options::default()
    };
    let first = r#"(module (memory 1 2) (global (mut i32) (i32.const 1)) (table 3 funcref))"#;
    let second = r#"(module (memory 1 2) (global (mut i64) (i64.const 1)) (table 5 funcref))"#;
    let mut builder = ProgramBuilder::new(options);
    builder
        .add_module("first", &wat::parse_str(first).unwrap(), ModuleRole::User)
        .unwrap();
    let before = builder.translate().unwrap();
    builder
        .add_module("second", &wat::parse_str(second).unwrap(), ModuleRole::User)
        .unwrap();
    let after = builder.translate().unwrap();
    assert_eq!(before.layout.memories()[0], after.layout.memories()[0]);
    let global = wasm_ptx::GlobalId(0);
    assert_eq!(before.layout.global(global), after.layout.global(global));
    let table = wasm_ptx::TableId(0);
    assert_eq!(before.layout.table(table), after.layout.table(table));
    assert_eq!(after.first_steps, [0, 1]);
}

#[test]
fn launch_blocks_hold_their_numbers_in_order() {
    let block = LaunchBlock {
        areas: 0x1122_3344_5566_7788,
        constants: 2,
        counters: 3,
        copies: 65,
        slice: 5,
        area_bytes: 6 << 9,
    };
    let bytes = block.encode();
    assert_eq!(bytes[..8], 0x1122_3344_5566_7788u64.to_le_bytes());
    assert_eq!((bytes[8], bytes[16], bytes[24], bytes[28]), (2, 3, 65, 5));
    assert_eq!(bytes[32..], (6u64 << 9).to_le_bytes());
    assert_eq!(block.grid_blocks(), 3);
}
