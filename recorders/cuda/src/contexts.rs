//! Contexts that take what was made in them with them, and that reach memory of each other.

use crate::recorder::{Recorder, is_ok, lock};
use crate::resolve::driver;
use cuda_driver::{CuContext, CuDevice, CuResult};

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// `cuCtxEnablePeerAccess`: functions of this context may reach memory of another one.
pub(crate) fn enable_peer_access(r: &Recorder, call: Call<'_>, peer: CuContext) -> CuResult {
    let result = call();
    let here = crate::memory::current_context_and_device();
    let (d, mut owner, mut popped): (_, CuDevice, CuContext) = (driver(), 0, std::ptr::null_mut());
    // SAFETY: a context that the program has just named; the thread's own comes back.
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

/// A context is destroyed.
pub(crate) fn destroy(r: &Recorder, call: Call<'_>, context: CuContext) -> CuResult {
    let result = call();
    if is_ok(result) {
        forget_context(r, context as usize);
    }
    result
}

/// A device's primary context, which the runtime uses; `None`: there is none, or nothing is known of the device.
fn find_primary_context(r: &Recorder, device: CuDevice) -> Option<usize> {
    // Asking makes the context where there is none: not of a device of which nothing is known.
    if !lock(&r.memory).has_memory_on(device) || !is_active(device) {
        return None;
    }
    let d = driver();
    let mut context: CuContext = std::ptr::null_mut();
    // SAFETY: asks which one it is, and leaves it retained as often as it was.
    let asked = unsafe {
        d.cuDevicePrimaryCtxRetain(&raw mut context, device)
            .and_then(|()| d.cuDevicePrimaryCtxRelease_v2(device))
    };
    asked.is_ok().then_some(context as usize)
}

/// Whether a device has its primary context; a driver that does not say so is taken to have it.
fn is_active(device: CuDevice) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: a question with places for the answers.
    let asked = unsafe { driver().cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) };
    asked.is_err() || active != 0
}

/// The primary context is reset.
pub(crate) fn reset(r: &Recorder, call: Call<'_>, device: CuDevice) -> CuResult {
    let context = find_primary_context(r, device);
    let result = call();
    if let Some(context) = context.filter(|_| is_ok(result)) {
        forget_context(r, context);
    }
    result
}

/// The primary context is released: where that was the last time, it is no more.
pub(crate) fn release(r: &Recorder, call: Call<'_>, device: CuDevice) -> CuResult {
    let context = find_primary_context(r, device);
    let result = call();
    if let Some(context) = context.filter(|_| is_ok(result) && !is_active(device)) {
        forget_context(r, context);
    }
    result
}

/// A context is gone: what was awaited in it is taken up as it stands, and what was made in it is no more.
fn forget_context(r: &Recorder, context: usize) {
    r.context_done(context);
    lock(&r.snapshots).forget_context(context);
    lock(&r.memory).forget_context(context);
    lock(&r.code).forget_context(context);
    r.invalidate_caches();
}
