//! Tests of Page tables: the map, the list, the walk and the marks.

use crate::common::Window;
use crate::panels::hands::{list_references, saxpy};
use egui_kittest::kittest::Queryable as _;
use kinescope_files::scene::Selection;
use kinescope_session::page_runs::PageContent;
use kinescope_session::page_table_marks::Mark;
use trace_core::mmu::{self, Rights};
use trace_core::recording::{
    AddressSpace, Buffer, BufferRole, ElementType, FrameRole, MemoryBuilder, MmuFormat, Recording,
};
use trace_core::{GpuVa, PhysAddr};

#[test]
fn clicked_mapping_shows_its_walk_and_links_to_memory() {
    let mut w = Window::open();
    w.run("show-page-tables");
    let va = w.doc().derived.spaces[0].mappings[0].va;
    w.click(&format!("mapping {va:#x}"));
    assert_eq!(w.views().tables.at, Some(va));
    assert!(w.has_part("level 3"), "the walk is shown level by level");
    w.click("Go to memory");
    assert!(w.is_panel_active("memory"));
    assert_eq!(w.views().memory.top, va.align_down(16));
    w.click(&format!("memory {:#x}", va.get() & !15));
    assert!(matches!(w.doc().selection(), Selection::Memory { .. }));
}

#[test]
fn the_map_zooms() {
    let mut w = Window::open();
    w.run("show-page-tables");
    let before = w.views().tables.cell;
    w.click("Zoom map out");
    assert!(w.views().tables.cell > before);
    w.click("Zoom map in");
    assert_eq!(w.views().tables.cell, before);
    w.click("Colour by content");
    assert_eq!(
        w.views().tables.colour_by,
        kinescope::panels::gpu::page_tables::ColourBy::Content
    );
}

#[test]
fn page_map_zooms_to_one_page_and_selects_it() {
    let mut w = saxpy();
    w.run("show-page-tables");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    w.doc().select(Selection::Buffer("x".into()));
    w.settle();
    w.click("Map of the whole space");
    assert_eq!(w.views().tables.first_page, 0);
    let whole = w.views().tables.cell.unwrap();
    assert!(whole >= 24, "{whole}");
    w.click("Map of the page");
    assert_eq!(w.views().tables.cell, Some(0));
    w.click("Zoom map out");
    assert_eq!(w.views().tables.cell, Some(1));
    // The wheel zooms about the pointer.
    let rect = w.harness.get_by_label("Address map").rect();
    w.harness.hover_at(rect.center());
    w.settle();
    let wheel = |y: f32| egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: egui::vec2(0.0, y),
        modifiers: egui::Modifiers::NONE,
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
    };
    w.harness.event(wheel(-200.0));
    for _ in 0..8 {
        w.settle();
    }
    assert!(w.views().tables.cell.unwrap() > 1, "{:?}", w.views().tables.cell);
    // The keyboard works too when the map has the focus.
    w.click("Map of the page");
    w.click("Address map");
    let Selection::Memory {
        va: at, bytes: 4096, ..
    } = *w.doc().selection()
    else {
        panic!("no page is selected: {:?}", w.doc().selection());
    };
    assert_eq!(w.views().tables.at, Some(at));
    w.harness.key_press(egui::Key::ArrowRight);
    w.settle();
    assert!(matches!(*w.doc().selection(), Selection::Memory { va, .. } if va == at + 4096));
    w.harness.key_press(egui::Key::Minus);
    w.settle();
    assert_eq!(w.views().tables.cell, Some(1));
    w.run("show-memory");
    let top = w.views().memory.top;
    assert!(top <= at + 4096 && at + 4096 < top + 4096, "Memory shows {top:#x}");
    assert_ne!(va, 0);
}

/// Returns a recording whose tables map one page twice, once executable and writable, and one page that is not
/// recorded.
pub fn odd() -> Recording {
    let format = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let mut tables = [[0u8; 4096]; 4];
    let mut set = |table: usize, index: usize, raw: u64| {
        tables[table][index * 8..index * 8 + 8].copy_from_slice(&raw.to_le_bytes());
    };
    for (table, next) in [(0, 2u64), (1, 3), (2, 4)] {
        set(table, 0, mmu::encode_table(format, PhysAddr::new(next << 12)));
    }
    let rwx = Rights {
        read: true,
        write: true,
        execute: true,
    };
    set(3, 1, mmu::encode_leaf(format, PhysAddr::new(9 << 12), Rights::RW, 0));
    set(3, 4, mmu::encode_leaf(format, PhysAddr::new(9 << 12), rwx, 0));
    // The tables also map the level 3 table itself.
    set(3, 6, mmu::encode_leaf(format, PhysAddr::new(4 << 12), Rights::RO, 0));
    set(3, 8, mmu::encode_leaf(format, PhysAddr::new(77 << 12), Rights::RW, 0));
    let mut frames: Vec<_> = tables
        .iter()
        .zip(1u64..)
        .map(|(p, f)| (f, m.add_page(p), FrameRole::Table))
        .collect();
    frames.push((9, m.add_page(&[3; 4096]), FrameRole::Data));
    m.add_snapshot(0, frames);
    let mut r = Recording {
        memory: m.finish(),
        ..Default::default()
    };
    r.metadata.address_spaces.push(AddressSpace {
        number: 0,
        format,
        root: PhysAddr::new(1 << 12),
        memattr: 0,
        transcfg: 6,
    });
    r.metadata.buffers.push(Buffer {
        name: "w0".into(),
        role: BufferRole::Weights,
        address_space: 0,
        va: GpuVa::new(0x1000),
        bytes: 64,
        element: ElementType::F32,
    });
    r
}

#[test]
fn page_tables_panel_marks_double_and_open_mappings() {
    let mut w = Window::from_recording(odd());
    w.run("show-page-tables");
    w.click("Pages mapped twice");
    assert!(w.has("mapping 0x1000") && w.has("mapping 0x4000") && !w.has("mapping 0x6000"));
    w.click("mapping 0x4000");
    assert_eq!(w.views().tables.at, Some(GpuVa::new(0x4000)));
    w.click("Pages executable and writable");
    assert_eq!(w.views().tables.mark, Some(Mark::Open));
    assert!(w.has("mapping 0x4000") && !w.has("mapping 0x1000"));
    let fact = w.doc().derived.spaces[0].clone();
    assert_eq!(fact.marks.pages(Mark::Missing), 1);
    assert_eq!(fact.pages_with(PageContent::None), 1, "both counts agree");
    w.click("Pages not recorded");
    w.click("mapping 0x8000");
    assert_eq!(w.views().tables.at, Some(GpuVa::new(0x8000)));
    w.click("All mappings");
    assert_eq!(w.views().tables.mark, None);
    assert!(w.has("mapping 0x1000") && w.has("mapping 0x6000"));
    w.run("show-memory");
    for (va, content) in [
        (0x6000, "level 3 page table of 0x0"),
        (0x1000, "weights w0"),
        (0x4000, "unknown"),
    ] {
        w.show_memory(0, va, 1);
        w.settle();
        assert!(w.has(&format!("page holds {content}")), "{va:#x} holds {content}");
    }
    w.click("Show references");
    let list = list_references(&mut w);
    assert!(
        list.iter().any(|t| t.description.contains("mapped at 0x1000 too")),
        "{list:?}"
    );
}

/// Returns a recording of a dump in a described format: frames with numbers of four or eight bytes at addresses.
fn described(format: &str, root: u64, frames: std::ops::Range<u64>, words: &[(u64, u64, usize)]) -> Recording {
    let mut m = MemoryBuilder::new();
    let mut pages: Vec<[u8; 4096]> = frames.clone().map(|_| [0; 4096]).collect();
    for (at, value, bytes) in words {
        let (frame, from) = ((at >> 12) - frames.start, (at & 4095) as usize);
        pages[frame as usize][from..from + bytes].copy_from_slice(&value.to_le_bytes()[..*bytes]);
    }
    let all = frames.zip(&pages).map(|(f, p)| (f, m.add_page(p), FrameRole::Data));
    let all: Vec<_> = all.collect();
    m.add_snapshot(0, all);
    let mut r = Recording {
        memory: m.finish(),
        ..Default::default()
    };
    r.metadata.address_spaces.push(AddressSpace {
        number: 0,
        format: MmuFormat::from_name(format).unwrap(),
        root: PhysAddr::new(root),
        memattr: 0,
        transcfg: 0,
    });
    r
}

/// Shows the list, the walk and both forms of the map.
fn show_tables(recording: Recording, va: u64, last_step: &str) -> Window {
    let mut w = Window::from_recording(recording);
    w.run("show-page-tables");
    w.click(&format!("mapping {va:#x}"));
    assert_eq!(w.views().tables.at, Some(GpuVa::new(va)));
    assert!(w.has(last_step), "{last_step}");
    w.click("Page tables as a map");
    w.settle();
    assert!(w.has("Map of the address space"));
    w.click("Map as strips");
    w.settle();
    assert!(w.has("Strips of the address space"));
    w
}

#[test]
fn page_tables_panel_shows_a_v3d_and_an_nvidia_dump() {
    let entries = [(0x10_0000 + 5 * 4, 1 << 28 | 1 << 29 | 0x100, 4)];
    show_tables(
        described("v3d", 0x10_0000, 0x100..0x500, &entries),
        0x5000,
        "level 0 page",
    );
    // Version 3: 57 address bits; the highest one is set. The second page is in system memory.
    let video = |at: u64| 2 | at;
    let words = [
        (0x1000 + 8, video(0x2000), 8),
        (0x2000, video(0x3000), 8),
        (0x3000, video(0x4000), 8),
        (0x4000, video(0x5000), 8),
        (0x5000 + 8, video(0x6000), 8),
        (0x6000 + 8, 1 | 6 << 8 | 0x3000, 8),
        (0x6000 + 5 * 8, 1 | 2 << 1 | 6 << 8 | 0x9_0000, 8),
    ];
    let mut w = show_tables(
        described("nvidia-v3", 0x1000, 0..7, &words),
        1 << 56 | 0x1000,
        "level 5 page",
    );
    let fact = w.doc().derived.spaces[0].clone();
    assert_eq!(
        (fact.pages(), fact.elsewhere, fact.marks.pages(Mark::Missing)),
        (2, 1, 0)
    );
    w.click("Map as a square");
    w.click("Map of 57 bits");
    w.settle();
    w.click("Page tables as a list");
    w.click(&format!("mapping {:#x}", 1u64 << 56 | 0x5000));
    assert_eq!(w.views().tables.at, Some(GpuVa::new(1 << 56 | 0x5000)));
}
