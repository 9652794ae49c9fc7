//! Tests that apply, undo and redo every kind of change.

use super::*;

/// A recording with one buffer `in`, at an address that is not page-aligned.
pub struct Base(pub Vec<u8>);

impl RecordedContents for Base {
    fn extent(&self, buffer: &str) -> Option<(u64, u64)> {
        (buffer == "in").then_some((0x1ffe, self.0.len() as u64))
    }

    fn read(&self, _: &str, offset: u64, out: &mut [u8]) {
        let at = offset as usize;
        out.copy_from_slice(&self.0[at..at + out.len()]);
    }
}

pub fn bytes(offset: u64, new: &[u8]) -> Change {
    Change::Bytes {
        buffer: "in".into(),
        title: "edit".into(),
        pieces: vec![Piece {
            offset,
            new: new.into(),
        }],
    }
}

pub fn now(c: &Changes, base: &Base) -> Vec<u8> {
    let mut out = base.0.clone();
    if let Some(e) = c.inputs().get("in") {
        e.overlay(0, &mut out);
    }
    out
}

#[test]
fn edits_of_every_kind_undo_and_redo() {
    let base = Base(vec![1, 2, 3, 4]);
    let mut c = Changes::default();
    assert!(c.apply(bytes(1, &[9, 8]), &base));
    let note = Change::Note {
        event: 3,
        old: None,
        new: Some("first".into()),
    };
    assert!(c.apply(note, &base));
    let pin = Change::Pin {
        register: RegOffset::new(0x18c0),
        on: true,
    };
    assert!(c.apply(pin, &base));
    let element = Change::Element {
        buffer: "in".into(),
        old: None,
        new: Some("f16".into()),
    };
    assert!(c.apply(element, &base));
    assert_eq!(now(&c, &base), [1, 9, 8, 4]);
    assert_eq!(c.element("in"), Some(ElementType::F16));
    assert!(c.apply(Change::Revert { buffer: "in".into() }, &base));
    assert!(c.inputs().is_empty());
    c.undo();
    assert_eq!(now(&c, &base), [1, 9, 8, 4]);
    while c.undo().is_some() {}
    assert!(c.inputs().is_empty() && c.notes().is_empty() && c.pins().is_empty() && c.element("in").is_none());
    for _ in 0..4 {
        c.redo(&base);
    }
    assert_eq!(
        (now(&c, &base).as_slice(), c.notes()[&3].text.as_str(), c.pins()),
        (&[1, 9, 8, 4][..], "first", &[RegOffset::new(0x18c0)][..])
    );
    c.redo(&base);
    assert!(c.inputs().is_empty());
}

#[test]
fn saved_filter_changes_keep_order_and_undo() {
    let base = Base(Vec::new());
    let mut c = Changes::default();
    let saved = |name: &str, lane| SavedFilter {
        name: name.into(),
        lane,
    };
    let steps = [
        ("write", None, Some(saved("", false)), "save a filter"),
        ("read", None, Some(saved("reads", true)), "save a filter"),
        (
            "write",
            Some(saved("", false)),
            Some(saved("", true)),
            "show a filter as a lane",
        ),
        (
            "write",
            Some(saved("", true)),
            Some(saved("w", true)),
            "rename a saved filter",
        ),
        ("read", Some(saved("reads", true)), None, "remove a saved filter"),
    ];
    for (text, old, new, title) in steps {
        let change = Change::Filter {
            text: text.into(),
            old,
            new,
        };
        assert_eq!(change.title(), title);
        let line = serde_json::to_string(&change).unwrap();
        assert_eq!(serde_json::from_str::<Change>(&line).unwrap(), change);
        assert!(c.apply(change, &base));
    }
    assert_eq!(c.filters(), [("write".into(), saved("w", true))]);
    c.undo();
    assert_eq!(c.filter("read"), Some(&saved("reads", true)));
    while c.undo().is_some() {}
    assert!(c.filters().is_empty());
    while c.redo(&base).is_some() {}
    assert_eq!(c.filters().len(), 1);
}

#[test]
fn edit_past_the_end_is_refused_and_a_restoring_edit_dropped() {
    let base = Base(vec![1, 2, 3, 4]);
    let mut c = Changes::default();
    assert!(!c.apply(bytes(3, &[9, 9]), &base));
    assert!(!c.apply(bytes(u64::MAX, &[9]), &base));
    assert!(c.is_empty());
    assert!(c.apply(bytes(0, &[7]), &base));
    assert!(c.apply(bytes(0, &[1]), &base));
    assert!(c.inputs().is_empty(), "recorded content is not an edit");
}

#[test]
fn edit_stores_only_changed_pages() {
    let base = Base((0..40_000u32).map(|i| i as u8).collect());
    let mut c = Changes::default();
    // The first page holds two bytes of the buffer.
    assert!(c.apply(bytes(0, &[5, 5, 5]), &base));
    assert_eq!(c.inputs()["in"].pages(), 2);
    let part: Vec<u8> = vec![77; 9000];
    assert!(c.apply(bytes(20_000, &part), &base));
    let mut expected = base.0.clone();
    expected[..3].copy_from_slice(&[5, 5, 5]);
    expected[20_000..29_000].fill(77);
    assert_eq!(now(&c, &base), expected);
    let mut window = base.0[28_990..29_010].to_vec();
    c.inputs()["in"].overlay(28_990, &mut window);
    assert_eq!(window, expected[28_990..29_010]);
    let stamp = c.stamp("in");
    c.undo();
    assert!(c.stamp("in") > stamp);
    assert_eq!(c.inputs()["in"].pages(), 2);
    c.undo();
    assert!(c.inputs().is_empty());
}

#[test]
fn text_only_notes_of_old_journals_are_parsed() {
    let old: Change = serde_json::from_str(r#"{"note":{"event":3,"old":null,"new":"first"}}"#).unwrap();
    let note = Note::from("first");
    assert_eq!(
        old,
        Change::Note {
            event: 3,
            old: None,
            new: Some(note.clone())
        }
    );
    let with_view = Note {
        selection: Selection::Job(2),
        panels: vec!["memory".into()],
        ..note
    };
    let text = serde_json::to_string(&with_view).unwrap();
    assert_eq!(serde_json::from_str::<Note>(&text).unwrap(), with_view);
}

#[test]
fn disabled_edit_keeps_later_edits() {
    let base = Base(vec![1, 2, 3, 4]);
    let mut c = Changes::default();
    assert!(c.apply(bytes(0, &[9, 9]), &base));
    assert!(c.apply(bytes(1, &[7]), &base));
    let switch = |edit, on| Change::Switch { edit, on };
    assert!(c.apply(switch(0, false), &base));
    assert_eq!(now(&c, &base), [1, 7, 3, 4], "the later edit stays");
    assert!(!c.apply(switch(0, false), &base), "the edit is already disabled");
    assert!(!c.apply(switch(2, false), &base), "a switch is not an edit");
    assert!(!c.apply(switch(9, false), &base) && !c.apply(switch(u64::MAX, true), &base));
    assert!(c.apply(switch(1, false), &base));
    assert!(c.inputs().is_empty(), "recorded content is not an edit");
    let states: Vec<(u64, bool)> = c.edits().map(|(edit, _, on)| (edit, on)).collect();
    assert_eq!(states, [(1, false), (0, false)]);
    assert!(c.apply(bytes(3, &[5]), &base));
    assert!(c.apply(switch(0, true), &base));
    assert_eq!(now(&c, &base), [9, 9, 3, 5]);
    // Undoes everything and redoes it.
    let before_undo = now(&c, &base);
    for expected in [
        [1, 2, 3, 5],
        [1, 2, 3, 4],
        [1, 7, 3, 4],
        [9, 7, 3, 4],
        [9, 9, 3, 4],
        [1, 2, 3, 4],
    ] {
        c.undo();
        assert_eq!(now(&c, &base), expected);
    }
    while c.redo(&base).is_some() {}
    assert_eq!(now(&c, &base), before_undo);
    // A reverted buffer stays reverted when an earlier edit is switched.
    assert!(c.apply(Change::Revert { buffer: "in".into() }, &base));
    assert!(c.apply(switch(1, true), &base));
    assert!(c.inputs().is_empty());
}

#[test]
fn plot_lines_keep_their_colour_through_undo() {
    let base = Base(Vec::new());
    let mut c = Changes::default();
    let line = |register, field: Option<&str>| PlotLine {
        register,
        field: field.map(str::to_owned),
    };
    let plot = |line: &PlotLine, slot, on| Change::Plot {
        line: line.clone(),
        slot,
        on,
    };
    let (a, b) = (
        line(RegOffset::new(0x18c0), None),
        line(RegOffset::new(0x18c0), Some("start_flush")),
    );
    assert!(c.apply(plot(&a, 0, true), &base) && c.apply(plot(&b, 1, true), &base));
    assert!(c.apply(plot(&a, 0, false), &base));
    assert_eq!(c.plots(), [(1, b.clone())]);
    assert_eq!(c.last().map(Change::title), Some("remove values from the plot".into()));
    c.undo();
    assert_eq!(c.plots(), [(0, a), (1, b)]);
    while c.undo().is_some() {}
    assert!(c.plots().is_empty());
    c.redo(&base);
    assert_eq!(c.plots().len(), 1);
}
