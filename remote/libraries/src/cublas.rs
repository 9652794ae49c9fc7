//! Functions of cuBLAS that keep state here, or need no worker.

mod host_copies;
mod status_texts;

pub use host_copies::{CopyDirection, HostCopy, copy};
pub use status_texts::{status_name, status_text};

use crate::objects::ObjectState;
use crate::pointers::put;
use crate::{CallResult, forwarded, objects, opening};
use remote_calls::library::NvidiaLibrary;
use std::ffi::c_void;

/// `CUBLAS_STATUS_NOT_INITIALIZED`, for a handle that is none.
const NO_HANDLE: i32 = NvidiaLibrary::Cublas.codes().no_object;
/// `CUBLAS_STATUS_INVALID_VALUE`.
const INVALID_VALUE: i32 = NvidiaLibrary::Cublas.codes().invalid_value;

/// `cublasCreate`, by a library that stands in for this major version.
///
/// # Errors
/// The library's status.
pub fn create(handle: *mut *mut c_void, major: u32) -> CallResult {
    opening::set_cublas_major(major);
    forwarded::cublasCreate_v2(handle)
}

/// `cublasDestroy`.
///
/// # Errors
/// The library's status.
pub fn destroy(handle: *mut c_void) -> CallResult {
    state_of(handle)?;
    forwarded::cublasDestroy_v2(handle)
}

fn state_of(handle: *mut c_void) -> CallResult<ObjectState> {
    objects::find(handle, NO_HANDLE).map(|(_, state)| state)
}

/// `cublasGetVersion`, which works without a handle.
///
/// # Errors
/// The library's status.
pub fn write_version(handle: *mut c_void, version: *mut i32) -> CallResult {
    if !handle.is_null() {
        return forwarded::cublasGetVersion_v2(handle, version);
    }
    let mut parts = [0; 3];
    for (property, part) in (0..).zip(&mut parts) {
        forwarded::cublasGetProperty(property, part)?;
    }
    let [major, minor, patch] = parts;
    let number = major * 10_000 + minor * 100 + patch;
    put(version, number).then_some(()).ok_or(INVALID_VALUE)
}

/// `cublasSetStream`.
///
/// # Errors
/// The library's status.
pub fn set_stream(handle: *mut c_void, stream: *mut c_void) -> CallResult {
    forwarded::cublasSetStream_v2(handle, stream)?;
    objects::change(handle, |state| state.stream = stream.addr() as u64);
    Ok(())
}

/// `cublasGetStream`: the stream as the program passed it.
///
/// # Errors
/// The library's status.
pub fn write_stream(handle: *mut c_void, stream: *mut *mut c_void) -> CallResult {
    let address = state_of(handle)?.stream as usize;
    let found = std::ptr::with_exposed_provenance_mut(address);
    put(stream, found).then_some(()).ok_or(INVALID_VALUE)
}

/// `cublasSetPointerMode`.
///
/// # Errors
/// The library's status.
pub fn set_pointer_mode(handle: *mut c_void, mode: i32) -> CallResult {
    forwarded::cublasSetPointerMode_v2(handle, mode)?;
    objects::change(handle, |state| state.is_device_mode = mode != 0);
    Ok(())
}

/// `cublasGetPointerMode`.
///
/// # Errors
/// The library's status.
pub fn write_pointer_mode(handle: *mut c_void, mode: *mut i32) -> CallResult {
    let is_device_mode = state_of(handle)?.is_device_mode;
    put(mode, i32::from(is_device_mode)).then_some(()).ok_or(INVALID_VALUE)
}
