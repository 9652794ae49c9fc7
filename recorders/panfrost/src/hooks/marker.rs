//! Marker function for programs: the names of their buffers.

use super::ReentryGuard;
use crate::process;
use libc::{c_char, c_int, c_void, size_t};
use panfrost_node::{BufferName, Errno};
use std::ffi::CStr;

/// Names the bytes at an address in a mapped buffer object: a buffer of this name is in the recording. `role` is 0 for
/// an input, 1 for an output, 2 for weights, 3 for none of these. `element` is `f32` or another type's name. `shape`
/// has the length of each dimension, the slowest first: `8x8`. Both can be null. Returns 0, or an error number:
/// `EFAULT` if the address is in no buffer object, `EINVAL` if another argument is invalid.
///
/// # Safety
/// The strings are null or end in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kinescope_buffer(
    at: *const c_void,
    bytes: size_t,
    name: *const c_char,
    role: c_int,
    element: *const c_char,
    shape: *const c_char,
) -> c_int {
    let text = |at: *const c_char| {
        if at.is_null() {
            return String::new();
        }
        // SAFETY: the pointer is not null, and the caller's string ends in a zero.
        unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
    };
    let Some(_inside) = ReentryGuard::enter() else {
        return Errno::DEADLK.raw_os_error();
    };
    let role = process::parse_role(role);
    let (element, shape) = (
        process::parse_element_type(&text(element)),
        process::parse_shape(&text(shape)),
    );
    let (Some(role), Some(element), Some(shape)) = (role, element, shape) else {
        return Errno::INVAL.raw_os_error();
    };
    let named = BufferName {
        name: text(name),
        role,
        element,
        shape,
    };
    match process::name_buffer(at as u64, bytes as u64, named) {
        Ok(()) => 0,
        Err(e) => e.raw_os_error(),
    }
}
