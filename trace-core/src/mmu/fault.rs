//! The reasons why an address does not translate, and why tables cannot be traversed.

use super::leaf::Leaf;
use super::limits::{MAX_ENTRIES, MAX_LEAVES, MAX_TABLES};
use crate::page_table_format::MemoryName;
use crate::{GpuVa, PhysAddr};

/// The reason why an address does not translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkFault {
    /// The entry at this level is invalid.
    #[error("nothing is mapped (level {level})")]
    NotMapped {
        /// Level of the entry, 0 is the top.
        level: u8,
    },
    /// The table has no recorded content.
    #[error("the level {level} table at {at} has no content")]
    TableMissing {
        /// Level of the table, 0 is the top.
        level: u8,
        /// Address of the table.
        at: PhysAddr,
    },
    /// The table is in a memory that the recording does not hold.
    #[error("the level {level} table at {at} is in {memory}, which the recording does not hold")]
    TableElsewhere {
        /// Level of the table, 0 is the top.
        level: u8,
        /// Address of the table.
        at: PhysAddr,
        /// The memory.
        memory: MemoryName,
    },
    /// The page is in a memory that the recording does not hold.
    #[error("the page at {} is in {memory}, which the recording does not hold", leaf.pa)]
    PageElsewhere {
        /// The page or block.
        leaf: Leaf,
        /// The memory.
        memory: MemoryName,
    },
    /// The entry has a type that is invalid at its level.
    #[error("entry {raw:#x} is not valid at level {level}")]
    BadEntry {
        /// Level of the entry, 0 is the top.
        level: u8,
        /// The entry.
        raw: u64,
    },
    /// The leaf lacks the access flag, which the hardware reports as a separate fault.
    #[error("entry {raw:#x} at level {level} lacks the access flag")]
    NoAccessFlag {
        /// Level of the entry, 0 is the top.
        level: u8,
        /// The entry.
        raw: u64,
    },
    /// The address has other bits than the tables translate.
    #[error("the address is none of {bits} bits")]
    AddressTooWide {
        /// Number of address bits that the tables translate.
        bits: u8,
    },
}

/// The reason why a table cannot be traversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MmuError {
    /// A table is reached a second time: it is shared, or the tables form a loop.
    #[error(
        "the level {level} table at {at}, for addresses from {va}, was reached before: tables are shared or form a \
             loop"
    )]
    Shared {
        /// Level of the second visit.
        level: u8,
        /// Address of the table.
        at: PhysAddr,
        /// First address that it would translate.
        va: GpuVa,
    },
    /// A table, or a part of one, has no recorded content.
    #[error("the level {level} table at {at}, for addresses from {va}, has no content")]
    TableMissing {
        /// Level of the table.
        level: u8,
        /// Address of the table, or of its first entry without content.
        at: PhysAddr,
        /// First address that it would translate.
        va: GpuVa,
    },
    /// A table is in a memory that the recording does not hold.
    #[error(
        "the level {level} table at {at}, for addresses from {va}, is in {memory}, which the recording does not hold"
    )]
    TableElsewhere {
        /// Level of the table.
        level: u8,
        /// Address of the table.
        at: PhysAddr,
        /// First address that it would translate.
        va: GpuVa,
        /// The memory.
        memory: MemoryName,
    },
    /// An entry has a type that is invalid at its level.
    #[error("entry {raw:#x} for {va} is not valid at level {level}")]
    BadEntry {
        /// Level of the entry.
        level: u8,
        /// First address that the entry covers.
        va: GpuVa,
        /// The entry.
        raw: u64,
    },
    /// There are more tables than the traversal limit.
    #[error("more than {MAX_TABLES} tables")]
    TooManyTables,
    /// The tables have more entries than the traversal limit.
    #[error("the tables have more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// There are more pages and blocks than the traversal limit.
    #[error("more than {MAX_LEAVES} pages and blocks are mapped")]
    TooManyLeaves,
}
