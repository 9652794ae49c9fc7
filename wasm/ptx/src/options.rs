//! The choices of a translation: memory layout, limits of a copy, counters.

/// Where the bytes of a memory stand in the area of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Cells of [`CellSize`] bytes, cell by cell across the 32 copies of a warp.
    Interleaved,
    /// Each copy's memory is one block: host inputs and outputs, which are copied whole.
    ///
    /// The host fills it before the first launch: instantiation does not clear it.
    Contiguous,
}

/// Bytes of one copy that stand next to each other in an interleaved memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellSize {
    /// Four bytes: uniform accesses of 32 bits are one transaction of a warp.
    Four,
    /// Eight bytes: one load for 64 bits.
    Eight,
    /// Sixteen bytes: least traffic when copies read different addresses.
    Sixteen,
}

impl CellSize {
    /// Returns the size in bytes: 4, 8 or 16.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }
}

/// Where a copy may suspend when its slice of fuel is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suspension {
    /// Only in functions from which a host function is reachable: all others keep the hardware stack.
    ResumableFunctions,
    /// In each function that has a loop or is recursive, and in its callers.
    Everywhere,
}

/// Choices that hold for a whole program.
#[derive(Clone, Debug)]
pub struct Options {
    /// Cell size of interleaved memories.
    pub cell: CellSize,
    /// Pages of 64 KiB that a memory may grow beyond its minimum, if its declared maximum allows it.
    pub growth_pages: u32,
    /// Bytes of the continuation stack of a copy: frames of suspended functions.
    pub continuation_bytes: u32,
    /// Count steps (loop headers and function entries). Without fuel a copy runs until it ends or stops.
    pub fuel: bool,
    /// Where an empty slice suspends a copy.
    pub suspension: Suspension,
    /// Count executions and active lanes of blocks, see [`crate::Block`].
    pub counters: bool,
    /// Keep all tables in the area of a copy. By default a table that no instruction changes is shared by all copies.
    ///
    /// A host that adds instances to a living program needs it: a shared table shows later elements at once.
    pub tables_in_area: bool,
    /// Run the start functions after the instantiation of all instances, not each after its own.
    ///
    /// A start function can then call functions of a later instance, such as the system calls.
    pub late_starts: bool,
    /// Accept several tables and element expressions, which the reference types extension adds. Values of reference
    /// types are refused all the same.
    pub several_tables: bool,
    /// The host chooses the reserve of the first interleaved memory that can grow at each launch, see
    /// [`crate::Layout::with_reserve`]. Growth beyond it traps with [`crate::TrapKind::MemoryReserve`].
    pub late_reserve: bool,
    /// Cells of 4 bytes that stay free for globals and tables of later instances, so that memories keep their offsets.
    pub spare_cells: u32,
    /// Minimum number of argument and result slots of a copy, so that later instances keep the layout.
    pub min_arguments: u32,
    /// Maximum size of the PTX text in bytes, at most [`crate::MAX_TEXT_BYTES`].
    pub max_text_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cell: CellSize::Four,
            growth_pages: 16,
            continuation_bytes: 16 << 10,
            fuel: true,
            suspension: Suspension::ResumableFunctions,
            counters: false,
            tables_in_area: false,
            late_starts: false,
            several_tables: false,
            late_reserve: false,
            spare_cells: 0,
            min_arguments: 32,
            max_text_bytes: crate::MAX_TEXT_BYTES,
        }
    }
}
