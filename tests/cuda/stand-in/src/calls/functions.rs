//! Calls on functions: properties, attributes, occupancy.

use crate::Answer;
use crate::call::Call;
use crate::code::functions::{FUNCTIONS, Function, parameter};
use crate::code::libraries::find_function;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE};
use crate::device::MULTIPROCESSORS;
use crate::handles::pointer;
use crate::pointers::give;
use cuda_driver::{CuFunction, CuModule};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// Returns a function by its own handle; handles of kernels are refused, as by a real driver.
fn find_own(function: CuFunction) -> Answer<Arc<Function>> {
    FUNCTIONS.get(function).map_err(|_| INVALID_HANDLE)
}

pub fn cuFuncGetModule(_: &Call, to: *mut CuModule, function: CuFunction) -> Answer {
    give(to, pointer(find_own(function)?.module))
}

pub fn cuFuncGetName(_: &Call, to: *mut *const c_char, function: CuFunction) -> Answer {
    give(to, find_own(function)?.name.as_ptr())
}

pub fn cuFuncGetParamInfo(
    _: &Call,
    function: CuFunction,
    index: usize,
    offset: *mut usize,
    bytes: *mut usize,
) -> Answer {
    parameter(&find_own(function)?.entry, index, offset, bytes)
}

pub fn cuFuncGetAttribute(call: &Call, to: *mut i32, attribute: i32, function: CuFunction) -> Answer {
    let context = call.context()?;
    give(to, find_function(&context, function)?.attribute(attribute)?)
}

pub fn cuFuncSetAttribute(call: &Call, function: CuFunction, attribute: i32, value: i32) -> Answer {
    let context = call.context()?;
    find_function(&context, function)?.set_attribute(attribute, value)
}

pub fn cuFuncSetCacheConfig(call: &Call, function: CuFunction, config: u32) -> Answer {
    let context = call.context()?;
    find_function(&context, function)?;
    if config > 3 { Err(INVALID_VALUE) } else { Ok(()) }
}

pub fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    call: &Call,
    to: *mut i32,
    function: CuFunction,
    block: i32,
    shared: usize,
) -> Answer {
    let context = call.context()?;
    let function = find_function(&context, function)?;
    let threads = u32::try_from(block).ok().filter(|n| *n > 0).ok_or(INVALID_VALUE)?;
    give(
        to,
        function.max_resident_blocks(threads, u32::try_from(shared).unwrap_or(u32::MAX)) as i32,
    )
}

pub fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    call: &Call,
    to: *mut i32,
    function: CuFunction,
    block: i32,
    shared: usize,
    _flags: u32,
) -> Answer {
    cuOccupancyMaxActiveBlocksPerMultiprocessor(call, to, function, block, shared)
}

pub fn cuOccupancyMaxPotentialBlockSize(
    call: &Call,
    grid: *mut i32,
    block: *mut i32,
    function: CuFunction,
    _shared_of: *mut c_void,
    shared: usize,
    limit: i32,
) -> Answer {
    let context = call.context()?;
    let function = find_function(&context, function)?;
    let max = if limit > 0 {
        limit as u32
    } else {
        function.entry.max_threads
    };
    let shared = u32::try_from(shared).unwrap_or(u32::MAX);
    let sizes = (1..=max.min(function.entry.max_threads) / 32).map(|warps| warps * 32);
    let best = sizes
        .max_by_key(|threads| threads * function.max_resident_blocks(*threads, shared))
        .ok_or(INVALID_VALUE)?;
    give(block, best as i32)?;
    give(
        grid,
        (function.max_resident_blocks(best, shared) * MULTIPROCESSORS) as i32,
    )
}
