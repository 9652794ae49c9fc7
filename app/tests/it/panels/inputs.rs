//! Tests of Inputs: values, files and element types of a buffer, and replay outputs next to the edited input.

use crate::common::Window;
use crate::panels::hands::{bytes, edited, floats};
use egui_kittest::kittest::Queryable as _;
use kinescope::window::layout;
use kinescope_files::scene::Selection;
use trace_core::GpuVa;
use trace_core::recording::ElementType;

#[test]
fn input_values_are_set_undone_and_redone() {
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
fn hex_values_are_set_and_invalid_values_are_reported() {
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
    assert!(w.has_part("write whole bytes as hex digits"));
    w.click("hex");
    w.click("value 0");
    w.views().inputs.field = "one".into();
    w.click("Set");
    assert!(w.has_part("\"one\" is not a value of type f32"));
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    w.show_memory(0, va + 4092, 4);
    w.settle();
    w.click("value 1023");
    w.views().inputs.field = "1 2".into();
    w.click("Set");
    assert!(w.has_part("past the end"));
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
fn clicked_value_is_selected_everywhere_and_alt_left_returns() {
    let mut w = floats();
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    w.click("value 5");
    let selection = Selection::Memory {
        space: 0,
        va: GpuVa::new(va + 20),
        bytes: 4,
    };
    assert_eq!(*w.doc().selection(), selection);
    assert!(w.has_part("buffer x + 0x14"), "the inspector names the address");
    w.harness
        .key_press_modifiers(egui::Modifiers::ALT, egui::Key::ArrowLeft);
    w.settle();
    assert_eq!(*w.doc().selection(), Selection::Buffer("x".into()));
    w.harness
        .key_press_modifiers(egui::Modifiers::ALT, egui::Key::ArrowRight);
    w.settle();
    assert_eq!(*w.doc().selection(), selection);
}

#[test]
fn value_edit_is_set_and_reverted() {
    let mut w = Window::open();
    let name = w.input();
    w.run("show-inputs");
    w.click("value 1");
    assert_eq!(w.views().inputs.editing, Some(1));
    w.views().inputs.field = "5".into();
    w.click("Set");
    assert!(
        w.doc().changes().inputs().contains_key(&name),
        "{:?}",
        w.views().inputs.wrong
    );
    w.click("Revert");
    assert!(!w.doc().changes().inputs().contains_key(&name));
    w.run("undo");
    assert!(w.doc().changes().inputs().contains_key(&name));
}

#[test]
fn file_loads_into_a_buffer_and_a_wrong_size_is_reported() {
    let mut w = Window::open();
    let name = w.input();
    w.run("show-inputs");
    let (now, _) = w.doc().buffer_now(&name).unwrap();
    let file = w.folder.path().join("new.bin");
    let new: Vec<u8> = now.iter().map(|b| !b).collect();
    std::fs::write(&file, &new).unwrap();
    w.will_choose(&file);
    w.click("Load…");
    assert_eq!(w.doc().buffer_now(&name).unwrap(), (new, true));
    std::fs::write(&file, [1, 2, 3]).unwrap();
    w.click("Load…");
    assert!(
        w.app().notice.as_ref().is_some_and(|n| n.1.contains('3')),
        "{:?}",
        w.app().notice
    );
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
    let npy = kinescope_files::buffers::npy::write(ElementType::F32, &[], &as_bytes);
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
        assert!(bytes(&mut w, "x") == *want, "{file}: {:?}", w.app().last_error());
        assert_eq!(w.doc().changes().last().unwrap().title(), format!("load {file} into x"));
        w.run("undo");
        assert!(bytes(&mut w, "x") == before);
        w.run("redo");
    }
    w.click("Revert");
    assert!(bytes(&mut w, "x") == recorded && !edited(&mut w, "x"));
    w.run("undo");
    assert!(bytes(&mut w, "x") == as_bytes);
}

#[test]
fn invalid_input_files_report_a_position_and_change_nothing() {
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
    for (file, data, position) in cases {
        if !data.is_empty() {
            std::fs::write(folder.join(file), data).unwrap();
        }
        w.will_choose(&folder.join(file));
        w.click("Load…");
        let message = w.app().notice.clone().expect(file).1;
        assert!(
            message.contains(position) && message.contains(file),
            "{file}: {message}"
        );
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
        "recorded content does not count as an edit"
    );
}

#[test]
fn buffer_type_change_can_be_undone() {
    let mut w = floats();
    let b = w.doc().recording.buffer("x").unwrap().clone();
    w.click("Element type");
    w.click("f16");
    assert_eq!(w.doc().element(&b), ElementType::F16);
    assert!(w.has("value 2047") || w.has_part("2\u{2009}048 values"));
    w.run("undo");
    assert_eq!(w.doc().element(&b), ElementType::F32);
}

#[test]
fn edit_checkbox_disables_one_edit_only() {
    let mut w = Window::open();
    let name = w.input();
    let (was, _) = w.doc().buffer_now(&name).unwrap();
    assert!(w.doc().edit(&name, 0, vec![!was[0]]));
    assert!(w.doc().edit(&name, 1, vec![!was[1]]));
    w.settle();
    w.click("apply edit 0");
    let (now, edited) = w.doc().buffer_now(&name).unwrap();
    assert_eq!((&now[..2], edited), (&[was[0], !was[1]][..], true));
    w.click("apply edit 1");
    assert_eq!(w.doc().buffer_now(&name).unwrap(), (was.clone(), false));
    w.run("undo");
    w.click("apply edit 0");
    let (now, _) = w.doc().buffer_now(&name).unwrap();
    assert_eq!(&now[..2], &[!was[0], !was[1]]);
    // The journal keeps the switched edit, so the next window has it.
    w.click("apply edit 0");
    let path = w.doc().path.clone();
    w.run("close");
    let mut again = Window::empty();
    again.start(&path);
    let (now, _) = again.doc().buffer_now(&name).unwrap();
    assert_eq!(&now[..2], &[was[0], !was[1]]);
}

fn write_value() -> Window {
    let mut w = Window::open_sample("write-value.kine");
    w.run("show-inputs");
    w.doc().select(Selection::Buffer("results".into()));
    w.settle();
    w
}

fn front(w: &mut Window, panel: &str) -> bool {
    layout::active_panels(&w.app().dock).contains(&panel)
}

#[test]
fn successful_replay_shows_outputs_in_the_inputs_panel() {
    let mut w = write_value();
    assert!(!w.has_part("output value"), "nothing was replayed yet");
    w.run("replay");
    assert!(front(&mut w, "inputs") && w.has("replayed"));
    // The bars are in the list, left of the editor.
    let bar = w.harness.get_by_label_contains("output value 4 ").rect();
    let name = w.harness.get_by_label_contains("input results").rect();
    assert!(bar.top() > name.bottom() && bar.left() >= name.left() && bar.right() <= name.right());
    // An edit makes the outputs outdated, and another replay updates them.
    w.edit();
    assert!(w.has("replayed before your last edit"));
    w.run("replay");
    assert!(w.has("replayed") && front(&mut w, "inputs"));
}

#[test]
fn failed_replay_activates_the_replay_panel() {
    let mut w = Window::open_sample("saxpy.kine");
    w.run("show-inputs");
    w.run("replay");
    assert!(
        front(&mut w, "replay"),
        "only the Replay panel shows outputs of a thousand values"
    );
    let mut w = write_value();
    let (head, chains) = (
        w.doc().derived.jobs[0].head_va,
        w.doc().recording.buffer("chains").unwrap().va.get(),
    );
    let nowhere = 0x7f_0000_0000_u64.to_le_bytes().to_vec();
    assert!(
        w.doc()
            .edit("chains", (GpuVa::new(head - GpuVa::new(chains)) + 32).get(), nowhere)
    );
    w.run("replay");
    assert!(w.doc().replay.outcome.as_ref().is_some_and(|o| !o.faults.is_empty()));
    assert!(front(&mut w, "replay"));
}
