//! Address spaces of the GPU: from a virtual address to the bytes of a memory object.

use super::memory::{Memory, MemoryKind};
use crate::status::{RmResult, RmStatus};
use nvidia_channel::GpuVa;
use nvidia_channel::memory::MemoryReader;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the smallest page.
pub const PAGE_BYTES: u64 = 0x1000;
/// First address of an address space whose program does not choose it.
pub const DEFAULT_SPACE_BASE: GpuVa = GpuVa(0x10_0000);
/// End of each address space: addresses have 57 bits.
pub const SPACE_END: u64 = 1 << 57;
/// First address that the driver gives to mappings without a fixed address.
const FIRST_FREE: u64 = 0x1_0000_0000;

/// An access to an address without memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnmappedAccess {
    /// First byte that has no memory.
    pub address: GpuVa,
    pub write: bool,
}

/// A range of addresses with memory.
#[derive(Debug, Clone)]
pub struct Mapping {
    pub bytes: u64,
    pub memory: Arc<Memory>,
    /// Offset of the first byte in the memory.
    pub offset: u64,
}

/// An address space.
#[derive(Debug)]
pub struct AddressSpace {
    base: GpuVa,
    /// Mappings by their first address. They do not overlap.
    mappings: BTreeMap<u64, Mapping>,
}

impl AddressSpace {
    /// Returns a space without memory that begins at an address.
    pub fn new(base: GpuVa) -> Self {
        Self {
            base,
            mappings: BTreeMap::new(),
        }
    }

    /// Maps memory at an address.
    ///
    /// # Errors
    /// `INVALID_ADDRESS` if the address is not at a page or the range leaves the space, `NO_MEMORY` if it overlaps a
    /// mapping.
    pub fn map(&mut self, address: GpuVa, mapping: Mapping) -> RmResult {
        let end = address.0.checked_add(mapping.bytes).ok_or(RmStatus::INVALID_ADDRESS)?;
        if address < self.base || end > SPACE_END || !address.0.is_multiple_of(PAGE_BYTES) || mapping.bytes == 0 {
            return Err(RmStatus::INVALID_ADDRESS);
        }
        let before = self.mappings.range(..end).next_back();
        if before.is_some_and(|(start, m)| start + m.bytes > address.0) {
            return Err(RmStatus::NO_MEMORY);
        }
        self.mappings.insert(address.0, mapping);
        Ok(())
    }

    /// Returns the lowest free address for a mapping, or `None` if the space is full.
    pub fn find_free(&self, bytes: u64, alignment: u64) -> Option<GpuVa> {
        let alignment = alignment.max(PAGE_BYTES);
        let mut at = FIRST_FREE.max(self.base.0).checked_next_multiple_of(alignment)?;
        for (start, mapping) in &self.mappings {
            let end = start.checked_add(mapping.bytes)?;
            if at.checked_add(bytes)? <= *start {
                break;
            }
            if end > at {
                at = end.checked_next_multiple_of(alignment)?;
            }
        }
        (at.checked_add(bytes)? <= SPACE_END).then_some(GpuVa(at))
    }

    /// Removes the mapping of memory that begins at an address.
    ///
    /// # Errors
    /// `INVALID_ADDRESS` if none begins there, or one of other memory does.
    pub fn unmap(&mut self, address: GpuVa, memory: &Arc<Memory>) -> RmResult {
        let found = self.mappings.get(&address.0);
        if !found.is_some_and(|mapping| Arc::ptr_eq(&mapping.memory, memory)) {
            return Err(RmStatus::INVALID_ADDRESS);
        }
        self.mappings.remove(&address.0);
        Ok(())
    }

    /// Removes the mappings within a range.
    pub fn unmap_range(&mut self, address: GpuVa, bytes: u64) {
        let end = address.0.saturating_add(bytes);
        self.mappings
            .retain(|start, m| *start < address.0 || start.saturating_add(m.bytes) > end);
    }

    /// Removes the mappings of a memory object.
    pub fn unmap_memory(&mut self, memory: &Arc<Memory>) {
        self.mappings.retain(|_, mapping| !Arc::ptr_eq(&mapping.memory, memory));
    }

    /// Returns the number of mappings.
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Calls a function for each part of a range: with the memory, the offset there, and the part of the range.
    fn visit(
        &self,
        address: GpuVa,
        bytes: usize,
        write: bool,
        mut access: impl FnMut(&Memory, u64, std::ops::Range<usize>) -> bool,
    ) -> Result<(), UnmappedAccess> {
        let mut done = 0;
        while done < bytes {
            let unmapped = |at: u64| UnmappedAccess {
                address: GpuVa(at),
                write,
            };
            let at = address.0.checked_add(done as u64).ok_or(unmapped(u64::MAX))?;
            let (start, mapping) = self.mappings.range(..=at).next_back().ok_or(unmapped(at))?;
            let within = at - start;
            let available = mapping
                .bytes
                .checked_sub(within)
                .filter(|n| *n > 0)
                .ok_or(unmapped(at))?;
            let part = usize::try_from(available).unwrap_or(usize::MAX).min(bytes - done);
            let offset = mapping.offset.checked_add(within).ok_or(unmapped(at))?;
            if !access(&mapping.memory, offset, done..done + part) {
                return Err(unmapped(at));
            }
            done += part;
        }
        Ok(())
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// If a byte has no memory.
    pub fn read(&self, address: GpuVa, out: &mut [u8]) -> Result<(), UnmappedAccess> {
        self.visit(address, out.len(), false, |memory, offset, part| {
            out.get_mut(part).is_some_and(|out| memory.read(offset, out))
        })
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// If a byte has no memory. Bytes before it are written.
    pub fn write(&self, address: GpuVa, bytes: &[u8]) -> Result<(), UnmappedAccess> {
        self.visit(address, bytes.len(), true, |memory, offset, part| {
            bytes.get(part).is_some_and(|bytes| memory.write(offset, bytes))
        })
    }

    /// Adds a value to a number of 64 bits, or sends the value to the compute scheduler if its page is there.
    ///
    /// # Errors
    /// If a byte has no memory.
    pub fn add(&self, address: GpuVa, value: u64) -> Result<(), UnmappedAccess> {
        self.visit(address, size_of::<u64>(), true, |memory, offset, part| {
            part.len() == size_of::<u64>() && memory.add(offset, value)
        })
    }

    /// Takes the messages that kernels sent to compute schedulers.
    pub fn take_messages(&self) -> Vec<u64> {
        let pages = self
            .mappings
            .values()
            .filter(|m| m.memory.kind == MemoryKind::Scheduler);
        pages.flat_map(|page| page.memory.take_messages()).collect()
    }

    /// Reads a number of bytes.
    ///
    /// # Errors
    /// If a byte has no memory.
    pub fn read_vec(&self, address: GpuVa, bytes: usize) -> Result<Vec<u8>, UnmappedAccess> {
        let mut out = vec![0; bytes];
        self.read(address, &mut out)?;
        Ok(out)
    }

    /// Reads a fixed number of bytes.
    ///
    /// # Errors
    /// If a byte has no memory.
    pub fn read_array<const N: usize>(&self, address: GpuVa) -> Result<[u8; N], UnmappedAccess> {
        let mut out = [0; N];
        self.read(address, &mut out)?;
        Ok(out)
    }
}

impl MemoryReader for AddressSpace {
    fn read(&self, address: GpuVa, out: &mut [u8]) -> bool {
        Self::read(self, address, out).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::SharedMemory;

    fn mapping(bytes: u64) -> Mapping {
        let memory = Arc::new(SharedMemory::new(c"test", bytes).unwrap());
        Mapping {
            bytes,
            memory: Arc::new(Memory::new(MemoryKind::Video, 0, memory)),
            offset: 0,
        }
    }

    #[test]
    fn accesses_cross_mappings() {
        let mut space = AddressSpace::new(DEFAULT_SPACE_BASE);
        space.map(GpuVa(0x20_0000), mapping(0x1000)).unwrap();
        space.map(GpuVa(0x20_1000), mapping(0x1000)).unwrap();
        space.write(GpuVa(0x20_0ffe), &[1, 2, 3, 4]).unwrap();
        assert_eq!(space.read_array(GpuVa(0x20_0fff)), Ok([2, 3]));
        let error = space.read_array::<8>(GpuVa(0x20_1ffc)).unwrap_err();
        assert_eq!((error.address, error.write), (GpuVa(0x20_2000), false));
        assert!(space.write(GpuVa(u64::MAX), &[1]).unwrap_err().write);
    }

    #[test]
    fn overlaps_are_refused() {
        let mut space = AddressSpace::new(DEFAULT_SPACE_BASE);
        let first = mapping(0x2000);
        let memory = Arc::clone(&first.memory);
        space.map(GpuVa(0x20_0000), first).unwrap();
        for at in [0x20_0000, 0x20_1000, 0x1f_f000] {
            assert_eq!(
                space.map(GpuVa(at), mapping(0x2000)),
                Err(RmStatus::NO_MEMORY),
                "{at:#x}"
            );
        }
        for at in [0, 0x20_4001, SPACE_END - 0x1000] {
            assert_eq!(
                space.map(GpuVa(at), mapping(0x2000)),
                Err(RmStatus::INVALID_ADDRESS),
                "{at:#x}"
            );
        }
        space.map(GpuVa(0x20_2000), mapping(0x1000)).unwrap();
        assert_eq!(space.unmap(GpuVa(0x20_2000), &memory), Err(RmStatus::INVALID_ADDRESS));
        space.unmap(GpuVa(0x20_0000), &memory).unwrap();
        assert_eq!(space.unmap(GpuVa(0x20_0000), &memory), Err(RmStatus::INVALID_ADDRESS));
        assert_eq!(space.len(), 1);
    }

    #[test]
    fn free_addresses_follow_mappings() {
        let mut space = AddressSpace::new(DEFAULT_SPACE_BASE);
        let first = space.find_free(0x2000, 0x1000).unwrap();
        space.map(first, mapping(0x2000)).unwrap();
        let second = space.find_free(0x1000, 0x20_0000).unwrap();
        assert_eq!((first, second), (GpuVa(FIRST_FREE), GpuVa(FIRST_FREE + 0x20_0000)));
    }
}
