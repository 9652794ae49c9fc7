//! Calls with which a program maps memory itself: it reserves addresses, creates memory and maps it there.

use super::{Call, unsupported};
use crate::contexts::current_context_and_device;
use crate::driver::is_ok;
use crate::memory::NewMapping;
use crate::recorder::Recorder;
use crate::trace::lock;
use cuda_driver::{
    ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevicePtr, CuMemHandle, CuResult, INVALID_VALUE,
    LOCATION_DEVICE, SUCCESS,
};
use cuda_session::{GRANULE, Relation};
use trace_core::GpuVa;
use trace_core::recording::{AllocationKind, OrderRow};

/// Handles `cuMemCreate`.
///
/// # Safety
/// The structure is the program's, and the driver reads it as well.
pub(crate) unsafe fn create(
    r: &Recorder,
    call: Call<'_>,
    handle: *mut CuMemHandle,
    _bytes: usize,
    properties: *const AllocationProperties,
) -> CuResult {
    let result = call();
    if is_ok(result) && !handle.is_null() && !properties.is_null() {
        // SAFETY: guaranteed by the caller, with the driver's answer.
        let (handle, kind, location) = unsafe { (*handle, (*properties).kind, (*properties).location) };
        let is_device = kind == ALLOCATION_PINNED && location.kind == LOCATION_DEVICE;
        lock(&r.memory).add_physical(handle, is_device.then_some(location.id));
    }
    result
}

/// Handles `cuMemImportFromShareableHandle`.
///
/// # Safety
/// The pointer is the program's, for the driver's answer.
pub(crate) unsafe fn import(r: &Recorder, call: Call<'_>, handle: *mut CuMemHandle) -> CuResult {
    let result = unsupported::forward(r, call, unsupported::IMPORTED);
    if is_ok(result) && !handle.is_null() {
        // SAFETY: the driver has written the answer.
        let handle = unsafe { *handle };
        lock(&r.memory).add_physical(handle, None);
    }
    result
}

/// Handles `cuMemRelease`: the memory stays as long as it is mapped. A reused handle is noted again.
pub(crate) fn release(_r: &Recorder, call: Call<'_>, _handle: CuMemHandle) -> CuResult {
    call()
}

/// Handles `cuMemAddressReserve`.
///
/// # Safety
/// The pointer is the program's.
pub(crate) unsafe fn reserve(
    r: &Recorder,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    alignment: usize,
    hint: CuDevicePtr,
    flags: u64,
) -> CuResult {
    r.trace.record_device();
    let alignment = alignment as u64;
    let plain = hint == 0 && flags == 0 && alignment <= GRANULE && (alignment == 0 || alignment.is_power_of_two());
    let whole = bytes > 0 && (bytes as u64).is_multiple_of(GRANULE);
    if at.is_null() || !plain || !whole {
        return call();
    }
    match lock(&r.memory).reserve_addresses(&r.trace, bytes as u64) {
        Some(address) => {
            // SAFETY: the program's pointer for the answer is not null.
            unsafe { *at = address.get() };
            SUCCESS
        }
        None => call(),
    }
}

/// Handles `cuMemAddressFree`.
pub(crate) fn free(r: &Recorder, call: Call<'_>, at: CuDevicePtr, bytes: usize) -> CuResult {
    let freed = lock(&r.memory).free_addresses(GpuVa::new(at), bytes as u64);
    match freed {
        Some(true) => SUCCESS,
        Some(false) => INVALID_VALUE,
        None => call(),
    }
}

/// Handles `cuMemMap`.
pub(crate) fn map(
    r: &Recorder,
    call: Call<'_>,
    at: CuDevicePtr,
    bytes: usize,
    offset: usize,
    handle: CuMemHandle,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    let (at, bytes) = (GpuVa::new(at), bytes as u64);
    if !is_ok(result) {
        r.trace
            .record_allocation(begun, AllocationKind::Map, at, bytes, OrderRow::NONE, result);
        return result;
    }
    let mapping = lock(&r.memory).map(at, bytes, offset, handle);
    let NewMapping::Own(_, relation) = mapping else {
        let (what, why) = unsupported::MAPPED_ELSEWHERE;
        r.trace.note_not_recorded(what, why);
        return result;
    };
    r.trace
        .record_allocation(begun, AllocationKind::Map, at, bytes, OrderRow::NONE, result);
    match relation {
        Relation::Separate => {}
        Relation::SameAs(place) => {
            let begun = r.trace.session.start_call();
            r.trace
                .record_call(begun, "cuMemMap", None, &[at.get(), bytes, place.get()], result);
        }
        Relation::Ambiguous => {
            let (what, why) = unsupported::REMAPPED;
            r.trace.note_not_recorded(what, why);
        }
    }
    result
}

/// Handles `cuMemUnmap`, which unmaps all mappings in a range.
pub(crate) fn unmap(r: &Recorder, call: Call<'_>, at: CuDevicePtr, bytes: usize) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if !is_ok(result) {
        return result;
    }
    // The driver waits for the work that uses them.
    let gone = lock(&r.memory).unmap(GpuVa::new(at), bytes as u64);
    for (first, length) in gone {
        r.trace
            .record_allocation(begun, AllocationKind::Unmap, first, length, OrderRow::NONE, result);
    }
    result
}

/// Handles `cuMemSetAccess`: from then on the device can access the mappings.
///
/// # Safety
/// There are as many structures as the program says, and the driver reads them as well.
pub(crate) unsafe fn set_access(
    r: &Recorder,
    call: Call<'_>,
    at: CuDevicePtr,
    bytes: usize,
    descriptions: *const AccessDescription,
    count: usize,
) -> CuResult {
    let result = call();
    if !is_ok(result) || descriptions.is_null() {
        return result;
    }
    let mut memory = lock(&r.memory);
    let device = Some(memory.device()).filter(|d| *d >= 0);
    let device = device.or_else(|| current_context_and_device().map(|(_, device)| device));
    for n in 0..count {
        // SAFETY: guaranteed by the caller.
        let description = unsafe { *descriptions.add(n) };
        let is_own = device.is_none_or(|device| description.location.id == device);
        if description.location.kind == LOCATION_DEVICE && is_own {
            memory.allow_mapped(GpuVa::new(at), bytes as u64, description.flags != 0);
        }
    }
    result
}
