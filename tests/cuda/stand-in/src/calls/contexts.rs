//! Calls on contexts: the device's primary context, and those that a program creates.

use crate::call::Call;
use crate::calls::streams::HIGHEST;
use crate::capture::refuse_any_capture;
use crate::codes::{INVALID_CONTEXT, INVALID_VALUE, NOT_SUPPORTED};
use crate::context::{Context, change_stack, current, find};
use crate::handles::pointer;
use crate::memory::arrays;
use crate::pointers::{give, give_if_wanted};
use crate::{Answer, capture, code, device, lock, memory, streams, textures};
use cuda_driver::{CuContext, CuDevice, CuResult};
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// All flags of contexts.
const CONTEXT_FLAGS: u32 = 0xff;
/// Version of the interface of contexts.
const API_VERSION: u32 = 3_020;

/// The primary context, and its retain count.
struct Primary {
    retained: u32,
    /// Flags of the next primary context.
    flags: u32,
    context: Option<Arc<Context>>,
    /// The last context was destroyed with an error: a real device has no next one in the same process.
    broken: Option<CuResult>,
}

static PRIMARY: Mutex<Primary> = Mutex::new(Primary {
    retained: 0,
    flags: 0,
    context: None,
    broken: None,
});

/// Destroys a context: waits for submitted work, and removes everything that belongs to it.
fn end(context: &Context) -> Answer {
    context.mark_ended();
    let how = context.synchronize();
    capture::forget(context.handle);
    streams::forget(context.handle);
    code::forget(context.handle);
    textures::forget(context.handle);
    arrays::forget(context.handle);
    memory::forget(context.handle);
    context.remove();
    how
}

pub fn cuDevicePrimaryCtxRetain(_: &Call, to: *mut CuContext, device: CuDevice) -> Answer {
    device::check(device)?;
    let mut primary = lock(&PRIMARY);
    if let Some(code) = primary.broken {
        return Err(code);
    }
    let flags = primary.flags;
    let handle = primary.context.get_or_insert_with(|| Context::make(flags)).handle;
    give(to, pointer(handle))?;
    primary.retained += 1;
    Ok(())
}

pub fn cuDevicePrimaryCtxRelease_v2(call: &Call, device: CuDevice) -> Answer {
    device::check(device)?;
    let last = {
        let mut primary = lock(&PRIMARY);
        primary.retained = primary.retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        primary.retained == 0
    };
    if last {
        cuDevicePrimaryCtxReset_v2(call, device)
    } else {
        Ok(())
    }
}

pub fn cuDevicePrimaryCtxGetState(_: &Call, device: CuDevice, flags: *mut u32, active: *mut i32) -> Answer {
    device::check(device)?;
    let primary = lock(&PRIMARY);
    give(flags, primary.flags)?;
    give(active, i32::from(primary.context.is_some()))
}

/// Sets the flags of the primary context. A context that exists has them from then on.
pub fn cuDevicePrimaryCtxSetFlags_v2(_: &Call, device: CuDevice, flags: u32) -> Answer {
    device::check(device)?;
    if flags & !CONTEXT_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let mut primary = lock(&PRIMARY);
    primary.flags = flags;
    if let Some(context) = &primary.context {
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}

pub fn cuDevicePrimaryCtxReset_v2(_: &Call, device: CuDevice) -> Answer {
    device::check(device)?;
    let context = lock(&PRIMARY).context.take();
    if let Some(context) = context
        && let Err(code) = end(&context)
    {
        lock(&PRIMARY).broken = Some(code);
    }
    Ok(())
}

pub fn cuCtxCreate_v2(_: &Call, to: *mut CuContext, flags: u32, device: CuDevice) -> Answer {
    device::check(device)?;
    let context = Context::make(flags);
    give(to, pointer(context.handle))?;
    change_stack(|stack| stack.push(context))
}

pub fn cuCtxCreate_v4(call: &Call, to: *mut CuContext, _how: *mut c_void, flags: u32, device: CuDevice) -> Answer {
    cuCtxCreate_v2(call, to, flags, device)
}

/// A program cannot destroy the primary context.
pub fn cuCtxDestroy_v2(_: &Call, context: CuContext) -> Answer {
    let context = find(context)?;
    if lock(&PRIMARY)
        .context
        .as_ref()
        .is_some_and(|p| p.handle == context.handle)
    {
        return Err(INVALID_CONTEXT);
    }
    change_stack(|stack| {
        if stack.last().is_some_and(|top| top.handle == context.handle) {
            stack.pop();
        }
    })?;
    // Only calls that wait return the result.
    let _ = end(&context);
    Ok(())
}

pub fn cuCtxGetCurrent(_: &Call, to: *mut CuContext) -> Answer {
    let top = change_stack(|stack| stack.last().map(|c| c.handle))?;
    give(to, top.map_or(std::ptr::null_mut(), pointer))
}

/// Replaces the current context.
pub fn cuCtxSetCurrent(_: &Call, context: CuContext) -> Answer {
    let context = if context.is_null() { None } else { Some(find(context)?) };
    change_stack(|stack| {
        stack.pop();
        stack.extend(context);
    })
}

pub fn cuCtxGetDevice(_: &Call, to: *mut CuDevice) -> Answer {
    current()?;
    give(to, 0)
}

/// Returns the device of a context, or of the current one.
pub fn cuCtxGetDevice_v2(call: &Call, to: *mut CuDevice, context: CuContext) -> Answer {
    if !context.is_null() {
        find(context)?;
        return give(to, 0);
    }
    cuCtxGetDevice(call, to)
}

pub fn cuCtxPushCurrent_v2(_: &Call, context: CuContext) -> Answer {
    let context = find(context)?;
    change_stack(|stack| stack.push(context))
}

pub fn cuCtxPopCurrent_v2(_: &Call, to: *mut CuContext) -> Answer {
    let gone = change_stack(Vec::pop)?.ok_or(INVALID_CONTEXT)?;
    give_if_wanted(to, pointer(gone.handle));
    Ok(())
}

pub fn cuCtxSynchronize(call: &Call) -> Answer {
    let context = call.context()?;
    refuse_any_capture(&context)?;
    context.synchronize()
}

/// Waits for a context, or for the current one.
pub fn cuCtxSynchronize_v2(call: &Call, context: CuContext) -> Answer {
    if context.is_null() {
        return cuCtxSynchronize(call);
    }
    let context = find(context)?;
    refuse_any_capture(&context)?;
    context.synchronize()
}

pub fn cuCtxSetLimit(call: &Call, limit: u32, value: usize) -> Answer {
    let context = call.context()?;
    let mut limits = lock(&context.limits);
    *limits.get_mut(&limit).ok_or(NOT_SUPPORTED)? = value;
    Ok(())
}

pub fn cuCtxGetLimit(call: &Call, to: *mut usize, limit: u32) -> Answer {
    let context = call.context()?;
    let value = lock(&context.limits).get(&limit).copied();
    give(to, value.ok_or(NOT_SUPPORTED)?)
}

/// No cache keeps anything here.
pub fn cuCtxResetPersistingL2Cache(call: &Call) -> Answer {
    call.context().map(drop)
}

pub fn cuCtxGetFlags(call: &Call, to: *mut u32) -> Answer {
    give(to, call.context()?.flags.load(Ordering::Relaxed))
}

pub fn cuCtxGetApiVersion(_: &Call, context: CuContext, to: *mut u32) -> Answer {
    find(context)?;
    give(to, API_VERSION)
}

pub fn cuCtxGetStreamPriorityRange(call: &Call, lowest: *mut i32, highest: *mut i32) -> Answer {
    call.context()?;
    give_if_wanted(lowest, 0);
    give_if_wanted(highest, HIGHEST);
    Ok(())
}
