//! Last writer of every byte that jobs write: writer numbers by page, and writers by number.

use super::trace::{AccessRange, AccessSource, Trace, Value};
use crate::frame_map::FrameMap;
use trace_core::{PAGE_SIZE, PhysAddr};

const WORDS: usize = PAGE_SIZE / 4;
/// The word has no known writer.
const NO_WRITER: u32 = u32::MAX;

/// Numbers of the last writers of a page's bytes.
#[derive(Debug)]
struct PageWriters {
    words: Box<[u32; WORDS]>,
    /// Numbers per byte. Present after a write of less than a word.
    bytes: Option<Box<[u32; PAGE_SIZE]>>,
}

impl PageWriters {
    fn new() -> Self {
        Self {
            words: Box::new([NO_WRITER; WORDS]),
            bytes: None,
        }
    }

    fn by_byte(&mut self) -> &mut [u32; PAGE_SIZE] {
        let words = &self.words;
        self.bytes
            .get_or_insert_with(|| Box::new(std::array::from_fn(|i| words.get(i / 4).copied().unwrap_or(NO_WRITER))))
    }

    #[inline(always)]
    fn put(&mut self, first: usize, bytes: usize, number: u32) {
        if self.bytes.is_none() && first.is_multiple_of(4) && bytes.is_multiple_of(4) {
            if let Some(words) = self.words.get_mut(first / 4..first / 4 + bytes / 4) {
                words.fill(number);
            }
        } else {
            let all = self.by_byte().iter_mut().skip(first).take(bytes);
            all.for_each(|b| *b = number);
        }
    }

    /// Assigns a number to a word, the next number to the next word, and so on.
    #[inline(always)]
    fn put_run(&mut self, first: usize, words: usize, number: u32) {
        if self.bytes.is_none() && first.is_multiple_of(4) {
            let to = self.words.get_mut(first / 4..first / 4 + words).unwrap_or(&mut []);
            for (to, number) in to.iter_mut().zip(number..) {
                *to = number;
            }
        } else {
            for (n, number) in (0..words).zip(number..) {
                self.put(first + 4 * n, 4, number);
            }
        }
    }

    fn at(&self, byte: usize) -> u32 {
        let found = match &self.bytes {
            Some(b) => b.get(byte),
            None => self.words.get(byte / 4),
        };
        found.copied().unwrap_or(NO_WRITER)
    }

    /// Increases all numbers.
    fn raise(&mut self, by: u32) {
        let raise = |n: &mut u32| {
            if *n != NO_WRITER {
                *n = n.saturating_add(by);
            }
        };
        self.words.iter_mut().for_each(raise);
        if let Some(bytes) = &mut self.bytes {
            bytes.iter_mut().for_each(raise);
        }
    }

    /// Merges later numbers, each increased by `by`.
    fn absorb(&mut self, later: &Self, by: u32) {
        let take = |(to, from): (&mut u32, &u32)| {
            if *from != NO_WRITER {
                *to = from.saturating_add(by);
            }
        };
        match (&later.bytes, &self.bytes) {
            (None, None) => self.words.iter_mut().zip(later.words.iter()).for_each(take),
            (Some(from), _) => self.by_byte().iter_mut().zip(from.iter()).for_each(take),
            (None, Some(_)) => {
                let wide = later.words.iter().flat_map(|w| [w; 4]);
                self.by_byte().iter_mut().zip(wide).for_each(take);
            }
        }
    }
}

/// Writers with consecutive numbers: the same location in a shader, one thread after another.
#[derive(Clone, Copy, Debug)]
struct WriterRun {
    /// The first writer of the run.
    who: AccessSource,
    /// Number of the first writer.
    number: u32,
}

/// Maximum number of writer runs of one job.
const MAX_RUNS: usize = 1 << 24;
/// Maximum number of writer numbers. All are below the number that means no writer.
const MAX_NUMBERS: u32 = 1 << 31;

/// Last writer of every byte.
#[derive(Debug, Default)]
pub(crate) struct LastWriters {
    /// Whether there were too many writers, so that nothing is known.
    full: bool,
    /// Writers by number. Lanes that store together form one run.
    runs: Vec<WriterRun>,
    /// Number of writers that have a number.
    count: u32,
    pages: Vec<PageWriters>,
    /// Index of the page by frame.
    frames: FrameMap<u32>,
    /// The frame that was written last, and its index.
    last: Option<(u64, u32)>,
}

impl LastWriters {
    /// Returns the last writer of the byte at this physical address, with the writer's number.
    pub(crate) fn find(&self, pa: PhysAddr) -> Option<(u32, AccessSource)> {
        let place = self.frames.get(&pa.frame())?;
        let number = self.pages.get(*place as usize)?.at(pa.in_page());
        if number >= self.count {
            return None;
        }
        let n = self.runs.partition_point(|r| r.number <= number);
        let run = self.runs.get(n.checked_sub(1)?)?;
        Some((number, run.who.with_thread_offset(number - run.number)))
    }

    /// Returns the number of numbered writers. Later writers have greater numbers.
    pub(crate) fn writer_count(&self) -> u32 {
        self.count
    }

    /// Returns whether there were too many writers, so that nothing is known.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Frees the memory because there are too many writers.
    #[cold]
    pub(crate) fn discard(&mut self) {
        *self = Self {
            full: true,
            ..Self::default()
        };
    }

    /// Keeps only one page and the writers that it still refers to.
    pub(crate) fn retain_frame(self, frame: u64) -> Self {
        let mut out = Self {
            full: self.full,
            ..Self::default()
        };
        let place = self.frames.get(&frame).copied();
        let Some(page) = place.and_then(|p| self.pages.get(p as usize)) else {
            return out;
        };
        let at = PhysAddr::from_frame(frame).unwrap_or(PhysAddr::MAX);
        let mut named: Vec<(u32, AccessSource)> = (0..PAGE_SIZE as u64)
            .filter_map(|n| self.find(at.wrapping_add(n)))
            .collect();
        named.sort_unstable_by_key(|n| n.0);
        named.dedup_by_key(|n| n.0);
        for (_, who) in &named {
            out.begin(who, 0);
        }
        let to = out.page_index(frame);
        if let Some(kept) = out.pages.get_mut(to as usize) {
            for byte in 0..PAGE_SIZE {
                if let Ok(n) = named.binary_search_by_key(&page.at(byte), |n| n.0) {
                    kept.put(byte, 1, u32::try_from(n).unwrap_or(NO_WRITER));
                }
            }
        }
        out
    }

    /// Returns the approximate memory usage, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let page = |p: &PageWriters| if p.bytes.is_some() { 5 * PAGE_SIZE } else { PAGE_SIZE };
        let pages: usize = self.pages.iter().map(page).sum();
        (pages + self.runs.len() * size_of::<WriterRun>()) as u64
    }

    /// Assigns a number to a writer, followed by the next `more` threads.
    #[inline(always)]
    fn assign_number(&mut self, who: &AccessSource, more: u32, fresh: bool) -> u32 {
        if !fresh
            && let Some(run) = self.runs.last()
            && (run.who.pc, run.who.tuple, run.who.group) == (who.pc, who.tuple, who.group)
            && let Some(later) = who.thread.checked_sub(run.who.thread)
            && later <= self.count - run.number
        {
            let number = run.number + later;
            self.count = self.count.max(number.saturating_add(1 + more));
            return number;
        }
        self.begin(who, more)
    }

    /// Assigns a number to the first writer of a run.
    fn begin(&mut self, who: &AccessSource, more: u32) -> u32 {
        if self.runs.len() >= MAX_RUNS || self.count >= MAX_NUMBERS {
            self.discard();
        }
        if self.full {
            return NO_WRITER;
        }
        let number = self.count;
        self.runs.push(WriterRun { who: *who, number });
        self.count = number.saturating_add(1 + more);
        number
    }

    /// Records a write within a page. `fresh` gives the writer a new number of its own.
    #[inline(always)]
    pub(crate) fn put(&mut self, pa: PhysAddr, bytes: usize, who: &AccessSource, fresh: bool) {
        let number = self.assign_number(who, 0, fresh);
        if number == NO_WRITER {
            return;
        }
        if let Some(page) = self.page(pa) {
            page.put(pa.in_page(), bytes, number);
        }
    }

    #[inline(always)]
    fn page(&mut self, pa: PhysAddr) -> Option<&mut PageWriters> {
        let frame = pa.frame();
        let place = match self.last {
            Some((f, place)) if f == frame => place,
            _ => self.page_index(frame),
        };
        self.pages.get_mut(place as usize)
    }

    fn page_index(&mut self, frame: u64) -> u32 {
        let pages = &mut self.pages;
        let place = *self.frames.entry(frame).or_insert_with(|| {
            pages.push(PageWriters::new());
            u32::try_from(pages.len() - 1).unwrap_or(NO_WRITER)
        });
        self.last = Some((frame, place));
        place
    }
}

impl Trace for LastWriters {
    const ON: bool = true;
    const READS: bool = false;

    #[inline(always)]
    fn read(&mut self, _: AccessRange, _: Value<'_>, _: &AccessSource) {}

    #[inline(always)]
    fn write(&mut self, what: AccessRange, _: Value<'_>, who: &AccessSource) {
        self.put(what.pa, what.bytes as usize, who, false);
    }

    #[inline(always)]
    fn write_run(&mut self, what: AccessRange, words: &[u32], who: &AccessSource) {
        let more = u32::try_from(words.len()).unwrap_or(1).saturating_sub(1);
        let number = self.assign_number(who, more, false);
        if number == NO_WRITER {
            return;
        }
        if let Some(page) = self.page(what.pa) {
            page.put_run(what.pa.in_page(), words.len(), number);
        }
    }

    fn absorb(&mut self, later: Self) {
        let count = u64::from(self.count) + u64::from(later.count);
        let runs = self.runs.len() + later.runs.len();
        if self.full || later.full || runs > MAX_RUNS || count > u64::from(MAX_NUMBERS) {
            self.discard();
            return;
        }
        let by = self.count;
        self.count = by.saturating_add(later.count);
        self.runs.extend(later.runs.into_iter().map(|r| WriterRun {
            number: r.number.saturating_add(by),
            ..r
        }));
        // Pages by index, without their frames so far.
        let mut pages: Vec<Option<PageWriters>> = later.pages.into_iter().map(Some).collect();
        for (frame, place) in later.frames {
            let Some(mut from) = pages.get_mut(place as usize).and_then(Option::take) else {
                continue;
            };
            if let Some(to) = self.frames.get(&frame) {
                if let Some(page) = self.pages.get_mut(*to as usize) {
                    page.absorb(&from, by);
                }
                continue;
            }
            if by > 0 {
                from.raise(by);
            }
            self.frames
                .insert(frame, u32::try_from(self.pages.len()).unwrap_or(NO_WRITER));
            self.pages.push(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::GpuVa;

    fn source(thread: u32, pc: u64) -> AccessSource {
        AccessSource {
            group: [1, 2, 3],
            thread,
            pc: GpuVa::new(pc),
            tuple: 4,
        }
    }

    fn record_write(w: &mut LastWriters, pa: u64, bytes: u32, source: AccessSource) {
        w.write(
            AccessRange {
                va: GpuVa::ZERO,
                pa: PhysAddr::new(pa),
                bytes,
            },
            Value::Bytes(&[]),
            &source,
        );
    }

    fn threads(w: &LastWriters, addresses: impl IntoIterator<Item = u64>) -> Vec<Option<u32>> {
        addresses
            .into_iter()
            .map(|pa| w.find(PhysAddr::new(pa)).map(|f| f.1.thread))
            .collect()
    }

    #[test]
    fn lanes_that_store_together_are_one_run() {
        let mut w = LastWriters::default();
        let range = AccessRange {
            va: GpuVa::ZERO,
            pa: PhysAddr::new(0x5010),
            bytes: 32,
        };
        w.write_run(range, &[0; 8], &source(16, 0x40));
        w.write_run(
            AccessRange {
                pa: PhysAddr::new(0x5030),
                ..range
            },
            &[0; 8],
            &source(24, 0x40),
        );
        assert_eq!((w.runs.len(), w.writer_count()), (1, 16));
        let want: Vec<_> = (16..32).map(Some).collect();
        assert_eq!(threads(&w, (0..16).map(|n| 0x5010 + 4 * n)), want);
        assert_eq!(threads(&w, [0x500c, 0x5050]), [None, None]);
        assert_eq!(w.find(PhysAddr::new(0x5014)).map(|f| f.1), Some(source(17, 0x40)));
    }

    #[test]
    fn last_writers_distinguish_threads_and_partial_words() {
        let mut w = LastWriters::default();
        for (pa, thread) in [(0u64, 9), (4, 3), (8, 3), (12, 4), (13, 6), (16, 5)] {
            record_write(&mut w, pa, if pa == 13 { 1 } else { 4 }, source(thread, 0x40));
        }
        assert_eq!(threads(&w, [0, 4, 8, 12, 13, 14, 16]), [9, 3, 3, 4, 6, 4, 5].map(Some));
        // A different location in the shader is a different writer. The same thread at the same location later is also
        // a new writer.
        record_write(&mut w, 4, 4, source(3, 0x50));
        record_write(&mut w, 8, 4, source(3, 0x40));
        assert_eq!(w.find(PhysAddr::new(4)).map(|f| f.1.pc), Some(GpuVa::new(0x50)));
        assert!(w.find(PhysAddr::new(8)).map(|f| f.0) > w.find(PhysAddr::new(4)).map(|f| f.0));
    }

    #[test]
    fn later_writers_replace_only_overlapping_bytes() {
        let [mut a, mut b] = [LastWriters::default(), LastWriters::default()];
        record_write(&mut a, 0, 4, source(1, 0x40));
        record_write(&mut a, 0x1000, 8, source(2, 0x40));
        record_write(&mut b, 4, 4, source(1, 0x40));
        record_write(&mut b, 0x1006, 1, source(7, 0x40));
        record_write(&mut b, 0x2000, 4, source(8, 0x60));
        a.absorb(b);
        assert_eq!(
            threads(&a, [0, 4, 0x1000, 0x1004, 0x1006, 0x1007, 0x2000, 0x2004]),
            [Some(1), Some(1), Some(2), Some(2), Some(7), Some(2), Some(8), None]
        );
        // Two writers with equal descriptions still have different numbers.
        assert!(a.find(PhysAddr::new(0)).map(|f| f.0) < a.find(PhysAddr::new(4)).map(|f| f.0));
        // Numbering continues after the merged writers.
        record_write(&mut a, 0x2000, 4, source(9, 0x60));
        assert_eq!(threads(&a, [0x2000]), [Some(9)]);
    }
}
