//! A recording's memory as the GPU saw it through one address space.

use crate::PAGE_SIZE;
use crate::jobs::GpuMemory;
use crate::mmu::{self, Leaf, MmuError, PAGE_BYTES, WalkFault};
use crate::progress::{Cancelled, Progress};
use crate::recording::{AddressSpace, Buffer, GpuVa, MemoryView, Page, PhysAddr};
use std::ops::{ControlFlow, Range};

/// Most bytes that [`GpuMemoryView::read_range`] and [`GpuMemoryView::read_buffer`] give: 1 GiB.
pub const MAX_READ: u64 = 1 << 30;
/// Most places that a search returns.
const MAX_HITS: usize = 100_000;

/// What is known of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteState {
    /// The recording holds its value.
    Content,
    /// It is mapped, and the recording does not hold its value.
    NoContent,
    /// Nothing is mapped there.
    Unmapped,
}

/// A buffer's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferBytes {
    /// The bytes; those without content are 0.
    pub bytes: Vec<u8>,
    /// Byte ranges from the buffer's begin on that have no content, in rising order, neighbours of one state joined.
    pub holes: Vec<(Range<u64>, ByteState)>,
}

/// Why a search gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The pattern has no bytes.
    #[error("there is nothing to search for")]
    Empty,
    /// The page tables cannot be followed.
    #[error(transparent)]
    Tables(#[from] MmuError),
    /// The person stopped it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Memory by GPU address at one event.
#[derive(Clone, Copy, Debug)]
pub struct GpuMemoryView<'a> {
    view: MemoryView<'a>,
    space: &'a AddressSpace,
}

impl<'a> GpuMemoryView<'a> {
    /// The memory of `view` through the page tables of `space`.
    #[must_use]
    pub fn new(view: MemoryView<'a>, space: &'a AddressSpace) -> Self {
        Self { view, space }
    }

    /// The physical memory.
    #[must_use]
    pub fn physical(&self) -> MemoryView<'a> {
        self.view
    }

    /// The address space.
    #[must_use]
    pub fn space(&self) -> &'a AddressSpace {
        self.space
    }

    /// Where an address leads.
    ///
    /// # Errors
    /// The fault that the GPU would take.
    pub fn translate(&self, va: GpuVa) -> Result<Leaf, WalkFault> {
        mmu::translate(self.space.format, self.space.root, va, &self.view)
    }

    /// The page image that an address lies in, and what is known of it.
    #[must_use]
    pub fn page(&self, va: GpuVa) -> (Option<&'a Page>, ByteState) {
        let Some(pa) = self.physical_address(va) else {
            return (None, ByteState::Unmapped);
        };
        match self.view.frame(pa.frame()) {
            Some(p) => (Some(p), ByteState::Content),
            None => (None, ByteState::NoContent),
        }
    }

    /// The physical address that a GPU address leads to.
    #[must_use]
    pub fn physical_address(&self, va: GpuVa) -> Option<PhysAddr> {
        self.translate(va).ok()?.target(va)
    }

    /// Calls `each` for every part of a range that lies in one page: address, offset from the range's begin, length,
    /// page image and state.
    fn for_each_part(
        &self,
        va: GpuVa,
        bytes: u64,
        mut each: impl FnMut(usize, u64, u64, Option<&'a Page>, ByteState) -> ControlFlow<()>,
    ) {
        let mut done = 0u64;
        while done < bytes {
            let (page, state, at) = match va.checked_add(done) {
                Some(at) => {
                    let (page, state) = self.page(at);
                    (page, state, at.in_page())
                }
                None => (None, ByteState::Unmapped, 0),
            };
            let len = (PAGE_BYTES - at as u64).min(bytes - done);
            if each(at, done, len, page, state).is_break() {
                return;
            }
            done += len;
        }
    }

    /// Fills `out` from `va` on and tells what is known of each byte; bytes without content are 0.
    pub fn read_partial(&self, va: GpuVa, out: &mut [u8]) -> Vec<ByteState> {
        out.fill(0);
        let mut states = Vec::with_capacity(out.len());
        self.for_each_part(va, out.len() as u64, |at, done, len, page, state| {
            let (done, len) = (done as usize, len as usize);
            if let Some(from) = page.and_then(|p| p.get(at..at + len))
                && let Some(to) = out.get_mut(done..done + len)
            {
                to.copy_from_slice(from);
            }
            states.resize(states.len() + len, state);
            ControlFlow::Continue(())
        });
        states
    }

    /// A range's bytes, holes as 0 and told. A range of more than [`MAX_READ`] bytes is cut there; the cut part is
    /// told as a hole.
    #[must_use]
    pub fn read_range(&self, va: GpuVa, bytes: u64) -> BufferBytes {
        self.read_range_at_most(va, bytes, MAX_READ)
    }

    /// A range's bytes, holes as 0 and told. A range of more than `limit` bytes is cut there; the cut part is told
    /// as a hole.
    #[must_use]
    pub fn read_range_at_most(&self, va: GpuVa, bytes: u64, limit: u64) -> BufferBytes {
        let kept = bytes.min(limit).min(MAX_READ);
        let mut out = vec![0; usize::try_from(kept).unwrap_or(0)];
        let mut holes: Vec<(Range<u64>, ByteState)> = Vec::new();
        let mut hole = |range: Range<u64>, state: ByteState| match holes.last_mut() {
            Some((r, s)) if r.end == range.start && *s == state => r.end = range.end,
            _ => holes.push((range, state)),
        };
        self.for_each_part(va, out.len() as u64, |at, done, len, page, state| {
            match page.and_then(|p| p.get(at..at + len as usize)) {
                Some(from) => {
                    if let Some(to) = out.get_mut(done as usize..(done + len) as usize) {
                        to.copy_from_slice(from);
                    }
                }
                None => hole(done..done + len, state),
            }
            ControlFlow::Continue(())
        });
        if kept < bytes {
            hole(kept..bytes, ByteState::NoContent);
        }
        BufferBytes { bytes: out, holes }
    }

    /// A buffer's bytes, holes as 0 and told.
    #[must_use]
    pub fn read_buffer(&self, buffer: &Buffer) -> BufferBytes {
        self.read_range(buffer.va, buffer.bytes)
    }

    /// The addresses in `range` at which `pattern` stands, at most 100 000. Only mapped bytes with content are
    /// searched; a pattern may cross pages that follow each other by address.
    ///
    /// # Errors
    /// When the pattern is empty, the page tables cannot be followed or the search is cancelled.
    pub fn search(&self, pattern: &[u8], range: Range<GpuVa>, progress: &Progress) -> Result<Vec<GpuVa>, SearchError> {
        let Some(first) = pattern.first() else {
            return Err(SearchError::Empty);
        };
        let mappings = mmu::mappings(self.space.format, self.space.root, &self.view)?;
        progress.set_total(mappings.iter().map(|m| m.pages).fold(0, u64::saturating_add));
        let mut hits = Vec::new();
        // The end of the pages before, so that a pattern that crosses into this one is found.
        let mut carry: Vec<u8> = Vec::new();
        let mut carry_end = None;
        for m in &mappings {
            let mut va = m.va;
            while va < m.end() {
                progress.advance(1)?;
                let page_end = GpuVa(va.0.saturating_add(PAGE_BYTES));
                let wanted = page_end > range.start && va < range.end;
                let (page, _) = if wanted {
                    self.page(va)
                } else {
                    (None, ByteState::Unmapped)
                };
                let Some(page) = page else {
                    carry_end = None;
                    va = page_end;
                    continue;
                };
                if carry_end != Some(va) {
                    carry.clear();
                }
                let begin = va.0.saturating_sub(carry.len() as u64);
                carry.extend_from_slice(page);
                for (at, window) in carry.windows(pattern.len()).enumerate() {
                    if window.first() == Some(first) && window == pattern {
                        let hit = GpuVa(begin.saturating_add(at as u64));
                        let end = hit.0.saturating_add(pattern.len() as u64);
                        if hit >= range.start && end <= range.end.0 {
                            hits.push(hit);
                            if hits.len() >= MAX_HITS {
                                return Ok(hits);
                            }
                        }
                    }
                }
                let keep = carry.len().min(pattern.len() - 1);
                carry.drain(..carry.len() - keep);
                carry_end = Some(page_end);
                va = page_end;
            }
        }
        Ok(hits)
    }
}

impl GpuMemory for GpuMemoryView<'_> {
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
        let mut whole = true;
        self.for_each_part(va, out.len() as u64, |at, done, len, page, _| {
            let (done, len) = (done as usize, len as usize);
            match (page.and_then(|p| p.get(at..at + len)), out.get_mut(done..done + len)) {
                (Some(from), Some(to)) => {
                    to.copy_from_slice(from);
                    ControlFlow::Continue(())
                }
                _ => {
                    whole = false;
                    ControlFlow::Break(())
                }
            }
        });
        whole
    }
}

const _: () = assert!(PAGE_SIZE as u64 == PAGE_BYTES);
