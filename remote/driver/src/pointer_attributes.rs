//! Attributes of addresses. The worker's driver knows device memory and the window; other memory is only here.

use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::AbiHandle as _;
use crate::host_memory::{self, HostRangeKind};
use crate::pointers::{get_at, put, put_bytes};
use crate::request::Request;
use crate::{CallResult, connection};
use cuda_driver::{CuDevicePtr, INVALID_VALUE, MEMORY_HOST, POINTER_MANAGED, POINTER_MEMORY_TYPE};
use remote_calls::message::pointer_attribute_bytes;
use remote_calls::{CallId, HandleNumber};
use std::ffi::c_void;

/// `CU_POINTER_ATTRIBUTE_CONTEXT`: a handle.
const CONTEXT: i32 = 1;
/// `CU_POINTER_ATTRIBUTE_DEVICE_POINTER`.
const DEVICE_POINTER: i32 = 3;
/// `CU_POINTER_ATTRIBUTE_HOST_POINTER`.
const HOST_POINTER: i32 = 4;
/// `CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE`: a handle.
const MEMPOOL: i32 = 17;
/// Maximum number of attributes of a call.
const MAX_ATTRIBUTES: u32 = 64;

/// `cuPointerGetAttribute`.
pub fn get(to: *mut c_void, attribute: i32, at: CuDevicePtr) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let range = host_memory::find(at);
    if let Some(range) = range {
        if attribute == POINTER_MANAGED {
            return put(to.cast::<u32>(), u32::from(range.kind == HostRangeKind::Managed));
        }
        if range.kind == HostRangeKind::Registered {
            connection::current()?;
            return match attribute {
                POINTER_MEMORY_TYPE => put(to.cast::<u32>(), MEMORY_HOST),
                HOST_POINTER => put(to.cast::<u64>(), at),
                _ => Err(INVALID_VALUE),
            };
        }
    }
    // The worker may map the window elsewhere: its driver is asked about the device's address.
    let asked = match range {
        Some(_) => {
            let mut device = 0;
            host_memory::device_pointer(&raw mut device, std::ptr::without_provenance_mut(at as usize), 0)?;
            device
        }
        None => at,
    };
    if range.is_some() && attribute == HOST_POINTER {
        return put(to.cast::<u64>(), at);
    }
    let mut request = Request::new(CallId::pointer_attribute, false)?;
    request.encoder.write(attribute);
    request.encoder.write(asked);
    let answer = request.ask()?;
    let mut decoder = answer.decoder();
    match attribute {
        CONTEXT | MEMPOOL => {
            let handle: HandleNumber = decoder.read().map_err(|_| DEVICE_UNAVAILABLE)?;
            put(to.cast::<*mut c_void>(), <*mut c_void>::from_number(handle))
        }
        DEVICE_POINTER if range.is_some() => put(to.cast::<u64>(), asked),
        _ => {
            let bytes = decoder.read_bytes().map_err(|_| DEVICE_UNAVAILABLE)?;
            match pointer_attribute_bytes(attribute) == Some(bytes.len()) {
                true => put_bytes(to, bytes),
                false => Err(DEVICE_UNAVAILABLE),
            }
        }
    }
}

/// `cuPointerGetAttributes`: attributes that an address does not have become zero.
pub fn get_all(count: u32, attributes: *mut i32, results: *mut *mut c_void, at: CuDevicePtr) -> CallResult {
    connection::current()?;
    if !(1..=MAX_ATTRIBUTES).contains(&count) {
        return Err(INVALID_VALUE);
    }
    for index in 0..count as usize {
        let (attribute, to) = (get_at(attributes, index)?, get_at(results, index)?);
        match get(to, attribute, at) {
            Err(code) if code != INVALID_VALUE => return Err(code),
            // The driver writes zero for these.
            Err(_) => {
                let zeros = [0; 16];
                let size = pointer_attribute_bytes(attribute).unwrap_or(0);
                put_bytes(to, zeros.get(..size).unwrap_or_default())?;
            }
            Ok(()) => {}
        }
    }
    Ok(())
}
