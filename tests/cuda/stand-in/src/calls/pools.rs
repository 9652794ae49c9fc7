//! Calls on memory pools: the device's own, and those that a program creates.

use crate::call::Call;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use crate::handles::{Handles, pointer};
use crate::memory::table::Kind;
use crate::pointers::{get, give};
use crate::{Answer, device, lock};
use cuda_driver::{ALLOCATION_PINNED, CuDevice, CuMemPool, LOCATION_DEVICE};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// The pool that `cuMemAllocAsync` takes from.
const POOL: usize = 0x5100_ffff_0040;
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const MANAGED: u32 = 2;

/// Attributes that a program sets, by their numbers.
type Attributes = Mutex<BTreeMap<u32, u64>>;

struct Pool {
    handle: usize,
    kind: Kind,
    attributes: Attributes,
}

static POOLS: Handles<Pool> = Handles::new(13);
/// The pool that `cuMemAllocAsync` takes from.
static CURRENT: Mutex<usize> = Mutex::new(POOL);
/// Attributes of the device's own pool.
static OWN_ATTRIBUTES: Attributes = Mutex::new(BTreeMap::new());

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
    let pool = POOLS.put(|handle| Pool {
        handle,
        kind,
        attributes: Mutex::default(),
    });
    give(to, pointer(pool.handle))
}

/// Destroys a pool. Memory of it stays until it is freed. The device's own pool cannot be destroyed.
pub fn cuMemPoolDestroy(_: &Call, pool: CuMemPool) -> Answer {
    if pool as usize == POOL || pool.is_null() {
        return Err(INVALID_VALUE);
    }
    POOLS.take(pool).map(drop)?;
    let mut current = lock(&CURRENT);
    if *current == pool as usize {
        *current = POOL;
    }
    Ok(())
}

/// Freed memory of a pool is not kept here.
pub fn cuMemPoolTrimTo(_: &Call, pool: CuMemPool, _bytes: usize) -> Answer {
    find_attributes(pool).map(drop)
}

/// Returns a pool that a program created, or `None` for the device's own.
fn find_attributes(pool: CuMemPool) -> Answer<Option<Arc<Pool>>> {
    match pool as usize {
        0 => Err(INVALID_VALUE),
        POOL => Ok(None),
        _ => POOLS.get(pool).map(Some),
    }
}

fn with_attributes<T>(pool: CuMemPool, work: impl FnOnce(&mut BTreeMap<u32, u64>) -> T) -> Answer<T> {
    let own = find_attributes(pool)?;
    let attributes = own.as_ref().map_or(&OWN_ATTRIBUTES, |pool| &pool.attributes);
    Ok(work(&mut lock(attributes)))
}

/// Sets an attribute: a number of 32 bits for reuse, or a number of bytes.
pub fn cuMemPoolSetAttribute(_: &Call, pool: CuMemPool, attribute: u32, value: *mut c_void) -> Answer {
    let value = match attribute {
        1..=3 => get(value.cast_const().cast::<u32>())?.into(),
        4 | 6 | 8 => get(value.cast_const().cast::<u64>())?,
        _ => return Err(INVALID_VALUE),
    };
    with_attributes(pool, |attributes| attributes.insert(attribute, value)).map(drop)
}

pub fn cuMemPoolGetAttribute(_: &Call, pool: CuMemPool, attribute: u32, to: *mut c_void) -> Answer {
    let value = with_attributes(pool, |attributes| attributes.get(&attribute).copied())?;
    match attribute {
        1..=3 => give(to.cast::<u32>(), value.unwrap_or(1) as u32),
        4..=8 => give(to.cast::<u64>(), value.unwrap_or(0)),
        _ => Err(INVALID_VALUE),
    }
}

pub fn cuDeviceSetMemPool(_: &Call, device: CuDevice, pool: CuMemPool) -> Answer {
    device::check(device)?;
    kind_of(Some(pool)).map_err(|_| INVALID_HANDLE)?;
    *lock(&CURRENT) = pool as usize;
    Ok(())
}

pub fn cuDeviceGetMemPool(_: &Call, to: *mut CuMemPool, device: CuDevice) -> Answer {
    device::check(device)?;
    give(to, pointer(*lock(&CURRENT)))
}

pub fn cuDeviceGetDefaultMemPool(_: &Call, to: *mut CuMemPool, device: CuDevice) -> Answer {
    device::check(device)?;
    give(to, pointer(POOL))
}
