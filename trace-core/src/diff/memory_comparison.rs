//! Memory of two recordings beside each other, each at a moment of its own: which bytes differ, and where the next ones
//! lie. What the second has elsewhere is read where it lies there.

use super::{MappingDiff, spaces};
use crate::memory::{ByteState, GpuMemoryView};
use crate::mmu::{self, PAGE_BYTES};
use crate::progress::{Cancelled, Progress};
use crate::recording::{GpuVa, Page, Recording, ZERO_PAGE};

/// A byte of both sides, or what is known instead.
pub type BytePair = (Result<u8, ByteState>, Result<u8, ByteState>);

/// Whether a byte differs. Memory without contents starts as zero, so a zero on one side alone is the same.
#[must_use]
pub fn byte_differs((a, b): &BytePair) -> bool {
    a.unwrap_or(0) != b.unwrap_or(0)
}

/// Pages that lie at `a` in the first recording and at `b` in the second.
#[derive(Clone, Copy)]
struct MovedRange {
    a: u64,
    b: u64,
    bytes: u64,
}

/// One address space of two recordings.
pub struct MemoryComparison<'a> {
    a: GpuMemoryView<'a>,
    b: GpuMemoryView<'a>,
    /// What was moved, by its address in the first.
    moved: Vec<MovedRange>,
    /// The same by its address in the second: begin and end.
    taken: Vec<(u64, u64)>,
}

impl<'a> MemoryComparison<'a> {
    /// The address space with index `space` of the first recording at an event, and the one of the second that goes
    /// with it, at an event there. `mappings` tells what was moved. `None`: one of them has no such address space.
    #[must_use]
    pub fn new(
        (a, at_a): (&'a Recording, u64),
        (b, at_b): (&'a Recording, u64),
        space: usize,
        mappings: &MappingDiff,
    ) -> Option<Self> {
        let pair = spaces::pairs(a, b).into_iter().find(|p| p.a == Some(space))?;
        let in_a = a.facts.address_spaces.get(space)?;
        let in_b = b.facts.address_spaces.get(pair.b?)?;
        let mut moved: Vec<MovedRange> = mappings
            .list
            .iter()
            .filter(|m| m.address_space == pair.number)
            .filter_map(|m| {
                Some(MovedRange {
                    a: m.va.0,
                    b: m.moved_to?.0,
                    bytes: m.pages.saturating_mul(PAGE_BYTES),
                })
            })
            .collect();
        moved.sort_unstable_by_key(|m| m.a);
        let mut taken: Vec<_> = moved.iter().map(|m| (m.b, m.b.saturating_add(m.bytes))).collect();
        taken.sort_unstable();
        Some(Self {
            a: GpuMemoryView::new(a.memory.at(at_a), in_a),
            b: GpuMemoryView::new(b.memory.at(at_b), in_b),
            moved,
            taken,
        })
    }

    /// Where the second recording has what the first has at an address.
    #[must_use]
    pub fn map_to_second(&self, va: u64) -> u64 {
        let n = self.moved.partition_point(|m| m.a <= va);
        let run = n.checked_sub(1).and_then(|n| self.moved.get(n));
        run.filter(|m| va - m.a < m.bytes)
            .map_or(va, |m| m.b.saturating_add(va - m.a))
    }

    /// Whether what the second has at an address is shown where the first has it.
    fn is_taken(&self, va: u64) -> bool {
        let n = self.taken.partition_point(|t| t.0 <= va);
        n.checked_sub(1)
            .and_then(|n| self.taken.get(n))
            .is_some_and(|t| va < t.1)
    }

    /// The page of both sides that an address of the first lies in.
    fn pages(&self, va: u64) -> [(Option<&'a Page>, ByteState); 2] {
        let a = self.a.page(GpuVa(va));
        let there = self.map_to_second(va);
        let b = if there == va && self.is_taken(va) {
            (None, ByteState::Unmapped)
        } else {
            self.b.page(GpuVa(there))
        };
        [a, b]
    }

    /// Bytes from an address of the first on.
    #[must_use]
    pub fn read(&self, va: u64, len: usize) -> Vec<BytePair> {
        let mut out = Vec::with_capacity(len);
        let mut at = va;
        while out.len() < len {
            let [a, b] = self.pages(at);
            let from = (at % PAGE_BYTES) as usize;
            let n = (PAGE_BYTES as usize - from).min(len - out.len());
            let byte = |(page, state): (Option<&Page>, ByteState), i: usize| match page.and_then(|p| p.get(i)) {
                Some(b) => Ok(*b),
                None => Err(state),
            };
            out.extend((from..from + n).map(|i| (byte(a, i), byte(b, i))));
            match at.checked_add(n as u64) {
                Some(next) => at = next,
                None => {
                    let end = (Err(ByteState::Unmapped), Err(ByteState::Unmapped));
                    out.resize(len, end);
                }
            }
        }
        out
    }

    /// The ranges that either side maps, by their addresses in the first, rising, none touching another. Where page
    /// tables cannot be followed to their end, what was met before that.
    fn mapped(&self) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for view in [&self.a, &self.b] {
            let space = view.space();
            let leaves = mmu::scan(space.format, space.root, &view.physical()).leaves;
            all.extend(leaves.iter().map(|l| (l.va.0, l.va.0.saturating_add(l.bytes))));
        }
        all.sort_unstable();
        let mut out: Vec<(u64, u64)> = Vec::with_capacity(all.len());
        for (begin, end) in all {
            match out.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => out.push((begin, end)),
            }
        }
        out
    }

    /// The first run of bytes that differ that begins in a page behind an address, or the last one before it.
    fn in_page(&self, page: u64, from: u64, forward: bool) -> Option<u64> {
        let [a, b] = self.pages(page);
        let (a, b) = (a.0.unwrap_or(&ZERO_PAGE), b.0.unwrap_or(&ZERO_PAGE));
        // Most pages are the same, and whole pages compare at the speed of memory.
        if a == b {
            return None;
        }
        let last = page.checked_sub(1).and_then(|va| self.read(va, 1).pop());
        let mut before = last.is_some_and(|b| byte_differs(&b));
        let mut begins = a.iter().zip(b).zip(page..).filter_map(move |((x, y), va)| {
            let begin = x != y && !before;
            before = x != y;
            begin.then_some(va)
        });
        if forward {
            begins.find(|va| *va > from)
        } else {
            begins.take_while(|va| *va < from).last()
        }
    }

    /// The begin of the next run of bytes that differ behind an address of the first, or of the one before it. Takes
    /// time by what is mapped.
    ///
    /// # Errors
    /// When nobody wants it any more.
    pub fn find_next_difference(
        &self,
        from: u64,
        forward: bool,
        progress: &Progress,
    ) -> Result<Option<u64>, Cancelled> {
        let ranges = self.mapped();
        let here = from - from % PAGE_BYTES;
        let pages = |(begin, end): &(u64, u64)| (begin / PAGE_BYTES..end / PAGE_BYTES).map(|n| n * PAGE_BYTES);
        let look = |page: u64| -> Result<Option<u64>, Cancelled> {
            progress.check()?;
            Ok(self.in_page(page, from, forward))
        };
        if forward {
            let first = ranges.partition_point(|r| r.1 <= here);
            for page in ranges.iter().skip(first).flat_map(pages).filter(|p| *p >= here) {
                if let Some(at) = look(page)? {
                    return Ok(Some(at));
                }
            }
        } else {
            let end = ranges.partition_point(|r| r.0 <= here);
            let before = ranges.get(..end).unwrap_or_default().iter().rev();
            for page in before.flat_map(|r| pages(r).rev()).filter(|p| *p <= here) {
                if let Some(at) = look(page)? {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }
}
