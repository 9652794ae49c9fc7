//! Accesses through a program's pointers: the only module that follows them.
//!
//! Every exported function is `unsafe`, and its caller guarantees what the driver's manual requires: a result pointer
//! is writable, an argument pointer is readable, a string ends in a zero. The functions here rely on that, so that the
//! functions behind the exported ones need no `unsafe` of their own. A null pointer is never followed.

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
    // An unwanted result is not an error.
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

/// Writes a list into `room` elements: a longer list is truncated, unused elements become `rest`.
pub fn give_list<T: Copy>(to: *mut T, list: &[T], room: usize, rest: T) -> Answer {
    for place in 0..room {
        give(to.wrapping_add(place), list.get(place).copied().unwrap_or(rest))?;
    }
    Ok(())
}
