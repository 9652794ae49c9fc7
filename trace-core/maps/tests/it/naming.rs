//! Tests of names that are written into map files: text and comments that a user wrote stay, and every entry can be
//! restored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use register_maps::naming::{
    Key, MapHeader, NameEntry, NamedField, NamedRange, NamedRegister, NamingError, replace_entry, set_entry,
};
use std::sync::Arc;
use trace_core::registers::{AccessRule, FieldKind, RegisterMap};
use trace_core::{GpuVa, RegOffset};

fn head() -> MapHeader {
    MapHeader {
        name: "card".into(),
        space: "bar2".into(),
        window: 0x100,
        pci: Some((0x1234, 0x1111)),
        ..MapHeader::default()
    }
}

fn field(name: &str, hi: u32, lo: u32, kind: FieldKind) -> NamedField {
    NamedField {
        name: name.into(),
        lo,
        hi,
        kind,
        doc: String::new(),
        say: String::new(),
    }
}

fn register(name: &str, offset: u32, fields: Vec<NamedField>) -> NameEntry {
    NameEntry::Register(NamedRegister {
        offset: RegOffset::new(offset),
        name: name.into(),
        access: AccessRule::ReadWrite,
        width: 4,
        wide: false,
        doc: "Starts it.".into(),
        fields,
    })
}

fn map(text: &str) -> RegisterMap {
    RegisterMap::parse(&[("t", text)]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn modes() -> FieldKind {
    FieldKind::Enum(Arc::new(vec![(0, "off".into()), (2, "on".into())].into()))
}

#[test]
fn names_are_added_to_a_new_map_file() {
    let first = set_entry(
        "",
        &head(),
        &register(
            "START",
            0x24,
            vec![field("go", 0, 0, FieldKind::Bool), field("mode", 3, 1, modes())],
        ),
    )
    .unwrap();
    assert_eq!(first.old, None);
    let m = map(&first.text);
    assert_eq!((m.name(), m.space(), m.window_bytes()), ("card", "bar2", 0x100));
    let r = m.at(RegOffset::new(0x24)).unwrap();
    assert_eq!(
        (r.name.as_str(), r.doc.as_ref(), r.access),
        ("START", "Starts it.", AccessRule::ReadWrite)
    );
    assert!(!r.replay.write && !r.replay.reason.is_empty());
    assert_eq!(r.describe(5), "go · mode on");
    // A second register after the end of the window makes the window larger. The third entry names memory, and the
    // fourth renames the first register.
    let second = set_entry(&first.text, &head(), &register("FAR", 0x200, Vec::new())).unwrap();
    assert_eq!(map(&second.text).window_bytes(), 0x204);
    let range = NameEntry::Memory(NamedRange {
        space: 0,
        address: GpuVa::new(0xffff_b005_c000),
        bytes: 0x1000,
        name: "ring".into(),
        doc: "Commands.".into(),
        layout: String::new(),
    });
    let third = set_entry(&second.text, &head(), &range).unwrap();
    let m = map(&third.text);
    let (found, at) = m.memory_at(0, GpuVa::new(0xffff_b005_c010)).unwrap();
    assert_eq!((found.name.as_str(), at), ("ring", 0x10));
    let fourth = set_entry(&third.text, &head(), &register("KICK", 0x24, Vec::new())).unwrap();
    let m = map(&fourth.text);
    assert_eq!(
        (m.at(RegOffset::new(0x24)).unwrap().name.as_str(), m.registers().count()),
        ("KICK", 2)
    );
    assert!(
        !fourth.text.contains("[enum"),
        "the enumeration stays after its field is removed\n{}",
        fourth.text
    );
    assert_eq!(fourth.old, first.new);
}

const BY_HAND: &str = r#"# My card. Found out in 2024.
[map]
name = "mine"      # what I call it
window = 0x100
doc = "A card."

[block]
name = "REGS"
base = 0x10
provenance = "Watched."

# The first thing that the driver writes.
[[register]]
name = "START" # kicks it
offset = 0x4
access = "rw"
replay = false
reason = "Who knows."
zero = "idle"
doc = "Starts."
fields = [
    # The bit that matters.
    { name = "go", bits = "0", kind = "bool", say = "gone" },
    { name = "mode", bits = "3:1", enum = "modes" }, # guessed
]

[[register]]
name = "OTHER"
offset = 0x8
access = "ro"
doc = "Another."
fields = [{ name = "mode", bits = "2:0", enum = "modes" }]

[enum.modes]
# Seen once.
0 = "off"
2 = "on"

[[register]]
name = "ROW_{n}"
offset = 0x20
count = 4
stride = 4
access = "ro"
doc = "Rows."
"#;

#[test]
fn hand_written_map_text_is_preserved() {
    let fields = vec![
        field("go", 0, 0, FieldKind::Bool),
        field("mode", 3, 1, modes()),
        field("speed", 7, 4, FieldKind::Number),
    ];
    let mut fields_with_text = fields.clone();
    fields_with_text[0].say = "gone".into();
    let written = set_entry(BY_HAND, &head(), &register("BEGIN", 0x14, fields_with_text)).unwrap();
    let m = map(&written.text);
    let r = m.at(RegOffset::new(0x14)).unwrap();
    assert_eq!((r.name.as_str(), r.block.as_str()), ("BEGIN", "REGS"));
    assert_eq!(
        (r.replay.reason.as_str(), r.layout.zero.as_str()),
        ("Who knows.", "idle")
    );
    assert_eq!(r.describe(0x75), "gone · speed 7", "{}", written.text);
    for line in [
        "# My card. Found out in 2024.",
        "# what I call it",
        "# The first thing that the driver writes.",
        "# kicks it",
        "# The bit that matters.",
        "# Seen once.",
        "say = \"gone\"",
    ] {
        assert!(written.text.contains(line), "{line}\n{}", written.text);
    }
    // Only the lines of that register change.
    let changed = BY_HAND
        .lines()
        .filter(|l| !written.text.contains(l))
        .collect::<Vec<_>>();
    assert!(changed.len() <= 5, "{changed:?}");
    // After undo, the file has its old text.
    let key = Key::Register(RegOffset::new(0x14));
    let back = replace_entry(
        &written.text,
        &head(),
        key,
        written.new.as_deref(),
        written.old.as_deref(),
    )
    .unwrap();
    let plain = |t: &str| t.split_whitespace().collect::<String>();
    assert_eq!(plain(&back), plain(BY_HAND), "{back}");
    assert_eq!(back, BY_HAND);
    // Redo gives the changed text.
    let redone = replace_entry(&back, &head(), key, written.old.as_deref(), written.new.as_deref()).unwrap();
    assert_eq!(redone, written.text);
}

#[test]
fn shared_enumeration_is_not_changed_for_one_register() {
    let other = FieldKind::Enum(Arc::new(vec![(0, "off".into()), (1, "half".into())].into()));
    let written = set_entry(
        BY_HAND,
        &head(),
        &register("START", 0x14, vec![field("mode", 3, 1, other)]),
    )
    .unwrap();
    let m = map(&written.text);
    assert_eq!(m.enum_name("modes", 2), Some("on"));
    assert_eq!(m.enum_name("start_mode", 1), Some("half"));
    assert_eq!(m.find_by_name("OTHER").unwrap().layout.fields[0].text(2), "on");
}

#[test]
fn removed_name_and_enumeration_can_be_restored() {
    let first = set_entry("", &head(), &register("A", 0, vec![field("mode", 3, 1, modes())])).unwrap();
    let out = replace_entry(
        &first.text,
        &head(),
        Key::Register(RegOffset::ZERO),
        first.new.as_deref(),
        None,
    )
    .unwrap();
    assert_eq!(map(&out).registers().count(), 0);
    assert!(!out.contains("[enum."), "{out}");
    let back = replace_entry(
        &out,
        &head(),
        Key::Register(RegOffset::ZERO),
        None,
        first.new.as_deref(),
    )
    .unwrap();
    assert_eq!(back, first.text);
    // The entry can also be restored into an empty file.
    let restored = replace_entry("", &head(), Key::Register(RegOffset::ZERO), None, first.new.as_deref()).unwrap();
    assert_eq!(
        map(&restored).at(RegOffset::ZERO).unwrap().layout.fields[0].text(2),
        "on"
    );
}

#[test]
fn unwritable_register_names_are_refused_with_a_reason() {
    let entry = register("X", 0x34, Vec::new());
    let e = set_entry(BY_HAND, &head(), &entry).unwrap_err();
    assert_eq!(
        e.to_string(),
        "the file defines the register at 0x34 as a part of an array; change it there by hand"
    );
    let e = set_entry(BY_HAND, &head(), &register("X", 0x4, Vec::new())).unwrap_err();
    assert!(matches!(e, NamingError::BeforeBase(_)), "{e}");
    let e = set_entry(BY_HAND, &head(), &register("OTHER", 0x14, Vec::new())).unwrap_err();
    assert!(e.to_string().contains("two registers have this name"), "{e}");
    let overlap = vec![field("a", 3, 0, FieldKind::Hex), field("b", 3, 3, FieldKind::Bool)];
    let e = set_entry(BY_HAND, &head(), &register("X", 0x14, overlap)).unwrap_err();
    assert!(e.to_string().contains("overlap"), "{e}");
    assert!(matches!(
        set_entry("[map", &head(), &entry),
        Err(NamingError::NoToml(_))
    ));
    let flat = "register = [{ name = \"A\", offset = 0, access = \"ro\", doc = \"A.\" }]\n[map]\nname = \"m\"\nwindow = 4\ndoc = \"M.\"\n[block]\nname = \"B\"\nbase = 0\nprovenance = \"P.\"\n";
    assert_eq!(map(flat).registers().count(), 1);
    let e = set_entry(flat, &head(), &register("X", 0, Vec::new())).unwrap_err();
    assert!(matches!(e, NamingError::ByHand { .. }), "{e}");
    // An entry that a user changed in the meantime stays.
    let written = set_entry("", &head(), &entry).unwrap();
    let by_hand = written.text.replace("Starts it.", "Mine.");
    let e = replace_entry(
        &by_hand,
        &head(),
        Key::Register(RegOffset::new(0x34)),
        written.new.as_deref(),
        None,
    )
    .unwrap_err();
    assert_eq!(e, NamingError::Changed(Key::Register(RegOffset::new(0x34))));
}

#[test]
fn wide_and_narrow_registers_are_written_to_the_map() {
    let mut entry = register(
        "ADDRESS",
        0x8,
        vec![field("page", 47, 12, FieldKind::Address { shift: 12 })],
    );
    if let NameEntry::Register(r) = &mut entry {
        r.wide = true;
    }
    let text = set_entry("", &head(), &entry).unwrap().text;
    assert_eq!(map(&text).name_of(RegOffset::new(0x8), 8).unwrap(), "ADDRESS");
    assert_eq!(map(&text).layout("ADDRESS").unwrap().fields[0].text(1), "0x1000");
    let mut entry = register("BYTE", 0x11, Vec::new());
    if let NameEntry::Register(r) = &mut entry {
        (r.width, r.access) = (1, AccessRule::ReadOnly);
    }
    let text = set_entry(&text, &head(), &entry).unwrap().text;
    assert_eq!(map(&text).at(RegOffset::new(0x11)).unwrap().width, 1);
    assert!(!text.contains("replay = false\nreason = \"Named by hand; nobody decided yet whether its writes may be replayed.\"\ndoc = \"BYTE"));
}
