//! Recorded functions of the driver: for each a function of the same name that calls the driver's and hands over what
//! was done. Everything else is forwarded untouched, because it is never replaced.

use crate::calls::{
    Call, allocations, code, contexts, copies, graphs, host_memory, launch_arguments, launches, mappings, pointers,
    pools, streams, unsupported,
};
use crate::driver::{find, is_ok, real};
use crate::process;
use crate::recorder::Recorder;
use crate::trace::{Form, When};
use cuda_driver::*;
use libc::{c_char, c_int, c_void};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `CUipcMemHandle`: another process's handle of its memory, by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IpcHandle([u8; 64]);

/// A recorded function of the driver.
pub(crate) struct Hook {
    /// Its name, as the driver exports it.
    pub name: &'static CStr,
    /// The replacement in this library.
    pub ours: *const c_void,
    /// The driver's function, once it is known.
    pub real: &'static AtomicPtr<c_void>,
}

// SAFETY: the pointers are of functions, which are the same for every thread.
unsafe impl Sync for Hook {}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Guard for a thread in the recorder: driver functions that the driver itself calls meanwhile are not the program's.
pub(crate) struct Inside;

impl Inside {
    /// Enters the recorder. Returns `None` if this thread is already inside or is ending.
    pub fn enter() -> Option<Self> {
        let entered = INSIDE.try_with(|inside| !inside.replace(true));
        entered.unwrap_or(false).then_some(Self)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

/// Runs a call through the recorder, or passes it through if it is not recorded. The driver is called at most once.
#[inline]
fn recorded(when: When, call: Call<'_>, way: impl FnOnce(&Recorder, Call<'_>) -> CuResult) -> CuResult {
    match process::recorder_or_begin() {
        Some(recorder) if recorder.trace.is_recorded(when) => recorded_by(recorder, call, way),
        _ => call(),
    }
}

fn recorded_by(recorder: &Recorder, call: Call<'_>, way: impl FnOnce(&Recorder, Call<'_>) -> CuResult) -> CuResult {
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
            recorder.trace.fail();
            answered.unwrap_or_else(call)
        }
    }
}

/// Returns a zero-terminated string in the loader's form.
const fn text(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

macro_rules! hooks {
    ($($name:ident, $when:ident, $form:ident ($($arg:ident: $type:ty),*) => |$r:ident, $f:ident, $c:ident| $way:expr;)*) => {
        /// Table of all replaced functions.
        pub(crate) static HOOKS: &[Hook] = &[$(
            Hook {
                name: const { text(concat!(stringify!($name), "\0")) },
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
            /// Calls the driver's function of this name and records it.
            ///
            /// # Safety
            /// The same as the driver's function.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's own functions")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> CuResult {
                let at = real(&reals::$name, const { text(concat!(stringify!($name), "\0")) });
                if at.is_null() {
                    return NOT_FOUND;
                }
                // SAFETY: the driver's function of this name has this signature.
                let real = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> CuResult>(at) };
                // SAFETY: the call has the program's own arguments.
                let mut call = || unsafe { real($($arg),*) };
                #[allow(unused_unsafe, reason = "some ways are safe to go")]
                // SAFETY: the pointers are the program's, and are read as the driver reads them.
                recorded(When::$when, &mut call, |$r, $c| { let $f = Form::$form; unsafe { $way } })
            }
        )*
    };
}

hooks! {
    cuInit, Always, Legacy (flags: u32) => |_r, _f, call| { let _ = flags; call() };
    cuMemAlloc_v2, Known, Legacy (at: *mut CuDevicePtr, bytes: usize) => |r, f, call| allocations::alloc(r, f, call, at, bytes);
    cuMemAllocPitch_v2, Known, Legacy (at: *mut CuDevicePtr, pitch: *mut usize, width: usize, height: usize, element: u32) => |r, f, call| allocations::alloc_pitch(r, f, call, at, pitch, width, height, element);
    cuMemAllocManaged, Known, Legacy (at: *mut CuDevicePtr, bytes: usize, flags: u32) => |r, f, call| allocations::alloc_managed(r, f, call, at, bytes, flags);
    cuMemFree_v2, Always, Legacy (at: CuDevicePtr) => |r, f, call| allocations::free(r, f, call, at);
    cuMemAllocAsync, Known, Legacy (at: *mut CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| allocations::alloc_async(r, f, call, at, bytes, stream);
    cuMemAllocAsync_ptsz, Known, PerThread (at: *mut CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| allocations::alloc_async(r, f, call, at, bytes, stream);
    cuMemAllocFromPoolAsync, Known, Legacy (at: *mut CuDevicePtr, bytes: usize, pool: CuMemPool, stream: CuStream) => |r, f, call| allocations::alloc_from_pool(r, f, call, at, bytes, pool, stream);
    cuMemAllocFromPoolAsync_ptsz, Known, PerThread (at: *mut CuDevicePtr, bytes: usize, pool: CuMemPool, stream: CuStream) => |r, f, call| allocations::alloc_from_pool(r, f, call, at, bytes, pool, stream);
    cuMemFreeAsync, Always, Legacy (at: CuDevicePtr, stream: CuStream) => |r, f, call| allocations::free_async(r, f, call, at, stream);
    cuMemFreeAsync_ptsz, Always, PerThread (at: CuDevicePtr, stream: CuStream) => |r, f, call| allocations::free_async(r, f, call, at, stream);
    cuMemAllocHost_v2, Known, Legacy (at: *mut *mut c_void, bytes: usize) => |r, _f, call| host_memory::alloc(r, call, at, bytes);
    cuMemHostAlloc, Known, Legacy (at: *mut *mut c_void, bytes: usize, flags: u32) => |r, _f, call| { let _ = flags; host_memory::alloc(r, call, at, bytes) };
    cuMemFreeHost, Known, Legacy (at: *mut c_void) => |r, _f, call| host_memory::free(r, call, at, false);
    cuMemHostRegister_v2, Known, Legacy (at: *mut c_void, bytes: usize, flags: u32) => |r, _f, call| { let _ = flags; host_memory::register(r, call, at, bytes) };
    cuMemHostUnregister, Known, Legacy (at: *mut c_void) => |r, _f, call| host_memory::free(r, call, at, true);
    cuMemHostGetDevicePointer_v2, Known, Legacy (to: *mut CuDevicePtr, at: *mut c_void, flags: u32) => |r, _f, call| { let _ = flags; host_memory::device_pointer(r, call, to, at) };
    cuMemGetAddressRange_v2, Always, Legacy (base: *mut CuDevicePtr, bytes: *mut usize, at: CuDevicePtr) => |r, f, call| pointers::address_range(r, f, call, base, bytes, at);
    cuPointerGetAttribute, Always, Legacy (value: *mut c_void, attribute: i32, at: CuDevicePtr) => |r, _f, call| pointers::attribute(r, call, value, attribute, at);
    cuPointerGetAttributes, Always, Legacy (count: u32, attributes: *mut i32, values: *mut *mut c_void, at: CuDevicePtr) => |r, _f, call| pointers::attributes(r, call, count, attributes, values, at);
    cuMemRetainAllocationHandle, Always, Legacy (handle: *mut CuMemHandle, at: *mut c_void) => |r, _f, call| pointers::handle(r, call, handle, at);
    cuMemPoolCreate, Known, Legacy (pool: *mut CuMemPool, properties: *const c_void) => |r, _f, call| pools::create(r, call, pool, properties.cast());
    cuDeviceSetMemPool, Known, Legacy (device: CuDevice, pool: CuMemPool) => |r, _f, call| pools::set_current(r, call, device, pool);
    cuMemSetMemPool, Known, Legacy (place: *mut MemLocation, kind: u32, pool: CuMemPool) => |r, _f, call| pools::set_for_location(r, call, place, kind, pool);
    cuCtxDestroy_v2, Always, Legacy (context: CuContext) => |r, _f, call| contexts::destroy(r, call, context);
    cuCtxEnablePeerAccess, Always, Legacy (peer: CuContext, flags: u32) => |r, _f, call| { let _ = flags; contexts::enable_peer_access(r, call, peer) };
    cuDevicePrimaryCtxRelease_v2, Always, Legacy (device: CuDevice) => |r, _f, call| contexts::release(r, call, device);
    cuDevicePrimaryCtxReset_v2, Always, Legacy (device: CuDevice) => |r, _f, call| contexts::reset(r, call, device);
    cuMemcpy, Work, Legacy (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::unified(r, copies::CopyStream::synchronous(f), call, to, from, bytes);
    cuMemcpy_ptds, Work, PerThread (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::unified(r, copies::CopyStream::synchronous(f), call, to, from, bytes);
    cuMemcpyAsync, Work, Legacy (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::unified(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes);
    cuMemcpyAsync_ptsz, Work, PerThread (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::unified(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes);
    cuMemcpyHtoD_v2, Work, Legacy (to: CuDevicePtr, from: *const c_void, bytes: usize) => |r, f, call| copies::to_device(r, copies::CopyStream::synchronous(f), call, to, from, bytes);
    cuMemcpyHtoD_v2_ptds, Work, PerThread (to: CuDevicePtr, from: *const c_void, bytes: usize) => |r, f, call| copies::to_device(r, copies::CopyStream::synchronous(f), call, to, from, bytes);
    cuMemcpyHtoDAsync_v2, Work, Legacy (to: CuDevicePtr, from: *const c_void, bytes: usize, stream: CuStream) => |r, f, call| copies::to_device(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes);
    cuMemcpyHtoDAsync_v2_ptsz, Work, PerThread (to: CuDevicePtr, from: *const c_void, bytes: usize, stream: CuStream) => |r, f, call| copies::to_device(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes);
    cuMemcpyDtoH_v2, Work, Legacy (to: *mut c_void, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::to_host(r, copies::CopyStream::synchronous(f), call, to, from, bytes);
    cuMemcpyDtoH_v2_ptds, Work, PerThread (to: *mut c_void, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::to_host(r, copies::CopyStream::synchronous(f), call, to, from, bytes);
    cuMemcpyDtoHAsync_v2, Work, Legacy (to: *mut c_void, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::to_host(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes);
    cuMemcpyDtoHAsync_v2_ptsz, Work, PerThread (to: *mut c_void, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::to_host(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes);
    cuMemcpyDtoD_v2, Work, Legacy (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::on_device(r, copies::CopyStream::synchronous(f), call, to, from, bytes);
    cuMemcpyDtoD_v2_ptds, Work, PerThread (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |r, f, call| copies::on_device(r, copies::CopyStream::synchronous(f), call, to, from, bytes);
    cuMemcpyDtoDAsync_v2, Work, Legacy (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::on_device(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes);
    cuMemcpyDtoDAsync_v2_ptsz, Work, PerThread (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |r, f, call| copies::on_device(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes);
    cuMemcpyPeer, Work, Legacy (to: CuDevicePtr, to_context: CuContext, from: CuDevicePtr, from_context: CuContext, bytes: usize) => |r, f, call| { let _ = (to_context, from_context); copies::between_peers(r, copies::CopyStream::synchronous(f), call, to, from, bytes) };
    cuMemcpyPeer_ptds, Work, PerThread (to: CuDevicePtr, to_context: CuContext, from: CuDevicePtr, from_context: CuContext, bytes: usize) => |r, f, call| { let _ = (to_context, from_context); copies::between_peers(r, copies::CopyStream::synchronous(f), call, to, from, bytes) };
    cuMemcpyPeerAsync, Work, Legacy (to: CuDevicePtr, to_context: CuContext, from: CuDevicePtr, from_context: CuContext, bytes: usize, stream: CuStream) => |r, f, call| { let _ = (to_context, from_context); copies::between_peers(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes) };
    cuMemcpyPeerAsync_ptsz, Work, PerThread (to: CuDevicePtr, to_context: CuContext, from: CuDevicePtr, from_context: CuContext, bytes: usize, stream: CuStream) => |r, f, call| { let _ = (to_context, from_context); copies::between_peers(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes) };
    cuMemcpy3DPeer, Work, Legacy (copy: *const c_void) => |r, _f, call| { let _ = copy; unsupported::forward(r, call, unsupported::PEERS) };
    cuMemcpy3DPeer_ptds, Work, Legacy (copy: *const c_void) => |r, _f, call| { let _ = copy; unsupported::forward(r, call, unsupported::PEERS) };
    cuMemcpy3DPeerAsync, Work, Legacy (copy: *const c_void, stream: CuStream) => |r, _f, call| { let _ = (copy, stream); unsupported::forward(r, call, unsupported::PEERS) };
    cuMemcpy3DPeerAsync_ptsz, Work, Legacy (copy: *const c_void, stream: CuStream) => |r, _f, call| { let _ = (copy, stream); unsupported::forward(r, call, unsupported::PEERS) };
    cuMemcpyBatchAsync, Work, Legacy (to: *mut CuDevicePtr, from: *mut CuDevicePtr, bytes: *mut usize, count: usize, attributes: *mut c_void, places: *mut usize, attribute_count: usize, failed: *mut usize, stream: CuStream) => |r, f, call| { let _ = (attributes, places, attribute_count, failed); copies::batch(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes, count) };
    cuMemcpyBatchAsync_ptsz, Work, PerThread (to: *mut CuDevicePtr, from: *mut CuDevicePtr, bytes: *mut usize, count: usize, attributes: *mut c_void, places: *mut usize, attribute_count: usize, failed: *mut usize, stream: CuStream) => |r, f, call| { let _ = (attributes, places, attribute_count, failed); copies::batch(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes, count) };
    cuMemcpyBatchAsync_v2, Work, Legacy (to: *mut CuDevicePtr, from: *mut CuDevicePtr, bytes: *mut usize, count: usize, attributes: *mut c_void, places: *mut usize, attribute_count: usize, stream: CuStream) => |r, f, call| { let _ = (attributes, places, attribute_count); copies::batch(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes, count) };
    cuMemcpyBatchAsync_v2_ptsz, Work, PerThread (to: *mut CuDevicePtr, from: *mut CuDevicePtr, bytes: *mut usize, count: usize, attributes: *mut c_void, places: *mut usize, attribute_count: usize, stream: CuStream) => |r, f, call| { let _ = (attributes, places, attribute_count); copies::batch(r, copies::CopyStream::asynchronous(stream, f), call, to, from, bytes, count) };
    cuMemcpy3DBatchAsync, Work, Legacy (count: usize, operations: *mut c_void, failed: *mut usize, flags: u64, stream: CuStream) => |r, _f, call| { let _ = (count, operations, failed, flags, stream); unsupported::forward_named(r, call, "cuMemcpy3DBatchAsync") };
    cuMemcpy3DBatchAsync_ptsz, Work, Legacy (count: usize, operations: *mut c_void, failed: *mut usize, flags: u64, stream: CuStream) => |r, _f, call| { let _ = (count, operations, failed, flags, stream); unsupported::forward_named(r, call, "cuMemcpy3DBatchAsync_ptsz") };
    cuMemcpy3DBatchAsync_v2, Work, Legacy (count: usize, operations: *mut c_void, flags: u64, stream: CuStream) => |r, _f, call| { let _ = (count, operations, flags, stream); unsupported::forward_named(r, call, "cuMemcpy3DBatchAsync_v2") };
    cuMemcpy3DBatchAsync_v2_ptsz, Work, Legacy (count: usize, operations: *mut c_void, flags: u64, stream: CuStream) => |r, _f, call| { let _ = (count, operations, flags, stream); unsupported::forward_named(r, call, "cuMemcpy3DBatchAsync_v2_ptsz") };
    cuMemcpyHtoA_v2, Work, Legacy (to: CuArray, offset: usize, from: *const c_void, bytes: usize) => |r, _f, call| { let _ = (to, offset, from, bytes); unsupported::forward_named(r, call, "cuMemcpyHtoA_v2") };
    cuMemcpyHtoA_v2_ptds, Work, Legacy (to: CuArray, offset: usize, from: *const c_void, bytes: usize) => |r, _f, call| { let _ = (to, offset, from, bytes); unsupported::forward_named(r, call, "cuMemcpyHtoA_v2_ptds") };
    cuMemcpyAtoH_v2, Work, Legacy (to: *mut c_void, from: CuArray, offset: usize, bytes: usize) => |r, _f, call| { let _ = (to, from, offset, bytes); unsupported::forward_named(r, call, "cuMemcpyAtoH_v2") };
    cuMemcpyAtoH_v2_ptds, Work, Legacy (to: *mut c_void, from: CuArray, offset: usize, bytes: usize) => |r, _f, call| { let _ = (to, from, offset, bytes); unsupported::forward_named(r, call, "cuMemcpyAtoH_v2_ptds") };
    cuMemcpyDtoA_v2, Work, Legacy (to: CuArray, offset: usize, from: CuDevicePtr, bytes: usize) => |r, _f, call| { let _ = (to, offset, from, bytes); unsupported::forward_named(r, call, "cuMemcpyDtoA_v2") };
    cuMemcpyDtoA_v2_ptds, Work, Legacy (to: CuArray, offset: usize, from: CuDevicePtr, bytes: usize) => |r, _f, call| { let _ = (to, offset, from, bytes); unsupported::forward_named(r, call, "cuMemcpyDtoA_v2_ptds") };
    cuMemcpyAtoD_v2, Work, Legacy (to: CuDevicePtr, from: CuArray, offset: usize, bytes: usize) => |r, _f, call| { let _ = (to, from, offset, bytes); unsupported::forward_named(r, call, "cuMemcpyAtoD_v2") };
    cuMemcpyAtoD_v2_ptds, Work, Legacy (to: CuDevicePtr, from: CuArray, offset: usize, bytes: usize) => |r, _f, call| { let _ = (to, from, offset, bytes); unsupported::forward_named(r, call, "cuMemcpyAtoD_v2_ptds") };
    cuMemcpyAtoA_v2, Work, Legacy (to: CuArray, to_offset: usize, from: CuArray, offset: usize, bytes: usize) => |r, _f, call| { let _ = (to, to_offset, from, offset, bytes); unsupported::forward_named(r, call, "cuMemcpyAtoA_v2") };
    cuMemcpyAtoA_v2_ptds, Work, Legacy (to: CuArray, to_offset: usize, from: CuArray, offset: usize, bytes: usize) => |r, _f, call| { let _ = (to, to_offset, from, offset, bytes); unsupported::forward_named(r, call, "cuMemcpyAtoA_v2_ptds") };
    cuMemcpyHtoAAsync_v2, Work, Legacy (to: CuArray, offset: usize, from: *const c_void, bytes: usize, stream: CuStream) => |r, _f, call| { let _ = (to, offset, from, bytes, stream); unsupported::forward_named(r, call, "cuMemcpyHtoAAsync_v2") };
    cuMemcpyHtoAAsync_v2_ptsz, Work, Legacy (to: CuArray, offset: usize, from: *const c_void, bytes: usize, stream: CuStream) => |r, _f, call| { let _ = (to, offset, from, bytes, stream); unsupported::forward_named(r, call, "cuMemcpyHtoAAsync_v2_ptsz") };
    cuMemcpyAtoHAsync_v2, Work, Legacy (to: *mut c_void, from: CuArray, offset: usize, bytes: usize, stream: CuStream) => |r, _f, call| { let _ = (to, from, offset, bytes, stream); unsupported::forward_named(r, call, "cuMemcpyAtoHAsync_v2") };
    cuMemcpyAtoHAsync_v2_ptsz, Work, Legacy (to: *mut c_void, from: CuArray, offset: usize, bytes: usize, stream: CuStream) => |r, _f, call| { let _ = (to, from, offset, bytes, stream); unsupported::forward_named(r, call, "cuMemcpyAtoHAsync_v2_ptsz") };
    cuMemcpy2D_v2, Work, Legacy (copy: *const Copy2d) => |r, f, call| copies::rows(r, copies::CopyStream::synchronous(f), call, copy);
    cuMemcpy2D_v2_ptds, Work, PerThread (copy: *const Copy2d) => |r, f, call| copies::rows(r, copies::CopyStream::synchronous(f), call, copy);
    cuMemcpy2DUnaligned_v2, Work, Legacy (copy: *const Copy2d) => |r, f, call| copies::rows(r, copies::CopyStream::synchronous(f), call, copy);
    cuMemcpy2DUnaligned_v2_ptds, Work, PerThread (copy: *const Copy2d) => |r, f, call| copies::rows(r, copies::CopyStream::synchronous(f), call, copy);
    cuMemcpy2DAsync_v2, Work, Legacy (copy: *const Copy2d, stream: CuStream) => |r, f, call| copies::rows(r, copies::CopyStream::asynchronous(stream, f), call, copy);
    cuMemcpy2DAsync_v2_ptsz, Work, PerThread (copy: *const Copy2d, stream: CuStream) => |r, f, call| copies::rows(r, copies::CopyStream::asynchronous(stream, f), call, copy);
    cuMemcpy3D_v2, Work, Legacy (copy: *const Copy3d) => |r, f, call| copies::slices(r, copies::CopyStream::synchronous(f), call, copy);
    cuMemcpy3D_v2_ptds, Work, PerThread (copy: *const Copy3d) => |r, f, call| copies::slices(r, copies::CopyStream::synchronous(f), call, copy);
    cuMemcpy3DAsync_v2, Work, Legacy (copy: *const Copy3d, stream: CuStream) => |r, f, call| copies::slices(r, copies::CopyStream::asynchronous(stream, f), call, copy);
    cuMemcpy3DAsync_v2_ptsz, Work, PerThread (copy: *const Copy3d, stream: CuStream) => |r, f, call| copies::slices(r, copies::CopyStream::asynchronous(stream, f), call, copy);
    cuMemsetD8_v2, Work, Legacy (to: CuDevicePtr, value: u8, count: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::elements(to, value.into(), 1, count));
    cuMemsetD8_v2_ptds, Work, PerThread (to: CuDevicePtr, value: u8, count: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::elements(to, value.into(), 1, count));
    cuMemsetD16_v2, Work, Legacy (to: CuDevicePtr, value: u16, count: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::elements(to, value.into(), 2, count));
    cuMemsetD16_v2_ptds, Work, PerThread (to: CuDevicePtr, value: u16, count: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::elements(to, value.into(), 2, count));
    cuMemsetD32_v2, Work, Legacy (to: CuDevicePtr, value: u32, count: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::elements(to, value, 4, count));
    cuMemsetD32_v2_ptds, Work, PerThread (to: CuDevicePtr, value: u32, count: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::elements(to, value, 4, count));
    cuMemsetD2D8_v2, Work, Legacy (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::element_rows(to, pitch, value.into(), 1, width, height));
    cuMemsetD2D8_v2_ptds, Work, PerThread (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::element_rows(to, pitch, value.into(), 1, width, height));
    cuMemsetD2D16_v2, Work, Legacy (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::element_rows(to, pitch, value.into(), 2, width, height));
    cuMemsetD2D16_v2_ptds, Work, PerThread (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::element_rows(to, pitch, value.into(), 2, width, height));
    cuMemsetD2D32_v2, Work, Legacy (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::element_rows(to, pitch, value, 4, width, height));
    cuMemsetD2D32_v2_ptds, Work, PerThread (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize) => |r, f, call| copies::fill(r, copies::CopyStream::synchronous(f), call, copies::element_rows(to, pitch, value, 4, width, height));
    cuMemsetD8Async, Work, Legacy (to: CuDevicePtr, value: u8, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::elements(to, value.into(), 1, count));
    cuMemsetD8Async_ptsz, Work, PerThread (to: CuDevicePtr, value: u8, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::elements(to, value.into(), 1, count));
    cuMemsetD16Async, Work, Legacy (to: CuDevicePtr, value: u16, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::elements(to, value.into(), 2, count));
    cuMemsetD16Async_ptsz, Work, PerThread (to: CuDevicePtr, value: u16, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::elements(to, value.into(), 2, count));
    cuMemsetD32Async, Work, Legacy (to: CuDevicePtr, value: u32, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::elements(to, value, 4, count));
    cuMemsetD32Async_ptsz, Work, PerThread (to: CuDevicePtr, value: u32, count: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::elements(to, value, 4, count));
    cuMemsetD2D8Async, Work, Legacy (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::element_rows(to, pitch, value.into(), 1, width, height));
    cuMemsetD2D8Async_ptsz, Work, PerThread (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::element_rows(to, pitch, value.into(), 1, width, height));
    cuMemsetD2D16Async, Work, Legacy (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::element_rows(to, pitch, value.into(), 2, width, height));
    cuMemsetD2D16Async_ptsz, Work, PerThread (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::element_rows(to, pitch, value.into(), 2, width, height));
    cuMemsetD2D32Async, Work, Legacy (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::element_rows(to, pitch, value, 4, width, height));
    cuMemsetD2D32Async_ptsz, Work, PerThread (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize, stream: CuStream) => |r, f, call| copies::fill(r, copies::CopyStream::asynchronous(stream, f), call, copies::element_rows(to, pitch, value, 4, width, height));
    cuModuleLoad, Known, Legacy (module: *mut CuModule, path: *const c_char) => |r, _f, call| code::load_file(r, call, "cuModuleLoad", module, path, false);
    cuModuleLoadData, Known, Legacy (module: *mut CuModule, image: *const c_void) => |r, _f, call| code::load(r, call, "cuModuleLoadData", module, image, false);
    cuModuleLoadDataEx, Known, Legacy (module: *mut CuModule, image: *const c_void, count: u32, options: *mut i32, values: *mut *mut c_void) => |r, _f, call| { let _ = (count, options, values); code::load(r, call, "cuModuleLoadDataEx", module, image, false) };
    cuModuleLoadFatBinary, Known, Legacy (module: *mut CuModule, image: *const c_void) => |r, _f, call| code::load(r, call, "cuModuleLoadFatBinary", module, image, false);
    cuModuleUnload, Known, Legacy (module: CuModule) => |r, _f, call| code::unload(r, call, "cuModuleUnload", module);
    cuModuleGetFunction, Known, Legacy (function: *mut CuFunction, module: CuModule, name: *const c_char) => |r, _f, call| code::named(r, call, function, module, name, false);
    cuModuleGetGlobal_v2, Known, Legacy (at: *mut CuDevicePtr, bytes: *mut usize, module: CuModule, name: *const c_char) => |r, _f, call| code::variable(r, call, at, bytes, module, name);
    cuLibraryGetGlobal, Known, Legacy (at: *mut CuDevicePtr, bytes: *mut usize, library: CuLibrary, name: *const c_char) => |r, _f, call| code::variable(r, call, at, bytes, library, name);
    cuLibraryLoadData, Known, Legacy (library: *mut CuLibrary, image: *const c_void, jit: *mut i32, jit_values: *mut *mut c_void, jit_count: u32, options: *mut i32, values: *mut *mut c_void, count: u32) => |r, _f, call| { let _ = (jit, jit_values, jit_count, options, values, count); code::load(r, call, "cuLibraryLoadData", library, image, true) };
    cuLibraryLoadFromFile, Known, Legacy (library: *mut CuLibrary, path: *const c_char, jit: *mut i32, jit_values: *mut *mut c_void, jit_count: u32, options: *mut i32, values: *mut *mut c_void, count: u32) => |r, _f, call| { let _ = (jit, jit_values, jit_count, options, values, count); code::load_file(r, call, "cuLibraryLoadFromFile", library, path, true) };
    cuLibraryUnload, Known, Legacy (library: CuLibrary) => |r, _f, call| code::unload(r, call, "cuLibraryUnload", library);
    cuLibraryGetKernel, Known, Legacy (kernel: *mut CuKernel, library: CuLibrary, name: *const c_char) => |r, _f, call| code::named(r, call, kernel, library, name, true);
    cuLibraryGetModule, Known, Legacy (module: *mut CuModule, library: CuLibrary) => |r, _f, call| code::module_of(r, call, module, library);
    cuKernelGetFunction, Known, Legacy (function: *mut CuFunction, kernel: CuKernel) => |r, _f, call| code::kernel_function(r, call, function, kernel);
    cuKernelSetAttribute, Known, Legacy (attribute: i32, value: i32, kernel: CuKernel, device: CuDevice) => |r, _f, call| { let _ = device; code::set_attribute(r, call, "cuKernelSetAttribute", kernel, attribute, value) };
    cuFuncSetAttribute, Known, Legacy (function: CuFunction, attribute: i32, value: i32) => |r, _f, call| code::set_attribute(r, call, "cuFuncSetAttribute", function, attribute, value);
    cuLaunchKernel, Launch, Legacy (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |r, f, call| launches::launch(r, f, call, function, launch_arguments::LaunchShape::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, 0), stream, parameters, extra);
    cuLaunchKernel_ptsz, Launch, PerThread (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |r, f, call| launches::launch(r, f, call, function, launch_arguments::LaunchShape::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, 0), stream, parameters, extra);
    cuLaunchKernelEx, Launch, Legacy (config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |r, f, call| launches::launch_ex(r, f, call, config, function, parameters, extra);
    cuLaunchKernelEx_ptsz, Launch, PerThread (config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |r, f, call| launches::launch_ex(r, f, call, config, function, parameters, extra);
    cuLaunchCooperativeKernel, Launch, Legacy (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void) => |r, f, call| launches::launch(r, f, call, function, launch_arguments::LaunchShape::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, launch_arguments::COOPERATIVE), stream, parameters, std::ptr::null_mut());
    cuLaunchCooperativeKernel_ptsz, Launch, PerThread (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void) => |r, f, call| launches::launch(r, f, call, function, launch_arguments::LaunchShape::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, launch_arguments::COOPERATIVE), stream, parameters, std::ptr::null_mut());
    cuLaunchHostFunc, Work, Legacy (stream: CuStream, function: *mut c_void, data: *mut c_void) => |r, f, call| streams::host_function(r, f, call, stream, function, data);
    cuLaunchHostFunc_v2, Work, Legacy (stream: CuStream, function: *mut c_void, data: *mut c_void, mode: u32) => |r, f, call| { let _ = mode; streams::host_function(r, f, call, stream, function, data) };
    cuLaunchHostFunc_v2_ptsz, Work, PerThread (stream: CuStream, function: *mut c_void, data: *mut c_void, mode: u32) => |r, f, call| { let _ = mode; streams::host_function(r, f, call, stream, function, data) };
    cuLaunchHostFunc_ptsz, Work, PerThread (stream: CuStream, function: *mut c_void, data: *mut c_void) => |r, f, call| streams::host_function(r, f, call, stream, function, data);
    cuStreamAddCallback, Work, Legacy (stream: CuStream, function: *mut c_void, data: *mut c_void, flags: u32) => |r, f, call| { let _ = flags; streams::host_function(r, f, call, stream, function, data) };
    cuStreamAddCallback_ptsz, Work, PerThread (stream: CuStream, function: *mut c_void, data: *mut c_void, flags: u32) => |r, f, call| { let _ = flags; streams::host_function(r, f, call, stream, function, data) };
    cuStreamCreate, Known, Legacy (stream: *mut CuStream, flags: u32) => |r, _f, call| streams::stream_create(r, call, stream, flags, 0);
    cuStreamCreateWithPriority, Known, Legacy (stream: *mut CuStream, flags: u32, priority: i32) => |r, _f, call| streams::stream_create(r, call, stream, flags, priority);
    cuStreamDestroy_v2, Known, Legacy (stream: CuStream) => |r, f, call| streams::stream_destroy(r, f, call, stream);
    cuStreamSynchronize, Work, Legacy (stream: CuStream) => |r, f, call| streams::stream_wait(r, f, call, stream);
    cuStreamSynchronize_ptsz, Work, PerThread (stream: CuStream) => |r, f, call| streams::stream_wait(r, f, call, stream);
    cuStreamQuery, Work, Legacy (stream: CuStream) => |r, f, call| streams::stream_query(r, f, call, stream);
    cuStreamQuery_ptsz, Work, PerThread (stream: CuStream) => |r, f, call| streams::stream_query(r, f, call, stream);
    cuStreamWaitEvent, Work, Legacy (stream: CuStream, event: CuEvent, flags: u32) => |r, f, call| streams::stream_waits(r, f, call, stream, event, flags);
    cuStreamWaitEvent_ptsz, Work, PerThread (stream: CuStream, event: CuEvent, flags: u32) => |r, f, call| streams::stream_waits(r, f, call, stream, event, flags);
    cuStreamWaitValue32_v2, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u32, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWaitValue32_v2_ptsz, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u32, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWaitValue32, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u32, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWaitValue32_ptsz, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u32, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWriteValue32_v2, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u32, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWriteValue32_v2_ptsz, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u32, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWriteValue32, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u32, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWriteValue32_ptsz, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u32, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWaitValue64_v2, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u64, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWaitValue64_v2_ptsz, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u64, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWaitValue64, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u64, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWaitValue64_ptsz, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u64, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWriteValue64_v2, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u64, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWriteValue64_v2_ptsz, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u64, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWriteValue64, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u64, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamWriteValue64_ptsz, Work, Legacy (stream: CuStream, at: CuDevicePtr, value: u64, flags: u32) => |r, _f, call| { let _ = (stream, at, value, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamBatchMemOp_v2, Work, Legacy (stream: CuStream, count: u32, operations: *mut c_void, flags: u32) => |r, _f, call| { let _ = (stream, count, operations, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamBatchMemOp_v2_ptsz, Work, Legacy (stream: CuStream, count: u32, operations: *mut c_void, flags: u32) => |r, _f, call| { let _ = (stream, count, operations, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamBatchMemOp, Work, Legacy (stream: CuStream, count: u32, operations: *mut c_void, flags: u32) => |r, _f, call| { let _ = (stream, count, operations, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamBatchMemOp_ptsz, Work, Legacy (stream: CuStream, count: u32, operations: *mut c_void, flags: u32) => |r, _f, call| { let _ = (stream, count, operations, flags); unsupported::forward(r, call, unsupported::MEMORY_ORDERS) };
    cuStreamBeginCapture_v2, Always, Legacy (stream: CuStream, mode: u32) => |r, f, call| streams::capture_begin(r, f, call, stream, mode);
    cuStreamBeginCapture_v2_ptsz, Always, PerThread (stream: CuStream, mode: u32) => |r, f, call| streams::capture_begin(r, f, call, stream, mode);
    cuStreamBeginCapture, Always, Legacy (stream: CuStream) => |r, f, call| streams::capture_begin(r, f, call, stream, 0);
    cuStreamBeginCapture_ptsz, Always, PerThread (stream: CuStream) => |r, f, call| streams::capture_begin(r, f, call, stream, 0);
    cuStreamBeginCaptureToGraph, Always, Legacy (stream: CuStream, graph: CuGraph, after: *const CuGraphNode, data: *const c_void, count: usize, mode: u32) => |r, f, call| { let _ = (graph, after, data, count); streams::capture_begin(r, f, call, stream, mode) };
    cuStreamBeginCaptureToGraph_ptsz, Always, PerThread (stream: CuStream, graph: CuGraph, after: *const CuGraphNode, data: *const c_void, count: usize, mode: u32) => |r, f, call| { let _ = (graph, after, data, count); streams::capture_begin(r, f, call, stream, mode) };
    cuStreamEndCapture, Always, Legacy (stream: CuStream, graph: *mut CuGraph) => |r, f, call| streams::capture_end(r, f, call, stream, graph);
    cuStreamEndCapture_ptsz, Always, PerThread (stream: CuStream, graph: *mut CuGraph) => |r, f, call| streams::capture_end(r, f, call, stream, graph);
    cuEventCreate, Known, Legacy (event: *mut CuEvent, flags: u32) => |r, f, call| streams::event_create(r, f, call, event, flags);
    cuEventDestroy_v2, Known, Legacy (event: CuEvent) => |r, _f, call| streams::event_destroy(r, call, event);
    cuEventRecord, Work, Legacy (event: CuEvent, stream: CuStream) => |r, f, call| streams::event_record(r, f, call, event, stream);
    cuEventRecord_ptsz, Work, PerThread (event: CuEvent, stream: CuStream) => |r, f, call| streams::event_record(r, f, call, event, stream);
    cuEventRecordWithFlags, Work, Legacy (event: CuEvent, stream: CuStream, flags: u32) => |r, f, call| streams::event_record_with(r, f, call, event, stream, flags);
    cuEventRecordWithFlags_ptsz, Work, PerThread (event: CuEvent, stream: CuStream, flags: u32) => |r, f, call| streams::event_record_with(r, f, call, event, stream, flags);
    cuEventSynchronize, Work, Legacy (event: CuEvent) => |r, f, call| streams::event_wait(r, f, call, event);
    cuEventQuery, Work, Legacy (event: CuEvent) => |r, f, call| streams::event_query(r, f, call, event);
    cuCtxSynchronize, Work, Legacy () => |r, f, call| streams::context_wait(r, f, call, std::ptr::null_mut());
    cuCtxSynchronize_v2, Work, Legacy (context: CuContext) => |r, f, call| streams::context_wait(r, f, call, context);
    cuGraphInstantiate_v2, Known, Legacy (exec: *mut CuGraphExec, graph: CuGraph, node: *mut CuGraphNode, log: *mut c_char, bytes: usize) => |r, _f, call| { let _ = (node, log, bytes); graphs::instantiate(r, call, "cuGraphInstantiate", exec, graph) };
    cuGraphInstantiate, Known, Legacy (exec: *mut CuGraphExec, graph: CuGraph, node: *mut CuGraphNode, log: *mut c_char, bytes: usize) => |r, _f, call| { let _ = (node, log, bytes); graphs::instantiate(r, call, "cuGraphInstantiate", exec, graph) };
    cuGraphInstantiateWithFlags, Known, Legacy (exec: *mut CuGraphExec, graph: CuGraph, flags: u64) => |r, _f, call| { let _ = flags; graphs::instantiate(r, call, "cuGraphInstantiateWithFlags", exec, graph) };
    cuGraphInstantiateWithParams, Known, Legacy (exec: *mut CuGraphExec, graph: CuGraph, parameters: *mut c_void) => |r, _f, call| { let _ = parameters; graphs::instantiate(r, call, "cuGraphInstantiateWithParams", exec, graph) };
    cuGraphInstantiateWithParams_ptsz, Known, PerThread (exec: *mut CuGraphExec, graph: CuGraph, parameters: *mut c_void) => |r, _f, call| { let _ = parameters; graphs::instantiate(r, call, "cuGraphInstantiateWithParams", exec, graph) };
    cuGraphLaunch, Launch, Legacy (exec: CuGraphExec, stream: CuStream) => |r, f, call| graphs::launch(r, f, call, exec, stream);
    cuGraphLaunch_ptsz, Launch, PerThread (exec: CuGraphExec, stream: CuStream) => |r, f, call| graphs::launch(r, f, call, exec, stream);
    cuGraphExecDestroy, Known, Legacy (exec: CuGraphExec) => |r, f, call| graphs::destroy(r, f, call, exec);
    cuGraphExecUpdate_v2, Known, Legacy (exec: CuGraphExec, graph: CuGraph, report: *mut c_void) => |r, _f, call| { let _ = report; graphs::update(r, call, exec, graph) };
    cuGraphExecUpdate, Known, Legacy (exec: CuGraphExec, graph: CuGraph, node: *mut CuGraphNode, reported: *mut u32) => |r, _f, call| { let _ = (node, reported); graphs::update(r, call, exec, graph) };
    cuGraphExecKernelNodeSetParams_v2, Known, Legacy (exec: CuGraphExec, node: CuGraphNode, form: *const KernelNode) => |r, _f, call| graphs::set_kernel(r, call, exec, node, form);
    cuGraphExecKernelNodeSetParams, Known, Legacy (exec: CuGraphExec, node: CuGraphNode, form: *const KernelNode) => |r, _f, call| graphs::set_kernel_by_first(r, call, exec, node, form);
    cuGraphExecMemcpyNodeSetParams, Known, Legacy (exec: CuGraphExec, node: CuGraphNode, form: *const Copy3d, context: CuContext) => |r, _f, call| { let _ = context; graphs::set_copy(r, call, exec, node, form) };
    cuGraphExecMemsetNodeSetParams, Known, Legacy (exec: CuGraphExec, node: CuGraphNode, form: *const FillNode, context: CuContext) => |r, _f, call| { let _ = context; graphs::set_fill(r, call, exec, node, form) };
    cuGraphExecHostNodeSetParams, Known, Legacy (exec: CuGraphExec, node: CuGraphNode, form: *const HostNode) => |r, _f, call| { let _ = form; graphs::set_host(r, call, exec, node) };
    cuGraphExecChildGraphNodeSetParams, Known, Legacy (exec: CuGraphExec, node: CuGraphNode, child: CuGraph) => |r, _f, call| graphs::set_child(r, call, exec, node, child);
    cuGraphExecNodeSetParams, Known, Legacy (exec: CuGraphExec, node: CuGraphNode, form: *mut NodeForm) => |r, _f, call| graphs::set_any(r, call, exec, node, form);
    cuGraphNodeSetEnabled, Known, Legacy (exec: CuGraphExec, node: CuGraphNode, enabled: u32) => |r, _f, call| graphs::set_enabled(r, call, exec, node, enabled);
    cuTexObjectCreate, Known, Legacy (object: *mut CuObject, resource: *const c_void, texture: *const c_void, view: *const c_void) => |r, _f, call| { let _ = (object, resource, texture, view); unsupported::forward(r, call, unsupported::TEXTURES) };
    cuSurfObjectCreate, Known, Legacy (object: *mut CuObject, resource: *const c_void) => |r, _f, call| { let _ = (object, resource); unsupported::forward(r, call, unsupported::SURFACES) };
    cuArrayCreate_v2, Known, Legacy (array: *mut CuArray, description: *const c_void) => |r, _f, call| { let _ = (array, description); unsupported::forward(r, call, unsupported::ARRAYS) };
    cuArray3DCreate_v2, Known, Legacy (array: *mut CuArray, description: *const c_void) => |r, _f, call| { let _ = (array, description); unsupported::forward(r, call, unsupported::ARRAYS) };
    cuMipmappedArrayCreate, Known, Legacy (array: *mut CuArray, description: *const c_void, levels: u32) => |r, _f, call| { let _ = (array, description, levels); unsupported::forward(r, call, unsupported::ARRAYS) };
    cuIpcOpenMemHandle_v2, Known, Legacy (at: *mut CuDevicePtr, handle: IpcHandle, flags: u32) => |r, _f, call| { let _ = (at, flags); unsupported::forward(r, call, unsupported::IMPORTED) };
    cuMemPoolImportPointer, Known, Legacy (at: *mut CuDevicePtr, pool: CuMemPool, data: *mut c_void) => |r, _f, call| { let _ = (at, pool, data); unsupported::forward(r, call, unsupported::IMPORTED) };
    cuMemPoolExportPointer, Always, Legacy (data: *mut c_void, at: CuDevicePtr) => |r, _f, call| { let _ = data; pointers::share(r, call, at) };
    cuMemImportFromShareableHandle, Known, Legacy (handle: *mut CuMemHandle, shared: *mut c_void, kind: u32) => |r, _f, call| { let _ = (shared, kind); mappings::import(r, call, handle) };
    cuExternalMemoryGetMappedBuffer, Known, Legacy (at: *mut CuDevicePtr, memory: *mut c_void, description: *const c_void) => |r, _f, call| { let _ = (at, memory, description); unsupported::forward(r, call, unsupported::IMPORTED) };
    cuGraphicsResourceGetMappedPointer_v2, Known, Legacy (at: *mut CuDevicePtr, bytes: *mut usize, resource: *mut c_void) => |r, _f, call| { let _ = (at, bytes, resource); unsupported::forward(r, call, unsupported::IMPORTED) };
    cuLaunchCooperativeKernelMultiDevice, Work, Legacy (launches: *mut c_void, count: u32, flags: u32) => |r, _f, call| { let _ = (launches, count, flags); unsupported::forward(r, call, unsupported::MANY_DEVICES) };
    cuIpcGetMemHandle, Always, Legacy (handle: *mut c_void, at: CuDevicePtr) => |r, _f, call| { let _ = handle; pointers::share(r, call, at) };
    cuMemCreate, Known, Legacy (handle: *mut CuMemHandle, bytes: usize, properties: *const AllocationProperties, flags: u64) => |r, _f, call| { let _ = flags; mappings::create(r, call, handle, bytes, properties) };
    cuMemRelease, Known, Legacy (handle: CuMemHandle) => |r, _f, call| mappings::release(r, call, handle);
    cuMemAddressReserve, Known, Legacy (at: *mut CuDevicePtr, bytes: usize, alignment: usize, hint: CuDevicePtr, flags: u64) => |r, _f, call| mappings::reserve(r, call, at, bytes, alignment, hint, flags);
    cuMemAddressFree, Always, Legacy (at: CuDevicePtr, bytes: usize) => |r, _f, call| mappings::free(r, call, at, bytes);
    cuMemMap, Known, Legacy (at: CuDevicePtr, bytes: usize, offset: usize, handle: CuMemHandle, flags: u64) => |r, _f, call| { let _ = flags; mappings::map(r, call, at, bytes, offset, handle) };
    cuMemUnmap, Known, Legacy (at: CuDevicePtr, bytes: usize) => |r, _f, call| mappings::unmap(r, call, at, bytes);
    cuMemSetAccess, Known, Legacy (at: CuDevicePtr, bytes: usize, descriptions: *const AccessDescription, count: usize) => |r, _f, call| mappings::set_access(r, call, at, bytes, descriptions, count);
    cuMemExportToShareableHandle, Known, Legacy (shared: *mut c_void, handle: CuMemHandle, kind: u32, flags: u64) => |r, _f, call| { let _ = (shared, handle, kind, flags); unsupported::forward(r, call, unsupported::EXPORTED) };
    cuGreenCtxStreamCreate, Known, Legacy (stream: *mut CuStream, context: *mut c_void, flags: u32, priority: i32) => |r, _f, call| { let _ = context; streams::stream_create(r, &mut || unsupported::forward_named(r, call, "cuGreenCtxStreamCreate"), stream, flags, priority) };
    cuCtxRecordEvent, Work, Legacy (context: *mut c_void, event: CuEvent) => |r, _f, call| { let _ = (context, event); unsupported::forward_named(r, call, "cuCtxRecordEvent") };
    cuCtxWaitEvent, Work, Legacy (context: *mut c_void, event: CuEvent) => |r, _f, call| { let _ = (context, event); unsupported::forward_named(r, call, "cuCtxWaitEvent") };
    cuGreenCtxRecordEvent, Work, Legacy (context: *mut c_void, event: CuEvent) => |r, _f, call| { let _ = (context, event); unsupported::forward_named(r, call, "cuGreenCtxRecordEvent") };
    cuGreenCtxWaitEvent, Work, Legacy (context: *mut c_void, event: CuEvent) => |r, _f, call| { let _ = (context, event); unsupported::forward_named(r, call, "cuGreenCtxWaitEvent") };
    cuLibraryGetManaged, Known, Legacy (at: *mut CuDevicePtr, bytes: *mut usize, library: CuLibrary, name: *const c_char) => |r, _f, call| { let _ = (at, bytes, library, name); unsupported::forward_named(r, call, "cuLibraryGetManaged") };
    cuTexRefSetArray, Known, Legacy (texture: *mut c_void, array: CuArray, flags: u32) => |r, _f, call| { let _ = (texture, array, flags); unsupported::forward_named(r, call, "cuTexRefSetArray") };
    cuTexRefSetMipmappedArray, Known, Legacy (texture: *mut c_void, array: *mut c_void, flags: u32) => |r, _f, call| { let _ = (texture, array, flags); unsupported::forward_named(r, call, "cuTexRefSetMipmappedArray") };
    cuTexRefSetAddress_v2, Known, Legacy (offset: *mut usize, texture: *mut c_void, at: CuDevicePtr, bytes: usize) => |r, _f, call| { let _ = (offset, texture, at, bytes); unsupported::forward_named(r, call, "cuTexRefSetAddress_v2") };
    cuTexRefSetAddress2D_v3, Known, Legacy (texture: *mut c_void, description: *const c_void, at: CuDevicePtr, pitch: usize) => |r, _f, call| { let _ = (texture, description, at, pitch); unsupported::forward_named(r, call, "cuTexRefSetAddress2D_v3") };
    cuSurfRefSetArray, Known, Legacy (surface: *mut c_void, array: CuArray, flags: u32) => |r, _f, call| { let _ = (surface, array, flags); unsupported::forward_named(r, call, "cuSurfRefSetArray") };
    cuMemMapArrayAsync, Work, Legacy (maps: *mut c_void, count: u32, stream: CuStream) => |r, _f, call| { let _ = (maps, count, stream); unsupported::forward_named(r, call, "cuMemMapArrayAsync") };
    cuMemMapArrayAsync_ptsz, Work, Legacy (maps: *mut c_void, count: u32, stream: CuStream) => |r, _f, call| { let _ = (maps, count, stream); unsupported::forward_named(r, call, "cuMemMapArrayAsync_ptsz") };
    cuCtxSetLimit, Known, Legacy (limit: u32, value: usize) => |r, _f, call| contexts::set_limit(r, call, limit, value);
    cuGetProcAddress_v2, Always, Legacy (symbol: *const c_char, to: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_int) => |_r, _f, call| { let _ = (symbol, version, flags, status); instead_of(to, call()) };
    cuGetProcAddress, Always, Legacy (symbol: *const c_char, to: *mut *mut c_void, version: c_int, flags: u64) => |_r, _f, call| { let _ = (symbol, version, flags); instead_of(to, call()) };
}

/// Replaces the driver's answer for a name by this library's function.
///
/// # Safety
/// `to` is the program's pointer for the answer.
unsafe fn instead_of(to: *mut *mut c_void, result: CuResult) -> CuResult {
    if is_ok(result) && !to.is_null() {
        // SAFETY: guaranteed by the caller; the driver has written the answer.
        unsafe {
            if let Some(ours) = find_replacement(*to) {
                *to = ours;
            }
        }
    }
    result
}

/// Returns the replacements by the address of the driver's function.
fn by_address() -> &'static HashMap<usize, usize> {
    static MAP: OnceLock<HashMap<usize, usize>> = OnceLock::new();
    MAP.get_or_init(|| {
        let mut map = HashMap::new();
        for hook in HOOKS {
            let at = find(hook.name);
            if !at.is_null() {
                hook.real.store(at, Ordering::Relaxed);
                map.entry(at as usize).or_insert(hook.ours as usize);
            }
        }
        map
    })
}

/// Returns the replacement for a function of the driver.
pub(crate) fn find_replacement(found: *mut c_void) -> Option<*mut c_void> {
    by_address().get(&(found as usize)).map(|ours| *ours as *mut c_void)
}
