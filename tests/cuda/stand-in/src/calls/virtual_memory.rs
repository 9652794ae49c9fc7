//! Calls on virtual memory: reserved addresses, created physical memory, and mappings between them.

use crate::call::Call;
use crate::codes::{INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY};
use crate::handles::{Handles, pointer};
use crate::memory::GRANULE;
use crate::memory::piece::Piece;
use crate::memory::table::{Kind, NO_ACCESS, READ, READ_WRITE, Range, Ranges, overlaps, ranges, ranges_mut};
use crate::pointers::{get, get_at, give};
use crate::settings::{Hints, settings};
use crate::{Answer, lock};
use cuda_driver::{
    ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevicePtr, CuMemHandle, LOCATION_DEVICE,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Minimum size of a reservation for which a driver that ignores small address hints follows the hint, bytes.
const LONG: u64 = 32 << 20;

struct PhysicalMemory {
    handle: usize,
    bytes: u64,
    memory: Arc<Piece>,
}

static PHYSICAL: Handles<PhysicalMemory> = Handles::new(2);
static RESERVED: Mutex<BTreeMap<u64, (u64, Piece)>> = Mutex::new(BTreeMap::new());

/// Returns whether these addresses are in one reservation.
fn is_reserved(at: u64, bytes: u64) -> bool {
    let reserved = lock(&RESERVED);
    let reservation = reserved.range(..=at).next_back();
    reservation.is_some_and(|(from, (length, _))| (at - from).checked_add(bytes).is_some_and(|end| end <= *length))
}

fn is_granular(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(GRANULE)
}

pub fn cuMemAddressReserve(
    _: &Call,
    to: *mut CuDevicePtr,
    bytes: usize,
    alignment: usize,
    hint: CuDevicePtr,
    flags: u64,
) -> Answer {
    let (bytes, alignment) = (bytes as u64, alignment as u64);
    let aligned = alignment == 0 || alignment.is_power_of_two();
    if to.is_null() || flags != 0 || !aligned || !is_granular(bytes) || !hint.is_multiple_of(GRANULE) {
        return Err(INVALID_VALUE);
    }
    let alignment = alignment.max(GRANULE);
    let follows_hint = match settings().hints {
        Hints::All => true,
        Hints::Long => bytes >= LONG,
        Hints::None => false,
    };
    let use_hint = hint != 0 && hint.is_multiple_of(alignment) && follows_hint;
    let piece = use_hint.then(|| Piece::addresses_at(hint, bytes)).flatten();
    let piece = piece
        .or_else(|| Piece::addresses(bytes, alignment))
        .ok_or(OUT_OF_MEMORY)?;
    let at = piece.at();
    lock(&RESERVED).insert(at, (bytes, piece));
    give(to, at)
}

pub fn cuMemAddressFree(_: &Call, at: CuDevicePtr, bytes: usize) -> Answer {
    let bytes = bytes as u64;
    let ranges = ranges();
    let mut reserved = lock(&RESERVED);
    let matches = reserved.get(&at).is_some_and(|(length, _)| *length == bytes);
    if !matches || overlaps(&ranges, at, bytes) {
        return Err(INVALID_VALUE);
    }
    reserved.remove(&at);
    Ok(())
}

fn check(properties: *const AllocationProperties) -> Answer {
    let properties = get(properties)?;
    let good = properties.kind == ALLOCATION_PINNED
        && properties.location.kind == LOCATION_DEVICE
        && properties.location.id == 0;
    if good { Ok(()) } else { Err(INVALID_VALUE) }
}

pub fn cuMemGetAllocationGranularity(
    _: &Call,
    to: *mut usize,
    properties: *const AllocationProperties,
    option: u32,
) -> Answer {
    check(properties)?;
    if option > 1 {
        return Err(INVALID_VALUE);
    }
    give(to, GRANULE as usize)
}

pub fn cuMemCreate(
    _: &Call,
    to: *mut CuMemHandle,
    bytes: usize,
    properties: *const AllocationProperties,
    flags: u64,
) -> Answer {
    check(properties)?;
    let bytes = bytes as u64;
    if to.is_null() || flags != 0 || !is_granular(bytes) {
        return Err(INVALID_VALUE);
    }
    let memory = Arc::new(Piece::of_device(bytes)?);
    let physical = PHYSICAL.put(|handle| PhysicalMemory { handle, bytes, memory });
    give(to, physical.handle as u64)
}

/// Releases a handle. The memory lives as long as it is mapped.
pub fn cuMemRelease(_: &Call, handle: CuMemHandle) -> Answer {
    PHYSICAL
        .take(pointer(handle as usize))
        .map(drop)
        .map_err(|_| INVALID_VALUE)
}

pub fn cuMemMap(_: &Call, at: CuDevicePtr, bytes: usize, offset: usize, handle: CuMemHandle, flags: u64) -> Answer {
    let bytes = bytes as u64;
    if flags != 0 || !is_granular(bytes) || !at.is_multiple_of(GRANULE) {
        return Err(INVALID_VALUE);
    }
    let physical = PHYSICAL.get(pointer(handle as usize)).map_err(|_| INVALID_VALUE)?;
    // Like a real device, the stand-in cannot map a part of physical memory.
    if offset != 0 || bytes < physical.bytes {
        return Err(NOT_SUPPORTED);
    }
    let mut ranges = ranges_mut();
    if bytes > physical.bytes || !is_reserved(at, bytes) || overlaps(&ranges, at, bytes) {
        return Err(INVALID_VALUE);
    }
    let memory = Arc::clone(&physical.memory);
    ranges.insert(
        at,
        Range {
            at,
            bytes,
            kind: Kind::Mapped,
            host: memory.at(),
            memory: Some(memory),
            access: NO_ACCESS,
            context: 0,
            is_freed_in_stream: false,
        },
    );
    Ok(())
}

/// Returns the start addresses of the mappings in a range of addresses, or an error if a mapping is only partly in it.
fn mappings(ranges: &Ranges, at: u64, bytes: u64) -> Answer<Vec<u64>> {
    let end = at.checked_add(bytes).ok_or(INVALID_VALUE)?;
    let overlapping = ranges.range(..end).rev().take_while(|(_, range)| range.end() > at);
    let mut starts = Vec::new();
    for (from, range) in overlapping {
        if *from < at || range.end() > end || range.kind != Kind::Mapped {
            return Err(INVALID_VALUE);
        }
        starts.push(*from);
    }
    Ok(starts)
}

pub fn cuMemUnmap(_: &Call, at: CuDevicePtr, bytes: usize) -> Answer {
    let bytes = bytes as u64;
    if !is_granular(bytes) || !is_reserved(at, bytes) {
        return Err(INVALID_VALUE);
    }
    let mut ranges = ranges_mut();
    let starts = mappings(&ranges, at, bytes)?;
    if starts.is_empty() {
        return Err(INVALID_VALUE);
    }
    let removed: Vec<_> = starts.iter().filter_map(|from| ranges.remove(from)).collect();
    drop(ranges);
    drop(removed);
    Ok(())
}

pub fn cuMemSetAccess(
    _: &Call,
    at: CuDevicePtr,
    bytes: usize,
    descriptions: *const AccessDescription,
    count: usize,
) -> Answer {
    let bytes = bytes as u64;
    let mut access = None;
    for index in 0..count {
        let description = get_at(descriptions, index)?;
        if description.location.kind != LOCATION_DEVICE || description.location.id != 0 {
            return Err(INVALID_VALUE);
        }
        access = Some(match description.flags {
            0 => NO_ACCESS,
            1 => READ,
            3 => READ_WRITE,
            _ => return Err(INVALID_VALUE),
        });
    }
    let access = access.ok_or(INVALID_VALUE)?;
    let mut ranges = ranges_mut();
    let starts = mappings(&ranges, at, bytes)?;
    let mapped: u64 = starts
        .iter()
        .filter_map(|from| ranges.get(from))
        .map(|range| range.bytes)
        .sum();
    if bytes == 0 || mapped != bytes {
        return Err(INVALID_VALUE);
    }
    for from in starts {
        if let Some(range) = ranges.get_mut(&from) {
            range.access = access;
        }
    }
    Ok(())
}
