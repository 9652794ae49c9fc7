//! Memory of one copy, as the kernel addresses it in the area of a warp. Accesses of other copies' cells are faults.

use ptx_interpreter::{AddressSpace, GlobalAddress, Width};
use wasm_ptx::{BufferOffset, LANES, LAUNCH_BYTES, Layout, MemoryRegion, Placement};

/// Address of the launch block.
pub const LAUNCH: u64 = 0x1000;
/// Address of the constants.
pub const CONSTANTS: u64 = 0x1000_0000;
/// Address of the areas.
pub const AREAS: u64 = 0x10_0000_0000;
/// Address of the counters.
pub const COUNTERS: u64 = 0xf_0000_0000;
/// Contents of an area before the first launch: a kernel must initialize what it reads.
const GARBAGE: u8 = 0xa7;
/// Maximum number of bytes of a memory that hold garbage before the first launch; the rest holds zeros, which cost
/// nothing until they are used.
const MAX_GARBAGE: usize = 4 << 16;

/// A range of an area with the same cells.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// First byte in the area.
    start: u64,
    /// Byte behind the range.
    end: u64,
    /// Bytes of a copy that stand together, as a power of two.
    cell_shift: u32,
    /// Capacity of a copy, if its bytes all stand together.
    capacity: Option<u64>,
    /// First byte in the copy's own buffer.
    base: usize,
}

/// Address space of a launch with one copy.
#[derive(Clone, Debug)]
pub struct CopySpace {
    segments: Vec<Segment>,
    last: usize,
    lane: u64,
    /// Address of the area of the copy's warp.
    area: u64,
    bytes: Vec<u8>,
    constants: Vec<u8>,
    /// The launch block.
    pub launch: [u8; LAUNCH_BYTES],
    /// The counters of blocks.
    pub counters: Vec<u8>,
}

impl Segment {
    /// Returns the lane of a byte, and its offset in the copy's own buffer.
    fn locate(&self, offset: u64) -> (u64, usize) {
        let offset = offset - self.start;
        let (lane, inside) = match self.capacity {
            Some(capacity) => (offset / capacity, offset % capacity),
            None => {
                let cell = 1 << self.cell_shift;
                let block = cell * u64::from(LANES);
                let lane = (offset % block) >> self.cell_shift;
                (lane, offset / block * cell + offset % cell)
            }
        };
        (lane, self.base + inside as usize)
    }

    /// Returns the number of bytes from a byte to the end of its cell.
    fn remaining(&self, offset: u64) -> u64 {
        let offset = offset - self.start;
        match self.capacity {
            Some(capacity) => capacity - offset % capacity,
            None => (1 << self.cell_shift) - offset % (1 << self.cell_shift),
        }
    }
}

impl CopySpace {
    /// Returns the memory of a copy with undefined contents.
    pub fn new(layout: &Layout, copy: u32, constants: &[u8]) -> Self {
        let mut space = Self {
            segments: Vec::new(),
            last: 0,
            lane: u64::from(copy % LANES),
            area: 0,
            bytes: Vec::new(),
            constants: Vec::new(),
            launch: [0; LAUNCH_BYTES],
            counters: Vec::new(),
        };
        space.extend(layout, copy, constants);
        space
    }

    /// Takes a layout that has the same items at the same places, and perhaps more.
    pub fn extend(&mut self, layout: &Layout, copy: u32, constants: &[u8]) {
        self.constants = constants.to_vec();
        self.area = AREAS + layout.area(copy).0;
        self.segments.clear();
        let (mut at, mut base) = (0, 0);
        let mut memories: Vec<&MemoryRegion> = layout.memories().iter().filter(|m| m.capacity() > 0).collect();
        memories.sort_by_key(|m| m.start);
        for memory in memories {
            self.push(at, memory.start.0, 2, None, &mut base);
            let end = memory.start.0 + memory.capacity() * u64::from(LANES);
            let capacity = (memory.placement == Placement::Contiguous).then(|| memory.capacity());
            let cell_shift = memory.cell.bytes().trailing_zeros();
            self.push(memory.start.0, end, cell_shift, capacity, &mut base);
            at = end;
        }
        self.push(at, layout.area_bytes(), 2, None, &mut base);
        let used = self.bytes.len();
        if used == 0 {
            self.bytes = vec![0; base];
        } else {
            self.bytes.resize(base, 0);
        }
        for segment in &self.segments {
            let bytes = ((segment.end - segment.start) / u64::from(LANES)) as usize;
            let garbage = segment.base.max(used)..segment.base + bytes.min(MAX_GARBAGE);
            if let Some(new) = self.bytes.get_mut(garbage) {
                new.fill(GARBAGE);
            }
        }
    }

    fn push(&mut self, start: u64, end: u64, cell_shift: u32, capacity: Option<u64>, base: &mut usize) {
        if start < end {
            self.segments.push(Segment {
                start,
                end,
                cell_shift,
                capacity,
                base: *base,
            });
            *base += ((end - start) / u64::from(LANES)) as usize;
        }
    }

    fn segment(&mut self, offset: u64) -> Option<Segment> {
        let holds = |s: &&Segment| s.start <= offset && offset < s.end;
        if let Some(segment) = self.segments.get(self.last).filter(holds) {
            return Some(*segment);
        }
        self.last = self.segments.partition_point(|s| s.end <= offset);
        self.segments.get(self.last).filter(holds).copied()
    }

    /// Returns the index of an access of the copy's own cells.
    fn own(&mut self, address: u64, bytes: u64) -> Option<usize> {
        let offset = address.checked_sub(self.area)?;
        let segment = self.segment(offset)?;
        let (lane, index) = segment.locate(offset);
        (lane == self.lane && segment.remaining(offset) >= bytes).then_some(index)
    }

    /// Returns a word of the copy.
    pub fn word(&mut self, at: BufferOffset) -> Option<u32> {
        self.load(GlobalAddress(AREAS + at.0), Width::Word)
            .map(|value| value as u32)
    }

    /// Sets a word of the copy.
    pub fn set_word(&mut self, at: BufferOffset, value: u32) -> Option<()> {
        self.store(GlobalAddress(AREAS + at.0), Width::Word, u64::from(value))
    }

    /// Sets a byte of the copy.
    pub fn set_byte(&mut self, at: BufferOffset, value: u8) -> Option<()> {
        self.store(GlobalAddress(AREAS + at.0), Width::Byte, u64::from(value))
    }

    /// Returns bytes of the copy that stand together.
    pub fn bytes(&mut self, at: BufferOffset, bytes: u64) -> Option<&[u8]> {
        let index = self.own(AREAS + at.0, bytes)?;
        self.bytes.get(index..index + bytes as usize)
    }
}

fn load(bytes: &[u8], index: usize, width: Width) -> Option<u64> {
    let bytes = bytes.get(index..)?;
    Some(match width {
        Width::Byte => u64::from(*bytes.first()?),
        Width::Half => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
        Width::Word => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
        Width::Double => u64::from_le_bytes(*bytes.first_chunk()?),
    })
}

impl AddressSpace for CopySpace {
    fn load(&mut self, address: GlobalAddress, width: Width) -> Option<u64> {
        if address.0 >= AREAS {
            let index = self.own(address.0, width.bytes())?;
            return load(&self.bytes, index, width);
        }
        if address.0 >= COUNTERS {
            return load(&self.counters, (address.0 - COUNTERS) as usize, width);
        }
        if address.0 >= CONSTANTS {
            return load(&self.constants, (address.0 - CONSTANTS) as usize, width);
        }
        load(
            &self.launch,
            usize::try_from(address.0.checked_sub(LAUNCH)?).ok()?,
            width,
        )
    }

    fn store(&mut self, address: GlobalAddress, width: Width, value: u64) -> Option<()> {
        let (all, index) = match address.0.checked_sub(AREAS) {
            Some(_) => {
                let index = self.own(address.0, width.bytes())?;
                (&mut self.bytes, index)
            }
            None => (&mut self.counters, address.0.checked_sub(COUNTERS)? as usize),
        };
        let bytes = all.get_mut(index..)?.get_mut(..width.bytes() as usize)?;
        bytes.copy_from_slice(value.to_le_bytes().get(..bytes.len())?);
        Some(())
    }
}
