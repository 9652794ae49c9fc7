//! What a program tells of its own accord: the names of its buffers.

use super::ReentryGuard;
use crate::process;
use libc::{c_char, c_int, c_void, size_t};
use panfrost_node::{BufferName, Errno};
use std::ffi::CStr;

/// Names the bytes at an address, which lie in a mapped buffer object: a buffer of this name is in the recording.
/// `role` is 0 for an input, 1 for an output, 2 for weights, 3 for neither; `element` is `f32` or another type's name;
/// `shape` has the length of each dimension, the slowest first: `8x8`. Both may be null. Gives 0, or an error number:
/// `EFAULT` when the address is in no buffer object, `EINVAL` when something else is not as said here.
///
/// # Safety
/// The texts are null or end in zero.
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
        // SAFETY: not null, and of the caller a text that ends in zero.
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
