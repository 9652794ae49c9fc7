//! Calls on contexts. Which context is current is known here: each request names it.

use crate::errors::{INVALID_CONTEXT, INVALID_DEVICE};
use crate::forms::{AbiHandle as _, handle_number};
use crate::forwarded;
use crate::pointers::{put, put_if_wanted};
use crate::{CallResult, arrays, connection, lock, thread_state};
use cuda_driver::{CuContext, CuDevice, CuStream, INVALID_VALUE, NOT_SUPPORTED};
use remote_calls::{HandleKind, HandleNumber};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

/// Devices of the contexts that exist.
static CONTEXTS: LazyLock<Mutex<HashMap<HandleNumber, CuDevice>>> = LazyLock::new(Mutex::default);

/// Returns the number of a context that exists, or null.
///
/// # Errors
/// `INVALID_CONTEXT` if there is none.
pub fn context_number(context: CuContext) -> CallResult<HandleNumber> {
    let number = handle_number(HandleKind::Context, context).map_err(|_| INVALID_CONTEXT)?;
    match number == HandleNumber::NULL || lock(&CONTEXTS).contains_key(&number) {
        true => Ok(number),
        false => Err(INVALID_CONTEXT),
    }
}

fn check_device(device: CuDevice) -> CallResult {
    let count = connection::current()?.snapshot()?.devices.len();
    match usize::try_from(device).is_ok_and(|index| index < count) {
        true => Ok(()),
        false => Err(INVALID_DEVICE),
    }
}

/// `cuDevicePrimaryCtxRetain`.
pub fn retain_primary(to: *mut CuContext, device: CuDevice) -> CallResult {
    check_device(device)?;
    let mut context = std::ptr::null_mut();
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    forwarded::cuDevicePrimaryCtxRetain(false, &raw mut context, device)?;
    if let Some(number) = context.number() {
        lock(&CONTEXTS).insert(number, device);
    }
    put(to, context)
}

/// `cuDevicePrimaryCtxRelease`.
pub fn release_primary(device: CuDevice) -> CallResult {
    check_device(device)?;
    forwarded::cuDevicePrimaryCtxRelease_v2(false, device)?;
    arrays::forget_descriptions();
    Ok(())
}

/// `cuDevicePrimaryCtxReset`: an error that every call answers ends with it.
pub fn reset_primary(device: CuDevice) -> CallResult {
    check_device(device)?;
    forwarded::cuDevicePrimaryCtxReset_v2(false, device)?;
    arrays::forget_descriptions();
    connection::current()?.forget_sticky_error();
    Ok(())
}

/// `cuCtxCreate`: the new context is the thread's current one.
pub fn create(to: *mut CuContext, flags: u32, device: CuDevice) -> CallResult {
    check_device(device)?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut context = std::ptr::null_mut();
    forwarded::cuCtxCreate_v2(false, &raw mut context, flags, device)?;
    if let Some(number) = context.number() {
        lock(&CONTEXTS).insert(number, device);
        thread_state::push_context(number);
    }
    put(to, context)
}

/// `cuCtxCreate_v4`. Parameters, for a share of a device, are not supported.
pub fn create_with(to: *mut CuContext, parameters: *mut std::ffi::c_void, flags: u32, device: CuDevice) -> CallResult {
    if !parameters.is_null() {
        return Err(NOT_SUPPORTED);
    }
    create(to, flags, device)
}

/// `cuCtxDestroy`.
pub fn destroy(context: CuContext) -> CallResult {
    let number = context_number(context)?;
    if number == HandleNumber::NULL {
        return Err(INVALID_CONTEXT);
    }
    forwarded::cuCtxDestroy_v2(false, context)?;
    lock(&CONTEXTS).remove(&number);
    arrays::forget_descriptions();
    if thread_state::current_context() == number {
        thread_state::pop_context();
    }
    connection::current()?.forget_sticky_error();
    Ok(())
}

/// `cuCtxGetCurrent`.
pub fn get_current(to: *mut CuContext) -> CallResult {
    connection::current()?;
    let current = thread_state::current_context();
    let context = match current == HandleNumber::NULL {
        true => std::ptr::null_mut(),
        false => CuContext::from_number(current),
    };
    put(to, context)
}

/// `cuCtxSetCurrent`.
pub fn set_current(context: CuContext) -> CallResult {
    connection::current()?;
    thread_state::set_current_context(context_number(context)?);
    Ok(())
}

/// `cuCtxPushCurrent`.
pub fn push(context: CuContext) -> CallResult {
    connection::current()?;
    let number = context_number(context)?;
    if number == HandleNumber::NULL {
        return Err(INVALID_CONTEXT);
    }
    thread_state::push_context(number);
    Ok(())
}

/// `cuCtxPopCurrent`.
pub fn pop(to: *mut CuContext) -> CallResult {
    connection::current()?;
    let number = thread_state::pop_context().ok_or(INVALID_CONTEXT)?;
    put_if_wanted(to, CuContext::from_number(number));
    Ok(())
}

/// `cuCtxGetDevice` of CUDA 13: the device of a context, or of the current one.
pub fn get_device_of(to: *mut CuDevice, context: CuContext) -> CallResult {
    connection::current()?;
    let number = number_or_current(context)?;
    let device = lock(&CONTEXTS).get(&number).copied().ok_or(INVALID_CONTEXT)?;
    put(to, device)
}

/// `cuCtxSynchronize` of CUDA 13: waits for the work of a context, or of the current one.
pub fn synchronize(context: CuContext) -> CallResult {
    thread_state::push_context(number_or_current(context)?);
    let waited = forwarded::cuCtxSynchronize(false);
    thread_state::pop_context();
    waited
}

fn number_or_current(context: CuContext) -> CallResult<HandleNumber> {
    match context_number(context)? {
        HandleNumber::NULL => Ok(thread_state::current_context()),
        number => Ok(number),
    }
}

/// `cuCtxGetDevice`.
pub fn get_device(to: *mut CuDevice) -> CallResult {
    connection::current()?;
    let current = thread_state::current_context();
    let device = lock(&CONTEXTS).get(&current).copied().ok_or(INVALID_CONTEXT)?;
    put(to, device)
}

/// `cuCtxGetApiVersion`.
pub fn api_version(context: CuContext, to: *mut u32) -> CallResult {
    context_number(context)?;
    forwarded::cuCtxGetApiVersion(false, context, to)
}

/// `cuStreamGetCtx`, second version. No context is a part of another one.
pub fn of_stream(is_per_thread: bool, stream: CuStream, to: *mut CuContext, part: *mut CuContext) -> CallResult {
    forwarded::cuStreamGetCtx(is_per_thread, stream, to)?;
    put_if_wanted(part, std::ptr::null_mut());
    Ok(())
}
