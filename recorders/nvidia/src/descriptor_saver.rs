//! Saves the launch descriptors that commands name, with their constant banks and dependents, if the program can have
//! written them without a command. libcuda prepares graphs so.

use crate::descriptor::{BoundBank, DESCRIPTOR_BYTES, Descriptor};
use crate::guarded_copy::read_memory;
use crate::launch_memory::{Admission, LaunchMemory, MAX_DESCRIPTORS, hash};
use crate::log::LogError;
use crate::records::GapKind;
use crate::submission_writer::SubmissionWriter;
use crate::tables::Tables;
use crate::visible_memory::{MappedMemory, MemoryLookup, VisibleMemory};
use nvidia_channel::GpuVa;

/// Bytes of a line: video memory is read line by line.
const LINE_BYTES: u64 = 64;
/// First bytes of a descriptor, which tell whether it changed: dependents, version, grid, program and banks.
const FIELD_BYTES: usize = 256;
/// Lines of constant bank 0: start of the driver's part, then start of the parameters.
const PARAMETER_LINES: [u64; 3] = [0, 8, 9];
/// Lines of other banks.
const FIRST_LINE: [u64; 1] = [0];
/// Bytes that are read at once for a hash of host memory.
const HASH_BYTES: usize = 1024;
/// Descriptors that wait: each that is saved has at most two dependents.
const MAX_WAITING: usize = 2 * MAX_DESCRIPTORS + 1;

/// What a descriptor is saved with.
pub(crate) struct DescriptorSaver<'a, 'b> {
    pub tables: &'a Tables,
    pub memory: &'a mut LaunchMemory,
    pub writer: &'a mut SubmissionWriter<'b>,
    /// Handle of the channel.
    pub channel: u32,
}

impl DescriptorSaver<'_, '_> {
    /// Saves a descriptor and its dependents.
    ///
    /// # Errors
    /// If the log is full.
    pub fn save(&mut self, va: GpuVa) -> Result<(), LogError> {
        let mut waiting = [va; MAX_WAITING];
        let (mut next, mut end) = (0, 1);
        while let Some(va) = waiting.get(..end).and_then(|all| all.get(next)).copied() {
            next += 1;
            let Some(descriptor) = self.save_one(va)? else {
                continue;
            };
            for dependent in descriptor.dependents() {
                if let Some(slot) = waiting.get_mut(end) {
                    *slot = dependent;
                    end += 1;
                }
            }
        }
        Ok(())
    }

    /// Saves a descriptor and its banks. Returns it if its fields are known and it is not from commands.
    fn save_one(&mut self, va: GpuVa) -> Result<Option<Descriptor>, LogError> {
        if self.memory.is_written(va) {
            return Ok(None);
        }
        match self.memory.admit(va) {
            Admission::New => {}
            Admission::Seen => return Ok(None),
            Admission::TooMany => {
                self.append_gap(va, DESCRIPTOR_BYTES as u64)?;
                return Ok(None);
            }
        }
        let Some(visible) = self.find(va, DESCRIPTOR_BYTES as u64)? else {
            return Ok(None);
        };
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let is_video = visible.memory == MappedMemory::Video;
        let fields = if is_video { FIELD_BYTES } else { DESCRIPTOR_BYTES };
        let mut is_read = bytes.get_mut(..fields).is_some_and(|to| read_memory(visible.at, to));
        // The GPU counts in descriptors, so one in host memory is saved at each doorbell. Video memory is slow to read.
        let is_new = !is_video || is_read && self.memory.note_saved(va, hash(0, &bytes));
        if is_video && is_new {
            is_read = is_read && read_memory(visible.at, &mut bytes);
        }
        if !is_read {
            self.append_gap(va, DESCRIPTOR_BYTES as u64)?;
            return Ok(None);
        }
        if is_new {
            self.writer.save_bytes(va, &bytes)?;
        }
        let descriptor = Descriptor(bytes);
        if !descriptor.is_known() {
            return Ok(None);
        }
        for bank in descriptor.banks() {
            self.save_bank(bank)?;
        }
        Ok(Some(descriptor))
    }

    fn save_bank(&mut self, bank: BoundBank) -> Result<(), LogError> {
        if self.memory.is_written(bank.va) || self.memory.is_seen(bank.va) {
            return Ok(());
        }
        let Some(visible) = self.find(bank.va, bank.bytes)? else {
            return Ok(());
        };
        let content = match visible.memory {
            MappedMemory::Video => {
                let lines = match bank.index {
                    0 => &PARAMETER_LINES[..],
                    _ => &FIRST_LINE,
                };
                let mut bytes = [0; 10 * LINE_BYTES as usize];
                let length = bank.bytes.min(bytes.len() as u64) as usize;
                let bytes = bytes.get_mut(..length).unwrap_or_default();
                read_lines(visible, lines, bytes).then(|| hash(bank.bytes, bytes))
            }
            _ => hash_memory(visible, bank.bytes),
        };
        let Some(content) = content else {
            return self.append_gap(bank.va, bank.bytes);
        };
        if !self.memory.note_saved(bank.va, content) {
            return Ok(());
        }
        match self.writer.save_memory(bank.va, visible.at, bank.bytes) {
            Err(LogError::Unreadable) => self.append_gap(bank.va, bank.bytes),
            other => other,
        }
    }

    /// Returns where the program sees a range. Unknown memory is a gap; memory that the GPU alone writes is none.
    fn find(&mut self, va: GpuVa, bytes: u64) -> Result<Option<VisibleMemory>, LogError> {
        let visible = self.tables.find_visible(va);
        let visible = visible.filter(|v| v.bytes >= bytes && v.memory != MappedMemory::Doorbells);
        if visible.is_none() && !self.tables.is_hidden_video_memory(va) {
            self.append_gap(va, bytes)?;
        }
        Ok(visible)
    }

    fn append_gap(&mut self, va: GpuVa, bytes: u64) -> Result<(), LogError> {
        self.writer.append_gap(GapKind::LaunchMemory, self.channel, va, bytes)
    }
}

/// Reads some lines of a range, and leaves the other bytes of `to` as they are. Lines beyond it are left out.
fn read_lines(visible: VisibleMemory, lines: &[u64], to: &mut [u8]) -> bool {
    lines.iter().all(|line| {
        let at = line * LINE_BYTES;
        let end = (at + LINE_BYTES).min(to.len() as u64);
        let line = to.get_mut(at as usize..end as usize);
        match (visible.at.checked_add(at), line) {
            (Some(from), Some(line)) => read_memory(from, line),
            _ => true,
        }
    })
}

/// Returns a hash of the content of host memory, or `None` if it is not readable.
fn hash_memory(visible: VisibleMemory, bytes: u64) -> Option<u64> {
    let mut part = [0; HASH_BYTES];
    let (mut at, mut sum) = (0, bytes);
    while at < bytes {
        let length = (bytes - at).min(HASH_BYTES as u64) as usize;
        let part = part.get_mut(..length)?;
        if !read_memory(visible.at.checked_add(at)?, part) {
            return None;
        }
        sum = hash(sum, part);
        at += length as u64;
    }
    Some(sum)
}
