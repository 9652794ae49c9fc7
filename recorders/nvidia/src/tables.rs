//! What the recorder knows of the program: objects, mappings on both sides, and channels.
//!
//! Hooks change the tables. The signal handler only reads the maps and changes fields of channels, so it allocates
//! nothing.

use crate::address::HostAddr;
use crate::channel::Channel;
use crate::visible_memory::{MappedMemory, MemoryLookup, ObjectKey, VisibleMemory};
use nvidia_channel::GpuVa;
use std::collections::{BTreeMap, HashMap};

/// What the recorder knows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub parent: u32,
    pub class: u32,
}

/// A mapping of an object in the memory of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostMapping {
    pub start: HostAddr,
    pub bytes: u64,
    pub object: ObjectKey,
    /// Offset in the object, bytes.
    pub offset: u64,
    pub memory: MappedMemory,
}

/// A mapping of an object in the memory of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuMapping {
    pub bytes: u64,
    pub object: ObjectKey,
    /// Offset in the object, bytes.
    pub offset: u64,
}

/// A mapping that the program prepared: the next `mmap` of a descriptor makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreparedMapping {
    pub fd: i32,
    pub object: ObjectKey,
    /// Handle of the device or subdevice.
    pub device: u32,
    pub offset: u64,
}

/// All tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    objects: HashMap<ObjectKey, Object>,
    /// Mappings of the program by their start.
    host: BTreeMap<HostAddr, HostMapping>,
    /// Starts of the mappings of an object by offset.
    host_by_object: BTreeMap<(ObjectKey, u64), HostAddr>,
    gpu: BTreeMap<u64, GpuMapping>,
    /// Bytes of ranges that unified memory reserved, by address.
    ranges: BTreeMap<u64, u64>,
    /// Memory of the program that is an object: start and size.
    user_memory: BTreeMap<ObjectKey, (HostAddr, u64)>,
    prepared: Vec<PreparedMapping>,
    /// Number of changes of the mappings.
    version: u64,
    pub channels: Vec<Channel>,
}

/// Class of a device.
const DEVICE: u32 = 0x80;
/// Maximum number of parents of an object.
const MAX_PARENTS: usize = 8;

impl MemoryLookup for Tables {
    fn version(&self) -> u64 {
        self.version
    }

    fn find_in_object(&self, object: ObjectKey, offset: u64) -> Option<VisibleMemory> {
        if let Some((start, bytes)) = self.user_memory.get(&object) {
            return Some(VisibleMemory {
                at: start.checked_add(offset)?,
                bytes: bytes.checked_sub(offset).filter(|n| *n > 0)?,
                memory: MappedMemory::Host,
            });
        }
        let mut range = self.host_by_object.range((object, 0)..=(object, offset));
        let (_, start) = range.next_back()?;
        let mapping = self.host.get(start)?;
        visible_part(mapping, offset.checked_sub(mapping.offset)?)
    }

    fn find_visible(&self, va: GpuVa) -> Option<VisibleMemory> {
        if let Some((mapping, within)) = self.gpu_mapping(va)
            && let Some(offset) = mapping.offset.checked_add(within)
            && let Some(visible) = self.find_in_object(mapping.object, offset)
        {
            let bytes = visible.bytes.min(mapping.bytes.saturating_sub(within));
            return Some(VisibleMemory { bytes, ..visible });
        }
        let at = HostAddr::new(va.0);
        let (start, mapping) = self.host.range(..=at).next_back()?;
        visible_part(mapping, at.offset_from(*start)?)
    }

    fn find_extent(&self, va: GpuVa) -> Option<VisibleMemory> {
        let visible = self.find_visible(va)?;
        let next = self.gpu.range(va.0.checked_add(1)?..).next();
        let limit = next.map_or(u64::MAX, |(start, _)| start - va.0);
        let bytes = visible.bytes.min(limit);
        Some(VisibleMemory { bytes, ..visible })
    }
}

impl Tables {
    pub fn add_object(&mut self, key: ObjectKey, object: Object) {
        self.objects.insert(key, object);
    }

    pub fn object(&self, key: ObjectKey) -> Option<Object> {
        self.objects.get(&key).copied()
    }

    /// Returns the handle of the device above an object, 0 if unknown.
    pub fn device_of(&self, key: ObjectKey) -> u32 {
        let mut handle = key.handle;
        for _ in 0..MAX_PARENTS {
            match self.object(ObjectKey { handle, ..key }) {
                Some(object) if object.class == DEVICE => return handle,
                Some(object) => handle = object.parent,
                None => return 0,
            }
        }
        0
    }

    /// Removes an object and those below it.
    pub fn free(&mut self, key: ObjectKey) {
        self.version = self.version.wrapping_add(1);
        let mut doomed = vec![key.handle];
        while let Some(handle) = doomed.pop() {
            let key = ObjectKey { handle, ..key };
            self.objects.remove(&key);
            self.user_memory.remove(&key);
            self.channels.retain(|c| c.key != key);
            let children = self.objects.iter();
            let children = children.filter(|(k, o)| k.client == key.client && o.parent == handle && k.handle != handle);
            doomed.extend(children.map(|(k, _)| k.handle));
        }
    }

    pub fn add_user_memory(&mut self, key: ObjectKey, start: HostAddr, bytes: u64) {
        self.version = self.version.wrapping_add(1);
        self.user_memory.insert(key, (start, bytes));
    }

    pub fn prepare_mapping(&mut self, mapping: PreparedMapping) {
        self.prepared.retain(|p| p.fd != mapping.fd);
        self.prepared.push(mapping);
    }

    /// Returns the prepared mapping of a descriptor, once.
    pub fn take_prepared(&mut self, fd: i32) -> Option<PreparedMapping> {
        let at = self.prepared.iter().position(|p| p.fd == fd)?;
        Some(self.prepared.swap_remove(at))
    }

    pub fn add_host_mapping(&mut self, mapping: HostMapping) {
        self.version = self.version.wrapping_add(1);
        self.host_by_object
            .insert((mapping.object, mapping.offset), mapping.start);
        self.host.insert(mapping.start, mapping);
    }

    /// Whether a range overlaps a mapping of a device.
    pub fn has_host_mapping(&self, start: HostAddr, bytes: u64) -> bool {
        self.overlapping(start, bytes).is_some()
    }

    fn overlapping(&self, start: HostAddr, bytes: u64) -> Option<HostMapping> {
        let end = start.checked_add(bytes).unwrap_or(HostAddr::new(u64::MAX));
        let (_, last) = self.host.range(..end).next_back()?;
        let last_end = last.start.checked_add(last.bytes)?;
        (last_end > start).then_some(*last)
    }

    /// Forgets a range of the program's memory. Mappings that reach beyond it keep their other parts.
    pub fn remove_host_range(&mut self, start: HostAddr, bytes: u64) {
        self.version = self.version.wrapping_add(1);
        while let Some(mapping) = self.overlapping(start, bytes) {
            self.host.remove(&mapping.start);
            let key = (mapping.object, mapping.offset);
            if self.host_by_object.get(&key) == Some(&mapping.start) {
                self.host_by_object.remove(&key);
            }
            if let Some(before) = start.offset_from(mapping.start).filter(|n| *n > 0) {
                self.add_host_mapping(HostMapping {
                    bytes: before,
                    ..mapping
                });
            }
            let Some(cut) = start.checked_add(bytes).and_then(|end| end.offset_from(mapping.start)) else {
                continue;
            };
            if let Some(after) = mapping.bytes.checked_sub(cut).filter(|n| *n > 0)
                && let (Some(start), Some(offset)) = (mapping.start.checked_add(cut), mapping.offset.checked_add(cut))
            {
                self.add_host_mapping(HostMapping {
                    start,
                    bytes: after,
                    offset,
                    ..mapping
                });
            }
        }
    }

    pub fn add_gpu_mapping(&mut self, va: GpuVa, mapping: GpuMapping) {
        self.version = self.version.wrapping_add(1);
        self.gpu.insert(va.0, mapping);
    }

    pub fn remove_gpu_mapping(&mut self, va: GpuVa) {
        self.version = self.version.wrapping_add(1);
        self.gpu.remove(&va.0);
    }

    /// Notes the size of a range that unified memory reserved.
    pub fn reserve_range(&mut self, va: GpuVa, bytes: u64) {
        self.ranges.insert(va.0, bytes);
    }

    /// Forgets the mappings that begin in a reserved range.
    pub fn release_range(&mut self, va: GpuVa) {
        self.version = self.version.wrapping_add(1);
        let bytes = self.ranges.remove(&va.0).unwrap_or(1);
        let end = va.0.saturating_add(bytes);
        while let Some((start, _)) = self.gpu.range(va.0..end).next() {
            let start = *start;
            self.gpu.remove(&start);
        }
    }

    fn gpu_mapping(&self, va: GpuVa) -> Option<(GpuMapping, u64)> {
        let (start, mapping) = self.gpu.range(..=va.0).next_back()?;
        let within = va.0 - start;
        (within < mapping.bytes).then_some((*mapping, within))
    }

    /// Whether GPU memory is known to be memory of the GPU that the program does not see.
    pub fn is_hidden_video_memory(&self, va: GpuVa) -> bool {
        /// Class of memory in the GPU.
        const LOCAL_MEMORY: u32 = 0x40;
        let object = self
            .gpu_mapping(va)
            .and_then(|(mapping, _)| self.object(mapping.object));
        object.is_some_and(|o| o.class == LOCAL_MEMORY)
    }
}

fn visible_part(mapping: &HostMapping, within: u64) -> Option<VisibleMemory> {
    Some(VisibleMemory {
        at: mapping.start.checked_add(within)?,
        bytes: mapping.bytes.checked_sub(within).filter(|n| *n > 0)?,
        memory: mapping.memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: ObjectKey = ObjectKey { client: 1, handle: 5 };

    fn host(start: u64, bytes: u64, offset: u64) -> HostMapping {
        HostMapping {
            start: HostAddr::new(start),
            bytes,
            object: MEMORY,
            offset,
            memory: MappedMemory::Host,
        }
    }

    fn visible(tables: &Tables, va: u64) -> Option<(u64, u64)> {
        tables.find_visible(GpuVa(va)).map(|v| (v.at.get(), v.bytes))
    }

    #[test]
    fn gpu_memory_is_seen_through_its_object() {
        let mut tables = Tables::default();
        tables.add_host_mapping(host(0x10_0000, 0x3000, 0x1000));
        let mapping = GpuMapping {
            bytes: 0x2000,
            object: MEMORY,
            offset: 0x2000,
        };
        tables.add_gpu_mapping(GpuVa(0x70_0000), mapping);
        assert_eq!(visible(&tables, 0x70_0010), Some((0x10_1010, 0x1ff0)));
        assert_eq!(visible(&tables, 0x70_2000), None);
        // The same address on both sides.
        assert_eq!(visible(&tables, 0x10_2000), Some((0x10_2000, 0x1000)));
        tables.remove_gpu_mapping(GpuVa(0x70_0000));
        assert_eq!(visible(&tables, 0x70_0010), None);
    }

    #[test]
    fn memory_of_the_program_is_an_object() {
        let mut tables = Tables::default();
        tables.add_user_memory(MEMORY, HostAddr::new(0x5000), 0x1000);
        tables.add_gpu_mapping(
            GpuVa(0x70_0000),
            GpuMapping {
                bytes: 0x1000,
                object: MEMORY,
                offset: 0,
            },
        );
        assert_eq!(visible(&tables, 0x70_0800), Some((0x5800, 0x800)));
    }

    #[test]
    fn an_unmapped_part_leaves_the_others() {
        let mut tables = Tables::default();
        tables.add_host_mapping(host(0x1_0000, 0x4000, 0));
        tables.remove_host_range(HostAddr::new(0x1_1000), 0x1000);
        assert_eq!(visible(&tables, 0x1_0800), Some((0x1_0800, 0x800)));
        assert_eq!(visible(&tables, 0x1_1800), None);
        assert_eq!(visible(&tables, 0x1_2000), Some((0x1_2000, 0x2000)));
        assert_eq!(
            tables.find_in_object(MEMORY, 0x3000).map(|v| v.at.get()),
            Some(0x1_3000)
        );
        assert!(tables.has_host_mapping(HostAddr::new(0x1_3fff), 1));
        assert!(!tables.has_host_mapping(HostAddr::new(0x1_4000), 0x1000));
        tables.remove_host_range(HostAddr::new(0), u64::MAX);
        assert!(!tables.has_host_mapping(HostAddr::new(0), u64::MAX));
    }

    #[test]
    fn released_ranges_take_their_mappings_along() {
        let mut tables = Tables::default();
        let mapping = GpuMapping {
            bytes: 0x1000,
            object: MEMORY,
            offset: 0,
        };
        tables.add_host_mapping(host(0x10_0000, 0x1000, 0));
        tables.reserve_range(GpuVa(0x70_0000), 0x2000);
        tables.add_gpu_mapping(GpuVa(0x70_0000), mapping);
        tables.add_gpu_mapping(GpuVa(0x70_1000), mapping);
        tables.release_range(GpuVa(0x70_0000));
        assert_eq!(visible(&tables, 0x70_1000), None);
    }

    #[test]
    fn freed_objects_take_channels_along() {
        let mut tables = Tables::default();
        let key = |handle| ObjectKey { client: 1, handle };
        for (handle, parent, class) in [(2, 1, 0x80), (3, 2, 0xa06c), (4, 3, 0xc86f)] {
            tables.add_object(key(handle), Object { parent, class });
        }
        assert_eq!(tables.device_of(key(4)), 2);
        tables
            .channels
            .push(Channel::new(key(4), 2, (GpuVa(0), 8), (MEMORY, 0)));
        tables.free(key(3));
        assert!(tables.channels.is_empty() && tables.object(key(4)).is_none());
        assert!(tables.object(key(2)).is_some());
    }
}
