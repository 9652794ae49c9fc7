//! The text of an entry: the tables of a register or a memory range.

use super::entry_position::{EntryPosition, enums, remove_unused_enums, set_enum, users, whole};
use super::{MapHeader, NameEntry, NamedField, NamedRange, NamedRegister};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};
use trace_core::registers::{AccessRule, FieldKind};

/// Maximum size of the register window of a map, bytes.
const MAX_WINDOW: u64 = 1 << 26;
/// Reason why recorded writes of a register that was named by hand are not replayed.
const REASON: &str = "Named by hand; nobody decided yet whether its writes may be replayed.";

fn hex(n: u64) -> Value {
    let plain = || Value::from(i64::try_from(n).unwrap_or(i64::MAX));
    format!("{n:#x}").parse().unwrap_or_else(|_| plain())
}

/// Adds the tables that a file needs before its first name.
pub(super) fn begin(doc: &mut DocumentMut, head: &MapHeader, place: &EntryPosition) {
    if doc.get("map").is_none() {
        let mut map = Table::new();
        map.decor_mut().set_prefix(
            "# Names given in Kinescope. docs/register-map.md describes the form; text written here by hand is kept.\n",
        );
        map.insert("name", value(head.name.as_str()));
        map.insert(
            "window",
            value(hex(head.window.clamp(4, MAX_WINDOW).next_multiple_of(4))),
        );
        if !head.space.is_empty() {
            map.insert("space", value(head.space.as_str()));
        }
        map.insert("doc", value(format!("Names for {}.", head.name)));
        let mut device = Table::new();
        if let Some((vendor, id)) = head.pci {
            device.insert("vendor", value(hex(vendor.into())));
            device.insert("device", value(hex(id.into())));
        } else if let Some(compatible) = &head.compatible {
            device.insert("compatible", value(compatible.as_str()));
        }
        let mut list = |word: &str, mut table: Table| {
            table.insert("name", value(head.name.as_str()));
            table.decor_mut().set_prefix("\n");
            let mut tables = ArrayOfTables::new();
            tables.push(table);
            map.insert(word, Item::ArrayOfTables(tables));
        };
        if !device.is_empty() {
            list("device", device);
        } else if let Some(gpu) = head.gpu {
            let mut table = Table::new();
            table.insert("id", value(hex(gpu.into())));
            list("gpu", table);
        }
        doc.insert("map", Item::Table(map));
    }
    if place.list == "register" && doc.get("block").is_none() {
        let mut block = Table::new();
        block.decor_mut().set_prefix("\n");
        block.insert("name", value("NAMED"));
        block.insert("base", value(0));
        block.insert("provenance", value("Named by hand from what recordings show."));
        doc.insert("block", Item::Table(block));
    }
}

/// Enlarges the register window to hold the named location.
pub(super) fn widen(doc: &mut DocumentMut, said: &NameEntry) {
    let NameEntry::Register(r) = said else { return };
    let bytes = if r.wide { 8 } else { u64::from(r.width) };
    let end = (u64::from(r.offset.get()) + bytes).next_multiple_of(4);
    if let Some(map) = doc.get_mut("map")
        && whole(map.get("window")).is_some_and(|w| w < end && end <= MAX_WINDOW)
        && let Some(window) = map.get_mut("window").and_then(Item::as_value_mut)
    {
        let decor = window.decor().clone();
        *window = hex(end);
        *window.decor_mut() = decor;
    }
}

/// Sets a key and keeps its surrounding format; an empty text removes it.
fn set(table: &mut Table, key: &str, to: Value) {
    if to.as_str().is_some_and(str::is_empty) {
        table.remove(key);
        return;
    }
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(there) if is_same_value(there, &to) => {}
        Some(there) => {
            let decor = there.decor().clone();
            *there = to;
            *there.decor_mut() = decor;
        }
        None => {
            table.insert(key, value(to));
        }
    }
}

fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.value() == b.value(),
        (Value::Integer(a), Value::Integer(b)) => a.value() == b.value(),
        (Value::Boolean(a), Value::Boolean(b)) => a.value() == b.value(),
        _ => false,
    }
}

fn set_field(table: &mut InlineTable, key: &str, to: Value) {
    if to.as_str().is_some_and(str::is_empty) {
        table.remove(key);
    } else if !table.get(key).is_some_and(|there| is_same_value(there, &to)) {
        table.insert(key, to);
    }
}

/// Returns the table at a position, or a new one.
fn table_at(doc: &DocumentMut, place: &EntryPosition) -> (Table, bool) {
    match place.table(doc) {
        Some(t) => (t.clone(), false),
        None => {
            let mut t = Table::new();
            t.decor_mut().set_prefix("\n");
            (t, true)
        }
    }
}

pub(super) fn memory(doc: &mut DocumentMut, place: &EntryPosition, m: &NamedRange) {
    let (mut table, _) = table_at(doc, place);
    set(&mut table, "name", m.name.as_str().into());
    set(&mut table, "address", hex(place.number));
    set(&mut table, "bytes", hex(m.bytes));
    if place.space != 0 || table.contains_key("space") {
        set(&mut table, "space", i64::from(place.space).into());
    }
    set(&mut table, "layout", m.layout.as_str().into());
    set(&mut table, "doc", m.doc.as_str().into());
    place.set(doc, table);
}

pub(super) fn register(doc: &mut DocumentMut, place: &EntryPosition, r: &NamedRegister) {
    let (mut table, new) = table_at(doc, place);
    let before = place.enums(doc);
    // A new register takes its position before the enumerations of its fields.
    let place = &match new {
        true => place.with_empty_entry(doc),
        false => EntryPosition { ..*place },
    };
    set(&mut table, "name", r.name.as_str().into());
    set(&mut table, "offset", hex(place.number));
    if r.wide || table.contains_key("wide") {
        set(&mut table, "wide", r.wide.into());
    }
    match r.width {
        4 => drop(table.remove("width")),
        _ if r.wide => drop(table.remove("width")),
        w => set(&mut table, "width", i64::from(w).into()),
    }
    let access = match r.access {
        AccessRule::ReadOnly => "ro",
        AccessRule::WriteOnly => "wo",
        AccessRule::ReadWrite => "rw",
    };
    set(&mut table, "access", access.into());
    if r.access.is_writable() && !table.contains_key("replay") {
        table.insert("replay", value(false));
        table.insert("reason", value(REASON));
    }
    let docs = if r.doc.is_empty() { &r.name } else { &r.doc };
    set(&mut table, "doc", docs.as_str().into());
    let fields = fields(doc, place, &table, r);
    match fields {
        Some(f) if f.is_empty() => drop(table.remove("fields")),
        Some(f) => drop(table.insert("fields", value(f))),
        None => {}
    }
    if new {
        table.fmt();
        table.decor_mut().set_prefix("\n");
    }
    place.set(doc, table);
    remove_unused_enums(doc, &before);
}

/// Builds the fields of a table. Unknown properties of a field stay with it.
fn fields(doc: &mut DocumentMut, place: &EntryPosition, table: &Table, r: &NamedRegister) -> Option<Array> {
    let there: Vec<InlineTable> = match table.get("fields") {
        Some(Item::Value(Value::Array(a))) => a.iter().filter_map(|v| v.as_inline_table().cloned()).collect(),
        Some(Item::ArrayOfTables(a)) => a.iter().map(|t| t.clone().into_inline_table()).collect(),
        _ => Vec::new(),
    };
    if there.is_empty() && r.fields.is_empty() {
        return None;
    }
    let mut out = match table.get("fields") {
        Some(Item::Value(Value::Array(a))) => {
            let mut kept = a.clone();
            kept.clear();
            kept
        }
        _ => Array::new(),
    };
    let many = r.fields.len() > 1;
    for f in &r.fields {
        let bits = if f.lo == f.hi {
            f.lo.to_string()
        } else {
            format!("{}:{}", f.hi, f.lo)
        };
        let text = |t: &InlineTable, key: &str| t.get(key).and_then(|v| v.as_str().map(str::to_owned));
        let same = there.iter().find(|t| text(t, "bits").as_deref() == Some(&bits));
        let same = same.or_else(|| there.iter().find(|t| text(t, "name").as_deref() == Some(&f.name)));
        let (mut t, new) = match same {
            Some(t) => (t.clone(), false),
            None => (InlineTable::new(), true),
        };
        set_field(&mut t, "name", f.name.as_str().into());
        set_field(&mut t, "bits", bits.as_str().into());
        kind(doc, place, r, f, &mut t);
        set_field(&mut t, "doc", f.doc.as_str().into());
        let words = f.name.replace("{}", "");
        let say = match (&f.kind, f.say.is_empty() && new) {
            (_, false) => f.say.clone(),
            (FieldKind::Bool, true) => words,
            (_, true) if many => format!("{words} {{}}"),
            (_, true) => String::new(),
        };
        set_field(&mut t, "say", say.as_str().into());
        if new {
            t.fmt();
            t.decor_mut().set_prefix("\n    ");
        }
        out.push_formatted(Value::InlineTable(t));
    }
    if out.trailing().as_str().is_none_or(|t| t.trim().is_empty()) {
        out.set_trailing("\n");
    }
    out.set_trailing_comma(true);
    Some(out)
}

/// Sets the type of a field's bits and creates its enumeration if none has these values.
fn kind(doc: &mut DocumentMut, place: &EntryPosition, r: &NamedRegister, f: &NamedField, t: &mut InlineTable) {
    let (word, shift, first) = match &f.kind {
        FieldKind::Hex => ("", 0, 0),
        FieldKind::Number => ("number", 0, 0),
        FieldKind::NumberPlusOne => ("number+1", 0, 0),
        FieldKind::PowerOfTwo => ("power-of-two", 0, 0),
        FieldKind::Bool => ("bool", 0, 0),
        FieldKind::Set { first } => ("set", 0, *first),
        FieldKind::Address { shift } => ("address", *shift, 0),
        FieldKind::Enum(values) => {
            for key in ["kind", "shift", "first"] {
                t.remove(key);
            }
            let message = t.get("enum").and_then(|v| v.as_str().map(str::to_owned));
            let name = enumeration(doc, place, message, &format!("{}_{}", r.name, f.name), values);
            return set_field(t, "enum", name.as_str().into());
        }
    };
    t.remove("enum");
    if !(word.is_empty() && t.get("kind").and_then(Value::as_str) == Some("hex")) {
        set_field(t, "kind", word.into());
    }
    for (key, n) in [("shift", shift), ("first", first)] {
        if n == 0 {
            t.remove(key);
        } else {
            set_field(t, key, i64::from(n).into());
        }
    }
}

/// Returns the name of a value, with or without a description beside it.
fn value_name(item: &Item) -> Option<&str> {
    item.as_str().or_else(|| item.get("name")?.as_str())
}

/// Returns the name of an enumeration with these values: the field's own if it has these values or nothing else names
/// it; otherwise a new one.
fn enumeration(
    doc: &mut DocumentMut,
    place: &EntryPosition,
    message: Option<String>,
    wanted: &str,
    values: &[(u64, String)],
) -> String {
    let number = |key: &str| match key.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => key.parse().ok(),
    };
    let read = |table: &Table| {
        let mut list: Vec<(u64, String)> = table
            .iter()
            .filter_map(|(k, v)| Some((number(k)?, value_name(v)?.to_owned())))
            .collect();
        list.sort_unstable();
        list
    };
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    if let Some(name) = message {
        let there = doc.get("enum").and_then(|e| e.get(&name)).and_then(Item::as_table);
        if there.map(read).as_ref() == Some(&sorted) {
            return name;
        }
        let others = users(doc, &name);
        let alone = others == 0 || others == 1 && place.enums(doc).contains(&name);
        let changed = enums(doc, |all| {
            let Some(Item::Table(table)) = all.get_mut(&name).filter(|_| alone) else {
                return false;
            };
            table.retain(|k, _| number(k).is_some_and(|n| sorted.iter().any(|(v, _)| *v == n)));
            for (n, text) in &sorted {
                let key = table
                    .iter()
                    .find(|(k, _)| number(k) == Some(*n))
                    .map(|(k, _)| k.to_owned());
                let key = key.unwrap_or_else(|| format!("{n:#x}"));
                // A value with an empty name is not shown, and stays so.
                match table.get_mut(&key) {
                    Some(there) if value_name(there) == Some(text) => {}
                    // A value with a description keeps it.
                    Some(there) if there.get("name").is_some() => {
                        if let Some(name) = there.get_mut("name") {
                            *name = value(text.as_str());
                        }
                    }
                    _ => drop(table.insert(&key, value(text.as_str()))),
                }
            }
            true
        });
        if changed == Some(true) {
            return name;
        }
    }
    let plain: String = wanted
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect();
    let mut name = plain.clone();
    let mut n = 1u32;
    while doc.get("enum").and_then(|e| e.get(&name)).is_some() {
        n = n.saturating_add(1);
        name = format!("{plain}_{n}");
    }
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    for (v, text) in &sorted {
        table.insert(&format!("{v:#x}"), value(text.as_str()));
    }
    set_enum(doc, &name, Item::Table(table));
    name
}
