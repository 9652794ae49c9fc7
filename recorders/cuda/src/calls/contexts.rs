//! Calls on contexts: their limits, their destruction, and their access to each other's memory.

use super::Call;
use crate::contexts::current_context_and_device;
use crate::driver::{driver, is_ok};
use crate::recorder::Recorder;
use crate::trace::lock;
use cuda_driver::{CuContext, CuDevice, CuResult, LIMIT_HEAP, LIMIT_PRINTF, LIMIT_STACK};

/// Handles `cuCtxSetLimit`: sizes of stack, heap and print buffer for kernels. A replay sets each limit once, before it
/// starts, so the largest of several values is recorded.
pub(crate) fn set_limit(r: &Recorder, call: Call<'_>, limit: u32, value: usize) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    let value = value as u64;
    if is_ok(result) && matches!(limit, LIMIT_STACK | LIMIT_PRINTF | LIMIT_HEAP) {
        let mut tables = r.trace.session.tables();
        let limits = &mut tables.metadata.limits;
        match limits.iter_mut().find(|[known, _]| *known == u64::from(limit)) {
            Some([_, max]) => *max = value.max(*max),
            None => limits.push([limit.into(), value]),
        }
        tables.mark_changed();
    }
    r.trace
        .record_call(begun, "cuCtxSetLimit", None, &[limit.into(), value], result);
    result
}

/// Handles `cuCtxEnablePeerAccess`: functions of this context can access memory of another one.
pub(crate) fn enable_peer_access(r: &Recorder, call: Call<'_>, peer: CuContext) -> CuResult {
    let result = call();
    let here = current_context_and_device();
    let (d, mut owner, mut popped): (_, CuDevice, CuContext) = (driver(), 0, std::ptr::null_mut());
    // SAFETY: the program has just passed the context; the thread's own is restored.
    let asked = is_ok(result)
        && unsafe {
            d.cuCtxPushCurrent_v2(peer).is_ok() && {
                let asked = d.cuCtxGetDevice(&raw mut owner).is_ok();
                let _ = d.cuCtxPopCurrent_v2(&raw mut popped);
                asked
            }
        };
    if let Some((_, device)) = here.filter(|_| asked) {
        lock(&r.memory).allow_peer(device, owner);
    }
    result
}

/// Handles the destruction of a context.
pub(crate) fn destroy(r: &Recorder, call: Call<'_>, context: CuContext) -> CuResult {
    let result = call();
    if is_ok(result) {
        forget_context(r, context as usize);
    }
    result
}

/// Returns a device's primary context, which the runtime uses. Returns `None` if there is none or the device is
/// unknown.
fn find_primary_context(r: &Recorder, device: CuDevice) -> Option<usize> {
    // The query creates a missing context: do not query a device without known memory.
    if !lock(&r.memory).has_memory_on(device) || !is_active(device) {
        return None;
    }
    let d = driver();
    let mut context: CuContext = std::ptr::null_mut();
    // SAFETY: the call queries the context, and its retain count stays the same.
    let asked = unsafe {
        d.cuDevicePrimaryCtxRetain(&raw mut context, device)
            .and_then(|()| d.cuDevicePrimaryCtxRelease_v2(device))
    };
    asked.is_ok().then_some(context as usize)
}

/// Returns whether a device has its primary context; `true` if the driver does not say.
fn is_active(device: CuDevice) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the query has valid pointers for the answers.
    let asked = unsafe { driver().cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) };
    asked.is_err() || active != 0
}

/// Handles the reset of a primary context.
pub(crate) fn reset(r: &Recorder, call: Call<'_>, device: CuDevice) -> CuResult {
    let context = find_primary_context(r, device);
    let result = call();
    if let Some(context) = context.filter(|_| is_ok(result)) {
        forget_context(r, context);
    }
    result
}

/// Handles the release of a primary context: the last release destroys it.
pub(crate) fn release(r: &Recorder, call: Call<'_>, device: CuDevice) -> CuResult {
    let context = find_primary_context(r, device);
    let result = call();
    if let Some(context) = context.filter(|_| is_ok(result) && !is_active(device)) {
        forget_context(r, context);
    }
    result
}

/// Forgets a destroyed context: takes its awaited content as it is now, and removes everything created in it.
fn forget_context(r: &Recorder, context: usize) {
    r.streams.context_done(&r.trace, context);
    lock(&r.snapshots).forget_context(context);
    lock(&r.memory).forget_context(context);
    lock(&r.code).forget_context(context);
    r.trace.invalidate_caches();
}
