//! Copies of vectors and matrices between the program's memory and the device: copies of the driver, without the worker's
//! cuBLAS.

use super::INVALID_VALUE;
use crate::{CallResult, opening};
use cuda_driver::{Copy2d, CuDevicePtr, CuStream};
use remote_calls::library::NvidiaLibrary;
use std::ffi::c_void;

/// `CUBLAS_STATUS_MAPPING_ERROR`: the driver refuses the copy.
const MAPPING_ERROR: i32 = 11;
/// `CU_MEMORYTYPE_HOST`.
const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
const DEVICE: u32 = 2;

/// Direction of a copy, with the first byte of both sides.
#[derive(Clone, Copy, Debug)]
pub enum CopyDirection {
    /// From the program to the device.
    ToDevice(*const c_void, CuDevicePtr),
    /// From the device to the program.
    ToHost(CuDevicePtr, *mut c_void),
}

/// A copy of rows of elements: the columns of a matrix, or the elements of a vector.
#[derive(Clone, Copy, Debug)]
pub struct HostCopy {
    /// Elements of a row.
    pub elements: i32,
    /// Number of rows.
    pub rows: i32,
    /// Size of an element, bytes.
    pub element_bytes: i32,
    /// Distance of two rows of the source, elements.
    pub source_step: i32,
    /// Distance of two rows of the target, elements.
    pub target_step: i32,
}

impl HostCopy {
    /// Returns the copy of a vector: each element is a row.
    #[must_use]
    pub const fn vector(count: i32, element_bytes: i32, source_step: i32, target_step: i32) -> Self {
        Self {
            elements: 1,
            rows: count,
            element_bytes,
            source_step,
            target_step,
        }
    }
}

/// Makes a copy; without a stream, it waits as `cudaMemcpy` does.
///
/// # Errors
/// `CUBLAS_STATUS_INVALID_VALUE` for sizes that are negative or zero, `CUBLAS_STATUS_MAPPING_ERROR` if the driver refuses
/// the copy.
pub fn copy(copy: HostCopy, direction: CopyDirection, stream: Option<CuStream>) -> CallResult {
    let number = |value: i32| usize::try_from(value).map_err(|_| INVALID_VALUE);
    let positive = |value: i32| number(value).and_then(|value| if value > 0 { Ok(value) } else { Err(INVALID_VALUE) });
    let element_bytes = positive(copy.element_bytes)?;
    let (source_step, target_step) = (positive(copy.source_step)?, positive(copy.target_step)?);
    // NVIDIA's library 13 does not check the length of a vector; the copy of so many bytes fails.
    let is_vector = copy.elements == 1;
    let rows = number(copy.rows).map_err(|status| if is_vector { MAPPING_ERROR } else { status })?;
    let elements = number(copy.elements)?;
    if elements == 0 || rows == 0 {
        return Ok(());
    }
    let driver = opening::driver_of(NvidiaLibrary::Cublas)?;
    let width = elements * element_bytes;
    let is_contiguous = rows == 1 || source_step == elements && target_step == elements;
    let copied = match (is_contiguous, direction) {
        (true, CopyDirection::ToDevice(from, to)) => driver.copy_to_device(to, from, width * rows, stream),
        (true, CopyDirection::ToHost(from, to)) => driver.copy_to_host(to, from, width * rows, stream),
        (false, _) => {
            let (source_host, source_device, to_host, to_device, source_kind, to_kind) = match direction {
                CopyDirection::ToDevice(from, to) => (from, 0, std::ptr::null_mut(), to, HOST, DEVICE),
                CopyDirection::ToHost(from, to) => (std::ptr::null(), from, to, 0, DEVICE, HOST),
            };
            let rows = Copy2d {
                source_x: 0,
                source_y: 0,
                source_kind,
                source_host,
                source_device,
                source_array: std::ptr::null_mut(),
                source_pitch: source_step * element_bytes,
                to_x: 0,
                to_y: 0,
                to_kind,
                to_host,
                to_device,
                to_array: std::ptr::null_mut(),
                to_pitch: target_step * element_bytes,
                width,
                height: rows,
            };
            driver.copy_rows(&rows, stream)
        }
    };
    copied.map_err(|_| MAPPING_ERROR)
}
