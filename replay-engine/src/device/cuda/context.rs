//! The device's context, kept while something is played, and what the device tells of itself.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::error::CudaReplayError;
use cuda_driver::{CuContext, CuDevice, CudaError, Driver, LIMIT_HEAP, LIMIT_PRINTF, LIMIT_STACK};
use std::ffi::c_void;

/// The primary context of a device, given back when dropped.
#[derive(Debug)]
pub(super) struct Context {
    pub driver: Driver,
    pub device: CuDevice,
}

impl Context {
    /// Begins the driver and makes the context of the device of this number current.
    pub fn open(driver: Driver, wanted: u32) -> Result<Self, CudaReplayError> {
        let mut count = 0;
        let mut device = 0;
        let mut context: CuContext = std::ptr::null_mut();
        // SAFETY: begins the driver, with places for the answers.
        unsafe {
            driver.cuInit(0)?;
            driver.cuDeviceGetCount(&raw mut count)?;
            let count = u32::try_from(count).unwrap_or(0);
            if wanted >= count {
                return Err(CudaReplayError::NoDevice { wanted, count });
            }
            driver.cuDeviceGet(&raw mut device, wanted as i32)?;
            driver.cuDevicePrimaryCtxRetain(&raw mut context, device)?;
        }
        let kept = Self { driver, device };
        // SAFETY: the context that was just retained.
        unsafe { driver.cuCtxSetCurrent(context)? };
        Ok(kept)
    }

    /// Sets limits, each by its number. What stays as small as a program never wanted it would end kernels that need more.
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

/// The name that the driver tells of a device; empty when it tells none.
pub(super) fn device_name(driver: &Driver, device: CuDevice) -> String {
    let mut name = [0u8; 256];
    // SAFETY: the place is longer than is said. What is not answered stays zero.
    let _ = unsafe { driver.cuDeviceGetName(name.as_mut_ptr().cast(), 255, device) };
    let end = name.iter().position(|b| *b == 0).unwrap_or(0);
    String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained by this value.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// Memory of the host that the device reaches by itself, so that copies need nobody's help. Given back when dropped.
#[derive(Debug)]
pub(super) struct Pinned {
    driver: Driver,
    at: *mut c_void,
    bytes: usize,
}

impl Pinned {
    /// `bytes` bytes of it, zero.
    pub fn new(driver: Driver, bytes: usize) -> Result<Self, CudaError> {
        let mut at = std::ptr::null_mut();
        if bytes > 0 {
            // SAFETY: a place for the answer. What comes is as long as was asked for.
            unsafe {
                driver.cuMemHostAlloc(&raw mut at, bytes, 0)?;
                std::ptr::write_bytes(at.cast::<u8>(), 0, bytes);
            }
        }
        Ok(Self { driver, at, bytes })
    }

    /// Its first byte; null when it is empty.
    pub fn at(&self) -> *mut c_void {
        self.at
    }

    /// Its bytes. Nothing that the device does with it may be under way.
    pub fn bytes(&self) -> &[u8] {
        if self.at.is_null() {
            return &[];
        }
        // SAFETY: memory of this value, as long as this, set when it was made.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.bytes) }
    }

    /// Fills it from its beginning on, as far as there is room. As [`Pinned::bytes`].
    pub fn fill(&mut self, from: &[u8]) {
        let n = from.len().min(self.bytes);
        if n > 0 {
            // SAFETY: as many bytes as both have, and they are apart.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at.cast(), n) };
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.at.is_null() {
            // SAFETY: taken by this value, and nothing runs any more.
            let _ = unsafe { self.driver.cuMemFreeHost(self.at) };
        }
    }
}
