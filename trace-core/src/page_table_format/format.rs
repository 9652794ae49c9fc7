//! The description of a page-table format in memory: addresses, memories, rights, levels.

use super::table::TableKind;
use crate::GpuVa;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum size of the text of a description, bytes.
pub const MAX_FORMAT_BYTES: usize = 64 << 10;
/// Maximum number of levels.
pub const MAX_LEVELS: usize = 8;
/// Maximum number of address bits that index a table.
pub const MAX_INDEX_BITS: u32 = 24;

/// A memory that an entry can point to. A dump holds one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryName {
    /// Memory of the GPU.
    Video,
    /// Memory of the machine.
    System,
    /// Memory of another GPU.
    Peer,
    /// Another memory.
    Other,
}

impl MemoryName {
    /// All memories.
    pub const ALL: [Self; 4] = [Self::Video, Self::System, Self::Peer, Self::Other];

    /// Returns the name in files, JSON and arguments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::System => "system",
            Self::Peer => "peer",
            Self::Other => "other",
        }
    }

    /// Returns the memory of this name, or `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|memory| memory.name() == name)
    }
}

impl fmt::Display for MemoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} memory", self.name())
    }
}

/// The bits of a 64-bit address above those that the tables translate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressExtension {
    /// All are zero.
    #[default]
    Zero,
    /// All equal the highest translated bit.
    Sign,
    /// All are one.
    Ones,
}

/// A condition of an entry: one of at most two bit patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RightCondition {
    pub first: (u64, u64),
    pub second: Option<(u64, u64)>,
}

impl RightCondition {
    pub const NEVER: Self = Self {
        first: (0, 1),
        second: None,
    };
    pub const ALWAYS: Self = Self {
        first: (0, 0),
        second: None,
    };

    #[inline]
    pub fn holds(&self, raw: u64) -> bool {
        raw & self.first.0 == self.first.1 || self.second.is_some_and(|(mask, value)| raw & mask == value)
    }

    /// Returns the bits that the condition reads.
    pub fn mask(&self) -> u64 {
        self.first.0 | self.second.map_or(0, |s| s.0)
    }
}

/// A format of page tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTableFormat {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) address_bits: u8,
    pub(super) extension: AddressExtension,
    pub(super) root: u8,
    pub(super) memory: Option<MemoryName>,
    pub(super) entry_layout: String,
    pub(super) restricting: bool,
    /// Bits that a leaf must have; 0 if the format has no access flag.
    pub(super) access_flag: u64,
    pub(super) read: RightCondition,
    pub(super) write: RightCondition,
    pub(super) execute: RightCondition,
    pub(super) has_execute: bool,
    pub(super) tables: Vec<TableKind>,
    /// For each level, the numbers of its kinds of tables.
    pub(super) levels: Vec<Vec<u8>>,
    pub(super) sources: Vec<String>,
}

impl PageTableFormat {
    /// Returns the name in JSON, arguments and plans.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name in the window.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the number of address bits that the tables translate.
    #[inline]
    #[must_use]
    pub fn address_bits(&self) -> u32 {
        u32::from(self.address_bits)
    }

    /// Returns the meaning of the address bits above.
    #[must_use]
    pub fn extension(&self) -> AddressExtension {
        self.extension
    }

    /// Returns the memory that a dump holds; `None` if the format has one memory.
    #[inline]
    #[must_use]
    pub fn memory(&self) -> Option<MemoryName> {
        self.memory
    }

    /// Returns the name of the layout of an entry in register maps; empty if the fields of the description are used.
    #[must_use]
    pub fn entry_layout(&self) -> &str {
        &self.entry_layout
    }

    /// Returns the number of the kind of the top table.
    #[inline]
    #[must_use]
    pub fn root(&self) -> u8 {
        self.root
    }

    /// Returns the kinds of tables.
    #[inline]
    #[must_use]
    pub fn tables(&self) -> &[TableKind] {
        &self.tables
    }

    /// Returns the number of levels.
    #[must_use]
    pub fn levels(&self) -> u8 {
        self.levels.len() as u8
    }

    /// Returns the size of the addresses that an entry of a level covers, bytes. Tables of one level may differ: then the
    /// smallest counts. Levels past the last one count as the last.
    #[must_use]
    pub fn level_span_bytes(&self, level: u8) -> u64 {
        let shift = self.tables_at(level).map(|(_, table)| table.shift).min();
        1 << shift.unwrap_or(12)
    }

    /// Returns the kinds of tables of a level with their numbers. Levels past the last one count as the last.
    pub fn tables_at(&self, level: u8) -> impl Iterator<Item = (u8, &TableKind)> {
        let numbers = self.levels.get(usize::from(level)).or(self.levels.last());
        let numbers = numbers.map(Vec::as_slice).unwrap_or_default();
        numbers
            .iter()
            .filter_map(|n| Some((*n, self.tables.get(usize::from(*n))?)))
    }

    /// Whether rights of a table restrict those of the pages below.
    #[inline]
    #[must_use]
    pub fn is_restricting(&self) -> bool {
        self.restricting
    }

    /// Whether entries say if a page can be executed.
    #[must_use]
    pub fn has_execute(&self) -> bool {
        self.has_execute
    }

    /// Whether the hardware accepts the access flag of a leaf entry; always true for formats without one.
    #[inline]
    #[must_use]
    pub fn has_access_flag(&self, raw: u64) -> bool {
        raw & self.access_flag == self.access_flag
    }

    /// Returns whether an entry allows reads, writes and execution.
    #[inline]
    #[must_use]
    pub fn rights(&self, raw: u64) -> (bool, bool, bool) {
        (self.read.holds(raw), self.write.holds(raw), self.execute.holds(raw))
    }

    /// Returns the bits of an entry that its rights and its access flag read.
    #[must_use]
    pub fn rights_mask(&self) -> u64 {
        self.read.mask() | self.write.mask() | self.execute.mask() | self.access_flag
    }

    /// Returns where the facts of the description are from.
    #[must_use]
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Returns the translated bits of an address, or `None` if the bits above are not as the format has them.
    #[inline]
    #[must_use]
    pub fn translated_bits(&self, va: GpuVa) -> Option<GpuVa> {
        let low = va.get() & self.address_mask();
        (self.extend(low) == va).then_some(GpuVa::new(low))
    }

    #[inline]
    fn address_mask(&self) -> u64 {
        u64::MAX >> (64 - u32::from(self.address_bits))
    }

    /// Returns the 64-bit address of translated bits.
    #[inline]
    #[must_use]
    pub fn extend(&self, low: u64) -> GpuVa {
        let mask = self.address_mask();
        GpuVa::new(match self.extension {
            AddressExtension::Zero => low,
            AddressExtension::Ones => low | !mask,
            AddressExtension::Sign if low >> (self.address_bits - 1) & 1 != 0 => low | !mask,
            AddressExtension::Sign => low,
        })
    }

    /// Returns the alignment of the top table, bytes: its size, at most a page.
    #[must_use]
    pub fn root_alignment(&self) -> u64 {
        let bytes = self
            .tables
            .get(usize::from(self.root))
            .map_or(4096, |t| t.entries() << t.stride_log);
        bytes.min(4096)
    }
}
