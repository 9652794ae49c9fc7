//! Records of kernel launches, which have a form of their own: stream, name, code object, blocks, threads, shared memory,
//! and the arguments by their kind.

use super::archive_files::Hash;
use super::records::Record;

/// Maximum size of all arguments of a launch, bytes.
const MAX_ARGUMENT_BYTES: usize = 1 << 16;

/// A launch as it is recorded.
pub(super) struct RecordedLaunch<'a> {
    pub(super) stream: u64,
    pub(super) name: &'a [u8],
    pub(super) code: Hash,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    /// Offset and size of each argument, and their bytes.
    pub(super) parameters: Vec<[u32; 2]>,
    pub(super) arguments: Vec<u8>,
}

impl<'a> RecordedLaunch<'a> {
    /// The kinds of arguments that are not the program's, and that hold addresses inside.
    const HIDDEN: u64 = 2;
    const WITH_ADDRESSES: u64 = 3;
    /// The call that counts threads where others count blocks.
    const COUNTS_THREADS: u16 = 449;

    /// Parses a launch, or returns `None` for a record that is too short or has too many arguments.
    pub(super) fn parse(record: &Record<'a>) -> Option<Self> {
        let mut at = 0;
        let mut take = |bytes: usize| {
            let field = record.field(at, bytes);
            at += bytes;
            field
        };
        let stream = take(8)?;
        let name_bytes = take(2)? as usize;
        let name = record.payload.get(10..)?.get(..name_bytes)?;
        let mut at = 10 + name_bytes;
        let mut take = |bytes: usize| {
            let field = record.field(at, bytes);
            at += bytes;
            field
        };
        let code = [take(8)?, take(8)?];
        let mut dimensions = [0; 6];
        for dimension in &mut dimensions {
            *dimension = take(4)? as u32;
        }
        let [x, y, z, block @ ..] = dimensions;
        let mut grid = [x, y, z];
        if record.call == Self::COUNTS_THREADS {
            for (blocks, threads) in grid.iter_mut().zip(block) {
                *blocks = blocks.div_ceil(threads.max(1));
            }
        }
        let shared = take(4)? as u32;
        let (count, _snapshots) = (take(2)?, take(2)?);
        let mut launch = Self {
            stream,
            name,
            code,
            grid,
            block,
            shared,
            parameters: Vec::new(),
            arguments: Vec::new(),
        };
        for _ in 0..count {
            let (kind, bytes) = (record.field(at, 1)?, record.field(at + 1, 2)? as usize);
            let value = record.payload.get(at + 3..)?.get(..bytes)?;
            at += 3 + bytes;
            if kind == Self::WITH_ADDRESSES {
                at += 2 + 2 * record.field(at, 2)? as usize;
            }
            if kind != Self::HIDDEN {
                launch.add_argument(value)?;
            }
        }
        Some(launch)
    }

    /// Adds an argument at a multiple of what divides its size, eight at most.
    fn add_argument(&mut self, value: &[u8]) -> Option<()> {
        let alignment = 1 << value.len().trailing_zeros().min(3);
        let offset = self.arguments.len().next_multiple_of(alignment);
        if offset + value.len() > MAX_ARGUMENT_BYTES {
            return None;
        }
        self.arguments.resize(offset, 0);
        self.arguments.extend_from_slice(value);
        self.parameters.push([offset as u32, value.len() as u32]);
        Some(())
    }
}
