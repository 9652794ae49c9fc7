//! GPU addresses of buffer objects: assigned by the node, as by Linux's driver, within 4 GiB.

use std::collections::BTreeMap;
use trace_core::GpuVa;

const PAGE: u64 = trace_core::PAGE_SIZE as u64;
/// First address: the lowest 32 MiB stay free, so that a null pointer with an offset faults.
const START: GpuVa = GpuVa::new(32 << 20);
/// One past the last address.
const END: GpuVa = GpuVa::new(1 << 32);
/// Maximum size of a shader, bytes. A shader does not cross a multiple of it: its program counter has 24 bits.
const MAX_SHADER_BYTES: u64 = 16 << 20;
/// Alignment of large objects.
const LARGE: u64 = 2 << 20;

/// Addresses of one address space.
#[derive(Debug)]
pub(crate) struct VaAllocator {
    /// First address and one past the last of each allocated range.
    taken: BTreeMap<GpuVa, GpuVa>,
    /// Start address of the next search. Addresses are reused as late as possible, so that a name that a program gave
    /// to one buffer does not refer to another.
    next: GpuVa,
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
    pub(crate) fn allocate(&mut self, bytes: u64, executable: bool) -> Option<GpuVa> {
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

    fn first_fit(&self, from: GpuVa, bytes: u64, align: u64) -> Option<GpuVa> {
        let before = self.taken.range(..from).next_back().map_or(START, |(_, end)| *end);
        let mut at = from.max(before).max(START).align_up(align)?;
        for (start, end) in self.taken.range(from..) {
            if at.checked_add(bytes)? <= *start {
                break;
            }
            at = at.max(*end).align_up(align)?;
        }
        (at.checked_add(bytes)? <= END).then_some(at)
    }

    /// Releases a range.
    pub(crate) fn release(&mut self, at: GpuVa) {
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
        assert!(large.is_aligned(LARGE));
        let code = a.allocate(3 * PAGE, true).unwrap();
        assert!(code.is_aligned(4 * PAGE));
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
        assert_eq!(a.allocate(32 << 20, false), Some(END.wrapping_sub(32 << 20)));
        assert_eq!(a.allocate(PAGE, false), None);
        a.release(ranges[5]);
        assert_eq!(a.allocate(PAGE, true), Some(ranges[5]));
        assert_eq!(a.allocate(32 << 20, false), Some(ranges[5] + LARGE));
        assert_eq!(a.allocate(64 << 20, false), None);
    }
}
