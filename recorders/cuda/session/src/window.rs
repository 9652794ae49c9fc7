//! Address window that allocations are served from: its taken addresses, and those with memory mapped.
//!
//! Memory comes in granules of 2 MiB. An allocation is placed at a multiple of 512 bytes, as the driver does. Small
//! allocations share granules; large ones start at a granule. A granule gets memory when its first byte is taken, and
//! releases it when its last byte is free.

use std::collections::BTreeMap;
use trace_core::GpuVa;

/// Size of the unit in which memory is mapped and released, bytes.
pub const GRANULE: u64 = 2 << 20;
/// Alignment of each allocation, bytes.
const ALIGN: u64 = 512;
/// Minimum size of an allocation that starts at a granule, bytes, so that it releases its memory by itself.
const LARGE: u64 = GRANULE / 2;

/// A source of memory for addresses.
pub trait Backing {
    /// Why mapping or unmapping fails.
    type Error;

    /// Maps memory at a granule.
    ///
    /// # Errors
    /// Returns an error if no memory is left, or if the device refuses.
    fn map(&mut self, at: GpuVa, bytes: u64) -> Result<(), Self::Error>;

    /// Unmaps the memory of one mapping: the range is one that was passed to [`Backing::map`].
    ///
    /// # Errors
    /// Returns an error if the device refuses.
    fn unmap(&mut self, at: GpuVa, bytes: u64) -> Result<(), Self::Error>;
}

/// Why an allocation fails.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError<E> {
    /// No free range of addresses is long enough.
    #[error("the window has no room for {bytes} bytes")]
    Full {
        /// The requested size.
        bytes: u64,
    },
    /// No memory could be mapped.
    #[error("{0}")]
    Backing(E),
}

/// A range of addresses with its allocations.
#[derive(Debug)]
pub struct Window {
    base: GpuVa,
    bytes: u64,
    /// Taken ranges: first address and requested size in bytes.
    taken: BTreeMap<GpuVa, u64>,
    /// Free ranges: first address and size in bytes, never adjacent.
    free: BTreeMap<GpuVa, u64>,
    /// Granules with memory: first address, and the allocations that share them.
    granules: BTreeMap<GpuVa, MappedGranules>,
}

#[derive(Debug)]
struct MappedGranules {
    bytes: u64,
    users: u32,
}

impl Window {
    /// Returns an empty window. Both numbers are multiples of [`GRANULE`].
    #[must_use]
    pub fn new(base: GpuVa, bytes: u64) -> Self {
        Self {
            base,
            bytes,
            taken: BTreeMap::new(),
            free: BTreeMap::from([(base, bytes)]),
            granules: BTreeMap::new(),
        }
    }

    /// Returns the first address and the size in bytes.
    #[must_use]
    pub fn range(&self) -> (GpuVa, u64) {
        (self.base, self.bytes)
    }

    /// Returns whether an address lies in the window.
    #[must_use]
    pub fn contains(&self, at: GpuVa) -> bool {
        at.offset_from(self.base).is_some_and(|n| n < self.bytes)
    }

    /// Returns the allocation that contains an address: first address and size in bytes.
    #[must_use]
    pub fn find(&self, at: GpuVa) -> Option<(GpuVa, u64)> {
        let (first, bytes) = self.taken.range(..=at).next_back()?;
        (at - *first < *bytes).then_some((*first, *bytes))
    }

    /// Returns the first address and the size in bytes of each allocation, by address.
    pub fn allocations(&self) -> impl Iterator<Item = (GpuVa, u64)> + '_ {
        self.taken.iter().map(|(at, bytes)| (*at, *bytes))
    }

    /// Allocates `bytes` bytes, at least 1.
    ///
    /// # Errors
    /// Returns an error if there is no free range, or no memory.
    pub fn allocate<B: Backing>(&mut self, bytes: u64, backing: &mut B) -> Result<GpuVa, WindowError<B::Error>> {
        let full = WindowError::Full { bytes };
        let length = bytes
            .max(1)
            .checked_next_multiple_of(ALIGN)
            .ok_or(WindowError::Full { bytes })?;
        let at = self.find_room(length).ok_or(full)?;
        let first = at.align_down(GRANULE);
        let end = at + length;
        let mut made = Vec::new();
        let mut granule = first;
        while granule < end {
            match self.granules.get_mut(&granule) {
                Some(m) => {
                    m.users += 1;
                    granule += m.bytes;
                }
                None => {
                    // A large allocation is one mapping; allocations that share granules have one mapping per granule.
                    let whole = if length >= LARGE {
                        length.next_multiple_of(GRANULE)
                    } else {
                        GRANULE
                    };
                    if let Err(e) = backing.map(granule, whole) {
                        self.undo(first, granule, &made, backing);
                        return Err(WindowError::Backing(e));
                    }
                    made.push(granule);
                    self.granules.insert(granule, MappedGranules { bytes: whole, users: 1 });
                    granule += whole;
                }
            }
        }
        self.taken.insert(at, bytes.max(1));
        self.mark_taken(extent(at, bytes.max(1)));
        Ok(at)
    }

    /// Undoes what a failed allocation has taken of granules so far.
    fn undo<B: Backing>(&mut self, first: GpuVa, to: GpuVa, made: &[GpuVa], backing: &mut B) {
        for (at, m) in self.granules.range_mut(first..to) {
            m.users -= 1;
            if m.users == 0 && made.contains(at) {
                // The mapping belongs to this call, and the call already fails.
                let _ = backing.unmap(*at, m.bytes);
            }
        }
        self.granules.retain(|at, m| m.users > 0 || !made.contains(at));
    }

    /// Frees the allocation at an address and returns its size in bytes. Returns `None` if no allocation starts there.
    ///
    /// # Errors
    /// Returns an error if memory could not be unmapped; the addresses are free all the same.
    pub fn free<B: Backing>(&mut self, at: GpuVa, backing: &mut B) -> Option<Result<u64, B::Error>> {
        let bytes = self.taken.remove(&at)?;
        self.mark_free(extent(at, bytes));
        let end = at + bytes;
        let mut failed = None;
        let mut gone = Vec::new();
        // The granule that it starts in can start before it.
        let from = self.granules.range(..=at).next_back().map_or(at, |(g, _)| *g);
        for (granule, m) in self.granules.range_mut(from..end) {
            m.users = m.users.saturating_sub(1);
            if m.users == 0 {
                gone.push(*granule);
                if let Err(e) = backing.unmap(*granule, m.bytes) {
                    failed = failed.or(Some(e));
                }
            }
        }
        for granule in gone {
            self.granules.remove(&granule);
        }
        Some(match failed {
            Some(e) => Err(e),
            None => Ok(bytes),
        })
    }

    /// Returns the first free address for an allocation whose length is a multiple of [`ALIGN`].
    fn find_room(&self, length: u64) -> Option<GpuVa> {
        let unit = if length >= LARGE { GRANULE } else { ALIGN };
        let length = length.checked_next_multiple_of(unit)?;
        self.free.iter().find_map(|(first, bytes)| {
            let at = first.align_up(unit)?;
            (at.checked_add(length)? <= *first + *bytes).then_some(at)
        })
    }

    /// Removes a range from the free range that contains it.
    fn mark_taken(&mut self, (from, to): (GpuVa, GpuVa)) {
        let Some((first, bytes)) = self.free.range(..=from).next_back().map(|(a, n)| (*a, *n)) else {
            return;
        };
        self.free.remove(&first);
        if first < from {
            self.free.insert(first, from - first);
        }
        if to < first + bytes {
            self.free.insert(to, first + bytes - to);
        }
    }

    /// Adds a range to the free ranges.
    fn mark_free(&mut self, (mut from, mut to): (GpuVa, GpuVa)) {
        if let Some((first, bytes)) = self.free.range(..from).next_back().map(|(a, n)| (*a, *n))
            && first + bytes == from
        {
            self.free.remove(&first);
            from = first;
        }
        if let Some(bytes) = self.free.remove(&to) {
            to += bytes;
        }
        self.free.insert(from, to - from);
    }
}

/// Returns the range that an allocation blocks: a large one takes whole granules, which nothing else shares.
fn extent(at: GpuVa, bytes: u64) -> (GpuVa, GpuVa) {
    let length = bytes.next_multiple_of(ALIGN);
    let unit = if length >= LARGE { GRANULE } else { ALIGN };
    (at, at + length.next_multiple_of(unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Memory that counts mappings and refuses overlapping mappings.
    #[derive(Default)]
    struct CountingMemory {
        mapped: BTreeMap<GpuVa, u64>,
        remaining: Option<u64>,
    }

    impl Backing for CountingMemory {
        type Error = String;

        fn map(&mut self, at: GpuVa, bytes: u64) -> Result<(), String> {
            assert!(at.is_aligned(GRANULE) && bytes.is_multiple_of(GRANULE) && bytes > 0);
            if let Some(remaining) = &mut self.remaining {
                *remaining = remaining.checked_sub(bytes).ok_or("no memory left")?;
            }
            let before = self.mapped.range(..at + bytes).next_back();
            assert!(before.is_none_or(|(a, n)| *a + *n <= at), "{at} is mapped already");
            self.mapped.insert(at, bytes);
            Ok(())
        }

        fn unmap(&mut self, at: GpuVa, bytes: u64) -> Result<(), String> {
            assert_eq!(self.mapped.remove(&at), Some(bytes));
            if let Some(remaining) = &mut self.remaining {
                *remaining += bytes;
            }
            Ok(())
        }
    }

    const BASE: GpuVa = GpuVa::new(0x1539_4000_0000);

    #[test]
    fn small_allocations_share_a_granule_and_large_ones_do_not() {
        let mut w = Window::new(BASE, 64 * GRANULE);
        let mut b = CountingMemory::default();
        let one = w.allocate(1000, &mut b).unwrap();
        let two = w.allocate(1, &mut b).unwrap();
        assert_eq!((one, two), (BASE, BASE + 1024));
        let large = w.allocate(3 * GRANULE + 1, &mut b).unwrap();
        assert_eq!(large, BASE + GRANULE);
        assert_eq!(
            b.mapped,
            BTreeMap::from([(BASE, GRANULE), (BASE + GRANULE, 4 * GRANULE)])
        );
        // The rest of the large allocation's last granule stays reserved for it.
        assert_eq!(w.allocate(GRANULE / 2 - 512, &mut b).unwrap(), BASE + 1536);
        assert_eq!(w.find(large + 3 * GRANULE), Some((large, 3 * GRANULE + 1)));
        assert_eq!(w.find(large + 3 * GRANULE + 1), None);
        assert!(w.contains(BASE) && !w.contains(BASE.wrapping_sub(1)) && !w.contains(BASE + 64 * GRANULE));
        assert_eq!(w.free(large, &mut b), Some(Ok(3 * GRANULE + 1)));
        assert_eq!(w.free(large, &mut b), None);
        assert_eq!(
            w.free(one + 512, &mut b),
            None,
            "only the start address of an allocation can be freed"
        );
        for at in [one, two, BASE + 1536] {
            assert!(w.free(at, &mut b).unwrap().is_ok());
        }
        assert!(b.mapped.is_empty());
        assert_eq!(
            w.allocate(65 * GRANULE, &mut b),
            Err(WindowError::Full { bytes: 65 * GRANULE })
        );
        assert_eq!(w.allocate(u64::MAX, &mut b), Err(WindowError::Full { bytes: u64::MAX }));
    }

    #[test]
    fn failed_allocation_leaks_no_memory() {
        let mut w = Window::new(BASE, 64 * GRANULE);
        let mut b = CountingMemory {
            remaining: Some(2 * GRANULE),
            ..Default::default()
        };
        let one = w.allocate(100, &mut b).unwrap();
        assert!(matches!(w.allocate(2 * GRANULE, &mut b), Err(WindowError::Backing(_))));
        assert_eq!(w.allocations().collect::<Vec<_>>(), [(one, 100)]);
        assert_eq!(b.mapped.len(), 1);
        assert!(w.allocate(GRANULE, &mut b).is_ok());
    }

    /// A program can allocate each node of a list separately. The time must grow only linearly with their number.
    #[test]
    fn very_many_small_pieces_are_served_quickly() {
        let mut w = Window::new(BASE, 4096 * GRANULE);
        let mut b = CountingMemory::default();
        let all: Vec<GpuVa> = (0..200_000).map(|_| w.allocate(48, &mut b).unwrap()).collect();
        assert_eq!(w.free.len(), 1);
        for at in all.iter().step_by(2).chain(all.iter().skip(1).step_by(2)) {
            assert_eq!(w.free(*at, &mut b), Some(Ok(48)));
        }
        assert_eq!(w.free, BTreeMap::from([(BASE, 4096 * GRANULE)]));
        assert!(b.mapped.is_empty());
    }

    proptest! {
        /// After any allocations and frees, allocations do not overlap, and exactly the allocations have memory.
        #[test]
        fn pieces_never_overlap_and_have_memory(steps in proptest::collection::vec((0u8..4, 1u64..5 * GRANULE), 1..200)) {
            let mut w = Window::new(BASE, 40 * GRANULE);
            let mut b = CountingMemory { remaining: Some(30 * GRANULE), ..Default::default() };
            let mut allocated: Vec<(GpuVa, u64)> = Vec::new();
            for (action, n) in steps {
                if action == 0 && !allocated.is_empty() {
                    let (at, bytes) = allocated.remove(n as usize % allocated.len());
                    prop_assert_eq!(w.free(at, &mut b), Some(Ok(bytes)));
                } else {
                    // Most allocations are small.
                    let bytes = if action == 1 { n } else { n % 60_000 + 1 };
                    if let Ok(at) = w.allocate(bytes, &mut b) {
                        prop_assert!(at.is_aligned(512) && at >= BASE && at + bytes <= BASE + 40 * GRANULE);
                        prop_assert!(allocated.iter().all(|(a, n)| *a + *n <= at || at + bytes <= *a));
                        allocated.push((at, bytes));
                    }
                }
                for (at, bytes) in &allocated {
                    let is_mapped = |a: GpuVa| b.mapped.range(..=a).next_back().is_some_and(|(m, n)| a - *m < *n);
                    prop_assert!(is_mapped(*at) && is_mapped(*at + (bytes - 1)));
                }
            }
            for (at, _) in allocated {
                prop_assert!(w.free(at, &mut b).unwrap().is_ok());
            }
            prop_assert!(b.mapped.is_empty());
        }
    }
}
