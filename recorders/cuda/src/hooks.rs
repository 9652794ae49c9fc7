//! The driver's functions that are recorded: for each a function of its name that calls the driver's and hands over what
//! was done. Everything that is not here is forwarded untouched, because it is never replaced.

use crate::recorder::{Form, Recorder, is_ok};
use crate::resolve::{Hook, real, replaced};
use crate::{code, copies, graphs, launches, memory, order, process};
use cuda_driver::*;
use libc::{c_char, c_int, c_void};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicPtr;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The recorder is at work on this thread: what the driver calls of its own functions meanwhile is not the program's.
struct Inside;

impl Inside {
    /// `None` when this thread is inside already, or is ending.
    fn enter() -> Option<Self> {
        let entered = INSIDE.try_with(|inside| !inside.replace(true));
        entered.unwrap_or(false).then_some(Self)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// Does a call the recorder's way, or as it came where nothing is recorded. The driver is asked once at most.
fn recorded(call: Call<'_>, way: impl FnOnce(&Recorder, Call<'_>) -> CuResult) -> CuResult {
    let Some(recorder) = process::recorder_or_begin() else {
        return call();
    };
    let Some(_inside) = Inside::enter() else { return call() };
    let mut answered = None;
    let mut once = || {
        let result = call();
        answered = Some(result);
        result
    };
    match catch_unwind(AssertUnwindSafe(|| way(recorder, &mut once))) {
        Ok(result) => result,
        Err(_) => {
            recorder.fault();
            answered.unwrap_or_else(call)
        }
    }
}

macro_rules! hooks {
    ($($name:ident, $form:ident ($($arg:ident: $type:ty),*) => |$r:ident, $f:ident, $c:ident| $way:expr;)*) => {
        /// The table of all that is replaced.
        pub(crate) static HOOKS: &[Hook] = &[$(
            Hook {
                name: {
                    // A text that ends in a zero is one for the loader.
                    const NAME: &str = concat!(stringify!($name), "\0");
                    match std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    }
                },
                ours: $name as *const c_void,
                real: &reals::$name,
            },
        )*];

        mod reals {
            use super::*;
            $(
                #[allow(non_upper_case_globals, reason = "the driver's own names")]
                pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            )*
        }

        $(
            /// As the driver's function of this name, and recorded.
            ///
            /// # Safety
            /// As the driver's.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's own functions")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> CuResult {
                const NAME: &str = concat!(stringify!($name), "\0");
                let name = std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()).unwrap_or_default();
                let at = real(&reals::$name, name);
                if at.is_null() {
                    return NOT_FOUND;
                }
                // SAFETY: the driver's function of this name has this signature.
                let real = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> CuResult>(at) };
                // SAFETY: with the program's own arguments.
                let mut call = || unsafe { real($($arg),*) };
                #[allow(unused_unsafe, reason = "some ways are safe to go")]
                // SAFETY: pointers are the program's, and are read as the driver reads them.
                recorded(&mut call, |$r, $c| { let $f = Form::$form; unsafe { $way } })
            }
        )*
    };
}

hooks! {
    cuInit, Legacy (flags: u32) => |_r, _f, call| { let _ = flags; call() };
    cuMemAlloc_v2, Legacy (at: *mut CuDevicePtr, bytes: usize) => |r, f, call| memory::alloc(r, f, call, at, bytes);
    cuMemAllocPitch_v2, Legacy (at: *mut CuDevicePtr, pitch: *mut usize, width: usize, height: usize, element: u32) => |r, f, call| memory::alloc_pitch(r, f, call, at, pitch, width, height, element);
    cuMemAllocManaged, Legacy (at: *mut CuDevicePtr, bytes: usize, flags: u32) => |r, f, call| memory::alloc_managed(r, f, call, at, bytes, flags);
    cuMemFree_v2, Legacy (at: CuDevicePtr) => |r, f, call| memory::free(r, f, call, at);
    cuMemAllocAsync, Legacy (at: *mut CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| memory::alloc_async(r, f, call, at, bytes, stream);
    cuMemAllocAsync_ptsz, PerThread (at: *mut CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| memory::alloc_async(r, f, call, at, bytes, stream);
    cuMemAllocFromPoolAsync, Legacy (at: *mut CuDevicePtr, bytes: usize, pool: CuMemPool, stream: CuStream) => |r, f, call| memory::alloc_from_pool(r, f, call, at, bytes, pool, stream);
    cuMemAllocFromPoolAsync_ptsz, PerThread (at: *mut CuDevicePtr, bytes: usize, pool: CuMemPool, stream: CuStream) => |r, f, call| memory::alloc_from_pool(r, f, call, at, bytes, pool, stream);
    cuMemFreeAsync, Legacy (at: CuDevicePtr, stream: CuStream) => |r, f, call| memory::free_async(r, f, call, at, stream);
    cuMemFreeAsync_ptsz, PerThread (at: CuDevicePtr, stream: CuStream) => |r, f, call| memory::free_async(r, f, call, at, stream);
    cuMemAllocHost_v2, Legacy (at: *mut *mut c_void, bytes: usize) => |r, f, call| memory::alloc_host(r, f, call, at, bytes);
    cuMemHostAlloc, Legacy (at: *mut *mut c_void, bytes: usize, flags: u32) => |r, f, call| memory::host_alloc(r, f, call, at, bytes, flags);
    cuMemFreeHost, Legacy (at: *mut c_void) => |r, f, call| memory::free_host(r, f, call, at);
    cuMemHostRegister_v2, Legacy (at: *mut c_void, bytes: usize, flags: u32) => |r, f, call| memory::register_host(r, f, call, at, bytes, flags);
    cuMemHostUnregister, Legacy (at: *mut c_void) => |r, f, call| memory::unregister_host(r, f, call, at);
    cuMemHostGetDevicePointer_v2, Legacy (to: *mut CuDevicePtr, at: *mut c_void, flags: u32) => |r, f, call| memory::host_device_pointer(r, f, call, to, at, flags);
    cuMemGetAddressRange_v2, Legacy (base: *mut CuDevicePtr, bytes: *mut usize, at: CuDevicePtr) => |r, f, call| memory::address_range(r, f, call, base, bytes, at);
    cuMemcpy, Legacy (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::unified(r, copies::Where::now(f), call, to, from, bytes);
    cuMemcpy_ptds, PerThread (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::unified(r, copies::Where::now(f), call, to, from, bytes);
    cuMemcpyAsync, Legacy (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::unified(r, copies::Where::later(stream, f), call, to, from, bytes);
    cuMemcpyAsync_ptsz, PerThread (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::unified(r, copies::Where::later(stream, f), call, to, from, bytes);
    cuMemcpyHtoD_v2, Legacy (to: CuDevicePtr, from: *const c_void, bytes: usize) => |r, f, call| copies::to_device(r, copies::Where::now(f), call, to, from, bytes);
    cuMemcpyHtoD_v2_ptds, PerThread (to: CuDevicePtr, from: *const c_void, bytes: usize) => |r, f, call| copies::to_device(r, copies::Where::now(f), call, to, from, bytes);
    cuMemcpyHtoDAsync_v2, Legacy (to: CuDevicePtr, from: *const c_void, bytes: usize, stream: CuStream) => |r, f, call| copies::to_device(r, copies::Where::later(stream, f), call, to, from, bytes);
    cuMemcpyHtoDAsync_v2_ptsz, PerThread (to: CuDevicePtr, from: *const c_void, bytes: usize, stream: CuStream) => |r, f, call| copies::to_device(r, copies::Where::later(stream, f), call, to, from, bytes);
    cuMemcpyDtoH_v2, Legacy (to: *mut c_void, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::to_host(r, copies::Where::now(f), call, to, from, bytes);
    cuMemcpyDtoH_v2_ptds, PerThread (to: *mut c_void, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::to_host(r, copies::Where::now(f), call, to, from, bytes);
    cuMemcpyDtoHAsync_v2, Legacy (to: *mut c_void, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::to_host(r, copies::Where::later(stream, f), call, to, from, bytes);
    cuMemcpyDtoHAsync_v2_ptsz, PerThread (to: *mut c_void, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::to_host(r, copies::Where::later(stream, f), call, to, from, bytes);
    cuMemcpyDtoD_v2, Legacy (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::on_device(r, copies::Where::now(f), call, to, from, bytes);
    cuMemcpyDtoD_v2_ptds, PerThread (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::on_device(r, copies::Where::now(f), call, to, from, bytes);
    cuMemcpyDtoDAsync_v2, Legacy (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::on_device(r, copies::Where::later(stream, f), call, to, from, bytes);
    cuMemcpyDtoDAsync_v2_ptsz, PerThread (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::on_device(r, copies::Where::later(stream, f), call, to, from, bytes);
    cuMemcpy2D_v2, Legacy (copy: *const Copy2d) => |r, f, call| copies::rows(r, copies::Where::now(f), call, copy);
    cuMemcpy2D_v2_ptds, PerThread (copy: *const Copy2d) => |r, f, call| copies::rows(r, copies::Where::now(f), call, copy);
    cuMemcpy2DUnaligned_v2, Legacy (copy: *const Copy2d) => |r, f, call| copies::rows(r, copies::Where::now(f), call, copy);
    cuMemcpy2DUnaligned_v2_ptds, PerThread (copy: *const Copy2d) => |r, f, call| copies::rows(r, copies::Where::now(f), call, copy);
    cuMemcpy2DAsync_v2, Legacy (copy: *const Copy2d, stream: CuStream) => |r, f, call| copies::rows(r, copies::Where::later(stream, f), call, copy);
    cuMemcpy2DAsync_v2_ptsz, PerThread (copy: *const Copy2d, stream: CuStream) => |r, f, call| copies::rows(r, copies::Where::later(stream, f), call, copy);
    cuMemcpy3D_v2, Legacy (copy: *const Copy3d) => |r, f, call| copies::slices(r, copies::Where::now(f), call, copy);
    cuMemcpy3D_v2_ptds, PerThread (copy: *const Copy3d) => |r, f, call| copies::slices(r, copies::Where::now(f), call, copy);
    cuMemcpy3DAsync_v2, Legacy (copy: *const Copy3d, stream: CuStream) => |r, f, call| copies::slices(r, copies::Where::later(stream, f), call, copy);
    cuMemcpy3DAsync_v2_ptsz, PerThread (copy: *const Copy3d, stream: CuStream) => |r, f, call| copies::slices(r, copies::Where::later(stream, f), call, copy);
    cuMemsetD8_v2, Legacy (to: CuDevicePtr, value: u8, count: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::elements(to, value.into(), 1, count));
    cuMemsetD8_v2_ptds, PerThread (to: CuDevicePtr, value: u8, count: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::elements(to, value.into(), 1, count));
    cuMemsetD16_v2, Legacy (to: CuDevicePtr, value: u16, count: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::elements(to, value.into(), 2, count));
    cuMemsetD16_v2_ptds, PerThread (to: CuDevicePtr, value: u16, count: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::elements(to, value.into(), 2, count));
    cuMemsetD32_v2, Legacy (to: CuDevicePtr, value: u32, count: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::elements(to, value, 4, count));
    cuMemsetD32_v2_ptds, PerThread (to: CuDevicePtr, value: u32, count: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::elements(to, value, 4, count));
    cuMemsetD2D8_v2, Legacy (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::element_rows(to, pitch, value.into(), 1, width, height));
    cuMemsetD2D8_v2_ptds, PerThread (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::element_rows(to, pitch, value.into(), 1, width, height));
    cuMemsetD2D16_v2, Legacy (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::element_rows(to, pitch, value.into(), 2, width, height));
    cuMemsetD2D16_v2_ptds, PerThread (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::element_rows(to, pitch, value.into(), 2, width, height));
    cuMemsetD2D32_v2, Legacy (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::element_rows(to, pitch, value, 4, width, height));
    cuMemsetD2D32_v2_ptds, PerThread (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::Where::now(f), call, copies::element_rows(to, pitch, value, 4, width, height));
    cuMemsetD8Async, Legacy (to: CuDevicePtr, value: u8, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::elements(to, value.into(), 1, count));
    cuMemsetD8Async_ptsz, PerThread (to: CuDevicePtr, value: u8, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::elements(to, value.into(), 1, count));
    cuMemsetD16Async, Legacy (to: CuDevicePtr, value: u16, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::elements(to, value.into(), 2, count));
    cuMemsetD16Async_ptsz, PerThread (to: CuDevicePtr, value: u16, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::elements(to, value.into(), 2, count));
    cuMemsetD32Async, Legacy (to: CuDevicePtr, value: u32, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::elements(to, value, 4, count));
    cuMemsetD32Async_ptsz, PerThread (to: CuDevicePtr, value: u32, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::elements(to, value, 4, count));
    cuMemsetD2D8Async, Legacy (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::element_rows(to, pitch, value.into(), 1, width, height));
    cuMemsetD2D8Async_ptsz, PerThread (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::element_rows(to, pitch, value.into(), 1, width, height));
    cuMemsetD2D16Async, Legacy (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::element_rows(to, pitch, value.into(), 2, width, height));
    cuMemsetD2D16Async_ptsz, PerThread (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::element_rows(to, pitch, value.into(), 2, width, height));
    cuMemsetD2D32Async, Legacy (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::element_rows(to, pitch, value, 4, width, height));
    cuMemsetD2D32Async_ptsz, PerThread (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::Where::later(stream, f), call, copies::element_rows(to, pitch, value, 4, width, height));
    cuModuleLoad, Legacy (module: *mut CuModule, path: *const c_char) => |r, _f, call| code::load_file(r, call, "cuModuleLoad", module, path, false);
    cuModuleLoadData, Legacy (module: *mut CuModule, image: *const c_void) => |r, _f, call| code::load(r, call, "cuModuleLoadData", module, image, false);
    cuModuleLoadDataEx, Legacy (module: *mut CuModule, image: *const c_void, count: u32, options: *mut i32, values: *mut *mut c_void) => |r, _f, call| { let _ = (count, options, values); code::load(r, call, "cuModuleLoadDataEx", module, image, false) };
    cuModuleLoadFatBinary, Legacy (module: *mut CuModule, image: *const c_void) => |r, _f, call| code::load(r, call, "cuModuleLoadFatBinary", module, image, false);
    cuModuleUnload, Legacy (module: CuModule) => |r, _f, call| code::unload(r, call, "cuModuleUnload", module);
    cuModuleGetFunction, Legacy (function: *mut CuFunction, module: CuModule, name: *const c_char) => |r, _f, call| code::named(r, call, function, module, name, false);
    cuModuleGetGlobal_v2, Legacy (at: *mut CuDevicePtr, bytes: *mut usize, module: CuModule, name: *const c_char) => |r, _f, call| code::variable(r, call, at, bytes, module, name);
    cuLibraryGetGlobal, Legacy (at: *mut CuDevicePtr, bytes: *mut usize, library: CuLibrary, name: *const c_char) => |r, _f, call| code::variable(r, call, at, bytes, library, name);
    cuLibraryLoadData, Legacy (library: *mut CuLibrary, image: *const c_void, jit: *mut i32, jit_values: *mut *mut c_void, jit_count: u32, options: *mut i32, values: *mut *mut c_void, count: u32) => |r, _f, call| { let _ = (jit, jit_values, jit_count, options, values, count); code::load(r, call, "cuLibraryLoadData", library, image, true) };
    cuLibraryLoadFromFile, Legacy (library: *mut CuLibrary, path: *const c_char, jit: *mut i32, jit_values: *mut *mut c_void, jit_count: u32, options: *mut i32, values: *mut *mut c_void, count: u32) => |r, _f, call| { let _ = (jit, jit_values, jit_count, options, values, count); code::load_file(r, call, "cuLibraryLoadFromFile", library, path, true) };
    cuLibraryUnload, Legacy (library: CuLibrary) => |r, _f, call| code::unload(r, call, "cuLibraryUnload", library);
    cuLibraryGetKernel, Legacy (kernel: *mut CuKernel, library: CuLibrary, name: *const c_char) => |r, _f, call| code::named(r, call, kernel, library, name, true);
    cuKernelGetFunction, Legacy (function: *mut CuFunction, kernel: CuKernel) => |r, _f, call| code::kernel_function(r, call, function, kernel);
    cuKernelSetAttribute, Legacy (attribute: i32, value: i32, kernel: CuKernel, device: CuDevice) => |r, _f, call| { let _ = device; code::set_attribute(r, call, "cuKernelSetAttribute", kernel, attribute, value) };
    cuFuncSetAttribute, Legacy (function: CuFunction, attribute: i32, value: i32) => |r, _f, call| code::set_attribute(r, call, "cuFuncSetAttribute", function, attribute, value);
    cuLaunchKernel, Legacy (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |r, f, call| launches::launch(r, f, call, function, launches::Shape::of([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, 0), stream, parameters, extra);
    cuLaunchKernel_ptsz, PerThread (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |r, f, call| launches::launch(r, f, call, function, launches::Shape::of([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, 0), stream, parameters, extra);
    cuLaunchKernelEx, Legacy (config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |r, f, call| launches::launch_ex(r, f, call, config, function, parameters, extra);
    cuLaunchKernelEx_ptsz, PerThread (config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |r, f, call| launches::launch_ex(r, f, call, config, function, parameters, extra);
    cuLaunchCooperativeKernel, Legacy (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void) => |r, f, call| launches::launch(r, f, call, function, launches::Shape::of([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, launches::COOPERATIVE), stream, parameters, std::ptr::null_mut());
    cuLaunchCooperativeKernel_ptsz, PerThread (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void) => |r, f, call| launches::launch(r, f, call, function, launches::Shape::of([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, launches::COOPERATIVE), stream, parameters, std::ptr::null_mut());
    cuLaunchHostFunc, Legacy (stream: CuStream, function: *mut c_void, data: *mut c_void) => |r, f, call| order::host_function(r, f, call, stream, function, data);
    cuLaunchHostFunc_ptsz, PerThread (stream: CuStream, function: *mut c_void, data: *mut c_void) => |r, f, call| order::host_function(r, f, call, stream, function, data);
    cuStreamCreate, Legacy (stream: *mut CuStream, flags: u32) => |r, _f, call| order::stream_create(r, call, stream, flags, 0);
    cuStreamCreateWithPriority, Legacy (stream: *mut CuStream, flags: u32, priority: i32) => |r, _f, call| order::stream_create(r, call, stream, flags, priority);
    cuStreamDestroy_v2, Legacy (stream: CuStream) => |r, f, call| order::stream_destroy(r, f, call, stream);
    cuStreamSynchronize, Legacy (stream: CuStream) => |r, f, call| order::stream_wait(r, f, call, stream);
    cuStreamSynchronize_ptsz, PerThread (stream: CuStream) => |r, f, call| order::stream_wait(r, f, call, stream);
    cuStreamQuery, Legacy (stream: CuStream) => |r, f, call| order::stream_query(r, f, call, stream);
    cuStreamQuery_ptsz, PerThread (stream: CuStream) => |r, f, call| order::stream_query(r, f, call, stream);
    cuStreamWaitEvent, Legacy (stream: CuStream, event: CuEvent, flags: u32) => |r, f, call| order::stream_waits(r, f, call, stream, event, flags);
    cuStreamWaitEvent_ptsz, PerThread (stream: CuStream, event: CuEvent, flags: u32) => |r, f, call| order::stream_waits(r, f, call, stream, event, flags);
    cuStreamBeginCapture_v2, Legacy (stream: CuStream, mode: u32) => |r, f, call| order::capture_begin(r, f, call, stream, mode);
    cuStreamBeginCapture_v2_ptsz, PerThread (stream: CuStream, mode: u32) => |r, f, call| order::capture_begin(r, f, call, stream, mode);
    cuStreamEndCapture, Legacy (stream: CuStream, graph: *mut CuGraph) => |r, f, call| order::capture_end(r, f, call, stream, graph);
    cuStreamEndCapture_ptsz, PerThread (stream: CuStream, graph: *mut CuGraph) => |r, f, call| order::capture_end(r, f, call, stream, graph);
    cuEventCreate, Legacy (event: *mut CuEvent, flags: u32) => |r, f, call| order::event_create(r, f, call, event, flags);
    cuEventRecord, Legacy (event: CuEvent, stream: CuStream) => |r, f, call| order::event_record(r, f, call, event, stream);
    cuEventRecord_ptsz, PerThread (event: CuEvent, stream: CuStream) => |r, f, call| order::event_record(r, f, call, event, stream);
    cuEventRecordWithFlags, Legacy (event: CuEvent, stream: CuStream, flags: u32) => |r, f, call| order::event_record_with(r, f, call, event, stream, flags);
    cuEventRecordWithFlags_ptsz, PerThread (event: CuEvent, stream: CuStream, flags: u32) => |r, f, call| order::event_record_with(r, f, call, event, stream, flags);
    cuEventSynchronize, Legacy (event: CuEvent) => |r, f, call| order::event_wait(r, f, call, event);
    cuEventQuery, Legacy (event: CuEvent) => |r, f, call| order::event_query(r, f, call, event);
    cuCtxSynchronize, Legacy () => |r, f, call| order::context_wait(r, f, call);
    cuGraphInstantiate_v2, Legacy (exec: *mut CuGraphExec, graph: CuGraph, node: *mut CuGraphNode, log: *mut c_char, bytes: usize) => |r, _f, call| { let _ = (node, log, bytes); graphs::instantiate(r, call, "cuGraphInstantiate", exec, graph) };
    cuGraphInstantiateWithFlags, Legacy (exec: *mut CuGraphExec, graph: CuGraph, flags: u64) => |r, _f, call| { let _ = flags; graphs::instantiate(r, call, "cuGraphInstantiateWithFlags", exec, graph) };
    cuGraphInstantiateWithParams, Legacy (exec: *mut CuGraphExec, graph: CuGraph, parameters: *mut c_void) => |r, _f, call| { let _ = parameters; graphs::instantiate(r, call, "cuGraphInstantiateWithParams", exec, graph) };
    cuGraphInstantiateWithParams_ptsz, PerThread (exec: *mut CuGraphExec, graph: CuGraph, parameters: *mut c_void) => |r, _f, call| { let _ = parameters; graphs::instantiate(r, call, "cuGraphInstantiateWithParams", exec, graph) };
    cuGraphLaunch, Legacy (exec: CuGraphExec, stream: CuStream) => |r, f, call| graphs::launch(r, f, call, exec, stream);
    cuGraphLaunch_ptsz, PerThread (exec: CuGraphExec, stream: CuStream) => |r, f, call| graphs::launch(r, f, call, exec, stream);
    cuGraphExecDestroy, Legacy (exec: CuGraphExec) => |r, f, call| graphs::destroy(r, f, call, exec);
    cuGraphExecUpdate_v2, Legacy (exec: CuGraphExec, graph: CuGraph, told: *mut c_void) => |r, f, call| graphs::update(r, f, call, exec, graph, told);
    cuGraphExecKernelNodeSetParams_v2, Legacy (exec: CuGraphExec, node: CuGraphNode, form: *const KernelNode) => |r, f, call| graphs::set_kernel(r, f, call, exec, node, form);
    cuTexObjectCreate, Legacy (object: *mut CuObject, resource: *const c_void, texture: *const c_void, view: *const c_void) => |r, _f, call| { let _ = (object, resource, texture, view); r.not_recorded("textures", "the program reads memory through textures, which a replay does not make: launches that use them cannot be replayed"); call() };
    cuSurfObjectCreate, Legacy (object: *mut CuObject, resource: *const c_void) => |r, _f, call| { let _ = (object, resource); r.not_recorded("surfaces", "the program reaches memory through surfaces, which a replay does not make: launches that use them cannot be replayed"); call() };
    cuArrayCreate_v2, Legacy (array: *mut CuArray, description: *const c_void) => |r, _f, call| { let _ = (array, description); copies::array(r); call() };
    cuArray3DCreate_v2, Legacy (array: *mut CuArray, description: *const c_void) => |r, _f, call| { let _ = (array, description); copies::array(r); call() };
    cuIpcGetMemHandle, Legacy (handle: *mut c_void, at: CuDevicePtr) => |r, _f, call| { let _ = (handle, at); r.not_recorded("shared memory", "the program shares memory with other processes: what these write is not seen, and memory of the recorder's window cannot be shared (KINESCOPE_CUDA_WINDOW=no leaves allocations to the driver)"); call() };
    cuMemCreate, Legacy (handle: *mut CuMemHandle, bytes: usize, properties: *const AllocationProperties, flags: u64) => |r, _f, call| { let _ = (handle, bytes, properties, flags); r.not_recorded("mapped memory", "the program maps memory at addresses that it reserves itself: what it holds is recorded by copies alone"); call() };
    cuGetProcAddress_v2, Legacy (symbol: *const c_char, to: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_int) => |_r, _f, call| { let _ = (symbol, version, flags, status); instead_of(to, call()) };
    cuGetProcAddress, Legacy (symbol: *const c_char, to: *mut *mut c_void, version: c_int, flags: u64) => |_r, _f, call| { let _ = (symbol, version, flags); instead_of(to, call()) };
}

/// What the driver gave for a name, or ours in its place.
///
/// # Safety
/// `to` is the program's place for the answer.
unsafe fn instead_of(to: *mut *mut c_void, result: CuResult) -> CuResult {
    if is_ok(result) && !to.is_null() {
        // SAFETY: the caller's promise; the driver has put the answer there.
        unsafe {
            if let Some(ours) = replaced(*to) {
                *to = ours;
            }
        }
    }
    result
}
