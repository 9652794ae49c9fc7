//! Calls that allocate and free device memory, immediately or in a stream's order.

use crate::Answer;
use crate::call::Call;
use crate::calls::pools::kind_of;
use crate::capture::{refuse_capturing, refuse_unsafe};
use crate::codes::{INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY};
use crate::context::find_stream_anywhere;
use crate::memory::allocation::{give_back, take};
use crate::memory::table::{Kind, Range, find, ranges_mut};
use crate::pointers::give;
use cuda_driver::{CuDevicePtr, CuMemPool, CuStream};
use std::ffi::c_void;

/// Pitch of rows from `cuMemAllocPitch`, bytes.
const PITCH: usize = 512;

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

/// Memory cannot be shared with other processes here.
pub fn cuIpcGetMemHandle(_: &Call, _handle: *mut c_void, _at: CuDevicePtr) -> Answer {
    Err(NOT_SUPPORTED)
}
