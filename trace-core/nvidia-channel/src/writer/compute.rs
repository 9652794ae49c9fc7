//! Launches, report semaphores and cache invalidations of a compute engine.

use super::upload::words_of;
use super::{EncodeError, EngineKind, PushBufferWriter, address_words};
use crate::GpuVa;
use crate::methods::compute::{
    INLINE_384, INVALIDATE_SHADER_CACHES, INVALIDATE_SHADER_CACHES_NO_WFI, SEND_PCAS_A, SEND_SIGNALING_PCAS2_B,
    SET_INLINE_QMD_ADDRESS_A, SET_REPORT_SEMAPHORE_A, WAIT_FOR_IDLE,
};

/// Alignment of a launch descriptor in bytes.
pub const DESCRIPTOR_ALIGNMENT: u64 = 256;

/// What the engine does with a launch descriptor in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchAction {
    /// Prefetches and schedules it. For a descriptor that the CPU wrote.
    PrefetchSchedule,
    /// Discards a cached copy first. For a descriptor that the channel uploaded.
    InvalidateCopySchedule,
}

/// Shader caches to discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShaderCaches {
    /// The instruction cache.
    pub instruction: bool,
    /// The cache of global memory.
    pub data: bool,
    /// The constant cache.
    pub constant: bool,
}

impl ShaderCaches {
    /// All caches.
    pub const ALL: Self = Self {
        instruction: true,
        data: true,
        constant: true,
    };

    fn bits(self) -> u32 {
        u32::from(self.instruction) | u32::from(self.data) << 4 | u32::from(self.constant) << 12
    }
}

/// A semaphore that the report unit releases after earlier compute work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportSemaphore {
    /// Address, a multiple of 4; of 16 for a time stamp.
    pub address: GpuVa,
    /// Value to write.
    pub payload: u32,
    /// A time in nanoseconds is written 8 bytes after the value: 16 bytes in all.
    pub timestamp: bool,
    /// Memory is flushed before the release.
    pub flush: bool,
}

impl PushBufferWriter {
    /// Writes a wait of the compute engine for its earlier work.
    ///
    /// # Errors
    /// [`EncodeError::UnboundEngine`] without a compute class.
    pub fn wait_for_idle(&mut self) -> Result<(), EncodeError> {
        self.write_engine(EngineKind::Compute, WAIT_FOR_IDLE, &[0])
    }

    /// Writes that shader caches discard their content. `wait_for_idle` finishes earlier work first.
    ///
    /// # Errors
    /// [`EncodeError::UnboundEngine`] without a compute class.
    pub fn invalidate_shader_caches(&mut self, caches: ShaderCaches, wait_for_idle: bool) -> Result<(), EncodeError> {
        let method = if wait_for_idle {
            INVALIDATE_SHADER_CACHES
        } else {
            INVALIDATE_SHADER_CACHES_NO_WFI
        };
        self.write_engine(EngineKind::Compute, method, &[caches.bits()])
    }

    /// Writes the launch of a descriptor in memory.
    ///
    /// # Errors
    /// [`EncodeError::Address`] if the descriptor is not a multiple of 256 below 2^40, [`EncodeError::UnknownMethod`]
    /// for a class before Ampere.
    pub fn launch_descriptor(&mut self, descriptor: GpuVa, action: LaunchAction) -> Result<(), EncodeError> {
        address_words("the launch descriptor at", descriptor, DESCRIPTOR_ALIGNMENT, 40)?;
        let action = match action {
            LaunchAction::PrefetchSchedule => 9,
            LaunchAction::InvalidateCopySchedule => 10,
        };
        self.write_engine(EngineKind::Compute, SEND_PCAS_A, &[(descriptor.0 >> 8) as u32])?;
        self.write_engine(EngineKind::Compute, SEND_SIGNALING_PCAS2_B, &[action])
    }

    /// Writes the launch of a descriptor in the push buffer. The engine stores it at `address` and starts it.
    ///
    /// # Errors
    /// [`EncodeError::Size`] if the descriptor does not have 256 bytes, or 384 since Hopper; [`EncodeError::Address`] if
    /// the address is not a multiple of 256 below 2^49 (2^40 before Hopper).
    pub fn launch_inline_descriptor(&mut self, address: GpuVa, descriptor: &[u8]) -> Result<(), EncodeError> {
        let (_, class) = self.engine(EngineKind::Compute)?;
        let hopper = class >= 0xcbc0;
        let large = match descriptor.len() {
            256 => false,
            384 if hopper => true,
            other => {
                return Err(EncodeError::Size {
                    what: "the size of the descriptor",
                    value: other as u64,
                    min: 256,
                    max: if hopper { 384 } else { 256 },
                });
            }
        };
        let bits = if hopper { 49 } else { 40 };
        address_words("the launch descriptor at", address, DESCRIPTOR_ALIGNMENT, bits)?;
        let upper = (address.0 >> 40) as u32 | if large { INLINE_384 } else { 0 };
        let mut values = vec![upper, (address.0 >> 8) as u32];
        values.extend(words_of(descriptor));
        self.write_engine(EngineKind::Compute, SET_INLINE_QMD_ADDRESS_A, &values)
    }

    /// Writes the release of a semaphore by the report unit.
    ///
    /// # Errors
    /// [`EncodeError::Address`] if the address is not aligned, or has more than 57 bits (40 before Hopper).
    pub fn report_semaphore(&mut self, report: ReportSemaphore) -> Result<(), EncodeError> {
        let (_, class) = self.engine(EngineKind::Compute)?;
        let alignment = if report.timestamp { 16 } else { 4 };
        let bits = if class >= 0xcbc0 { 57 } else { 40 };
        let [upper, lower] = address_words("the semaphore at", report.address, alignment, bits)?;
        let operation = u32::from(!report.flush) << 2 | u32::from(!report.timestamp) << 28;
        let values = [upper, lower, report.payload, operation];
        self.write_engine(EngineKind::Compute, SET_REPORT_SEMAPHORE_A, &values)
    }
}
