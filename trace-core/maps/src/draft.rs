//! The draft of a map between a foreign format and the project's format: size-limited, with a list of losses.

use super::error::{FilePosition, ImportError, Loss, LossKind};
use super::options::Options;
use super::text::one_name;
use std::collections::HashMap;
use std::rc::Rc;
use trace_core::registers::{ArrayLevel, ArrayShape};

/// Maximum number of registers of a map: the format numbers them in 16 bits, and a 64-bit register counts as two. An
/// array counts once.
pub(crate) const MAX_REGISTERS: usize = 60_000;
/// Maximum number of members of all arrays: they are found one by one when the map is built.
const MAX_MEMBERS: u64 = 1 << 21;
/// Maximum number of fields, and maximum size of names and descriptions in bytes. An array counts once.
const MAX_FIELDS: usize = 1_000_000;
const MAX_TEXT: usize = 32 << 20;
/// Maximum number of losses that are listed; the others are only counted.
const MAX_LOSSES: usize = 10_000;

/// The type of a field's bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hex,
    Number,
    NumberPlusOne,
    PowerOfTwo,
    Bool,
    Address(u32),
    /// Number of one of [`Draft::enums`].
    Enum(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct DraftField {
    pub name: String,
    pub lo: u64,
    pub hi: u64,
    pub kind: Kind,
    /// Number of the enumeration of the values in writes, if it differs; without one, writes have no names.
    pub written: Option<Option<usize>>,
    pub doc: String,
    pub at: FilePosition,
}

/// Read and write access of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Both,
}

/// The properties that members of an array share.
#[derive(Debug)]
pub(crate) struct Body {
    pub bits: u64,
    pub access: Access,
    pub doc: String,
    pub fields: Vec<DraftField>,
    pub at: FilePosition,
}

/// A register or an array of registers.
#[derive(Clone, Debug)]
pub(crate) struct DraftRegister {
    /// The name, with `{n}` for the number of each level of an array.
    pub name: String,
    pub block: Rc<str>,
    /// Offset of the first member, bytes.
    pub offset: u64,
    /// Levels of an array, the outermost first.
    pub levels: Vec<ArrayLevel>,
    pub body: Rc<Body>,
}

impl DraftRegister {
    pub fn shape(&self) -> ArrayShape {
        ArrayShape::new(&self.levels)
    }
}

/// A named value of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DraftValue {
    pub value: u64,
    pub name: String,
    /// Description; may be empty.
    pub doc: String,
}

impl DraftValue {
    pub fn new(value: u64, name: impl Into<String>) -> Self {
        Self {
            value,
            name: name.into(),
            doc: String::new(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct DraftLayout {
    pub name: String,
    pub bits: u64,
    pub doc: String,
    pub fields: Vec<DraftField>,
    pub at: FilePosition,
}

pub(crate) struct Draft {
    pub file: String,
    pub name: String,
    pub doc: String,
    pub provenance: String,
    pub window: Option<u64>,
    pub window_at: Option<u64>,
    pub registers: Vec<DraftRegister>,
    pub layouts: Vec<DraftLayout>,
    pub enums: Vec<(String, Vec<DraftValue>)>,
    enum_of: HashMap<Vec<DraftValue>, usize>,
    enum_names: HashMap<String, u32>,
    pub losses: Vec<Loss>,
    pub more_losses: usize,
    fields: usize,
    numbers: usize,
    members: u64,
    text: usize,
    /// Whether descriptions are left out of the map.
    without_docs: bool,
}

impl Draft {
    pub fn new(file: &str, options: &Options) -> Self {
        let stem = std::path::Path::new(file)
            .file_stem()
            .and_then(|s| s.to_str())
            .unwrap_or("map");
        let mut name = options.name.clone().unwrap_or_else(|| stem.to_owned());
        if options.name.is_none()
            && let Some(v) = &options.variant
        {
            name = format!("{name}-{v}");
        }
        Self {
            file: file.to_owned(),
            name,
            doc: String::new(),
            provenance: String::new(),
            window: None,
            window_at: None,
            registers: Vec::new(),
            layouts: Vec::new(),
            enums: Vec::new(),
            enum_of: HashMap::new(),
            enum_names: HashMap::new(),
            losses: Vec::new(),
            more_losses: 0,
            fields: 0,
            numbers: 0,
            members: 0,
            text: 0,
            without_docs: options.compact,
        }
    }

    /// Counts a loss. The text is only built if it is listed.
    pub fn lose(&mut self, place: FilePosition, kind: LossKind, what: impl FnOnce() -> String) {
        if self.losses.len() < MAX_LOSSES {
            self.losses.push(Loss {
                place,
                kind,
                what: super::text::one_line(&what()),
            });
        } else {
            self.more_losses += 1;
        }
    }

    /// Reports an element that contradicts its format, and leaves it out. Other errors end the import.
    pub fn or_left_out<T>(&mut self, result: Result<T, ImportError>) -> Result<Option<T>, ImportError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(ImportError::Wrong { place, reason }) => {
                self.lose(place, LossKind::Mistake, || format!("{reason}; it is left out"));
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    fn take(&mut self, at: &FilePosition, fields: &[DraftField], text: usize) -> Result<(), ImportError> {
        let too_much = |what: &str, max: usize| ImportError::TooMuch {
            place: at.clone(),
            what: what.to_owned(),
            max: max as u64,
        };
        self.fields = self.fields.saturating_add(fields.len());
        self.text = self.text.saturating_add(text);
        let of_fields = fields.iter().map(|f| f.name.len() + f.doc.len()).sum();
        self.text = self.text.saturating_add(of_fields);
        if self.fields > MAX_FIELDS {
            return Err(too_much("the map has too many fields", MAX_FIELDS));
        }
        if self.text > MAX_TEXT {
            return Err(too_much("names and descriptions have too many bytes", MAX_TEXT));
        }
        Ok(())
    }

    /// Adds a register or an array of registers.
    pub fn register(&mut self, register: DraftRegister) -> Result<(), ImportError> {
        let body = &register.body;
        self.take(&body.at, &body.fields, register.name.len() + body.doc.len() + 64)?;
        self.numbers += if body.bits == 64 { 2 } else { 1 };
        if self.numbers > MAX_REGISTERS {
            return Err(ImportError::TooMuch {
                place: body.at.clone(),
                what: "the map has too many registers (an array counts once)".to_owned(),
                max: MAX_REGISTERS as u64,
            });
        }
        let members = register.shape().members();
        if self.members.saturating_add(members) > MAX_MEMBERS {
            let (at, name) = (body.at.clone(), &register.name);
            self.lose(at, LossKind::Array, || {
                format!("array {name} of {members} members: with it, arrays have more than {MAX_MEMBERS} members; it is left out")
            });
            return Ok(());
        }
        self.members += members;
        self.registers.push(register);
        Ok(())
    }

    /// Checks that `fields` more fields fit. Called before they are created.
    pub fn room(&self, at: &FilePosition, fields: usize) -> Result<(), ImportError> {
        if self.fields.saturating_add(fields) > MAX_FIELDS {
            return Err(ImportError::TooMuch {
                place: at.clone(),
                what: "the map has too many fields".to_owned(),
                max: MAX_FIELDS as u64,
            });
        }
        Ok(())
    }

    pub fn layout(&mut self, mut layout: DraftLayout) -> Result<(), ImportError> {
        layout.name = one_name(&layout.name);
        self.take(&layout.at, &layout.fields, layout.name.len() + layout.doc.len())?;
        self.layouts.push(layout);
        Ok(())
    }

    /// Returns the number of an enumeration with these values and creates it if needed. A value keeps its first name.
    /// Returns `None` if no values are left.
    pub fn enumeration(
        &mut self,
        at: &FilePosition,
        name: &str,
        values: Vec<DraftValue>,
    ) -> Result<Option<usize>, ImportError> {
        let mut kept: Vec<DraftValue> = Vec::with_capacity(values.len());
        let mut number: HashMap<u64, usize> = HashMap::new();
        for mut named in values {
            if self.without_docs {
                named.doc.clear();
            }
            let (value, text) = (named.value, &named.name);
            match number.get(&value).and_then(|i| kept.get(*i)) {
                Some(first) if first.name == *text => {}
                Some(first) => {
                    let first = first.name.clone();
                    self.lose(at.clone(), LossKind::Value, || {
                        format!("{value:#x} of {name} has the names {first} and {text}; the first is kept")
                    });
                }
                None => {
                    number.insert(value, kept.len());
                    kept.push(named);
                }
            }
        }
        if kept.is_empty() {
            return Ok(None);
        }
        kept.sort_unstable();
        if let Some(known) = self.enum_of.get(&kept) {
            return Ok(Some(*known));
        }
        let name = one_name(name);
        let mut unique = name.clone();
        if let Some(mut n) = self.enum_names.get(&name).copied() {
            while self.enum_names.contains_key(&unique) {
                n += 1;
                unique = format!("{name}_{n}");
            }
            self.enum_names.insert(name, n);
        }
        let text = kept.iter().map(|v| v.name.len() + v.doc.len() + 16).sum();
        self.take(at, &[], text)?;
        self.enum_of.insert(kept.clone(), self.enums.len());
        self.enum_names.insert(unique.clone(), 1);
        self.enums.push((unique, kept));
        Ok(Some(self.enums.len() - 1))
    }
}
