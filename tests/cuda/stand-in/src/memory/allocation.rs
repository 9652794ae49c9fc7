//! `cuMemAlloc` and its kin: the device's memory taken and given back, at once or in a stream's order.

use super::table::{Kind, Range, find, insert, ranges_mut};
use super::{Purpose, arena, free_bytes};
use crate::Answer;
use crate::call::Call;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY};
use crate::device::MEMORY;
use crate::graphs::refuse_capture;
use crate::handles::pointer;
use crate::pointers::{give, give_if_wanted};
use crate::streams::{self, refuse_capturing};
use cuda_driver::{CuDevicePtr, CuMemPool, CuStream};

/// The pool that `cuMemAllocAsync` takes from.
const POOL: usize = 0x5100_ffff_0040;
/// From one row to the next of what `cuMemAllocPitch` gives.
const PITCH: usize = 512;

/// The pool as programs hold it.
pub fn pool() -> CuMemPool {
    pointer(POOL)
}

fn allocate(purpose: Purpose, kind: Kind, bytes: usize) -> Answer<u64> {
    let part = arena::take(purpose, bytes as u64)?;
    insert(Range::new(kind, part.at, (bytes as u64).max(1), part.host, Some(part.memory), part.whole));
    Ok(part.at)
}

/// Takes memory for a variable of a module.
pub fn variable(bytes: u64) -> Answer<u64> {
    allocate(Purpose::Variables, Kind::Variable, usize::try_from(bytes).map_err(|_| OUT_OF_MEMORY)?)
}

/// Removes a range and gives its memory back.
pub fn release(at: u64) {
    if ranges_mut().remove(&at).is_some() {
        arena::give_back(at);
    }
}

pub fn cuMemGetInfo_v2(call: &Call, free: *mut usize, total: *mut usize) -> Answer {
    call.context()?;
    give(free, free_bytes() as usize)?;
    give(total, MEMORY as usize)
}

pub fn cuMemAlloc_v2(call: &Call, to: *mut CuDevicePtr, bytes: usize) -> Answer {
    refuse_capture(&*call.context()?)?;
    if to.is_null() || bytes == 0 {
        return Err(INVALID_VALUE);
    }
    give(to, allocate(Purpose::Plain, Kind::Plain, bytes)?)
}

pub fn cuMemAllocPitch_v2(
    call: &Call,
    to: *mut CuDevicePtr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> Answer {
    refuse_capture(&*call.context()?)?;
    if to.is_null() || pitch.is_null() || width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
        return Err(INVALID_VALUE);
    }
    let row = width.checked_next_multiple_of(PITCH).ok_or(OUT_OF_MEMORY)?;
    let bytes = row.checked_mul(height).ok_or(OUT_OF_MEMORY)?;
    give(to, allocate(Purpose::Plain, Kind::Plain, bytes)?)?;
    give(pitch, row)
}

pub fn cuMemAllocManaged(call: &Call, to: *mut CuDevicePtr, bytes: usize, flags: u32) -> Answer {
    refuse_capture(&*call.context()?)?;
    if to.is_null() || bytes == 0 || !matches!(flags, 1 | 2) {
        return Err(INVALID_VALUE);
    }
    give(to, allocate(Purpose::Managed, Kind::Managed, bytes)?)
}

pub fn cuMemFree_v2(call: &Call, at: CuDevicePtr) -> Answer {
    let context = call.context()?;
    refuse_capture(&context)?;
    if at == 0 {
        return Ok(());
    }
    let ours = |range: &Range| range.at == at && matches!(range.kind, Kind::Plain | Kind::Pool | Kind::Managed);
    find(at).filter(ours).ok_or(INVALID_VALUE)?;
    // Nothing reaches it any more when the device is done with all that was begun.
    context.synchronize()?;
    let still = find(at).is_some_and(|range| ours(&range));
    if still {
        release(at);
    }
    Ok(())
}

pub fn cuMemAllocAsync(call: &Call, to: *mut CuDevicePtr, bytes: usize, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_capturing(&stream)?;
    refuse_capture(&context)?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    if bytes == 0 {
        return give(to, 0);
    }
    // The address is good at once; what uses it before the stream's turn is the program's own mistake.
    give(to, allocate(Purpose::Pool, Kind::Pool, bytes)?)
}

pub fn cuMemAllocFromPoolAsync(
    call: &Call,
    to: *mut CuDevicePtr,
    bytes: usize,
    from: CuMemPool,
    stream: CuStream,
) -> Answer {
    if from != pool() {
        return Err(INVALID_HANDLE);
    }
    cuMemAllocAsync(call, to, bytes, stream)
}

pub fn cuMemFreeAsync(call: &Call, at: CuDevicePtr, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_capturing(&stream)?;
    if at == 0 {
        return Ok(());
    }
    {
        let mut ranges = ranges_mut();
        let range = ranges.get_mut(&at).filter(|range| !range.going).ok_or(INVALID_VALUE)?;
        if !matches!(range.kind, Kind::Plain | Kind::Pool | Kind::Managed) {
            return Err(INVALID_VALUE);
        }
        range.going = true;
    }
    streams::begin(&context, &stream, &[], move |_| {
        release(at);
        Ok(())
    });
    Ok(())
}

/// Writes attributes of a pool's memory.
pub fn give_pool(to: *mut CuMemPool, kind: Kind) {
    give_if_wanted(to, if kind == Kind::Pool { pool() } else { std::ptr::null_mut() });
}
