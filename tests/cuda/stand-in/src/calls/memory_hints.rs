//! Calls with hints about managed memory, which have no effect here.

use crate::call::Call;
use crate::codes::{INVALID_DEVICE, INVALID_VALUE};
use crate::memory::table::{Kind, find};
use crate::{Answer, device};
use cuda_driver::{CuDevice, CuDevicePtr, CuStream, LOCATION_DEVICE, MemLocation};

/// `CU_DEVICE_CPU`.
const HOST: CuDevice = -1;

fn check_managed(at: CuDevicePtr, bytes: usize) -> Answer {
    let range = find(at).filter(|range| range.kind == Kind::Managed && bytes > 0);
    let is_inside = range.is_some_and(|range| bytes as u64 <= range.end() - at);
    is_inside.then_some(()).ok_or(INVALID_VALUE)
}

/// Returns the device of a location, or [`HOST`].
fn device_of(location: MemLocation) -> Answer<CuDevice> {
    match location.kind {
        LOCATION_DEVICE => Ok(location.id),
        2..=4 => Ok(HOST),
        _ => Err(INVALID_VALUE),
    }
}

fn check_target(target: Answer<CuDevice>) -> Answer {
    match target? {
        HOST => Ok(()),
        other => device::check(other).map_err(|_| INVALID_DEVICE),
    }
}

fn prefetch(call: &Call, at: CuDevicePtr, bytes: usize, target: Answer<CuDevice>, stream: CuStream) -> Answer {
    call.stream(stream)?;
    check_managed(at, bytes)?;
    check_target(target)
}

fn advise(call: &Call, at: CuDevicePtr, bytes: usize, advice: u32, target: Answer<CuDevice>) -> Answer {
    call.context()?;
    if !(1..=6).contains(&advice) {
        return Err(INVALID_VALUE);
    }
    check_managed(at, bytes)?;
    match advice {
        // Mostly read, and no preferred location: the device counts for nothing.
        1 | 2 | 4 => Ok(()),
        _ => check_target(target),
    }
}

pub fn cuMemPrefetchAsync(call: &Call, at: CuDevicePtr, bytes: usize, device: CuDevice, stream: CuStream) -> Answer {
    prefetch(call, at, bytes, Ok(device), stream)
}

pub fn cuMemPrefetchAsync_v2(
    call: &Call,
    at: CuDevicePtr,
    bytes: usize,
    location: MemLocation,
    flags: u32,
    stream: CuStream,
) -> Answer {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    prefetch(call, at, bytes, device_of(location), stream)
}

pub fn cuMemAdvise(call: &Call, at: CuDevicePtr, bytes: usize, advice: u32, device: CuDevice) -> Answer {
    advise(call, at, bytes, advice, Ok(device))
}

pub fn cuMemAdvise_v2(call: &Call, at: CuDevicePtr, bytes: usize, advice: u32, location: MemLocation) -> Answer {
    advise(call, at, bytes, advice, device_of(location))
}
