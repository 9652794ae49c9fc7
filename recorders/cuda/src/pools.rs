//! Memory pools: which of them give plain device memory, so that the window can serve instead.

use crate::recorder::{Recorder, is_ok, lock};
use crate::resolve::driver;
use cuda_driver::{ALLOCATION_PINNED, CuDevice, CuMemPool, CuResult, LOCATION_DEVICE, MemLocation};
use std::collections::BTreeSet;

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// Known pools.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// Pools of plain device memory that is not shared with anyone.
    plain: BTreeSet<(usize, CuDevice)>,
    /// Devices whose `cuMemAllocAsync` takes from a pool that is not known to be plain.
    others: BTreeSet<CuDevice>,
}

impl Pools {
    /// Returns whether a pool gives plain memory of a device. A device's default pool does.
    fn is_plain(&mut self, pool: CuMemPool, device: CuDevice) -> bool {
        let key = (pool as usize, device);
        if self.plain.contains(&key) {
            return true;
        }
        let mut default: CuMemPool = std::ptr::null_mut();
        // SAFETY: the query has a valid pointer for the answer.
        let asked = unsafe { driver().cuDeviceGetDefaultMemPool(&raw mut default, device) };
        let is_default = asked.is_ok() && default == pool && !pool.is_null();
        if is_default {
            self.plain.insert(key);
        }
        is_default
    }
}

/// Returns whether the window can serve instead of a pool, for the calling thread's device; `None` for the device's own
/// pool.
pub(crate) fn can_serve(r: &Recorder, pool: Option<CuMemPool>) -> bool {
    let Some((_, device)) = crate::memory::current_context_and_device() else {
        return true;
    };
    let mut pools = lock(&r.pools);
    match pool {
        Some(pool) => pools.is_plain(pool, device),
        None => !pools.others.contains(&device),
    }
}

/// Notes that the driver served pool memory that is not known to belong to the device alone without host access.
pub(crate) fn note_driver_pool(r: &Recorder) {
    r.note_not_recorded(
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
        let mut pools = lock(&r.pools);
        // The handle can be a reused one of another pool.
        pools.plain.retain(|(known, _)| *known != pool as usize);
        if kind == ALLOCATION_PINNED && shared == 0 && location == LOCATION_DEVICE {
            pools.plain.insert((pool as usize, device as CuDevice));
        }
        drop(pools);
        if shared != 0 {
            r.note_not_recorded(
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
        let mut pools = lock(&r.pools);
        if pools.is_plain(pool, device) {
            pools.others.remove(&device);
        } else {
            pools.others.insert(device);
        }
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
