//! Calls that load code, and that look up functions and variables in it.

use super::Call;
use crate::driver::{is_ok, text};
use crate::images::{ImageSource, find_source, read_file};
use crate::process_memory::HostAddr;
use crate::recorder::Recorder;
use crate::trace::lock;
use cuda_driver::{CuDevicePtr, CuFunction, CuKernel, CuLibrary, CuModule, CuResult};
use libc::{c_char, c_void};
use trace_core::GpuVa;
use trace_core::recording::CallGlobal;

/// Handles the load of a module or library from memory.
pub(crate) fn load(
    r: &Recorder,
    call: Call<'_>,
    name: &'static str,
    handle: *mut *mut c_void,
    image: *const c_void,
    library: bool,
) -> CuResult {
    let begun = r.trace.session.start_call();
    // The program can reuse the memory as soon as the call returns.
    let (source, origin) = find_source(HostAddr::from_pointer(image));
    let result = call();
    note(r, handle, result, source, origin, library);
    r.trace.record_call(begun, name, None, &[image as u64], result);
    result
}

/// Handles the load of a module or library from a file.
pub(crate) fn load_file(
    r: &Recorder,
    call: Call<'_>,
    name: &'static str,
    handle: *mut *mut c_void,
    path: *const c_char,
    library: bool,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let path = text(path);
    let result = call();
    let source = if is_ok(result) {
        read_file(&path)
    } else {
        ImageSource::Missing(String::new())
    };
    note(r, handle, result, source, path, library);
    r.trace.record_call(begun, name, None, &[], result);
    result
}

fn note(r: &Recorder, handle: *mut *mut c_void, result: CuResult, source: ImageSource, origin: String, library: bool) {
    if is_ok(result) && !handle.is_null() {
        // SAFETY: the driver has written the answer.
        let handle = unsafe { *handle } as usize;
        lock(&r.code).add(handle, source, origin, library);
    }
}

/// Handles the unload of a module or library.
pub(crate) fn unload(r: &Recorder, call: Call<'_>, name: &'static str, handle: *mut c_void) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if is_ok(result) {
        let mut code = lock(&r.code);
        code.remove(handle as usize);
        r.trace.invalidate_caches();
    }
    r.trace.record_call(begun, name, None, &[], result);
    result
}

/// Handles the lookup of a module's function or a library's kernel by name.
pub(crate) fn named(
    r: &Recorder,
    call: Call<'_>,
    function: *mut *mut c_void,
    owner: *mut c_void,
    name: *const c_char,
    kernel: bool,
) -> CuResult {
    let result = call();
    if is_ok(result) && !function.is_null() {
        // SAFETY: the driver has written the answer.
        let handle = unsafe { *function } as usize;
        let mut code = lock(&r.code);
        if code.add_function(handle, owner as usize, text(name), kernel) {
            r.trace.invalidate_caches();
        }
    }
    result
}

/// Handles the lookup of a variable's address by name.
pub(crate) fn variable(
    r: &Recorder,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: *mut usize,
    owner: *mut c_void,
    name: *const c_char,
) -> CuResult {
    let result = call();
    if is_ok(result) && !at.is_null() && !bytes.is_null() {
        let global = CallGlobal {
            name: text(name),
            // SAFETY: the driver has written the answers.
            at: GpuVa::new(unsafe { *at }),
            // SAFETY: as above.
            bytes: unsafe { *bytes } as u64,
        };
        lock(&r.code).add_variable(&r.trace, owner as usize, global);
    }
    result
}

/// Handles the lookup of a kernel's function.
pub(crate) fn kernel_function(r: &Recorder, call: Call<'_>, function: *mut CuFunction, kernel: CuKernel) -> CuResult {
    let result = call();
    if is_ok(result) && !function.is_null() {
        // SAFETY: the driver has written the answer.
        let handle = unsafe { *function } as usize;
        lock(&r.code).add_kernel_function(handle, kernel as usize);
    }
    result
}

/// Handles the set of an attribute of a function or kernel.
pub(crate) fn set_attribute(
    r: &Recorder,
    call: Call<'_>,
    name: &'static str,
    function: *mut c_void,
    attribute: i32,
    value: i32,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if is_ok(result) {
        let known = r.find_function(function);
        let mut tables = r.trace.session.tables();
        if let Some(f) = tables.metadata.functions.get_mut(known.number as usize) {
            match f.attributes.iter_mut().find(|[a, _]| *a == attribute) {
                Some([_, v]) => *v = value,
                None => f.attributes.push([attribute, value]),
            }
            tables.mark_changed();
        }
        drop(tables);
        let arguments = [attribute as u32 as u64, value as u32 as u64];
        r.trace.record_call(begun, name, Some(known.number), &arguments, result);
    }
    result
}

/// Handles `cuLibraryGetModule`: functions of the module belong to the library.
pub(crate) fn module_of(r: &Recorder, call: Call<'_>, module: *mut CuModule, library: CuLibrary) -> CuResult {
    let result = call();
    if is_ok(result) && !module.is_null() {
        // SAFETY: the driver has written the answer.
        let module = unsafe { *module } as usize;
        lock(&r.code).add_library_module(module, library as usize);
    }
    result
}
