//! Kinds of tables: index, parts of entries, rules for them, named fields.

use super::format::MemoryName;
use crate::{GpuVa, PhysAddr};

/// Bits of an entry that form a number: each run of bits with its position in the number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitPlacement {
    /// The bits of the entry that are used.
    pub(super) mask: u64,
    /// The first run, and the further ones.
    pub(super) first: BitRun,
    pub(super) more: Vec<BitRun>,
}

/// Adjacent bits of an entry, and the position of the lowest in a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BitRun {
    pub mask: u64,
    pub low: u8,
    pub at: u8,
}

impl BitRun {
    #[inline]
    fn extract(self, raw: u64) -> u64 {
        (raw & self.mask) >> self.low << self.at
    }
}

impl BitPlacement {
    /// Returns the number in an entry.
    #[inline]
    #[must_use]
    pub fn extract(&self, raw: u64) -> u64 {
        let first = self.first.extract(raw);
        if self.more.is_empty() {
            return first;
        }
        self.more.iter().fold(first, |sum, run| sum | run.extract(raw))
    }

    /// Returns the bits of an entry that are used.
    #[inline]
    #[must_use]
    pub fn mask(&self) -> u64 {
        self.mask
    }
}

/// The meaning of an entry that a rule describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTarget {
    /// Nothing is mapped by this part of the entry.
    Invalid,
    /// Nothing is mapped, and other parts of the entry above are not tried.
    Hole,
    /// A page or block as large as the part of the address that the entry covers.
    Page,
    /// The table of this number in [`PageTableFormat::tables`].
    Table(u8),
}

/// A rule for the entries of a table: what an entry with certain bits means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRule {
    /// Bits that are compared.
    pub(super) mask: u64,
    /// Their value.
    pub(super) value: u64,
    /// The meaning.
    pub(super) target: RuleTarget,
    /// Physical address of the page or table.
    pub(super) address: BitPlacement,
    /// Memory of the page or table; `None` if the format has one memory.
    pub(super) memory: Option<MemoryName>,
    /// Word for an entry without a page, such as `sparse`; may be empty.
    pub(super) name: String,
}

impl EntryRule {
    /// Returns the meaning of the entry.
    #[inline]
    #[must_use]
    pub fn target(&self) -> RuleTarget {
        self.target
    }

    /// Returns the memory of the page or table; `None` if the format has one memory.
    #[inline]
    #[must_use]
    pub fn memory(&self) -> Option<MemoryName> {
        self.memory
    }

    /// Returns the word for an entry without a page, such as `sparse`; may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address in an entry.
    #[inline]
    #[must_use]
    pub fn address(&self, raw: u64) -> PhysAddr {
        PhysAddr::new(self.address.extract(raw))
    }

    /// Returns the bits of an entry besides its address and the bits that select the rule.
    #[inline]
    #[must_use]
    pub fn other_bits(&self, raw: u64) -> u64 {
        raw & !(self.address.mask | self.mask)
    }
}

/// A part of an entry. Entries of 16 bytes may hold two pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPart {
    /// Offset in the entry, bytes.
    pub(super) offset: u8,
    /// Size, 4 or 8 bytes.
    pub(super) bytes: u8,
    /// Rules, the first that fits counts.
    pub(super) rules: Vec<EntryRule>,
    /// Whether a part of zero bits maps nothing.
    pub(super) zero_is_invalid: bool,
}

impl EntryPart {
    /// Returns the offset in the entry, bytes.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::from(self.offset)
    }

    /// Returns the size, 4 or 8 bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    /// Returns the rules, the first that fits counts.
    #[must_use]
    pub fn rules(&self) -> &[EntryRule] {
        &self.rules
    }

    /// Returns the number of the rule for an entry; `None` if no rule fits: the entry has no meaning.
    #[inline]
    #[must_use]
    pub fn find_rule(&self, raw: u64) -> Option<(u8, &EntryRule)> {
        let mut number = 0u8;
        for rule in &self.rules {
            if raw & rule.mask == rule.value {
                return Some((number, rule));
            }
            number = number.wrapping_add(1);
        }
        None
    }

    /// Whether a part of zero bits maps nothing.
    #[inline]
    #[must_use]
    pub fn is_zero_invalid(&self) -> bool {
        self.zero_is_invalid
    }
}

/// A named field of a leaf entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryField {
    /// Name.
    pub name: String,
    /// Its bits.
    pub bits: BitPlacement,
    /// Names of values.
    pub values: Vec<(u64, String)>,
}

impl EntryField {
    /// Returns the value in an entry as text: its name, `yes` or `no` for a single bit, or a number.
    #[must_use]
    pub fn describe(&self, raw: u64) -> String {
        let value = self.bits.extract(raw);
        if let Some((_, name)) = self.values.iter().find(|(v, _)| *v == value) {
            return name.clone();
        }
        match (self.bits.mask.count_ones(), value) {
            (1, 0) => "no".to_owned(),
            (1, _) => "yes".to_owned(),
            (_, 0..=9) => value.to_string(),
            _ => format!("{value:#x}"),
        }
    }
}

/// A kind of tables: how an address indexes it, and how its entries read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableKind {
    pub(super) name: String,
    /// Lowest address bit of the index.
    pub(super) shift: u8,
    pub(super) index_bits: u8,
    /// Distance of entries, bytes, as a base-2 logarithm.
    pub(super) stride_log: u8,
    pub(super) entry_bytes: u8,
    pub(super) parts: Vec<EntryPart>,
    /// Whether it holds pages alone.
    pub(super) is_last: bool,
    pub(super) attribute: BitPlacement,
    pub(super) fields: Vec<EntryField>,
}

impl TableKind {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size of the addresses that one entry covers, bytes.
    #[inline]
    #[must_use]
    pub fn span_bytes(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the base-2 logarithm of [`TableKind::span_bytes`].
    #[inline]
    #[must_use]
    pub fn shift(&self) -> u32 {
        u32::from(self.shift)
    }

    /// Returns the number of entries.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> u64 {
        1 << self.index_bits
    }

    /// Returns the index of an address.
    #[inline]
    #[must_use]
    pub fn index(&self, va: GpuVa) -> u64 {
        va.get() >> self.shift & (self.entries() - 1)
    }

    /// Returns the distance of entries, bytes.
    #[inline]
    #[must_use]
    pub fn stride(&self) -> u64 {
        1 << self.stride_log
    }

    /// Returns the size of an entry, bytes.
    #[inline]
    #[must_use]
    pub fn entry_bytes(&self) -> u64 {
        u64::from(self.entry_bytes)
    }

    /// Returns the parts of an entry, in the order in which a walk tries them.
    #[inline]
    #[must_use]
    pub fn parts(&self) -> &[EntryPart] {
        &self.parts
    }

    /// Whether the table holds pages alone, and points to no other table.
    #[inline]
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Returns the attribute number of a leaf entry.
    #[inline]
    #[must_use]
    pub fn attribute(&self, raw: u64) -> u8 {
        self.attribute.extract(raw) as u8
    }

    /// Returns the named fields of a leaf entry.
    #[must_use]
    pub fn fields(&self) -> &[EntryField] {
        &self.fields
    }
}
