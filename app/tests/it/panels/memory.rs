//! Tests of Memory: addresses, searches, element types, references of a byte, copies and the keyboard.

use crate::common::{Window, samples};
use crate::panels::hands::{at_once, button, bytes, click_and_copied, double_click, list_references, saxpy};
use egui_kittest::kittest::Queryable as _;
use kinescope::theme::ThemeChoice;
use kinescope_files::scene::Selection;
use kinescope_files::values;
use kinescope_session::Document;
use kinescope_session::derived_data::DerivedData;
use kinescope_session::spaces::SpaceFact;
use std::sync::Arc;
use trace_core::mmu::{self, Rights};
use trace_core::recording::{AddressSpace, ElementType, FrameRole, MemoryBuilder, MmuFormat, Page, Recording};
use trace_core::{GpuVa, PhysAddr};

#[test]
fn go_to_accepts_addresses_buffers_and_buffer_offsets() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("y").unwrap().va.get();
    for (text, want) in [
        (format!("{va:#x}"), va),
        ("y + 0x24".into(), va + 0x24),
        ("y".into(), va),
    ] {
        w.views().memory.go_to.clear();
        w.enter("Go to address", &text);
        assert_eq!(w.views().memory.top, GpuVa::new(want & !15), "{text}");
        assert!(matches!(*w.doc().selection(), Selection::Memory { va, .. } if va == GpuVa::new(want)));
    }
    w.views().memory.go_to.clear();
    w.enter("Go to address", "nowhere");
    assert!(w.has_part("neither an address, a buffer nor a job"));
    w.views().memory.go_to.clear();
    w.enter("Go to address", "job 0");
    let head = w.doc().derived.jobs[0].head_va;
    assert_eq!(w.views().memory.top, head.align_down(16));
    assert!(w.has_part("of job 0"), "the panel shows the use of the page");
}

#[test]
fn memory_search_finds_bytes_or_reports_no_match() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    let content = bytes(&mut w, "x");
    let hex: Vec<String> = content[40..48].iter().map(|b| format!("{b:02x}")).collect();
    w.enter("Search memory", &hex.join(" "));
    let hits = w.views().memory.hits.clone().unwrap();
    assert!(hits.iter().any(|h| h.va.get() == va + 40), "{hits:x?}");
    assert!(matches!(*w.doc().selection(), Selection::Memory { bytes: 8, .. }));
    w.views().memory.search.clear();
    w.enter("Search memory", "\"there is no such text in there\"");
    assert!(w.views().memory.hits.as_ref().unwrap().is_empty() && w.has_part("not found"));
    w.views().memory.search.clear();
    w.enter("Search memory", "zz");
    assert!(w.has_part("'zz' is not a pattern"));
}

/// Returns tables that map two million pages to one frame, so that a search takes long.
fn endless() -> (Recording, DerivedData) {
    const LAST: u64 = 4096;
    let format = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let table = |frame: u64| mmu::encode_table(format, PhysAddr::new(frame << 12));
    let leaf = mmu::encode_leaf(format, PhysAddr::new(5 << 12), Rights::RW, 0);
    let filled = |entries: usize, raw: &dyn Fn(u64) -> u64| {
        let mut p: Page = [0; 4096];
        for (e, i) in p.chunks_exact_mut(8).take(entries).zip(0u64..) {
            e.copy_from_slice(&raw(i).to_le_bytes());
        }
        p
    };
    // Frame 1 is the root and frame 2 the next level. Frames from 10 on are level 2, and frames from 100 on the last
    // level. No table occurs twice.
    let mut frames = vec![
        (1, m.add_page(&filled(1, &|_| table(2)))),
        (2, m.add_page(&filled(LAST as usize / 512, &|i| table(10 + i)))),
        (5, m.add_page(&[7; 4096])),
    ];
    for i in 0..LAST / 512 {
        frames.push((10 + i, m.add_page(&filled(512, &|k| table(100 + i * 512 + k)))));
    }
    let last = m.add_page(&filled(512, &|_| leaf));
    frames.extend((0..LAST).map(|i| (100 + i, last)));
    m.add_snapshot(0, frames.into_iter().map(|(f, p)| (f, p, FrameRole::Data)));
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
    let mut derived = DerivedData::default();
    derived.spaces.push(SpaceFact::default());
    (r, derived)
}

#[test]
fn a_search_is_stopped() {
    let mut w = Window::empty();
    let (recording, derived) = endless();
    let path = w.folder.path().join("endless.kine");
    w.app()
        .show_document(Document::new(path, Arc::new(recording), Arc::new(derived)));
    w.settle();
    w.run("show-memory");
    w.harness.get_by_label("Search memory").focus();
    w.settle();
    w.harness.get_by_label("Search memory").type_text("08");
    w.settle();
    w.harness.key_press(egui::Key::Enter);
    for _ in 0..4 {
        w.harness.step();
    }
    let wrong = w.views().memory.wrong.clone();
    assert!(w.views().memory.searching.is_some(), "the search is running: {wrong:?}");
    w.click("Stop searching");
    assert!(w.views().memory.searching.is_none() && w.views().memory.hits.is_none());
    assert!(w.has_part("the search was stopped"));
}

#[test]
fn bytes_are_viewed_as_every_type_and_plotted() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    let content = bytes(&mut w, "x");
    w.show_memory(0, va + 16, 8);
    w.settle();
    for e in ElementType::ALL {
        w.click("View as");
        w.harness.query_all_by_label(e.name()).last().unwrap().click();
        w.settle();
        assert_eq!(w.views().memory.element, Some(e));
        let want = values::format_element(e, &content[16..]);
        assert!(
            w.has(&format!("{} {want}", e.name())),
            "the inspector reads {} {want}",
            e.name()
        );
    }
    w.click("Plot the values");
    assert!(w.has("Plot of memory"));
}

#[test]
fn double_click_on_a_byte_lists_its_references() {
    let mut w = saxpy();
    w.run("show-memory");
    let head = w.doc().derived.jobs[0].head_va;
    w.show_memory(0, head.get(), 1);
    w.settle();
    let row = w
        .harness
        .get_by_label(&format!("memory {:#x}", head.get() & !15))
        .rect();
    // The hex digits of the line's first byte begin at this position.
    double_click(&mut w, egui::pos2(row.left() + 136.0, row.center().y));
    let t = w
        .views()
        .memory
        .references
        .clone()
        .expect("the references are requested");
    assert_eq!(t.va, head.align_down(16));
    assert!(t.list.is_some(), "the references are listed");
    let list = list_references(&mut w);
    let kinds: std::collections::BTreeSet<&str> = list.iter().map(|t| t.kind).collect();
    for k in ["job", "register", "page table", "snapshot"] {
        assert!(kinds.contains(k), "{k} in {kinds:?}");
    }
    let job = list
        .iter()
        .find(|t| t.kind == "job" && t.description.starts_with("header"))
        .unwrap();
    w.click(&format!("reference job {}", job.description));
    assert_eq!(*w.doc().selection(), Selection::Job(0));
    assert_eq!(Some(w.doc().current_event()), job.event);
    let write = list.iter().find(|t| t.kind == "register").unwrap().clone();
    assert!(
        write.description.contains("HEAD") && write.description.contains(&format!("{head:#x}")),
        "{}",
        write.description
    );
    w.click("Close references");
    assert!(w.views().memory.references.is_none());
}

#[test]
fn references_include_jobs_that_point_to_the_buffer() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    w.show_memory(0, va + 4, 1);
    w.settle();
    w.click("Show references");
    let list = list_references(&mut w);
    assert!(
        list.iter()
            .any(|t| t.kind == "buffer" && t.description == "input x + 0x4")
    );
    assert!(
        list.iter()
            .any(|t| t.kind == "job" && t.description.contains("points at")),
        "{list:?}"
    );
}

#[test]
fn references_of_a_byte_are_counted_and_page_ones_fold() {
    let mut w = saxpy();
    w.run("show-memory");
    let head = w.doc().derived.jobs[0].head_va;
    // This byte is on the page of the header but not in the header.
    let va = (head.get() & !4095) | ((head + 0x400).get() & 0xfff);
    w.show_memory(0, va, 1);
    w.settle();
    w.click("Show references");
    let list = list_references(&mut w);
    let own: Vec<_> = list.iter().filter(|t| !t.is_page_only).collect();
    let of_page = list.len() - own.len();
    assert!(of_page > 0, "the header is on this page: {list:?}");
    assert!(
        list.iter().take(own.len()).all(|t| !t.is_page_only),
        "references of the byte come first"
    );
    let events = own.iter().filter(|t| t.event.is_some()).count();
    assert_eq!(
        w.doc().xrefs.event_xrefs().len(),
        events,
        "the inspector counts the same events"
    );
    let message = match events {
        0 => "has no reference".to_owned(),
        1 => "has references in 1 event".to_owned(),
        n => format!("has references in {n} events"),
    };
    assert!(w.has_part(&message), "{message}");
    let job = list.iter().find(|t| t.is_page_only && t.kind == "job").unwrap();
    let label = format!("reference job {}", job.description);
    assert!(!w.has(&label), "references of the page are folded");
    // The window is tall enough for all references of the byte itself.
    w.harness.set_size(egui::vec2(1280.0, 2400.0));
    w.settle();
    w.click("References to the page");
    assert!(w.views().memory.references.as_ref().unwrap().unfolded);
}

#[test]
fn bytes_are_copied_as_hex_decimal_c_array_and_address() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    let content = bytes(&mut w, "x");
    w.show_memory(0, va, 1);
    w.settle();
    let hex: Vec<String> = content[..16].iter().map(|b| format!("{b:02x}")).collect();
    let decimal: Vec<String> = content[..16].iter().map(u8::to_string).collect();
    for (form, want) in [
        ("Copy as hex", hex.join(" ")),
        ("Copy as decimal", decimal.join(", ")),
        ("Copy address", format!("{va:#x}")),
    ] {
        w.harness.get_by_label(&format!("memory {va:#x}")).click_secondary();
        w.settle();
        assert_eq!(click_and_copied(&mut w, form), want);
        w.settle();
    }
    w.harness.get_by_label(&format!("memory {va:#x}")).click_secondary();
    w.settle();
    let c = click_and_copied(&mut w, "Copy as C array");
    assert!(
        c.contains(&format!("mem_{va:x}[16]")) && c.contains(&format!("{:#04x}", content[5])),
        "{c}"
    );
}

#[test]
fn arrows_move_the_selected_byte_and_a_drag_selects_many() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    w.show_memory(0, va, 1);
    w.settle();
    let row = w.harness.get_by_label(&format!("memory {va:#x}")).rect();
    let from = egui::pos2(row.left() + 136.0, row.center().y);
    w.harness.hover_at(from);
    w.settle();
    at_once(&mut w, vec![button(from, true), button(from, false)]);
    assert!(matches!(*w.doc().selection(), Selection::Memory { va: v, bytes: 1, .. } if v == GpuVa::new(va)));
    w.harness.key_press(egui::Key::ArrowDown);
    w.settle();
    w.harness.key_press(egui::Key::ArrowRight);
    w.settle();
    assert!(matches!(*w.doc().selection(), Selection::Memory { va: v, .. } if v == GpuVa::new(va + 17)));
    let to = from + egui::vec2(0.0, 40.0);
    w.harness.hover_at(from);
    w.harness.drag_at(from);
    w.harness.hover_at(from + egui::vec2(0.0, 20.0));
    w.harness.hover_at(to);
    w.harness.drop_at(to);
    w.settle();
    assert!(
        matches!(*w.doc().selection(), Selection::Memory { va: v, bytes: 33, .. } if v == GpuVa::new(va)),
        "{:?}",
        w.doc().selection()
    );
}

#[test]
fn a_narrow_panel_has_lines_of_eight_bytes() {
    let mut w = Window::open_file_sized(&samples().join("saxpy.kine"), ThemeChoice::Dark, [560.0, 700.0], 1.0);
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    w.show_memory(0, va, 1);
    w.settle();
    let row = |at: u64| format!("memory {at:#x}");
    assert!(w.has(&row(va + 8)) && w.has(&row(va + 16)));
    // The last byte of the line is inside the panel.
    let line = w.harness.get_by_label(&row(va)).rect();
    let last = egui::pos2(
        line.left() + 132.0 + (line.right() - line.left() - 144.0) * 0.6,
        line.center().y,
    );
    w.harness.hover_at(last);
    at_once(&mut w, vec![button(last, true), button(last, false)]);
    let chosen = w.doc().selection().clone();
    assert!(
        matches!(chosen, Selection::Memory { va: v, .. } if (va..va + 8).contains(&v.get())),
        "{chosen:?}"
    );
    w.harness.key_press(egui::Key::ArrowDown);
    w.settle();
    let Selection::Memory { va: from, .. } = chosen else {
        return;
    };
    assert!(matches!(*w.doc().selection(), Selection::Memory { va: v, .. } if v == from + 8));
}
