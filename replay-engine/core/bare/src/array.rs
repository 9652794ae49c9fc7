//! A device that is an array of registers: each reads as it was last written, 0 before that.
//!
//! It models no GPU: identity registers read 0 and nothing ever happens by itself, so a real plan diverges at most of
//! its reads. Every interrupt line counts as raised, polls for 0 end at once, and the plan's memory takes writes
//! without keeping them.

use replay_core::{Device, DeviceError, WaitResult};

const REGISTERS: usize = 0x4000 / 4;

/// The registers, and a clock that only waits move.
pub struct Array {
    registers: [u32; REGISTERS],
    /// Writes to the plan's memory.
    pub memory_writes: u64,
    /// Virtual nanoseconds.
    pub now_ns: u64,
}

impl Array {
    /// All registers zero.
    pub fn new() -> Self {
        Self {
            registers: [0; REGISTERS],
            memory_writes: 0,
            now_ns: 0,
        }
    }

    fn register(&mut self, offset: u64, width: u8) -> Result<&mut u32, DeviceError> {
        if width != 4 || offset & 3 != 0 {
            return Err(DeviceError::Misaligned);
        }
        let at = usize::try_from(offset / 4).map_err(|_| DeviceError::OutOfRange)?;
        self.registers.get_mut(at).ok_or(DeviceError::OutOfRange)
    }
}

impl Device for Array {
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        match space {
            0 => self.register(offset, width).map(|r| u64::from(*r)),
            _ => Err(DeviceError::NoSpace),
        }
    }

    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        match space {
            0 => *self.register(offset, width)? = value as u32,
            1 => self.memory_writes += 1,
            _ => return Err(DeviceError::NoSpace),
        }
        Ok(())
    }

    fn wait_interrupt(&mut self, lines: u32, _limit_ns: u64) -> Result<WaitResult, DeviceError> {
        Ok(WaitResult::Raised { lines })
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.now_ns = self.now_ns.saturating_add(ns);
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }
}
