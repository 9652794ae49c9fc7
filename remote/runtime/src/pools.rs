//! Memory pools. Attributes and properties have the driver's forms.

use crate::CallResult;
use crate::contexts::bind;
use cuda_driver::{CuDevice, CuMemPool};
use std::ffi::c_void;

/// `cudaMemPoolCreate`.
pub fn create(to: *mut CuMemPool, properties: *const c_void) -> CallResult {
    bind()?.cuMemPoolCreate(to, properties)
}

/// `cudaMemPoolDestroy`.
pub fn destroy(pool: CuMemPool) -> CallResult {
    bind()?.cuMemPoolDestroy(pool)
}

/// `cudaMemPoolTrimTo`.
pub fn trim(pool: CuMemPool, bytes: usize) -> CallResult {
    bind()?.cuMemPoolTrimTo(pool, bytes)
}

/// `cudaMemPoolSetAttribute`.
pub fn set_attribute(pool: CuMemPool, attribute: u32, value: *mut c_void) -> CallResult {
    bind()?.cuMemPoolSetAttribute(pool, attribute, value)
}

/// `cudaMemPoolGetAttribute`.
pub fn write_attribute(pool: CuMemPool, attribute: u32, to: *mut c_void) -> CallResult {
    bind()?.cuMemPoolGetAttribute(pool, attribute, to)
}

/// `cudaDeviceGetDefaultMemPool`.
pub fn write_default(to: *mut CuMemPool, device: CuDevice) -> CallResult {
    bind()?.cuDeviceGetDefaultMemPool(to, device)
}

/// `cudaDeviceGetMemPool`.
pub fn write_current(to: *mut CuMemPool, device: CuDevice) -> CallResult {
    bind()?.cuDeviceGetMemPool(to, device)
}

/// `cudaDeviceSetMemPool`.
pub fn set_current(device: CuDevice, pool: CuMemPool) -> CallResult {
    bind()?.cuDeviceSetMemPool(device, pool)
}
