//! The writer of records of one submission.

use crate::address::HostAddr;
use crate::copy_state::GpuRange;
use crate::log::{LogError, LogFile, Part};
use crate::records::{self, GapKind, kind};
use crate::tables::Tables;
use crate::visible_memory::{MappedMemory, MemoryLookup};
use nvidia_channel::GpuVa;

/// Maximum bytes of saved memory in a record.
const CHUNK_BYTES: u64 = 1 << 20;

/// The writer. All records of a submission have one time.
pub(crate) struct SubmissionWriter<'a> {
    pub log: &'a mut LogFile,
    /// Time since the start of the log, nanoseconds.
    pub time: u64,
    pub thread: u32,
}

impl SubmissionWriter<'_> {
    pub fn append(&mut self, kind: u32, parts: &[Part<'_>]) -> Result<(), LogError> {
        self.log.append(kind, self.time, self.thread, parts)
    }

    pub fn append_gap(&mut self, kind: GapKind, channel: u32, va: GpuVa, bytes: u64) -> Result<(), LogError> {
        let gap = records::gap(kind, channel, va, bytes);
        self.append(kind::GAP, &[Part::Bytes(&gap)])
    }

    /// Saves bytes of GPU memory.
    pub fn save_bytes(&mut self, va: GpuVa, bytes: &[u8]) -> Result<(), LogError> {
        self.append(kind::MEMORY, &[Part::Bytes(&records::memory(va)), Part::Bytes(bytes)])
    }

    /// Saves GPU memory that the program sees at an address. `bytes` is at most 16 MiB.
    pub fn save_memory(&mut self, va: GpuVa, at: HostAddr, bytes: u64) -> Result<(), LogError> {
        self.append(
            kind::MEMORY,
            &[Part::Bytes(&records::memory(va)), Part::Memory(at, bytes)],
        )
    }

    /// Saves what a copy is about to read, if the program can have written it without a command.
    pub fn save_source(&mut self, tables: &Tables, channel: u32, source: GpuRange) -> Result<(), LogError> {
        let mut va = source.va;
        let mut rest = source.bytes;
        while rest > 0 {
            let visible = match tables.find_visible(va) {
                Some(visible) => visible,
                // The GPU alone writes this memory.
                None if tables.is_hidden_video_memory(va) => return Ok(()),
                None => return self.append_gap(GapKind::UnreadableSource, channel, va, rest),
            };
            let bytes = rest.min(visible.bytes);
            if visible.memory == MappedMemory::Host {
                let chunk = bytes.min(CHUNK_BYTES);
                match self.save_memory(va, visible.at, chunk) {
                    Err(LogError::Unreadable) => {
                        return self.append_gap(GapKind::UnreadableSource, channel, va, rest);
                    }
                    other => other?,
                }
                (va, rest) = (GpuVa(va.0.wrapping_add(chunk)), rest - chunk);
            } else {
                self.append_gap(GapKind::MappedVideoMemory, channel, va, bytes)?;
                (va, rest) = (GpuVa(va.0.wrapping_add(bytes)), rest - bytes);
            }
        }
        Ok(())
    }
}
