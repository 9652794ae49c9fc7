//! Ranges of the host memory that both processes map.

use std::collections::BTreeMap;

/// A first-fit allocator of ranges.
#[derive(Debug)]
pub struct RangeAllocator {
    /// Sizes of free ranges by their offsets, bytes. Adjacent ranges are one.
    free: BTreeMap<u64, u64>,
}

impl RangeAllocator {
    /// Creates an allocator of this many bytes.
    pub fn new(bytes: u64) -> Self {
        Self {
            free: BTreeMap::from([(0, bytes)]),
        }
    }

    /// Allocates a range. Returns its offset, or `None` if no free range is large enough.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let (offset, room) = self
            .free
            .iter()
            .map(|(o, r)| (*o, *r))
            .find(|(_, room)| *room >= bytes)?;
        self.free.remove(&offset);
        if room > bytes {
            self.free.insert(offset + bytes, room - bytes);
        }
        Some(offset)
    }

    /// Frees a range that was allocated.
    pub fn release(&mut self, offset: u64, bytes: u64) {
        let (mut start, mut end) = (offset, offset + bytes);
        if let Some((before, room)) = self.free.range(..offset).next_back().map(|(o, r)| (*o, *r))
            && before + room == offset
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(room) = self.free.remove(&end) {
            end += room;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_ranges_join_and_are_used_again() {
        let mut ranges = RangeAllocator::new(100);
        let all: Vec<u64> = (0..10).map(|_| ranges.allocate(10).unwrap()).collect();
        assert_eq!(all, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert_eq!(ranges.allocate(1), None);
        for offset in [30, 10, 20] {
            ranges.release(offset, 10);
        }
        assert_eq!(ranges.allocate(30), Some(10));
        ranges.release(90, 10);
        ranges.release(0, 10);
        assert_eq!(ranges.allocate(11), None);
        assert_eq!(ranges.allocate(10), Some(0));
        for offset in [0, 40, 50, 60, 70, 80] {
            ranges.release(offset, 10);
        }
        ranges.release(10, 30);
        assert_eq!(ranges.allocate(100), Some(0));
    }
}
