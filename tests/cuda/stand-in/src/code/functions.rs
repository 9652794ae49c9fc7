//! Functions of modules: properties, attributes, and number of resident blocks per multiprocessor.

use super::Entry;
use super::libraries::function_of;
use crate::call::Call;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE};
use crate::context::Context;
use crate::device::{BLOCKS, MAX_SHARED, REGISTERS, SHARED, THREADS};
use crate::handles::{Handles, pointer};
use crate::kernels::Body;
use crate::pointers::{give, give_if_wanted};
use crate::{Answer, kernels, lock};
use cuda_driver::{
    CuFunction, CuModule, FUNCTION_LOCAL, FUNCTION_MAX_DYNAMIC_SHARED, FUNCTION_MAX_THREADS, FUNCTION_REGISTERS,
    FUNCTION_SHARED,
};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex};

/// A function.
pub struct Function {
    pub handle: usize,
    pub name: CString,
    /// Handle of its module.
    pub module: usize,
    pub entry: Entry,
    /// Implementation, if the stand-in has one.
    pub body: Option<Body>,
    /// Attributes that were set.
    pub attributes: Mutex<BTreeMap<i32, i32>>,
    /// Variables of its module.
    pub variables: Arc<BTreeMap<String, (u64, u64)>>,
}

/// All functions.
pub static FUNCTIONS: Handles<Function> = Handles::new(12);

impl Function {
    /// Returns the function of a launch, by its own handle or by that of a kernel.
    pub fn find(context: &Context, handle: CuFunction) -> Answer<Arc<Self>> {
        match function_of(context, handle) {
            Some(function) => function,
            None => FUNCTIONS.get(handle),
        }
    }

    /// Returns an attribute by its number.
    pub fn attribute(&self, number: i32) -> Answer<i32> {
        let set = lock(&self.attributes).get(&number).copied();
        Ok(match number {
            FUNCTION_MAX_THREADS => self.entry.max_threads as i32,
            FUNCTION_SHARED => kernels::shared(&self.entry.name) as i32,
            FUNCTION_LOCAL => kernels::spilled(&self.entry.name, self.entry.registers) as i32,
            FUNCTION_REGISTERS => self.entry.registers as i32,
            // Versions of PTX and of binary code.
            5 | 6 => 90,
            FUNCTION_MAX_DYNAMIC_SHARED => set.unwrap_or(SHARED as i32),
            2 | 7 | 10..=15 => set.unwrap_or(0),
            9 => set.unwrap_or(-1),
            _ => return Err(INVALID_VALUE),
        })
    }

    /// Sets an attribute.
    pub fn set_attribute(&self, number: i32, value: i32) -> Answer {
        let good = match number {
            FUNCTION_MAX_DYNAMIC_SHARED => (0..=MAX_SHARED as i32).contains(&value),
            9 => (-1..=100).contains(&value),
            10..=15 => true,
            _ => false,
        };
        if !good {
            return Err(INVALID_VALUE);
        }
        lock(&self.attributes).insert(number, value);
        Ok(())
    }

    /// Returns the number of blocks with this many threads that a multiprocessor holds at once.
    pub fn max_resident_blocks(&self, threads: u32, shared: u32) -> u32 {
        if threads == 0 || threads > self.entry.max_threads {
            return 0;
        }
        let warps = threads.div_ceil(32) * 32;
        let total_shared = kernels::shared(&self.entry.name).saturating_add(shared);
        let by_shared = MAX_SHARED.checked_div(total_shared).unwrap_or(BLOCKS);
        BLOCKS
            .min(THREADS / warps)
            .min(REGISTERS / (self.entry.registers.max(1) * warps))
            .min(by_shared)
    }
}

/// Returns offset and size of a parameter.
pub fn parameter(entry: &Entry, index: usize, offset: *mut usize, bytes: *mut usize) -> Answer {
    let [at, length] = entry.layout.get(index).ok_or(INVALID_VALUE)?;
    give(offset, *at)?;
    give_if_wanted(bytes, *length);
    Ok(())
}

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
    give(to, Function::find(&context, function)?.attribute(attribute)?)
}

pub fn cuFuncSetAttribute(call: &Call, function: CuFunction, attribute: i32, value: i32) -> Answer {
    let context = call.context()?;
    Function::find(&context, function)?.set_attribute(attribute, value)
}

pub fn cuFuncSetCacheConfig(call: &Call, function: CuFunction, config: u32) -> Answer {
    let context = call.context()?;
    Function::find(&context, function)?;
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
    let function = Function::find(&context, function)?;
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
    let function = Function::find(&context, function)?;
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
        (function.max_resident_blocks(best, shared) * crate::device::MULTIPROCESSORS) as i32,
    )
}
