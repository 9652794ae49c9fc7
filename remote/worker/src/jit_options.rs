//! Options of the just-in-time compiler and of links.
#![allow(unsafe_code, reason = "a list of addresses of its own buffers")]

use crate::call_error::{CallError, CallResult};
use cuda_driver::{INVALID_VALUE, JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, JIT_INFO_LOG, JIT_INFO_LOG_BYTES, NOT_SUPPORTED};
use remote_calls::message::{JitOption, LoadAnswer};
use std::ffi::c_void;

/// Maximum size of a log of the just-in-time compiler, bytes: it travels in one message.
const MAX_LOG_BYTES: u64 = 64 << 10;
/// Options whose values are numbers. Others hold addresses.
const NUMBER_OPTIONS: [i32; 22] = [
    0, 1, 2, 7, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 26, 28, 30, 31, 33,
];

/// Options of the just-in-time compiler for the driver, with buffers for its logs.
pub struct JitList {
    /// Kinds of the options.
    pub kinds: Vec<i32>,
    /// Values of the options; the driver writes the lengths of logs here.
    pub values: Vec<*mut c_void>,
    info: Vec<u8>,
    error: Vec<u8>,
    info_bytes_at: Option<usize>,
    error_bytes_at: Option<usize>,
}

impl JitList {
    /// Prepares the options of a request.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for an option whose value is an address.
    pub fn new(options: &[JitOption]) -> CallResult<Self> {
        let mut list = Self {
            kinds: Vec::new(),
            values: Vec::new(),
            info: Vec::new(),
            error: Vec::new(),
            info_bytes_at: None,
            error_bytes_at: None,
        };
        for option in options {
            match option.kind {
                JIT_INFO_LOG_BYTES => list.info = vec![0; option.value.min(MAX_LOG_BYTES) as usize],
                JIT_ERROR_LOG_BYTES => list.error = vec![0; option.value.min(MAX_LOG_BYTES) as usize],
                kind if NUMBER_OPTIONS.contains(&kind) => {
                    let value = usize::try_from(option.value).map_err(|_| CallError::Result(INVALID_VALUE))?;
                    list.push(kind, std::ptr::without_provenance_mut(value));
                }
                _ => return Err(CallError::Result(NOT_SUPPORTED)),
            }
        }
        let (info, info_bytes) = (list.info.as_mut_ptr(), list.info.len());
        if info_bytes > 0 {
            list.push(JIT_INFO_LOG, info.cast());
            list.info_bytes_at = Some(list.values.len());
            list.push(JIT_INFO_LOG_BYTES, std::ptr::without_provenance_mut(info_bytes));
        }
        let (error, error_bytes) = (list.error.as_mut_ptr(), list.error.len());
        if error_bytes > 0 {
            list.push(JIT_ERROR_LOG, error.cast());
            list.error_bytes_at = Some(list.values.len());
            list.push(JIT_ERROR_LOG_BYTES, std::ptr::without_provenance_mut(error_bytes));
        }
        Ok(list)
    }

    fn push(&mut self, kind: i32, value: *mut c_void) {
        self.kinds.push(kind);
        self.values.push(value);
    }

    /// Returns the number of options.
    pub fn count(&self) -> u32 {
        self.kinds.len() as u32
    }

    /// Returns the logs, as long as the driver says that they are.
    pub fn logs(&self) -> LoadAnswer<'_> {
        let used = |log: &'_ [u8], at: Option<usize>| {
            let bytes = at
                .and_then(|at| self.values.get(at))
                .map_or(0, |value| value.addr() & 0xffff_ffff);
            bytes.min(log.len())
        };
        LoadAnswer {
            info: self
                .info
                .get(..used(&self.info, self.info_bytes_at))
                .unwrap_or_default(),
            error: self
                .error
                .get(..used(&self.error, self.error_bytes_at))
                .unwrap_or_default(),
        }
    }
}

// SAFETY: the addresses are of buffers of the same value, and the rest are numbers.
unsafe impl Send for JitList {}
