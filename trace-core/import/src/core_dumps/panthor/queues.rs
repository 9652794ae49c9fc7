//! Queues of a group, and the jobs that are made of the instructions that the GPU had not done.

use crate::core_dumps::dump_contents::DumpContents;
use crate::core_dumps::stream_events::{StreamEvents, max_words};
use trace_core::GpuVa;
use trace_core::families::{BufferContents, mali_csf, words_at};
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::EventsBuilder;

/// Name of the space of the registers of the front end.
const STREAM_REGISTERS: &str = "stream registers";
/// Size of that space, bytes.
const STREAM_REGISTER_BYTES: u64 = 0x400;
/// Maximum size of a ring, bytes.
const MAX_RING_BYTES: u64 = 16 << 20;
/// Number of words from the position of a stream on that are decoded if the dump does not hold its ring.
const POSITION_WORDS: u64 = 128;

/// A queue.
pub(super) struct Queue {
    /// Place in the dump.
    pub place: String,
    pub is_faulty: bool,
    pub id: u32,
    pub ring: GpuVa,
    /// Number of bytes that were written to the ring and read from it so far.
    pub insert: u64,
    pub extract: u64,
    /// Size of the ring.
    pub bytes: u64,
    /// Address of the instruction that the front end was at.
    pub position: Option<GpuVa>,
}

impl Queue {
    fn describe(&self) -> String {
        let position = self
            .position
            .map_or_else(String::new, |at| format!(", stopped at {:#x}", at.get()));
        format!(
            "queue {}: ring of {} bytes at {:#x}, {:#x} bytes written, {:#x} read{position}",
            self.id,
            self.bytes,
            self.ring.get(),
            self.insert,
            self.extract
        )
    }

    /// Returns the address of the first instruction that the GPU had not read, and the instructions up to the last one
    /// that was written. The ring begins again at its end. Without the ring, returns those at the position of the
    /// stream.
    fn pending_instructions(&self, memory: &BufferContents) -> (GpuVa, Vec<u64>) {
        let bytes = self.bytes.min(MAX_RING_BYTES);
        let ring = mali_csf::join_words(&words_at(memory, self.ring, bytes / 4));
        let size = ring.len() as u64;
        if size == 0 {
            let position = self.position.unwrap_or(self.ring);
            return (
                position,
                mali_csf::join_words(&words_at(memory, position, POSITION_WORDS)),
            );
        }
        let start = self.extract / 8 % size;
        let count = (self.insert.saturating_sub(self.extract) / 8).min(size);
        let instruction = |n: u64| {
            usize::try_from((start + n) % size)
                .ok()
                .and_then(|n| ring.get(n))
                .copied()
        };
        let head = self.ring.saturating_add(start * 8);
        (head, (0..count).filter_map(instruction).collect())
    }
}

/// Adds the jobs of the queues of a dump of `bytes` bytes, and reports them.
pub(super) fn add_jobs(
    queues: &[Queue],
    memory: &BufferContents,
    bytes: u64,
    contents: &mut DumpContents,
    events: &mut EventsBuilder,
) {
    let space = contents.plain_space(STREAM_REGISTERS).unwrap_or(0);
    contents.extend_space(space, STREAM_REGISTER_BYTES);
    for queue in queues {
        let state = queue.describe();
        events.mark(0, &state);
        if queue.insert == queue.extract && !queue.is_faulty {
            continue;
        }
        let (head, pending) = queue.pending_instructions(memory);
        let event = events.len() as u64;
        let mut sink = StreamEvents::start(events, space, head, 0, queue.id);
        let summary = mali_csf::decode_instructions(memory, head, &pending, max_words(bytes), &mut sink);
        sink.finish(&format!("queue {}", queue.id), &queue.place, &summary, contents);
        let fault = if queue.is_faulty {
            "a fault in"
        } else {
            "the GPU had not done all work of"
        };
        let finding = Finding::new(
            FindingKind::DriverError,
            queue.place.clone(),
            format!("{fault} {state}"),
        );
        contents.findings.push(finding.at_event(event));
    }
}
