//! Options of the just-in-time compiler and of links, with the program's buffers for logs.

use crate::CallResult;
use crate::pointers::{get_at, put, put_bytes};
use cuda_driver::{JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, JIT_INFO_LOG, JIT_INFO_LOG_BYTES};
use remote_calls::message::{JitOption, LoadAnswer};
use std::ffi::c_void;

/// Options of the just-in-time compiler, with the program's buffers for logs.
pub struct JitOptions {
    /// Options whose values are numbers, and sizes of logs.
    pub options: Vec<JitOption>,
    info: LogBuffer,
    error: LogBuffer,
    /// The lists could not be read.
    pub is_invalid: bool,
}

/// A buffer of the program for a log.
#[derive(Clone, Copy, Default)]
struct LogBuffer {
    at: usize,
    bytes: u64,
    /// Place of the size in the list of values, where the length of the log goes.
    size_at: usize,
}

impl JitOptions {
    /// No options.
    pub const NONE: Self = Self {
        options: Vec::new(),
        info: LogBuffer {
            at: 0,
            bytes: 0,
            size_at: 0,
        },
        error: LogBuffer {
            at: 0,
            bytes: 0,
            size_at: 0,
        },
        is_invalid: false,
    };

    /// Reads the options of a program.
    pub fn new(count: u32, kinds: *mut i32, values: *mut *mut c_void) -> Self {
        let mut all = Self::NONE;
        for index in 0..count as usize {
            let (Ok(kind), Ok(value)) = (get_at(kinds, index), get_at(values, index)) else {
                all.is_invalid = true;
                break;
            };
            let size_at = values.wrapping_add(index).expose_provenance();
            match kind {
                JIT_INFO_LOG => all.info.at = value.expose_provenance(),
                JIT_ERROR_LOG => all.error.at = value.expose_provenance(),
                JIT_INFO_LOG_BYTES => (all.info.bytes, all.info.size_at) = (value.addr() as u64, size_at),
                JIT_ERROR_LOG_BYTES => (all.error.bytes, all.error.size_at) = (value.addr() as u64, size_at),
                _ => {
                    let value = value.addr() as u64;
                    all.options.push(JitOption { kind, value });
                }
            }
        }
        for (kind, buffer) in [(JIT_INFO_LOG_BYTES, all.info), (JIT_ERROR_LOG_BYTES, all.error)] {
            if buffer.at != 0 && buffer.bytes != 0 {
                // The driver takes the size as 32 bits.
                let value = buffer.bytes & u64::from(u32::MAX);
                all.options.push(JitOption { kind, value });
            }
        }
        all
    }

    /// Writes logs to the buffers of the program.
    ///
    /// # Errors
    /// If a buffer is null.
    pub fn write_logs(&self, logs: LoadAnswer<'_>) -> CallResult {
        for (buffer, log) in [(self.info, logs.info), (self.error, logs.error)] {
            if buffer.at == 0 {
                continue;
            }
            let room = usize::try_from(buffer.bytes).unwrap_or(usize::MAX);
            let log = log.get(..room).unwrap_or(log);
            put_bytes(std::ptr::with_exposed_provenance_mut(buffer.at), log)?;
            if buffer.size_at != 0 {
                put(
                    std::ptr::with_exposed_provenance_mut::<u64>(buffer.size_at),
                    log.len() as u64,
                )?;
            }
        }
        Ok(())
    }
}
