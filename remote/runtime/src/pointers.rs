//! Accesses through a program's pointers.
//!
//! Every exported function is `unsafe`. Its caller guarantees what the runtime's manual requires: result pointers are
//! writable, argument pointers are readable, and strings end in a zero. The functions here rely on that, so that the
//! implementations of the exported functions need no `unsafe`. No function here follows a null pointer.
#![allow(unsafe_code, reason = "the runtime reads and writes memory of the program")]

use crate::CallResult;
use crate::errors::INVALID_VALUE;
use std::ffi::{CStr, CString, c_char, c_void};

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

/// Returns a copy of a text argument.
pub fn text(from: *const c_char) -> CallResult<CString> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that strings end in a zero.
    Ok(unsafe { CStr::from_ptr(from) }.to_owned())
}

/// Copies bytes to a result buffer of the program, which is at least as long.
pub fn put_bytes(to: *mut c_void, bytes: &[u8]) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the exported function guarantees that the buffer has this many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), bytes.len()) };
    Ok(())
}

/// Returns the pointer of a device address, as the runtime's functions pass it.
pub fn pointer_of(address: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}

/// Returns the device address of a runtime's pointer.
pub fn address_of(pointer: *const c_void) -> u64 {
    pointer.expose_provenance() as u64
}
