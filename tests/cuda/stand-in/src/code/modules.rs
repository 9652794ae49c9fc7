//! Modules: code that is loaded into a context, with its functions and variables.

use crate::code::functions::{FUNCTIONS, Function};
use crate::code::values::Value;
use crate::code::{ImageError, LinkOptions, Text, read_bytes};
use crate::codes::{FILE_NOT_FOUND, INVALID_VALUE, NOT_FOUND};
use crate::context::Context;
use crate::handles::{Handles, pointer};
use crate::memory::allocation::{give_back, take};
use crate::memory::table::{Kind, Span, ranges, spans};
use crate::pointers::{give_if_wanted, text};
use crate::{Answer, kernels};
use cuda_driver::{CuDevicePtr, CuModule};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex};

/// A module.
pub struct Module {
    pub handle: usize,
    /// Handle of its context.
    context: usize,
    /// Functions by name.
    pub functions: BTreeMap<String, Arc<Function>>,
    /// Variables by name: address and size in bytes.
    pub variables: Arc<BTreeMap<String, (u64, u64)>>,
}

static MODULES: Handles<Module> = Handles::new(9);

/// Places a text's variables in device memory.
fn place_variables(text: &Text, context: usize) -> Answer<BTreeMap<String, (u64, u64)>> {
    let mut addresses = BTreeMap::new();
    for v in &text.variables {
        addresses.insert(v.name.clone(), (take(Kind::Variable, v.bytes, context)?, v.bytes));
    }
    for v in &text.variables {
        let mut bytes = Vec::new();
        for value in &v.values {
            let bits = match value {
                Value::Bits(bits) => *bits,
                Value::Address(name, more) => addresses.get(name).map_or(0, |(at, _)| at.wrapping_add(*more)),
            };
            let word = bits.to_le_bytes();
            bytes.extend_from_slice(word.get(..v.element as usize).unwrap_or(&word));
        }
        // Variables without initial values, or with too few, are zero.
        bytes.resize(v.bytes as usize, 0);
        let at = addresses.get(&v.name).map_or(0, |(at, _)| *at);
        for span in spans(&ranges(), at, v.bytes, true, INVALID_VALUE)? {
            fill(span, &bytes);
        }
    }
    Ok(addresses)
}

fn fill(span: Span, bytes: &[u8]) {
    let count = bytes.len().min(span.bytes as usize);
    // SAFETY: the memory is that of a new variable, which no other code knows yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), span.pointer(), count) };
}

impl Module {
    /// Loads a text into a context.
    pub fn load(context: &Context, text: &Text) -> Answer<Arc<Self>> {
        let variables = Arc::new(place_variables(text, context.handle)?);
        let module = MODULES.put(|handle| {
            let functions = text.entries.iter().map(|entry| {
                let function = FUNCTIONS.put(|function_handle| Function {
                    handle: function_handle,
                    name: CString::new(entry.name.as_str()).unwrap_or_default(),
                    module: handle,
                    entry: entry.clone(),
                    body: kernels::find_body(&entry.name),
                    translated: text.translated.clone(),
                    attributes: Mutex::default(),
                    variables: Arc::clone(&variables),
                });
                (entry.name.clone(), function)
            });
            Self {
                handle,
                context: context.handle,
                functions: functions.collect(),
                variables: Arc::clone(&variables),
            }
        });
        Ok(module)
    }

    /// Unloads the module.
    pub fn end(&self) {
        for function in self.functions.values() {
            // Another call can have unloaded it already.
            let _ = FUNCTIONS.take(pointer(function.handle));
        }
        for (at, _) in self.variables.values() {
            give_back(*at);
        }
        let _ = MODULES.take(pointer(self.handle));
    }
}

/// Unloads all modules of a context that is destroyed.
pub fn forget(context: usize) {
    for module in MODULES.all().iter().filter(|m| m.context == context) {
        module.end();
    }
}

/// Reads code from a file.
pub fn read_file(path: *const c_char) -> Answer<Result<Text, ImageError>> {
    let path = text(path)?;
    let path = path.to_str().map_err(|_| FILE_NOT_FOUND)?;
    let bytes = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
    Ok(read_bytes(&bytes, LinkOptions::default()))
}

/// Returns the module of a handle.
pub fn find(module: CuModule) -> Answer<Arc<Module>> {
    MODULES.get(module)
}

/// Returns a variable's address and size by its name.
pub fn variable(module: &Module, at: *mut CuDevicePtr, bytes: *mut usize, name: *const c_char) -> Answer {
    let name = text(name)?;
    let (first, length) = module.variables.get(&*name.to_string_lossy()).ok_or(NOT_FOUND)?;
    give_if_wanted(at, *first);
    give_if_wanted(bytes, *length as usize);
    Ok(())
}
