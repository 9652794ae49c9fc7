//! The editor of user-given names of registers, fields and memory ranges in a map's file; the rest of the file stays as
//! it is, comments included.
//!
//! The entry of a location is its table together with the enumerations that its fields name. An entry can be removed
//! from a file and inserted into it as a separate text. A caller that keeps the previous text can undo.

mod entry_position;
mod entry_text;

use entry_position::{EntryPosition, remove_unused_enums, set_enum};
use toml_edit::{DocumentMut, Item, Table};
use trace_core::registers::{AccessRule, FieldKind, RegisterMap};
use trace_core::{GpuVa, RegOffset};

/// The location that a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The register at this offset of the register window.
    Register(RegOffset),
    /// The memory range that starts here.
    Memory {
        /// Index of the address space.
        space: u32,
        /// GPU address of the first byte.
        address: GpuVa,
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
    pub offset: RegOffset,
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
    pub address: GpuVa,
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
    entry_text::begin(&mut doc, head, &place);
    match said {
        NameEntry::Register(r) => entry_text::register(&mut doc, &place, r),
        NameEntry::Memory(m) => entry_text::memory(&mut doc, &place, m),
    }
    entry_text::widen(&mut doc, said);
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
            entry_text::begin(&mut doc, head, &place);
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
