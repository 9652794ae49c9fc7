//! Tests of Events, Jobs and Register: every panel shows a clicked row, and empty panels explain why.

use crate::common::{Window, find_busiest_register, writes};
use crate::panels::hands::saxpy;
use egui_kittest::kittest::Queryable as _;
use kinescope_files::scene::Selection;
use kinescope_session::lookup;
use trace_core::RegOffset;
use trace_core::recording::Recording;

#[test]
fn an_event_clicked_in_the_table_moves_every_panel() {
    let mut w = Window::open();
    w.run("first-event");
    w.click("event 6");
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (6, Selection::Event)
    );
    let register = w.doc().current_register().unwrap();
    let name = w.doc().derived.register_name(register);
    assert!(w.has(&name), "the inspector explains {name}");
}

#[test]
fn event_filter_shows_only_matching_events() {
    let mut w = Window::open();
    w.harness.get_by_label("Filter events").focus();
    w.settle();
    w.harness.get_by_label("Filter events").type_text("write");
    w.settle();
    let rows = w.views().events.rows.clone().expect("the filter has rows");
    assert!(!rows.is_empty() && rows.len() < w.doc().len());
    for e in rows.iter() {
        assert!(w.doc().recording.events.access(e as usize).is_some_and(|a| a.write));
    }
    w.click("Clear filter");
    assert!(w.views().events.rows.is_none());
}

#[test]
fn a_job_clicked_in_its_panel_is_selected_and_explained() {
    let mut w = Window::open();
    w.run("show-jobs");
    w.click("job 0");
    assert_eq!(*w.doc().selection(), Selection::Job(0));
    assert!(w.has_part("submitted"));
}

#[test]
fn the_register_panel_pins_and_jumps() {
    let mut w = Window::open();
    w.run("show-register");
    let first = w.harness.query_all_by_label_contains("access at event").count();
    assert!(first > 0, "accesses are listed");
    let r = w.doc().current_register().unwrap();
    w.harness.query_all_by_label("Pin to timeline").next().unwrap().click();
    w.settle();
    assert_eq!(w.doc().changes().pins(), [r]);
    let name = w.doc().derived.register_name(r);
    w.click(&format!("Lane {name}"));
    assert!(w.doc().changes().pins().is_empty());
}

#[test]
fn the_register_panel_goes_from_write_to_write() {
    let mut w = saxpy();
    w.run("show-register");
    let register = find_busiest_register(w.doc());
    let writes = writes(w.doc(), register);
    assert!(writes.len() >= 3, "{writes:?}");
    w.doc()
        .go_with(writes[0], Selection::Register(RegOffset::new(register)));
    w.settle();
    for want in &writes[1..3] {
        w.harness
            .query_all_by_label("Next write")
            .next()
            .unwrap()
            .click_accesskit();
        w.settle();
        assert_eq!(w.doc().current_event(), *want);
    }
    w.harness
        .query_all_by_label("Previous write")
        .next()
        .unwrap()
        .click_accesskit();
    w.settle();
    assert_eq!(w.doc().current_event(), writes[1]);
    let last = *writes.last().unwrap();
    w.harness.query_all_by_label("Accesses").next().unwrap().scroll_down();
    w.settle();
    if w.has(&format!("access at event {last}")) {
        w.click(&format!("access at event {last}"));
        assert_eq!(w.doc().current_event(), last);
    }
}

#[test]
fn register_fields_and_unknown_bits_are_listed() {
    let mut w = saxpy();
    w.run("show-register");
    let event = {
        let d = w.doc();
        let offset = d
            .derived
            .find_register_by_name("JS0_CONFIG_NEXT")
            .or(d.derived.find_register_by_name("JS1_CONFIG_NEXT"))
            .unwrap();
        d.derived.registers[&offset].accesses.all().first().unwrap()
    };
    w.doc().go(event);
    w.settle();
    let value = w.doc().recording.events.access(event as usize).unwrap();
    let def = lookup::find_register(&w.doc().recording, value.offset).unwrap();
    let decoded = def.layout.decode(value.value);
    assert!(decoded.fields.len() > 2);
    for f in &decoded.fields {
        let label = format!("field {} {}", f.field.name, f.text);
        assert!(w.has(&label), "{label}");
    }
    assert_ne!(decoded.unknown_mask(), 0);
    assert!(w.has(&format!("field not named {:#x}", decoded.unknown_value())));
}

#[test]
fn empty_panels_explain_why_and_link_to_another() {
    let mut w = Window::from_recording(Recording::default());
    for (panel, text) in [
        ("show-memory", "no address space"),
        ("show-page-tables", "no page tables"),
        ("show-inputs", "names no buffers"),
        ("show-register", "holds no register accesses"),
        ("show-shader", "No job was submitted"),
    ] {
        w.run(panel);
        assert!(w.has_part(text), "{panel} shows {text}");
    }
    w.run("show-inputs");
    w.click("Show memory");
    assert!(w.is_panel_active("memory"));
    w.click("Show events");
    assert!(w.is_panel_active("events"));
}

#[test]
fn arrow_keys_step_through_reads_of_a_read_only_register() {
    let mut w = saxpy();
    let found = w.doc().derived.registers.iter().find_map(|(offset, f)| {
        let reads: Vec<u64> = f.accesses.all().iter().collect();
        (reads.len() > 1 && f.accesses.writes().is_empty()).then_some((*offset, reads))
    });
    let (register, reads) = found.expect("a status register is read more than once");
    w.doc().go_with(reads[0], Selection::Register(register));
    w.settle();
    assert!(w.has_part("writes: none"));
    assert!(
        !w.has("Next write") && !w.has("Previous write"),
        "a read-only register has no write buttons"
    );
    let press = |w: &mut Window, label: &str| {
        let mut all = w.harness.query_all_by_label(label);
        all.next().unwrap().click_accesskit();
        drop(all);
        w.settle();
    };
    press(&mut w, "Next access");
    assert_eq!(w.doc().current_event(), reads[1]);
    press(&mut w, "Previous access");
    assert_eq!(w.doc().current_event(), reads[0]);
}
