//! The draft of a map between a foreign format and the project's format: size-limited, with a list of losses.

use super::error::{FilePosition, ImportError, Loss, LossKind};
use super::options::Options;
use super::source::one_name;
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum number of registers of a map: the format numbers them in 16 bits, and a 64-bit register counts as two.
pub(crate) const MAX_REGISTERS: usize = 60_000;
/// Maximum number of fields, and maximum size of names and descriptions in bytes, array members counted.
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

#[derive(Debug)]
pub(crate) struct DraftRegister {
    pub name: String,
    pub block: Rc<str>,
    pub offset: u64,
    pub body: Rc<Body>,
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
    pub enums: Vec<(String, Vec<(u64, String)>)>,
    enum_of: HashMap<Vec<(u64, String)>, usize>,
    enum_names: HashMap<String, u32>,
    pub losses: Vec<Loss>,
    pub more_losses: usize,
    fields: usize,
    numbers: usize,
    text: usize,
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
            text: 0,
        }
    }

    /// Counts a loss. The text is only built if it is listed.
    pub fn lose(&mut self, place: FilePosition, kind: LossKind, what: impl FnOnce() -> String) {
        if self.losses.len() < MAX_LOSSES {
            self.losses.push(Loss {
                place,
                kind,
                what: super::source::one_line(&what()),
            });
        } else {
            self.more_losses += 1;
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

    pub fn register(&mut self, block: &Rc<str>, name: String, offset: u64, body: &Rc<Body>) -> Result<(), ImportError> {
        self.take(&body.at, &body.fields, name.len() + body.doc.len() + 64)?;
        self.numbers += if body.bits == 64 { 2 } else { 1 };
        if self.numbers > MAX_REGISTERS {
            return Err(ImportError::TooMuch {
                place: body.at.clone(),
                what: "the map has too many registers (array members count)".to_owned(),
                max: MAX_REGISTERS as u64,
            });
        }
        self.registers.push(DraftRegister {
            name,
            block: Rc::clone(block),
            offset,
            body: Rc::clone(body),
        });
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
        values: Vec<(u64, String)>,
    ) -> Result<Option<usize>, ImportError> {
        let mut kept: Vec<(u64, String)> = Vec::with_capacity(values.len());
        let mut number: HashMap<u64, usize> = HashMap::new();
        for (value, text) in values {
            match number.get(&value).and_then(|i| kept.get(*i)) {
                Some((_, first)) if *first == text => {}
                Some((_, first)) => {
                    let first = first.clone();
                    self.lose(at.clone(), LossKind::Value, || {
                        format!("{value:#x} of {name} has the names {first} and {text}; the first is kept")
                    });
                }
                None => {
                    number.insert(value, kept.len());
                    kept.push((value, text));
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
        let text = kept.iter().map(|(_, t)| t.len() + 16).sum();
        self.take(at, &[], text)?;
        self.enum_of.insert(kept.clone(), self.enums.len());
        self.enum_names.insert(unique.clone(), 1);
        self.enums.push((unique, kept));
        Ok(Some(self.enums.len() - 1))
    }
}
