//! Pools for allocations in a stream's order: the device's own, and those that a program creates.

use super::allocation::POOL;
use super::table::Kind;
use crate::call::Call;
use crate::codes::{INVALID_HANDLE, NOT_SUPPORTED};
use crate::handles::{Handles, pointer};
use crate::pointers::{get, give};
use crate::{Answer, device, lock};
use cuda_driver::{ALLOCATION_PINNED, CuDevice, CuMemPool, LOCATION_DEVICE};
use std::ffi::c_void;
use std::sync::Mutex;

/// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const MANAGED: u32 = 2;

struct Pool {
    handle: usize,
    kind: Kind,
}

static POOLS: Handles<Pool> = Handles::new(13);
/// The pool that `cuMemAllocAsync` takes from.
static CURRENT: Mutex<usize> = Mutex::new(POOL);

/// Returns the kind of a pool's memory; `None` for the current pool.
pub fn kind_of(pool: Option<CuMemPool>) -> Answer<Kind> {
    match pool.map_or_else(|| *lock(&CURRENT), |pool| pool as usize) {
        POOL => Ok(Kind::Pool),
        other => Ok(POOLS.get(pointer(other))?.kind),
    }
}

/// Creates a pool. Its structure starts with the kind of memory, kinds of handles, and the location. Nothing is shared
/// here.
pub fn cuMemPoolCreate(call: &Call, to: *mut CuMemPool, properties: *const c_void) -> Answer {
    call.context()?;
    let [kind, shared, location, id]: [u32; 4] = get(properties.cast())?;
    let kind = match kind {
        ALLOCATION_PINNED if shared == 0 && location == LOCATION_DEVICE && id == 0 => Kind::Pool,
        MANAGED if shared == 0 => Kind::Managed,
        _ => return Err(NOT_SUPPORTED),
    };
    let pool = POOLS.put(|handle| Pool { handle, kind });
    give(to, pointer(pool.handle))
}

pub fn cuDeviceSetMemPool(_: &Call, device: CuDevice, pool: CuMemPool) -> Answer {
    device::check(device)?;
    kind_of(Some(pool)).map_err(|_| INVALID_HANDLE)?;
    *lock(&CURRENT) = pool as usize;
    Ok(())
}
