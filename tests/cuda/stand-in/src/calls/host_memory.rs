//! Calls on host memory that the device knows: allocated by the driver, or registered.

use crate::Answer;
use crate::call::Call;
use crate::capture::refuse_unsafe;
use crate::codes::{ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED};
use crate::memory::piece::{PAGE, Piece, pointer};
use crate::memory::table::{Kind, READ_WRITE, Range, find, find_containing, insert, overlaps, ranges, ranges_mut};
use crate::pointers::give;
use cuda_driver::CuDevicePtr;
use std::ffi::c_void;
use std::sync::Arc;

/// Allowed flags: portable, mapped, write-combining.
const ALLOCATION_FLAGS: u32 = 7;
/// Allowed flags: portable, mapped, device memory, read only.
const REGISTER_FLAGS: u32 = 15;

pub fn cuMemAllocHost_v2(call: &Call, to: *mut *mut c_void, bytes: usize) -> Answer {
    cuMemHostAlloc(call, to, bytes, 0)
}

pub fn cuMemHostAlloc(call: &Call, to: *mut *mut c_void, bytes: usize, flags: u32) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    if to.is_null() || flags & !ALLOCATION_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let memory = Arc::new(Piece::of_host(bytes as u64)?);
    let at = memory.at();
    insert(Range {
        at,
        bytes: (bytes as u64).max(1),
        kind: Kind::Pinned,
        host: at,
        memory: Some(memory),
        access: READ_WRITE,
        context: context.handle,
        is_freed_in_stream: false,
    });
    give(to, pointer(at).cast())
}

pub fn cuMemFreeHost(call: &Call, at: *mut c_void) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    let at = at as u64;
    find(at)
        .filter(|range| range.kind == Kind::Pinned && range.at == at)
        .ok_or(INVALID_VALUE)?;
    context.synchronize()?;
    let removed = ranges_mut().remove(&at);
    drop(removed);
    Ok(())
}

pub fn cuMemHostRegister_v2(call: &Call, at: *mut c_void, bytes: usize, flags: u32) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    let (at, bytes) = (at as u64, bytes as u64);
    if at == 0 || bytes == 0 || flags & !REGISTER_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    // The driver registers whole pages, so two registrations must not share a page.
    let first = at & !(PAGE - 1);
    let last = at
        .checked_add(bytes)
        .and_then(|e| e.checked_next_multiple_of(PAGE))
        .ok_or(INVALID_VALUE)?;
    let mut ranges = ranges_mut();
    let shared = |range: &Range| range.kind == Kind::Registered && range.at < last && range.end() > first;
    if overlaps(&ranges, at, bytes) || ranges.values().any(shared) {
        return Err(ALREADY_REGISTERED);
    }
    ranges.insert(
        at,
        Range {
            at,
            bytes,
            kind: Kind::Registered,
            host: at,
            memory: None,
            access: READ_WRITE,
            context: context.handle,
            is_freed_in_stream: false,
        },
    );
    Ok(())
}

pub fn cuMemHostUnregister(call: &Call, at: *mut c_void) -> Answer {
    let context = call.context()?;
    refuse_unsafe(&context)?;
    let at = at as u64;
    find(at)
        .filter(|range| range.kind == Kind::Registered && range.at == at)
        .ok_or(NOT_REGISTERED)?;
    context.synchronize()?;
    ranges_mut().remove(&at);
    Ok(())
}

/// Returns the host address: the device accesses host memory at the host's own addresses.
pub fn cuMemHostGetDevicePointer_v2(call: &Call, to: *mut CuDevicePtr, at: *mut c_void, flags: u32) -> Answer {
    call.context()?;
    let is_host = find_containing(&ranges(), at as u64).is_some_and(|range| range.kind.is_host());
    if flags != 0 || !is_host {
        return Err(INVALID_VALUE);
    }
    give(to, at as u64)
}
