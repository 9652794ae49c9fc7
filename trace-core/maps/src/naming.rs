//! The editor of user-given names of registers, fields and memory ranges in a map's file; the rest of the file stays as
//! it is, comments included.
//!
//! The entry of a location is its table together with the enumerations that its fields name. An entry can be removed
//! from a file and inserted into it as a separate text. A caller that keeps the previous text can undo.

use std::collections::BTreeSet;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};
use trace_core::registers::{AccessRule, FieldKind, RegisterMap};

/// Maximum size of the register window of a map, bytes.
const MAX_WINDOW: u64 = 1 << 26;
/// Reason why recorded writes of a register that was named by hand are not replayed.
const REASON: &str = "Named by hand; nobody decided yet whether its writes may be replayed.";

/// The location that a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The register at this offset of the register window.
    Register(u32),
    /// The memory range that starts here.
    Memory {
        /// Index of the address space.
        space: u32,
        /// GPU address of the first byte.
        address: u64,
    },
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Register(offset) => write!(f, "the register at {offset:#x}"),
            Self::Memory { address, .. } => write!(f, "memory at {address:#x}"),
        }
    }
}

/// A field of a register as the user defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedField {
    /// Its name.
    pub name: String,
    /// First and last bit.
    pub lo: u32,
    /// Last bit, not below the first.
    pub hi: u32,
    /// Type of the bits.
    pub kind: FieldKind,
    /// Description in one sentence; may be empty.
    pub doc: String,
    /// Its text in the one-line description; empty: the default of the format.
    pub say: String,
}

/// A register as the user defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRegister {
    /// Byte offset in the register window.
    pub offset: u32,
    /// Its name.
    pub name: String,
    /// Read and write access.
    pub access: AccessRule,
    /// Width in bytes: 1, 2, 4 or 8; 4 for a pair of halves.
    pub width: u8,
    /// Whether it is a pair of halves of 4 bytes each.
    pub wide: bool,
    /// Description in one sentence.
    pub doc: String,
    /// Its fields.
    pub fields: Vec<NamedField>,
}

/// A memory range as the user defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRange {
    /// Index of the address space.
    pub space: u32,
    /// GPU address of its first byte.
    pub address: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// Its name.
    pub name: String,
    /// Description; may be empty.
    pub doc: String,
    /// Name of the layout of its contents; empty: none.
    pub layout: String,
}

/// The entry of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameEntry {
    /// A register.
    Register(NamedRegister),
    /// A memory range.
    Memory(NamedRange),
}

impl NameEntry {
    /// Returns its location.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Register(r) => Key::Register(r.offset),
            Self::Memory(m) => Key::Memory {
                space: m.space,
                address: m.address,
            },
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Register(r) => &r.name,
            Self::Memory(m) => &m.name,
        }
    }
}

/// The header of a new file of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapHeader {
    /// Name of the map.
    pub name: String,
    /// Name of the space that the registers are in; may be empty.
    pub space: String,
    /// Size of the register window, bytes.
    pub window: u64,
    /// The PCI device of the map: vendor and device.
    pub pci: Option<(u16, u16)>,
    /// The device-tree `compatible` string of the map.
    pub compatible: Option<String>,
    /// The upper half of the GPU id register of the map.
    pub gpu: Option<u16>,
}

/// The reason why a name was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamingError {
    /// The file is not TOML.
    #[error("the file is not valid TOML: {0}")]
    NoToml(String),
    /// The file defines the location in a form that this editor cannot change: an array, or a block that repeats.
    #[error("the file defines {key} {how}; change it there by hand")]
    ByHand {
        /// The location.
        key: Key,
        /// The form in the file.
        how: &'static str,
    },
    /// The register is below the base of the file's block.
    #[error("{0} is before the base of the block in this file; write the name in another file")]
    BeforeBase(Key),
    /// The file would be no valid map with the entry.
    #[error("{0}")]
    NoMap(String),
    /// The file holds another entry than the one to replace.
    #[error("{0} has changed in the file since; it was left unchanged")]
    Changed(Key),
}

/// The result of an edit of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedNames {
    /// The text of the file.
    pub text: String,
    /// The entry before the edit.
    pub old: Option<String>,
    /// The entry after the edit.
    pub new: Option<String>,
}

/// Sets the entry of a location in a map's file; properties that this editor does not know stay. `text` is empty if
/// there is no file yet.
///
/// # Errors
///
/// When the file is no map, would be none with the entry, or defines the location in another form.
pub fn set_entry(text: &str, head: &MapHeader, said: &NameEntry) -> Result<EditedNames, NamingError> {
    let mut doc = parse_document(text)?;
    let key = said.key();
    let place = EntryPosition::find(&doc, key)?;
    let old = place.entry(&doc);
    begin(&mut doc, head, &place);
    match said {
        NameEntry::Register(r) => register(&mut doc, &place, r),
        NameEntry::Memory(m) => memory(&mut doc, &place, m),
    }
    widen(&mut doc, said);
    let new = EntryPosition::find(&doc, key)?.entry(&doc);
    let text = doc.to_string();
    is_map(&text)?;
    Ok(EditedNames { text, old, new })
}

/// Replaces the entry of a location in a map's file, which must be `old`; `None` removes it.
///
/// # Errors
///
/// When the file holds another entry, or would be no map with the new one.
pub fn replace_entry(
    text: &str,
    head: &MapHeader,
    key: Key,
    old: Option<&str>,
    new: Option<&str>,
) -> Result<String, NamingError> {
    let mut doc = parse_document(text)?;
    let place = EntryPosition::find(&doc, key)?;
    if place.entry(&doc).as_deref().map(str::trim) != old.map(str::trim) {
        return Err(NamingError::Changed(key));
    }
    let before = place.enums(&doc);
    match new {
        None => place.remove(&mut doc),
        Some(new) => {
            let entry = parse_document(new)?;
            begin(&mut doc, head, &place);
            let table = entry.get(place.list).and_then(Item::as_array_of_tables);
            let table = table.and_then(|l| l.get(0)).cloned().unwrap_or_default();
            place.set(&mut doc, table);
            for (name, values) in entry
                .get("enum")
                .and_then(Item::as_table)
                .into_iter()
                .flat_map(Table::iter)
            {
                set_enum(&mut doc, name, values.clone());
            }
        }
    }
    remove_unused_enums(&mut doc, &before);
    let text = doc.to_string();
    is_map(&text)?;
    Ok(text)
}

fn parse_document(text: &str) -> Result<DocumentMut, NamingError> {
    text.parse()
        .map_err(|e: toml_edit::TomlError| NamingError::NoToml(e.to_string()))
}

fn is_map(text: &str) -> Result<(), NamingError> {
    let made = RegisterMap::parse(&[("it", text)]);
    made.map(drop)
        .map_err(|e| NamingError::NoMap(format!("{}: {}", e.place, e.reason)))
}

fn whole(item: Option<&Item>) -> Option<u64> {
    u64::try_from(item?.as_integer()?).ok()
}

fn hex(n: u64) -> Value {
    let plain = || Value::from(i64::try_from(n).unwrap_or(i64::MAX));
    format!("{n:#x}").parse().unwrap_or_else(|_| plain())
}

/// The position of an entry in a file, existing or new.
struct EntryPosition {
    list: &'static str,
    /// Its number in the list.
    at: Option<usize>,
    /// Offset in the file's block, or address.
    number: u64,
    space: u32,
}

impl EntryPosition {
    fn find(doc: &DocumentMut, key: Key) -> Result<Self, NamingError> {
        let (list, number, space) = match key {
            Key::Register(offset) => {
                let block = doc.get("block");
                let fact = |name| whole(block.and_then(|b| b.get(name)));
                if fact("count").unwrap_or(0) > 1 {
                    let how = "in a block that repeats";
                    return Err(NamingError::ByHand { key, how });
                }
                let base = fact("base").unwrap_or(0);
                let number = u64::from(offset)
                    .checked_sub(base)
                    .ok_or(NamingError::BeforeBase(key))?;
                ("register", number, 0)
            }
            Key::Memory { space, address } => ("memory", address, space),
        };
        if doc.get(list).is_some_and(|l| l.as_array_of_tables().is_none()) {
            let how = "as a list in another form";
            return Err(NamingError::ByHand { key, how });
        }
        let mut place = Self {
            list,
            at: None,
            number,
            space,
        };
        for (i, table) in place.tables(doc).enumerate() {
            let fact = |name| whole(table.get(name));
            let (first, count) = (fact(place.word()).unwrap_or(0), fact("count").unwrap_or(0));
            if fact("space").unwrap_or(0) != u64::from(space) {
                continue;
            }
            if count > 1 {
                let each = fact("stride").unwrap_or(0);
                if (0..count).any(|n| first.saturating_add(n.saturating_mul(each)) == number) {
                    let how = "as a part of an array";
                    return Err(NamingError::ByHand { key, how });
                }
            } else if first == number {
                place.at = Some(i);
            }
        }
        Ok(place)
    }

    /// Returns the TOML key of the location.
    fn word(&self) -> &'static str {
        if self.list == "register" { "offset" } else { "address" }
    }

    fn tables<'a>(&self, doc: &'a DocumentMut) -> impl Iterator<Item = &'a Table> + use<'a> {
        let list = doc.get(self.list).and_then(Item::as_array_of_tables);
        list.into_iter().flat_map(ArrayOfTables::iter)
    }

    fn table<'a>(&self, doc: &'a DocumentMut) -> Option<&'a Table> {
        self.tables(doc).nth(self.at?)
    }

    /// Returns the entry at this position as a text of its own.
    fn entry(&self, doc: &DocumentMut) -> Option<String> {
        let mut table = self.table(doc)?.clone();
        table.set_position(None);
        let mut out = DocumentMut::new();
        let mut list = ArrayOfTables::new();
        list.push(table);
        out.insert(self.list, Item::ArrayOfTables(list));
        for name in self.enums(doc) {
            if let Some(Item::Table(values)) = doc.get("enum").and_then(|e| e.get(&name)) {
                let mut values = values.clone();
                values.set_position(None);
                enums(&mut out, |e| e.insert(&name, Item::Table(values)));
            }
        }
        Some(out.to_string())
    }

    /// Returns the enumerations that its fields name.
    fn enums(&self, doc: &DocumentMut) -> BTreeSet<String> {
        self.table(doc).map(named_enums).unwrap_or_default()
    }

    fn set(&self, doc: &mut DocumentMut, mut table: Table) {
        let last = end(doc.as_table()).saturating_add(1);
        let made = doc
            .entry(self.list)
            .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let Some(list) = made.as_array_of_tables_mut() else {
            return;
        };
        match self.at.and_then(|at| list.get_mut(at)) {
            Some(there) => {
                table.set_position(there.position());
                *there = table;
            }
            None => {
                let after = list.iter().last().and_then(Table::position);
                table.set_position(Some(after.unwrap_or(last)));
                list.push(table);
            }
        }
    }

    /// Returns the position with an empty entry inserted.
    fn taken(&self, doc: &mut DocumentMut) -> Self {
        self.set(doc, Table::new());
        let at = self.tables(doc).count().checked_sub(1);
        Self { at, ..*self }
    }

    fn remove(&self, doc: &mut DocumentMut) {
        let list = doc.get_mut(self.list).and_then(Item::as_array_of_tables_mut);
        if let Some((list, at)) = list.zip(self.at) {
            list.remove(at);
        }
    }
}

/// Returns the enumerations that the fields of a table name.
fn named_enums(table: &Table) -> BTreeSet<String> {
    let fields = table.get("fields");
    let inline = fields.and_then(Item::as_array).into_iter().flat_map(Array::iter);
    let inline = inline.filter_map(|f| f.as_inline_table()?.get("enum")?.as_str());
    let tables = fields
        .and_then(Item::as_array_of_tables)
        .into_iter()
        .flat_map(ArrayOfTables::iter);
    let tables = tables.filter_map(|f| f.get("enum")?.as_str());
    inline.chain(tables).map(str::to_owned).collect()
}

/// Returns the number of registers and layouts that name an enumeration.
fn users(doc: &DocumentMut, name: &str) -> usize {
    let lists = ["register", "layout"]
        .into_iter()
        .filter_map(|l| doc.get(l)?.as_array_of_tables());
    let tables = lists.flat_map(ArrayOfTables::iter);
    tables.filter(|t| named_enums(t).contains(name)).count()
}

/// Removes those enumerations that nothing names any more.
fn remove_unused_enums(doc: &mut DocumentMut, names: &BTreeSet<String>) {
    for name in names {
        if users(doc, name) == 0 {
            enums(doc, |e| e.remove(name));
        }
    }
}

/// Returns the position of the last table of a file.
fn end(table: &Table) -> isize {
    let mut last = table.position().unwrap_or(0);
    for (_, item) in table {
        last = match item {
            Item::Table(t) => last.max(end(t)),
            Item::ArrayOfTables(list) => list.iter().map(end).fold(last, isize::max),
            _ => last,
        };
    }
    last
}

/// Sets an enumeration: replaces the one of its name, or appends it to the file.
fn set_enum(doc: &mut DocumentMut, name: &str, mut values: Item) {
    let at = end(doc.as_table()).saturating_add(1);
    enums(doc, |all| {
        let there = all.get(name).and_then(Item::as_table).and_then(Table::position);
        if let Item::Table(table) = &mut values {
            table.set_position(Some(there.unwrap_or(at)));
        }
        all.insert(name, values);
    });
}

/// Applies `act` to the tables of enumerations.
fn enums<T>(doc: &mut DocumentMut, act: impl FnOnce(&mut Table) -> T) -> Option<T> {
    let item = doc.entry("enum").or_insert_with(|| Item::Table(Table::new()));
    if let Item::Value(Value::InlineTable(inline)) = item {
        *item = Item::Table(inline.clone().into_table());
    }
    let table = item.as_table_mut()?;
    table.set_implicit(true);
    Some(act(table))
}

/// Adds the tables that a file needs before its first name.
fn begin(doc: &mut DocumentMut, head: &MapHeader, place: &EntryPosition) {
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
fn widen(doc: &mut DocumentMut, said: &NameEntry) {
    let NameEntry::Register(r) = said else { return };
    let bytes = if r.wide { 8 } else { u64::from(r.width) };
    let end = (u64::from(r.offset) + bytes).next_multiple_of(4);
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

fn memory(doc: &mut DocumentMut, place: &EntryPosition, m: &NamedRange) {
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

fn register(doc: &mut DocumentMut, place: &EntryPosition, r: &NamedRegister) {
    let (mut table, new) = table_at(doc, place);
    let before = place.enums(doc);
    // A new register takes its position before the enumerations of its fields.
    let place = &match new {
        true => place.taken(doc),
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
            .filter_map(|(k, v)| Some((number(k)?, v.as_str()?.to_owned())))
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
                    Some(there) if there.as_str() == Some(text) => {}
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
