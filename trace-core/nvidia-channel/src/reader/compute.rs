//! A compute engine: launches and report semaphores.

use super::address_words::AddressWords;
use crate::GpuVa;
use crate::command::{Command, Semaphore, SemaphoreOperation, SemaphoreSource};
use crate::launch::Launch;
use crate::memory::{MemoryReader, UploadedMemory};
use crate::methods::compute::*;
use crate::push_buffer::Method;
use crate::qmd::MAX_QMD_BYTES;

const LAST_INLINE_QMD_DATA: u16 = LOAD_INLINE_QMD_DATA + MAX_QMD_BYTES as u16 - 4;

/// Bytes of an inline descriptor in the small form.
const SMALL_QMD_BYTES: u16 = 256;
/// Address bits in `SET_INLINE_QMD_ADDRESS_A` since Hopper.
const INLINE_ADDRESS: u32 = 0x1ff;
/// Values of `PCAS_ACTION` that schedule the descriptor.
const SCHEDULING_ACTIONS: [u32; 4] = [2, 3, 9, 10];

/// State of the engine.
#[derive(Debug, Clone, Default)]
pub(super) struct Compute {
    descriptor: u32,
    inline_address: AddressWords,
    inline: Vec<u8>,
    report_address: AddressWords,
    report_payload: u32,
    execute_address: AddressWords,
    execute_payload: AddressWords,
}

impl Compute {
    /// Reads a method. Returns the launch or the semaphore that it starts.
    pub(super) fn read(
        &mut self,
        class: u16,
        method: &Method,
        uploads: &mut UploadedMemory,
        memory: &dyn MemoryReader,
    ) -> Option<Command> {
        let value = method.value;
        match method.method {
            SEND_PCAS_A => self.descriptor = value,
            SEND_SIGNALING_PCAS_B if value & 2 != 0 => {
                return Some(launch(class, method, self.descriptor_address(), uploads, memory));
            }
            SEND_SIGNALING_PCAS2_B if SCHEDULING_ACTIONS.contains(&(value & 0xf)) => {
                return Some(launch(class, method, self.descriptor_address(), uploads, memory));
            }
            SET_INLINE_QMD_ADDRESS_A => {
                self.inline_address.upper = value;
                self.inline.clear();
            }
            SET_INLINE_QMD_ADDRESS_B => {
                self.inline_address.lower = value;
                self.inline.clear();
            }
            LOAD_INLINE_QMD_DATA..=LAST_INLINE_QMD_DATA => return self.inline_data(class, method, uploads, memory),
            SET_REPORT_SEMAPHORE_A => self.report_address.upper = value,
            SET_REPORT_SEMAPHORE_B => self.report_address.lower = value,
            SET_REPORT_SEMAPHORE_C => self.report_payload = value,
            SET_REPORT_SEMAPHORE_D => return Some(Command::Semaphore(self.report(method))),
            REPORT_PAYLOAD_LOWER => self.execute_payload.lower = value,
            REPORT_PAYLOAD_UPPER => self.execute_payload.upper = value,
            REPORT_ADDRESS_LOWER => self.execute_address.lower = value,
            REPORT_ADDRESS_UPPER => self.execute_address.upper = value,
            REPORT_SEMAPHORE_EXECUTE => return Some(Command::Semaphore(self.execute(method))),
            _ => {}
        }
        None
    }

    fn descriptor_address(&self) -> GpuVa {
        GpuVa(u64::from(self.descriptor) << 8)
    }

    /// Stores a word of an inline descriptor. The last word launches.
    fn inline_data(
        &mut self,
        class: u16,
        method: &Method,
        uploads: &mut UploadedMemory,
        memory: &dyn MemoryReader,
    ) -> Option<Command> {
        let at = usize::from(method.method - LOAD_INLINE_QMD_DATA);
        if self.inline.len() < at + 4 {
            self.inline.resize(at + 4, 0);
        }
        self.inline
            .get_mut(at..at + 4)?
            .copy_from_slice(&method.value.to_le_bytes());
        let upper = self.inline_address.upper;
        // The classes before Hopper have only the small form, and address bits in place of the size.
        let hopper = class >= 0xcbc0;
        let large = hopper && upper & INLINE_384 != 0;
        let bytes = if large {
            MAX_QMD_BYTES
        } else {
            usize::from(SMALL_QMD_BYTES)
        };
        if at + 4 != bytes {
            return None;
        }
        let upper = if hopper { upper & INLINE_ADDRESS } else { upper };
        let address = GpuVa(GpuVa::from_words(upper, self.inline_address.lower).0 << 8);
        uploads.write(address, self.inline.get(..bytes)?);
        self.inline.clear();
        Some(launch(class, method, address, uploads, memory))
    }

    /// Returns the semaphore of `SET_REPORT_SEMAPHORE_D`.
    fn report(&self, method: &Method) -> Semaphore {
        let value = method.value;
        let operation = match (value & 3, value >> 3 & 1) {
            (0, 1) => SemaphoreOperation::Reduce((value >> 9 & 7) as u8),
            (0, _) => SemaphoreOperation::Release,
            (3, _) => SemaphoreOperation::Trap,
            (other, _) => SemaphoreOperation::Unknown(other),
        };
        Semaphore {
            word: method.word,
            source: SemaphoreSource::Report,
            operation,
            address: self.report_address.address(),
            payload: u64::from(self.report_payload),
            wide: false,
            timestamp: value >> 28 & 1 == 0,
        }
    }

    /// Returns the semaphore of `REPORT_SEMAPHORE_EXECUTE`.
    fn execute(&self, method: &Method) -> Semaphore {
        let value = method.value;
        let operation = match (value & 3, value >> 6 & 1) {
            (0, 1) => SemaphoreOperation::Reduce((value >> 7 & 7) as u8),
            (0, _) => SemaphoreOperation::Release,
            (1, _) => SemaphoreOperation::Acquire,
            (2, _) => SemaphoreOperation::Report,
            _ => SemaphoreOperation::Trap,
        };
        let wide = value >> 12 & 1 != 0;
        let payload = self.execute_payload;
        Semaphore {
            word: method.word,
            source: SemaphoreSource::Report,
            operation,
            address: self.execute_address.address(),
            payload: if wide {
                payload.address().0
            } else {
                u64::from(payload.lower)
            },
            wide,
            timestamp: value >> 3 & 3 == 0,
        }
    }
}

fn launch(class: u16, method: &Method, at: GpuVa, uploads: &UploadedMemory, memory: &dyn MemoryReader) -> Command {
    match Launch::read(method.word, class, at, uploads, memory) {
        Ok(launch) => Command::Launch(Box::new(launch)),
        Err(error) => Command::UnreadableLaunch(error),
    }
}
