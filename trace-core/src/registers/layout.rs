//! Bit fields of values of any size, and their decoder.

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
        // Most lists have every value from 0 on.
        let direct = usize::try_from(value).ok().and_then(|at| self.names.get(at));
        match direct {
            Some((known, name)) if *known == value => Some(name),
            _ => find_text(&self.names, value),
        }
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
pub(super) fn low_bits(n: u32) -> u64 {
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
        let mut out = String::new();
        self.write_text(value, self.values(direction), &mut out);
        out
    }
}

impl Layout {
    /// Returns the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Returns the bits of a 64-bit word of the value that fields describe.
    pub(super) fn known(&self, word: u32) -> u64 {
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
    pub(super) fn inside(&self, word: u32) -> u64 {
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
}
