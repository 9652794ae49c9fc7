//! Calls that allocate and free device memory, immediately or in a stream's order; and pools for the latter: the device's
//! own, and those that a program creates.

use crate::call::Call;
use crate::capture::{refuse_capturing, refuse_unsafe};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY};
use crate::context::find_stream_anywhere;
use crate::handles::{Handles, pointer};
use crate::memory::allocation::{give_back, take};
use crate::memory::table::{Kind, Range, find, ranges_mut};
use crate::pointers::{get, give};
use crate::{Answer, device, lock};
use cuda_driver::{ALLOCATION_PINNED, CuDevice, CuDevicePtr, CuMemPool, CuStream, LOCATION_DEVICE};
use std::ffi::c_void;
use std::sync::Mutex;

/// The pool that `cuMemAllocAsync` takes from.
const POOL: usize = 0x5100_ffff_0040;
/// Pitch of rows from `cuMemAllocPitch`, bytes.
const PITCH: usize = 512;
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const MANAGED: u32 = 2;

fn is_allocation(range: &Range, at: u64) -> bool {
    range.at == at && matches!(range.kind, Kind::Plain | Kind::Pool | Kind::Managed)
}

pub fn cuMemAlloc_v2(call: &Call, to: *mut CuDevicePtr, bytes: usize) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    if to.is_null() || bytes == 0 {
        return Err(INVALID_VALUE);
    }
    give(to, take(Kind::Plain, bytes as u64, context.handle)?)
}

pub fn cuMemAllocPitch_v2(
    call: &Call,
    to: *mut CuDevicePtr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    if to.is_null() || pitch.is_null() || width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
        return Err(INVALID_VALUE);
    }
    let row = width.checked_next_multiple_of(PITCH).ok_or(OUT_OF_MEMORY)?;
    let bytes = row.checked_mul(height).ok_or(OUT_OF_MEMORY)?;
    give(to, take(Kind::Plain, bytes as u64, context.handle)?)?;
    give(pitch, row)
}

pub fn cuMemAllocManaged(call: &Call, to: *mut CuDevicePtr, bytes: usize, flags: u32) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    if to.is_null() || bytes == 0 || !matches!(flags, 1 | 2) {
        return Err(INVALID_VALUE);
    }
    give(to, take(Kind::Managed, bytes as u64, context.handle)?)
}

pub fn cuMemFree_v2(call: &Call, at: CuDevicePtr) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    if at == 0 {
        return Ok(());
    }
    find(at).filter(|range| is_allocation(range, at)).ok_or(INVALID_VALUE)?;
    // No work uses it once the device has completed everything submitted.
    context.synchronize()?;
    give_back(at);
    Ok(())
}

pub fn cuMemAllocAsync(call: &Call, to: *mut CuDevicePtr, bytes: usize, stream: CuStream) -> Answer {
    take_in_order(call, to, bytes, kind_of(None)?, stream)
}

pub fn cuMemAllocFromPoolAsync(
    call: &Call,
    to: *mut CuDevicePtr,
    bytes: usize,
    from: CuMemPool,
    stream: CuStream,
) -> Answer {
    take_in_order(call, to, bytes, kind_of(Some(from))?, stream)
}

fn take_in_order(call: &Call, to: *mut CuDevicePtr, bytes: usize, kind: Kind, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_capturing(&stream)?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // The address is valid at once; a use before the stream's turn is an error of the program.
    give(
        to,
        if bytes == 0 {
            0
        } else {
            take(kind, bytes as u64, context.handle)?
        },
    )
}

pub fn cuMemFreeAsync(call: &Call, at: CuDevicePtr, stream: CuStream) -> Answer {
    let (context, stream) = find_stream_anywhere(call, stream)?;
    refuse_capturing(&stream)?;
    if at == 0 {
        return Ok(());
    }
    {
        let mut ranges = ranges_mut();
        let range = ranges
            .get_mut(&at)
            .filter(|r| !r.is_freed_in_stream && is_allocation(r, at));
        range.ok_or(INVALID_VALUE)?.is_freed_in_stream = true;
    }
    context.submit(&stream, Vec::new(), move |_| {
        give_back(at);
        Ok(())
    });
    Ok(())
}

struct Pool {
    handle: usize,
    kind: Kind,
}

static POOLS: Handles<Pool> = Handles::new(13);
/// The pool that `cuMemAllocAsync` takes from.
static CURRENT: Mutex<usize> = Mutex::new(POOL);

/// Returns the kind of a pool's memory; `None` for the current pool.
fn kind_of(pool: Option<CuMemPool>) -> Answer<Kind> {
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

/// Memory cannot be shared with other processes here.
pub fn cuIpcGetMemHandle(_: &Call, _handle: *mut c_void, _at: CuDevicePtr) -> Answer {
    Err(NOT_SUPPORTED)
}

pub fn cuDeviceGetDefaultMemPool(_: &Call, to: *mut CuMemPool, device: CuDevice) -> Answer {
    device::check(device)?;
    give(to, pointer(POOL))
}
