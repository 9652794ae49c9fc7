//! Host memory of the program, for the driver.
#![allow(unsafe_code, reason = "calls of the driver with addresses of shared memory")]

use crate::call_error::{CallError, Played};
use crate::session::Scope;
use cuda_driver::INVALID_VALUE;
use remote_calls::{Decoder, Encoder};
use remote_ring::WINDOW_PAGE_BYTES;
use std::ffi::c_void;

/// Flags: the memory is known in every context, and kernels use it.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// Returns the address of a range of the window.
///
/// # Errors
/// `INVALID_VALUE` if the range is not in it.
pub fn pointer(scope: &Scope<'_>, offset: u64, bytes: u64) -> Played<*mut c_void> {
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

/// Reads a range of whole pages.
fn read_range(decoder: &mut Decoder<'_>) -> Played<(u64, u64)> {
    let (offset, bytes): (u64, u64) = (decoder.read()?, decoder.read()?);
    decoder.finish()?;
    match bytes > 0 && offset % WINDOW_PAGE_BYTES == 0 && bytes % WINDOW_PAGE_BYTES == 0 {
        true => Ok((offset, bytes)),
        false => Err(CallError::Result(INVALID_VALUE)),
    }
}

/// Makes memory of the window known to the driver. The answer has the device's address of its first byte.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn allocate(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> Played {
    let (offset, bytes) = read_range(decoder)?;
    let at = pointer(scope, offset, bytes)?;
    let driver = &scope.session.driver;
    let mut device = 0;
    // SAFETY: the window stays mapped while the session lives, and its size cannot change. A program that frees the
    // memory of a range leaves zeros there.
    unsafe {
        driver.cuMemHostRegister_v2(at, bytes as usize, PORTABLE_AND_MAPPED)?;
        driver.cuMemHostGetDevicePointer_v2(&raw mut device, at, 0)?;
    }
    answer.write(device);
    Ok(())
}

/// Takes memory of the window from the driver, after all work that was submitted.
///
/// # Errors
/// If the message is invalid.
pub fn free(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> Played {
    let (offset, bytes) = read_range(decoder)?;
    let at = pointer(scope, offset, bytes)?;
    let driver = &scope.session.driver;
    // SAFETY: the calls have no results. Their failures do not matter: a lost context uses nothing, and with another
    // context than the one of the registration the driver has forgotten it.
    let _ = unsafe {
        let waited = driver.cuCtxSynchronize();
        let freed = driver.cuMemHostUnregister(at);
        (waited, freed)
    };
    Ok(())
}
