//! Inputs: outputs of the replay beside the input that a person works on.

use crate::common::Window;
use egui_kittest::kittest::Queryable as _;
use kinescope::document::moment::Selection;
use kinescope::window::layout;

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
fn a_replay_that_went_well_leaves_inputs_in_front_with_its_few_outputs() {
    let mut w = write_value();
    assert!(!w.has_part("output value"), "nothing was replayed yet");
    w.run("replay");
    assert!(front(&mut w, "inputs") && w.has("replayed"));
    // The bars stand in the list, left of what is edited.
    let bar = w.harness.get_by_label_contains("output value 4 ").rect();
    let name = w.harness.get_by_label_contains("input results").rect();
    assert!(bar.top() > name.bottom() && bar.left() >= name.left() && bar.right() <= name.right());
    // An edit makes it a result of before; another replay is of now again.
    w.edit();
    assert!(w.has("replayed before your last edit"));
    w.run("replay");
    assert!(w.has("replayed") && front(&mut w, "inputs"));
}

#[test]
fn a_replay_that_went_wrong_leads_from_inputs_to_what_went_wrong() {
    let mut w = Window::open_sample("saxpy.kine");
    w.run("show-inputs");
    w.run("replay");
    assert!(
        front(&mut w, "replay"),
        "outputs of a thousand values are shown there alone"
    );
    let mut w = write_value();
    let (head, chains) = (
        w.doc().facts.jobs[0].head_va,
        w.doc().recording.buffer("chains").unwrap().va.0,
    );
    let nowhere = 0x7f_0000_0000_u64.to_le_bytes().to_vec();
    assert!(w.doc().edit("chains", head - chains + 32, nowhere));
    w.run("replay");
    assert!(w.doc().replay.outcome.as_ref().is_some_and(|o| !o.faults.is_empty()));
    assert!(front(&mut w, "replay"));
}
