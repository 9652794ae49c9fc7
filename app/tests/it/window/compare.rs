//! Checks of what the commands of a comparison change.

use super::commands::{Check, moves, ran, replayed, saves};
use crate::common::{Window, write_diverging_sample};
use kinescope::panels::compare::Section;

/// Compares the recording with a copy in which two reads changed.
fn compare_with_changes(w: &mut Window) {
    let (path, _) = write_diverging_sample(w.folder.path(), 2);
    w.will_choose(&path);
    ran(w, "compare-with");
}

/// The commands of a comparison, each with the check that shows what it changed.
pub const CHECKS: &[(&str, Check)] = &[
    ("end-compare", |w, id| {
        compare_with_changes(w);
        ran(w, id);
        assert!(w.doc().comparison.done.is_none() && !w.run(id));
    }),
    ("next-difference", |w, id| {
        assert!(!w.run(id), "nothing was compared");
        compare_with_changes(w);
        w.doc().go(0);
        moves(w, id);
        assert!(w.is_panel_active("compare"));
    }),
    ("previous-difference", |w, id| {
        compare_with_changes(w);
        w.run("last-event");
        moves(w, id);
    }),
    ("next-byte", |w, id| {
        compare_with_changes(w);
        ran(w, id);
        w.settle();
        // The recordings differ in reads but not in memory.
        assert_eq!(w.views().compare.section, Section::Memory);
        assert!(w.has_part("no difference after"));
    }),
    ("previous-byte", |w, id| {
        compare_with_changes(w);
        ran(w, id);
        w.settle();
        assert!(w.has_part("no difference before"));
    }),
    ("compare-outcome", |w, id| {
        replayed(w);
        assert!(w.doc().comparison.done.is_none());
        ran(w, id);
        assert!(w.is_panel_active("compare") && w.doc().comparison.done.is_some());
    }),
    ("leave-out", |w, id| {
        compare_with_changes(w);
        w.doc().go(0);
        w.run("next-difference");
        let before = w.doc().comparison.done.clone().unwrap().diff.events.changed;
        assert_eq!(before, 2);
        ran(w, id);
        let c = w.doc().comparison.done.clone().unwrap();
        assert!(c.diff.events.changed < before && c.rules.list.len() == 1);
        assert_eq!(w.views().compare.rules.text, c.rules.to_string());
    }),
    ("go-cause", |w, id| {
        compare_with_changes(w);
        w.run("previous-difference");
        w.run("next-difference");
        ran(w, id);
        // The recordings hold no cause for a read of a constant register.
        assert!(w.doc().comparison.jump_message.contains("no earlier difference"));
    }),
    ("open-rules", |w, id| {
        compare_with_changes(w);
        let file = w.folder.path().join("ours.rules");
        std::fs::write(&file, "# every read\nignore register *\n").unwrap();
        w.will_choose(&file);
        ran(w, id);
        assert!(w.doc().comparison.done.clone().unwrap().diff.is_empty());
        assert_eq!(w.views().compare.section, Section::Rules);
        assert!(w.has_part("The recordings are equal"));
        std::fs::write(&file, "ignore buffr x\n").unwrap();
        ran(w, id);
        let message = w.app().last_error().unwrap_or_default().to_owned();
        assert!(message.contains("ours.rules: line 1, column 8"), "{message}");
    }),
    ("save-rules", |w, id| {
        compare_with_changes(w);
        w.views().compare.rules.text = "ignore mappings\n".into();
        saves(w, id);
        let text = std::fs::read_to_string(w.folder.path().join("saved.out")).unwrap();
        assert_eq!(text, "ignore mappings\n");
    }),
    ("compare-rules", |w, id| {
        compare_with_changes(w);
        w.run("show-events");
        ran(w, id);
        assert!(w.is_panel_active("compare") && w.has("Comparison rules"));
    }),
];
