//! Accesses through a program's pointers.
//!
//! Every exported function is `unsafe`. Its caller guarantees what NVIDIA's manuals require: result pointers are
//! writable, and scalars are readable. The functions here rely on that, so that the implementations of the exported
//! functions need no `unsafe`. No function here follows a null pointer.
#![allow(unsafe_code, reason = "pointers of a C program")]

use remote_calls::library::MAX_SCALAR_BYTES;
use std::ffi::c_void;

/// Writes a result. Returns `false` for a null pointer.
pub fn put<T>(to: *mut T, value: T) -> bool {
    if to.is_null() {
        return false;
    }
    // SAFETY: the caller of the exported function guarantees that results are writable.
    unsafe { to.write_unaligned(value) };
    true
}

/// Reads a scalar. Returns `None` for a null pointer.
pub fn get<T: Copy>(from: *const T) -> Option<T> {
    // SAFETY: the caller of the exported function guarantees that scalars are readable.
    (!from.is_null()).then(|| unsafe { from.read_unaligned() })
}

/// Reads the bytes of a scalar. Returns `None` for a null pointer, or a size that no scalar has.
pub fn get_bytes(from: *const c_void, bytes: usize) -> Option<Vec<u8>> {
    if from.is_null() || bytes > MAX_SCALAR_BYTES {
        return None;
    }
    // SAFETY: the caller of the exported function guarantees that the scalar, of this size, is readable.
    Some(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec())
}

/// Writes bytes at an offset of a result array. Returns `false` for a null pointer.
pub fn put_bytes(to: *mut c_void, offset: usize, bytes: &[u8]) -> bool {
    if to.is_null() {
        return false;
    }
    // SAFETY: the caller of the exported function guarantees that the array has the bytes, and they are no memory of this
    // library.
    unsafe {
        let to = to.cast::<u8>().add(offset);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
    true
}
