//! Comparison of the memory of two recordings, each at its own event: which bytes differ, and where the next ones
//! are. Memory that the second recording has elsewhere is read from there.

use super::{MappingDiff, spaces};
use crate::GpuVa;
use crate::memory::{ByteState, GpuMemoryView};
use crate::mmu::{self, PAGE_BYTES};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Page, Recording, ZERO_PAGE};

/// A byte of both sides, or its state if it is not known.
pub type BytePair = (Result<u8, ByteState>, Result<u8, ByteState>);

/// Returns whether a byte differs. Memory without contents starts as zero, so a zero on one side alone is the same.
#[must_use]
pub fn byte_differs((a, b): &BytePair) -> bool {
    a.unwrap_or(0) != b.unwrap_or(0)
}

/// Pages that are at `a` in the first recording and at `b` in the second.
#[derive(Clone, Copy)]
struct MovedRange {
    a: GpuVa,
    b: GpuVa,
    bytes: u64,
}

/// One address space of two recordings.
pub struct MemoryComparison<'a> {
    a: GpuMemoryView<'a>,
    b: GpuMemoryView<'a>,
    /// The moved ranges, by address in the first recording.
    moved: Vec<MovedRange>,
    /// The same ranges by address in the second recording: start and end.
    taken: Vec<(GpuVa, GpuVa)>,
}

impl<'a> MemoryComparison<'a> {
    /// Creates a comparison of two matching address spaces, each at an event. `space` is the index in the first
    /// recording. `mappings` holds the moved runs. Returns `None` if one side has no such address space.
    #[must_use]
    pub fn new(
        (a, at_a): (&'a Recording, u64),
        (b, at_b): (&'a Recording, u64),
        space: usize,
        mappings: &MappingDiff,
    ) -> Option<Self> {
        let pair = spaces::pairs(a, b).into_iter().find(|p| p.a == Some(space))?;
        let in_a = a.metadata.address_spaces.get(space)?;
        let in_b = b.metadata.address_spaces.get(pair.b?)?;
        let mut moved: Vec<MovedRange> = mappings
            .list
            .iter()
            .filter(|m| m.address_space == pair.number)
            .filter_map(|m| {
                Some(MovedRange {
                    a: m.va,
                    b: m.moved_to?,
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

    /// Returns the address in the second recording for an address in the first.
    #[must_use]
    pub fn map_to_second(&self, va: GpuVa) -> GpuVa {
        let n = self.moved.partition_point(|m| m.a <= va);
        let run = n.checked_sub(1).and_then(|n| self.moved.get(n));
        run.filter(|m| va - m.a < m.bytes)
            .map_or(va, |m| m.b.saturating_add(va - m.a))
    }

    /// Returns whether the bytes at an address of the second recording are shown at their address in the first.
    fn is_taken(&self, va: GpuVa) -> bool {
        let n = self.taken.partition_point(|t| t.0 <= va);
        n.checked_sub(1)
            .and_then(|n| self.taken.get(n))
            .is_some_and(|t| va < t.1)
    }

    /// Returns the page of both sides for an address of the first recording.
    fn pages(&self, va: GpuVa) -> [(Option<&'a Page>, ByteState); 2] {
        let a = self.a.page(va);
        let there = self.map_to_second(va);
        let b = if there == va && self.is_taken(va) {
            (None, ByteState::Unmapped)
        } else {
            self.b.page(there)
        };
        [a, b]
    }

    /// Reads bytes from an address of the first recording on.
    #[must_use]
    pub fn read(&self, va: GpuVa, len: usize) -> Vec<BytePair> {
        let mut out = Vec::with_capacity(len);
        let mut at = va;
        while out.len() < len {
            let [a, b] = self.pages(at);
            let from = at.in_page();
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

    /// Returns the ranges that either side maps, by their addresses in the first recording, ascending, not adjacent.
    /// If page tables cannot be followed to their end, returns the part found before that.
    fn mapped(&self) -> Vec<(GpuVa, GpuVa)> {
        let mut all = Vec::new();
        for view in [&self.a, &self.b] {
            let space = view.space();
            let leaves = mmu::scan(space.format, space.root, &view.physical()).leaves;
            all.extend(leaves.iter().map(|l| (l.va, l.va.saturating_add(l.bytes))));
        }
        all.sort_unstable();
        let mut out: Vec<(GpuVa, GpuVa)> = Vec::with_capacity(all.len());
        for (begin, end) in all {
            match out.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => out.push((begin, end)),
            }
        }
        out
    }

    /// Finds, in a page, the first run of differing bytes that starts after an address, or the last one before it.
    fn in_page(&self, page: GpuVa, from: GpuVa, forward: bool) -> Option<GpuVa> {
        let [a, b] = self.pages(page);
        let (a, b) = (a.0.unwrap_or(&ZERO_PAGE), b.0.unwrap_or(&ZERO_PAGE));
        // Most pages are the same, and whole pages compare at memory speed.
        if a == b {
            return None;
        }
        let last = page.checked_sub(1).and_then(|va| self.read(va, 1).pop());
        let mut before = last.is_some_and(|b| byte_differs(&b));
        let mut begins = a.iter().zip(b).zip(0u64..).filter_map(move |((x, y), by)| {
            let begin = x != y && !before;
            before = x != y;
            begin.then(|| page + by)
        });
        if forward {
            begins.find(|va| *va > from)
        } else {
            begins.take_while(|va| *va < from).last()
        }
    }

    /// Finds the start of the next run of differing bytes after an address of the first recording, or of the previous
    /// one. Time is proportional to the mapped memory.
    ///
    /// # Errors
    /// If the work was cancelled.
    pub fn find_next_difference(
        &self,
        from: GpuVa,
        forward: bool,
        progress: &Progress,
    ) -> Result<Option<GpuVa>, Cancelled> {
        let ranges = self.mapped();
        let here = from.align_down(PAGE_BYTES);
        let pages = |(begin, end): &(GpuVa, GpuVa)| (begin.page()..end.page()).filter_map(GpuVa::from_page);
        let look = |page: GpuVa| -> Result<Option<GpuVa>, Cancelled> {
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
