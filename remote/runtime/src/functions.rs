//! Properties of kernels: attributes, parameters, and how many blocks fit on a multiprocessor.

use crate::contexts::bind;
use crate::errors::INVALID_VALUE;
use crate::pointers::put;
use crate::registration::{function_of, kernel};
use crate::{CallResult, thread_state};
use std::ffi::{c_char, c_void};

/// `cudaFuncAttributes`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FunctionAttributes {
    shared: usize,
    constant: usize,
    local: usize,
    /// Attributes of 32 bits, in the order of [`WORD_ATTRIBUTES`].
    words: [i32; WORD_ATTRIBUTES.len()],
    reserved: [i32; 17],
}

/// The driver's numbers of the attributes of 32 bits, in the structure's order: threads of a block, registers, PTX and
/// binary version, cache mode, dynamic shared memory, carveout, four of clusters, scheduling policy, cluster size.
const WORD_ATTRIBUTES: [i32; 13] = [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14];

/// `cudaFuncGetAttributes`. Attributes that the driver does not know are zero.
pub fn write_attributes(to: *mut FunctionAttributes, function: *const c_void) -> CallResult {
    let kernel = kernel(function)?;
    let driver = bind()?;
    let device = thread_state::device();
    let find = |attribute| -> CallResult<i32> {
        let mut value = 0;
        driver.cuKernelGetAttribute(&raw mut value, attribute, kernel, device)?;
        Ok(value)
    };
    let find_size = |attribute| find(attribute).map(|bytes| usize::try_from(bytes).unwrap_or(0));
    let attributes = FunctionAttributes {
        shared: find_size(1)?,
        constant: find_size(2).unwrap_or(0),
        local: find_size(3)?,
        words: WORD_ATTRIBUTES.map(|attribute| find(attribute).unwrap_or(0)),
        reserved: [0; 17],
    };
    put(to, attributes)
}

/// `cudaFuncSetAttribute`.
pub fn set_attribute(function: *const c_void, attribute: i32, value: i32) -> CallResult {
    let kernel = kernel(function)?;
    bind()?.cuKernelSetAttribute(attribute, value, kernel, thread_state::device())
}

/// `cudaFuncSetCacheConfig`.
pub fn set_cache_config(function: *const c_void, config: u32) -> CallResult {
    let function = function_of(function)?;
    bind()?.cuFuncSetCacheConfig(function, config)
}

/// `cudaFuncGetName`.
pub fn write_name(to: *mut *const c_char, function: *const c_void) -> CallResult {
    let kernel = kernel(function)?;
    bind()?.cuKernelGetName(to, kernel)
}

/// `cudaFuncGetParamInfo`.
pub fn write_parameter(function: *const c_void, index: usize, offset: *mut usize, bytes: *mut usize) -> CallResult {
    let kernel = kernel(function)?;
    bind()?.cuKernelGetParamInfo(kernel, index, offset, bytes)
}

/// `cudaOccupancyMaxActiveBlocksPerMultiprocessor` and its form with flags.
pub fn max_active_blocks(
    to: *mut i32,
    function: *const c_void,
    block: i32,
    shared: usize,
    flags: Option<u32>,
) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let function = function_of(function)?;
    let driver = bind()?;
    match flags {
        None => driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(to, function, block, shared),
        Some(flags) => driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(to, function, block, shared, flags),
    }
}

/// `cudaOccupancyAvailableDynamicSMemPerBlock`.
pub fn available_shared_memory(to: *mut usize, function: *const c_void, blocks: i32, threads: i32) -> CallResult {
    let function = function_of(function)?;
    bind()?.cuOccupancyAvailableDynamicSMemPerBlock(to, function, blocks, threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_size_of_the_header() {
        assert_eq!(size_of::<FunctionAttributes>(), 144);
        assert_eq!(std::mem::offset_of!(FunctionAttributes, words), 24);
    }
}
