//! Tests of tools for undocumented hardware: statistics of a register, structures over memory, buffers as tensors.

use crate::panels::hands::saxpy;
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::runs::inputs::ViewMode;
use kinescope_files::scene::Selection;

#[test]
fn register_statistics_show_hints_and_link_to_followers() {
    let mut w = saxpy();
    let register = w.doc().derived.find_register_by_name("JS1_COMMAND_NEXT").unwrap();
    let first = w.doc().derived.registers[&register].accesses.all().first().unwrap();
    w.app()
        .doc
        .as_mut()
        .unwrap()
        .go_with(first, Selection::Register(register));
    w.run("show-register");
    w.click("Statistics of this register");
    for _ in 0..4 {
        w.settle();
    }
    assert!(
        w.has_part("followed by") && w.has_part("value 0x00000001"),
        "no statistics are shown"
    );
    assert!(w.has_part("bits changed"));
    // Another register has statistics of its own.
    let raw = w.doc().derived.find_register_by_name("JOB_IRQ_RAWSTAT").unwrap();
    w.app().doc.as_mut().unwrap().select(Selection::Register(raw));
    for _ in 0..4 {
        w.settle();
    }
    assert!(w.has_part("accesses") && !w.has_part("followed by"));
    w.click("List all");
    w.settle();
    assert!(w.has("Accesses"));
}

#[test]
fn structure_overlay_rows_select_their_bytes() {
    let mut w = saxpy();
    w.app().doc.as_mut().unwrap().go_job(0);
    let head = w.doc().derived.jobs[0].head_va;
    assert!(w.run("structure"));
    w.settle();
    let overlay = w.views().memory.structure.clone().unwrap();
    assert_eq!(
        (overlay.layout.as_str(), overlay.at, overlay.count),
        ("job-header", head, 1)
    );
    assert!(w.has(&format!("Structure job-header at {head:#x}")));
    // Keys move from row to row, and each row selects its bytes.
    w.click(&format!("Structure job-header at {head:#x}"));
    w.harness.key_press(egui::Key::ArrowDown);
    w.settle();
    match *w.doc().selection() {
        Selection::Memory { va, bytes, .. } => assert!(va >= head && va + bytes <= head + 32, "{va:#x}"),
        ref other => panic!("{other:?}"),
    }
    w.harness.key_press(egui::Key::ArrowLeft);
    w.settle();
    assert!(w.views().memory.structure.as_ref().unwrap().open.is_empty());
    // The structure can repeat as an array.
    w.views().memory.structure.as_mut().unwrap().count = 3;
    w.settle();
    assert!(w.has_part("job-header[2] at"));
    w.click("Close structure");
    w.settle();
    assert!(w.views().memory.structure.is_none());
}

#[test]
fn tensor_view_shows_the_value_of_a_cell() {
    let mut w = saxpy();
    w.app().doc.as_mut().unwrap().select(Selection::Buffer("x".into()));
    w.run("show-inputs");
    w.views().inputs.show = Some(ViewMode::Tensor);
    w.settle();
    let buffer = w.doc().recording.buffer("x").unwrap().clone();
    let elements = buffer.bytes / buffer.element.bytes() as u64;
    let form = w.views().inputs.tensor.as_mut().unwrap();
    form.shape = format!("2×{}", elements / 2);
    for _ in 0..4 {
        w.settle();
    }
    assert!(w.has("Slice of the tensor") && w.has("Axis 1 runs across"));
    w.harness.get_by_label("Slice of the tensor").focus();
    w.settle();
    w.harness.key_press(egui::Key::ArrowRight);
    w.settle();
    assert_eq!(w.views().inputs.tensor.as_ref().unwrap().cell, (0, 1));
    // The button swaps the axes.
    w.click("Axis 0 runs down");
    for _ in 0..4 {
        w.settle();
    }
    assert!(w.has("Axis 0 runs across") && w.has("Axis 1 runs down"));
    // A shape that does not fit shows an error.
    w.views().inputs.tensor.as_mut().unwrap().shape = format!("{elements}×2");
    w.settle();
    assert!(w.has_part("the buffer has"));
}
