//! Mappings of memory: for programs, and in address spaces of the GPU.

use crate::card;
use crate::files::{DriverFile, FileMapping, State};
use crate::gpu::SpaceId;
use crate::gpu::address_space::{Mapping, PAGE_BYTES};
use crate::gpu::memory::{Memory, MemoryKind};
use crate::objects::Body;
use crate::record::Record;
use crate::status::{RmResult, RmStatus};
use nvidia_channel::GpuVa;
use std::sync::Arc;

/// The mapping has the address that the request names.
const DMA_OFFSET_FIXED: u64 = 1 << 15;
/// Alignment of addresses that the driver chooses, bytes.
const DMA_ALIGNMENT: u64 = 0x20_0000;
/// Flags that the driver adds for mappings of registers, video and system memory.
const REGISTER_FLAGS: u64 = 0x300_0000;
const REGISTER_WINDOW_FLAGS: u64 = 0x81_0000;
const VIDEO_FLAGS: u64 = 0x101_0000;
const SYSTEM_FLAGS: u64 = 0x300_8000;
/// Bus address of system memory.
const SYSTEM_ADDRESS: u64 = 0x1_0000_0000;

impl State {
    /// Returns the memory that a request names.
    pub(super) fn find_memory(&self, argument: &Record) -> RmResult<Arc<Memory>> {
        let client = argument.word("hClient");
        self.object(client, argument.word("hDevice"))?;
        self.memory(client, argument.word("hMemory")).cloned()
    }

    /// Returns what a request gives an address of the GPU.
    fn find_mappable(&self, argument: &Record) -> RmResult<Arc<Memory>> {
        let client = argument.word("hClient");
        self.object(client, argument.word("hDevice"))?;
        self.mappable(client, argument.word("hMemory")).cloned()
    }

    /// Answers `RM_MAP_MEMORY`: the next `mmap` of the file shows the memory.
    pub(super) fn map_memory(&mut self, argument: &mut Record) -> RmResult {
        let memory = self.find_memory(argument)?;
        let (offset, bytes) = (argument.get("offset"), argument.get("length"));
        let end = offset.checked_add(bytes).ok_or(RmStatus::INVALID_LIMIT)?;
        if end > memory.bytes || bytes == 0 {
            return Err(RmStatus::INVALID_LIMIT);
        }
        let (kind, address, flags) = match memory.kind {
            MemoryKind::Video => {
                let address = card::VIDEO_MEMORY_ADDRESS.saturating_add(memory.address);
                (DriverFile::Device, address, VIDEO_FLAGS)
            }
            MemoryKind::Registers if memory.address == card::USER_MODE_WINDOW_ADDRESS => {
                (DriverFile::Device, memory.address, REGISTER_WINDOW_FLAGS)
            }
            MemoryKind::Registers => (DriverFile::Device, memory.address, REGISTER_FLAGS),
            MemoryKind::System => (DriverFile::Control, SYSTEM_ADDRESS, SYSTEM_FLAGS),
            MemoryKind::User | MemoryKind::Scheduler => return Err(RmStatus::NOT_SUPPORTED),
        };
        let file = self.file(argument.descriptor("fd"));
        let file = file
            .filter(|file| file.kind == kind)
            .ok_or(RmStatus::INVALID_ARGUMENT)?;
        if file.mapping.as_ref().is_some_and(|m| m.memory.strong_count() > 0) {
            return Err(RmStatus::STATE_IN_USE);
        }
        file.mapping = Some(FileMapping {
            memory: Arc::downgrade(&memory),
            offset,
            bytes,
        });
        argument.set("pLinearAddress", address.saturating_add(offset));
        argument.set("flags", argument.get("flags") | flags);
        Ok(())
    }

    /// Answers `RM_UNMAP_MEMORY`. The program removes its mapping itself.
    pub(super) fn unmap_memory(&mut self, argument: &Record) -> RmResult {
        self.find_memory(argument).map(|_| ())
    }

    /// Returns the address space of the object `hDma`.
    fn dma_space(&self, argument: &Record) -> RmResult<SpaceId> {
        let client = argument.word("hClient");
        self.object(client, argument.word("hDevice"))?;
        match self.object(client, argument.word("hDma"))?.body {
            Body::VirtualMemory(space) => Ok(space),
            _ => Err(RmStatus::INVALID_OBJECT),
        }
    }

    /// Answers `RM_MAP_MEMORY_DMA`: gives memory an address of the GPU.
    pub(super) fn map_dma(&mut self, argument: &mut Record) -> RmResult {
        let space = self.dma_space(argument)?;
        let memory = self.find_mappable(argument)?;
        let (offset, bytes) = (argument.get("offset"), argument.get("length"));
        let address = match argument.get("flags") & DMA_OFFSET_FIXED {
            0 => None,
            _ => Some(GpuVa(argument.get("dmaOffset"))),
        };
        let address = self.map_in_space(space, address, &memory, offset, bytes)?;
        argument.set("dmaOffset", address.0);
        Ok(())
    }

    /// Maps memory in an address space, at an address or at a free one. Returns the address.
    pub(crate) fn map_in_space(
        &mut self,
        space: SpaceId,
        address: Option<GpuVa>,
        memory: &Arc<Memory>,
        offset: u64,
        bytes: u64,
    ) -> RmResult<GpuVa> {
        let end = offset.checked_add(bytes);
        let limit = memory.bytes.checked_next_multiple_of(PAGE_BYTES);
        if end.is_none() || end > limit {
            return Err(RmStatus::INVALID_LIMIT);
        }
        let space = self.gpu.spaces.get_mut(&space).ok_or(RmStatus::INVALID_OBJECT)?;
        let bytes = bytes
            .checked_next_multiple_of(PAGE_BYTES)
            .ok_or(RmStatus::INVALID_LIMIT)?;
        let address = match address {
            Some(address) => address,
            None => space.find_free(bytes, DMA_ALIGNMENT).ok_or(RmStatus::NO_MEMORY)?,
        };
        let mapping = Mapping {
            bytes,
            memory: Arc::clone(memory),
            offset,
        };
        space.map(address, mapping)?;
        Ok(address)
    }

    /// Answers `RM_UNMAP_MEMORY_DMA`.
    pub(super) fn unmap_dma(&mut self, argument: &Record) -> RmResult {
        let space = self.dma_space(argument)?;
        let memory = self.find_mappable(argument)?;
        let space = self.gpu.spaces.get_mut(&space).ok_or(RmStatus::INVALID_OBJECT)?;
        space.unmap(GpuVa(argument.get("dmaOffset")), &memory)
    }
}
