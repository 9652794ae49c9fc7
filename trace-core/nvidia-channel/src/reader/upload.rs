//! The upload unit, which writes words of the push buffer to memory.

use super::address_words::AddressWords;
use crate::command::{Command, Semaphore, SemaphoreOperation, SemaphoreSource, SurfaceLayout, Upload};
use crate::memory::UploadedMemory;
use crate::methods::upload::*;
use crate::push_buffer::Method;

/// Value of `COMPLETION_TYPE` that releases the semaphore.
const RELEASE_SEMAPHORE: u32 = 2;

/// State of the unit.
#[derive(Debug, Clone, Default)]
pub(super) struct UploadUnit {
    line_bytes: u32,
    lines: u32,
    address: AddressWords,
    pitch: u32,
    semaphore: AddressWords,
    payload: u32,
    pending: Option<Upload>,
}

impl UploadUnit {
    /// Reads a method. Returns an upload that it completes or cuts off.
    pub(super) fn read(&mut self, method: &Method, memory: &mut UploadedMemory) -> Option<Command> {
        let value = method.value;
        match method.method {
            LINE_LENGTH_IN => self.line_bytes = value,
            LINE_COUNT => self.lines = value,
            OFFSET_OUT_UPPER => self.address.upper = value,
            OFFSET_OUT => self.address.lower = value,
            PITCH_OUT => self.pitch = value,
            SET_I2M_SEMAPHORE_A => self.semaphore.upper = value,
            SET_I2M_SEMAPHORE_B => self.semaphore.lower = value,
            SET_I2M_SEMAPHORE_C => self.payload = value,
            LAUNCH_DMA => {
                let before = self.take(memory);
                return before.or(self.start(method));
            }
            LOAD_INLINE_DATA => return self.load(&value.to_le_bytes(), memory),
            _ => {}
        }
        None
    }

    /// Adds words to the upload that has begun. Returns it if they complete it; bytes beyond its end are left out.
    pub(super) fn load(&mut self, values: &[u8], memory: &mut UploadedMemory) -> Option<Command> {
        let upload = self.pending.as_mut()?;
        let count = upload.missing_bytes.min(values.len() as u64);
        upload.bytes.extend_from_slice(values.get(..count as usize)?);
        upload.missing_bytes -= count;
        match upload.missing_bytes {
            0 => self.take(memory),
            _ => None,
        }
    }

    /// Begins an upload. Returns the semaphore of one without bytes.
    fn start(&mut self, method: &Method) -> Option<Command> {
        let bytes = u64::from(self.line_bytes) * u64::from(self.lines);
        let semaphore = self.semaphore(method);
        if bytes == 0 {
            return semaphore.map(Command::Semaphore);
        }
        self.pending = Some(Upload {
            word: method.word,
            address: self.address.address(),
            bytes: Vec::new(),
            line_bytes: self.line_bytes,
            lines: self.lines,
            pitch: self.pitch,
            layout: match method.value & 1 {
                1 => SurfaceLayout::Pitch,
                _ => SurfaceLayout::BlockLinear,
            },
            missing_bytes: bytes,
            semaphore,
        });
        None
    }

    /// Returns the semaphore that an upload releases.
    fn semaphore(&self, method: &Method) -> Option<Semaphore> {
        let value = method.value;
        let operation = match value >> 1 & 1 {
            1 => SemaphoreOperation::Reduce((value >> 13 & 7) as u8),
            _ => SemaphoreOperation::Release,
        };
        (value >> 4 & 3 == RELEASE_SEMAPHORE).then(|| Semaphore {
            word: method.word,
            source: SemaphoreSource::Upload,
            operation,
            address: self.semaphore.address(),
            payload: u64::from(self.payload),
            wide: false,
            timestamp: value >> 12 & 1 == 0,
        })
    }

    /// Returns the upload that has begun, and writes its bytes to memory.
    pub(super) fn take(&mut self, memory: &mut UploadedMemory) -> Option<Command> {
        let upload = self.pending.take()?;
        let one_line = upload.lines == 1;
        // The order of bytes in a block-linear surface of several lines is not computed.
        if one_line || upload.layout == SurfaceLayout::Pitch {
            let pitch = if one_line { upload.line_bytes } else { upload.pitch };
            let lines = upload.bytes.chunks(upload.line_bytes.max(1) as usize);
            for (line, bytes) in (0u64..).zip(lines) {
                let at = line.checked_mul(u64::from(pitch));
                if let Some(address) = at.and_then(|at| upload.address.checked_add(at)) {
                    memory.write(address, bytes);
                }
            }
        }
        Some(Command::Upload(upload))
    }
}
