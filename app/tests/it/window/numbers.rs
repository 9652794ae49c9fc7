//! Tests that one key changes the number format everywhere, and that the recording restores the format.

use crate::common::{Window, writes};
use kinescope_files::numbers::NumberFormat;
use kinescope_files::scene::Selection;
use trace_core::RegOffset;

/// Goes to a write of a register whose value has more than one digit. Returns the value.
fn go_to_write(w: &mut Window) -> u64 {
    let doc = w.doc();
    let wide = |doc: &kinescope_session::Document, e: u64| doc.recording.events.access(e as usize).unwrap().value > 9;
    let registers: Vec<RegOffset> = doc.derived.registers.keys().copied().collect();
    let (register, event) = registers
        .into_iter()
        .find_map(|r| Some((r, writes(doc, r.get()).into_iter().find(|e| wide(doc, *e))?)))
        .unwrap();
    doc.go_with(event, Selection::Register(register));
    w.settle();
    w.doc().recording.events.access(event as usize).unwrap().value
}

#[test]
fn one_key_cycles_the_number_format_of_all_views() {
    let mut w = Window::open();
    let value = go_to_write(&mut w);
    assert!(w.has("Values in hex"));
    for form in [
        NumberFormat::Hex,
        NumberFormat::Decimal,
        NumberFormat::Float,
        NumberFormat::Binary,
    ] {
        assert_eq!(w.doc().numbers, form);
        assert!(w.has(&format!("Values in {}", form.name())));
        let message = format!("value {}", form.format(value, 4));
        assert!(w.has(&message), "{message}");
        assert_eq!(w.type_text("h"), ["numbers"]);
    }
    assert_eq!(w.doc().numbers, NumberFormat::Hex, "the formats cycle");
    w.click("Values in hex");
    assert_eq!(w.doc().numbers, NumberFormat::Decimal, "a click changes the format too");
}

#[test]
fn number_format_is_restored_with_the_recording() {
    let mut w = Window::open();
    w.type_text("hh");
    let path = w.doc().path.clone();
    w.run("close");
    w.start(&path);
    assert_eq!(w.doc().numbers, NumberFormat::Float);
    assert!(w.has("Values in float"));
}

#[test]
fn addresses_stay_hex() {
    let mut w = Window::open();
    w.type_text("h");
    let va = w.doc().derived.spaces[0].mappings[0].va;
    w.doc().select(Selection::Memory { space: 0, va, bytes: 4 });
    w.settle();
    assert!(w.has_part(&format!("{va:#x}")));
}
