//! Logs what a doorbell announces: new ring entries, their commands, and the memory that these read.
//!
//! The handler of faults calls it: it allocates nothing, and reads every address with the guarded copy.

use crate::address::HostAddr;
use crate::channel::Channel;
use crate::descriptor_saver::DescriptorSaver;
use crate::guarded_copy::{begin_reads, read_memory};
use crate::launch_memory::LaunchMemory;
use crate::log::{LogError, Part};
use crate::method_scanner::MemoryUse;
use crate::recorder::{LINE_BYTES, Recorder};
use crate::records::{self, GapKind, ScanReason, kind};
use crate::submission_writer::SubmissionWriter;
use crate::system::monotonic_time;
use crate::tables::Tables;
use crate::visible_memory::VisibleMemory;
use nvidia_channel::GpuVa;
use nvidia_channel::gpfifo::GpfifoEntry;
use std::ops::Range;

/// What the entries of a channel are logged with.
struct Submission<'a> {
    tables: &'a Tables,
    memory: &'a mut LaunchMemory,
    writer: SubmissionWriter<'a>,
    /// Memory for the commands of an entry.
    scratch: &'a mut [u8],
    reason: ScanReason,
}

/// Logs the new entries of all channels.
///
/// # Errors
/// If the log is full.
pub(crate) fn log_all(recorder: &mut Recorder, thread: u32, reason: ScanReason) -> Result<(), LogError> {
    recorder.memory.begin_doorbell();
    for index in 0..recorder.tables.channels.len() {
        log_channel(recorder, index, thread, reason)?;
    }
    Ok(())
}

/// Logs the new entries of the channel whose doorbell a token rings, or of all channels if no channel of the device has
/// it.
///
/// # Errors
/// If the log is full.
pub(crate) fn log_token(
    recorder: &mut Recorder,
    thread: u32,
    token: u32,
    (client, device): (u32, u32),
) -> Result<(), LogError> {
    let channels = &recorder.tables.channels;
    let rings = |c: &Channel| c.token == Some(token) && c.key.client == client && c.device == device;
    match channels.iter().position(rings) {
        Some(index) => {
            recorder.memory.begin_doorbell();
            log_channel(recorder, index, thread, ScanReason::Doorbell)
        }
        None => log_all(recorder, thread, ScanReason::Doorbell),
    }
}

/// Logs the new entries of a channel.
fn log_channel(recorder: &mut Recorder, index: usize, thread: u32, reason: ScanReason) -> Result<(), LogError> {
    // The channels change while the other tables are read.
    let mut channels = std::mem::take(&mut recorder.tables.channels);
    let result = match channels.get_mut(index) {
        Some(channel) => Submission {
            tables: &recorder.tables,
            memory: &mut recorder.memory,
            writer: SubmissionWriter {
                log: &mut recorder.log,
                time: monotonic_time().saturating_sub(recorder.start),
                thread,
            },
            scratch: recorder.scratch,
            reason,
        }
        .log(channel),
        None => Ok(()),
    };
    recorder.tables.channels = channels;
    result
}

impl Submission<'_> {
    /// Logs the new entries of a channel.
    fn log(&mut self, channel: &mut Channel) -> Result<(), LogError> {
        begin_reads();
        self.log_entries(channel)
    }

    fn log_entries(&mut self, channel: &mut Channel) -> Result<(), LogError> {
        let Some((put, mut batch)) = channel.read_put(self.tables) else {
            return Ok(());
        };
        while channel.next != put {
            for entry in batch.entries() {
                self.log_entry(channel, *entry)?;
                channel.advance(*entry);
            }
            if channel.next == put {
                break;
            }
            match channel.read_entries(self.tables, put) {
                Some(next) => batch = next,
                None => break,
            }
        }
        Ok(())
    }

    fn log_entry(&mut self, channel: &mut Channel, entry: u64) -> Result<(), LogError> {
        let handle = channel.key.handle;
        let mut commands = None;
        match GpfifoEntry::decode(entry) {
            GpfifoEntry::Segment(segment) => {
                let va = GpuVa(channel.base | segment.address.0);
                let bytes = u64::from(segment.words) * 4;
                let visible = channel.find_commands(self.tables, va, bytes);
                let range = visible.and_then(|visible| read_commands(visible, bytes, self.scratch));
                match range {
                    Some(range) => commands = Some((va, range)),
                    None => self.writer.append_gap(GapKind::UnreadableCommands, handle, va, bytes)?,
                }
            }
            GpfifoEntry::Control(control) => {
                if let Some(base) = control.extended_base() {
                    channel.base = base.0;
                }
            }
        }
        let range = commands.as_ref().map_or(0..0, |(_, range)| range.clone());
        let words = self.scratch.get(range).unwrap_or_default();
        let (tables, memory, writer) = (self.tables, &mut *self.memory, &mut self.writer);
        let mut result = Ok(());
        channel.methods.scan(words, &mut |memory_use| {
            if result.is_err() {
                return;
            }
            result = match memory_use {
                MemoryUse::CopySource(source) => writer.save_source(tables, handle, source),
                MemoryUse::Written(range) => {
                    memory.note_written(range);
                    Ok(())
                }
                MemoryUse::Descriptor(va) => DescriptorSaver {
                    tables,
                    memory,
                    writer,
                    channel: handle,
                }
                .save(va),
            };
        });
        result?;
        let record = records::ring_entry(handle, channel.next, entry, commands.is_some(), self.reason);
        self.writer.append(kind::RING_ENTRY, &[Part::Bytes(&record)])?;
        if let Some((va, _)) = commands {
            let head = records::memory(va);
            self.writer
                .append(kind::PUSH_BUFFER, &[Part::Bytes(&head), Part::Bytes(words)])?;
        }
        Ok(())
    }
}

/// Reads commands, and returns where they are in `scratch`. Write-combined memory is read fastest by lines, so the whole
/// lines around the commands are read if the program sees them.
fn read_commands(visible: VisibleMemory, bytes: u64, scratch: &mut [u8]) -> Option<Range<usize>> {
    let head = visible.at.get() % LINE_BYTES;
    let lines = head.checked_add(bytes)?.checked_next_multiple_of(LINE_BYTES)?;
    let (from, read, head) = match lines - head <= visible.bytes {
        true => (HostAddr::new(visible.at.get() - head), lines, head),
        false => (visible.at, bytes, 0),
    };
    let range = head as usize..head.checked_add(bytes)? as usize;
    let to = scratch.get_mut(..read as usize)?;
    read_memory(from, to).then_some(range)
}
