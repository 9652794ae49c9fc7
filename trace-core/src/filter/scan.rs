//! Scan of a filter over all events: in chunks, on all cores, results in event order.

use super::block::{self, BLOCK, Block};
use super::compile::Filter;
use super::eval::Scratch;
use super::mask;
use super::selection::{Hits, Selection};
use crate::progress::{Cancelled, Progress};
use crate::recording::Events;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

/// Number of events that are delivered together; indices in a chunk have 16 bits.
pub(super) const CHUNK: usize = 1 << 16;

/// Minimum number of chunks for which another thread is worth its cost.
const MIN_PARALLEL_CHUNKS: usize = 4;

/// Maximum number of results that wait for earlier ones.
const WAITING: usize = 64;

/// The matching events of a part of a recording.
#[derive(Debug)]
pub struct ScanMatches {
    chunk: usize,
    hits: Hits,
}

impl ScanMatches {
    /// Returns the number of events.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.hits.count()
    }

    /// Returns the events, in order.
    pub fn events(&self) -> impl Iterator<Item = u64> + '_ {
        let first = (self.chunk * CHUNK) as u64;
        self.hits.places().map(move |p| first + u64::from(p))
    }
}

impl Filter {
    /// Scans the events of a range (clipped), and calls `each` with those that pass, part by part and in order, as
    /// soon as they are known. Parts without matches are skipped. `each` may stop the scan. Uses all cores for large
    /// ranges.
    ///
    /// # Errors
    /// [`Cancelled`] if the work was cancelled.
    pub fn scan(
        &self,
        events: &Events,
        range: Range<u64>,
        progress: &Progress,
        mut each: impl FnMut(&ScanMatches) -> ControlFlow<()>,
    ) -> Result<(), Cancelled> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.scan_on(cores, events, range, progress, &mut |found| each(&found))
    }

    /// Returns all events of a recording that pass.
    ///
    /// # Errors
    /// [`Cancelled`] if the work was cancelled.
    pub fn select(&self, events: &Events, progress: &Progress) -> Result<Selection, Cancelled> {
        let mut all = Selection::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.scan_on(cores, events, 0..u64::MAX, progress, &mut |found| {
            all.push(found.chunk, found.hits);
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Returns whether one event passes. For many events, a scan costs far less.
    #[must_use]
    pub fn is_match(&self, events: &Events, event: u64) -> bool {
        let end = block::len(events);
        let Some(at) = usize::try_from(event).ok().filter(|e| *e < end) else {
            return false;
        };
        let mut out = [0];
        let b = Block::new(events, at, at + 1);
        self.check.fill(&b, None, &mut Scratch::default(), &mut out);
        out == [1]
    }

    pub(super) fn scan_on(
        &self,
        threads: usize,
        events: &Events,
        range: Range<u64>,
        progress: &Progress,
        each: &mut dyn FnMut(ScanMatches) -> ControlFlow<()>,
    ) -> Result<(), Cancelled> {
        let len = block::len(events);
        let clip = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(len);
        let range = clip(range.start)..clip(range.end);
        progress.set_total(range.len() as u64);
        if range.is_empty() {
            return progress.check();
        }
        let chunks = range.start / CHUNK..range.end.div_ceil(CHUNK);
        let threads = if chunks.len() < MIN_PARALLEL_CHUNKS {
            1
        } else {
            threads.min(chunks.len())
        };
        let (next, last) = (AtomicUsize::new(chunks.start), chunks.end);
        let (next, range) = (&next, &range);
        // The next chunk that is not scanned yet, or `None` if there is none left.
        let work = |scratch: &mut Scratch| {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            (chunk < last).then(|| self.chunk(events, range, chunk, progress, scratch))
        };
        std::thread::scope(|scope| {
            let (to, from) = sync_channel(WAITING);
            for _ in 1..threads {
                let to = to.clone();
                let work = move || {
                    let mut scratch = Scratch::default();
                    while let Some(found) = work(&mut scratch) {
                        let over = found.is_err();
                        // The receiver is gone if the scan was stopped.
                        if to.send(found).is_err() || over {
                            return;
                        }
                    }
                };
                // If no other thread can be started, this one does its work.
                let name = std::thread::Builder::new().name("kinescope-filter".into());
                let _ = name.spawn_scoped(scope, work);
            }
            drop(to);
            let mut wanted = chunks.start;
            let mut early: BTreeMap<usize, ScanMatches> = BTreeMap::new();
            let mut scratch = Scratch::default();
            // This thread scans chunks as the others do and delivers their results in between. When no chunk is left,
            // it waits for their results.
            while let Some(found) = work(&mut scratch).or_else(|| from.recv().ok()) {
                for found in std::iter::once(found).chain(from.try_iter()) {
                    let found = found?;
                    early.insert(found.chunk, found);
                }
                while let Some(found) = early.remove(&wanted) {
                    wanted += 1;
                    if found.hits != Hits::None && each(found).is_break() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }

    /// Returns the matching events of a chunk, as far as they are in the range.
    fn chunk(
        &self,
        events: &Events,
        range: &Range<usize>,
        chunk: usize,
        progress: &Progress,
        scratch: &mut Scratch,
    ) -> Result<ScanMatches, Cancelled> {
        let first = chunk * CHUNK;
        let (from, to) = (first.max(range.start), (first + CHUNK).min(range.end));
        let mut bits = vec![0u64; CHUNK / 64];
        let mut passes = [0u8; BLOCK];
        let mut at = from;
        while at < to {
            // Blocks start at the same events for any range.
            let end = to.min((at / BLOCK + 1) * BLOCK);
            let b = Block::new(events, at, end);
            let out = passes.get_mut(..b.len).unwrap_or_default();
            self.check.fill(&b, None, scratch, out);
            put(out, at - first, &mut bits);
            at = end;
        }
        progress.advance((to - from) as u64)?;
        let hits = Hits::new(bits, to - first);
        Ok(ScanMatches { chunk, hits })
    }
}

/// Sets the bit of each byte that is 1, starting at bit `at`.
fn put(bytes: &[u8], at: usize, bits: &mut [u64]) {
    if at.is_multiple_of(64) {
        mask::pack(bytes, bits.get_mut(at / 64..).unwrap_or_default());
        return;
    }
    mask::for_set(bytes, |n| {
        if let Some(word) = bits.get_mut((at + n) / 64) {
            *word |= 1 << ((at + n) % 64);
        }
    });
}
