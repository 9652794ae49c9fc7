//! The mappings of an address space as runs of pages that are contiguous in virtual and physical memory, and groups of
//! runs without the large gaps between them.

use super::pieces::{Piece, Summary};
use crate::mmu::{self, Leaf, MmuError, PAGE_BYTES, Rights, Scan, TableItem, TableRef};
use crate::progress::{Cancelled, Progress};
use crate::recording::{AddressSpace, MemoryView};
use crate::{GpuVa, PhysAddr};
use std::ops::{ControlFlow, Range};

/// A run of pages that are contiguous in virtual and physical memory and have the same rights and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRun {
    /// First byte.
    pub va: GpuVa,
    /// Its physical address.
    pub pa: PhysAddr,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// Access rights of the GPU.
    pub rights: Rights,
    /// The byte of the address space's memory attributes that the entries select: the caching policy.
    pub attributes: u8,
    /// Shareability, bits 8 and 9 of the entries: 0 non-shareable, 2 and 3 shareable with other bus masters.
    pub shared: u8,
}

impl MapRun {
    fn from_leaf(leaf: &Leaf, memattr: u64) -> Self {
        Self {
            va: leaf.va,
            pa: leaf.pa,
            pages: leaf.bytes / PAGE_BYTES,
            rights: leaf.rights,
            attributes: (memattr >> (u32::from(leaf.attr_index & 7) * 8)) as u8,
            shared: (leaf.raw >> 8 & 3) as u8,
        }
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BYTES)
    }

    /// Returns the address after the last one.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        self.va.saturating_add(self.bytes())
    }

    /// Returns the physical address of an address in this run.
    #[must_use]
    pub fn target(&self, va: GpuVa) -> Option<PhysAddr> {
        let by = va.offset_from(self.va).filter(|by| *by < self.bytes())?;
        self.pa.checked_add(by)
    }

    fn has_same_attributes(&self, other: &Self) -> bool {
        (self.rights, self.attributes, self.shared) == (other.rights, other.attributes, other.shared)
    }
}

/// The mapped bytes of an address range by rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RightsSummary {
    /// Bytes, by read 1 + write 2 + execute 4.
    pub bytes: [u64; 8],
}

impl RightsSummary {
    /// Returns the index of rights in [`RightsSummary::bytes`].
    #[must_use]
    pub fn index(rights: Rights) -> usize {
        usize::from(rights.read) | usize::from(rights.write) << 1 | usize::from(rights.execute) << 2
    }

    /// Returns the number of mapped bytes.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, b| sum.saturating_add(*b))
    }

    /// Returns the occurring combinations of rights, the one with the most bytes first.
    #[must_use]
    pub fn kinds(&self) -> Vec<(usize, u64)> {
        let mut kinds: Vec<(usize, u64)> = self.bytes.iter().copied().enumerate().filter(|k| k.1 > 0).collect();
        kinds.sort_by_key(|k| std::cmp::Reverse(k.1));
        kinds
    }
}

impl Summary for RightsSummary {
    fn join(&mut self, other: &Self) {
        for (a, b) in self.bytes.iter_mut().zip(other.bytes) {
            *a = a.saturating_add(b);
        }
    }
}

impl Piece for MapRun {
    type Summary = RightsSummary;

    fn start(&self) -> GpuVa {
        self.va
    }

    fn bytes(&self) -> u64 {
        Self::bytes(self)
    }

    fn summarize(&self, bytes: u64) -> RightsSummary {
        let mut out = RightsSummary::default();
        if let Some(b) = out.bytes.get_mut(RightsSummary::index(self.rights)) {
            *b = bytes;
        }
        out
    }
}

/// The mappings of an address space at one event.
#[derive(Clone, Debug, Default)]
pub struct MappedRuns {
    /// Runs by ascending address.
    pub list: Vec<MapRun>,
    /// The tables, each before those that it points at.
    pub tables: Vec<TableRef>,
    /// The first table or entry that could not be followed.
    pub problem: Option<MmuError>,
    /// Whether the list is complete; `false` if there are more than [`MappedRuns::MAX_RUNS`].
    pub all: bool,
}

impl MappedRuns {
    /// Maximum number of runs of all address spaces together: a file can map billions of pages, each different from its
    /// neighbour.
    pub const MAX_RUNS: usize = 1 << 20;

    /// Walks the page tables of an address space and skips invalid parts. `room` is the number of runs that may still
    /// be kept; kept runs are subtracted.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn build(
        space: &AddressSpace,
        view: &MemoryView<'_>,
        room: &mut usize,
        progress: &Progress,
    ) -> Result<Self, Cancelled> {
        /// Number of tables and leaves between two checks for cancellation.
        const CHECK_EVERY: u64 = 1 << 12;
        let mut out = Self {
            all: true,
            ..Self::default()
        };
        let (mut passed, mut problems) = (0u64, 0);
        let _ = mmu::visit_all(space.format, space.root, view, &mut |found| {
            passed += 1;
            if passed.is_multiple_of(CHECK_EVERY) && progress.check().is_err() {
                return ControlFlow::Break(());
            }
            match found {
                TableItem::Table(t) => out.tables.push(t),
                TableItem::LeafElsewhere(_) => {}
                TableItem::Leaf(leaf) => return out.add(MapRun::from_leaf(&leaf, space.memattr), room),
                TableItem::Problem(e) => {
                    out.problem.get_or_insert(e);
                    problems += 1;
                    if problems >= Scan::MAX_PROBLEMS {
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        progress.check()?;
        Ok(out)
    }

    fn add(&mut self, run: MapRun, room: &mut usize) -> ControlFlow<()> {
        match self.list.last_mut() {
            Some(last)
                if last.end() == run.va
                    && last.pa.checked_add(last.bytes()) == Some(run.pa)
                    && last.has_same_attributes(&run) =>
            {
                last.pages = last.pages.saturating_add(run.pages);
            }
            _ if *room == 0 => {
                self.all = false;
                return ControlFlow::Break(());
            }
            _ => {
                *room -= 1;
                self.list.push(run);
            }
        }
        ControlFlow::Continue(())
    }
}

/// A group of mappings with only small gaps between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Island {
    /// From the first mapped byte to the end of the last one.
    pub range: Range<GpuVa>,
    /// Number of unmapped bytes since the previous island, or since address 0.
    pub gap: u64,
}

/// Gaps smaller than this are drawn, bytes.
const MIN_GAP: u64 = 1 << 16;

/// Cuts an address space at its largest gaps into at most `max` islands. `runs` are in ascending order.
#[must_use]
pub fn find_islands(runs: &[MapRun], max: usize) -> Vec<Island> {
    let gap = |pair: &[MapRun]| match pair {
        [a, b] => b.va.offset_from(a.end()).unwrap_or_default(),
        _ => 0,
    };
    let mut gaps: Vec<u64> = runs.windows(2).map(gap).filter(|g| *g >= MIN_GAP).collect();
    let cuts = max.saturating_sub(1);
    // The smallest gap to cut at. If several gaps have this size, there would be too many cuts, so it must be larger.
    let min = if gaps.len() > cuts {
        let (_, next, _) = gaps.select_nth_unstable_by(cuts, |a, b| b.cmp(a));
        next.saturating_add(1)
    } else {
        MIN_GAP
    };
    let mut out: Vec<Island> = Vec::new();
    for run in runs {
        let (start, end) = (run.va, run.end());
        let before = out.last().map_or(GpuVa::ZERO, |i| i.range.end);
        let gap = start.offset_from(before).unwrap_or_default();
        match out.last_mut() {
            Some(last) if gap < min => last.range.end = end,
            _ => out.push(Island { range: start..end, gap }),
        }
    }
    out
}
