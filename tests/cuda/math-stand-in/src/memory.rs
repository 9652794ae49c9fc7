//! Memory: of the device, through the process's driver, and of the host, through pointers of the program.

use crate::Answer;
use crate::numbers::Plain;
use cuda_driver::{CuStream, Driver};
use libloading::Library;
use std::ffi::c_void;
use std::sync::OnceLock;

/// `CUBLAS_STATUS_EXECUTION_FAILED`.
pub const EXECUTION_FAILED: i32 = 13;

/// Maximum size of an array, bytes. A larger one is in no memory of the stand-in for the driver.
const MAX_ARRAY_BYTES: usize = 1 << 30;

/// Returns the driver of the process.
fn driver() -> Answer<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    let loaded = DRIVER.get_or_init(|| {
        // SAFETY: loading a driver runs its initialisers, as every program that uses the device does.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        let find = |name: &'static str| {
            // SAFETY: only the address is taken here.
            let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            // SAFETY: as above.
            symbol.ok().map(|symbol| unsafe { symbol.into_raw() }.as_raw_ptr())
        };
        // SAFETY: a library of this name has the driver's functions.
        let driver = unsafe { Driver::from_symbols(find) };
        std::mem::forget(library);
        Some(driver)
    });
    loaded.as_ref().ok_or(1)
}

/// Returns whether the calling thread can use a device.
pub fn check_device() -> Answer {
    let mut context = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the result.
    let current = unsafe { driver()?.cuCtxGetCurrent(&raw mut context) };
    (current.is_ok() && !context.is_null()).then_some(()).ok_or(1)
}

/// Reads numbers of the device, after the stream's work.
pub fn read<T: Plain>(at: u64, count: usize, stream: u64) -> Answer<Vec<T>> {
    if count > MAX_ARRAY_BYTES / size_of::<T>() {
        return Err(EXECUTION_FAILED);
    }
    let mut numbers = vec![T::default(); count];
    let driver = driver()?;
    let stream: CuStream = std::ptr::with_exposed_provenance_mut(stream as usize);
    // SAFETY: the buffer has this size, and the driver checks the address.
    let copied = unsafe {
        driver
            .cuStreamSynchronize(stream)
            .and_then(|()| driver.cuMemcpyDtoH_v2(numbers.as_mut_ptr().cast(), at, size_of_val(&*numbers)))
    };
    copied.map(|()| numbers).map_err(|_| EXECUTION_FAILED)
}

/// Writes numbers to the device.
pub fn write<T: Plain>(at: u64, numbers: &[T]) -> Answer {
    // SAFETY: the slice has this size, and the driver checks the address.
    let copied = unsafe { driver()?.cuMemcpyHtoD_v2(at, numbers.as_ptr().cast(), size_of_val(numbers)) };
    copied.map_err(|_| EXECUTION_FAILED)
}

/// Reads a number of the host. The caller has checked that the pointer is not null.
pub fn get<T: Plain>(from: *const T) -> T {
    // SAFETY: the caller of the exported function guarantees that arguments are readable.
    unsafe { from.read_unaligned() }
}

/// Writes numbers to the host. The caller has checked that the pointer is not null.
pub fn put<T: Plain>(to: *mut T, numbers: &[T]) {
    for (index, number) in numbers.iter().enumerate() {
        // SAFETY: the caller of the exported function guarantees that the array has this many numbers.
        unsafe { to.add(index).write_unaligned(*number) };
    }
}
