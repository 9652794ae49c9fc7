//! Host memory that the device knows: allocated by the driver, or told to it.

use super::arena::Bytes;
use super::mapping::PAGE;
use super::process;
use super::table::{Kind, Range, find, forget_range, insert, overlaps, ranges, ranges_mut};
use crate::Answer;
use crate::call::Call;
use crate::codes::{ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED};
use crate::graphs::refuse_capture;
use crate::pointers::give;
use cuda_driver::CuDevicePtr;
use std::ffi::c_void;
use std::sync::Arc;

/// Portable, mapped, write-combining.
const ALLOCATION_FLAGS: u32 = 7;
/// Portable, mapped, of a device, read only.
const REGISTER_FLAGS: u32 = 15;

fn allocate(call: &Call, to: *mut *mut c_void, bytes: usize) -> Answer {
    refuse_capture(&*call.context()?)?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let length = (bytes as u64).max(1);
    let memory = Bytes::of_host(length)?;
    let at = memory.host();
    let whole = (at, length.next_multiple_of(PAGE));
    insert(Range::new(Kind::Pinned, at, length, at, Some(Arc::new(memory)), whole));
    give(to, std::ptr::with_exposed_provenance_mut(at as usize))
}

pub fn cuMemAllocHost_v2(call: &Call, to: *mut *mut c_void, bytes: usize) -> Answer {
    allocate(call, to, bytes)
}

pub fn cuMemHostAlloc(call: &Call, to: *mut *mut c_void, bytes: usize, flags: u32) -> Answer {
    if flags & !ALLOCATION_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    allocate(call, to, bytes)
}

pub fn cuMemFreeHost(call: &Call, at: *mut c_void) -> Answer {
    let context = call.context()?;
    refuse_capture(&context)?;
    let at = at as u64;
    find(at).filter(|range| range.kind == Kind::Pinned && range.at == at).ok_or(INVALID_VALUE)?;
    context.synchronize()?;
    drop(forget_range(at));
    Ok(())
}

pub fn cuMemHostRegister_v2(call: &Call, at: *mut c_void, bytes: usize, flags: u32) -> Answer {
    refuse_capture(&*call.context()?)?;
    let (at, bytes) = (at as u64, bytes as u64);
    if bytes == 0 || flags & !REGISTER_FLAGS != 0 || !process::is_readable(at, bytes) {
        return Err(INVALID_VALUE);
    }
    // Whole pages are told to the device, so that no two registrations share one.
    let first = at & !(PAGE - 1);
    let pages = (at + bytes).next_multiple_of(PAGE) - first;
    let mut ranges = ranges_mut();
    let shared = |range: &Range| range.kind == Kind::Registered && range.at < first + pages && range.end() > first;
    if overlaps(&ranges, at, bytes) || ranges.values().any(shared) {
        return Err(ALREADY_REGISTERED);
    }
    let whole = (first, pages);
    ranges.insert(at, Range { whole, ..Range::of_program(at, bytes) });
    Ok(())
}

pub fn cuMemHostUnregister(call: &Call, at: *mut c_void) -> Answer {
    let context = call.context()?;
    refuse_capture(&context)?;
    let at = at as u64;
    let range = find(at).filter(|range| range.kind == Kind::Registered).ok_or(NOT_REGISTERED)?;
    if range.at != at {
        return Err(INVALID_VALUE);
    }
    context.synchronize()?;
    drop(forget_range(at));
    Ok(())
}

/// The device reaches host memory under its own addresses.
pub fn cuMemHostGetDevicePointer_v2(call: &Call, to: *mut CuDevicePtr, at: *mut c_void, flags: u32) -> Answer {
    call.context()?;
    let at = at as u64;
    let known = super::table::around(&ranges(), at).is_some_and(|range| range.kind.is_host());
    if flags != 0 || !known {
        return Err(INVALID_VALUE);
    }
    give(to, at)
}
