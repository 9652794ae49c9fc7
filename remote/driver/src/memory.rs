//! Device memory: the ranges that the program allocated, so that an address is known to be the device's.

use crate::CallResult;
use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::handle_number;
use crate::forwarded;
use crate::pointers::{bytes, put_bytes};
use crate::request::{CallMode, Request};
use crate::{host_memory, read, write};
use cuda_driver::{
    ALLOCATION_PINNED, AccessDescription, CuDevicePtr, CuMemPool, CuStream, INVALID_VALUE, LOCATION_DEVICE,
    MemLocation, NOT_SUPPORTED,
};
use remote_calls::message::{MAX_ACCESS_DESCRIPTIONS, pool_attribute_bytes};
use remote_calls::{CallId, HandleKind};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::RwLock;

/// Sizes of allocations by their first addresses, bytes.
static ALLOCATIONS: RwLock<BTreeMap<CuDevicePtr, u64>> = RwLock::new(BTreeMap::new());

/// Returns whether a range is inside one allocation of device memory.
pub fn contains(at: CuDevicePtr, count: u64) -> bool {
    let allocations = read(&ALLOCATIONS);
    let before = allocations.range(..=at).next_back();
    before.is_some_and(|(first, bytes)| {
        let offset = at - first;
        offset < *bytes && count <= *bytes - offset
    })
}

/// `cuMemAlloc`.
pub fn allocate(to: *mut CuDevicePtr, bytes: usize) -> CallResult {
    forwarded::cuMemAlloc_v2(false, to, bytes)?;
    write(&ALLOCATIONS).insert(crate::pointers::get(to)?, bytes as u64);
    Ok(())
}

/// `cuMemAllocPitch`.
pub fn allocate_pitched(
    to: *mut CuDevicePtr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> CallResult {
    forwarded::cuMemAllocPitch_v2(false, to, pitch, width, height, element)?;
    let bytes = crate::pointers::get(pitch)?.checked_mul(height).ok_or(INVALID_VALUE)?;
    write(&ALLOCATIONS).insert(crate::pointers::get(to)?, bytes as u64);
    Ok(())
}

/// `cuMemFree`.
pub fn free(at: CuDevicePtr) -> CallResult {
    if let Some(freed) = host_memory::free_managed(at) {
        return freed;
    }
    forwarded::cuMemFree_v2(false, at)?;
    write(&ALLOCATIONS).remove(&at);
    Ok(())
}

/// Allocates memory in the order of a stream by a call.
pub fn allocate_async(to: *mut CuDevicePtr, bytes: usize, allocate: impl FnOnce() -> CallResult) -> CallResult {
    allocate()?;
    write(&ALLOCATIONS).insert(crate::pointers::get(to)?, bytes as u64);
    Ok(())
}

/// `cuMemFreeAsync`.
pub fn free_async(is_per_thread: bool, at: CuDevicePtr, stream: CuStream) -> CallResult {
    let is_known = write(&ALLOCATIONS).remove(&at).is_some();
    let mode = CallMode {
        is_per_thread,
        needs_answer: !is_known,
    };
    forwarded::cuMemFreeAsync(mode, at, stream)
}

/// `cuMemSetAccess`.
pub fn set_access(at: CuDevicePtr, bytes: usize, descriptions: *const AccessDescription, count: usize) -> CallResult {
    let mut request = Request::new(CallId::set_access, false)?;
    let count = u32::try_from(count)
        .ok()
        .filter(|count| (1..=MAX_ACCESS_DESCRIPTIONS).contains(count));
    let count = count.ok_or(INVALID_VALUE)?;
    request.encoder.write(at);
    request.encoder.write(bytes);
    request.encoder.write(count);
    for index in 0..count as usize {
        let description = crate::pointers::get_at(descriptions, index)?;
        let MemLocation { kind, id } = description.location;
        request.encoder.write(kind);
        request.encoder.write(id);
        request.encoder.write(description.flags);
    }
    request.ask().map(drop)
}

/// `cuMemPoolCreate`. Pools of memory that the host reaches too are not supported: allocations of a pool lie where the
/// worker's driver puts them.
pub fn create_pool(to: *mut CuMemPool, properties: *const c_void) -> CallResult {
    let kind: u32 = crate::pointers::get(properties.cast())?;
    let location: MemLocation = crate::pointers::get(properties.wrapping_byte_add(8).cast())?;
    if kind != ALLOCATION_PINNED || location.kind != LOCATION_DEVICE {
        return Err(NOT_SUPPORTED);
    }
    forwarded::cuMemPoolCreate(false, to, properties)
}

/// `cuMemPoolSetAttribute`.
pub fn set_pool_attribute(pool: CuMemPool, attribute: u32, value: *const c_void) -> CallResult {
    let size = pool_attribute_bytes(attribute).ok_or(INVALID_VALUE)?;
    let mut word = [0; size_of::<u64>()];
    word.iter_mut()
        .zip(bytes(value, size)?)
        .for_each(|(to, from)| *to = *from);
    let mut request = Request::new(CallId::set_pool_attribute, false)?;
    request.encoder.write(handle_number(HandleKind::MemPool, pool)?);
    request.encoder.write(attribute);
    request.encoder.write(u64::from_le_bytes(word));
    request.ask().map(drop)
}

/// `cuMemPoolGetAttribute`.
pub fn get_pool_attribute(pool: CuMemPool, attribute: u32, to: *mut c_void) -> CallResult {
    let size = pool_attribute_bytes(attribute)
        .filter(|_| !to.is_null())
        .ok_or(INVALID_VALUE)?;
    let mut request = Request::new(CallId::get_pool_attribute, false)?;
    request.encoder.write(handle_number(HandleKind::MemPool, pool)?);
    request.encoder.write(attribute);
    let answer = request.ask()?;
    let value: u64 = answer.decoder().read().map_err(|_| DEVICE_UNAVAILABLE)?;
    put_bytes(to, value.to_le_bytes().get(..size).unwrap_or_default())
}
