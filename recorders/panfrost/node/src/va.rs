//! GPU addresses of buffer objects: assigned by the node, as by Linux's driver, within 4 GiB.

use std::collections::BTreeMap;

const PAGE: u64 = trace_core::PAGE_SIZE as u64;
/// First address: the lowest 32 MiB stay free, so that a null pointer with an offset faults.
const START: u64 = 32 << 20;
/// One past the last address.
const END: u64 = 1 << 32;
/// Maximum size of a shader, bytes. A shader does not cross a multiple of it: its program counter has 24 bits.
const MAX_SHADER_BYTES: u64 = 16 << 20;
/// Alignment of large objects.
const LARGE: u64 = 2 << 20;

/// Addresses of one address space.
#[derive(Debug)]
pub(crate) struct VaAllocator {
    /// First address and one past the last of each allocated range.
    taken: BTreeMap<u64, u64>,
    /// Start address of the next search. Addresses are reused as late as possible, so that a name that a program gave
    /// to one buffer does not refer to another.
    next: u64,
}

impl Default for VaAllocator {
    fn default() -> Self {
        Self {
            taken: BTreeMap::new(),
            next: START,
        }
    }
}

impl VaAllocator {
    /// Allocates a range of whole pages. Returns `None` if there is none left.
    pub(crate) fn allocate(&mut self, bytes: u64, executable: bool) -> Option<u64> {
        let align = if executable {
            bytes.checked_next_power_of_two()?.clamp(PAGE, MAX_SHADER_BYTES)
        } else if bytes >= LARGE {
            LARGE
        } else {
            PAGE
        };
        let at = self
            .first_fit(self.next, bytes, align)
            .or_else(|| self.first_fit(START, bytes, align))?;
        self.taken.insert(at, at + bytes);
        self.next = at + bytes;
        Some(at)
    }

    fn first_fit(&self, from: u64, bytes: u64, align: u64) -> Option<u64> {
        let before = self.taken.range(..from).next_back().map_or(START, |(_, end)| *end);
        let mut at = from.max(before).max(START).checked_next_multiple_of(align)?;
        for (start, end) in self.taken.range(from..) {
            if at.checked_add(bytes)? <= *start {
                break;
            }
            at = at.max(*end).checked_next_multiple_of(align)?;
        }
        (at.checked_add(bytes)? <= END).then_some(at)
    }

    /// Releases a range.
    pub(crate) fn release(&mut self, at: u64) {
        self.taken.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_ranges_do_not_overlap_and_are_reused_late() {
        let mut a = VaAllocator::default();
        let first = a.allocate(PAGE, false).unwrap();
        let second = a.allocate(3 * PAGE, false).unwrap();
        assert_eq!((first, second), (START, START + PAGE));
        a.release(first);
        assert_eq!(
            a.allocate(PAGE, false),
            Some(START + 4 * PAGE),
            "the allocator does not reuse a freed range at once"
        );
        let large = a.allocate(LARGE, false).unwrap();
        assert_eq!(large % LARGE, 0);
        let code = a.allocate(3 * PAGE, true).unwrap();
        assert_eq!(code % (4 * PAGE), 0);
    }

    #[test]
    fn address_range_can_be_allocated_completely() {
        let mut a = VaAllocator::default();
        let mut ranges = Vec::new();
        while let Some(at) = a.allocate(64 << 20, false) {
            ranges.push(at);
        }
        assert_eq!(ranges.len(), 63);
        assert_eq!(a.allocate(u64::from(u32::MAX), false), None);
        assert_eq!(a.allocate(32 << 20, false), Some(END - (32 << 20)));
        assert_eq!(a.allocate(PAGE, false), None);
        a.release(ranges[5]);
        assert_eq!(a.allocate(PAGE, true), Some(ranges[5]));
        assert_eq!(a.allocate(32 << 20, false), Some(ranges[5] + LARGE));
        assert_eq!(a.allocate(64 << 20, false), None);
    }
}
