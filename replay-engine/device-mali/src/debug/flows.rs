//! What jobs hand to each other: which chain reads words that another one wrote last, over a whole replay.

use crate::compute::overlay::{ByteMask, FrameMap, Slot, WordMask};
use crate::compute::trace::{AccessRange, AccessSource, Trace, Value};
use crate::memory::ArenaMemory;
use replay_engine::run::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trace_core::PAGE_SIZE;
use trace_core::recording::Page;

const WORDS: usize = PAGE_SIZE / 4;
/// No job wrote the word, or the CPU did later.
const NO_WRITER: u32 = u32::MAX;

/// Words of a page that one chain reads and another one wrote last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Number of the submit of the chain that reads.
    pub reader: u32,
    /// Of the one that wrote.
    pub writer: u32,
    /// Frame of the device's memory (address / 4096).
    pub frame: u64,
    /// Its words of 32 bits, a bit each, the first one lowest in the first number.
    pub words: [u64; WORDS / 64],
}

/// A page as a chain left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPage {
    /// Number of the submit of the chain.
    pub chain: u32,
    /// Frame of the device's memory.
    pub frame: u64,
    /// What stood there.
    pub page: Arc<Page>,
}

/// A page that a chain read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageUsage {
    /// Frame of the device's memory (address / 4096).
    pub frame: u64,
    /// Words of 32 bits of which it wrote at least a byte, a bit each, as in [`Flow::words`].
    pub written: [u64; WORDS / 64],
}

/// What came of a replay in which this was looked at.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// What the replay did.
    pub outcome: Outcome,
    /// What chains read of each other, in the order of the readers.
    pub flows: Vec<Flow>,
    /// For each chain that ended the pages that it read or wrote, frames rising.
    pub page_usage: Vec<Vec<PageUsage>>,
    /// Pages that were asked for.
    pub saved_pages: Vec<SavedPage>,
    /// Whether there was more of any of these than is kept: then they do not tell all.
    pub truncated: bool,
}

/// Maximum number of flows, and most pages of all chains together, that are kept: some 300 MiB each.
const MAX_FLOWS: usize = 1 << 21;

/// What was read before it was written, and what was written, by frame.
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

/// The words all of whose bytes are marked.
fn whole_words(written: &ByteMask) -> WordMask {
    words_where(written, |nibble| nibble == 0xf)
}

/// The words of which a byte is marked, and not all are.
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

/// Marks of bytes that lie in one page.
fn byte_marks(pa: u64, bytes: usize) -> ByteMask {
    let mut out = [0; 64];
    let first = (pa % PAGE_SIZE as u64) as usize;
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

/// What is found as a replay goes on.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    chains: u32,
    /// Of the chain that runs.
    now: JobAccesses,
    /// The chain that wrote each word last.
    last: FrameMap<Box<[u32; WORDS]>>,
    found: Vec<Flow>,
    touched: Vec<Vec<PageUsage>>,
    /// Pages in all of these together.
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

    /// Chains that ended.
    pub(crate) fn chains(&self) -> u32 {
        self.chains
    }

    /// The CPU wrote: what a job wrote there is gone where the whole word is.
    pub(crate) fn cpu_write(&mut self, pa: u64, bytes: usize) {
        if let Some(last) = self.last.get_mut(&(pa / PAGE_SIZE as u64)) {
            put(last, &whole_words(&byte_marks(pa, bytes)), NO_WRITER);
        }
    }

    /// The hardware read a header or a descriptor.
    pub(crate) fn read(&mut self, pa: u64, bytes: usize) {
        let marks = byte_marks(pa, bytes);
        let words = words_where(&marks, |nibble| nibble != 0);
        self.now.pages.entry(pa / PAGE_SIZE as u64).or_default().reads(&words);
    }

    /// A job wrote a value.
    pub(crate) fn job_write(&mut self, pa: u64, bytes: usize) {
        let to = self.now.pages.entry(pa / PAGE_SIZE as u64).or_default();
        to.writes(&byte_marks(pa, bytes));
    }

    /// A job's shader ran.
    pub(crate) fn add_job(&mut self, touches: &JobAccesses) {
        self.now.take(touches);
    }

    /// A chain ended.
    pub(crate) fn chain_ended(&mut self, memory: &ArenaMemory) {
        let chain = self.chains;
        let now = std::mem::take(&mut self.now);
        self.pages = self.pages.saturating_add(now.pages.len());
        if self.pages > MAX_FLOWS || self.found.len() > MAX_FLOWS {
            // It tells nothing any more, and what it holds is let go.
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
            // What stands beside bytes that it wrote into a word is read with them later, as its own.
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

    /// Keeps the pages that were asked for as the chain left them, and counts it.
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

/// Makes `writer` the last one of these words.
fn put(last: &mut [u32; WORDS], words: &WordMask, writer: u32) {
    for (to, word) in last.iter_mut().zip(0..) {
        if words.get(word / 64).is_some_and(|w| w >> (word % 64) & 1 == 1) {
            *to = writer;
        }
    }
}
