//! Calls that create memory pools and choose the one of a device.

use super::Call;
use crate::driver::is_ok;
use crate::recorder::Recorder;
use crate::trace::lock;
use cuda_driver::{ALLOCATION_PINNED, CuDevice, CuMemPool, CuResult, LOCATION_DEVICE, MemLocation};

/// Notes that the driver served pool memory that is not known to belong to the device alone without host access.
pub(crate) fn note_driver_pool(r: &Recorder) {
    r.trace.note_not_recorded(
        "pools",
        "the program allocates from memory pools that others may share: the recorder does not see what others write \
         there, and a replay may not find its addresses free",
    );
}

/// Handles `cuMemPoolCreate`: the driver must serve pools that other processes share, or that are not only the
/// device's.
///
/// # Safety
/// The structure is the program's, and the driver reads it as well.
pub(crate) unsafe fn create(
    r: &Recorder,
    call: Call<'_>,
    pool: *mut CuMemPool,
    properties: *const [u32; 4],
) -> CuResult {
    let result = call();
    if is_ok(result) && !pool.is_null() && !properties.is_null() {
        // SAFETY: the caller guarantees a structure that starts with these four words, and the driver's answer.
        let ([kind, shared, location, device], pool) = unsafe { (*properties, *pool) };
        let is_plain = kind == ALLOCATION_PINNED && shared == 0 && location == LOCATION_DEVICE;
        lock(&r.pools).add(pool, is_plain.then_some(device as CuDevice));
        if shared != 0 {
            r.trace.note_not_recorded(
                "shared memory",
                "the program has memory pools that other processes can share: the recorder does not see what these \
                 write",
            );
        }
    }
    result
}

/// Handles `cuDeviceSetMemPool`: `cuMemAllocAsync` takes from this pool from now on.
pub(crate) fn set_current(r: &Recorder, call: Call<'_>, device: CuDevice, pool: CuMemPool) -> CuResult {
    let result = call();
    if is_ok(result) {
        lock(&r.pools).set_current(device, pool);
    }
    result
}

/// Handles `cuMemSetMemPool`: the same for a location and a kind of memory.
///
/// # Safety
/// The location is the program's, and the driver reads it as well.
pub(crate) unsafe fn set_for_location(
    r: &Recorder,
    call: Call<'_>,
    place: *const MemLocation,
    kind: u32,
    pool: CuMemPool,
) -> CuResult {
    if place.is_null() {
        return call();
    }
    // SAFETY: guaranteed by the caller.
    let MemLocation { kind: location, id } = unsafe { *place };
    if location == LOCATION_DEVICE && kind == ALLOCATION_PINNED {
        set_current(r, call, id, pool)
    } else {
        call()
    }
}
