//! Calls on modules.

use crate::Answer;
use crate::call::Call;
use crate::code::modules::{Module, find as find_module, read_file, variable};
use crate::code::{ImageError, LinkOptions, Text, read};
use crate::codes::{INVALID_VALUE, NOT_FOUND};
use crate::handles::pointer;
use crate::pointers::{get_at, give, text};
use cuda_driver::{CuDevicePtr, CuFunction, CuModule};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};

/// Numbers of module compiler options.
const MAX_REGISTERS: i32 = 0;
const INFO_LOG: i32 = 3;
const INFO_LOG_BYTES: i32 = 4;
const ERROR_LOG: i32 = 5;
const ERROR_LOG_BYTES: i32 = 6;

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

pub fn cuModuleLoadDataEx(
    call: &Call,
    to: *mut CuModule,
    image: *const c_void,
    count: u32,
    options: *mut i32,
    values: *mut *mut c_void,
) -> Answer {
    let mut wishes = LinkOptions::default();
    let mut given = BTreeMap::new();
    for place in 0..count as usize {
        let option = get_at(options.cast_const(), place)?;
        given.insert(option, (place, get_at(values.cast_const(), place)?));
    }
    if let Some((_, registers)) = given.get(&MAX_REGISTERS) {
        wishes.registers = *registers as usize as u32;
    }
    let read = read(image, wishes);
    let log = |text: &str, buffer: i32, size: i32| -> Answer {
        let (Some((_, to)), Some((place, room))) = (given.get(&buffer), given.get(&size)) else {
            return Ok(());
        };
        // The size is passed in place of a pointer, and is replaced by the written length.
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
        give(values.wrapping_add(*place), std::ptr::without_provenance_mut(written))
    };
    match &read {
        Ok(_) => log("", ERROR_LOG, ERROR_LOG_BYTES)?,
        Err(r) => log(&format!("ptxas fatal: {}", r.why), ERROR_LOG, ERROR_LOG_BYTES)?,
    }
    log("", INFO_LOG, INFO_LOG_BYTES)?;
    load(call, to, read)
}

pub fn cuModuleUnload(call: &Call, module: CuModule) -> Answer {
    let context = call.context()?;
    let module = find_module(module)?;
    context.synchronize()?;
    module.end();
    Ok(())
}

pub fn cuModuleGetFunction(call: &Call, to: *mut CuFunction, module: CuModule, name: *const c_char) -> Answer {
    call.context()?;
    let name = text(name)?;
    let module = find_module(module)?;
    let function = module.functions.get(&*name.to_string_lossy()).ok_or(NOT_FOUND)?;
    give(to, pointer(function.handle))
}

pub fn cuModuleGetFunctionCount(_: &Call, to: *mut u32, module: CuModule) -> Answer {
    give(
        to,
        u32::try_from(find_module(module)?.functions.len()).unwrap_or(u32::MAX),
    )
}

pub fn cuModuleEnumerateFunctions(_: &Call, to: *mut CuFunction, count: u32, module: CuModule) -> Answer {
    let module = find_module(module)?;
    for (n, function) in module.functions.values().take(count as usize).enumerate() {
        give(to.wrapping_add(n), pointer(function.handle))?;
    }
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
    variable(&*find_module(module)?, at, bytes, name)
}
