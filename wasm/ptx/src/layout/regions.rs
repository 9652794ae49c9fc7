//! The regions of an area, and the builder that assigns their offsets.

use super::{AreaOffset, CONTROL_CELL, LANES, Layout, PAGE_BYTES, WORD_STRIDE, argument_offset};
use crate::error::TranslateError;
use crate::options::{CellSize, Placement};
use crate::values::MemoryId;

/// Maximum number of bytes of an area: 32 memories of 4 GiB.
const MAX_AREA_BYTES: u64 = 1 << 38;

/// Maximum number of bytes of control words, globals and tables of an area.
const MAX_CELL_BYTES: u64 = 1 << 30;
/// Maximum number of bytes of a continuation stack.
const MAX_CONTINUATION_BYTES: u32 = 16 << 20;

/// A memory in the area of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// First byte of the region.
    pub start: AreaOffset,
    /// Interleaved or contiguous.
    pub placement: Placement,
    /// Cell size, if the placement is interleaved.
    pub cell: CellSize,
    /// Size at instantiation in pages.
    pub min_pages: u32,
    /// Reserve of a copy in pages: the memory never grows beyond it.
    pub max_pages: u32,
    /// Cell of the current size in pages.
    pub pages_word: AreaOffset,
}

impl MemoryRegion {
    /// Returns the reserve of a copy in bytes.
    pub const fn capacity(&self) -> u64 {
        self.max_pages as u64 * PAGE_BYTES
    }

    /// Returns the offset of byte `address` of the copy in `lane`.
    pub const fn byte_offset(&self, lane: u32, address: u32) -> AreaOffset {
        let address = address as u64;
        AreaOffset(match self.placement {
            Placement::Contiguous => self.start.0 + lane as u64 * self.capacity() + address,
            Placement::Interleaved => {
                let cell = self.cell.bytes() as u64;
                self.start.0 + address / cell * cell * LANES as u64 + lane as u64 * cell + address % cell
            }
        })
    }

    /// Returns how many bytes from `address` on stand next to each other.
    pub const fn run_bytes(&self, address: u64) -> u64 {
        match self.placement {
            Placement::Contiguous => u64::MAX - address,
            Placement::Interleaved => {
                let cell = self.cell.bytes() as u64;
                cell - address % cell
            }
        }
    }
}

/// A table in the area of a warp: one cell of 4 bytes for each element.
///
/// An element is 0 for null, or the number of a function plus 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRegion {
    /// Cell of element 0.
    pub start: AreaOffset,
    /// Number of elements.
    pub elements: u32,
}

impl TableRegion {
    /// Returns the cell of element `index`. The caller checks the bounds.
    pub const fn element(&self, index: u32) -> AreaOffset {
        AreaOffset(self.start.0 + index as u64 * WORD_STRIDE)
    }
}

/// The cell of a global that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalCell {
    /// The cell, or the low half of a global of 64 bits.
    pub low: AreaOffset,
    /// The high half of a global of 64 bits.
    pub high: Option<AreaOffset>,
}

/// Returns the distance of areas with `bytes` bytes.
pub(super) const fn align_area(bytes: u64) -> u64 {
    bytes.next_multiple_of(512)
}

/// Assigns offsets in the order of addition, so that later items never move earlier ones.
#[derive(Clone, Debug)]
pub struct LayoutBuilder {
    next: u64,
    first_cell: u64,
    layout: Layout,
}

impl LayoutBuilder {
    /// Starts a layout with control words, `arguments` slots and a continuation stack.
    ///
    /// # Errors
    ///
    /// Fails if the continuation stack exceeds 16 MiB.
    pub fn new(arguments: u32, continuation_bytes: u32) -> Result<Self, TranslateError> {
        if continuation_bytes > MAX_CONTINUATION_BYTES {
            return Err(TranslateError::Limit {
                what: "bytes of a continuation stack",
                count: u64::from(continuation_bytes),
                limit: u64::from(MAX_CONTINUATION_BYTES),
            });
        }
        let continuation_bytes = continuation_bytes.max(64) & !3;
        let continuation = argument_offset(arguments);
        let next = continuation.0 + u64::from(continuation_bytes) * u64::from(LANES);
        Ok(Self {
            next,
            first_cell: next,
            layout: Layout {
                arguments,
                continuation,
                continuation_bytes,
                memories: Vec::new(),
                globals: Vec::new(),
                tables: Vec::new(),
                area_bytes: 0,
                reserved: None,
            },
        })
    }

    /// Adds one cell of 4 bytes and returns it.
    pub fn add_cell(&mut self) -> AreaOffset {
        let cell = AreaOffset(self.next);
        self.next += WORD_STRIDE;
        cell
    }

    /// Adds a global: `None` if it never changes.
    pub fn add_global(&mut self, wide: Option<bool>) {
        let cell = wide.map(|wide| GlobalCell {
            low: self.add_cell(),
            high: wide.then(|| self.add_cell()),
        });
        self.layout.globals.push(cell);
    }

    /// Adds a table with `elements` elements: `None` if all copies share it.
    pub fn add_table(&mut self, elements: Option<u32>) {
        let region = elements.map(|elements| {
            let region = TableRegion {
                start: AreaOffset(self.next),
                elements,
            };
            self.next += u64::from(elements) * WORD_STRIDE;
            region
        });
        self.layout.tables.push(region);
    }

    /// Ends the cells and tables: memories follow. `spare` cells at least are kept for later instances.
    ///
    /// # Errors
    ///
    /// Fails if the cells exceed 1 GiB: instructions hold their offsets in 32 bits.
    pub fn end_cells(&mut self, spare: u32) -> Result<(), TranslateError> {
        self.next = self.next.max(self.first_cell + u64::from(spare) * WORD_STRIDE);
        if self.next > MAX_CELL_BYTES {
            return Err(TranslateError::Limit {
                what: "bytes of the globals and tables of 32 copies",
                count: self.next,
                limit: MAX_CELL_BYTES,
            });
        }
        Ok(())
    }

    /// Adds a memory. `pages_word` is a cell that was added for its size.
    ///
    /// `number` is the number of the memory: memories are added in any order, each once.
    pub fn add_memory(
        &mut self,
        number: usize,
        placement: Placement,
        cell: CellSize,
        min_pages: u32,
        max_pages: u32,
        pages_word: AreaOffset,
    ) {
        let align = match placement {
            Placement::Interleaved => u64::from(cell.bytes()) * u64::from(LANES),
            Placement::Contiguous => CONTROL_CELL * u64::from(LANES),
        };
        self.next = self.next.next_multiple_of(align);
        let region = MemoryRegion {
            start: AreaOffset(self.next),
            placement,
            cell,
            min_pages,
            max_pages,
            pages_word,
        };
        if self.layout.memories.len() <= number {
            // The others replace these copies.
            self.layout.memories.resize(number + 1, region);
        }
        self.layout.memories[number] = region;
        // At most 32 * 2^32 bytes each; `finish` checks the sum.
        self.next = self
            .next
            .saturating_add(u64::from(max_pages) * PAGE_BYTES * u64::from(LANES));
    }

    /// Makes the memory that was added last the one whose reserve the host chooses; it has the number `memory`.
    pub fn reserve_late(&mut self, memory: MemoryId) {
        self.layout.reserved = Some(memory);
    }

    /// Returns the layout so far, for offsets of what was added.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the layout.
    ///
    /// # Errors
    ///
    /// Fails if an area would exceed 256 GiB.
    pub fn finish(mut self) -> Result<Layout, TranslateError> {
        if self.next > MAX_AREA_BYTES {
            return Err(TranslateError::Limit {
                what: "bytes of the area of 32 copies",
                count: self.next,
                limit: MAX_AREA_BYTES,
            });
        }
        self.layout.area_bytes = align_area(self.next);
        Ok(self.layout)
    }
}
