//! Accesses through a program's pointers.
//!
//! Every exported function is `unsafe`. Its caller guarantees what the driver's manual requires: result pointers are
//! writable, argument pointers are readable, and strings end in a zero. The functions here rely on that, so that the
//! implementations of the exported functions need no `unsafe`. No function here follows a null pointer.

use crate::CallResult;
use cuda_driver::INVALID_VALUE;
use std::ffi::{CStr, c_char, c_void};

/// Writes a required result.
pub fn put<T>(to: *mut T, value: T) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that results are writable.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes a result that the program may not want.
pub fn put_if_wanted<T>(to: *mut T, value: T) {
    // A null pointer is not an error here.
    let _ = put(to, value);
}

/// Reads an argument.
pub fn get<T: Copy>(from: *const T) -> CallResult<T> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that arguments are readable.
    Ok(unsafe { from.read_unaligned() })
}

/// Reads an element of an argument array.
pub fn get_at<T: Copy>(from: *const T, index: usize) -> CallResult<T> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    get(from.wrapping_add(index))
}

/// Returns an argument's bytes. They are valid during the call.
pub fn bytes<'a>(from: *const c_void, count: usize) -> CallResult<&'a [u8]> {
    if count == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that this many bytes are readable during the call.
    Ok(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), count) })
}

/// Returns a text argument. It is valid during the call.
pub fn text<'a>(from: *const c_char) -> CallResult<&'a CStr> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that strings end in a zero.
    Ok(unsafe { CStr::from_ptr(from) })
}

/// Copies bytes to a result buffer of the program.
pub fn put_bytes(to: *mut c_void, bytes: &[u8]) -> CallResult {
    if bytes.is_empty() {
        return Ok(());
    }
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that the buffer has this many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), bytes.len()) };
    Ok(())
}

/// Returns a result buffer of the program, to be filled during the call.
pub fn result_bytes<'a>(to: *mut c_void, count: usize) -> CallResult<&'a mut [u8]> {
    if count == 0 {
        return Ok(&mut []);
    }
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that the buffer has this many bytes, and that nothing else
    // uses it during the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), count) })
}
