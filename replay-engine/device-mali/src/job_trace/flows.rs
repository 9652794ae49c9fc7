//! Data flow between jobs over a whole replay: which chain reads words that another chain wrote last.

use crate::compute::overlay::{ByteMask, Slot, WordMask};
use crate::compute::trace::{AccessRange, AccessSource, Trace, Value};
use crate::frame_map::FrameMap;
use crate::memory::ArenaMemory;
use replay_engine::run::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trace_core::recording::Page;
use trace_core::{PAGE_SIZE, PhysAddr};

const WORDS: usize = PAGE_SIZE / 4;
/// No job wrote the word, or the CPU wrote it later.
const NO_WRITER: u32 = u32::MAX;

/// Words of a page that one chain reads and another chain wrote last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Number of the submit of the reading chain.
    pub reader: u32,
    /// Number of the submit of the writing chain.
    pub writer: u32,
    /// Frame of the device's memory (address / 4096).
    pub frame: u64,
    /// The 32-bit words, one bit each. The first word is the lowest bit of the first number.
    pub words: [u64; WORDS / 64],
}

/// Page as a chain left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPage {
    /// Number of the submit of the chain.
    pub chain: u32,
    /// Frame of the device's memory.
    pub frame: u64,
    /// Contents of the page.
    pub page: Arc<Page>,
}

/// Page that a chain read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageUsage {
    /// Frame of the device's memory (address / 4096).
    pub frame: u64,
    /// The 32-bit words of which the chain wrote at least one byte, one bit each, as in [`Flow::words`].
    pub written: [u64; WORDS / 64],
}

/// Result of a replay that traced data flow.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// Outcome of the replay.
    pub outcome: Outcome,
    /// Data flow between chains, in the order of the readers.
    pub flows: Vec<Flow>,
    /// For each completed chain, the pages that it read or wrote, in ascending order of frames.
    pub page_usage: Vec<Vec<PageUsage>>,
    /// The requested pages.
    pub saved_pages: Vec<SavedPage>,
    /// Whether a limit was exceeded, so that the lists are incomplete.
    pub truncated: bool,
}

/// Maximum number of flows, and of pages of all chains together: about 300 MiB each.
const MAX_FLOWS: usize = 1 << 21;

/// Words that were read before they were written, and bytes that were written, by frame.
#[derive(Debug, Default)]
pub(crate) struct JobAccesses {
    pages: FrameMap<PageAccesses>,
}

#[derive(Clone, Copy, Debug)]
struct PageAccesses {
    read: WordMask,
    written: ByteMask,
}

impl Default for PageAccesses {
    fn default() -> Self {
        Self {
            read: [0; 16],
            written: [0; 64],
        }
    }
}

/// Returns the words of which all bytes are marked.
fn whole_words(written: &ByteMask) -> WordMask {
    words_where(written, |nibble| nibble == 0xf)
}

/// Returns the words of which some bytes are marked, but not all.
fn part_words(written: &ByteMask) -> WordMask {
    words_where(written, |nibble| nibble != 0 && nibble != 0xf)
}

fn words_where(written: &ByteMask, is: impl Fn(u64) -> bool) -> WordMask {
    let mut out = [0; 16];
    for (n, bytes) in written.iter().enumerate() {
        // 64 bytes are 16 words.
        for word in 0..16 {
            if is(bytes >> (word * 4) & 0xf)
                && let Some(to) = out.get_mut(n / 4)
            {
                *to |= 1 << (n % 4 * 16 + word);
            }
        }
    }
    out
}

impl PageAccesses {
    fn reads(&mut self, words: &WordMask) {
        let own = whole_words(&self.written);
        for ((to, from), own) in self.read.iter_mut().zip(words).zip(own) {
            *to |= from & !own;
        }
    }

    fn writes(&mut self, bytes: &ByteMask) {
        for (to, from) in self.written.iter_mut().zip(bytes) {
            *to |= from;
        }
    }
}

/// Returns the marks of bytes that lie in one page.
fn byte_marks(pa: PhysAddr, bytes: usize) -> ByteMask {
    let mut out = [0; 64];
    let first = pa.in_page();
    for byte in first..first.saturating_add(bytes).min(PAGE_SIZE) {
        if let Some(to) = out.get_mut(byte / 64) {
            *to |= 1u64 << (byte % 64);
        }
    }
    out
}

impl JobAccesses {
    fn take(&mut self, later: &Self) {
        for (frame, marks) in &later.pages {
            let to = self.pages.entry(*frame).or_default();
            to.reads(&marks.read);
            to.writes(&marks.written);
        }
    }
}

impl Trace for JobAccesses {
    const ON: bool = false;
    const READS: bool = false;
    const PAGES: bool = true;

    fn add_pages(&mut self, slots: &[Slot]) {
        for slot in slots {
            let to = self.pages.entry(slot.frame).or_default();
            to.reads(&slot.read);
            if let Some(copy) = &slot.copy {
                to.writes(&copy.written);
            }
        }
    }

    fn add_earlier_reads(&mut self, slots: &[Slot]) {
        for slot in slots {
            let to = self.pages.entry(slot.frame).or_default();
            for (to, from) in to.read.iter_mut().zip(&slot.read) {
                *to |= from;
            }
        }
    }

    #[inline(always)]
    fn read(&mut self, _: AccessRange, _: Value<'_>, _: &AccessSource) {}

    #[inline(always)]
    fn write(&mut self, _: AccessRange, _: Value<'_>, _: &AccessSource) {}

    fn absorb(&mut self, later: Self) {
        self.take(&later);
    }
}

/// Data flow collected during a replay.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    chains: u32,
    /// Accesses of the running chain.
    now: JobAccesses,
    /// Last chain that wrote each word.
    last: FrameMap<Box<[u32; WORDS]>>,
    found: Vec<Flow>,
    touched: Vec<Vec<PageUsage>>,
    /// Number of pages in all of these together.
    pages: usize,
    too_many: bool,
    keep: BTreeSet<(u32, u64)>,
    held: Vec<SavedPage>,
}

impl Flows {
    pub(crate) fn new(keep: BTreeSet<(u32, u64)>) -> Self {
        Self {
            keep,
            ..Self::default()
        }
    }

    /// Returns the number of chains that ended.
    pub(crate) fn chains(&self) -> u32 {
        self.chains
    }

    /// Records a CPU write. It replaces a job's write if it covers the whole word.
    pub(crate) fn cpu_write(&mut self, pa: PhysAddr, bytes: usize) {
        if let Some(last) = self.last.get_mut(&pa.frame()) {
            put(last, &whole_words(&byte_marks(pa, bytes)), NO_WRITER);
        }
    }

    /// Records that the hardware read a header or a descriptor.
    pub(crate) fn read(&mut self, pa: PhysAddr, bytes: usize) {
        let marks = byte_marks(pa, bytes);
        let words = words_where(&marks, |nibble| nibble != 0);
        self.now.pages.entry(pa.frame()).or_default().reads(&words);
    }

    /// Records that a job wrote a value.
    pub(crate) fn job_write(&mut self, pa: PhysAddr, bytes: usize) {
        let to = self.now.pages.entry(pa.frame()).or_default();
        to.writes(&byte_marks(pa, bytes));
    }

    /// Records that a job's shader ran.
    pub(crate) fn add_job(&mut self, touches: &JobAccesses) {
        self.now.take(touches);
    }

    /// Records the end of a chain.
    pub(crate) fn chain_ended(&mut self, memory: &ArenaMemory) {
        let chain = self.chains;
        let now = std::mem::take(&mut self.now);
        self.pages = self.pages.saturating_add(now.pages.len());
        if self.pages > MAX_FLOWS || self.found.len() > MAX_FLOWS {
            // The report is incomplete from here on, so the collected data is freed.
            self.too_many = true;
            (self.found, self.touched, self.last) = (Vec::new(), Vec::new(), FrameMap::default());
        }
        if self.too_many {
            self.save_pages(chain, memory);
            return;
        }
        let mut touched: Vec<PageUsage> = Vec::with_capacity(now.pages.len());
        for (frame, marks) in &now.pages {
            touched.push(PageUsage {
                frame: *frame,
                written: words_where(&marks.written, |nibble| nibble != 0),
            });
            // Bytes next to the written bytes of a word are read with them later, and count as written by the same
            // chain.
            let part = part_words(&marks.written);
            if let Some(last) = self.last.get(frame) {
                let mut by: BTreeMap<u32, WordMask> = BTreeMap::new();
                for (word, writer) in last.iter().enumerate().filter(|(_, w)| **w != NO_WRITER) {
                    let (i, bit) = (word / 64, 1u64 << (word % 64));
                    let takes = marks
                        .read
                        .get(i)
                        .zip(part.get(i))
                        .is_some_and(|(r, p)| (r | p) & bit != 0);
                    if takes && let Some(to) = by.entry(*writer).or_insert([0; 16]).get_mut(i) {
                        *to |= bit;
                    }
                }
                let flow = |(writer, words)| Flow {
                    reader: chain,
                    writer,
                    frame: *frame,
                    words,
                };
                self.found.extend(by.into_iter().map(flow));
            }
            if marks.written.iter().any(|w| *w != 0) {
                let last = self.last.entry(*frame).or_insert_with(|| Box::new([NO_WRITER; WORDS]));
                put(last, &words_where(&marks.written, |nibble| nibble != 0), chain);
            }
        }
        touched.sort_unstable_by_key(|t| t.frame);
        self.touched.push(touched);
        self.save_pages(chain, memory);
    }

    /// Saves the requested pages as the chain left them, and counts the chain.
    fn save_pages(&mut self, chain: u32, memory: &ArenaMemory) {
        let wanted: Vec<(u32, u64)> = self.keep.range((chain, 0)..=(chain, u64::MAX)).copied().collect();
        for (_, frame) in wanted {
            if let Some(page) = memory.frame(frame) {
                self.held.push(SavedPage {
                    chain,
                    frame,
                    page: Arc::new(*page),
                });
            }
        }
        self.chains = self.chains.saturating_add(1);
    }

    pub(crate) fn finish(self, outcome: Outcome) -> FlowReport {
        FlowReport {
            outcome,
            flows: self.found,
            page_usage: self.touched,
            saved_pages: self.held,
            truncated: self.too_many,
        }
    }
}

/// Sets the last writer of these words to `writer`.
fn put(last: &mut [u32; WORDS], words: &WordMask, writer: u32) {
    for (to, word) in last.iter_mut().zip(0..) {
        if words.get(word / 64).is_some_and(|w| w >> (word % 64) & 1 == 1) {
            *to = writer;
        }
    }
}
