//! Rings and indirect buffers of a dump, and the jobs that are made of them.

use crate::core_dumps::dump_contents::{DumpContents, cut_text, parse_number};
use crate::core_dumps::dumped_memory::DumpedRange;
use crate::core_dumps::stream_events::{StreamEvents, max_words};
use trace_core::GpuVa;
use trace_core::families::{BufferContents, amdgpu};
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{BufferRole, EventsBuilder};

/// Index of the address space of indirect buffers, and of the rings.
const WORK_SPACE: u32 = 0;
const RING_SPACE: u32 = 1;
/// Addresses of rings, which a dump does not give: the distance between two of them.
const RING_STRIDE: u64 = 1 << 32;
/// Maximum number of rings and of indirect buffers.
const MAX_RINGS: usize = 256;
const MAX_BUFFERS: usize = 1 << 12;
/// Beginnings of the names of rings whose packets are decoded.
const PACKET_RINGS: [&str; 4] = ["gfx", "comp", "kiq", "mes"];

/// A ring.
struct Ring {
    line: u64,
    name: String,
    pointers: Option<(u64, u64)>,
    words: Vec<u32>,
    /// Number of words that the dump states.
    size: Option<u64>,
}

/// An indirect buffer.
struct IndirectBuffer {
    line: u64,
    number: u32,
    va: GpuVa,
    size: u64,
    words: Vec<u32>,
}

/// The rings and indirect buffers of a dump.
#[derive(Default)]
pub(super) struct Commands {
    rings: Vec<Ring>,
    buffers: Vec<IndirectBuffer>,
    is_in_buffer: bool,
}

impl Commands {
    /// Begins an indirect buffer, by `0 0x800000 64 dw`. Returns whether the text is of this form.
    pub(super) fn start_buffer(&mut self, line: u64, text: &str) -> bool {
        let mut words = text.split_whitespace();
        let number = words.next().and_then(|w| w.parse().ok());
        let va = words.next().and_then(parse_number);
        let size = words.next().and_then(parse_number);
        let (Some(number), Some(va), Some(size)) = (number, va, size) else {
            self.is_in_buffer = false;
            return false;
        };
        if self.buffers.len() >= MAX_BUFFERS {
            return false;
        }
        self.is_in_buffer = true;
        self.buffers.push(IndirectBuffer {
            line,
            number,
            // The upper bits repeat the sign.
            va: GpuVa::new(va & 0xffff_ffff_ffff),
            size,
            words: Vec::new(),
        });
        true
    }

    /// Handles a line of a ring or an indirect buffer. Returns whether it is one.
    pub(super) fn take(&mut self, line: u64, text: &str) -> bool {
        if let Some(name) = text.strip_prefix("ring name:") {
            self.is_in_buffer = false;
            if self.rings.len() >= MAX_RINGS {
                return false;
            }
            self.rings.push(Ring {
                line,
                name: cut_text(name.trim()),
                pointers: None,
                words: Vec::new(),
                size: None,
            });
            return true;
        }
        if self.is_in_buffer {
            let word = parse_number(text).and_then(|w| u32::try_from(w).ok());
            let buffer = self.buffers.last_mut();
            let room = buffer.filter(|b| (b.words.len() as u64) < b.size);
            return match (room, word) {
                (Some(buffer), Some(word)) => {
                    buffer.words.push(word);
                    true
                }
                _ => false,
            };
        }
        self.rings.last_mut().is_some_and(|ring| ring.take(text))
    }

    /// Adds the jobs, and stores the memory. `space` is the space of the registers that packets write.
    pub(super) fn finish(self, bytes: u64, space: u8, contents: &mut DumpContents, events: &mut EventsBuilder) {
        let mut memory = BufferContents::new();
        for buffer in &self.buffers {
            let place = format!("line {}", buffer.line);
            let content = bytes_of(&buffer.words);
            if (buffer.words.len() as u64) < buffer.size {
                let message = format!(
                    "indirect buffer {} has {} words, but only {} are in the dump",
                    buffer.number,
                    buffer.size,
                    buffer.words.len()
                );
                contents.note(FindingKind::TruncatedSection, buffer.line, message);
            }
            let range = DumpedRange {
                space: WORK_SPACE,
                name: format!("IB {}", buffer.number),
                role: BufferRole::Shared,
                va: buffer.va,
                bytes: buffer.size.saturating_mul(4).min(1 << 32),
                content: Some(&content),
                has_zero_end: false,
                flags: 0,
                page_addresses: &[],
            };
            contents.range(&place, range);
            memory.insert(buffer.va, content);
        }
        let mut at = GpuVa::new(0);
        for (slot, ring) in (0u32..).zip(&self.rings) {
            at = at.saturating_add(RING_STRIDE);
            ring.store(at, contents);
            events.mark(0, ring.describe());
            let (start, words) = ring.pending_words();
            let head = at.saturating_add(start.saturating_mul(4));
            if words.is_empty() {
                continue;
            }
            if !PACKET_RINGS.iter().any(|name| ring.name.starts_with(name)) {
                events.mark(0, format!("ring {}: {} words are not decoded", ring.name, words.len()));
                continue;
            }
            let mut sink = StreamEvents::start(events, space, head, RING_SPACE, slot);
            let summary = amdgpu::decode_packets(&memory, head, &words, max_words(bytes), &mut sink);
            let what = format!("ring {}, from its read pointer to its write pointer", ring.name);
            sink.finish(&what, &format!("line {}", ring.line), &summary, contents);
        }
        if !self.rings.is_empty() {
            let message = format!(
                "the dump gives no addresses of its {} rings; {RING_STRIDE:#x} and its multiples were made for them",
                self.rings.len()
            );
            contents
                .findings
                .push(Finding::new(FindingKind::Assumed, "memory", message));
        }
        // Buffers that no ring leads to are jobs of their own: a ring may have been reset.
        for buffer in &self.buffers {
            let is_led_to = leads_to(&self.rings, buffer);
            if is_led_to || buffer.words.is_empty() {
                continue;
            }
            let slot = u32::try_from(self.rings.len()).unwrap_or(u32::MAX);
            let mut sink = StreamEvents::start(events, space, buffer.va, WORK_SPACE, slot);
            let summary = amdgpu::decode_packets(&memory, buffer.va, &buffer.words, max_words(bytes), &mut sink);
            let what = format!("indirect buffer {} at {:#x}", buffer.number, buffer.va.get());
            sink.finish(&what, &format!("line {}", buffer.line), &summary, contents);
        }
    }
}

/// Whether a word of the pending words of a ring is the lower half of the address of a buffer.
fn leads_to(rings: &[Ring], buffer: &IndirectBuffer) -> bool {
    let low = buffer.va.get() as u32;
    let is_decoded = |ring: &&Ring| PACKET_RINGS.iter().any(|name| ring.name.starts_with(name));
    rings
        .iter()
        .filter(is_decoded)
        .any(|r| r.pending_words().1.contains(&low))
}

impl Ring {
    /// Handles a line. Returns whether it is one of a ring.
    fn take(&mut self, text: &str) -> bool {
        if text.starts_with("Rptr:") {
            let words: Vec<&str> = text.split_whitespace().collect();
            let number = |at: usize| words.get(at).copied().and_then(parse_number);
            self.pointers = number(1).zip(number(3));
            return self.pointers.is_some();
        }
        if let Some(size) = text.strip_prefix("Ring size in dwords:") {
            self.size = parse_number(size.trim());
            return self.size.is_some();
        }
        if text == "Ring contents" || text.starts_with("Offset") {
            return true;
        }
        let mut words = text.split_whitespace();
        let (offset, value) = (words.next().and_then(parse_number), words.next().and_then(parse_number));
        let expected = self.words.len() as u64 * 4;
        match (offset, value.and_then(|v| u32::try_from(v).ok())) {
            (Some(offset), Some(value)) if offset == expected => {
                self.words.push(value);
                true
            }
            _ => false,
        }
    }

    fn describe(&self) -> String {
        let pointers = self.pointers.map_or_else(String::new, |(rptr, wptr)| {
            format!(", read pointer {rptr:#x}, write pointer {wptr:#x}")
        });
        format!("ring {}{pointers}, {} words", self.name, self.words.len())
    }

    fn store(&self, at: GpuVa, contents: &mut DumpContents) {
        let content = bytes_of(&self.words);
        let stated = self.size.unwrap_or(self.words.len() as u64);
        if (self.words.len() as u64) < stated {
            let message = format!(
                "ring {} has {stated} words, but only {} are in the dump",
                self.name,
                self.words.len()
            );
            contents.note(FindingKind::TruncatedSection, self.line, message);
        }
        let range = DumpedRange {
            space: RING_SPACE,
            name: format!("ring {}", self.name),
            role: BufferRole::Shared,
            va: at,
            bytes: content.len() as u64,
            content: Some(&content),
            has_zero_end: false,
            flags: 0,
            page_addresses: &[],
        };
        contents.range(&format!("line {}", self.line), range);
    }

    /// Returns the words between the pointers: the number of the first one, and their values. Pointers may count on
    /// after the ring began again.
    fn pending_words(&self) -> (u64, Vec<u32>) {
        let size = self.words.len() as u64;
        let Some((rptr, wptr)) = self.pointers.filter(|_| size > 0) else {
            return (0, Vec::new());
        };
        let (start, end) = (rptr % size, wptr % size);
        let count = (end + size - start) % size;
        let word = |n: u64| {
            usize::try_from((start + n) % size)
                .ok()
                .and_then(|n| self.words.get(n))
                .copied()
        };
        (start, (0..count).filter_map(word).collect())
    }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
