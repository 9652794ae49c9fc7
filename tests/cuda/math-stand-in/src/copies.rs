//! Copies of vectors and matrices between host and device, and names of status codes.

use crate::handles::INVALID_VALUE;
use crate::{Answer, exported, memory};
use std::ffi::{CStr, c_char, c_void};

/// `CUBLAS_STATUS_MAPPING_ERROR`.
const MAPPING_ERROR: i32 = 11;

/// A copy of columns.
#[derive(Clone, Copy)]
struct Columns {
    rows: i32,
    columns: i32,
    bytes: i32,
    from_leading: i32,
    to_leading: i32,
}

impl Columns {
    /// Returns rows, columns and both leading dimensions in bytes.
    fn sizes(self) -> Answer<[usize; 4]> {
        if self.bytes <= 0 || self.from_leading <= 0 || self.to_leading <= 0 {
            return Err(INVALID_VALUE);
        }
        if self.rows == 1 && self.columns < 0 {
            // The length of a vector is not checked; the copy of so many bytes fails.
            return Err(MAPPING_ERROR);
        }
        if self.rows < 0 || self.columns < 0 {
            return Err(INVALID_VALUE);
        }
        if self.rows > self.from_leading.min(self.to_leading) && self.columns > 1 {
            return Err(MAPPING_ERROR);
        }
        let bytes = self.bytes as usize;
        Ok([
            self.rows as usize * bytes,
            self.columns as usize,
            self.from_leading as usize * bytes,
            self.to_leading as usize * bytes,
        ])
    }

    fn to_device(self, from: *const c_void, to: u64, stream: *mut c_void) -> Answer {
        let [bytes, columns, from_step, to_step] = self.sizes()?;
        wait(stream)?;
        for column in 0..columns {
            // SAFETY: the caller of the exported function guarantees that the columns are readable.
            let part = unsafe { std::slice::from_raw_parts(from.cast::<u8>().add(column * from_step), bytes) };
            memory::write(to + (column * to_step) as u64, part).map_err(|_| MAPPING_ERROR)?;
        }
        Ok(())
    }

    fn to_host(self, from: u64, to: *mut c_void, stream: *mut c_void) -> Answer {
        let [bytes, columns, from_step, to_step] = self.sizes()?;
        wait(stream)?;
        for column in 0..columns {
            let part = memory::read::<u8>(from + (column * from_step) as u64, bytes, 0).map_err(|_| MAPPING_ERROR)?;
            memory::put(to.cast::<u8>().wrapping_add(column * to_step), &part);
        }
        Ok(())
    }
}

/// Waits for a stream.
fn wait(stream: *mut c_void) -> Answer {
    memory::read::<u8>(0, 0, stream.expose_provenance() as u64).map(drop)
}

/// Returns the copy of a vector: each element is a column.
fn vector(count: i32, bytes: i32, from_leading: i32, to_leading: i32) -> Columns {
    Columns {
        rows: 1,
        columns: count,
        bytes,
        from_leading,
        to_leading,
    }
}

const NONE: *mut c_void = std::ptr::null_mut();

exported! {
    cublasSetVector(n: i32, bytes: i32, x: *const c_void, incx: i32, y: u64, incy: i32) =>
        vector(n, bytes, incx, incy).to_device(x, y, NONE);
    cublasGetVector(n: i32, bytes: i32, x: u64, incx: i32, y: *mut c_void, incy: i32) =>
        vector(n, bytes, incx, incy).to_host(x, y, NONE);
    cublasSetVectorAsync(n: i32, bytes: i32, x: *const c_void, incx: i32, y: u64, incy: i32, stream: *mut c_void) =>
        vector(n, bytes, incx, incy).to_device(x, y, stream);
    cublasGetVectorAsync(n: i32, bytes: i32, x: u64, incx: i32, y: *mut c_void, incy: i32, stream: *mut c_void) =>
        vector(n, bytes, incx, incy).to_host(x, y, stream);
    cublasSetMatrix(rows: i32, columns: i32, bytes: i32, a: *const c_void, lda: i32, b: u64, ldb: i32) =>
        Columns { rows, columns, bytes, from_leading: lda, to_leading: ldb }.to_device(a, b, NONE);
    cublasGetMatrix(rows: i32, columns: i32, bytes: i32, a: u64, lda: i32, b: *mut c_void, ldb: i32) =>
        Columns { rows, columns, bytes, from_leading: lda, to_leading: ldb }.to_host(a, b, NONE);
    cublasSetMatrixAsync(rows: i32, columns: i32, bytes: i32, a: *const c_void, lda: i32, b: u64, ldb: i32, stream: *mut c_void) =>
        Columns { rows, columns, bytes, from_leading: lda, to_leading: ldb }.to_device(a, b, stream);
    cublasGetMatrixAsync(rows: i32, columns: i32, bytes: i32, a: u64, lda: i32, b: *mut c_void, ldb: i32, stream: *mut c_void) =>
        Columns { rows, columns, bytes, from_leading: lda, to_leading: ldb }.to_host(a, b, stream);
}

fn name(status: i32) -> &'static CStr {
    match status {
        0 => c"CUBLAS_STATUS_SUCCESS",
        1 => c"CUBLAS_STATUS_NOT_INITIALIZED",
        7 => c"CUBLAS_STATUS_INVALID_VALUE",
        13 => c"CUBLAS_STATUS_EXECUTION_FAILED",
        15 => c"CUBLAS_STATUS_NOT_SUPPORTED",
        _ => c"another status",
    }
}

/// The library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusName(status: i32) -> *const c_char {
    name(status).as_ptr()
}

/// The library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusString(status: i32) -> *const c_char {
    name(status).as_ptr()
}
