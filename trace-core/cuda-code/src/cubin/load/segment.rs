//! Ranges of GPU memory that a loaded cubin occupies, and the requests for their addresses.

use nvidia_channel::GpuVa;

/// Readable bytes after the last instruction: the GPU loads instructions ahead.
pub const CODE_TAIL_BYTES: u64 = 4096;

/// A function that chooses the address of a segment, or returns `None` if there is no memory.
pub type Allocate<'a> = dyn FnMut(&SegmentRequest<'_>) -> Option<GpuVa> + 'a;

/// Content of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Instructions of all kernels and functions.
    Code,
    /// A constant bank.
    ConstantBank(u32),
    /// Variables with initial bytes.
    Initialized,
    /// Variables that begin as zero.
    Zero,
}

/// A segment that needs an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRequest<'a> {
    /// Name of the section, `.text` for the instructions.
    pub name: &'a str,
    /// Its content.
    pub kind: SegmentKind,
    /// Size in bytes, with readable bytes after the content.
    pub bytes: u64,
    /// Alignment that the address needs, in bytes: a power of two.
    pub alignment: u64,
}

/// A range of GPU memory with its initial content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Name of the section, `.text` for the instructions.
    pub name: String,
    /// Its content.
    pub kind: SegmentKind,
    /// Address of the first byte.
    pub address: GpuVa,
    /// Initial bytes, after relocation.
    pub content: Vec<u8>,
    /// Number of zero bytes after the content.
    pub zero_bytes: u64,
}
