//! Memory that a program maps itself: addresses that it reserves, physical memory that it makes, and where it maps which.
//!
//! Reservations are served from one range behind the window, so that a replay finds the same addresses free.

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

/// First address of the range that reservations are served from.
const RESERVED_BASE: u64 = WINDOW_BASE + WINDOW_BYTES;
/// How long that range is, where the driver gives as much. PyTorch reserves more than the device's memory for each of its
/// segments.
const RESERVED_BYTES: u64 = 4 << 40;
/// The shortest range that is tried.
const MIN_RESERVED: u64 = 64 << 30;

/// What lies between two reservations: what is mapped in one never lies next to what is mapped in another.
const GAP: u64 = GRANULE;

/// Reservations are addresses alone.
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
    /// Tells it from memory that had the same handle before.
    number: u64,
    /// Its device; `None`: it is the host's, or another process's.
    device: Option<CuDevice>,
}

/// What is known of the program's own mappings.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    range: Option<Window>,
    tried: bool,
    made: u64,
    handles: HashMap<CuMemHandle, PhysicalMemory>,
    /// What is mapped now, by first address: bytes, and whether a row told of it.
    now: BTreeMap<u64, (u64, bool)>,
    /// Which memory was mapped where.
    places: PhysicalMappings,
}

/// `cuMemCreate`.
///
/// # Safety
/// The form is the program's, which the driver reads too.
pub(crate) unsafe fn create(
    r: &Recorder,
    call: Call<'_>,
    handle: *mut CuMemHandle,
    _bytes: usize,
    properties: *const AllocationProperties,
) -> CuResult {
    let result = call();
    if is_ok(result) && !handle.is_null() && !properties.is_null() {
        // SAFETY: the caller's promise, and the driver's answer.
        let (handle, kind, location) = unsafe { (*handle, (*properties).kind, (*properties).location) };
        let is_device = kind == ALLOCATION_PINNED && location.kind == LOCATION_DEVICE;
        note(r, handle, is_device.then_some(location.id));
    }
    result
}

/// `cuMemImportFromShareableHandle`.
///
/// # Safety
/// The place is the program's, for the driver's answer.
pub(crate) unsafe fn import(r: &Recorder, call: Call<'_>, handle: *mut CuMemHandle) -> CuResult {
    let result = unsupported::forward(r, call, unsupported::IMPORTED);
    if is_ok(result) && !handle.is_null() {
        // SAFETY: the driver has put the answer there.
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

/// `cuMemRelease`: the memory stays as long as it is mapped. A handle that comes again is noted anew.
pub(crate) fn release(_r: &Recorder, call: Call<'_>, _handle: CuMemHandle) -> CuResult {
    call()
}

/// `cuMemAddressReserve`.
///
/// # Safety
/// The place is the program's.
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
            // SAFETY: the program's place for the answer, which is not null.
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
            tables.facts.reserved = CallWindow {
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

/// `cuMemAddressFree`.
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

/// `cuMemMap`.
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
    // Memory of a handle that nobody was told of is taken for the device's own.
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

/// `cuMemUnmap`: of all mappings in a range.
pub(crate) fn unmap(r: &Recorder, call: Call<'_>, at: CuDevicePtr, bytes: usize) -> CuResult {
    let begun = r.session.start_call();
    let result = call();
    if !is_ok(result) {
        return result;
    }
    // The driver waits for what uses them.
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

/// `cuMemSetAccess`: from then on the device reaches what is mapped there.
///
/// # Safety
/// There are as many forms as the program says, which the driver reads too.
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
        // SAFETY: the caller's promise.
        let description = unsafe { *descriptions.add(n) };
        let is_own = device.is_none_or(|device| description.location.id == device);
        if description.location.kind == LOCATION_DEVICE && is_own {
            memory.allow_mapped(at, bytes as u64, description.flags != 0);
        }
    }
    result
}
