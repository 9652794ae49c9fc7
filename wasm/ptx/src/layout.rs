//! The one description of a warp's area: regions, control words, and how a host reads and writes a copy.

mod regions;

pub use regions::{GlobalCell, LayoutBuilder, MemoryRegion, TableRegion};

use crate::values::{GlobalId, MemoryId, TableId};

/// Copies of a warp.
pub const LANES: u32 = 32;
/// Bytes of a cell of the control region, of globals, tables and the continuation stack.
pub const CONTROL_CELL: u64 = 4;
/// Bytes between two words of one copy in these regions.
pub const WORD_STRIDE: u64 = CONTROL_CELL * LANES as u64;
/// Bytes of a page of WebAssembly.
pub const PAGE_BYTES: u64 = 1 << 16;
/// Name of the kernel in the text.
pub const ENTRY_NAME: &str = "kinescope_wasm_run";
/// The second line of each text: programs that run kernels on the host find it by this line.
pub const TEXT_MARKER: &str = "// kinescope wasm 1";
/// Threads of a block: one warp, so that few copies use all multiprocessors. The text says `.maxntid` with it.
pub const BLOCK_THREADS: u32 = 32;
/// Blocks that a multiprocessor holds at least: the assembler uses no more than 128 registers for a thread.
///
/// Programs that need more spill a few of them outside of their loops, and twice as many copies run at the same time.
pub const RESIDENT_BLOCKS: u32 = 16;
/// Registers of a thread at most, for the blocks of [`RESIDENT_BLOCKS`] to fit: a multiprocessor has 65,536. The text says it
/// of the kernel; functions cannot say it, so that the assembler must get it as its option.
pub const MAX_REGISTERS: u32 = 65_536 / (BLOCK_THREADS * RESIDENT_BLOCKS);
/// Bytes of the launch block.
pub const LAUNCH_BYTES: usize = 40;
/// Value of [`Word::Function`] for "instantiate only".
pub const NO_FUNCTION: u32 = u32::MAX;
/// Control words before the argument slots.
pub const CONTROL_WORDS: u32 = 17;

/// State of a copy, the value of [`Word::State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CopyState {
    /// No copy: threads leave at once.
    Empty = 0,
    /// Instantiate from [`Word::Step`] on, then call [`Word::Function`].
    Fresh = 1,
    /// Call [`Word::Function`] with the arguments.
    Ready = 2,
    /// Suspended by an empty slice, or the host has answered a host function: resume.
    Suspended = 3,
    /// The function has returned: results are in the argument slots.
    Returned = 4,
    /// Trapped: see the trap words.
    Trapped = 5,
    /// Waits for [`Word::HostFunction`] with its arguments in the slots.
    ///
    /// The host writes the results to the slots and sets [`CopyState::Suspended`].
    Waiting = 6,
    /// A terminal host function was called, such as `proc_exit`; its arguments are in the slots.
    Exited = 7,
}

impl CopyState {
    /// Returns the state with number `code`, or `None` if there is none.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Empty,
            1 => Self::Fresh,
            2 => Self::Ready,
            3 => Self::Suspended,
            4 => Self::Returned,
            5 => Self::Trapped,
            6 => Self::Waiting,
            7 => Self::Exited,
            _ => return None,
        })
    }

    /// Returns true if a launch runs copies in this state.
    pub const fn is_runnable(self) -> bool {
        matches!(self, Self::Fresh | Self::Ready | Self::Suspended)
    }
}

/// A control word of a copy: 32 bits. The number is its index in the control region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Word {
    /// A [`CopyState`].
    State = 0,
    /// Number of an [`crate::EntryPoint`], or [`NO_FUNCTION`].
    Function = 1,
    /// Next step of the instantiation: 0 for a new copy, or a value of [`crate::Program::first_steps`].
    Step = 2,
    /// A [`crate::TrapKind`].
    TrapKind = 3,
    /// The [`crate::FunctionId`] that trapped, or [`NO_FUNCTION`] during instantiation.
    TrapFunction = 4,
    /// Byte offset of the instruction in its module's file.
    TrapOffset = 5,
    /// Index in [`crate::Program::host_functions`].
    HostFunction = 6,
    /// Low half of the fuel left for the copy's life.
    FuelLow = 7,
    /// High half of the fuel left.
    FuelHigh = 8,
    /// Fuel left of the slice. Only the kernel uses it.
    Slice = 9,
    /// Maximum number of nested calls of recursive functions. The host sets it before the first launch.
    DepthLimit = 10,
    /// Bytes used of the continuation stack: 0 for a new copy.
    ContinuationBytes = 11,
    /// Low half of the address of the constants. The kernel sets it.
    ConstantsLow = 12,
    /// High half of the address of the constants.
    ConstantsHigh = 13,
    /// Low half of the address of the counters. The kernel sets it.
    CountersLow = 14,
    /// High half of the address of the counters.
    CountersHigh = 15,
    /// Reserve in pages of the memory of [`Layout::reserved_memory`]. The host sets it before the first launch.
    ReservePages = 16,
}

/// Byte offset in the area of a warp, of the copy in lane 0 where it names a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AreaOffset(pub u64);

/// Byte offset in the buffer of all areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferOffset(pub u64);

/// Where everything stands in the area of a warp.
///
/// A copy is numbered from 0; its warp is `copy / 32`, its lane `copy % 32`.
/// Methods that take a copy multiply without a check: the host keeps `copies * area_bytes` below 2^63.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) arguments: u32,
    pub(crate) continuation: AreaOffset,
    pub(crate) continuation_bytes: u32,
    pub(crate) memories: Vec<MemoryRegion>,
    pub(crate) globals: Vec<Option<GlobalCell>>,
    pub(crate) tables: Vec<Option<TableRegion>>,
    pub(crate) area_bytes: u64,
    pub(crate) reserved: Option<MemoryId>,
}

impl Layout {
    /// Returns the distance of two areas in bytes, a multiple of 512.
    pub const fn area_bytes(&self) -> u64 {
        self.area_bytes
    }

    /// Returns the memory whose reserve the host chooses, with [`crate::Options::late_reserve`].
    ///
    /// Growth beyond the reserve, but inside of the maximum, traps with [`crate::TrapKind::MemoryReserve`].
    pub const fn reserved_memory(&self) -> Option<MemoryId> {
        self.reserved
    }

    /// Returns the layout with another reserve of [`Layout::reserved_memory`]: smaller areas for programs that need less.
    ///
    /// `pages` is raised to the size at instantiation, and lowered to the maximum of this layout. A layout without such
    /// a memory does not change. The text is the same for all reserves.
    #[must_use]
    pub fn with_reserve(&self, pages: u32) -> Self {
        let mut layout = self.clone();
        let found = self.reserved.and_then(|id| layout.memories.get_mut(id.0 as usize));
        if let Some(region) = found {
            region.max_pages = pages.min(region.max_pages).max(region.min_pages);
            // The memory is the last one of the area.
            layout.area_bytes = regions::align_area(region.start.0 + region.capacity() * u64::from(LANES));
        }
        layout
    }

    /// Returns the bytes of the areas of `copies` copies.
    pub const fn bytes_of_copies(&self, copies: u32) -> u64 {
        (copies.div_ceil(LANES) as u64).saturating_mul(self.area_bytes)
    }

    /// Returns the number of argument and result slots, 64 bits each.
    pub const fn arguments(&self) -> u32 {
        self.arguments
    }

    /// Returns the capacity of the continuation stack of a copy in bytes.
    pub const fn continuation_bytes(&self) -> u32 {
        self.continuation_bytes
    }

    /// Returns the regions of all memories, by [`MemoryId`].
    pub fn memories(&self) -> &[MemoryRegion] {
        &self.memories
    }

    /// Returns the region of `memory`.
    pub fn memory(&self, memory: MemoryId) -> Option<&MemoryRegion> {
        self.memories.get(memory.0 as usize)
    }

    /// Returns the cell of `global`, or `None` if the global never changes.
    pub fn global(&self, global: GlobalId) -> Option<GlobalCell> {
        self.globals.get(global.0 as usize).copied().flatten()
    }

    /// Returns the region of `table`, or `None` if all copies share the table.
    pub fn table(&self, table: TableId) -> Option<TableRegion> {
        self.tables.get(table.0 as usize).copied().flatten()
    }

    /// Returns the start of the area of `copy`'s warp.
    pub const fn area(&self, copy: u32) -> BufferOffset {
        BufferOffset((copy / LANES) as u64 * self.area_bytes)
    }

    /// Returns the position of a cell of 4 bytes of `copy`: a control word, a slot's half, a global, a table entry.
    pub const fn cell(&self, copy: u32, cell: AreaOffset) -> BufferOffset {
        BufferOffset(self.area(copy).0 + cell.0 + (copy % LANES) as u64 * CONTROL_CELL)
    }

    /// Returns the position of a control word of `copy`.
    pub const fn word(&self, copy: u32, word: Word) -> BufferOffset {
        self.cell(copy, word.offset())
    }

    /// Returns the positions of the low and the high half of an argument or result slot of `copy`.
    ///
    /// `slot` is below [`Layout::arguments`].
    pub const fn argument(&self, copy: u32, slot: u32) -> [BufferOffset; 2] {
        let low = argument_offset(slot);
        [self.cell(copy, low), self.cell(copy, AreaOffset(low.0 + WORD_STRIDE))]
    }

    /// Returns the position of the word that holds the current size of `memory` in pages.
    pub fn pages_word(&self, copy: u32, memory: MemoryId) -> Option<BufferOffset> {
        Some(self.cell(copy, self.memory(memory)?.pages_word))
    }

    /// Returns the position of byte `address` of a memory of `copy`. The caller checks the bounds.
    pub fn memory_byte(&self, copy: u32, memory: &MemoryRegion, address: u32) -> BufferOffset {
        BufferOffset(self.area(copy).0 + memory.byte_offset(copy % LANES, address).0)
    }

    /// Returns the runs of buffer bytes that hold `bytes` bytes from `address` on of a memory of `copy`, in order.
    ///
    /// A host gathers or scatters the bytes of one copy with them. The caller checks the bounds.
    pub fn memory_runs<'a>(
        &self,
        copy: u32,
        memory: &'a MemoryRegion,
        address: u32,
        bytes: u32,
    ) -> impl Iterator<Item = Run> + use<'a> {
        let area = self.area(copy).0;
        let end = u64::from(address) + u64::from(bytes);
        let mut at = u64::from(address);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let run = memory.run_bytes(at).min(end - at);
            // `at` is below the end of 32-bit addresses, because runs end at cells.
            let offset = memory.byte_offset(copy % LANES, u32::try_from(at).ok()?);
            at += run;
            Some(Run {
                start: BufferOffset(area + offset.0),
                bytes: run,
            })
        })
    }
}

/// Bytes that stand next to each other in the buffer of areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First byte.
    pub start: BufferOffset,
    /// Length in bytes.
    pub bytes: u64,
}

impl Word {
    /// Returns the offset of the word of lane 0 in an area.
    pub const fn offset(self) -> AreaOffset {
        AreaOffset(self as u64 * WORD_STRIDE)
    }
}

/// Returns the offset of the low half of argument slot `slot` of lane 0; the high half is [`WORD_STRIDE`] behind it.
pub const fn argument_offset(slot: u32) -> AreaOffset {
    AreaOffset((CONTROL_WORDS as u64 + 2 * slot as u64) * WORD_STRIDE)
}

/// The block in global memory that a launch points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBlock {
    /// Device address of the areas, aligned to 512.
    pub areas: u64,
    /// Device address of [`crate::Program::constants`], aligned to 16.
    pub constants: u64,
    /// Device address of the counters, aligned to 16, or 0.
    pub counters: u64,
    /// Number of copies: threads beyond it leave at once.
    pub copies: u32,
    /// Steps of one launch of a copy, at least 1, at most 2^31 - 1.
    pub slice: u32,
    /// Distance of two areas in bytes: [`Layout::area_bytes`] of the layout that the host uses.
    pub area_bytes: u64,
}

impl LaunchBlock {
    /// Returns the bytes of the block in the order that the kernel reads.
    pub fn encode(&self) -> [u8; LAUNCH_BYTES] {
        let mut block = [0; LAUNCH_BYTES];
        block[0..8].copy_from_slice(&self.areas.to_le_bytes());
        block[8..16].copy_from_slice(&self.constants.to_le_bytes());
        block[16..24].copy_from_slice(&self.counters.to_le_bytes());
        block[24..28].copy_from_slice(&self.copies.to_le_bytes());
        block[28..32].copy_from_slice(&self.slice.to_le_bytes());
        block[32..40].copy_from_slice(&self.area_bytes.to_le_bytes());
        block
    }

    /// Returns the number of blocks of [`BLOCK_THREADS`] threads of the launch.
    pub const fn grid_blocks(&self) -> u32 {
        self.copies.div_ceil(BLOCK_THREADS)
    }
}
