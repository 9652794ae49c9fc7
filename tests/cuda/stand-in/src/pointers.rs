//! The pointers that a program hands to the driver: the one place where they are followed.
//!
//! Every exported function is `unsafe`, and its caller promises what the driver's manual asks for: a pointer to a result
//! may be written, one to an argument read, a text ends with a zero. What is here relies on that promise, so that the
//! functions behind the exported ones need no `unsafe` of their own. A null pointer is never followed.

use crate::Answer;
use crate::codes::INVALID_VALUE;
use std::ffi::{CStr, CString, c_char, c_void};

/// Writes a result that the caller has to want.
pub fn give<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function promises that results may be written.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes a result where the caller wants it.
pub fn give_if_wanted<T>(to: *mut T, value: T) {
    // Nobody wanted it: that is no error.
    let _ = give(to, value);
}

/// Reads an argument.
pub fn get<T: Copy>(from: *const T) -> Answer<T> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function promises that arguments may be read.
    Ok(unsafe { from.read_unaligned() })
}

/// Reads an argument that is one of several in a row.
pub fn get_at<T: Copy>(from: *const T, index: usize) -> Answer<T> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    get(from.wrapping_add(index))
}

/// Bytes of an argument.
pub fn bytes(from: *const c_void, count: usize) -> Answer<Vec<u8>> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function promises that so many bytes may be read.
    Ok(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), count) }.to_vec())
}

/// A text.
pub fn text(from: *const c_char) -> Answer<CString> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function promises that texts end with a zero.
    Ok(unsafe { CStr::from_ptr(from) }.to_owned())
}

/// Writes a list into `room` places: what is too long is cut, places that are left become `rest`.
pub fn give_list<T: Copy>(to: *mut T, list: &[T], room: usize, rest: T) -> Answer {
    for place in 0..room {
        give(to.wrapping_add(place), list.get(place).copied().unwrap_or(rest))?;
    }
    Ok(())
}
