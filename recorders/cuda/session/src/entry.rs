//! A call on its way into the file: its row and its payload.

use trace_core::GpuVa;
use trace_core::recording::CallEvent;

/// A slot for awaited content or for content in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u64);

impl Slot {
    /// Returns the slot of a number.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// The payload of a row.
#[derive(Debug)]
pub enum EntryPayload {
    /// No payload.
    Nothing,
    /// Arguments of a launch or of another call.
    Arguments(Vec<u8>),
    /// Content of a copy, its rows one after another.
    Content(Vec<u8>),
    /// Content of a copy that was handed over in parts ([`crate::Session::supply_part`]).
    Parts(Slot),
    /// Content of a copy that is supplied later.
    Awaited(Slot),
    /// Content of a memory range that the row is a part of: bytes by their offsets in the row. Pages that are not among
    /// them hold what they held in the last snapshot of the range.
    Snapshot {
        /// The range: first address and size in bytes.
        range: (GpuVa, u64),
        /// New content: its offset in the row, and the bytes. Each part starts and ends at a page boundary or at the
        /// row's.
        parts: Vec<(u64, Vec<u8>)>,
    },
    /// Pages that are already in the file.
    #[doc(hidden)]
    Stored(Vec<u32>),
}

/// A call, in the order of the host.
#[derive(Debug)]
pub struct Entry {
    /// Nanoseconds since the start of the recording.
    pub time: u64,
    /// Thread that called.
    pub thread: u32,
    /// The row; the location of its arguments or content is filled in when they are stored.
    pub call: CallEvent,
    /// The payload of the call.
    pub payload: EntryPayload,
}

impl Entry {
    /// Returns the number of bytes that wait with the entry.
    pub(crate) fn queued_bytes(&self) -> u64 {
        let carried = match &self.payload {
            EntryPayload::Nothing | EntryPayload::Awaited(_) | EntryPayload::Parts(_) | EntryPayload::Stored(_) => 0,
            EntryPayload::Arguments(b) | EntryPayload::Content(b) => b.len(),
            EntryPayload::Snapshot { parts, .. } => parts.iter().map(|(_, b)| b.len()).sum(),
        };
        carried as u64 + size_of::<Self>() as u64
    }
}
