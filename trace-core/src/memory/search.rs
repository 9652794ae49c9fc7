//! Search of the memory of an address space: for bytes, a regular expression, or pointers into a range.

use super::view::{ByteState, GpuMemoryView};
use crate::GpuVa;
use crate::mmu::{self, MmuError, PAGE_BYTES};
use crate::progress::{Cancelled, Progress};
use memchr::memmem::Finder;
use regex::bytes::Regex;
use std::ops::Range;

/// Maximum number of search results.
pub const MAX_HITS: usize = 100_000;
/// Maximum size of a match of a regular expression that is reported in full, bytes.
pub const MAX_MATCH_BYTES: usize = 4096;
/// Number of bytes that are searched at once.
const WINDOW: usize = 256 << 10;
/// Number of bytes before a position that a regular expression may look at (`\b`, `^`).
const BEHIND: usize = 16;

/// A search pattern.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// These bytes, at any address.
    Bytes(Vec<u8>),
    /// Matches of an expression, from left to right, without overlap. Empty matches do not count.
    Regex(Regex),
    /// Little-endian words of `width` bytes at aligned addresses whose value lies in a range.
    Pointer {
        /// The values, end exclusive.
        to: Range<u64>,
        /// Bytes of a word: 4 or 8.
        width: u8,
    },
}

/// A search result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The first byte.
    pub va: GpuVa,
    /// Number of matching bytes, at least 1.
    pub bytes: u64,
}

/// The reason why a search failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The pattern has no bytes, or its range has no values.
    #[error("the search pattern is empty")]
    Empty,
    /// The page tables are invalid.
    #[error(transparent)]
    Tables(#[from] MmuError),
    /// The user cancelled the search.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Contiguous bytes with content, partly searched.
struct Window {
    bytes: Vec<u8>,
    /// Address of the first byte.
    base: u64,
    /// Number of searched bytes at the start, kept for look-behind.
    done: usize,
}

impl GpuMemoryView<'_> {
    /// Returns the matches in `range` in ascending order, at most [`MAX_HITS`]. Only mapped bytes with content are
    /// searched; a match may cross pages that are contiguous by address.
    ///
    /// # Errors
    ///
    /// When the pattern is empty, the page tables are invalid or the search is cancelled.
    pub fn search(&self, pattern: &Pattern, range: Range<GpuVa>, progress: &Progress) -> Result<Vec<Hit>, SearchError> {
        let finder = match pattern {
            Pattern::Bytes(b) if b.is_empty() => return Err(SearchError::Empty),
            Pattern::Pointer { to, .. } if to.is_empty() => return Err(SearchError::Empty),
            Pattern::Bytes(b) => Some(Finder::new(b)),
            Pattern::Regex(_) | Pattern::Pointer { .. } => None,
        };
        let mappings = mmu::mappings(self.space().format, self.space().root, self.view())?;
        progress.set_total(mappings.iter().map(|m| m.pages).fold(0, u64::saturating_add));
        let mut hits = Vec::new();
        let mut window = Window {
            bytes: Vec::new(),
            base: 0,
            done: 0,
        };
        let look = |w: &mut Window, ends: bool, hits: &mut Vec<Hit>| match pattern {
            Pattern::Bytes(b) => finder.iter().for_each(|f| bytes(f, b.len(), w, hits)),
            Pattern::Regex(r) => expression(r, w, ends, hits),
            Pattern::Pointer { to, width } => pointers(to, usize::from(*width).max(1), w, hits),
        };
        for m in &mappings {
            let mut va = m.va;
            while va < m.end() {
                progress.advance(1)?;
                let page_va = va;
                va = va.saturating_add(PAGE_BYTES);
                let (from, to) = (page_va.max(range.start), va.min(range.end));
                let page = (from < to)
                    .then(|| self.page(page_va))
                    .and_then(|(page, _): (_, ByteState)| page);
                let part = page.and_then(|p| p.get((from - page_va) as usize..(to - page_va) as usize));
                let follows = part.is_some() && window.base + window.bytes.len() as u64 == from.get();
                if !follows && !window.bytes.is_empty() {
                    look(&mut window, true, &mut hits);
                    window.bytes.clear();
                    window.done = 0;
                }
                if let Some(part) = part {
                    if window.bytes.is_empty() {
                        window.base = from.get();
                    }
                    window.bytes.extend_from_slice(part);
                }
                if window.bytes.len() >= WINDOW {
                    look(&mut window, false, &mut hits);
                }
                if hits.len() >= MAX_HITS {
                    hits.truncate(MAX_HITS);
                    return Ok(hits);
                }
            }
        }
        look(&mut window, true, &mut hits);
        hits.truncate(MAX_HITS);
        Ok(hits)
    }
}

impl Window {
    fn hit(&self, at: usize, bytes: usize) -> Hit {
        Hit {
            va: GpuVa::new(self.base.saturating_add(at as u64)),
            bytes: bytes as u64,
        }
    }

    /// Marks everything before `at` as searched; `behind` bytes before it stay.
    fn searched_to(&mut self, at: usize, behind: usize) {
        let keep = at.saturating_sub(behind);
        self.bytes.drain(..keep);
        self.base = self.base.saturating_add(keep as u64);
        self.done = at - keep;
    }
}

fn bytes(finder: &Finder<'_>, len: usize, w: &mut Window, hits: &mut Vec<Hit>) {
    let mut at = 0;
    // A match may start within another.
    while let Some(n) = w.bytes.get(at..).and_then(|rest| finder.find(rest)) {
        hits.push(w.hit(at + n, len));
        at += n + 1;
        if hits.len() >= MAX_HITS {
            return;
        }
    }
    let rest = w.bytes.len().saturating_sub(len - 1);
    w.searched_to(rest.max(at.min(w.bytes.len())), 0);
}

fn expression(regex: &Regex, w: &mut Window, ends: bool, hits: &mut Vec<Hit>) {
    // A match that starts late may continue after the window.
    let sure = if ends {
        w.bytes.len()
    } else {
        w.bytes.len().saturating_sub(MAX_MATCH_BYTES)
    };
    let mut at = w.done;
    while let Some(m) = regex.find_at(&w.bytes, at).filter(|m| m.start() < sure) {
        if m.is_empty() {
            at = m.end() + 1;
        } else {
            hits.push(w.hit(m.start(), m.len()));
            at = m.end();
        }
        if hits.len() >= MAX_HITS || at > w.bytes.len() {
            break;
        }
    }
    w.searched_to(at.max(sure).min(w.bytes.len()), BEHIND);
}

fn pointers(to: &Range<u64>, width: usize, w: &mut Window, hits: &mut Vec<Hit>) {
    let lead = (w.base.next_multiple_of(width as u64) - w.base) as usize;
    let mut at = lead;
    while let Some(word) = w.bytes.get(at..at + width) {
        let value = word.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
        if to.contains(&value) {
            hits.push(w.hit(at, width));
            if hits.len() >= MAX_HITS {
                return;
            }
        }
        at += width;
    }
    w.searched_to(at.min(w.bytes.len()), 0);
}
