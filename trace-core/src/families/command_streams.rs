//! Command streams that importers decode: what a decoder of a GPU's commands reads and reports, and the family of
//! recordings that are made of it.
//!
//! The registers that commands write follow the submit as writes, and commands that write none are notes. A decoder
//! follows jumps and calls as far as the recording holds their memory. It computes nothing that it does not know.

use super::family::{EventRelation, Family, JobForm};
use super::stream_tracker::{StreamTracker, relate_stream_events};
use super::work::{JobTracker, ScannedEvents};
use crate::recording::Recording;
use crate::registers::RegisterMap;
use crate::{GpuVa, RegOffset};
use std::collections::BTreeMap;

/// Contents of buffers by their first address.
pub type BufferContents = BTreeMap<GpuVa, Vec<u8>>;

/// Maximum depth of nested calls.
pub(super) const MAX_DEPTH: u8 = 8;

/// What a decoder reports, in the order of the commands.
pub trait CommandSink {
    /// Takes the write of a register of 32 bits.
    fn write(&mut self, offset: RegOffset, value: u32);
    /// Takes a command that writes no register: its address, and its name and arguments.
    fn command(&mut self, at: GpuVa, text: String);
}

/// The results of a decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSummary {
    /// Number of commands.
    pub commands: u64,
    /// Number of register writes.
    pub writes: u64,
    /// Number of jumps, calls and indirect buffers that the recording does not hold, or that are nested too deeply.
    pub missing: u64,
    /// Number of words that are no known command.
    pub unknown: u64,
    /// Whether the commands end inside of a command.
    pub is_cut: bool,
    /// Whether the decoder ended early: the commands lead to more commands than was allowed.
    pub is_endless: bool,
}

/// What all decoders have: memory, sink, results, and a limit.
pub(super) struct StreamState<'a> {
    pub memory: &'a BufferContents,
    pub sink: &'a mut dyn CommandSink,
    pub summary: StreamSummary,
    /// Number of words that may still be decoded.
    pub left: u64,
}

impl<'a> StreamState<'a> {
    pub(super) fn new(memory: &'a BufferContents, sink: &'a mut dyn CommandSink, max_words: u64) -> Self {
        Self {
            memory,
            sink,
            summary: StreamSummary::default(),
            left: max_words,
        }
    }

    /// Returns at most `max` words from an address on: fewer if the buffer ends before.
    pub(super) fn words(&self, at: GpuVa, max: u64) -> Vec<u32> {
        words_at(self.memory, at, max)
    }

    /// Counts a command of `words` words. Returns whether the decoder may go on.
    pub(super) fn count(&mut self, words: usize) -> bool {
        if self.left == 0 {
            self.summary.is_endless = true;
            return false;
        }
        self.left = self.left.saturating_sub(words as u64);
        self.summary.commands += 1;
        true
    }

    pub(super) fn write(&mut self, offset: u64, value: u32) {
        if let Ok(offset) = u32::try_from(offset) {
            self.summary.writes += 1;
            self.sink.write(RegOffset::new(offset), value);
        }
    }

    pub(super) fn command(&mut self, at: GpuVa, text: impl Into<String>) {
        self.sink.command(at, text.into());
    }
}

/// Returns at most `max` words of buffers from an address on: fewer if the buffer ends before.
#[must_use]
pub fn words_at(memory: &BufferContents, at: GpuVa, max: u64) -> Vec<u32> {
    let found = memory.range(..=at).next_back();
    let rest = found.and_then(|(start, bytes)| bytes.get(usize::try_from(at - *start).ok()?..));
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
    rest.unwrap_or_default().chunks_exact(4).take(max).map(word).collect()
}

/// A family of GPUs whose command streams importers decode from core dumps, and whose drivers have trace events of jobs.
/// Both can be viewed, not replayed.
pub(super) struct StreamFamily {
    /// Name of the family.
    pub name: &'static str,
    /// Name of its GPUs for people.
    pub title: &'static str,
    /// Kernel drivers of its GPUs.
    pub drivers: &'static [&'static str],
    /// Returns the type of a job that trace events name, by the name of its queue.
    pub queue_job_type: fn(&str) -> &'static str,
    /// Values of [`Identity::source`](crate::recording::Identity::source) of its recordings.
    pub sources: &'static [&'static str],
}

impl Family for StreamFamily {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn drivers(&self) -> &'static [&'static str] {
        self.drivers
    }

    fn queue_job_type(&self, queue: &str) -> &'static str {
        (self.queue_job_type)(queue)
    }

    fn has_recording(&self, recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        self.sources.contains(&recording.metadata.identity.source.as_str())
    }

    fn job_form(&self) -> JobForm {
        JobForm::CommandStreams
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        Box::new(StreamTracker::new(scanned.events))
    }

    fn relate_events(&self, recording: &Recording, _map: &RegisterMap) -> Vec<EventRelation> {
        relate_stream_events(recording)
    }

    fn explain_missing_map(&self, recording: &Recording, file: &str) -> Option<String> {
        let name = match recording.metadata.identity.gpu_name.as_str() {
            "" => "the GPU",
            name => name,
        };
        Some(format!(
            "no register map knows {name}, so its registers have no names. `kinescope regmaps import` makes a map from an \
             SVD, rules-ng-ng, genxml or csbgen file, with --next-to {file}"
        ))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a decoder reported.
    #[derive(Default)]
    pub(in super::super) struct ReportedCommands {
        pub writes: Vec<(u32, u32)>,
        pub commands: Vec<String>,
    }

    impl CommandSink for ReportedCommands {
        fn write(&mut self, offset: RegOffset, value: u32) {
            self.writes.push((offset.get(), value));
        }

        fn command(&mut self, _at: GpuVa, text: String) {
            self.commands.push(text);
        }
    }

    /// Returns buffers of words.
    pub(in super::super) fn buffers(all: &[(u64, &[u32])]) -> BufferContents {
        let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect();
        all.iter().map(|(at, words)| (GpuVa::new(*at), bytes(words))).collect()
    }

    #[test]
    fn words_come_from_the_buffer_of_an_address() {
        let memory = buffers(&[(0x1000, &[1, 2, 3]), (0x2000, &[4])]);
        assert_eq!(words_at(&memory, GpuVa::new(0x1004), 9), [2, 3]);
        assert_eq!(words_at(&memory, GpuVa::new(0x1004), 1), [2]);
        assert!(words_at(&memory, GpuVa::new(0x1800), 1).is_empty());
        assert!(words_at(&memory, GpuVa::new(0x10), 1).is_empty());
    }
}
