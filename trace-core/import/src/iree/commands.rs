//! Work of a queue or of a command buffer: dispatches, fills, updates and copies of buffers.

use super::records::Record;

/// Size of a reference to a buffer, and of a point of a semaphore, bytes.
const REFERENCE_BYTES: usize = 32;
const SEMAPHORE_BYTES: usize = 16;
/// Maximum number of buffers of a dispatch, and maximum size of its constants, bytes.
const MAX_BINDINGS: usize = 1 << 10;
const MAX_CONSTANT_BYTES: usize = 1 << 12;

/// A range of a buffer: by the buffer's number, or by a slot of the execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BufferReference {
    pub(super) buffer: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) slot: u32,
}

impl BufferReference {
    pub(super) fn parse(record: &Record, at: usize) -> Option<Self> {
        Some(Self {
            buffer: record.field(at, 8)?,
            offset: record.field(at + 8, 8)?,
            bytes: record.field(at + 16, 8)?,
            slot: record.field(at + 24, 4)? as u32,
        })
    }

    /// Parses `count` references.
    pub(super) fn parse_all(record: &Record, at: usize, count: u64) -> Option<Vec<Self>> {
        let count = usize::try_from(count).ok().filter(|n| *n <= MAX_BINDINGS)?;
        (0..count)
            .map(|n| Self::parse(record, at + n * REFERENCE_BYTES))
            .collect()
    }

    /// Returns the reference with a slot replaced by the buffer that an execution binds to it.
    pub(super) fn bound(self, bindings: &[Self]) -> Self {
        match bindings.get(self.slot as usize) {
            Some(binding) if self.buffer == 0 => Self {
                buffer: binding.buffer,
                offset: binding.offset.saturating_add(self.offset),
                bytes: self.bytes.min(binding.bytes),
                slot: 0,
            },
            _ => self,
        }
    }
}

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Dispatch {
        executable: u64,
        entry: u32,
        size: [u32; 3],
        count: [u32; 3],
        shared: u32,
        constants: Vec<u8>,
        bindings: Vec<BufferReference>,
    },
    Fill {
        target: BufferReference,
        pattern: Vec<u8>,
    },
    /// Bytes of the host; the page numbers of the content are added when it is stored.
    Update {
        target: BufferReference,
        data: Vec<u8>,
    },
    Copy {
        source: BufferReference,
        target: BufferReference,
    },
}

/// Returns the byte after two lists of semaphores whose lengths stand at a byte.
pub(super) fn after_semaphores(record: &Record, counts_at: usize, at: usize) -> Option<usize> {
    let count = record
        .field(counts_at, 8)?
        .checked_add(record.field(counts_at + 8, 8)?)?;
    let bytes = usize::try_from(count).ok()?.checked_mul(SEMAPHORE_BYTES)?;
    at.checked_add(bytes)
}

fn bytes(record: &Record, at: usize, count: u64) -> Option<Vec<u8>> {
    let count = usize::try_from(count).ok()?;
    Some(record.payload.get(at..)?.get(..count)?.to_vec())
}

impl Command {
    /// Parses the payload of an operation that is work. Returns `None` for other operations, or if the payload is too
    /// short.
    pub(super) fn parse(record: &Record) -> Option<Self> {
        let reference = |at| BufferReference::parse(record, at);
        match record.payload_kind {
            8 => Self::parse_dispatch(record),
            15 => {
                let at = after_semaphores(record, 48, 72)?;
                Some(Self::Fill {
                    target: reference(0)?,
                    pattern: bytes(record, at, record.field(64, 8)?)?,
                })
            }
            16 => {
                let at = after_semaphores(record, 64, 80)?;
                Some(Self::Update {
                    target: reference(0)?,
                    data: bytes(record, at, record.field(56, 8)?)?,
                })
            }
            11 | 17 => Some(Self::Copy {
                source: reference(0)?,
                target: reference(REFERENCE_BYTES)?,
            }),
            18 => Some(Self::Fill {
                target: reference(0)?,
                pattern: bytes(record, 48, record.field(40, 8)?)?,
            }),
            19 => Some(Self::Update {
                target: reference(0)?,
                data: bytes(record, 56, record.field(48, 8)?)?,
            }),
            _ => None,
        }
    }

    fn parse_dispatch(record: &Record) -> Option<Self> {
        let three = |at| {
            Some([
                record.field(at, 4)? as u32,
                record.field(at + 4, 4)? as u32,
                record.field(at + 8, 4)? as u32,
            ])
        };
        let at = after_semaphores(record, 88, 120)?;
        let constant_bytes = record.field(104, 8)?;
        if constant_bytes > MAX_CONSTANT_BYTES as u64 {
            return None;
        }
        Some(Self::Dispatch {
            executable: record.field(0, 8)?,
            entry: record.field(16, 4)? as u32,
            size: three(24)?,
            count: three(36)?,
            shared: record.field(80, 4)? as u32,
            constants: bytes(record, at, constant_bytes)?,
            bindings: BufferReference::parse_all(record, at + constant_bytes as usize, record.field(112, 8)?)?,
        })
    }
}
