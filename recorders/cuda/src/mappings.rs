//! Memory that a program maps itself: reserved addresses, created physical memory, and the mappings between them.
//!
//! Reservations are served from one range after the window, so that a replay finds the same addresses free.

use crate::allocations::record_allocation;
use crate::memory::{WINDOW_BASE, WINDOW_BYTES, reserve_at};
use crate::recorder::{Recorder, is_ok, lock};
use crate::unsupported;
use cuda_driver::{
    ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevice, CuDevicePtr, CuMemHandle, CuResult,
    INVALID_VALUE, LOCATION_DEVICE, SUCCESS,
};
use cuda_session::{Backing, GRANULE, PhysicalMappings, Relation, Window};
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use trace_core::recording::{AllocationKind, CallWindow, OrderRow};

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// First address of the range for reservations.
const RESERVED_BASE: u64 = WINDOW_BASE + WINDOW_BYTES;
/// Size of that range if the driver grants it, bytes. PyTorch reserves more than the device's memory for each of its
/// segments.
const RESERVED_BYTES: u64 = 4 << 40;
/// Minimum size of the range, bytes.
const MIN_RESERVED: u64 = 64 << 30;

/// Gap between two reservations, bytes, so that mappings in different reservations are never adjacent.
const GAP: u64 = GRANULE;

/// A backing without memory: reservations are only addresses.
struct AddressesOnly;

impl Backing for AddressesOnly {
    type Error = Infallible;

    fn map(&mut self, _: u64, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn unmap(&mut self, _: u64, _: u64) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Physical memory that the program has a handle of.
#[derive(Clone, Copy, Debug)]
struct PhysicalMemory {
    /// Distinguishes it from earlier memory with the same handle.
    number: u64,
    /// Its device; `None` if it is the host's or another process's.
    device: Option<CuDevice>,
}

/// State of the program's own mappings.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    range: Option<Window>,
    tried: bool,
    made: u64,
    handles: HashMap<CuMemHandle, PhysicalMemory>,
    /// Current mappings by first address: size in bytes, and whether a row recorded them.
    now: BTreeMap<u64, (u64, bool)>,
    /// Addresses of each memory's mappings.
    places: PhysicalMappings,
}

/// Handles `cuMemCreate`.
///
/// # Safety
/// The structure is the program's, and the driver reads it as well.
pub(crate) unsafe fn create(
    r: &Recorder,
    call: Call<'_>,
    handle: *mut CuMemHandle,
    _bytes: usize,
    properties: *const AllocationProperties,
) -> CuResult {
    let result = call();
    if is_ok(result) && !handle.is_null() && !properties.is_null() {
        // SAFETY: guaranteed by the caller, with the driver's answer.
        let (handle, kind, location) = unsafe { (*handle, (*properties).kind, (*properties).location) };
        let is_device = kind == ALLOCATION_PINNED && location.kind == LOCATION_DEVICE;
        note(r, handle, is_device.then_some(location.id));
    }
    result
}

/// Handles `cuMemImportFromShareableHandle`.
///
/// # Safety
/// The pointer is the program's, for the driver's answer.
pub(crate) unsafe fn import(r: &Recorder, call: Call<'_>, handle: *mut CuMemHandle) -> CuResult {
    let result = unsupported::forward(r, call, unsupported::IMPORTED);
    if is_ok(result) && !handle.is_null() {
        // SAFETY: the driver has written the answer.
        note(r, unsafe { *handle }, None);
    }
    result
}

fn note(r: &Recorder, handle: CuMemHandle, device: Option<CuDevice>) {
    let mut memory = lock(&r.memory);
    let mappings = &mut memory.mappings;
    mappings.made += 1;
    let number = mappings.made;
    mappings.handles.insert(handle, PhysicalMemory { number, device });
}

/// Handles `cuMemRelease`: the memory stays as long as it is mapped. A reused handle is noted again.
pub(crate) fn release(_r: &Recorder, call: Call<'_>, _handle: CuMemHandle) -> CuResult {
    call()
}

/// Handles `cuMemAddressReserve`.
///
/// # Safety
/// The pointer is the program's.
pub(crate) unsafe fn reserve(
    r: &Recorder,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    alignment: usize,
    hint: CuDevicePtr,
    flags: u64,
) -> CuResult {
    r.record_device();
    let alignment = alignment as u64;
    let plain = hint == 0 && flags == 0 && alignment <= GRANULE && (alignment == 0 || alignment.is_power_of_two());
    let whole = bytes > 0 && (bytes as u64).is_multiple_of(GRANULE);
    if at.is_null() || !plain || !whole {
        return call();
    }
    match lock(&r.memory).reserve_addresses(r, bytes as u64) {
        Some(address) => {
            // SAFETY: the program's pointer for the answer is not null.
            unsafe { *at = address };
            SUCCESS
        }
        None => call(),
    }
}

impl crate::memory::Memory {
    fn reserve_addresses(&mut self, r: &Recorder, bytes: u64) -> Option<u64> {
        if !self.is_wanted() {
            return None;
        }
        let mappings = &mut self.mappings;
        if !std::mem::replace(&mut mappings.tried, true)
            && let Ok(length) = reserve_at(RESERVED_BASE, RESERVED_BYTES, MIN_RESERVED)
        {
            mappings.range = Some(Window::new(RESERVED_BASE, length));
            let mut tables = r.session.tables();
            tables.metadata.reserved = CallWindow {
                base: RESERVED_BASE,
                bytes: length,
            };
            tables.mark_changed();
        }
        mappings
            .range
            .as_mut()?
            .allocate(bytes.checked_add(GAP)?, &mut AddressesOnly)
            .ok()
    }
}

/// Handles `cuMemAddressFree`.
pub(crate) fn free(r: &Recorder, call: Call<'_>, at: CuDevicePtr, bytes: usize) -> CuResult {
    let mut memory = lock(&r.memory);
    let mappings = &mut memory.mappings;
    let Some(range) = mappings.range.as_mut().filter(|range| range.contains(at)) else {
        drop(memory);
        return call();
    };
    let end = at.saturating_add(bytes as u64);
    let is_used = mappings.now.range(at..end).next().is_some();
    if is_used || range.find(at) != (bytes as u64).checked_add(GAP).map(|whole| (at, whole)) {
        return INVALID_VALUE;
    }
    let _ = range.free(at, &mut AddressesOnly);
    SUCCESS
}

/// Handles `cuMemMap`.
pub(crate) fn map(
    r: &Recorder,
    call: Call<'_>,
    at: CuDevicePtr,
    bytes: usize,
    offset: usize,
    handle: CuMemHandle,
) -> CuResult {
    let begun = r.session.start_call();
    let result = call();
    let bytes = bytes as u64;
    if !is_ok(result) {
        record_allocation(r, begun, AllocationKind::Map, at, bytes, OrderRow::NONE, result);
        return result;
    }
    let mut memory = lock(&r.memory);
    // Memory with an unknown handle is assumed to be the device's own.
    let physical = match memory.mappings.handles.get(&handle) {
        Some(physical) => *physical,
        None => {
            memory.mappings.made += 1;
            let number = memory.mappings.made;
            let device = crate::memory::current_context_and_device().map(|(_, device)| device);
            let physical = PhysicalMemory { number, device };
            memory.mappings.handles.insert(handle, physical);
            physical
        }
    };
    let own = crate::memory::current_context_and_device().map(|(_, device)| device);
    let first = Some(memory.device()).filter(|d| *d >= 0).or(own);
    let is_seen = physical.device.is_some() && (first.is_none() || physical.device == first) && offset == 0;
    memory.mappings.now.insert(at, (bytes, is_seen));
    if !is_seen {
        drop(memory);
        let (what, why) = unsupported::MAPPED_ELSEWHERE;
        r.note_not_recorded(what, why);
        return result;
    }
    let relation = memory.mappings.places.relate(at, bytes, physical.number);
    memory.add_mapping(at, bytes, physical.device.unwrap_or(0));
    drop(memory);
    record_allocation(r, begun, AllocationKind::Map, at, bytes, OrderRow::NONE, result);
    match relation {
        Relation::Separate => {}
        Relation::SameAs(place) => r.record_call(r.session.start_call(), "cuMemMap", None, &[at, bytes, place], result),
        Relation::Ambiguous => {
            let (what, why) = unsupported::REMAPPED;
            r.note_not_recorded(what, why);
        }
    }
    result
}

/// Handles `cuMemUnmap`, which unmaps all mappings in a range.
pub(crate) fn unmap(r: &Recorder, call: Call<'_>, at: CuDevicePtr, bytes: usize) -> CuResult {
    let begun = r.session.start_call();
    let result = call();
    if !is_ok(result) {
        return result;
    }
    // The driver waits for the work that uses them.
    let mut gone = Vec::new();
    let mut memory = lock(&r.memory);
    let end = at.saturating_add(bytes as u64);
    let all: Vec<u64> = memory.mappings.now.range(at..end).map(|(first, _)| *first).collect();
    for first in all {
        if let Some((length, true)) = memory.mappings.now.remove(&first) {
            memory.remove_driver_allocation(first);
            gone.push((first, length));
        }
    }
    drop(memory);
    for (first, length) in gone {
        record_allocation(r, begun, AllocationKind::Unmap, first, length, OrderRow::NONE, result);
    }
    result
}

/// Handles `cuMemSetAccess`: from then on the device can access the mappings.
///
/// # Safety
/// There are as many structures as the program says, and the driver reads them as well.
pub(crate) unsafe fn set_access(
    r: &Recorder,
    call: Call<'_>,
    at: CuDevicePtr,
    bytes: usize,
    descriptions: *const AccessDescription,
    count: usize,
) -> CuResult {
    let result = call();
    if !is_ok(result) || descriptions.is_null() {
        return result;
    }
    let mut memory = lock(&r.memory);
    let device = Some(memory.device()).filter(|d| *d >= 0);
    let device = device.or_else(|| crate::memory::current_context_and_device().map(|(_, device)| device));
    for n in 0..count {
        // SAFETY: guaranteed by the caller.
        let description = unsafe { *descriptions.add(n) };
        let is_own = device.is_none_or(|device| description.location.id == device);
        if description.location.kind == LOCATION_DEVICE && is_own {
            memory.allow_mapped(at, bytes as u64, description.flags != 0);
        }
    }
    result
}
