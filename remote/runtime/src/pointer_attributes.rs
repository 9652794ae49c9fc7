//! What an address is: `cudaPointerGetAttributes`, in the forms of both major versions.

use crate::CallResult;
use crate::contexts::bind;
use crate::pointers::{address_of, pointer_of, put};
use cuda_driver::{MEMORY_HOST, POINTER_MANAGED, POINTER_MEMORY_TYPE};
use std::ffi::c_void;

/// `CU_POINTER_ATTRIBUTE_DEVICE_POINTER`.
const DEVICE_POINTER: i32 = 3;
/// `CU_POINTER_ATTRIBUTE_HOST_POINTER`.
const HOST_POINTER: i32 = 4;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const DEVICE_ORDINAL: i32 = 9;
/// `cudaInvalidDeviceId`.
const NO_DEVICE_NUMBER: i32 = -2;

/// `cudaMemoryType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum MemoryType {
    Unregistered = 0,
    Host = 1,
    Device = 2,
    Managed = 3,
}

/// `cudaPointerAttributes` of CUDA 12.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointerAttributes12 {
    kind: MemoryType,
    device: i32,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
}

/// `cudaPointerAttributes` of CUDA 13: the same with room for more.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointerAttributes13 {
    attributes: PointerAttributes12,
    reserved: [u64; 8],
}

fn find_attributes(at: *const c_void) -> CallResult<PointerAttributes12> {
    let driver = bind()?;
    let address = address_of(at);
    let mut memory_type = 0_u32;
    if driver
        .cuPointerGetAttribute((&raw mut memory_type).cast(), POINTER_MEMORY_TYPE, address)
        .is_err()
    {
        return Ok(PointerAttributes12 {
            kind: MemoryType::Unregistered,
            device: NO_DEVICE_NUMBER,
            device_pointer: std::ptr::null_mut(),
            host_pointer: at.cast_mut(),
        });
    }
    let find_address = |attribute| {
        let mut value = 0_u64;
        match driver.cuPointerGetAttribute((&raw mut value).cast(), attribute, address) {
            Ok(()) => pointer_of(value),
            Err(_) => std::ptr::null_mut(),
        }
    };
    let (mut is_managed, mut device) = (0_u32, 0_i32);
    // Attributes that the driver does not know keep these values.
    let _ = driver.cuPointerGetAttribute((&raw mut is_managed).cast(), POINTER_MANAGED, address);
    let _ = driver.cuPointerGetAttribute((&raw mut device).cast(), DEVICE_ORDINAL, address);
    let kind = match (is_managed, memory_type) {
        (0, MEMORY_HOST) => MemoryType::Host,
        (0, _) => MemoryType::Device,
        _ => MemoryType::Managed,
    };
    let host_pointer = match kind {
        MemoryType::Device => std::ptr::null_mut(),
        MemoryType::Managed => at.cast_mut(),
        MemoryType::Host | MemoryType::Unregistered => find_address(HOST_POINTER),
    };
    Ok(PointerAttributes12 {
        kind,
        device,
        device_pointer: find_address(DEVICE_POINTER),
        host_pointer,
    })
}

/// `cudaPointerGetAttributes` of CUDA 12.
pub fn write_attributes_12(to: *mut PointerAttributes12, at: *const c_void) -> CallResult {
    put(to, find_attributes(at)?)
}

/// `cudaPointerGetAttributes` of CUDA 13.
pub fn write_attributes_13(to: *mut PointerAttributes13, at: *const c_void) -> CallResult {
    put(
        to,
        PointerAttributes13 {
            attributes: find_attributes(at)?,
            reserved: [0; 8],
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_attributes_have_the_sizes_of_the_headers() {
        assert_eq!(size_of::<PointerAttributes12>(), 24);
        assert_eq!(size_of::<PointerAttributes13>(), 88);
    }
}
