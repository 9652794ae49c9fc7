//! A call on its way into the file: its row, and what it carries.

use crate::session::Slot;
use trace_core::recording::CallEvent;

/// What a row carries into the file.
#[derive(Debug)]
pub enum EntryPayload {
    /// Nothing.
    Nothing,
    /// Arguments, of a launch or another call.
    Arguments(Vec<u8>),
    /// What a copy moved, its rows one after another.
    Content(Vec<u8>),
    /// What a copy moved was handed over in parts ([`crate::Session::part`]).
    Parts(Slot),
    /// What a copy moves is known later, and is then supplied.
    Awaited(Slot),
    /// What a range of memory holds, of which the row is a part: bytes by their offsets in the row. Pages that are not
    /// among them hold what they held in the last snapshot of the range.
    Snapshot {
        /// The range: first byte and bytes.
        range: (u64, u64),
        /// What is new: where in the row it begins, and the bytes. Each begins and ends where a page does, or the row.
        parts: Vec<(u64, Vec<u8>)>,
    },
    /// Pages that the file has already.
    #[doc(hidden)]
    Stored(Vec<u32>),
}

/// A call, in the order of the host.
#[derive(Debug)]
pub struct Entry {
    /// Nanoseconds since the recording began.
    pub time: u64,
    /// Thread that called.
    pub thread: u32,
    /// The row; what says where its arguments or content lie is filled in when they are stored.
    pub call: CallEvent,
    /// What it carries.
    pub payload: EntryPayload,
}

impl Entry {
    /// Bytes that wait with it.
    pub(crate) fn queued_bytes(&self) -> u64 {
        let carried = match &self.payload {
            EntryPayload::Nothing | EntryPayload::Awaited(_) | EntryPayload::Parts(_) | EntryPayload::Stored(_) => 0,
            EntryPayload::Arguments(b) | EntryPayload::Content(b) => b.len(),
            EntryPayload::Snapshot { parts, .. } => parts.iter().map(|(_, b)| b.len()).sum(),
        };
        carried as u64 + size_of::<Self>() as u64
    }
}
