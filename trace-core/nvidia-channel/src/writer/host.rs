//! Semaphores of the channel itself.

use super::{EncodeError, PushBufferWriter, address_words};
use crate::GpuVa;
use crate::methods::host::{SEM_ADDR_LO, WFI};

/// Address bits of a semaphore since Hopper.
const SEMAPHORE_BITS: u32 = 57;
/// Address bits of a semaphore before Hopper.
const OLD_SEMAPHORE_BITS: u32 = 40;
/// The class of Hopper's channels.
const HOPPER_CHANNEL: u16 = 0xc86f;

/// Value of a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SemaphorePayload {
    /// 32 bits.
    Word(u32),
    /// 64 bits.
    Wide(u64),
}

/// When an acquire ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireCondition {
    /// The value equals the payload.
    Equal,
    /// The value is at least the payload.
    GreaterEqual,
    /// The value is at least the payload, modulo the range of numbers.
    CircularGreaterEqual,
    /// The value and the payload have a common bit.
    And,
    /// Neither the value nor the payload has a bit.
    Nor,
}

/// Release of a semaphore by the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRelease {
    /// Address, a multiple of 4; of 16 for a time stamp.
    pub address: GpuVa,
    /// Value to write.
    pub payload: SemaphorePayload,
    /// The engines finish earlier work first.
    pub wait_for_idle: bool,
    /// A time in nanoseconds is written 8 bytes after the value: 16 bytes in all.
    pub timestamp: bool,
}

impl SemaphorePayload {
    /// Returns the low word, the high word and the bit of `SEM_EXECUTE` for the size.
    fn words(self) -> [u32; 3] {
        match self {
            Self::Word(value) => [value, 0, 0],
            Self::Wide(value) => [value as u32, (value >> 32) as u32, 1 << 24],
        }
    }
}

impl PushBufferWriter {
    /// Writes the release of a semaphore by the channel.
    ///
    /// # Errors
    /// [`EncodeError::Address`] if the address does not fit, [`EncodeError::UnknownMethod`] for a channel class without
    /// these methods.
    pub fn release_semaphore(&mut self, release: HostRelease) -> Result<(), EncodeError> {
        let alignment = if release.timestamp { 16 } else { 4 };
        let flags = 1 | u32::from(release.wait_for_idle) << 20 | u32::from(release.timestamp) << 25;
        self.host_semaphore(release.address, alignment, release.payload, flags)
    }

    /// Writes the wait for a semaphore by the channel. `switch` lets other channels of the GPU run during the wait.
    ///
    /// # Errors
    /// Same as [`PushBufferWriter::release_semaphore`].
    pub fn acquire_semaphore(
        &mut self,
        address: GpuVa,
        payload: SemaphorePayload,
        condition: AcquireCondition,
        switch: bool,
    ) -> Result<(), EncodeError> {
        let operation = match condition {
            AcquireCondition::Equal => 0,
            AcquireCondition::GreaterEqual => 2,
            AcquireCondition::CircularGreaterEqual => 3,
            AcquireCondition::And => 4,
            AcquireCondition::Nor => 5,
        };
        self.host_semaphore(address, 4, payload, operation | u32::from(switch) << 12)
    }

    /// Writes a wait of the channel until its engines finish earlier work (`WFI`).
    ///
    /// # Errors
    /// [`EncodeError::UnknownMethod`] for a channel class without this method.
    pub fn wait_for_engines(&mut self) -> Result<(), EncodeError> {
        self.write_host(WFI, &[0])
    }

    fn host_semaphore(
        &mut self,
        address: GpuVa,
        alignment: u64,
        payload: SemaphorePayload,
        flags: u32,
    ) -> Result<(), EncodeError> {
        let bits = if self.bindings().host() >= HOPPER_CHANNEL {
            SEMAPHORE_BITS
        } else {
            OLD_SEMAPHORE_BITS
        };
        let [upper, lower] = address_words("the semaphore at", address, alignment, bits)?;
        let [payload_lower, payload_upper, size] = payload.words();
        self.write_host(SEM_ADDR_LO, &[lower, upper, payload_lower, payload_upper, flags | size])
    }
}
