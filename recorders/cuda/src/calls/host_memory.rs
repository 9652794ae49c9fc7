//! Host memory that the driver knows: pinned or registered. Copies from and to it run while the program continues.

use super::{Call, unsupported};
use crate::driver::is_ok;
use crate::process_memory::HostAddr;
use crate::recorder::Recorder;
use crate::trace::lock;
use crate::{pinned_access, shared_memory};
use cuda_driver::{CuDevicePtr, CuResult};
use cuda_session::CallStart;
use libc::c_void;
use trace_core::recording::{AllocationKind, OrderRow};

/// Handles `cuMemAllocHost` and `cuMemHostAlloc`.
pub(crate) fn alloc(r: &Recorder, call: Call<'_>, at: *mut *mut c_void, bytes: usize) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    let address = if is_ok(result) && !at.is_null() {
        // SAFETY: the driver has written the answer.
        HostAddr::from_pointer(unsafe { *at })
    } else {
        HostAddr::NULL
    };
    pinned(r, begun, address, bytes, result);
    result
}

/// Handles `cuMemHostRegister`.
pub(crate) fn register(r: &Recorder, call: Call<'_>, at: *mut c_void, bytes: usize) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    let address = if is_ok(result) {
        HostAddr::from_pointer(at)
    } else {
        HostAddr::NULL
    };
    pinned(r, begun, address, bytes, result);
    result
}

/// Adds memory that the program pinned, and records the call; no memory for a call that failed.
fn pinned(r: &Recorder, begun: CallStart, at: HostAddr, bytes: usize, result: CuResult) {
    if at != HostAddr::NULL {
        lock(&r.memory).pinned.insert(at, bytes as u64);
        pinned_access::add_pinned(at, bytes as u64);
        shared_memory::add_range(at.to_shared(), bytes as u64);
    }
    let kind = AllocationKind::TakeHost;
    r.trace
        .record_allocation(begun, kind, at.to_shared(), bytes as u64, OrderRow::NONE, result);
}

/// Handles `cuMemFreeHost` and `cuMemHostUnregister`. `stays`: the memory still exists after the call.
///
/// Content of pending copies to the memory is read once they are done, before the memory is freed.
pub(crate) fn free(r: &Recorder, call: Call<'_>, at: *mut c_void, stays: bool) -> CuResult {
    let begun = r.trace.session.start_call();
    let at = HostAddr::from_pointer(at);
    let bytes = lock(&r.memory).pinned.get(&at).copied();
    // The driver waits as well before it frees the memory.
    if let Some(bytes) = bytes {
        r.streams.wait_for_awaited(&r.trace, Some((at, bytes)));
    }
    let result = call();
    if is_ok(result)
        && let Some(bytes) = bytes
    {
        r.streams.complete_at(&r.trace, at, bytes, stays);
        lock(&r.memory).pinned.remove(&at);
        lock(&r.shared).forget(at.to_shared());
    }
    let kind = AllocationKind::GiveHost;
    r.trace
        .record_allocation(begun, kind, at.to_shared(), bytes.unwrap_or(0), OrderRow::NONE, result);
    result
}

/// Handles `cuMemHostGetDevicePointer`. If host and device have the same address, the arguments of launches are checked
/// for it.
///
/// # Safety
/// The pointer is the program's, for the driver's answer.
pub(crate) unsafe fn device_pointer(r: &Recorder, call: Call<'_>, to: *mut CuDevicePtr, at: *mut c_void) -> CuResult {
    let result = call();
    // SAFETY: guaranteed by the caller.
    if is_ok(result) && !to.is_null() && unsafe { *to } != at as u64 {
        let (what, why) = unsupported::POINTER_OF_HOST;
        r.trace.note_not_recorded(what, why);
    }
    result
}
