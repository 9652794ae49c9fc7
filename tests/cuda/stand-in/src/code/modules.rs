//! Modules: code that is loaded into a context, with its functions and variables.

use super::functions::{FUNCTIONS, Function};
use super::values::Value;
use super::{ImageError, LinkOptions, Text, read, read_bytes};
use crate::call::Call;
use crate::codes::{FILE_NOT_FOUND, INVALID_VALUE, NOT_FOUND};
use crate::context::Context;
use crate::handles::{Handles, pointer};
use crate::memory::allocation::{give_back, take};
use crate::memory::{Kind, Span, ranges, spans};
use crate::pointers::{get_at, give, give_if_wanted, text};
use crate::{Answer, kernels};
use cuda_driver::{CuDevicePtr, CuFunction, CuModule};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex};

/// Option numbers of the module compiler.
const MAX_REGISTERS: i32 = 0;
const INFO_LOG: i32 = 3;
const INFO_LOG_BYTES: i32 = 4;
const ERROR_LOG: i32 = 5;
const ERROR_LOG_BYTES: i32 = 6;

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

fn load(call: &Call, to: *mut CuModule, text: Result<Text, ImageError>) -> Answer {
    let context = call.context()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let text = text.map_err(|r| r.code)?;
    give(to, pointer(Module::load(&context, &text)?.handle))
}

pub fn cuModuleLoadData(call: &Call, to: *mut CuModule, image: *const c_void) -> Answer {
    load(call, to, read(image, LinkOptions::default()))
}

pub fn cuModuleLoadFatBinary(call: &Call, to: *mut CuModule, image: *const c_void) -> Answer {
    load(call, to, read(image, LinkOptions::default()))
}

pub fn cuModuleLoad(call: &Call, to: *mut CuModule, path: *const c_char) -> Answer {
    load(call, to, read_file(path)?)
}

/// Reads code from a file.
pub fn read_file(path: *const c_char) -> Answer<Result<Text, ImageError>> {
    let path = text(path)?;
    let path = path.to_str().map_err(|_| FILE_NOT_FOUND)?;
    let bytes = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
    Ok(read_bytes(&bytes, LinkOptions::default()))
}

pub fn cuModuleLoadDataEx(
    call: &Call,
    to: *mut CuModule,
    image: *const c_void,
    count: u32,
    options: *mut i32,
    values: *mut *mut c_void,
) -> Answer {
    let mut link_options = LinkOptions::default();
    let mut values_by_option = BTreeMap::new();
    for index in 0..count as usize {
        let option = get_at(options.cast_const(), index)?;
        values_by_option.insert(option, (index, get_at(values.cast_const(), index)?));
    }
    if let Some((_, registers)) = values_by_option.get(&MAX_REGISTERS) {
        link_options.registers = *registers as usize as u32;
    }
    let read = read(image, link_options);
    let log = |text: &str, buffer: i32, size: i32| -> Answer {
        let (Some((_, to)), Some((index, room))) = (values_by_option.get(&buffer), values_by_option.get(&size)) else {
            return Ok(());
        };
        // The caller passes the size as a pointer value, and gets the written length in its place.
        let room = *room as usize;
        let bytes = text
            .as_bytes()
            .iter()
            .copied()
            .take(room.saturating_sub(1))
            .chain([0])
            .take(room);
        let mut written = 0usize;
        for byte in bytes {
            give(to.cast::<u8>().wrapping_add(written), byte)?;
            written += 1;
        }
        give(values.wrapping_add(*index), std::ptr::without_provenance_mut(written))
    };
    match &read {
        Ok(_) => log("", ERROR_LOG, ERROR_LOG_BYTES)?,
        Err(r) => log(&format!("ptxas fatal: {}", r.why), ERROR_LOG, ERROR_LOG_BYTES)?,
    }
    log("", INFO_LOG, INFO_LOG_BYTES)?;
    load(call, to, read)
}

fn find(module: CuModule) -> Answer<Arc<Module>> {
    MODULES.get(module)
}

pub fn cuModuleUnload(call: &Call, module: CuModule) -> Answer {
    let context = call.context()?;
    let module = find(module)?;
    context.synchronize()?;
    module.end();
    Ok(())
}

pub fn cuModuleGetFunction(call: &Call, to: *mut CuFunction, module: CuModule, name: *const c_char) -> Answer {
    call.context()?;
    let name = text(name)?;
    let module = find(module)?;
    let function = module.functions.get(&*name.to_string_lossy()).ok_or(NOT_FOUND)?;
    give(to, pointer(function.handle))
}

pub fn cuModuleGetFunctionCount(_: &Call, to: *mut u32, module: CuModule) -> Answer {
    give(to, u32::try_from(find(module)?.functions.len()).unwrap_or(u32::MAX))
}

pub fn cuModuleEnumerateFunctions(_: &Call, to: *mut CuFunction, count: u32, module: CuModule) -> Answer {
    let module = find(module)?;
    for (n, function) in module.functions.values().take(count as usize).enumerate() {
        give(to.wrapping_add(n), pointer(function.handle))?;
    }
    Ok(())
}

/// Returns a variable's address and size by its name.
pub fn variable(module: &Module, at: *mut CuDevicePtr, bytes: *mut usize, name: *const c_char) -> Answer {
    let name = text(name)?;
    let (first, length) = module.variables.get(&*name.to_string_lossy()).ok_or(NOT_FOUND)?;
    give_if_wanted(at, *first);
    give_if_wanted(bytes, *length as usize);
    Ok(())
}

pub fn cuModuleGetGlobal_v2(
    call: &Call,
    at: *mut CuDevicePtr,
    bytes: *mut usize,
    module: CuModule,
    name: *const c_char,
) -> Answer {
    call.context()?;
    variable(&*find(module)?, at, bytes, name)
}
