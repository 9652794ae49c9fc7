//! Tests of names that a user gives to registers and memory. A name is written to the user's map file and shows
//! everywhere, over the embedded map. Undo and redo remove and restore it, and they keep text that was written by hand.
//! Register maps are global to the program, so each test runs in its own process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common;
use trace_core::GpuVa;

use common::{HANG_LIMIT, Window, samples};
use kinescope::window::{FieldForm, NameSubject, NamingForm, list_entries};
use kinescope_files::scene::Selection;
use std::time::{Duration, Instant};
use trace_core::registers::AccessRule;

/// Steps frames until a condition holds.
fn until(w: &mut Window, condition: &str, holds: impl Fn(&mut Window) -> bool) {
    let since = Instant::now();
    loop {
        w.settle();
        if holds(w) {
            return;
        }
        assert!(
            since.elapsed() < HANG_LIMIT,
            "timed out: {condition}: {}",
            kinescope::log::text()
        );
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Returns the name of the register that the first job's submit writes.
fn submit(w: &mut Window) -> String {
    let doc = w.doc();
    let access = doc
        .recording
        .events
        .access(doc.derived.jobs[0].submit as usize)
        .unwrap();
    doc.derived.access_name(&doc.recording, &access)
}

/// Opens a copy of a sample in its own folder, at the submit of its first job. Returns the window and the path of the
/// map file.
fn open_copy() -> (Window, std::path::PathBuf) {
    let mut w = Window::open_sample("vecadd.kine");
    let file = w.folder.path().join("mine.kine");
    std::fs::copy(samples().join("vecadd.kine"), &file).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, file.clone());
    until(&mut w, "the recording is open", |w| {
        w.doc().title == "mine.kine" && w.doc().derived.pending.is_empty()
    });
    let at = w.doc().derived.jobs[0].submit;
    w.app().doc.as_mut().unwrap().go(at);
    (w, file.with_file_name("mine.map.toml"))
}

/// Fills the name sheet and saves it.
fn name(w: &mut Window, fill: impl FnOnce(&mut NamingForm)) {
    assert!(w.run("name"), "the name command cannot run here");
    let ctx = w.harness.ctx.clone();
    fill(&mut w.app().name_sheet.as_mut().unwrap().form);
    w.app().submit_name(&ctx);
    until(w, "the name is saved or refused", |w| {
        w.app().name_sheet.as_ref().is_none_or(|n| n.error.is_some())
    });
}

#[test]
fn user_register_name_overrides_the_map_and_can_be_removed() {
    let (mut w, map) = open_copy();
    assert_eq!(submit(&mut w), "JS1_COMMAND_NEXT");
    let registers = w.doc().derived.registers.len();
    let jobs = w.doc().derived.jobs.len();
    name(&mut w, |form| {
        assert_eq!(
            (form.name.as_str(), form.access),
            ("JS1_COMMAND_NEXT", AccessRule::ReadWrite)
        );
        assert!(!form.fields.is_empty(), "the embedded fields are offered");
        form.name = "KICK".into();
    });
    until(&mut w, "the name shows", |w| submit(w) == "KICK");
    until(&mut w, "the derived data is complete again", |w| {
        w.doc().derived.pending.is_empty()
    });
    // The name shows everywhere, and the jobs, other names and their roles stay.
    let offset = w.doc().current_register().unwrap();
    assert_eq!(w.doc().derived.register_name(offset), "KICK");
    assert_eq!(w.doc().derived.registers[&offset].name, "KICK");
    assert_eq!(w.doc().derived.registers.len(), registers);
    assert_eq!(w.doc().derived.jobs.len(), jobs);
    assert!(w.doc().derived.find_register_by_name("JS1_HEAD_NEXT_LO").is_some());
    let doc = w.doc();
    let line = kinescope_session::descriptions::format_event(doc, doc.current_event());
    assert!(
        line.starts_with("write KICK 0x") && line.ends_with("start job 0"),
        "{line}"
    );
    let found = list_entries(w.app(), "kick");
    assert!(found.iter().any(|e| e.0 == "KICK"), "{found:?}");
    let text = std::fs::read_to_string(&map).unwrap();
    assert!(
        text.contains("name = \"KICK\"") && !text.contains("fields"),
        "the map file must not repeat the embedded fields\n{text}"
    );
    assert!(w.run("undo"));
    until(&mut w, "the embedded name is back", |w| submit(w) == "JS1_COMMAND_NEXT");
    assert!(w.run("redo"));
    until(&mut w, "the name is restored", |w| submit(w) == "KICK");
    // A hand-written comment stays when the register is renamed, and when the rename is undone.
    let by_hand = std::fs::read_to_string(&map)
        .unwrap()
        .replace("[[register]]", "# found by me\n[[register]]");
    std::fs::write(&map, &by_hand).unwrap();
    name(&mut w, |form| {
        form.name = "GO".into();
        form.fields.clear();
        form.fields.push(FieldForm {
            name: "deed".into(),
            kind: 2,
            more: "0 nothing, 1 start".into(),
            ..FieldForm::from_bits(0, 7)
        });
    });
    until(&mut w, "the new name shows", |w| submit(w) == "GO");
    let text = std::fs::read_to_string(&map).unwrap();
    assert!(
        text.contains("# found by me") && text.contains("[enum.go_deed]"),
        "{text}"
    );
    assert!(w.run("undo"));
    until(&mut w, "the previous name is back", |w| submit(w) == "KICK");
    assert_eq!(std::fs::read_to_string(&map).unwrap(), by_hand);
    // The comment is newer than the first name, so undoing that name would also remove the comment.
    assert!(w.run("undo"));
    until(&mut w, "the undo is refused", |w| w.app().last_error().is_some());
    assert_eq!(std::fs::read_to_string(&map).unwrap(), by_hand);
}

#[test]
fn undo_does_not_overwrite_external_map_changes() {
    let (mut w, map) = open_copy();
    name(&mut w, |form| form.name = "KICK".into());
    until(&mut w, "the name shows", |w| submit(w) == "KICK");
    let text = std::fs::read_to_string(&map).unwrap().replace("\"KICK\"", "\"MINE\"");
    std::fs::write(&map, &text).unwrap();
    until(&mut w, "the window shows the change of the file", |w| {
        submit(w) == "MINE"
    });
    assert!(w.run("undo"));
    until(&mut w, "the undo is refused", |w| w.app().last_error().is_some());
    assert!(w.app().last_error().unwrap().contains("has changed in the file since"));
    assert_eq!(std::fs::read_to_string(&map).unwrap(), text);
    assert_eq!(submit(&mut w), "MINE");
}

#[test]
fn invalid_name_stays_in_the_form_and_writes_nothing() {
    let (mut w, map) = open_copy();
    name(&mut w, |form| form.name = "two words".into());
    assert!(
        w.app()
            .name_sheet
            .as_ref()
            .unwrap()
            .error
            .as_ref()
            .unwrap()
            .contains("cannot have spaces")
    );
    let ctx = w.harness.ctx.clone();
    let form = &mut w.app().name_sheet.as_mut().unwrap().form;
    form.name = "KICK".into();
    form.fields = vec![
        FieldForm {
            name: "a".into(),
            ..FieldForm::from_bits(0, 3)
        },
        FieldForm {
            name: "b".into(),
            ..FieldForm::from_bits(3, 4)
        },
    ];
    w.app().submit_name(&ctx);
    until(&mut w, "the name is refused", |w| {
        w.app().name_sheet.as_ref().unwrap().error.is_some()
    });
    assert!(
        w.app()
            .name_sheet
            .as_ref()
            .unwrap()
            .error
            .as_ref()
            .unwrap()
            .contains("overlap")
    );
    assert!(!map.exists());
}

#[test]
fn memory_can_be_named_and_found_by_name() {
    let (mut w, _) = open_copy();
    let buffer = w.doc().recording.metadata.buffers[0].clone();
    let at = buffer.va.get() + 0x20;
    let selection = Selection::Memory {
        space: buffer.address_space,
        va: GpuVa::new(at),
        bytes: 16,
    };
    w.app().doc.as_mut().unwrap().select(selection);
    name(&mut w, |form| {
        assert!(matches!(form.subject, NameSubject::Memory { bytes: 16, .. }));
        form.name = "first rows".into();
        form.doc = "What comes first.".into();
    });
    let name_at = |w: &mut Window| {
        let (doc, space) = (w.doc(), 0);
        kinescope_session::derived_data::find_name_at(&doc.recording, &doc.derived, space, GpuVa::new(at + 4))
    };
    until(&mut w, "the memory has its name", |w| {
        name_at(w) == Some(("first rows".into(), 4))
    });
    assert!(
        list_entries(w.app(), "first rows")
            .iter()
            .any(|e| e.1 == format!("memory at {at:#x}"))
    );
    assert!(w.run("undo"));
    until(&mut w, "the buffer's name shows again", |w| {
        name_at(w) == Some((buffer.name.clone(), 0x24))
    });
}
