//! Memory at chosen addresses of the GPU.

use crate::argument::Argument;
use crate::client::{class, map_for_cpu};
use crate::device::open_device;
use crate::{Client, ClientError, Kernel, Mapping, Operation};

/// Bytes of a large page. Video memory is a multiple of it.
pub const LARGE_PAGE: u64 = 0x20_0000;
/// Bytes of a small page. System memory is a multiple of it.
pub const SMALL_PAGE: u64 = 0x1000;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the GPU's board.
    Video,
    /// In the machine's memory, cached and coherent.
    System,
}

impl Place {
    /// Returns the alignment of addresses and sizes.
    #[must_use]
    pub fn granule(self) -> u64 {
        match self {
            Self::Video => LARGE_PAGE,
            Self::System => SMALL_PAGE,
        }
    }
}

/// Memory of a client.
#[derive(Debug)]
pub struct Memory {
    pub(crate) handle: u32,
    /// Where it is.
    pub place: Place,
    /// GPU address of the first byte.
    pub va: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// The mapping for the CPU and the driver's address of it.
    mapping: Option<(Mapping, u64)>,
    /// Whether it is in the GPU's address space.
    has_va: bool,
    /// Whether the driver refused to map it for the CPU.
    is_refused: bool,
}

impl Memory {
    /// Returns the offset of an address that the memory holds.
    #[must_use]
    pub fn offset_of(&self, va: u64) -> Option<usize> {
        let offset = va.checked_sub(self.va).filter(|o| *o < self.bytes)?;
        usize::try_from(offset).ok()
    }

    /// Returns the mapping for the CPU.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref().map(|(mapping, _)| mapping)
    }

    /// Returns the mapping for the CPU.
    pub fn mapping_mut(&mut self) -> Option<&mut Mapping> {
        self.mapping.as_mut().map(|(mapping, _)| mapping)
    }
}

/// Words of an allocation's parameters.
struct Attributes {
    class: u32,
    kind: u32,
    flags: u32,
    attributes: u32,
    attributes2: u32,
    alignment: u64,
    /// Flags of the mapping into the address space.
    mapping: u32,
}

/// Fields of the words, from the driver's headers.
mod bits {
    /// Memory of this type is for push buffers, semaphores and the like.
    pub const TYPE_NOTIFIER: u32 = 13;
    /// Ignore the bank, force the alignment, take the size as given, map later.
    pub const FLAGS: u32 = 0x1 | 0x100 | 0x4000 | 0x8000;
    pub const FLAG_PERSISTENT: u32 = 0x1_0000;
    pub const LOCATION_PCI: u32 = 1 << 25;
    pub const NONCONTIGUOUS: u32 = 1 << 27;
    pub const ANY_CONTIGUITY: u32 = 3 << 27;
    pub const COHERENCY_CACHED: u32 = 1 << 29;
    pub const PAGE_SIZE_HUGE: u32 = 3 << 23;
    pub const ZBC_NO: u32 = 1;
    pub const GPU_CACHED: u32 = 1 << 2;
    pub const GPU_UNCACHED: u32 = 2 << 2;
    pub const HUGE_IS_2M: u32 = 1 << 20;
    /// Snoop the CPU's caches.
    pub const SNOOP: u32 = 1 << 4;
    /// The address is given.
    pub const OFFSET_FIXED: u32 = 1 << 15;
}

impl Attributes {
    fn of(place: Place) -> Self {
        match place {
            Place::Video => Self {
                class: class::VIDEO_MEMORY,
                kind: 0,
                flags: bits::FLAGS | bits::FLAG_PERSISTENT,
                attributes: bits::PAGE_SIZE_HUGE | bits::ANY_CONTIGUITY,
                attributes2: bits::GPU_CACHED | bits::ZBC_NO | bits::HUGE_IS_2M,
                alignment: LARGE_PAGE,
                mapping: bits::OFFSET_FIXED,
            },
            Place::System => Self {
                class: class::SYSTEM_MEMORY,
                kind: bits::TYPE_NOTIFIER,
                flags: bits::FLAGS,
                attributes: bits::LOCATION_PCI | bits::NONCONTIGUOUS | bits::COHERENCY_CACHED,
                attributes2: bits::GPU_UNCACHED | bits::ZBC_NO,
                alignment: SMALL_PAGE,
                mapping: bits::OFFSET_FIXED | bits::SNOOP,
            },
        }
    }
}

impl<K: Kernel> Client<K> {
    /// Allocates memory and maps it at `va`, and for the CPU too if `for_cpu` is set. Address and size are multiples of
    /// the place's granule. The driver clears both kinds of memory, unless its option
    /// `NVreg_InitializeSystemMemoryAllocations` is 0.
    ///
    /// # Errors
    /// What the driver refused, for example because the address is taken. Nothing stays allocated.
    pub fn allocate_memory(&mut self, place: Place, va: u64, bytes: u64, for_cpu: bool) -> Result<Memory, ClientError> {
        let words = Attributes::of(place);
        let mut parameters = Argument::<128>::new()
            .with_u32(0, self.calls.root)
            .with_u32(4, words.kind)
            .with_u32(8, words.flags)
            .with_u32(24, words.attributes)
            .with_u32(28, words.attributes2)
            .with_u32(32, 6)
            .with_u64(64, bytes)
            .with_u64(72, words.alignment)
            .with_u64(88, bytes.saturating_sub(1));
        let device = self.device;
        let handle = self.calls.allocate(device, words.class, &mut parameters.0)?;
        let mut memory = Memory {
            handle,
            place,
            va,
            bytes,
            mapping: None,
            has_va: false,
            is_refused: false,
        };
        let mapped = self.map_memory(&mut memory, &words, for_cpu);
        if let Err(e) = mapped {
            // The object and what was mapped of it go together; the first error is the one to report.
            let _ = self.free_memory(memory);
            return Err(e);
        }
        Ok(memory)
    }

    fn map_memory(&mut self, memory: &mut Memory, words: &Attributes, for_cpu: bool) -> Result<(), ClientError> {
        if for_cpu {
            self.create_mapping(memory)?;
        }
        self.calls.map_memory_dma(
            self.device,
            self.virtual_memory,
            memory.handle,
            memory.va,
            memory.bytes,
            words.mapping,
        )?;
        memory.has_va = true;
        Ok(())
    }

    /// Maps memory for the CPU, if it is not mapped yet. Memory that the driver refuses to map stays as it is, and is not
    /// tried again.
    pub fn map_for_writes(&mut self, memory: &mut Memory) {
        if memory.mapping.is_none() && !memory.is_refused {
            memory.is_refused = self.create_mapping(memory).is_err();
        }
    }

    fn create_mapping(&mut self, memory: &mut Memory) -> Result<(), ClientError> {
        let bytes = usize::try_from(memory.bytes).map_err(|_| ClientError::NotMapped { va: memory.va })?;
        let file = match memory.place {
            Place::Video => open_device(&mut self.calls, self.minor)?,
            Place::System => {
                let opened = self.calls.kernel.open(c"/dev/nvidiactl");
                opened.map_err(|error| ClientError::System {
                    operation: Operation::Open,
                    error,
                })?
            }
        };
        let mapped = map_for_cpu(&mut self.calls, self.device, memory.handle, bytes, file)?;
        memory.mapping = Some(mapped);
        Ok(())
    }

    /// Maps the page of the compute scheduler at `va`, 4 KiB. Kernels of CUDA's driver store messages there, which start
    /// launches that wait: so does a graph after the last kernel that a node depends on. The page is no memory; a read or a
    /// copy of it is a fault. It belongs to the compute object of a channel and goes with it.
    ///
    /// # Errors
    /// What the driver refused, for example because the address is taken.
    pub fn map_scheduler_page(&mut self, compute: u32, va: u64) -> Result<(), ClientError> {
        let (device, space) = (self.device, self.virtual_memory);
        self.calls
            .map_memory_dma(device, space, compute, va, SMALL_PAGE, bits::OFFSET_FIXED)
    }

    /// Frees memory: both mappings and the object.
    ///
    /// # Errors
    /// If the driver refuses to free the object.
    pub fn free_memory(&mut self, memory: Memory) -> Result<(), ClientError> {
        if let Some((mapping, linear)) = memory.mapping {
            self.calls.kernel.unmap(mapping);
            // An object that is freed loses its mappings anyway: only the last call decides.
            let _ = self.calls.unmap_memory(self.device, memory.handle, linear);
        }
        // The address of memory that was refused there belongs to other memory.
        if memory.has_va {
            let _ = self
                .calls
                .unmap_memory_dma(self.device, self.virtual_memory, memory.handle, memory.va);
        }
        self.calls.free(self.device, memory.handle)
    }
}
