//! Host memory of the program, for the driver.
#![allow(unsafe_code, reason = "calls of the driver with addresses of shared memory")]

use crate::call_error::{CallError, CallResult};
use crate::contexts;
use crate::session::Scope;
use cuda_driver::INVALID_VALUE;
use remote_calls::message::AllocateHost;
use remote_calls::{Decoder, Encoder};
use remote_ring::WINDOW_PAGE_BYTES;
use std::ffi::c_void;

/// Flags: the memory is known in every context, and kernels use it.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// Returns the address of a range of the window.
///
/// # Errors
/// `INVALID_VALUE` if the range is not in it.
pub fn pointer(scope: &Scope<'_>, offset: u64, bytes: u64) -> CallResult<*mut c_void> {
    let pointer = scope.session.window.pointer(offset, bytes);
    pointer
        .map(<*mut u8>::cast)
        .map_err(|_| CallError::Result(INVALID_VALUE))
}

/// Returns the offset in the window of an address of this process, or `None` if it is not in the window.
pub fn offset(scope: &Scope<'_>, at: u64) -> Option<u64> {
    let window = &scope.session.window;
    at.checked_sub(window.address())
        .filter(|offset| *offset < window.bytes())
}

/// Checks that a range is whole pages.
fn check_range(offset: u64, bytes: u64) -> CallResult {
    match bytes > 0 && offset.is_multiple_of(WINDOW_PAGE_BYTES) && bytes.is_multiple_of(WINDOW_PAGE_BYTES) {
        true => Ok(()),
        false => Err(CallError::Result(INVALID_VALUE)),
    }
}

/// Makes memory of the window known to the driver. The answer has the device's address of its first byte.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn allocate(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let AllocateHost { offset, bytes, .. } = AllocateHost::read(decoder)?;
    check_range(offset, bytes)?;
    let at = pointer(scope, offset, bytes)?;
    let driver = &scope.session.driver;
    let mut device = 0;
    // SAFETY: the window stays mapped while the session lives, and its size cannot change. A program that frees the
    // memory of a range leaves zeros there.
    unsafe {
        driver.cuMemHostRegister_v2(at, bytes as usize, PORTABLE_AND_MAPPED)?;
        driver.cuMemHostGetDevicePointer_v2(&raw mut device, at, 0)?;
    }
    scope.session.note_registration(offset, scope.context);
    answer.write(device);
    Ok(())
}

/// Takes memory of the window from the driver, after all work that was submitted.
///
/// # Errors
/// If the message is invalid.
pub fn free(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let (offset, bytes): (u64, u64) = (decoder.read()?, decoder.read()?);
    decoder.finish()?;
    check_range(offset, bytes)?;
    let at = pointer(scope, offset, bytes)?;
    let registered = scope.session.take_registration(offset);
    let context = registered.ok_or(CallError::Result(INVALID_VALUE))?;
    let owner = Scope { context, ..*scope };
    // The driver knows the memory in the context of its registration. If that is gone, it has forgotten the memory.
    if contexts::enter(&owner).is_err() {
        return Ok(());
    }
    let driver = &scope.session.driver;
    // SAFETY: the first call has no results, and its failure does not matter: a context with an error uses nothing any
    // more. The memory was registered by this module.
    let freed = unsafe {
        let _ = driver.cuCtxSynchronize();
        driver.cuMemHostUnregister(at)
    };
    match freed {
        Ok(()) => Ok(()),
        // An error of the context is answered by every call. The memory is used by nothing.
        Err(e) if e.result() != Some(INVALID_VALUE) => Ok(()),
        Err(e) => {
            scope.session.note_registration(offset, context);
            Err(e.into())
        }
    }
}

/// Notes that kernels use a range of the window: the worker maps the same memory, and does nothing. A relay between the
/// program and the worker keeps both sides of such memory equal.
///
/// # Errors
/// If the message is invalid.
pub fn expose(decoder: &mut Decoder<'_>) -> CallResult {
    let _: u64 = decoder.read()?;
    decoder.finish()?;
    Ok(())
}
