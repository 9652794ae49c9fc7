//! Calls on libraries and their kernels.

use crate::call::Call;
use crate::capture::refuse_unsafe;
use crate::code::functions::parameter;
use crate::code::libraries::{KERNELS, LIBRARIES, Library, function_of};
use crate::code::modules::{read_file, variable};
use crate::code::{ImageError, LinkOptions, Text, read};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED};
use crate::handles::pointer;
use crate::pointers::{give, text};
use crate::{Answer, device};
use cuda_driver::{CuDevice, CuDevicePtr, CuFunction, CuKernel, CuLibrary, CuModule};
use std::ffi::{c_char, c_void};

fn load(to: *mut CuLibrary, text: Result<Text, ImageError>) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let text = text.map_err(|r| r.code)?;
    give(to, pointer(Library::load(text).handle))
}

#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuLibraryLoadData(
    _: &Call,
    to: *mut CuLibrary,
    image: *const c_void,
    _jit: *mut i32,
    _jit_values: *mut *mut c_void,
    _jit_count: u32,
    _options: *mut i32,
    _values: *mut *mut c_void,
    _count: u32,
) -> Answer {
    load(to, read(image, LinkOptions::default()))
}

#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuLibraryLoadFromFile(
    _: &Call,
    to: *mut CuLibrary,
    path: *const c_char,
    _jit: *mut i32,
    _jit_values: *mut *mut c_void,
    _jit_count: u32,
    _options: *mut i32,
    _values: *mut *mut c_void,
    _count: u32,
) -> Answer {
    load(to, read_file(path)?)
}

pub fn cuLibraryUnload(_: &Call, library: CuLibrary) -> Answer {
    LIBRARIES.take(library)?.end()
}

pub fn cuLibraryGetKernel(_: &Call, to: *mut CuKernel, library: CuLibrary, name: *const c_char) -> Answer {
    let name = text(name)?;
    let library = LIBRARIES.get(library)?;
    let kernel = library.kernels.get(&*name.to_string_lossy()).ok_or(NOT_FOUND)?;
    give(to, pointer(kernel.handle))
}

pub fn cuLibraryGetKernelCount(_: &Call, to: *mut u32, library: CuLibrary) -> Answer {
    give(to, LIBRARIES.get(library)?.kernels.len() as u32)
}

pub fn cuLibraryEnumerateKernels(_: &Call, to: *mut CuKernel, count: u32, library: CuLibrary) -> Answer {
    let library = LIBRARIES.get(library)?;
    for (n, kernel) in library.kernels.values().take(count as usize).enumerate() {
        give(to.wrapping_add(n), pointer(kernel.handle))?;
    }
    Ok(())
}

pub fn cuLibraryGetModule(call: &Call, to: *mut CuModule, library: CuLibrary) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    give(to, pointer(LIBRARIES.get(library)?.module(&context)?.handle))
}

pub fn cuLibraryGetGlobal(
    call: &Call,
    at: *mut CuDevicePtr,
    bytes: *mut usize,
    library: CuLibrary,
    name: *const c_char,
) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    variable(&*LIBRARIES.get(library)?.module(&context)?, at, bytes, name)
}

/// Managed variables are not implemented.
pub fn cuLibraryGetManaged(
    _: &Call,
    _at: *mut CuDevicePtr,
    _bytes: *mut usize,
    _library: CuLibrary,
    _name: *const c_char,
) -> Answer {
    Err(NOT_SUPPORTED)
}

pub fn cuKernelGetFunction(call: &Call, to: *mut CuFunction, kernel: CuKernel) -> Answer {
    let context = call.context()?;
    let function = function_of(&context, kernel).ok_or(INVALID_HANDLE)??;
    give(to, pointer(function.handle))
}

pub fn cuKernelGetLibrary(_: &Call, to: *mut CuLibrary, kernel: CuKernel) -> Answer {
    give(to, pointer(KERNELS.get(kernel)?.library))
}

pub fn cuKernelGetName(_: &Call, to: *mut *const c_char, kernel: CuKernel) -> Answer {
    give(to, KERNELS.get(kernel)?.name.as_ptr())
}

pub fn cuKernelGetParamInfo(_: &Call, kernel: CuKernel, index: usize, offset: *mut usize, bytes: *mut usize) -> Answer {
    parameter(&KERNELS.get(kernel)?.entry, index, offset, bytes)
}

pub fn cuKernelGetAttribute(call: &Call, to: *mut i32, attribute: i32, kernel: CuKernel, device: CuDevice) -> Answer {
    device::check(device)?;
    let context = call.context()?;
    let function = function_of(&context, kernel).ok_or(INVALID_HANDLE)??;
    give(to, function.attribute(attribute)?)
}

pub fn cuKernelSetAttribute(call: &Call, attribute: i32, value: i32, kernel: CuKernel, device: CuDevice) -> Answer {
    device::check(device)?;
    let context = call.context()?;
    let function = function_of(&context, kernel).ok_or(INVALID_HANDLE)??;
    function.set_attribute(attribute, value)
}
