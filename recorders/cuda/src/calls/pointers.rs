//! Queries about window addresses: the answers are those for memory that the driver serves itself.

use super::Call;
use crate::driver::is_ok;
use crate::message::say;
use crate::recorder::Recorder;
use crate::trace::{Form, lock};
use cuda_driver::{
    CuDevicePtr, CuMemHandle, CuResult, INVALID_VALUE, POINTER_RANGE_BYTES, POINTER_RANGE_START, SUCCESS,
};
use libc::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use trace_core::GpuVa;

/// `CU_POINTER_ATTRIBUTE_CONTEXT`.
const POINTER_CONTEXT: i32 = 1;

/// Handles `cuMemGetAddressRange`: for window memory it returns the program's allocation, not the mapping around it.
pub(crate) fn address_range(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    base: *mut CuDevicePtr,
    bytes: *mut usize,
    at: CuDevicePtr,
) -> CuResult {
    let around = lock(&r.memory).find_containing(GpuVa::new(at));
    let Some((first, length, _)) = around else {
        return call();
    };
    // SAFETY: the pointers for the answers are the program's, or null if it does not want one.
    unsafe {
        if !base.is_null() {
            *base = first.get();
        }
        if !bytes.is_null() {
            *bytes = length as usize;
        }
    }
    SUCCESS
}

/// Replaces the driver's answer about the mapping by the value for the program's own allocation.
///
/// # Safety
/// The pointer is valid for a value of this attribute.
unsafe fn correct_attribute(piece: (GpuVa, u64, usize), attribute: i32, value: *mut c_void) {
    let (first, bytes, context) = piece;
    if value.is_null() {
        return;
    }
    // SAFETY: the caller guarantees the pointer; values of these attributes are words.
    unsafe {
        match attribute {
            POINTER_RANGE_START => *value.cast::<u64>() = first.get(),
            POINTER_RANGE_BYTES => *value.cast::<usize>() = bytes as usize,
            POINTER_CONTEXT => *value.cast::<usize>() = context,
            _ => {}
        }
    }
}

/// Handles `cuPointerGetAttribute`.
///
/// # Safety
/// The pointer is valid for a value of this attribute, as the driver requires.
pub(crate) unsafe fn attribute(
    r: &Recorder,
    call: Call<'_>,
    value: *mut c_void,
    attribute: i32,
    at: CuDevicePtr,
) -> CuResult {
    let result = call();
    if !matches!(attribute, POINTER_CONTEXT | POINTER_RANGE_START | POINTER_RANGE_BYTES) {
        return result;
    }
    match lock(&r.memory).find_containing(GpuVa::new(at)) {
        // Mapped memory belongs to no context, for which some drivers return an error.
        Some(piece) if is_ok(result) || attribute == POINTER_CONTEXT => {
            // SAFETY: guaranteed by the caller.
            unsafe { correct_attribute(piece, attribute, value) };
            SUCCESS
        }
        _ => result,
    }
}

/// Handles `cuPointerGetAttributes`.
///
/// # Safety
/// There are as many attributes and pointers as the count says, as the driver requires.
pub(crate) unsafe fn attributes(
    r: &Recorder,
    call: Call<'_>,
    count: u32,
    attributes: *mut i32,
    values: *mut *mut c_void,
    at: CuDevicePtr,
) -> CuResult {
    let result = call();
    if is_ok(result)
        && !attributes.is_null()
        && !values.is_null()
        && let Some(piece) = lock(&r.memory).find_containing(GpuVa::new(at))
    {
        for n in 0..count as usize {
            // SAFETY: guaranteed by the caller.
            unsafe { correct_attribute(piece, *attributes.add(n), *values.add(n)) };
        }
    }
    result
}

/// Handles `cuMemRetainAllocationHandle`: memory that the driver serves itself has no handle.
pub(crate) fn handle(r: &Recorder, call: Call<'_>, _handle: *mut CuMemHandle, at: *mut c_void) -> CuResult {
    if lock(&r.memory).find_containing(GpuVa::new(at as u64)).is_some() {
        return INVALID_VALUE;
    }
    call()
}

/// Handles `cuIpcGetMemHandle`: window memory cannot be shared this way.
pub(crate) fn share(r: &Recorder, call: Call<'_>, at: CuDevicePtr) -> CuResult {
    static WARNED: AtomicBool = AtomicBool::new(false);
    r.trace.note_not_recorded(
        "shared memory",
        "the program shares memory with other processes: the recorder does not see what these write",
    );
    let result = call();
    if !is_ok(result) && lock(&r.memory).is_in_window(GpuVa::new(at)) && !WARNED.swap(true, Ordering::Relaxed) {
        say(
            "the program shares memory with another process, which the recorder's address window does not allow: \
             record it with KINESCOPE_CUDA_WINDOW=no in the environment",
        );
    }
    result
}
