//! Handles and their settings, and the version of cuBLAS.

use crate::handles::{INVALID_VALUE, change, create, destroy, find};
use crate::{Answer, exported, memory};
use std::ffi::c_void;

/// The version that this library says, in parts.
const VERSION: [i32; 3] = [13, 0, 7];

fn write<T: crate::numbers::Plain>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    memory::put(to, &[value]);
    Ok(())
}

fn setting(value: i32, last: i32) -> Answer<i32> {
    (0..=last).contains(&value).then_some(value).ok_or(INVALID_VALUE)
}

fn property(index: i32) -> Answer<i32> {
    let part = usize::try_from(index).ok().and_then(|index| VERSION.get(index));
    part.copied().ok_or(INVALID_VALUE)
}

exported! {
    cublasCreate_v2(handle: *mut *mut c_void) => create(handle);
    cublasDestroy_v2(handle: *mut c_void) => destroy(handle);
    cublasGetVersion_v2(handle: *mut c_void, version: *mut i32) => find(handle).and_then(|_| {
        let [major, minor, patch] = VERSION;
        write(version, major * 10_000 + minor * 100 + patch)
    });
    cublasGetProperty(index: i32, value: *mut i32) => property(index).and_then(|part| write(value, part));
    cublasSetStream_v2(handle: *mut c_void, stream: *mut c_void) =>
        change(handle, |state| state.stream = stream.expose_provenance() as u64);
    cublasGetStream_v2(handle: *mut c_void, stream: *mut *mut c_void) => find(handle).and_then(|state| {
        write(stream.cast::<u64>(), state.stream)
    });
    cublasSetWorkspace_v2(handle: *mut c_void, at: u64, bytes: usize) => find(handle).and_then(|_| {
        (at.is_multiple_of(256) && bytes > 0).then_some(()).ok_or(INVALID_VALUE)
    });
    cublasSetPointerMode_v2(handle: *mut c_void, mode: i32) => find(handle).and_then(|_| setting(mode, 1)).and_then(|mode| {
        change(handle, |state| state.is_device_mode = mode == 1)
    });
    cublasGetPointerMode_v2(handle: *mut c_void, mode: *mut i32) => find(handle).and_then(|state| {
        write(mode, i32::from(state.is_device_mode))
    });
    cublasSetAtomicsMode(handle: *mut c_void, mode: i32) => find(handle).and_then(|_| setting(mode, 1)).and_then(|mode| {
        change(handle, |state| state.atomics = mode)
    });
    cublasGetAtomicsMode(handle: *mut c_void, mode: *mut i32) => find(handle).and_then(|state| write(mode, state.atomics));
    cublasSetMathMode(handle: *mut c_void, mode: i32) => find(handle).and_then(|_| setting(mode, 4)).and_then(|mode| {
        change(handle, |state| state.math = mode)
    });
    cublasGetMathMode(handle: *mut c_void, mode: *mut i32) => find(handle).and_then(|state| write(mode, state.math));
}
