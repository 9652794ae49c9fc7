//! The history of framebuffer bytes: every store that covers them, in order, with the resulting bytes.

use super::framebuffer::{Framebuffer, StoreHit, hits};
use super::page::StoreState;
use crate::PAGE_SIZE;
use crate::progress::{Cancelled, Progress};
use rayon::prelude::*;
use std::ops::Range;

/// Maximum number of bytes of a query.
const MAX_BYTES: u64 = 8;

/// A store that covers queried bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// The event.
    pub event: u64,
    /// Its first byte.
    pub offset: u32,
    /// Number of bytes, 1 to 8.
    pub width: u8,
    /// The stored value; `None`: the recorder could not decode it.
    pub value: Option<u64>,
    /// The queried bytes after it; the rest is unused.
    pub bytes: [u8; 8],
    /// The state of each of these bytes after it.
    pub known: [StoreState; 8],
}

/// The stores that cover queried bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stores {
    /// In order.
    pub list: Vec<Store>,
    /// Whether there are further, later ones.
    pub more: bool,
}

impl Framebuffer {
    /// Returns every store that covers a byte of `range` in order; at most `max`. `range` is limited to 8 bytes. Reads
    /// the intervals with stores to a page of the range, several in parallel.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if the work was cancelled.
    pub fn stores_to(&self, range: Range<u64>, max: usize, progress: &Progress) -> Result<Stores, Cancelled> {
        let range = clipped(range);
        let numbers: Vec<usize> = (0..self.intervals.len()).filter(|n| self.meets(*n, &range)).collect();
        progress.set_total(numbers.len() as u64);
        let mut found = Vec::new();
        // As many in parallel as keep all threads busy, so that a limit is reached early.
        for some in numbers.chunks(64) {
            let parts: Result<Vec<Vec<(usize, StoreHit)>>, Cancelled> = some
                .par_iter()
                .map(|n| {
                    let hits = self.hits_in(*n, &range).collect();
                    progress.advance(1)?;
                    Ok(hits)
                })
                .collect();
            found.extend(parts?.into_iter().flatten());
            if found.len() > max {
                break;
            }
        }
        let more = found.len() > max;
        found.truncate(max);
        let (mut bytes, mut known) = ([0; 8], [StoreState::Never; 8]);
        let list = found.into_iter().map(|(event, hit)| {
            meet(&hit, &range, &mut bytes, &mut known);
            Store {
                event: event as u64,
                offset: hit.offset,
                width: hit.width,
                value: hit.value,
                bytes,
                known,
            }
        });
        Ok(Stores {
            list: list.collect(),
            more,
        })
    }

    /// Returns the last store before event `before` that covers a byte of `range`, 8 bytes at most.
    #[must_use]
    pub fn last_store(&self, range: Range<u64>, before: u64) -> Option<u64> {
        let range = clipped(range);
        let before = usize::try_from(before).unwrap_or(usize::MAX).min(self.events.len());
        let last = before.div_ceil(self.interval).min(self.intervals.len());
        (0..last).rev().filter(|n| self.meets(*n, &range)).find_map(|n| {
            let hits = self.hits_in(n, &range).take_while(|(e, _)| *e < before);
            hits.last().map(|(e, _)| e as u64)
        })
    }

    /// Returns the first store after event `after` that covers a byte of `range`, 8 bytes at most.
    #[must_use]
    pub fn next_store(&self, range: Range<u64>, after: u64) -> Option<u64> {
        let range = clipped(range);
        let from = usize::try_from(after).ok()?.checked_add(1)?;
        (from / self.interval..self.intervals.len())
            .filter(|n| self.meets(*n, &range))
            .find_map(|n| self.hits_in(n, &range).find(|(e, _)| *e >= from).map(|(e, _)| e as u64))
    }

    /// Whether an interval has stores to a page of the range.
    fn meets(&self, number: usize, range: &Range<u64>) -> bool {
        let Some(interval) = self.intervals.get(number).filter(|_| !range.is_empty()) else {
            return false;
        };
        let page = PAGE_SIZE as u64;
        (range.start / page..=(range.end - 1) / page)
            .any(|p| u32::try_from(p).is_ok_and(|p| interval.touched.binary_search(&p).is_ok()))
    }

    fn hits_in(&self, number: usize, range: &Range<u64>) -> impl Iterator<Item = (usize, StoreHit)> + '_ {
        let from = number.saturating_mul(self.interval);
        let to = from.saturating_add(self.interval).min(self.events.len());
        let range = range.clone();
        hits(&self.events, self.space, from..to).filter(move |(_, h)| {
            let at = u64::from(h.offset);
            at < range.end && range.start < at + u64::from(h.width)
        })
    }
}

fn clipped(range: Range<u64>) -> Range<u64> {
    range.start..range.end.min(range.start.saturating_add(MAX_BYTES)).max(range.start)
}

/// Applies a store to the bytes of a range.
fn meet(hit: &StoreHit, range: &Range<u64>, bytes: &mut [u8; 8], known: &mut [StoreState; 8]) {
    let stored = hit.value.unwrap_or_default().to_le_bytes();
    for (i, b) in stored.iter().enumerate().take(usize::from(hit.width)) {
        let at = u64::from(hit.offset) + i as u64;
        if range.contains(&at) {
            let to = (at - range.start) as usize;
            bytes[to] = *b;
            known[to] = if hit.value.is_some() {
                StoreState::Stored
            } else {
                StoreState::Lost
            };
        }
    }
}
