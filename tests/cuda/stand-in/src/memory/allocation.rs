//! `cuMemAlloc` and similar calls: device memory that is allocated and freed immediately or in a stream's order.
//!
//! Memory in a stream's order is from pools: the device's own pool, and pools that a program creates.

use super::piece::Piece;
use super::table::{Kind, READ_WRITE, Range, find, insert, ranges_mut};
use crate::call::Call;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY};
use crate::graphs::capture::{refuse_capturing, refuse_unsafe};
use crate::handles::{Handles, pointer};
use crate::pointers::{get, give};
use crate::streams;
use crate::{Answer, device, lock};
use cuda_driver::{ALLOCATION_PINNED, CuDevice, CuDevicePtr, CuMemPool, CuStream, LOCATION_DEVICE};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// The pool that `cuMemAllocAsync` takes from.
pub const POOL: usize = 0x5100_ffff_0040;
/// Pitch of rows from `cuMemAllocPitch`, bytes.
const PITCH: usize = 512;
/// Alignment of allocations, bytes.
const STEP: u64 = 512;
/// Size of the address range for allocations, bytes.
const ARENA: u64 = 64 << 30;
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const MANAGED: u32 = 2;

/// Addresses for allocations, accessible only through the table.
struct Arena {
    addresses: Option<Piece>,
    /// Used parts by their start address.
    used: BTreeMap<u64, u64>,
}

static ALLOCATED: Mutex<Arena> = Mutex::new(Arena {
    addresses: None,
    used: BTreeMap::new(),
});

impl Arena {
    /// Returns the first gap of this size, so that freed addresses are reused.
    fn take(&mut self, bytes: u64) -> Answer<u64> {
        if self.addresses.is_none() {
            self.addresses = Piece::addresses(ARENA, super::GRANULE);
        }
        let base = self.addresses.as_ref().ok_or(OUT_OF_MEMORY)?.at();
        let mut from = base;
        for (at, used) in &self.used {
            if at - from >= bytes {
                break;
            }
            from = at + used;
        }
        if base + ARENA - from < bytes {
            return Err(OUT_OF_MEMORY);
        }
        self.used.insert(from, bytes);
        Ok(from)
    }
}

/// Allocates device memory.
pub fn take(kind: Kind, bytes: u64, context: usize) -> Answer<u64> {
    let memory = Arc::new(Piece::of_device(bytes)?);
    let host = memory.at();
    // Managed memory is also accessible to the host, at the same address.
    let at = if kind == Kind::Managed {
        host
    } else {
        let rounded = bytes.max(1).checked_next_multiple_of(STEP).ok_or(OUT_OF_MEMORY)?;
        lock(&ALLOCATED).take(rounded)?
    };
    insert(Range {
        at,
        bytes: bytes.max(1),
        kind,
        host,
        memory: Some(memory),
        access: READ_WRITE,
        context,
        is_freed_in_stream: false,
    });
    Ok(at)
}

/// Frees the address of a range that was removed from the table.
pub fn end(range: &Range) {
    lock(&ALLOCATED).used.remove(&range.at);
}

/// Removes an allocation.
pub fn give_back(at: u64) {
    let removed = ranges_mut().remove(&at);
    if let Some(range) = removed {
        end(&range);
    }
}

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
    // No work uses the memory after the device has completed all submitted work.
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
    // The address is valid at once. A use before the stream reaches the allocation is an error of the program.
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
    let (context, stream) = streams::find_anywhere(call, stream)?;
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
    streams::submit(&context, &stream, Vec::new(), move |_| {
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

/// Creates a pool. Its structure starts with the kind of memory, kinds of handles, and the location. Pools cannot be
/// shared between processes here.
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

/// Returns an error: memory cannot be shared with other processes here.
pub fn cuIpcGetMemHandle(_: &Call, _handle: *mut c_void, _at: CuDevicePtr) -> Answer {
    Err(NOT_SUPPORTED)
}
