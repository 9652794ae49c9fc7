//! Libraries of device code that a program loads itself. Handles of libraries and kernels are those of the driver.

use crate::CallResult;
use crate::contexts::bind;
use crate::errors::INVALID_VALUE;
use crate::pointers::{get, pointer_of, put, put_if_wanted};
use crate::registration::allow_kernel;
use cuda_driver::{CuKernel, CuLibrary};
use std::ffi::{c_char, c_void};

/// Options of a load: numbers, values, count. The runtime's numbers are those of the driver.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Numbers of the options.
    pub options: *mut i32,
    /// Their values.
    pub values: *mut *mut c_void,
    /// Number of options.
    pub count: u32,
}

/// `cudaLibraryLoadData`, with options for the compiler and for the library.
pub fn load(to: *mut CuLibrary, code: *const c_void, jit: LoadOptions, library: LoadOptions) -> CallResult {
    if to.is_null() || code.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuLibraryLoadData(
        to,
        code,
        jit.options,
        jit.values,
        jit.count,
        library.options,
        library.values,
        library.count,
    )
}

/// `cudaLibraryLoadFromFile`, with options for the compiler and for the library.
pub fn load_file(to: *mut CuLibrary, path: *const c_char, jit: LoadOptions, library: LoadOptions) -> CallResult {
    if to.is_null() || path.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuLibraryLoadFromFile(
        to,
        path,
        jit.options,
        jit.values,
        jit.count,
        library.options,
        library.values,
        library.count,
    )
}

/// `cudaLibraryUnload`.
pub fn unload(library: CuLibrary) -> CallResult {
    bind()?.cuLibraryUnload(library)
}

/// `cudaLibraryGetKernel`. Launches accept the kernel in place of a host function.
pub fn write_kernel(to: *mut CuKernel, library: CuLibrary, name: *const c_char) -> CallResult {
    let mut kernel = std::ptr::null_mut();
    bind()?.cuLibraryGetKernel(&raw mut kernel, library, name)?;
    allow_kernel(kernel);
    put(to, kernel)
}

/// `cudaLibraryGetKernelCount`.
pub fn write_kernel_count(to: *mut u32, library: CuLibrary) -> CallResult {
    bind()?.cuLibraryGetKernelCount(to, library)
}

/// `cudaLibraryEnumerateKernels`. Launches accept the kernels in place of host functions.
pub fn write_kernels(to: *mut CuKernel, count: u32, library: CuLibrary) -> CallResult {
    let driver = bind()?;
    let mut available = 0;
    driver.cuLibraryGetKernelCount(&raw mut available, library)?;
    let count = count.min(available);
    driver.cuLibraryEnumerateKernels(to, count, library)?;
    for index in 0..count as usize {
        allow_kernel(get(to.wrapping_add(index))?);
    }
    Ok(())
}

/// `cudaLibraryGetGlobal`.
pub fn write_variable(to: *mut *mut c_void, bytes: *mut usize, library: CuLibrary, name: *const c_char) -> CallResult {
    let (mut address, mut size) = (0, 0);
    bind()?.cuLibraryGetGlobal(&raw mut address, &raw mut size, library, name)?;
    put_if_wanted(to, pointer_of(address));
    put_if_wanted(bytes, size);
    Ok(())
}
