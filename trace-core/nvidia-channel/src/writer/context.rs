//! Set-up of a channel before its first launch: classes, windows of shared and local memory, local memory.

use super::{COMPUTE_SUBCHANNEL, COPY_SUBCHANNEL, EncodeError, EngineKind, PushBufferWriter, address_words};
use crate::GpuVa;
use crate::methods::compute::{
    SET_QMD_VERSION, SET_SHADER_EXCEPTIONS, SET_SHADER_LOCAL_MEMORY_A, SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A,
    SET_SHADER_LOCAL_MEMORY_WINDOW_A, SET_SHADER_SHARED_MEMORY_WINDOW_A, SET_SPA_VERSION,
};
use crate::qmd::QmdVersion;

/// Threads of a warp.
const WARP_THREADS: u64 = 32;
/// Granularity of local memory per TPC in bytes.
const LOCAL_MEMORY_UNIT: u64 = 0x8000;
/// Address bits since Hopper. The older classes have 49.
const ADDRESS_BITS: u32 = 57;

/// Holes of the address space through which generic addresses reach shared and local memory.
///
/// Each has 16 MiB. Mappings must not overlap them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryWindows {
    /// Base of the window of shared memory.
    pub shared: GpuVa,
    /// Base of the window of local memory.
    pub local: GpuVa,
}

/// Size of the local memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalMemorySize {
    /// Bytes for each TPC, a multiple of 32 KiB.
    pub bytes_per_tpc: u64,
    /// Bytes for all TPCs.
    pub bytes: u64,
}

impl LocalMemorySize {
    /// Returns the size for a number of bytes per thread. The counts come from the GPU's driver; on an H100 they are 64
    /// warps for each SM, 2 SMs for each TPC, and 72 TPCs with the disabled ones. Returns `None` beyond 64 bits.
    #[must_use]
    pub fn compute(bytes_per_thread: u32, warps_per_sm: u32, sms_per_tpc: u32, tpcs: u32) -> Option<Self> {
        let warps = u64::from(warps_per_sm).checked_mul(sms_per_tpc.into())?;
        let bytes = warps.checked_mul(WARP_THREADS)?.checked_mul(bytes_per_thread.into())?;
        let bytes_per_tpc = bytes.checked_next_multiple_of(LOCAL_MEMORY_UNIT)?;
        let bytes = bytes_per_tpc.checked_mul(tpcs.into())?;
        Some(Self { bytes_per_tpc, bytes })
    }
}

/// Local memory of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalMemory {
    /// Address of its first byte.
    pub address: GpuVa,
    /// Bytes for each TPC, a multiple of 32 KiB.
    pub bytes_per_tpc: u64,
    /// Value of `MAX_SM_COUNT`, 9 bits. 0xff covers every TPC of the memory.
    pub max_sm_count: u32,
}

/// What prepares a channel for launches. The optional parts are those that an H100 does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSetup {
    /// Compute class to bind to [`COMPUTE_SUBCHANNEL`].
    pub compute_class: u16,
    /// Copy class to bind to [`COPY_SUBCHANNEL`], if the channel has a copy object.
    pub copy_class: Option<u16>,
    /// Windows of shared and local memory.
    pub windows: MemoryWindows,
    /// Local memory, if a launch needs it.
    pub local_memory: Option<LocalMemory>,
    /// Architecture of the shaders, major and minor; 9 and 0 on Hopper.
    pub shader_version: Option<[u8; 2]>,
    /// Current and oldest version of launch descriptors.
    pub descriptor_version: Option<(QmdVersion, u16)>,
    /// Whether shaders report exceptions.
    pub shader_exceptions: Option<bool>,
}

impl PushBufferWriter {
    /// Writes the set-up of a channel.
    ///
    /// # Errors
    /// [`EncodeError::Address`] if an address does not fit, [`EncodeError::Size`] if a size of the local memory does
    /// not, [`EncodeError::UnknownMethod`] for a class without one of the methods.
    pub fn set_up_context(&mut self, setup: &ContextSetup) -> Result<(), EncodeError> {
        self.bind_class(COMPUTE_SUBCHANNEL, setup.compute_class)?;
        if let Some(class) = setup.copy_class {
            self.bind_class(COPY_SUBCHANNEL, class)?;
        }
        if let Some([major, minor]) = setup.shader_version {
            let value = u32::from(major) << 8 | u32::from(minor);
            self.write_engine(EngineKind::Compute, SET_SPA_VERSION, &[value])?;
        }
        if let Some((version, oldest)) = setup.descriptor_version {
            // The current version has four bits for the minor part, and the oldest one the upper half.
            let value = u32::from(oldest) << 16 | u32::from(version.major) << 4 | u32::from(version.minor);
            self.write_engine(EngineKind::Compute, SET_QMD_VERSION, &[value])?;
        }
        if let Some(enable) = setup.shader_exceptions {
            self.write_engine(EngineKind::Compute, SET_SHADER_EXCEPTIONS, &[enable.into()])?;
        }
        self.set_memory_windows(setup.windows)?;
        setup
            .local_memory
            .map_or(Ok(()), |memory| self.set_local_memory(memory))
    }

    /// Writes the windows of shared and local memory.
    ///
    /// # Errors
    /// [`EncodeError::Address`] if a window does not fit its field.
    pub fn set_memory_windows(&mut self, windows: MemoryWindows) -> Result<(), EncodeError> {
        let shared = address_words("the window of shared memory at", windows.shared, 1 << 24, 49)?;
        let local = address_words("the window of local memory at", windows.local, 1 << 24, 49)?;
        self.write_engine(EngineKind::Compute, SET_SHADER_SHARED_MEMORY_WINDOW_A, &shared)?;
        self.write_engine(EngineKind::Compute, SET_SHADER_LOCAL_MEMORY_WINDOW_A, &local)
    }

    /// Writes the local memory of the channel.
    ///
    /// # Errors
    /// [`EncodeError::Address`] and [`EncodeError::Size`] if a part does not fit.
    pub fn set_local_memory(&mut self, memory: LocalMemory) -> Result<(), EncodeError> {
        let (_, class) = self.engine(EngineKind::Compute)?;
        let bits = if class >= 0xcbc0 { ADDRESS_BITS } else { 49 };
        let address = address_words("the local memory at", memory.address, 1, bits)?;
        let size = memory.bytes_per_tpc;
        let (max_size, max_count) = ((1 << 40) - LOCAL_MEMORY_UNIT, 0x1ff);
        if size == 0 || size > max_size || size.checked_rem(LOCAL_MEMORY_UNIT) != Some(0) {
            return Err(EncodeError::Size {
                what: "local memory per TPC, in multiples of 32 KiB,",
                value: size,
                min: LOCAL_MEMORY_UNIT,
                max: max_size,
            });
        }
        if memory.max_sm_count > max_count {
            return Err(EncodeError::Size {
                what: "the number of SMs",
                value: memory.max_sm_count.into(),
                min: 0,
                max: max_count.into(),
            });
        }
        let values = [(size >> 32) as u32, size as u32, memory.max_sm_count];
        self.write_engine(EngineKind::Compute, SET_SHADER_LOCAL_MEMORY_A, &address)?;
        self.write_engine(EngineKind::Compute, SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A, &values)
    }
}
