//! Functions of modules: properties, attributes, and number of resident blocks per multiprocessor.

use crate::code::Entry;
use crate::codes::INVALID_VALUE;
use crate::device::{BLOCKS, MAX_SHARED, REGISTERS, SHARED, THREADS};
use crate::handles::Handles;
use crate::kernels::Body;
use crate::pointers::{give, give_if_wanted};
use crate::{Answer, kernels, lock};
use cuda_driver::{
    FUNCTION_LOCAL, FUNCTION_MAX_DYNAMIC_SHARED, FUNCTION_MAX_THREADS, FUNCTION_REGISTERS, FUNCTION_SHARED,
};
use ptx_interpreter::Program;
use std::collections::BTreeMap;
use std::ffi::CString;
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
    /// The program that the interpreter runs instead, if the text is a translated one.
    pub translated: Option<Arc<Program>>,
    /// Attributes that were set.
    pub attributes: Mutex<BTreeMap<i32, i32>>,
    /// Variables of its module.
    pub variables: Arc<BTreeMap<String, (u64, u64)>>,
}

/// All functions.
pub static FUNCTIONS: Handles<Function> = Handles::new(12);

impl Function {
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
