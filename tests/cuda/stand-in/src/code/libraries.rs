//! Libraries: code that belongs to no context, and becomes a module of a context on its first use there.

use super::functions::Function;
use super::modules::{Module, read_file, variable};
use super::{Entry, ImageError, LinkOptions, Text, read};
use crate::call::Call;
use crate::codes::{INVALID_VALUE, NOT_FOUND};
use crate::context::Context;
use crate::graphs::capture::refuse_unsafe;
use crate::handles::{Handles, pointer};
use crate::pointers::{give, text};
use crate::{Answer, lock};
use cuda_driver::{CuDevice, CuDevicePtr, CuFunction, CuKernel, CuLibrary, CuModule};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex};

/// A library.
pub struct Library {
    handle: usize,
    text: Text,
    /// Modules by their context.
    modules: Mutex<BTreeMap<usize, Arc<Module>>>,
    /// Kernels by name.
    kernels: BTreeMap<String, Arc<Kernel>>,
}

/// A kernel of a library.
pub struct Kernel {
    handle: usize,
    library: usize,
    name: CString,
    entry: Entry,
}

static LIBRARIES: Handles<Library> = Handles::new(10);
static KERNELS: Handles<Kernel> = Handles::new(11);

impl Library {
    /// Returns its module in a context. A load is not allowed during graph capture.
    fn module(&self, context: &Context) -> Answer<Arc<Module>> {
        let mut modules = lock(&self.modules);
        if let Some(module) = modules.get(&context.handle) {
            return Ok(Arc::clone(module));
        }
        let module = Module::load(context, &self.text)?;
        modules.insert(context.handle, Arc::clone(&module));
        Ok(module)
    }
}

/// Returns the function of a kernel in a context, or `None` if the handle is not a kernel's.
pub fn function_of(context: &Context, kernel: CuKernel) -> Option<Answer<Arc<Function>>> {
    let kernel = KERNELS.get(kernel).ok()?;
    let module = LIBRARIES
        .get(pointer(kernel.library))
        .and_then(|library| library.module(context));
    let name = kernel.name.to_string_lossy().into_owned();
    Some(module.and_then(|m| m.functions.get(&name).cloned().ok_or(NOT_FOUND)))
}

fn load(to: *mut CuLibrary, text: Result<Text, ImageError>) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let text = text.map_err(|r| r.code)?;
    let library = LIBRARIES.put(|handle| {
        let kernels = text.entries.iter().map(|entry| {
            let kernel = KERNELS.put(|kernel_handle| Kernel {
                handle: kernel_handle,
                library: handle,
                name: CString::new(entry.name.as_str()).unwrap_or_default(),
                entry: entry.clone(),
            });
            (entry.name.clone(), kernel)
        });
        Library {
            handle,
            kernels: kernels.collect(),
            modules: Mutex::default(),
            text,
        }
    });
    give(to, pointer(library.handle))
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
    let library = LIBRARIES.take(library)?;
    for kernel in library.kernels.values() {
        KERNELS.take(pointer(kernel.handle))?;
    }
    for module in std::mem::take(&mut *lock(&library.modules)).values() {
        module.end();
    }
    Ok(())
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

pub fn cuKernelGetFunction(call: &Call, to: *mut CuFunction, kernel: CuKernel) -> Answer {
    let context = call.context()?;
    let function = function_of(&context, kernel).ok_or(crate::codes::INVALID_HANDLE)??;
    give(to, pointer(function.handle))
}

pub fn cuKernelGetLibrary(_: &Call, to: *mut CuLibrary, kernel: CuKernel) -> Answer {
    give(to, pointer(KERNELS.get(kernel)?.library))
}

pub fn cuKernelGetName(_: &Call, to: *mut *const c_char, kernel: CuKernel) -> Answer {
    give(to, KERNELS.get(kernel)?.name.as_ptr())
}

pub fn cuKernelGetParamInfo(_: &Call, kernel: CuKernel, index: usize, offset: *mut usize, bytes: *mut usize) -> Answer {
    super::functions::parameter(&KERNELS.get(kernel)?.entry, index, offset, bytes)
}

pub fn cuKernelGetAttribute(call: &Call, to: *mut i32, attribute: i32, kernel: CuKernel, device: CuDevice) -> Answer {
    crate::device::check(device)?;
    let context = call.context()?;
    let function = function_of(&context, kernel).ok_or(crate::codes::INVALID_HANDLE)??;
    give(to, function.attribute(attribute)?)
}

pub fn cuKernelSetAttribute(call: &Call, attribute: i32, value: i32, kernel: CuKernel, device: CuDevice) -> Answer {
    crate::device::check(device)?;
    let context = call.context()?;
    let function = function_of(&context, kernel).ok_or(crate::codes::INVALID_HANDLE)??;
    function.set_attribute(attribute, value)
}
