//! The context of a device during a replay, and the properties that the driver reports.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::error::CudaReplayError;
use cuda_driver::{CuContext, CuDevice, CudaError, Driver, LIMIT_HEAP, LIMIT_PRINTF, LIMIT_STACK};
use std::ffi::c_void;

/// The primary context of a device. It is released on drop.
#[derive(Debug)]
pub(super) struct Context {
    pub driver: Driver,
    pub device: CuDevice,
}

impl Context {
    /// Initializes the driver and makes the context of the device of this number current.
    pub fn open(driver: Driver, requested: u32) -> Result<Self, CudaReplayError> {
        let mut count = 0;
        let mut device = 0;
        let mut context: CuContext = std::ptr::null_mut();
        // SAFETY: initializes the driver; the output pointers are valid.
        unsafe {
            driver.cuInit(0)?;
            driver.cuDeviceGetCount(&raw mut count)?;
            let count = u32::try_from(count).unwrap_or(0);
            if requested >= count {
                return Err(CudaReplayError::NoDevice { requested, count });
            }
            driver.cuDeviceGet(&raw mut device, requested as i32)?;
            driver.cuDevicePrimaryCtxRetain(&raw mut context, device)?;
        }
        let kept = Self { driver, device };
        // SAFETY: the context that was just retained.
        unsafe { driver.cuCtxSetCurrent(context)? };
        Ok(kept)
    }

    /// Sets context limits, each by its number. Some kernels fail with limits lower than the program set.
    pub fn limit(&self, limits: &[[u64; 2]]) -> Result<(), CudaError> {
        for [limit, value] in limits {
            let (Ok(limit), Ok(value)) = (u32::try_from(*limit), usize::try_from(*value)) else {
                continue;
            };
            if matches!(limit, LIMIT_STACK | LIMIT_PRINTF | LIMIT_HEAP) {
                // SAFETY: the driver checks both numbers.
                unsafe { self.driver.cuCtxSetLimit(limit, value)? };
            }
        }
        Ok(())
    }

    pub fn name(&self) -> String {
        device_name(&self.driver, self.device)
    }
}

/// Returns the driver's name of a device, or an empty string if there is none.
pub(super) fn device_name(driver: &Driver, device: CuDevice) -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is longer than the given length. Bytes that the driver does not write stay zero.
    let _ = unsafe { driver.cuDeviceGetName(name.as_mut_ptr().cast(), 255, device) };
    let end = name.iter().position(|b| *b == 0).unwrap_or(0);
    String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this value retained the context.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// Pinned host memory, which the device accesses directly. It is freed on drop.
#[derive(Debug)]
pub(super) struct Pinned {
    driver: Driver,
    at: *mut c_void,
    bytes: usize,
}

impl Pinned {
    /// Allocates `bytes` zero bytes.
    pub fn new(driver: Driver, bytes: usize) -> Result<Self, CudaError> {
        let mut at = std::ptr::null_mut();
        if bytes > 0 {
            // SAFETY: the output pointer is valid. The allocation has the requested length.
            unsafe {
                driver.cuMemHostAlloc(&raw mut at, bytes, 0)?;
                std::ptr::write_bytes(at.cast::<u8>(), 0, bytes);
            }
        }
        Ok(Self { driver, at, bytes })
    }

    /// Returns the address of the first byte, or null if it is empty.
    pub fn at(&self) -> *mut c_void {
        self.at
    }

    /// Returns the bytes. The device must have no pending access to them.
    pub fn bytes(&self) -> &[u8] {
        if self.at.is_null() {
            return &[];
        }
        // SAFETY: memory owned by this value, of this length, initialized at allocation.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.bytes) }
    }

    /// Fills the memory from its start, as far as there is room. The condition of [`Pinned::bytes`] applies.
    pub fn fill(&mut self, from: &[u8]) {
        let n = from.len().min(self.bytes);
        if n > 0 {
            // SAFETY: `n` is at most both lengths, and the ranges do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at.cast(), n) };
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.at.is_null() {
            // SAFETY: allocated by this value, and no device work is pending.
            let _ = unsafe { self.driver.cuMemFreeHost(self.at) };
        }
    }
}
