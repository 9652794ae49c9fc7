//! Accesses through a program's pointers: the only module that follows them.
//!
//! Every exported function is `unsafe`. Its caller guarantees what the driver's manual requires: result pointers are
//! writable, argument pointers are readable, and strings end in a zero. The functions here rely on that, so that the
//! implementations of the exported functions need no `unsafe`. No function here follows a null pointer.

use crate::Answer;
use crate::codes::INVALID_VALUE;
use std::ffi::{CStr, CString, c_char, c_void};

/// Writes a required result.
pub fn give<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that results are writable.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes an optional result.
pub fn give_if_wanted<T>(to: *mut T, value: T) {
    // A null pointer is not an error: the caller does not request the result.
    let _ = give(to, value);
}

/// Reads an argument.
pub fn get<T: Copy>(from: *const T) -> Answer<T> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that arguments are readable.
    Ok(unsafe { from.read_unaligned() })
}

/// Reads an element of an argument array.
pub fn get_at<T: Copy>(from: *const T, index: usize) -> Answer<T> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    get(from.wrapping_add(index))
}

/// Reads an argument's bytes.
pub fn bytes(from: *const c_void, count: usize) -> Answer<Vec<u8>> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that this many bytes are readable.
    Ok(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), count) }.to_vec())
}

/// Reads a string.
pub fn text(from: *const c_char) -> Answer<CString> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that strings end in a zero.
    Ok(unsafe { CStr::from_ptr(from) }.to_owned())
}

/// Writes a list into `room` elements. A longer list is truncated, and unused elements become `rest`.
pub fn give_list<T: Copy>(to: *mut T, list: &[T], room: usize, rest: T) -> Answer {
    for index in 0..room {
        give(to.wrapping_add(index), list.get(index).copied().unwrap_or(rest))?;
    }
    Ok(())
}
