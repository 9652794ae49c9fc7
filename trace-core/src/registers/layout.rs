//! Bit fields of values of any size, and their decoder.

use std::fmt::Write as _;
use std::ops::Deref;
use std::sync::Arc;

/// Fields of a register, a page-table entry or a descriptor.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Name, unique in its map.
    pub name: String,
    /// Size in bits: 32 for registers, 64 for entries, more for descriptors.
    pub bits: u32,
    /// Fields by ascending first bit, not overlapping. Members of an array share them.
    pub fields: Arc<[Field]>,
    /// Description of a value without a set field: `idle`. Empty: `0`.
    pub zero: String,
    /// Description in one sentence. Members of an array share it.
    pub doc: Arc<str>,
}

/// Named values of a field, by ascending value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedValues {
    names: Vec<(u64, String)>,
    /// Descriptions of some of the values, by ascending value.
    docs: Vec<(u64, String)>,
}

impl NamedValues {
    /// Creates a list from names and descriptions in any order.
    #[must_use]
    pub fn new(mut names: Vec<(u64, String)>, mut docs: Vec<(u64, String)>) -> Self {
        names.sort_unstable();
        docs.retain(|(_, text)| !text.is_empty());
        docs.sort_unstable();
        Self { names, docs }
    }

    /// Returns the name of a value.
    #[must_use]
    pub fn name(&self, value: u64) -> Option<&str> {
        find_text(&self.names, value)
    }

    /// Returns the description of a value.
    #[must_use]
    pub fn doc(&self, value: u64) -> Option<&str> {
        find_text(&self.docs, value)
    }

    /// Returns all descriptions, by ascending value.
    #[must_use]
    pub fn docs(&self) -> &[(u64, String)] {
        &self.docs
    }
}

fn find_text(list: &[(u64, String)], value: u64) -> Option<&str> {
    let at = list.binary_search_by_key(&value, |(v, _)| *v).ok()?;
    list.get(at).map(|(_, text)| text.as_str())
}

impl From<Vec<(u64, String)>> for NamedValues {
    fn from(names: Vec<(u64, String)>) -> Self {
        Self::new(names, Vec::new())
    }
}

impl Deref for NamedValues {
    type Target = [(u64, String)];

    fn deref(&self) -> &Self::Target {
        &self.names
    }
}

/// The direction of an access whose value is described.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The value was read.
    #[default]
    Read,
    /// The value was written.
    Write,
}

impl Direction {
    /// Returns the direction of an access.
    #[must_use]
    pub fn new(write: bool) -> Self {
        if write { Self::Write } else { Self::Read }
    }
}

/// Bits of a layout that have a common meaning.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name, unique in its layout.
    pub name: String,
    /// First bit.
    pub lo: u32,
    /// Last bit, at most 63 further on.
    pub hi: u32,
    /// Type of the bits.
    pub kind: FieldKind,
    /// Names of the values in writes, if they differ from those in reads.
    pub written: Option<Arc<NamedValues>>,
    /// Description in one sentence; may be empty.
    pub doc: String,
    /// Text of the field in a short description, with `{}` for its value; empty: not shown unless the field is the only
    /// one.
    pub say: String,
    /// Whether the device writes it to report the end of work. Comparisons of descriptors leave it out.
    pub status: bool,
}

/// The type of a field's bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A count or an index.
    Number,
    /// A count stored minus one.
    NumberPlusOne,
    /// A power of two, stored as its logarithm.
    PowerOfTwo,
    /// Bits without a shorter form.
    Hex,
    /// One bit per item; the first bit stands for the item with this number.
    Set {
        /// Number of the item of the field's first bit.
        first: u32,
    },
    /// One of several named values, ascending, shared by all fields of the enumeration.
    Enum(Arc<NamedValues>),
    /// An address, stored without its low bits.
    Address {
        /// Left shift of the field's value.
        shift: u32,
    },
    /// A switch.
    Bool,
}

/// A field with its value.
#[derive(Clone, Debug)]
pub struct FieldValue<'a> {
    /// The field.
    pub field: &'a Field,
    /// Its bits, shifted down to bit 0.
    pub value: u64,
    /// Their meaning: `clean+invalidate`, `0x1000`.
    pub text: String,
}

/// Bits that no field describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Index of the 64-bit word of the value.
    pub word: u32,
    /// The bits of the word that no field describes.
    pub mask: u64,
    /// Their value, in position.
    pub value: u64,
}

/// A decoded value.
#[derive(Clone, Debug)]
pub struct Decoded<'a> {
    /// All fields, in order.
    pub fields: Vec<FieldValue<'a>>,
    /// Bits that no field describes, one entry per 64-bit word with such bits.
    pub unknown: Vec<Unknown>,
}

impl Decoded<'_> {
    /// Returns the bits of the first word that no field describes, in position.
    #[must_use]
    pub fn unknown_value(&self) -> u64 {
        self.unknown.first().filter(|u| u.word == 0).map_or(0, |u| u.value)
    }

    /// Returns the mask of the bits of the first word that no field describes.
    #[must_use]
    pub fn unknown_mask(&self) -> u64 {
        self.unknown.first().filter(|u| u.word == 0).map_or(0, |u| u.mask)
    }

    /// Returns the value of a field.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        self.fields.iter().find(|f| f.field.name == name).map(|f| f.value)
    }

    /// Returns the text of a field.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|f| f.field.name == name)
            .map(|f| f.text.as_str())
    }
}

/// Returns a mask of the `n` lowest bits.
fn low_bits(n: u32) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

impl Field {
    /// Returns the width of the field, 1 to 64 bits.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.hi.saturating_sub(self.lo).saturating_add(1)
    }

    /// Extracts the field from a value of at most 64 bits, shifted down.
    #[must_use]
    pub fn extract(&self, value: u64) -> u64 {
        value.checked_shr(self.lo).unwrap_or(0) & low_bits(self.width())
    }

    /// Extracts the field from a little-endian value of any size; bits past its end are 0.
    #[must_use]
    pub fn extract_bytes(&self, bytes: &[u8]) -> u64 {
        let first = (self.lo / 8) as usize;
        let mut wide = 0u128;
        for i in 0..9usize {
            let byte = first.checked_add(i).and_then(|at| bytes.get(at)).copied().unwrap_or(0);
            wide |= u128::from(byte) << (8 * i);
        }
        (wide >> (self.lo % 8)) as u64 & low_bits(self.width())
    }

    /// Returns a 64-bit value with the field set to `to`; bits of `to` that do not fit are dropped.
    #[must_use]
    pub fn insert(&self, value: u64, to: u64) -> u64 {
        let mask = low_bits(self.width()).checked_shl(self.lo).unwrap_or(0);
        value & !mask | to.checked_shl(self.lo).unwrap_or(0) & mask
    }

    /// Returns the named values of the field in an access, if it has any.
    #[must_use]
    pub fn values(&self, direction: Direction) -> Option<&NamedValues> {
        match (&self.written, &self.kind, direction) {
            (Some(written), _, Direction::Write) => Some(written.as_ref()).filter(|w| !w.is_empty()),
            (_, FieldKind::Enum(values), _) => Some(values),
            _ => None,
        }
    }

    /// Formats the meaning of the field's bits in a read.
    #[must_use]
    pub fn text(&self, value: u64) -> String {
        self.text_in(value, Direction::Read)
    }

    /// Formats the meaning of the field's bits in a read or a write.
    #[must_use]
    pub fn text_in(&self, value: u64, direction: Direction) -> String {
        if let Some(values) = self.values(direction) {
            return match values.name(value) {
                Some(name) => name.to_owned(),
                None => format!("unknown {value:#x}"),
            };
        }
        match &self.kind {
            FieldKind::Number => value.to_string(),
            FieldKind::NumberPlusOne => value.saturating_add(1).to_string(),
            FieldKind::PowerOfTwo => match 1u128.checked_shl(value.min(127) as u32) {
                Some(n) => n.to_string(),
                None => format!("2^{value}"),
            },
            // An enumeration was handled above.
            FieldKind::Hex | FieldKind::Enum(_) => format!("{value:#x}"),
            FieldKind::Set { first } => set_text(value, *first),
            FieldKind::Address { shift } => format!("{:#x}", value.checked_shl(*shift).unwrap_or(0)),
            FieldKind::Bool => if value == 0 { "no" } else { "yes" }.to_owned(),
        }
    }

    /// Returns the text of the field in a short description, or `None` if the field has no text, or is 0 and has no
    /// text for it.
    fn describe_known(&self, value: u64, direction: Direction) -> Option<String> {
        if self.say.is_empty() {
            return None;
        }
        let zero_means = matches!(
            self.kind,
            FieldKind::Number | FieldKind::NumberPlusOne | FieldKind::PowerOfTwo
        ) || self
            .values(direction)
            .and_then(|v| v.name(0))
            .is_some_and(|name| !name.is_empty());
        if value == 0 && !zero_means {
            return None;
        }
        let text = self.text_in(value, direction);
        (!text.is_empty()).then(|| self.say.replace("{}", &text))
    }
}

/// Formats `1`, `0 to 7`, `0 to 3, 5`; `none`.
fn set_text(value: u64, first: u32) -> String {
    let mut out = String::new();
    let mut bit = 0;
    while bit < 64 {
        if value >> bit & 1 == 0 {
            bit += 1;
            continue;
        }
        let run = (value >> bit).trailing_ones();
        let from = u64::from(first) + u64::from(bit);
        if !out.is_empty() {
            out.push_str(", ");
        }
        // Writing to a string cannot fail.
        let _ = match run {
            1 => write!(out, "{from}"),
            2 => write!(out, "{from}, {}", from + 1),
            _ => write!(out, "{from} to {}", from + u64::from(run) - 1),
        };
        bit += run;
    }
    if out.is_empty() { "none".to_owned() } else { out }
}

impl Layout {
    /// Returns the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Returns the bits of a 64-bit word of the value that fields describe.
    fn known(&self, word: u32) -> u64 {
        let base = u64::from(word) * 64;
        let mut mask = 0;
        for f in self.fields.iter() {
            let (lo, end) = (u64::from(f.lo).max(base), (u64::from(f.hi) + 1).min(base + 64));
            if lo < end {
                mask |= low_bits((end - lo) as u32) << (lo - base);
            }
        }
        mask
    }

    /// Returns the bits of a 64-bit word that belong to the layout.
    fn inside(&self, word: u32) -> u64 {
        let base = word.saturating_mul(64);
        low_bits(self.bits.saturating_sub(base))
    }

    /// Decodes a value; bits past 64 read as 0.
    #[must_use]
    pub fn decode(&self, value: u64) -> Decoded<'_> {
        self.decode_bytes(&value.to_le_bytes())
    }

    /// Decodes the value of an access; bits past 64 read as 0.
    #[must_use]
    pub fn decode_in(&self, value: u64, direction: Direction) -> Decoded<'_> {
        self.decode_all(&value.to_le_bytes(), direction)
    }

    /// Decodes a little-endian value of any size; bits past its end read as 0.
    #[must_use]
    pub fn decode_bytes(&self, bytes: &[u8]) -> Decoded<'_> {
        self.decode_all(bytes, Direction::Read)
    }

    fn decode_all(&self, bytes: &[u8], direction: Direction) -> Decoded<'_> {
        let fields = self
            .fields
            .iter()
            .map(|field| {
                let value = field.extract_bytes(bytes);
                FieldValue {
                    field,
                    value,
                    text: field.text_in(value, direction),
                }
            })
            .collect();
        let mut unknown = Vec::new();
        for word in 0..self.bits.div_ceil(64) {
            let mask = self.inside(word) & !self.known(word);
            if mask != 0 {
                let at = word as usize * 8;
                let mut raw = [0; 8];
                for (to, from) in raw.iter_mut().zip(bytes.iter().skip(at)) {
                    *to = *from;
                }
                unknown.push(Unknown {
                    word,
                    mask,
                    value: u64::from_le_bytes(raw) & mask,
                });
            }
        }
        Decoded { fields, unknown }
    }

    /// Describes a value in one short line for a table: `start`, `slot 1 done`, `clean+invalidate · AS 0`. At most 120
    /// characters.
    #[must_use]
    pub fn describe(&self, value: u64) -> String {
        self.describe_part(value, u64::MAX)
    }

    /// Describes only the bits of `mask`, in position; fields that are not completely inside it are shown as bits.
    #[must_use]
    pub fn describe_part(&self, value: u64, mask: u64) -> String {
        self.describe_part_in(value, mask, Direction::Read)
    }

    /// Same as [`Layout::describe_part`], for a read or a write.
    #[must_use]
    pub fn describe_part_in(&self, value: u64, mask: u64, direction: Direction) -> String {
        let value = value & mask;
        let all = mask & self.inside(0) == self.inside(0);
        if value == 0 && !self.zero.is_empty() && all {
            return self.zero.clone();
        }
        let bits = |f: &Field| low_bits(f.width()).checked_shl(f.lo).unwrap_or(0);
        let whole = |f: &&Field| all || bits(f) & mask == bits(f);
        let mut parts: Vec<String> = Vec::new();
        if let [only] = self.fields.as_ref()
            && only.say.is_empty()
        {
            parts.extend(Some(only).filter(whole).map(|f| f.text_in(f.extract(value), direction)));
        } else {
            let report = self.fields.iter().filter(whole);
            parts.extend(report.filter_map(|f| f.describe_known(f.extract(value), direction)));
        }
        let known = if all {
            self.known(0)
        } else {
            self.fields.iter().filter(whole).fold(0, |k, f| k | bits(f))
        };
        let rest = value & !known;
        if rest != 0 {
            parts.push(if parts.is_empty() {
                format!("{rest:#x}")
            } else {
                format!("+{rest:#x}")
            });
        }
        if parts.is_empty() {
            return if value == 0 {
                "0".to_owned()
            } else {
                format!("{value:#x}")
            };
        }
        short(parts.join(" · "))
    }
}

/// Cuts a line to 120 characters.
pub(super) fn short(line: String) -> String {
    match line.char_indices().nth(119) {
        Some((at, _)) if line.chars().count() > 120 => format!("{}…", &line[..at]),
        _ => line,
    }
}
