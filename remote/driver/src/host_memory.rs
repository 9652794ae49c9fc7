//! Host memory for copies and kernels: allocations in the window that the worker maps too, and registrations of the
//! program's own memory.

use crate::errors::{ALREADY_REGISTERED, DEVICE_UNAVAILABLE, NOT_REGISTERED};
use crate::pointers::put;
use crate::range_allocator::RangeAllocator;
use crate::request::Request;
use crate::{CallResult, connection, lock, read, write};
use cuda_driver::{CuDevicePtr, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY};
use remote_calls::CallId;
use remote_calls::message::AllocateHost;
use remote_ring::WINDOW_PAGE_BYTES;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, RwLock};

/// Flag of `cuMemHostAlloc` and `cuMemHostRegister`: kernels use the memory.
const DEVICE_MAP: u32 = 2;

/// Kind of a range of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRangeKind {
    /// Pinned memory of the window.
    Pinned,
    /// Managed memory: pinned memory of the window whose address is the device's too.
    Managed,
    /// The program's own memory, which the worker does not map.
    Registered,
}

/// A range of host memory that the program announced.
#[derive(Clone, Copy, Debug)]
pub struct HostRange {
    /// Address of its first byte.
    pub first: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// Its kind.
    pub kind: HostRangeKind,
    /// The device's address of the first byte; 0 for registered memory.
    device_address: CuDevicePtr,
    /// Flags of the call that made it.
    flags: u32,
    /// The worker knows that kernels use the memory by its address.
    is_exposed: bool,
}

/// Ranges by their first addresses.
static RANGES: RwLock<BTreeMap<u64, HostRange>> = RwLock::new(BTreeMap::new());
static WINDOW_RANGES: OnceLock<Mutex<RangeAllocator>> = OnceLock::new();

/// Returns the announced range that an address is in.
pub fn find(at: u64) -> Option<HostRange> {
    let ranges = read(&RANGES);
    let (first, range) = ranges.range(..=at).next_back()?;
    (at - first < range.bytes).then_some(*range)
}

/// Returns the offset in the window of memory that the worker maps too, if all of it is in one range.
pub fn window_offset(at: u64, bytes: u64) -> Option<u64> {
    let range = find(at).filter(|range| range.kind != HostRangeKind::Registered)?;
    let end = at.checked_add(bytes)?;
    if end > range.first + range.bytes {
        return None;
    }
    at.checked_sub(connection::current().ok()?.window().address())
}

fn window_ranges() -> CallResult<&'static Mutex<RangeAllocator>> {
    let connection = connection::current()?;
    Ok(WINDOW_RANGES.get_or_init(|| Mutex::new(RangeAllocator::new(connection.window().bytes()))))
}

/// Memory of the window.
pub struct WindowMemory {
    offset: u64,
    bytes: u64,
}

impl WindowMemory {
    /// Allocates memory of the window. Its bytes are zero.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` if there is none.
    pub fn new(bytes: u64) -> CallResult<Self> {
        let connection = connection::current()?;
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(WINDOW_PAGE_BYTES)
            .ok_or(OUT_OF_MEMORY)?;
        let offset = lock(window_ranges()?).allocate(bytes).ok_or(OUT_OF_MEMORY)?;
        let memory = Self { offset, bytes };
        connection.window().commit(offset, bytes).map_err(|_| OUT_OF_MEMORY)?;
        Ok(memory)
    }

    /// Returns the offset in the window, bytes.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the address in this process.
    pub fn pointer(&self) -> CallResult<*mut c_void> {
        let window = connection::current()?.window();
        let pointer = window.pointer(self.offset, self.bytes).map_err(|_| OUT_OF_MEMORY)?;
        // Programs pass it as a number too.
        pointer.expose_provenance();
        Ok(pointer.cast())
    }
}

impl Drop for WindowMemory {
    fn drop(&mut self) {
        if let (Ok(connection), Ok(ranges)) = (connection::current(), window_ranges()) {
            // Memory that cannot be given back stays until the process ends.
            let _ = connection.window().release(self.offset, self.bytes);
            lock(ranges).release(self.offset, self.bytes);
        }
    }
}

fn allocate_range(bytes: u64, flags: u32, kind: HostRangeKind) -> CallResult<*mut c_void> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let memory = WindowMemory::new(bytes)?;
    let is_exposed = kind == HostRangeKind::Managed || flags & DEVICE_MAP != 0;
    let mut request = Request::new(CallId::allocate_host, false)?;
    AllocateHost {
        offset: memory.offset,
        bytes: memory.bytes,
        is_exposed,
    }
    .write(&mut request.encoder);
    let answer = request.ask()?;
    let device_address = answer.decoder().read().map_err(|_| DEVICE_UNAVAILABLE)?;
    let pointer = memory.pointer()?;
    let first = pointer.addr() as u64;
    if kind == HostRangeKind::Managed && device_address != first {
        unregister_window(&memory)?;
        return Err(NOT_SUPPORTED);
    }
    write(&RANGES).insert(
        first,
        HostRange {
            first,
            bytes,
            kind,
            device_address,
            flags,
            is_exposed,
        },
    );
    // The range frees it.
    std::mem::forget(memory);
    Ok(pointer)
}

fn unregister_window(memory: &WindowMemory) -> CallResult {
    let mut request = Request::new(CallId::free_host, false)?;
    request.encoder.write(memory.offset);
    request.encoder.write(memory.bytes);
    request.ask().map(drop)
}

/// `cuMemAllocHost` and `cuMemHostAlloc`.
pub fn allocate(to: *mut *mut c_void, bytes: usize, flags: u32) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    put(to, allocate_range(bytes as u64, flags, HostRangeKind::Pinned)?)
}

/// `cuMemAllocManaged`: memory of the window, which the device reaches over the bus.
pub fn allocate_managed(to: *mut CuDevicePtr, bytes: usize, flags: u32) -> CallResult {
    if to.is_null() || !(1..=2).contains(&flags) {
        return Err(INVALID_VALUE);
    }
    let pointer = allocate_range(bytes as u64, flags, HostRangeKind::Managed)?;
    put(to, pointer.addr() as u64)
}

/// Frees a range, after the work that uses it.
fn free_range(first: u64, kind: HostRangeKind) -> CallResult {
    let range = find(first).filter(|range| range.first == first && range.kind == kind);
    let range = range.ok_or(INVALID_VALUE)?;
    let window = connection::current()?.window();
    let bytes = range.bytes.next_multiple_of(WINDOW_PAGE_BYTES);
    let memory = WindowMemory {
        offset: first - window.address(),
        bytes,
    };
    match unregister_window(&memory) {
        Ok(()) => {
            write(&RANGES).remove(&first);
            Ok(())
        }
        Err(result) => {
            // The device may still use it.
            std::mem::forget(memory);
            Err(result)
        }
    }
}

/// `cuMemFreeHost`.
pub fn free(at: *mut c_void) -> CallResult {
    connection::current()?;
    free_range(at.addr() as u64, HostRangeKind::Pinned)
}

/// Frees managed memory; returns `None` if the address is not that of a managed allocation.
pub fn free_managed(at: CuDevicePtr) -> Option<CallResult> {
    let range = find(at).filter(|range| range.kind == HostRangeKind::Managed && range.first == at)?;
    Some(free_range(range.first, range.kind))
}

/// `cuMemHostGetDevicePointer`.
pub fn device_pointer(to: *mut CuDevicePtr, at: *mut c_void, flags: u32) -> CallResult {
    connection::current()?;
    let at = at.addr() as u64;
    let range = find(at).filter(|_| flags == 0).ok_or(INVALID_VALUE)?;
    match range.kind {
        HostRangeKind::Registered => Err(NOT_SUPPORTED),
        _ => {
            expose(&range)?;
            put(to, range.device_address + (at - range.first))
        }
    }
}

/// Tells the worker that kernels use a range by its address, once.
fn expose(range: &HostRange) -> CallResult {
    if range.is_exposed {
        return Ok(());
    }
    let mut request = Request::new(CallId::expose_host, false)?;
    request
        .encoder
        .write(range.first - request.connection().window().address());
    request.finish_quietly()?;
    if let Some(range) = write(&RANGES).get_mut(&range.first) {
        range.is_exposed = true;
    }
    Ok(())
}

/// `cuMemHostGetFlags`.
pub fn flags(to: *mut u32, at: *mut c_void) -> CallResult {
    connection::current()?;
    let range = find(at.addr() as u64).ok_or(INVALID_VALUE)?;
    // Every allocation is mapped, with unified addresses.
    put(to, range.flags | DEVICE_MAP)
}

/// `cuMemHostRegister`.
pub fn register(at: *mut c_void, bytes: usize, flags: u32) -> CallResult {
    connection::current()?.check_health()?;
    if at.is_null() || bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let (first, bytes) = (at.addr() as u64, bytes as u64);
    let end = first.checked_add(bytes).ok_or(INVALID_VALUE)?;
    let mut ranges = write(&RANGES);
    let before = ranges.range(..end).next_back();
    if before.is_some_and(|(other, range)| other + range.bytes > first) {
        return Err(ALREADY_REGISTERED);
    }
    ranges.insert(
        first,
        HostRange {
            first,
            bytes,
            kind: HostRangeKind::Registered,
            device_address: 0,
            flags,
            is_exposed: false,
        },
    );
    Ok(())
}

/// `cuMemHostUnregister`.
pub fn unregister(at: *mut c_void) -> CallResult {
    connection::current()?;
    let first = at.addr() as u64;
    let mut ranges = write(&RANGES);
    match ranges
        .get(&first)
        .is_some_and(|range| range.kind == HostRangeKind::Registered)
    {
        true => {
            ranges.remove(&first);
            Ok(())
        }
        false => Err(NOT_REGISTERED),
    }
}
