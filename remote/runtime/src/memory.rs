//! Memory of the device and pinned memory of the host: allocation, registration, fills.

use crate::CallResult;
use crate::contexts::bind;
use crate::copies::{Extent, PitchedPointer};
use crate::errors::INVALID_VALUE;
use crate::pointers::{address_of, pointer_of, put, put_if_wanted};
use cuda_driver::{CuMemPool, CuStream, MemLocation};
use std::ffi::c_void;

/// Size of an element for which rows are aligned, bytes.
const PITCH_ELEMENT: u32 = 4;

/// `cudaIpcMemHandle_t` and `cudaIpcEventHandle_t`. Memory is not shared with other processes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SharedHandle {
    words: [u64; 8],
}

/// Writes the address that an allocation of the driver returns. An allocation without bytes has the null address.
fn allocate_with(to: *mut *mut c_void, bytes: usize, allocate: impl FnOnce(*mut u64) -> CallResult) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut at = 0;
    if bytes != 0 {
        allocate(&raw mut at)?;
    }
    put(to, pointer_of(at))
}

/// `cudaMalloc`.
pub fn allocate(to: *mut *mut c_void, bytes: usize) -> CallResult {
    let driver = bind()?;
    allocate_with(to, bytes, |at| driver.cuMemAlloc_v2(at, bytes))
}

/// `cudaFree`. The null address is freed without effect.
pub fn free(at: *mut c_void) -> CallResult {
    let driver = bind()?;
    match at.is_null() {
        true => Ok(()),
        false => driver.cuMemFree_v2(address_of(at)),
    }
}

/// `cudaMallocManaged`.
pub fn allocate_managed(to: *mut *mut c_void, bytes: usize, flags: u32) -> CallResult {
    let driver = bind()?;
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    allocate_with(to, bytes, |at| driver.cuMemAllocManaged(at, bytes, flags))
}

/// `cudaMallocAsync`.
pub fn allocate_async(to: *mut *mut c_void, bytes: usize, stream: CuStream) -> CallResult {
    let driver = bind()?;
    allocate_with(to, bytes, |at| driver.cuMemAllocAsync(at, bytes, stream))
}

/// `cudaMallocFromPoolAsync`.
pub fn allocate_from_pool(to: *mut *mut c_void, bytes: usize, pool: CuMemPool, stream: CuStream) -> CallResult {
    let driver = bind()?;
    allocate_with(to, bytes, |at| driver.cuMemAllocFromPoolAsync(at, bytes, pool, stream))
}

/// `cudaFreeAsync`.
pub fn free_async(at: *mut c_void, stream: CuStream) -> CallResult {
    bind()?.cuMemFreeAsync(address_of(at), stream)
}

/// `cudaMallocPitch`.
pub fn allocate_pitched(to: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) -> CallResult {
    let driver = bind()?;
    if to.is_null() || pitch.is_null() {
        return Err(INVALID_VALUE);
    }
    let (mut at, mut row) = (0, 0);
    if width != 0 && height != 0 {
        driver.cuMemAllocPitch_v2(&raw mut at, &raw mut row, width, height, PITCH_ELEMENT)?;
    }
    put(to, pointer_of(at))?;
    put(pitch, row)
}

/// `cudaMalloc3D`.
pub fn allocate_slices(to: *mut PitchedPointer, extent: Extent) -> CallResult {
    let rows = extent.height.checked_mul(extent.depth).ok_or(INVALID_VALUE)?;
    let (mut at, mut pitch) = (std::ptr::null_mut(), 0);
    allocate_pitched(&raw mut at, &raw mut pitch, extent.width, rows)?;
    put(
        to,
        PitchedPointer {
            at,
            pitch,
            width: extent.width,
            height: extent.height,
        },
    )
}

/// `cudaMallocHost` and `cudaHostAlloc`. The flags are those of the driver.
pub fn allocate_host(to: *mut *mut c_void, bytes: usize, flags: u32) -> CallResult {
    let driver = bind()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    if bytes == 0 {
        return put(to, std::ptr::null_mut());
    }
    driver.cuMemHostAlloc(to, bytes, flags)
}

/// `cudaFreeHost`. The null address is freed without effect.
pub fn free_host(at: *mut c_void) -> CallResult {
    let driver = bind()?;
    match at.is_null() {
        true => Ok(()),
        false => driver.cuMemFreeHost(at),
    }
}

/// `cudaHostRegister`. The flags are those of the driver.
pub fn register_host(at: *mut c_void, bytes: usize, flags: u32) -> CallResult {
    bind()?.cuMemHostRegister_v2(at, bytes, flags)
}

/// `cudaHostUnregister`.
pub fn unregister_host(at: *mut c_void) -> CallResult {
    bind()?.cuMemHostUnregister(at)
}

/// `cudaHostGetDevicePointer`.
pub fn host_device_pointer(to: *mut *mut c_void, at: *mut c_void, flags: u32) -> CallResult {
    let driver = bind()?;
    let mut address = 0;
    driver.cuMemHostGetDevicePointer_v2(&raw mut address, at, flags)?;
    put(to, pointer_of(address))
}

/// `cudaHostGetFlags`.
pub fn host_flags(to: *mut u32, at: *mut c_void) -> CallResult {
    bind()?.cuMemHostGetFlags(to, at)
}

/// `cudaMemGetInfo`.
pub fn sizes(free: *mut usize, total: *mut usize) -> CallResult {
    let (mut free_bytes, mut total_bytes) = (0, 0);
    bind()?.cuMemGetInfo_v2(&raw mut free_bytes, &raw mut total_bytes)?;
    put_if_wanted(free, free_bytes);
    put_if_wanted(total, total_bytes);
    Ok(())
}

/// `cudaMemPrefetchAsync` with the number of a device, which is -1 for the host.
pub fn prefetch(at: *const c_void, bytes: usize, device: i32, stream: CuStream) -> CallResult {
    bind()?.cuMemPrefetchAsync(address_of(at), bytes, device, stream)
}

/// `cudaMemPrefetchAsync` with a location, whose kinds are those of the driver.
pub fn prefetch_to(at: *const c_void, bytes: usize, location: MemLocation, flags: u32, stream: CuStream) -> CallResult {
    bind()?.cuMemPrefetchAsync_v2(address_of(at), bytes, location, flags, stream)
}

/// `cudaMemAdvise` with the number of a device, which is -1 for the host. The hints are those of the driver.
pub fn advise(at: *const c_void, bytes: usize, advice: u32, device: i32) -> CallResult {
    bind()?.cuMemAdvise(address_of(at), bytes, advice, device)
}

/// `cudaMemAdvise` with a location.
pub fn advise_for(at: *const c_void, bytes: usize, advice: u32, location: MemLocation) -> CallResult {
    bind()?.cuMemAdvise_v2(address_of(at), bytes, advice, location)
}

/// A hint, such as `cudaProfilerStart`: nothing has to follow.
pub fn ignore_hint() -> CallResult {
    bind().map(drop)
}

/// `cudaMemset` and `cudaMemsetAsync`, with a stream for the latter. Bytes get the low eight bits of the value.
pub fn fill(to: *mut c_void, value: i32, bytes: usize, stream: Option<CuStream>) -> CallResult {
    let driver = bind()?;
    match stream {
        _ if bytes == 0 => Ok(()),
        None => driver.cuMemsetD8_v2(address_of(to), value as u8, bytes),
        Some(stream) => driver.cuMemsetD8Async(address_of(to), value as u8, bytes, stream),
    }
}

/// `cudaMemset2D` and `cudaMemset2DAsync`, with a stream for the latter.
pub fn fill_rows(
    to: *mut c_void,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    stream: Option<CuStream>,
) -> CallResult {
    let driver = bind()?;
    match stream {
        _ if width == 0 || height == 0 => Ok(()),
        None => driver.cuMemsetD2D8_v2(address_of(to), pitch, value as u8, width, height),
        Some(stream) => driver.cuMemsetD2D8Async(address_of(to), pitch, value as u8, width, height, stream),
    }
}

/// `cudaMemset3D` and `cudaMemset3DAsync`, with a stream for the latter.
pub fn fill_slices(to: PitchedPointer, value: i32, extent: Extent, stream: Option<CuStream>) -> CallResult {
    let slice = to.pitch.checked_mul(to.height).ok_or(INVALID_VALUE)?;
    for index in 0..extent.depth {
        let offset = slice.checked_mul(index).ok_or(INVALID_VALUE)?;
        fill_rows(
            to.at.wrapping_byte_add(offset),
            to.pitch,
            value,
            extent.width,
            extent.height,
            stream,
        )?;
    }
    Ok(())
}

/// `cudaStreamAttachMemAsync`: managed memory stays visible to all streams.
pub fn attach_to_stream(_at: *mut c_void, flags: u32) -> CallResult {
    bind()?;
    // cudaMemAttachGlobal, cudaMemAttachHost, cudaMemAttachSingle
    match flags {
        1 | 2 | 4 => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}
