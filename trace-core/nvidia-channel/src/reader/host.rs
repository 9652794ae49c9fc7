//! The channel itself: its semaphores.

use super::address_words::AddressWords;
use crate::GpuVa;
use crate::command::{Command, Semaphore, SemaphoreOperation, SemaphoreSource};
use crate::methods::host::*;
use crate::push_buffer::Method;

const SEMAPHORE_A: u16 = 0x10;
const SEMAPHORE_B: u16 = 0x14;
const SEMAPHORE_C: u16 = 0x18;
const SEMAPHORE_D: u16 = 0x1c;

/// State of the channel.
#[derive(Debug, Clone, Default)]
pub(super) struct Host {
    address: AddressWords,
    payload: AddressWords,
    old_address: AddressWords,
    old_payload: u32,
}

impl Host {
    /// Reads a method. Returns the semaphore that it works with.
    pub(super) fn read(&mut self, method: &Method) -> Option<Command> {
        let value = method.value;
        match method.method {
            SEM_ADDR_LO => self.address.lower = value,
            SEM_ADDR_HI => self.address.upper = value,
            SEM_PAYLOAD_LO => self.payload.lower = value,
            SEM_PAYLOAD_HI => self.payload.upper = value,
            SEM_EXECUTE => return Some(Command::Semaphore(self.execute(method))),
            SEMAPHORE_A => self.old_address.upper = value,
            SEMAPHORE_B => self.old_address.lower = value,
            SEMAPHORE_C => self.old_payload = value,
            SEMAPHORE_D => return Some(Command::Semaphore(self.execute_old(method))),
            _ => {}
        }
        None
    }

    fn execute(&self, method: &Method) -> Semaphore {
        let value = method.value;
        let operation = match value & 7 {
            0 => SemaphoreOperation::Acquire,
            1 => SemaphoreOperation::Release,
            2 => SemaphoreOperation::AcquireGreaterEqual,
            3 => SemaphoreOperation::AcquireCircularGreaterEqual,
            4 => SemaphoreOperation::AcquireAnd,
            5 => SemaphoreOperation::AcquireNor,
            6 => SemaphoreOperation::Reduce((value >> 27 & 0xf) as u8),
            other => SemaphoreOperation::Unknown(other),
        };
        let wide = value >> 24 & 1 != 0;
        Semaphore {
            word: method.word,
            source: SemaphoreSource::Host,
            operation,
            address: GpuVa(self.address.address().0 & !3),
            payload: if wide {
                self.payload.address().0
            } else {
                u64::from(self.payload.lower)
            },
            wide,
            timestamp: value >> 25 & 1 != 0,
        }
    }

    /// Returns the semaphore of the form before Volta.
    fn execute_old(&self, method: &Method) -> Semaphore {
        let value = method.value;
        let operation = match value & 0x1f {
            1 => SemaphoreOperation::Acquire,
            2 => SemaphoreOperation::Release,
            4 => SemaphoreOperation::AcquireGreaterEqual,
            8 => SemaphoreOperation::AcquireAnd,
            0x10 => SemaphoreOperation::Reduce((value >> 27 & 0xf) as u8),
            other => SemaphoreOperation::Unknown(other),
        };
        Semaphore {
            word: method.word,
            source: SemaphoreSource::Host,
            operation,
            address: GpuVa(self.old_address.address().0 & !3),
            payload: u64::from(self.old_payload),
            wide: false,
            timestamp: value >> 24 & 1 == 0,
        }
    }
}
