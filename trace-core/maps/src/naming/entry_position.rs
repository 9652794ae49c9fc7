//! Where an entry is in a map's file, and the enumerations that its fields name.

use super::{Key, NamingError};
use std::collections::BTreeSet;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value};
use trace_core::registers::{ArrayLevel, ArrayShape};

pub(super) fn whole(item: Option<&Item>) -> Option<u64> {
    u64::try_from(item?.as_integer()?).ok()
}

/// The position of an entry in a file, existing or new.
pub(super) struct EntryPosition {
    pub(super) list: &'static str,
    /// Its number in the list.
    pub(super) at: Option<usize>,
    /// Offset in the file's block, or address.
    pub(super) number: u64,
    pub(super) space: u32,
}

impl EntryPosition {
    pub(super) fn find(doc: &DocumentMut, key: Key) -> Result<Self, NamingError> {
        let (list, number, space) = match key {
            Key::Register(offset) => {
                let block = doc.get("block");
                let fact = |name| whole(block.and_then(|b| b.get(name)));
                if fact("count").unwrap_or(0) > 1 {
                    let how = "in a block that repeats";
                    return Err(NamingError::ByHand { key, how });
                }
                let base = fact("base").unwrap_or(0);
                let number = u64::from(offset.get())
                    .checked_sub(base)
                    .ok_or(NamingError::BeforeBase(key))?;
                ("register", number, 0)
            }
            Key::Memory { space, address } => ("memory", address.get(), space),
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
            let first = fact(place.key_name()).unwrap_or(0);
            if fact("space").unwrap_or(0) != u64::from(space) {
                continue;
            }
            let shape = array_shape(table);
            if shape.members() > 1 {
                let byte = number.checked_sub(first);
                if byte.is_some_and(|b| shape.member_at(b, 1).is_some_and(|m| shape.offset_of(m) == b)) {
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
    fn key_name(&self) -> &'static str {
        if self.list == "register" { "offset" } else { "address" }
    }

    fn tables<'a>(&self, doc: &'a DocumentMut) -> impl Iterator<Item = &'a Table> + use<'a> {
        let list = doc.get(self.list).and_then(Item::as_array_of_tables);
        list.into_iter().flat_map(ArrayOfTables::iter)
    }

    pub(super) fn table<'a>(&self, doc: &'a DocumentMut) -> Option<&'a Table> {
        self.tables(doc).nth(self.at?)
    }

    /// Returns the entry at this position as a text of its own.
    pub(super) fn entry(&self, doc: &DocumentMut) -> Option<String> {
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
    pub(super) fn enums(&self, doc: &DocumentMut) -> BTreeSet<String> {
        self.table(doc).map(named_enums).unwrap_or_default()
    }

    pub(super) fn set(&self, doc: &mut DocumentMut, mut table: Table) {
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
    pub(super) fn with_empty_entry(&self, doc: &mut DocumentMut) -> Self {
        self.set(doc, Table::new());
        let at = self.tables(doc).count().checked_sub(1);
        Self { at, ..*self }
    }

    pub(super) fn remove(&self, doc: &mut DocumentMut) {
        let list = doc.get_mut(self.list).and_then(Item::as_array_of_tables_mut);
        if let Some((list, at)) = list.zip(self.at) {
            list.remove(at);
        }
    }
}

/// Returns the levels of the array that a table describes.
fn array_shape(table: &Table) -> ArrayShape {
    let numbers = |name: &str| -> Vec<u32> {
        let narrow = |n: i64| u32::try_from(n).unwrap_or(0);
        let item = table.get(name);
        let list = item
            .and_then(Item::as_array)
            .map(|a| a.iter().filter_map(Value::as_integer).map(narrow).collect());
        list.unwrap_or_else(|| item.and_then(Item::as_integer).map(narrow).into_iter().collect())
    };
    let each = numbers("count").into_iter().zip(numbers("stride"));
    let levels: Vec<ArrayLevel> = each
        .map(|(count, stride)| ArrayLevel {
            count,
            stride,
            first: 0,
        })
        .collect();
    ArrayShape::new(&levels)
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
pub(super) fn users(doc: &DocumentMut, name: &str) -> usize {
    let lists = ["register", "layout"]
        .into_iter()
        .filter_map(|l| doc.get(l)?.as_array_of_tables());
    let tables = lists.flat_map(ArrayOfTables::iter);
    tables.filter(|t| named_enums(t).contains(name)).count()
}

/// Removes those enumerations that nothing names any more.
pub(super) fn remove_unused_enums(doc: &mut DocumentMut, names: &BTreeSet<String>) {
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
pub(super) fn set_enum(doc: &mut DocumentMut, name: &str, mut values: Item) {
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
pub(super) fn enums<T>(doc: &mut DocumentMut, act: impl FnOnce(&mut Table) -> T) -> Option<T> {
    let item = doc.entry("enum").or_insert_with(|| Item::Table(Table::new()));
    if let Item::Value(Value::InlineTable(inline)) = item {
        *item = Item::Table(inline.clone().into_table());
    }
    let table = item.as_table_mut()?;
    table.set_implicit(true);
    Some(act(table))
}
