//! The form of the naming sheet: text while the user types, parsed when it is written.

use kinescope_session::{Document, lookup, text};
use register_maps::naming::{NameEntry, NamedField, NamedRange, NamedRegister};
use std::sync::Arc;
use trace_core::registers::{AccessRule, Field, FieldKind, Half};
use trace_core::{GpuVa, RegOffset};

/// The subject of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSubject {
    /// The register at this offset.
    Register(RegOffset),
    /// A range of memory.
    Memory {
        /// Index of the address space.
        space: u32,
        /// First byte.
        address: GpuVa,
        /// Size, bytes.
        bytes: u64,
    },
}

/// A register field as the user types it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldForm {
    /// Its name.
    pub name: String,
    /// Last bit.
    pub high: String,
    /// First bit.
    pub low: String,
    /// Kind of the bits: an index into [`KINDS`].
    pub kind: usize,
    /// Kind-specific text. Enumeration: the values, `0 off, 1 on`; address: the shift; set: the first number.
    pub more: String,
    /// Description.
    pub doc: String,
    /// Wording in the one-line description.
    pub say: String,
}

/// Kinds of fields, in menu order.
pub const KINDS: [&str; 8] = [
    "hex",
    "number",
    "values",
    "bool",
    "address",
    "number+1",
    "power of two",
    "set",
];

impl FieldForm {
    /// Creates a field of these bits.
    #[must_use]
    pub fn from_bits(low: u32, high: u32) -> Self {
        Self {
            low: low.to_string(),
            high: high.to_string(),
            kind: if low == high { 3 } else { 0 },
            ..Self::default()
        }
    }

    fn from_field(f: &Field) -> Self {
        let (kind, more) = match &f.kind {
            FieldKind::Hex => (0, String::new()),
            FieldKind::Number => (1, String::new()),
            FieldKind::Enum(values) => {
                let list: Vec<String> = values.iter().map(|(v, n)| format!("{v:#x} {n}")).collect();
                (2, list.join(", "))
            }
            FieldKind::Bool => (3, String::new()),
            FieldKind::Address { shift } => (4, shift.to_string()),
            FieldKind::NumberPlusOne => (5, String::new()),
            FieldKind::PowerOfTwo => (6, String::new()),
            FieldKind::Set { first } => (7, first.to_string()),
        };
        Self {
            name: f.name.clone(),
            high: f.hi.to_string(),
            low: f.lo.to_string(),
            kind,
            more,
            doc: f.doc.clone(),
            say: f.say.clone(),
        }
    }

    /// Returns the first and last bit, if they can be parsed.
    #[must_use]
    pub fn bits(&self) -> Option<(u32, u32)> {
        let low = self.low.trim().parse().ok()?;
        let high = match self.high.trim() {
            "" => low,
            text => text.parse().ok()?,
        };
        Some((low, high)).filter(|_| low <= high && high < 64)
    }

    fn parse(&self) -> Result<NamedField, String> {
        let name = self.name.trim();
        if name.is_empty() {
            return Err("a field has no name".to_owned());
        }
        let (lo, hi) = self.bits().ok_or_else(|| {
            format!("{name}: its bits are two numbers from 0 to 63, the higher one first, or one bit")
        })?;
        let number = || match self.more.trim() {
            "" => Ok(0),
            t => t.parse::<u32>().map_err(|_| format!("{name}: {t} is not a number")),
        };
        let kind = match self.kind {
            1 => FieldKind::Number,
            2 => FieldKind::Enum(Arc::new(values(name, &self.more)?.into())),
            3 if lo == hi => FieldKind::Bool,
            3 => return Err(format!("{name}: a bool has one bit")),
            4 => FieldKind::Address { shift: number()? },
            5 => FieldKind::NumberPlusOne,
            6 => FieldKind::PowerOfTwo,
            7 => FieldKind::Set { first: number()? },
            _ => FieldKind::Hex,
        };
        Ok(NamedField {
            name: name.to_owned(),
            lo,
            hi,
            kind,
            doc: self.doc.trim().to_owned(),
            say: self.say.clone(),
        })
    }
}

/// Parses values and their names: `0 off, 0x1 on`, with or without `=` between them.
fn values(field: &str, text: &str) -> Result<Vec<(u64, String)>, String> {
    let mut out: Vec<(u64, String)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let cut = part.find([' ', '=']).unwrap_or(part.len());
        let (value, name) = part.split_at_checked(cut).unwrap_or((part, ""));
        let name = name.trim_start_matches([' ', '=']).trim();
        let value = text::parse_number(value)
            .ok_or_else(|| format!("{field}: \"{part}\" is not a value with a name; write values as 0 off, 1 on"))?;
        if out.iter().any(|(v, _)| *v == value) {
            return Err(format!("{field}: {value} has two names"));
        }
        out.push((value, name.to_owned()));
    }
    if out.is_empty() {
        return Err(format!("{field}: write its values as 0 off, 1 on"));
    }
    Ok(out)
}

/// Content of the naming form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Subject that is named.
    pub subject: NameSubject,
    /// Its name.
    pub name: String,
    /// One-sentence description.
    pub doc: String,
    /// Access rule of a register.
    pub access: AccessRule,
    /// Width of a register, bytes.
    pub width: u8,
    /// Whether the register is a pair of halves.
    pub wide: bool,
    /// Fields of a register.
    pub fields: Vec<FieldForm>,
    /// Fields that a map already defines.
    pub known: Vec<FieldForm>,
    /// Layout of memory.
    pub layout: String,
    /// Size of memory, bytes.
    pub bytes: String,
}

impl Form {
    /// Creates a form with what is known about the subject.
    #[must_use]
    pub fn for_subject(doc: &Document, what: NameSubject) -> Self {
        match what {
            NameSubject::Register(offset) => Self::for_register(doc, offset),
            NameSubject::Memory { space, address, bytes } => {
                let known = doc.derived.device.and_then(|d| d.map().memory_at(space, address));
                let known = known.filter(|(_, at)| *at == 0).map(|(m, _)| m);
                let bytes = known.map_or(bytes, |m| m.bytes);
                Self {
                    subject: NameSubject::Memory { space, address, bytes },
                    name: known.map(|m| m.name.clone()).unwrap_or_default(),
                    doc: known.map(|m| m.doc.clone()).unwrap_or_default(),
                    layout: known.map(|m| m.layout.clone()).unwrap_or_default(),
                    bytes: format!("{bytes:#x}"),
                    ..Self::empty(what)
                }
            }
        }
    }

    fn empty(what: NameSubject) -> Self {
        Self {
            subject: what,
            name: String::new(),
            doc: String::new(),
            access: AccessRule::ReadWrite,
            width: 4,
            wide: false,
            fields: Vec::new(),
            known: Vec::new(),
            layout: String::new(),
            bytes: String::new(),
        }
    }

    fn for_register(doc: &Document, offset: RegOffset) -> Self {
        let known = lookup::find_register(&doc.recording, offset);
        let low = known.and_then(|r| match r.pair {
            Some(Half::High { low_offset }) => lookup::find_register(&doc.recording, low_offset),
            _ => Some(r),
        });
        if let Some(r) = low {
            let (layout, wide) = match &r.wide {
                Some(whole) => (&**whole, true),
                None => (&r.layout, false),
            };
            let fields: Vec<FieldForm> = layout.fields.iter().map(FieldForm::from_field).collect();
            return Self {
                name: layout.name.clone(),
                doc: r.doc.to_string(),
                access: r.access,
                width: r.width,
                wide,
                known: fields.clone(),
                fields,
                ..Self::empty(NameSubject::Register(r.offset))
            };
        }
        let fact = doc.derived.registers.get(&offset);
        let (all, writes) = fact.map_or((0, 0), |f| (f.accesses.len(), f.accesses.writes().len()));
        let first = fact.and_then(|f| f.accesses.all().first());
        let access = first.and_then(|e| doc.recording.events.access(e as usize));
        Self {
            access: match (all, writes) {
                (0, _) => AccessRule::ReadWrite,
                (_, 0) => AccessRule::ReadOnly,
                (n, w) if n == w => AccessRule::WriteOnly,
                _ => AccessRule::ReadWrite,
            },
            width: access.map_or(4, |a| a.width).clamp(1, 8),
            ..Self::empty(NameSubject::Register(offset))
        }
    }

    /// Returns the number of bits of the register.
    #[must_use]
    pub fn bits(&self) -> u32 {
        if self.wide { 64 } else { u32::from(self.width) * 8 }
    }

    /// Parses the form.
    ///
    /// # Errors
    /// Describes the invalid input, for the user.
    pub fn parse(&self) -> Result<NameEntry, String> {
        let name = self.name.trim();
        if name.is_empty() {
            return Err("the name is empty".to_owned());
        }
        if name.chars().any(|c| c.is_control() || c.is_whitespace()) && matches!(self.subject, NameSubject::Register(_))
        {
            return Err("the name of a register cannot have spaces, because filters use it".to_owned());
        }
        let doc = self.doc.trim().to_owned();
        Ok(match self.subject {
            NameSubject::Register(offset) => NameEntry::Register(NamedRegister {
                offset,
                name: name.to_owned(),
                access: self.access,
                width: self.width,
                wide: self.wide,
                doc,
                fields: self.fields.iter().map(FieldForm::parse).collect::<Result<_, _>>()?,
            }),
            NameSubject::Memory { space, address, .. } => NameEntry::Memory(NamedRange {
                space,
                address,
                bytes: text::parse_number(self.bytes.trim())
                    .filter(|n| *n > 0)
                    .ok_or_else(|| format!("{} is not a number of bytes", self.bytes))?,
                name: name.to_owned(),
                doc,
                layout: self.layout.clone(),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumeration_values_are_parsed() {
        let list = values("f", "0 off, 0x2=on and more,3  = idle").unwrap_or_default();
        let entries: Vec<(u64, &str)> = list.iter().map(|(v, n)| (*v, n.as_str())).collect();
        assert_eq!(entries, [(0, "off"), (2, "on and more"), (3, "idle")]);
        assert!(values("f", "").is_err() && values("f", "x on").is_err());
        assert!(values("f", "1 a, 0x1 b").is_err_and(|e| e.contains("two names")));
    }

    #[test]
    fn field_form_round_trips_every_kind() {
        for kind in [
            FieldKind::Hex,
            FieldKind::Number,
            FieldKind::Enum(Arc::new(vec![(0, "off".into()), (5, "on".into())].into())),
            FieldKind::Address { shift: 12 },
            FieldKind::NumberPlusOne,
            FieldKind::PowerOfTwo,
            FieldKind::Set { first: 3 },
        ] {
            let field = Field {
                name: "F".into(),
                lo: 4,
                hi: 9,
                kind: kind.clone(),
                written: None,
                doc: "It.".into(),
                say: "f {}".into(),
                status: false,
            };
            let parsed = FieldForm::from_field(&field).parse();
            let parsed = parsed.map(|f| (f.name, f.lo, f.hi, f.kind, f.doc, f.say));
            let expected = ("F".to_owned(), 4, 9, kind, "It.".to_owned(), "f {}".to_owned());
            assert_eq!(parsed, Ok(expected));
        }
        let wrong = FieldForm {
            name: "F".into(),
            ..FieldForm::from_bits(9, 4)
        };
        assert!(wrong.parse().is_err());
        let switch = FieldForm {
            kind: 3,
            name: "F".into(),
            ..FieldForm::from_bits(4, 9)
        };
        assert!(switch.parse().is_err_and(|e| e.contains("one bit")));
    }
}
