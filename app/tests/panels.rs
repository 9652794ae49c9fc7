//! Memory, Page tables, Inputs, Register and the inspector, driven by their accessible labels.
//! Each test asserts that a document, a file or a panel changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::{Window, samples};
use egui_kittest::kittest::Queryable as _;
use kinescope::document::changes::Change;
use kinescope::document::facts::{Content, Facts, SpaceFact};
use kinescope::document::moment::Selection;
use kinescope::document::tables::Mark;
use kinescope::document::{Document, derive, journal, values};
use kinescope::panels::inputs::{Brush, Show};
use std::path::Path;
use std::sync::Arc;
use trace_core::mmu::{self, Rights};
use trace_core::progress::Progress;
use trace_core::recording::{
    AddressSpace, Buffer, BufferRole, ElementType, FrameRole, GpuVa, MemoryBuilder, MmuFormat, Page, PhysAddr,
    Recording,
};

/// Opens a copy of a file, so that journals do not lie beside the samples.
fn open(file: &Path) -> Window {
    let mut w = Window::empty();
    let copy = w.folder.path().join("copy.kine");
    std::fs::copy(file, &copy).unwrap();
    take(&mut w, &copy);
    w
}

/// Opens a recording as a program that was just started does.
fn take(w: &mut Window, path: &Path) {
    let recording = trace_core::import::open(path, &Progress::new()).unwrap();
    let facts = derive::derive(&recording, &Progress::new()).unwrap();
    let doc = Document::new(path.to_owned(), Arc::new(recording), Arc::new(facts));
    w.app().take(doc);
    w.settle();
}

/// A sample with an input `x` of 1024 numbers of 32 bits.
fn saxpy() -> Window {
    let mut w = open(&samples().join("saxpy.kine"));
    w.run("show-inputs");
    w.doc().select(Selection::Buffer("x".into()));
    w.settle();
    w
}

/// The same with the elements of `x` read as floats.
fn floats() -> Window {
    let mut w = saxpy();
    let b = w.doc().recording.buffer("x").unwrap().clone();
    if w.doc().element(&b) != ElementType::F32 {
        w.click("Element type");
        w.click("f32");
    }
    assert_eq!(w.doc().element(&b), ElementType::F32);
    w
}

fn bytes(w: &mut Window, name: &str) -> Vec<u8> {
    w.doc().buffer_now(name).unwrap().0
}

fn edited(w: &mut Window, name: &str) -> bool {
    w.doc().changes().inputs().contains_key(name)
}

fn has_part(w: &Window, label: &str) -> bool {
    w.harness.query_all_by_label_contains(label).next().is_some()
}

/// Several events in one frame: what a person does quickly.
fn at_once(w: &mut Window, events: Vec<egui::Event>) {
    w.harness.input_mut().events.extend(events);
    w.settle();
}

fn button(pos: egui::Pos2, pressed: bool) -> egui::Event {
    egui::Event::PointerButton {
        pos,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: egui::Modifiers::NONE,
    }
}

fn double_click(w: &mut Window, pos: egui::Pos2) {
    w.harness.hover_at(pos);
    w.settle();
    at_once(
        w,
        vec![
            button(pos, true),
            button(pos, false),
            button(pos, true),
            button(pos, false),
        ],
    );
}

fn enter(w: &mut Window, label: &str, text: &str) {
    w.harness.get_by_label(label).focus();
    w.settle();
    w.harness.get_by_label(label).type_text(text);
    w.settle();
    w.harness.key_press(egui::Key::Enter);
    w.settle();
}

/// The texts that were copied in the frames since `settle` was left out.
fn click_and_copied(w: &mut Window, label: &str) -> String {
    w.harness.get_by_label(label).click();
    let mut out = String::new();
    for _ in 0..4 {
        w.harness.step();
        for c in &w.harness.output().platform_output.commands {
            if let egui::OutputCommand::CopyText(t) = c {
                out.clone_from(t);
            }
        }
    }
    out
}

// Inputs.

#[test]
fn numbers_are_set_undone_and_done_again() {
    let mut w = floats();
    let before = bytes(&mut w, "x");
    w.click("value 1");
    w.views().inputs.field = "2.5 -1".into();
    w.click("Set");
    let now = bytes(&mut w, "x");
    assert_eq!(now[4..8], 2.5f32.to_le_bytes());
    assert_eq!(now[8..12], (-1f32).to_le_bytes());
    assert_eq!((&now[..4], &now[12..]), (&before[..4], &before[12..]));
    assert_eq!(w.views().inputs.summary().unwrap().changed, 2);
    w.run("undo");
    assert!(bytes(&mut w, "x") == before && !edited(&mut w, "x"));
    w.run("redo");
    assert_eq!(bytes(&mut w, "x"), now);
}

#[test]
fn hex_is_set_and_what_is_no_value_is_told() {
    let mut w = floats();
    let before = bytes(&mut w, "x");
    w.click("hex");
    w.click("value 0");
    assert!(w.views().inputs.hex);
    w.views().inputs.field = "00 00 80 3f".into();
    w.click("Set");
    assert_eq!(bytes(&mut w, "x")[..4], 1f32.to_le_bytes());
    w.views().inputs.field = "0".into();
    w.click("Set");
    assert!(has_part(&w, "write whole bytes as hex digits"));
    w.click("hex");
    w.click("value 0");
    w.views().inputs.field = "one".into();
    w.click("Set");
    assert!(has_part(&w, "\"one\" is not a value of type f32"));
    let va = w.doc().recording.buffer("x").unwrap().va.0;
    w.show_memory(0, va + 4092, 4);
    w.settle();
    w.click("value 1023");
    w.views().inputs.field = "1 2".into();
    w.click("Set");
    assert!(has_part(&w, "past the end"));
    assert_eq!(bytes(&mut w, "x")[4..], before[4..]);
}

#[test]
fn enter_sets_a_value_and_goes_to_the_next() {
    let mut w = floats();
    w.click("value 3");
    w.views().inputs.field = "7".into();
    w.harness.get_by_label("Value").focus();
    w.settle();
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert_eq!(bytes(&mut w, "x")[12..16], 7f32.to_le_bytes());
    assert_eq!(w.views().inputs.editing, Some(4));
}

#[test]
fn a_value_clicked_is_selected_everywhere_and_alt_left_leads_back() {
    let mut w = floats();
    let va = w.doc().recording.buffer("x").unwrap().va.0;
    w.click("value 5");
    let place = Selection::Memory {
        space: 0,
        va: va + 20,
        bytes: 4,
    };
    assert_eq!(*w.doc().selection(), place);
    assert!(has_part(&w, "buffer x + 0x14"), "the inspector names the place");
    w.harness
        .key_press_modifiers(egui::Modifiers::ALT, egui::Key::ArrowLeft);
    w.settle();
    assert_eq!(*w.doc().selection(), Selection::Buffer("x".into()));
    w.harness
        .key_press_modifiers(egui::Modifiers::ALT, egui::Key::ArrowRight);
    w.settle();
    assert_eq!(*w.doc().selection(), place);
}

#[test]
fn raw_npy_png_and_csv_files_are_loaded() {
    let mut w = floats();
    let size = bytes(&mut w, "x").len();
    let raw: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
    let numbers: Vec<f32> = (0..size / 4).map(|i| i as f32 / 2.0).collect();
    let as_bytes: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
    let side = ((size / 4) as f64).sqrt() as u32;
    let pixels: Vec<u8> = (0..side * side).map(|i| (i * 3) as u8).collect();
    let scaled: Vec<u8> = pixels
        .iter()
        .flat_map(|p| ((f64::from(*p) / 255.0) as f32).to_le_bytes())
        .collect();
    let folder = w.folder.path().to_owned();
    std::fs::write(folder.join("a.raw"), &raw).unwrap();
    let npy = kinescope::buffers::npy::write(ElementType::F32, &as_bytes);
    std::fs::write(folder.join("b.npy"), npy).unwrap();
    let csv: Vec<String> = numbers
        .chunks(16)
        .map(|l| l.iter().map(f32::to_string).collect::<Vec<_>>().join(","))
        .collect();
    std::fs::write(folder.join("c.csv"), csv.join("\n")).unwrap();
    image::GrayImage::from_raw(side, side, pixels)
        .unwrap()
        .save(folder.join("d.png"))
        .unwrap();
    let recorded = bytes(&mut w, "x");
    for (file, want) in [
        ("a.raw", &raw),
        ("b.npy", &as_bytes),
        ("d.png", &scaled),
        ("c.csv", &as_bytes),
    ] {
        let before = bytes(&mut w, "x");
        w.will_choose(&folder.join(file));
        w.click("Load…");
        assert!(bytes(&mut w, "x") == *want, "{file}: {:?}", w.app().failed());
        assert_eq!(w.doc().changes().last().unwrap().title(), format!("load {file} into x"));
        w.run("undo");
        assert!(bytes(&mut w, "x") == before);
        w.run("redo");
    }
    w.click("As recorded");
    assert!(bytes(&mut w, "x") == recorded && !edited(&mut w, "x"));
    w.run("undo");
    assert!(bytes(&mut w, "x") == as_bytes);
}

#[test]
fn a_bad_file_of_each_kind_is_told_by_its_place_and_changes_nothing() {
    let mut w = floats();
    let before = bytes(&mut w, "x");
    let folder = w.folder.path().to_owned();
    let big = "1,".repeat(1025);
    image::GrayImage::new(3, 2).save(folder.join("size.png")).unwrap();
    let cases: [(&str, &[u8], &str); 7] = [
        ("short.raw", &[1, 2, 3], "holds 3 bytes"),
        ("type.npy", b"\x93NUMPY\x01\x00\x0a\x00", "header"),
        ("magic.npy", b"PK", "byte 0"),
        ("broken.png", b"\x89PNG no", "broken.png"),
        ("word.csv", b"1,2\n3,x", "line 2, value 2"),
        ("many.csv", big.as_bytes(), "line 1, value 1025"),
        ("size.png", &[], "3×2"),
    ];
    for (file, data, place) in cases {
        if !data.is_empty() {
            std::fs::write(folder.join(file), data).unwrap();
        }
        w.will_choose(&folder.join(file));
        w.click("Load…");
        let told = w.app().notice.clone().expect(file).1;
        assert!(told.contains(place) && told.contains(file), "{file}: {told}");
        w.click("Dismiss");
    }
    w.will_choose(&folder.join("absent.raw"));
    w.click("Load…");
    assert!(w.app().notice.clone().unwrap().1.contains("absent.raw"));
    assert!(bytes(&mut w, "x") == before && w.doc().changes().is_empty());
}

#[test]
fn a_buffer_is_cleared_saved_and_loaded_back() {
    let mut w = floats();
    let recorded = bytes(&mut w, "x");
    let file = w.folder.path().join("x.npy");
    w.will_choose(&file);
    w.click("Save…");
    w.click("Clear");
    assert!(bytes(&mut w, "x").iter().all(|b| *b == 0));
    assert_eq!(w.doc().changes().last().unwrap().title(), "clear x");
    w.click("Load…");
    assert!(
        bytes(&mut w, "x") == recorded && !edited(&mut w, "x"),
        "as recorded is not edited"
    );
}

#[test]
fn painting_the_picture_is_one_change_a_stroke() {
    let mut w = floats();
    let before = bytes(&mut w, "x");
    w.click("Values as Picture");
    w.click("Paint");
    w.views().inputs.brush = Some(Brush {
        value: 9.0,
        colour: [255; 3],
        size: 2,
    });
    w.settle();
    let rect = w.harness.get_by_label("Picture of x").rect();
    let px = rect.width() / 32.0;
    let at = |x: f32, y: f32| rect.min + egui::vec2((x + 0.5) * px, (y + 0.5) * px);
    w.harness.hover_at(at(4.0, 6.0));
    w.harness.drag_at(at(4.0, 6.0));
    w.harness.hover_at(at(20.0, 6.0));
    w.settle();
    assert!(w.doc().changes().is_empty(), "a stroke counts when it ends");
    w.harness.drop_at(at(20.0, 6.0));
    w.settle();
    assert_eq!(w.doc().changes().len(), 1);
    assert!(w.doc().changes().last().unwrap().title().starts_with("paint"));
    let now = bytes(&mut w, "x");
    let value = |i: usize| f32::from_le_bytes(now[i * 4..i * 4 + 4].try_into().unwrap());
    for x in 4..20 {
        assert_eq!(value(6 * 32 + x), 9.0, "pixel {x}, 6");
        assert_eq!(value(5 * 32 + x), 9.0, "the brush is two pixels high");
    }
    assert_eq!(now[8 * 128..], before[8 * 128..], "nothing below was painted");
    w.run("undo");
    assert!(bytes(&mut w, "x") == before);
}

#[test]
fn values_are_plotted_and_counted() {
    let mut w = floats();
    w.click("Values as Plot");
    assert_eq!(w.views().inputs.show, Some(Show::Plot));
    assert!(w.has("Plot of x"));
    w.click("value 2");
    w.views().inputs.field = "1000000".into();
    w.click("Set");
    let s = Arc::clone(w.views().inputs.summary().unwrap());
    assert!(s.was.is_some() && s.now.range().unwrap().1 == 1e6);
    w.click("Values as Histogram");
    assert!(w.has("Histogram of x"));
    assert_eq!(s.bars.iter().sum::<u64>(), 1024);
    assert_eq!(s.bars.last(), Some(&1));
    // The plot leads to the value under the pointer.
    w.click("Values as Plot");
    w.views().inputs.editing = None;
    w.click("Plot of x");
    assert!(w.views().inputs.editing.is_some());
}

/// A plot of values so large that their neighbours are the same number, or of one value, has no height of its own.
#[test]
fn buffers_of_every_type_are_plotted_counted_and_painted() {
    for file in ["write-value.kine", "saxpy.kine"] {
        let mut w = open(&samples().join(file));
        w.run("show-inputs");
        let names: Vec<String> = w.doc().recording.facts.buffers.iter().map(|b| b.name.clone()).collect();
        for name in names {
            w.doc().select(Selection::Buffer(name.clone()));
            for e in ElementType::ALL {
                let new = Some(e.name().to_owned());
                assert!(w.doc().change(Change::Element {
                    buffer: name.clone(),
                    old: None,
                    new
                }));
                for (show, what) in [
                    (Show::Plot, "Plot of"),
                    (Show::Histogram, "Histogram of"),
                    (Show::Picture, "Picture of"),
                ] {
                    w.views().inputs.show = Some(show);
                    w.settle();
                    let shown = has_part(&w, what) || has_part(&w, "finite number") || has_part(&w, "make a row");
                    assert!(shown, "{name} as {} by {what}", e.name());
                }
            }
        }
        w.run("show-memory");
        for e in ElementType::ALL {
            w.views().memory.element = Some(e);
            w.views().memory.plot = true;
            w.settle();
            assert!(
                w.has("Plot of memory") || has_part(&w, "none is finite"),
                "{}",
                e.name()
            );
        }
    }
}

#[test]
fn the_type_of_a_buffer_changes_and_comes_back() {
    let mut w = floats();
    let b = w.doc().recording.buffer("x").unwrap().clone();
    w.click("Element type");
    w.click("f16");
    assert_eq!(w.doc().element(&b), ElementType::F16);
    assert!(w.has("value 2047") || has_part(&w, "2\u{2009}048 values"));
    w.run("undo");
    assert_eq!(w.doc().element(&b), ElementType::F32);
}

// What a person made.

/// The window after the program died and was started again.
fn died(mut w: Window) -> Window {
    let path = w.doc().path.clone();
    let file = journal::path_for(&path);
    let wanted = w.doc().changes().len();
    let of = journal::Of {
        events: w.doc().len(),
        gpu: w.doc().recording.facts.identity.gpu_id,
        source: w.doc().recording.facts.identity.source.clone(),
    };
    let recording = Arc::clone(&w.doc().recording);
    let since = std::time::Instant::now();
    while journal::read(&file, &of, &*recording)
        .ok()
        .flatten()
        .is_none_or(|f| f.changes.len() < wanted)
    {
        assert!(since.elapsed().as_secs() < 60, "the journal was not written");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let text = std::fs::read(&file).unwrap();
    w.run("close");
    std::fs::write(&file, text).unwrap();
    take(&mut w, &path);
    w.run("show-inputs");
    w
}

#[test]
fn edits_of_a_run_that_died_are_offered_and_taken_up() {
    let mut w = floats();
    w.click("value 0");
    w.views().inputs.field = "42".into();
    w.click("Set");
    let made = bytes(&mut w, "x");
    let mut w = died(w);
    assert!(!edited(&mut w, "x"), "nothing is taken up unasked");
    w.click("Take them up");
    assert!(bytes(&mut w, "x") == made);
    // Closed in good order, they hold without a question.
    let path = w.doc().path.clone();
    w.run("close");
    take(&mut w, &path);
    assert!(bytes(&mut w, "x") == made && w.doc().offered.is_none());
}

#[test]
fn edits_made_before_the_person_decided_lose_neither_side() {
    let mut w = floats();
    assert!(w.doc().edit("x", 0, vec![1, 2, 3, 4]));
    let mut w = died(w);
    assert!(w.doc().edit("x", 8, vec![5, 6, 7, 8]));
    w.settle();
    // It dies again: the newer edits are offered first, the older ones are still there.
    let mut w = died(w);
    w.click("Take them up");
    assert_eq!(bytes(&mut w, "x")[8..12], [5, 6, 7, 8]);
    let path = w.doc().path.clone();
    w.run("close");
    take(&mut w, &path);
    w.click("Take them up");
    let now = bytes(&mut w, "x");
    assert_eq!((&now[..4], &now[8..12]), (&[1, 2, 3, 4][..], &[5, 6, 7, 8][..]));
    w.run("close");
    take(&mut w, &path);
    assert!(w.doc().offered.is_none() && bytes(&mut w, "x") == now);
}

#[test]
fn a_journal_that_cannot_be_written_is_told() {
    let mut w = saxpy();
    // A folder stands where the journal would go.
    std::fs::create_dir(journal::path_for(&w.doc().path.clone())).unwrap();
    assert!(w.doc().edit("x", 0, vec![1]));
    let since = std::time::Instant::now();
    while w.app().notice.is_none() {
        assert!(since.elapsed().as_secs() < 60, "nobody was told");
        w.settle();
    }
    assert!(w.app().notice.clone().unwrap().1.contains("kine-edits"));
}

// Memory.

#[test]
fn go_to_an_address_a_buffer_and_a_place_in_it() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("y").unwrap().va.0;
    for (text, want) in [
        (format!("{va:#x}"), va),
        ("y + 0x24".into(), va + 0x24),
        ("y".into(), va),
    ] {
        w.views().memory.go_to.clear();
        enter(&mut w, "Go to address", &text);
        assert_eq!(w.views().memory.top, want & !15, "{text}");
        assert!(matches!(*w.doc().selection(), Selection::Memory { va, .. } if va == want));
    }
    w.views().memory.go_to.clear();
    enter(&mut w, "Go to address", "nowhere");
    assert!(has_part(&w, "neither an address, a buffer nor a job"));
    w.views().memory.go_to.clear();
    enter(&mut w, "Go to address", "job 0");
    let head = w.doc().facts.jobs[0].head_va;
    assert_eq!(w.views().memory.top, head & !15);
    assert!(has_part(&w, "of job 0"), "what the page is used for");
}

#[test]
fn bytes_are_found_or_told_not_to_be_there() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.0;
    let content = bytes(&mut w, "x");
    let hex: Vec<String> = content[40..48].iter().map(|b| format!("{b:02x}")).collect();
    enter(&mut w, "Search memory", &hex.join(" "));
    let hits = w.views().memory.hits.clone().unwrap();
    assert!(hits.contains(&(va + 40)), "{hits:x?}");
    assert!(matches!(*w.doc().selection(), Selection::Memory { bytes: 8, .. }));
    w.views().memory.search.clear();
    enter(&mut w, "Search memory", "\"there is no such text in there\"");
    assert!(w.views().memory.hits.as_ref().unwrap().is_empty() && has_part(&w, "not found"));
    w.views().memory.search.clear();
    enter(&mut w, "Search memory", "zz");
    assert!(has_part(&w, "hex digits, or text in quotes"));
}

/// Tables that map two million pages onto one, so that a search takes long.
fn endless() -> (Recording, Facts) {
    const LAST: u64 = 4096;
    let format = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let table = |frame: u64| mmu::encode_table(format, PhysAddr(frame << 12));
    let leaf = mmu::encode_leaf(format, PhysAddr(5 << 12), Rights::RW, 0);
    let filled = |entries: usize, raw: &dyn Fn(u64) -> u64| {
        let mut p: Page = [0; 4096];
        for (e, i) in p.chunks_exact_mut(8).take(entries).zip(0u64..) {
            e.copy_from_slice(&raw(i).to_le_bytes());
        }
        p
    };
    // Frame 1 is the top, 2 the next, from 10 on those of level 2, from 100 on the last: no table stands twice.
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
    r.facts.address_spaces.push(AddressSpace {
        number: 0,
        format,
        root: PhysAddr(1 << 12),
        memattr: 0,
        transcfg: 6,
    });
    let mut facts = Facts::default();
    facts.spaces.push(SpaceFact::default());
    (r, facts)
}

#[test]
fn a_search_is_stopped() {
    let mut w = Window::empty();
    let (recording, facts) = endless();
    let path = w.folder.path().join("endless.kine");
    w.app().take(Document::new(path, Arc::new(recording), Arc::new(facts)));
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
    assert!(w.views().memory.searching.is_some(), "it goes on: {wrong:?}");
    w.click("Stop searching");
    assert!(w.views().memory.searching.is_none() && w.views().memory.hits.is_none());
    assert!(has_part(&w, "the search was stopped"));
}

#[test]
fn bytes_are_viewed_as_every_type_and_plotted() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.0;
    let content = bytes(&mut w, "x");
    w.show_memory(0, va + 16, 8);
    w.settle();
    for e in ElementType::ALL {
        w.click("View as");
        w.harness.query_all_by_label(e.name()).last().unwrap().click();
        w.settle();
        assert_eq!(w.views().memory.element, Some(e));
        let want = values::element_text(e, &content[16..]);
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
fn a_byte_clicked_twice_tells_everything_that_touches_it() {
    let mut w = saxpy();
    w.run("show-memory");
    let head = w.doc().facts.jobs[0].head_va;
    w.show_memory(0, head, 1);
    w.settle();
    let row = w.harness.get_by_label(&format!("memory {:#x}", head & !15)).rect();
    // The first byte of the line stands at the begin of its hex digits.
    double_click(&mut w, egui::pos2(row.left() + 136.0, row.center().y));
    let t = w.views().memory.touched.clone().expect("asked");
    assert_eq!(t.va, head & !15);
    let list = t.list.expect("found");
    let kinds: std::collections::BTreeSet<&str> = list.iter().map(|t| t.kind).collect();
    for k in ["job", "register", "page table", "snapshot"] {
        assert!(kinds.contains(k), "{k} in {kinds:?}");
    }
    let job = list
        .iter()
        .find(|t| t.kind == "job" && t.what.starts_with("header"))
        .unwrap();
    w.click(&format!("touch job {}", job.what));
    assert_eq!(*w.doc().selection(), Selection::Job(0));
    assert_eq!(Some(w.doc().moment()), job.event);
    let write = list.iter().find(|t| t.kind == "register").unwrap().clone();
    assert!(
        write.what.contains("HEAD") && write.what.contains(&format!("{head:#x}")),
        "{}",
        write.what
    );
    w.click("Close what touches it");
    assert!(w.views().memory.touched.is_none());
}

#[test]
fn a_byte_of_a_buffer_is_touched_by_the_job_that_points_there() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.0;
    w.show_memory(0, va + 4, 1);
    w.settle();
    w.click("What touches it");
    let list = w.views().memory.touched.clone().unwrap().list.unwrap();
    assert!(list.iter().any(|t| t.kind == "buffer" && t.what == "input x + 0x4"));
    assert!(
        list.iter().any(|t| t.kind == "job" && t.what.contains("points at")),
        "{list:?}"
    );
}

#[test]
fn bytes_are_copied_as_hex_decimal_c_array_and_address() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.0;
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
    let va = w.doc().recording.buffer("x").unwrap().va.0;
    w.show_memory(0, va, 1);
    w.settle();
    let row = w.harness.get_by_label(&format!("memory {va:#x}")).rect();
    let from = egui::pos2(row.left() + 136.0, row.center().y);
    w.harness.hover_at(from);
    w.settle();
    at_once(&mut w, vec![button(from, true), button(from, false)]);
    assert!(matches!(*w.doc().selection(), Selection::Memory { va: v, bytes: 1, .. } if v == va));
    w.harness.key_press(egui::Key::ArrowDown);
    w.settle();
    w.harness.key_press(egui::Key::ArrowRight);
    w.settle();
    assert!(matches!(*w.doc().selection(), Selection::Memory { va: v, .. } if v == va + 17));
    let to = from + egui::vec2(0.0, 40.0);
    w.harness.hover_at(from);
    w.harness.drag_at(from);
    w.harness.hover_at(from + egui::vec2(0.0, 20.0));
    w.harness.hover_at(to);
    w.harness.drop_at(to);
    w.settle();
    assert!(
        matches!(*w.doc().selection(), Selection::Memory { va: v, bytes: 33, .. } if v == va),
        "{:?}",
        w.doc().selection()
    );
}

// Register.

#[test]
fn the_register_panel_goes_from_write_to_write() {
    let mut w = saxpy();
    w.run("show-register");
    let (register, writes) = {
        let d = w.doc();
        let writes = |r: &kinescope::document::facts::RegisterFact| -> Vec<u64> {
            let list = r.events.iter().map(|e| u64::from(*e));
            list.filter(|e| d.recording.events.access(*e as usize).is_some_and(|a| a.write))
                .collect()
        };
        let most = d.facts.registers.iter().max_by_key(|r| writes(r.1).len()).unwrap();
        (*most.0, writes(most.1))
    };
    assert!(writes.len() >= 3, "{writes:?}");
    w.doc().go_with(writes[0], Selection::Register(register));
    w.settle();
    for want in &writes[1..3] {
        w.harness
            .query_all_by_label("Next write")
            .next()
            .unwrap()
            .click_accesskit();
        w.settle();
        assert_eq!(w.doc().moment(), *want);
    }
    w.harness
        .query_all_by_label("Previous write")
        .next()
        .unwrap()
        .click_accesskit();
    w.settle();
    assert_eq!(w.doc().moment(), writes[1]);
    let last = *writes.last().unwrap();
    w.harness.query_all_by_label("Accesses").next().unwrap().scroll_down();
    w.settle();
    if w.has(&format!("access at event {last}")) {
        w.click(&format!("access at event {last}"));
        assert_eq!(w.doc().moment(), last);
    }
}

#[test]
fn fields_are_named_with_their_values_and_the_rest_is_told() {
    let mut w = saxpy();
    w.run("show-register");
    let event = {
        let d = w.doc();
        let offset = d
            .facts
            .register_named("JS0_CONFIG_NEXT")
            .or(d.facts.register_named("JS1_CONFIG_NEXT"))
            .unwrap();
        u64::from(d.facts.registers[&offset].events[0])
    };
    w.doc().go(event);
    w.settle();
    let value = w.doc().recording.events.access(event as usize).unwrap();
    let def = derive::register_of(&w.doc().recording, value.offset).unwrap();
    let decoded = def.layout.decode(value.value);
    assert!(decoded.fields.len() > 2);
    for f in &decoded.fields {
        let label = format!("field {} {}", f.field.name, f.text);
        assert!(w.has(&label), "{label}");
    }
    assert_ne!(decoded.unknown_mask(), 0);
    assert!(w.has(&format!("field not named {:#x}", decoded.unknown_value())));
}

// Page tables.

#[test]
fn the_map_goes_from_48_bits_to_one_page_and_selects_it_everywhere() {
    let mut w = saxpy();
    w.run("show-page-tables");
    let va = w.doc().recording.buffer("x").unwrap().va.0;
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
    // The keyboard too, once the map has the focus.
    w.click("Map of the page");
    w.click("Address map");
    let Selection::Memory {
        va: at, bytes: 4096, ..
    } = *w.doc().selection()
    else {
        panic!("a page is selected: {:?}", w.doc().selection());
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
    assert!(
        top <= at + 4096 && at + 4096 < top + 4096,
        "Memory followed to {top:#x}"
    );
    assert_ne!(va, 0);
}

/// Tables that map a page twice, once executable and writable, and one that the recording does not hold.
fn odd() -> Recording {
    let format = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let mut tables = [[0u8; 4096]; 4];
    let mut set = |table: usize, index: usize, raw: u64| {
        tables[table][index * 8..index * 8 + 8].copy_from_slice(&raw.to_le_bytes());
    };
    for (table, next) in [(0, 2u64), (1, 3), (2, 4)] {
        set(table, 0, mmu::encode_table(format, PhysAddr(next << 12)));
    }
    let rwx = Rights {
        read: true,
        write: true,
        execute: true,
    };
    set(3, 1, mmu::encode_leaf(format, PhysAddr(9 << 12), Rights::RW, 0));
    set(3, 4, mmu::encode_leaf(format, PhysAddr(9 << 12), rwx, 0));
    // The level 3 table can be seen through the tables.
    set(3, 6, mmu::encode_leaf(format, PhysAddr(4 << 12), Rights::RO, 0));
    set(3, 8, mmu::encode_leaf(format, PhysAddr(77 << 12), Rights::RW, 0));
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
    r.facts.address_spaces.push(AddressSpace {
        number: 0,
        format,
        root: PhysAddr(1 << 12),
        memattr: 0,
        transcfg: 6,
    });
    r.facts.buffers.push(Buffer {
        name: "w0".into(),
        role: BufferRole::Weights,
        address_space: 0,
        va: GpuVa(0x1000),
        bytes: 64,
        element: ElementType::F32,
    });
    r
}

fn open_recording(recording: Recording) -> Window {
    let mut w = Window::empty();
    let facts = derive::derive(&recording, &Progress::new()).unwrap();
    let path = w.folder.path().join("made.kine");
    w.app().take(Document::new(path, Arc::new(recording), Arc::new(facts)));
    w.settle();
    w
}

#[test]
fn what_is_mapped_twice_or_open_is_marked_and_what_a_page_is_used_for_is_told() {
    let mut w = open_recording(odd());
    w.run("show-page-tables");
    w.click("Pages mapped twice");
    assert!(w.has("mapping 0x1000") && w.has("mapping 0x4000") && !w.has("mapping 0x6000"));
    w.click("mapping 0x4000");
    assert_eq!(w.views().tables.at, Some(0x4000));
    w.click("Pages executable and writable");
    assert_eq!(w.views().tables.mark, Some(Mark::Open));
    assert!(w.has("mapping 0x4000") && !w.has("mapping 0x1000"));
    let fact = w.doc().facts.spaces[0].clone();
    assert_eq!(fact.marks.pages(Mark::Missing), 1);
    assert_eq!(fact.pages_with(Content::None), 1, "two ways of counting agree");
    w.click("Pages not recorded");
    w.click("mapping 0x8000");
    assert_eq!(w.views().tables.at, Some(0x8000));
    w.click("All mappings");
    assert_eq!(w.views().tables.mark, None);
    assert!(w.has("mapping 0x1000") && w.has("mapping 0x6000"));
    w.run("show-memory");
    for (va, what) in [
        (0x6000, "level 3 page table of 0x0"),
        (0x1000, "weights w0"),
        (0x4000, "unknown"),
    ] {
        w.show_memory(0, va, 1);
        w.settle();
        assert!(w.has(&format!("page holds {what}")), "{va:#x} holds {what}");
    }
    w.click("What touches it");
    let list = w.views().memory.touched.clone().unwrap().list.unwrap();
    assert!(list.iter().any(|t| t.what.contains("mapped at 0x1000 too")), "{list:?}");
}

// Empty panels.

#[test]
fn panels_without_anything_to_show_say_so_and_lead_on() {
    let mut w = open_recording(Recording::default());
    for (panel, what) in [
        ("show-memory", "no address space"),
        ("show-page-tables", "no page tables"),
        ("show-inputs", "names no buffers"),
        ("show-register", "No register is accessed"),
    ] {
        w.run(panel);
        assert!(has_part(&w, what), "{panel} says {what}");
    }
    w.run("show-inputs");
    w.click("Show memory");
    assert!(w.shows("memory"));
    w.click("Show events");
    assert!(w.shows("events"));
}
