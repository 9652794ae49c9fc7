//! Tests of page tables that have another format in the plan than in the recording.

use crate::sample_table::write_value;
use device_mali::{Model, SoftwareMali};
use driver_mali::{ChainBuilder, Driver, JobSpec, Recorder};
use proptest::prelude::*;
use replay_engine::compile::compile;
use replay_engine::device::Target as _;
use replay_engine::plan::{CompileError, CompileOptions, Compiled, Edits, PlanMemory};
use replay_engine::verify::verify;
use std::ops::ControlFlow;
use trace_core::mmu::{self, ConversionError, Leaf, PhysMemory, Rights};
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, AddressSpace, EventKind, EventsBuilder, FrameRole, MemoryBuilder, MmuFormat, PageId, ZERO_PAGE,
};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, Recording, RegOffset};

const A: MmuFormat = MmuFormat::Aarch64_4k;
const L: MmuFormat = MmuFormat::MaliLpae;

fn compile_as(r: &Recording, format: MmuFormat) -> Result<Compiled, CompileError> {
    let options = CompileOptions {
        table_format: Some(format),
        ..CompileOptions::default()
    };
    let info = SoftwareMali::new(Model::G71).info();
    compile(r, &Edits::default(), &info, &options, &Progress::new())
}

/// Returns all leaves below a root.
fn leaves(format: MmuFormat, root: PhysAddr, memory: &impl PhysMemory) -> Vec<Leaf> {
    let mut all = Vec::new();
    mmu::for_each_leaf(format, root, memory, &mut |leaf| {
        all.push(leaf);
        ControlFlow::Continue(())
    })
    .unwrap();
    all
}

/// A mapping of random tables: level, entry, what it allows.
type Mapping = (u8, u64, bool, bool, u8);

/// Returns a recording with these mappings in one address space. Every data page has content of its own.
fn with_tables(format: MmuFormat, mappings: &[Mapping]) -> Recording {
    let mut tables: std::collections::BTreeMap<u64, Vec<u64>> = [(1, vec![0; 512])].into();
    let mut memory = MemoryBuilder::new();
    let mut frames: Vec<(u64, PageId, FrameRole)> = Vec::new();
    let mut next = 2;
    for (n, (level, number, write, execute, index)) in mappings.iter().enumerate() {
        let rights = Rights {
            read: true,
            write: *write,
            execute: *execute,
        };
        // Numbers name addresses in two regions of 2 MiB and below; blocks lie apart.
        let va = match level {
            2 => GpuVa::new((8 + number % 8) << 21),
            _ => GpuVa::new((number % 1024) << 12),
        };
        let mut table = 1;
        for above in 0..*level {
            let at = usize::from(mmu::index_at(above, va));
            let entry = tables[&table][at];
            let below = match entry {
                0 => {
                    let new = next;
                    next += 1;
                    tables.insert(new, vec![0; 512]);
                    tables.get_mut(&table).unwrap()[at] =
                        mmu::encode_table(format, PhysAddr::new(new * PAGE_SIZE as u64));
                    new
                }
                entry => mmu::entry_address(entry).get() / PAGE_SIZE as u64,
            };
            table = below;
        }
        let span = mmu::span_bytes(*level);
        let pa = PhysAddr::new(0x40_0000_0000 + (n as u64) * (4 << 20)).align_down(span);
        let mut entry = mmu::encode_leaf(format, pa, rights, index % 3);
        if *level == 2 {
            entry = entry & !3 | 1;
        }
        let at = usize::from(mmu::index_at(*level, va));
        if tables[&table][at] == 0 {
            tables.get_mut(&table).unwrap()[at] = entry;
            let mut page = ZERO_PAGE;
            page[..8].copy_from_slice(&(n as u64 + 1).to_le_bytes());
            frames.push((pa.frame(), memory.add_page(&page), FrameRole::Data));
        }
    }
    for (frame, entries) in tables {
        let mut page = ZERO_PAGE;
        for (to, entry) in page.chunks_exact_mut(8).zip(entries) {
            to.copy_from_slice(&entry.to_le_bytes());
        }
        frames.push((frame, memory.add_page(&page), FrameRole::Table));
    }
    frames.sort_by_key(|f| f.0);
    memory.add_snapshot(0, frames);
    let mut events = EventsBuilder::new();
    let read = Access {
        space: 0,
        write: false,
        offset: RegOffset::new(0x34),
        width: 4,
        value: 0,
    };
    events.access(0, 0, read);
    let mut r = Recording {
        memory: memory.finish(),
        events: events.finish(),
        ..Recording::default()
    };
    r.metadata.address_spaces = vec![AddressSpace {
        number: 0,
        format,
        root: PhysAddr::new(0x1000),
        memattr: 0x0088_8d88,
        transcfg: 0,
    }];
    r
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Walks of the recorded and of the planned tables find the same mappings, with the same content.
    #[test]
    fn another_format_keeps_every_mapping(
        mappings in proptest::collection::vec(
            (2u8..4, any::<u64>(), any::<bool>(), any::<bool>(), any::<u8>()), 1..40),
        reverse in any::<bool>(),
    ) {
        let (from, to) = if reverse { (A, L) } else { (L, A) };
        let r = with_tables(from, &mappings);
        let compiled = compile_as(&r, to).unwrap();
        let accesses = compiled.plan.accesses().unwrap();
        let memory = PlanMemory::from_plan(accesses, &compiled.pages).unwrap();
        let view = r.memory.at(0);
        let space = compiled.plan.spaces()[0];
        prop_assert_eq!((space.format, space.root_register), (to, mmu::root_register(to, space.root)));
        let recorded = leaves(from, PhysAddr::new(0x1000), &view);
        let planned = leaves(to, space.root, &memory);
        prop_assert!(!recorded.is_empty());
        prop_assert_eq!(recorded.len(), planned.len());
        for (was, is) in recorded.iter().zip(&planned) {
            prop_assert_eq!(
                (was.va, was.bytes, was.rights, was.attr_index, was.level),
                (is.va, is.bytes, is.rights, is.attr_index, is.level)
            );
            let content = |page: Option<&[u8; PAGE_SIZE]>| page.copied().unwrap_or(ZERO_PAGE);
            prop_assert_eq!(content(view.frame(was.pa.frame())), content(memory.page(is.pa.frame())));
        }
    }
}

#[test]
fn entries_without_an_equal_are_refused() {
    let mut device = SoftwareMali::new(Model::G71);
    let mut d = Driver::boot(&mut device, Recorder::new("a page that is only written")).unwrap();
    let space = d.new_space(L).unwrap();
    let chain = d.alloc(space, 0x1000, Rights::RW).unwrap();
    let rights = Rights {
        read: false,
        write: true,
        execute: false,
    };
    let odd = d.alloc(space, 0x1000, rights).unwrap();
    d.write(space, chain, &ChainBuilder::new().job(JobSpec::Null).build(chain))
        .unwrap();
    d.run_chain(space, 1, chain).unwrap();
    let error = compile_as(&d.finish().unwrap(), A).unwrap_err();
    assert!(
        matches!(error, CompileError::EntryFormat { va, reason: ConversionError::WriteOnly, .. } if va == odd),
        "{error}"
    );
}

#[test]
fn formats_that_no_mali_has_are_refused() {
    let r = write_value(&mut SoftwareMali::new(Model::G71), A).unwrap();
    let error = compile_as(&r, MmuFormat::from_name("v3d").unwrap()).unwrap_err();
    assert!(matches!(error, CompileError::TableFormat { .. }), "{error}");
}

#[test]
fn address_spaces_with_tables_of_both_formats_are_refused() {
    let mut r = write_value(&mut SoftwareMali::new(Model::G71), A).unwrap();
    let other = AddressSpace {
        format: L,
        ..r.metadata.address_spaces[0].clone()
    };
    r.metadata.address_spaces.push(other);
    let error = compile_as(&r, A).unwrap_err();
    assert!(matches!(error, CompileError::SpaceFormat { .. }), "{error}");
}

// Registers of address space 0.
const TRANSCFG_LO: u32 = 0x2430;
const AS_COMMAND: u32 = 0x2418;

/// A driver disables an address space by its mode: before or after it writes the root.
#[test]
fn a_mode_without_an_equal_becomes_a_root_of_zero_or_is_refused() {
    let r = write_value(&mut SoftwareMali::new(Model::G71), A).unwrap();
    let with_mode = |before_update: bool| {
        let mut events = EventsBuilder::new();
        let mut first = true;
        for at in 0..r.events.len() {
            let time = r.events.time.get(at).unwrap();
            if r.events.kind(at) == Some(EventKind::Interrupt) {
                events.interrupt(time, r.events.interrupt(at).unwrap());
            }
            let Some(a) = r.events.access(at) else { continue };
            let mode = Access {
                offset: RegOffset::new(TRANSCFG_LO),
                value: 0x4200_0001,
                ..a
            };
            let is_update = a.write && a.offset.get() == AS_COMMAND && a.value == 1;
            if is_update && before_update && std::mem::take(&mut first) {
                events.access(time, 0, mode);
            }
            events.access(time, 0, a);
        }
        Recording {
            events: events.finish(),
            ..r.clone()
        }
    };
    let error = compile_as(&with_mode(true), L).unwrap_err();
    assert!(matches!(error, CompileError::SpaceFormat { number: 0, .. }), "{error}");
    // The driver's own shutdown disables it first.
    let compiled = compile_as(&with_mode(false), L).unwrap();
    let info = SoftwareMali::new(Model::G71).info();
    verify(&compiled.plan, &compiled.pages, &info).unwrap();
}
