//! Names and descriptions of cuBLAS's status codes.

use std::ffi::{CStr, c_char};

/// Status, its name, and what it means.
const TEXTS: [(i32, &CStr, &CStr); 10] = [
    (0, c"CUBLAS_STATUS_SUCCESS", c"the call succeeded"),
    (
        1,
        c"CUBLAS_STATUS_NOT_INITIALIZED",
        c"the handle or the library is not initialized",
    ),
    (3, c"CUBLAS_STATUS_ALLOC_FAILED", c"an allocation failed"),
    (7, c"CUBLAS_STATUS_INVALID_VALUE", c"an argument is invalid"),
    (
        8,
        c"CUBLAS_STATUS_ARCH_MISMATCH",
        c"the device lacks a feature that the call needs",
    ),
    (11, c"CUBLAS_STATUS_MAPPING_ERROR", c"an access to device memory failed"),
    (
        13,
        c"CUBLAS_STATUS_EXECUTION_FAILED",
        c"the work could not run on the device",
    ),
    (
        14,
        c"CUBLAS_STATUS_INTERNAL_ERROR",
        c"an operation inside the library failed",
    ),
    (15, c"CUBLAS_STATUS_NOT_SUPPORTED", c"the call is not supported"),
    (
        16,
        c"CUBLAS_STATUS_LICENSE_ERROR",
        c"the license does not allow the call",
    ),
];

fn find(status: i32) -> Option<&'static (i32, &'static CStr, &'static CStr)> {
    TEXTS.iter().find(|(code, ..)| *code == status)
}

/// `cublasGetStatusName`.
#[must_use]
pub fn status_name(status: i32) -> *const c_char {
    find(status)
        .map_or(c"unknown cuBLAS status", |(_, name, _)| name)
        .as_ptr()
}

/// `cublasGetStatusString`.
#[must_use]
pub fn status_text(status: i32) -> *const c_char {
    find(status)
        .map_or(c"unknown cuBLAS status", |(.., text)| text)
        .as_ptr()
}
