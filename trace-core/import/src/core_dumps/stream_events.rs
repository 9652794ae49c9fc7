//! Events of decoded command streams: the job of a stream, its register writes, and notes for other commands.

use super::dump_contents::DumpContents;
use trace_core::families::{CommandSink, StreamSummary};
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{Access, EventsBuilder, SubmitRow};
use trace_core::{GpuVa, RegOffset};

/// Maximum number of events of all streams of a dump.
const MAX_EVENTS: usize = 1 << 23;
/// Maximum number of decoded words per word of the dump, and in total.
const WORDS_A_WORD: u64 = 16;
const MAX_WORDS: u64 = 1 << 26;

/// Returns the maximum number of words that the streams of a dump of so many bytes may lead to.
pub(super) fn max_words(bytes: u64) -> u64 {
    (bytes / 4)
        .saturating_add(4096)
        .saturating_mul(WORDS_A_WORD)
        .min(MAX_WORDS)
}

/// Makes events of the commands of one stream.
pub(super) struct StreamEvents<'e> {
    events: &'e mut EventsBuilder,
    space: u8,
    left_out: u64,
}

impl<'e> StreamEvents<'e> {
    /// Creates a sink whose writes go to a space. The job begins with a submit.
    pub(super) fn start(
        events: &'e mut EventsBuilder,
        space: u8,
        head_va: GpuVa,
        address_space: u32,
        slot: u32,
    ) -> Self {
        events.submit(
            0,
            SubmitRow {
                head_va,
                address_space,
                slot,
            },
        );
        Self {
            events,
            space,
            left_out: 0,
        }
    }

    /// Reports what the stream was, and what was not decoded.
    pub(super) fn finish(self, what: &str, place: &str, summary: &StreamSummary, contents: &mut DumpContents) {
        let message = format!(
            "{what}: {} commands with {} register writes; the dump does not tell which of them the GPU executed. {} \
             jumps, calls or indirect buffers are not in the dump, {} words are no known command",
            summary.commands, summary.writes, summary.missing, summary.unknown
        );
        let mut note = |kind, message: String| contents.findings.push(Finding::new(kind, place, message));
        note(FindingKind::Assumed, message);
        if summary.is_cut {
            note(
                FindingKind::NotUsed,
                format!("{what}: the commands end inside of a command"),
            );
        }
        if summary.is_endless {
            let message = "the commands lead to more commands than a dump of this size can have; the rest is not used";
            note(FindingKind::NotUsed, format!("{what}: {message}"));
        }
        if self.left_out > 0 {
            note(
                FindingKind::NotUsed,
                format!("{what}: {} commands are left out: there are too many", self.left_out),
            );
        }
    }

    fn has_room(&mut self) -> bool {
        let has_room = self.events.len() < MAX_EVENTS;
        self.left_out += u64::from(!has_room);
        has_room
    }
}

impl CommandSink for StreamEvents<'_> {
    fn write(&mut self, offset: RegOffset, value: u32) {
        if self.has_room() {
            let access = Access {
                space: self.space,
                write: true,
                offset,
                width: 4,
                value: u64::from(value),
            };
            self.events.access(0, 0, access);
        }
    }

    fn command(&mut self, at: GpuVa, text: String) {
        if self.has_room() {
            self.events.mark(0, format!("{:#x}: {text}", at.get()));
        }
    }
}
