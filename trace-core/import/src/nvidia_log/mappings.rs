//! The GPU addresses of buffers at a time.

use std::collections::BTreeMap;
use trace_core::GpuVa;

/// Who made a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MappingOwner {
    /// The resource manager, for a client and its object of virtual memory.
    Rm { client: u32, memory: u32 },
    /// Unified memory: all ranges of the program.
    Uvm,
}

/// A mapping of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Handle of the client of the buffer.
    pub client: u32,
    /// Handle of the buffer.
    pub handle: u32,
    /// First GPU address.
    pub va: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// Offset in the buffer.
    pub offset: u64,
    /// Handle of the address space, 0 if unknown.
    pub space: u32,
}

/// The mappings of a program.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    by_address: BTreeMap<(MappingOwner, GpuVa), Mapping>,
    /// Address and size by buffer and offset in it: for saved pages, which name their buffer.
    by_buffer: BTreeMap<(u32, u64), (GpuVa, u64)>,
    /// Sizes of the ranges that unified memory reserved, by address.
    ranges: BTreeMap<GpuVa, u64>,
}

impl Mappings {
    /// Returns the number of mappings.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Adds a mapping.
    pub fn add(&mut self, owner: MappingOwner, mapping: Mapping) {
        self.by_address.insert((owner, mapping.va), mapping);
        let place = (mapping.va, mapping.bytes);
        self.by_buffer.insert((mapping.handle, mapping.offset), place);
    }

    /// Removes the mapping that begins at an address.
    pub fn remove(&mut self, owner: MappingOwner, va: GpuVa) -> Option<Mapping> {
        let mapping = self.by_address.remove(&(owner, va))?;
        let key = (mapping.handle, mapping.offset);
        if self.by_buffer.get(&key).is_some_and(|(at, _)| *at == va) {
            self.by_buffer.remove(&key);
        }
        Some(mapping)
    }

    /// Removes the mappings that begin in a range, in the order of their addresses.
    pub fn remove_range(&mut self, owner: MappingOwner, va: GpuVa, bytes: u64) -> Vec<Mapping> {
        let Some(last) = bytes.checked_sub(1).map(|n| va.saturating_add(n)) else {
            return Vec::new();
        };
        let found = self.by_address.range((owner, va)..=(owner, last));
        let found: Vec<GpuVa> = found.map(|((_, va), _)| *va).collect();
        found.into_iter().filter_map(|va| self.remove(owner, va)).collect()
    }

    /// Notes the size of a range that unified memory reserved.
    pub fn reserve(&mut self, va: GpuVa, bytes: u64) {
        self.ranges.insert(va, bytes);
    }

    /// Removes a reserved range, and returns its size.
    pub fn release(&mut self, va: GpuVa) -> Option<u64> {
        self.ranges.remove(&va)
    }

    /// Returns the GPU address of a byte of a buffer.
    pub fn address_of(&self, handle: u32, offset: u64) -> Option<GpuVa> {
        let before = self.by_buffer.range((handle, 0)..=(handle, offset)).next_back();
        let ((_, start), (va, bytes)) = before?;
        let within = offset.checked_sub(*start).filter(|within| within < bytes)?;
        va.checked_add(within)
    }
}
