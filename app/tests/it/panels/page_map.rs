//! Tests of Page tables as a map: square and strips, zoom and pan, colours, selection, links.

use crate::common::Window;
use crate::panels::hands::saxpy;
use crate::panels::page_tables::odd;
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::gpu::page_tables::atlas::{Colour, Shape};
use kinescope_files::scene::Selection;
use kinescope_session::address_map::AddressMapKey;
use trace_core::{GpuVa, PhysAddr};

fn map_of(mut w: Window) -> Window {
    w.run("show-page-tables");
    w.click("Page tables as a map");
    w.settle();
    assert!(w.has("Map of the address space"));
    w
}

fn wheel(w: &mut Window, points: f32) {
    w.harness.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: egui::vec2(0.0, points),
        modifiers: egui::Modifiers::NONE,
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
    });
    for _ in 0..12 {
        w.settle();
    }
}

#[test]
fn square_map_zooms_by_wheel_and_keys_and_double_click_fits() {
    let mut w = map_of(saxpy());
    let fitted = w.views().tables.atlas.square;
    let rect = w.harness.get_by_label("Map of the address space").rect();
    let at = rect.center() + egui::vec2(40.0, 30.0);
    w.harness.hover_at(at);
    w.settle();
    wheel(&mut w, 240.0);
    let near = w.views().tables.atlas.square;
    assert!(near.zoom > fitted.zoom + 0.5, "{near:?} {fitted:?}");
    wheel(&mut w, -480.0);
    assert!(w.views().tables.atlas.square.zoom < near.zoom);
    w.click("Map of the address space");
    let before = w.views().tables.atlas.square;
    w.harness.key_press(egui::Key::ArrowRight);
    w.settle();
    assert!(w.views().tables.atlas.square.middle.0 > before.middle.0);
    w.harness.key_press(egui::Key::Plus);
    for _ in 0..12 {
        w.settle();
    }
    assert!(w.views().tables.atlas.square.zoom > before.zoom);
    w.click("Map of 48 bits");
    for _ in 0..4 {
        w.settle();
    }
    let whole = w.views().tables.atlas.square;
    assert!(whole.page() * f64::from(1 << 18) <= f64::from(rect.width().max(rect.height())));
    w.click("Fit the map");
    w.settle();
    assert!(w.views().tables.atlas.square.zoom > whole.zoom);
}

#[test]
fn page_map_click_selects_everywhere_and_map_follows_selection() {
    let mut w = map_of(saxpy());
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    w.doc().select(Selection::Buffer("x".into()));
    w.settle();
    assert_eq!(w.views().tables.at, Some(GpuVa::new(va)));
    let rect = w.harness.get_by_label("Map of the address space").rect();
    // The map is zoomed in fully, with the page in the middle.
    w.views().tables.atlas.square.centre(GpuVa::new(va));
    w.views().tables.atlas.square.zoom(rect, rect.center(), 40.0);
    let at = w.views().tables.atlas.square.point_of(rect, GpuVa::new(va));
    assert!(rect.contains(at), "{at:?}");
    w.doc().select(Selection::Event);
    w.settle();
    w.harness.hover_at(at);
    w.settle();
    w.click("Map of the address space");
    let Selection::Memory { va: found, .. } = *w.doc().selection() else {
        panic!("no page is selected: {:?}", w.doc().selection());
    };
    let shown = w.harness.get_by_label("Map of the address space").rect();
    let under = w.views().tables.atlas.square.page_at(shown, shown.center());
    assert_eq!(Some(found.get() >> 12), under);
    w.run("show-memory");
    let top = w.views().memory.top;
    assert!(top <= found && found < top + 4096, "Memory shows {top:#x}");
    // The map moves to a distant address that another panel selects.
    w.run("show-page-tables");
    let far = w.doc().derived.spaces[0].mappings.last().unwrap().va;
    w.views().tables.atlas.square.centre(GpuVa::ZERO);
    w.show_memory(0, far.get(), 1);
    w.run("show-page-tables");
    w.settle();
    let shown = w.harness.get_by_label("Map of the address space").rect();
    let spot = w.views().tables.atlas.square.point_of(shown, far);
    assert!(shown.contains(spot), "{far:#x} is at {spot:?} of {shown:?}");
}

#[test]
fn page_map_colours_rights_owner_entropy_and_change() {
    let mut w = map_of(saxpy());
    for (label, by) in [
        ("Map by buffer", Colour::Owner),
        ("Map by entropy", Colour::Entropy),
        ("Map by last change", Colour::Change),
        ("Map by rights", Colour::Rights),
    ] {
        w.click(label);
        w.settle();
        assert_eq!(w.views().tables.atlas.colour, by);
    }
    let recording = w.doc().recording.clone();
    let key = AddressMapKey::at(&recording, 0, w.doc().current_event());
    let map = w.views().tables.atlas.map(key).unwrap();
    let buffer = recording.buffer("x").unwrap();
    let range = buffer.va..buffer.va + buffer.bytes;
    let owned = map.owners.over(&range);
    let (main, bytes) = owned.main.unwrap();
    assert_eq!(recording.metadata.buffers[main as usize].name, "x");
    assert_eq!(bytes, buffer.bytes);
    assert!(map.runs.over(&range).mapped_bytes() >= buffer.bytes);
    let (entropy, all) = w.views().tables.atlas.entropy(key).unwrap();
    let mean = entropy.over(&range).mean().unwrap();
    assert!(all && mean > 0.0 && mean <= 255.0, "{mean}");
    // Every page maps to the address that a page walk returns.
    let space = &recording.metadata.address_spaces[0];
    for r in map.runs.list() {
        let leaf = trace_core::mmu::translate(space.format, space.root, r.va, &recording.memory.at(map.event)).unwrap();
        assert_eq!(leaf.target(r.va), Some(r.pa));
    }
}

#[test]
fn strips_omit_gaps_and_select_the_page() {
    let mut w = map_of(saxpy());
    w.click("Map as strips");
    w.settle();
    assert_eq!(w.views().tables.atlas.shape, Shape::Strips);
    let rect = w.harness.get_by_label("Strips of the address space").rect();
    let before = w.views().tables.atlas.strips;
    w.harness.hover_at(rect.center());
    w.settle();
    wheel(&mut w, 240.0);
    assert!(w.views().tables.atlas.strips.zoom > before.zoom);
    w.click("Fit the map");
    w.settle();
    assert_eq!(w.views().tables.atlas.strips.top, 0.0);
    let (key, space) = (
        AddressMapKey::at(&w.doc().recording.clone(), 0, w.doc().current_event()),
        w.doc().derived.spaces[0].clone(),
    );
    let map = w.views().tables.atlas.map(key).unwrap();
    let shown: u64 = map.islands.iter().map(|i| i.range.end - i.range.start).sum();
    assert!(shown >= space.pages() * 4096);
    let voids: u64 = map.islands.iter().map(|i| i.gap).sum();
    assert_eq!(shown + voids, map.extent().end.get());
}

#[test]
fn doubly_mapped_page_links_to_its_other_address() {
    let mut w = map_of(Window::from_recording(odd()));
    w.doc().select(Selection::Memory {
        space: 0,
        va: GpuVa::new(0x4000),
        bytes: 1,
    });
    w.settle();
    assert_eq!(w.views().tables.at, Some(GpuVa::new(0x4000)));
    assert!(w.has("address 0 0x1000") && w.has("address 0 0x4000"));
    let key = AddressMapKey::at(&w.doc().recording.clone(), 0, 0);
    let map = w.views().tables.atlas.map(key).unwrap();
    let (places, all) = map.places_of(GpuVa::new(0x1fff));
    let entries: Vec<(GpuVa, PhysAddr)> = places.iter().map(|p| (p.run.va, p.run.pa)).collect();
    assert_eq!(
        entries,
        [
            (GpuVa::new(0x1000), PhysAddr::new(0x9000)),
            (GpuVa::new(0x4000), PhysAddr::new(0x9000))
        ]
    );
    assert!(all);
    w.click("address 0 0x1000");
    w.settle();
    assert!(matches!(*w.doc().selection(), Selection::Memory { va, .. } if va == GpuVa::new(0x1000)));
    // A mark keeps the map open.
    w.click("Pages mapped twice");
    w.settle();
    assert!(w.has("Map of the address space"));
}
