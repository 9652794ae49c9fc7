//! Tests that jobs, buffers, registers and page-table entries have the same copy forms in the menus of every panel.

use crate::common::Window;
use crate::panels::hands::{click_and_copied, saxpy};
use egui_kittest::kittest::Queryable as _;
use kinescope_files::scene::Selection;
use serde_json::Value;

/// Returns the text that an item of a row's menu copies.
fn copy_from_menu(w: &mut Window, row: &str, item: &str) -> String {
    w.harness.get_by_label(row).click_secondary();
    w.settle();
    let message = click_and_copied(w, item);
    w.settle();
    message
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_job_is_copied_from_the_outline_and_from_its_panel() {
    let mut w = saxpy();
    let submit = w.doc().derived.jobs[0].submit;
    w.run("show-jobs");
    for row in ["outline job 0", "job 0"] {
        // The outline lists the jobs of the phase of the current event.
        w.doc().go(submit + 1);
        w.settle();
        assert_eq!(copy_from_menu(&mut w, row, "Copy submit event"), submit.to_string());
        let j = json(&copy_from_menu(&mut w, row, "Copy as JSON"));
        assert_eq!(j["job"], 0, "{j}");
        let link = copy_from_menu(&mut w, row, "Copy link to it");
        assert!(
            link.starts_with("kinescope://") && link.contains(&submit.to_string()),
            "{link}"
        );
        assert_eq!(
            (w.doc().current_event(), w.doc().selection().clone()),
            (submit, Selection::Job(0))
        );
    }
}

#[test]
fn a_buffer_and_a_pinned_register_are_copied_from_the_outline() {
    let mut w = saxpy();
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    assert_eq!(copy_from_menu(&mut w, "buffer x", "Copy address"), format!("{va:#x}"));
    assert!(copy_from_menu(&mut w, "buffer x", "Copy as C").contains("x["));
    assert_eq!(json(&copy_from_menu(&mut w, "buffer x", "Copy as JSON"))["buffer"], "x");
    assert!(copy_from_menu(&mut w, "buffer x", "Copy link to it").starts_with("kinescope://"));
    assert_eq!(*w.doc().selection(), Selection::Buffer("x".into()));
}

#[test]
fn bytes_and_entries_are_copied_as_json_and_as_a_link() {
    let mut w = saxpy();
    w.run("show-memory");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    w.show_memory(0, va, 1);
    w.settle();
    let row = format!("memory {va:#x}");
    let j = json(&copy_from_menu(&mut w, &row, "Copy as JSON"));
    assert_eq!(j["va"], format!("{va:#x}"), "{j}");
    let link = copy_from_menu(&mut w, &row, "Copy link to it");
    assert!(link.contains(&format!("{va:#x}")), "{link}");
    w.run("show-page-tables");
    let entry = json(&copy_from_menu(&mut w, "level 1 table", "Copy as JSON"));
    assert_eq!(entry["level"], 1, "{entry}");
}
