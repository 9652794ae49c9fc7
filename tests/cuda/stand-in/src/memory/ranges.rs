//! What the driver tells about an address.

use super::allocation::give_pool;
use super::table::{Kind, NOBODY, Range, find};
use super::virtual_memory::{block, reservation};
use crate::Answer;
use crate::call::Call;
use crate::codes::{INVALID_VALUE, NOT_FOUND};
use crate::context;
use crate::pointers::{get_at, give, give_if_wanted};
use cuda_driver::{CuContext, CuDevicePtr, MEMORY_DEVICE, MEMORY_HOST};
use std::ffi::c_void;

/// `CU_DEVICE_INVALID`.
const NO_DEVICE: i32 = -2;

pub fn cuMemGetAddressRange_v2(call: &Call, base: *mut CuDevicePtr, bytes: *mut usize, at: CuDevicePtr) -> Answer {
    call.context()?;
    let range = find(at).filter(|range| range.access != NOBODY).ok_or(NOT_FOUND)?;
    give_if_wanted(base, range.at);
    give_if_wanted(bytes, range.bytes as usize);
    Ok(())
}

/// Whether the program reaches the bytes too.
fn is_open(range: &Range) -> bool {
    range.kind.is_host() || range.kind == Kind::Managed
}

fn attribute(range: &Range, number: i32, at: u64, to: *mut c_void) -> Answer {
    let word = |value: u32| give(to.cast(), value);
    let long = |value: u64| give(to.cast(), value);
    let (first, bytes) = match range.kind {
        Kind::Mapped => reservation(at).unwrap_or((range.at, range.bytes)),
        _ => (range.at, range.bytes),
    };
    match number {
        1 => {
            let of_none = matches!(range.kind, Kind::Mapped | Kind::Pool);
            give(to.cast::<CuContext>(), if of_none { std::ptr::null_mut() } else { context::handle() })
        }
        2 => word(if range.kind.is_host() { MEMORY_HOST } else { MEMORY_DEVICE }),
        3 if range.access == NOBODY => Err(INVALID_VALUE),
        3 => long(at),
        4 if is_open(range) => long(at),
        4 => long(0).and(Err(INVALID_VALUE)),
        6 => word(u32::from(range.kind == Kind::Managed)),
        7 => long(range.number),
        8 => word(u32::from(range.kind == Kind::Managed)),
        9 => word(0),
        10 => word(u32::from(range.kind == Kind::Plain)),
        11 => long(first),
        12 => long(bytes),
        13 => word(1),
        14 => long(0),
        15 => word(u32::from(range.kind == Kind::Plain)),
        16 => word(range.access),
        17 => {
            give_pool(to.cast(), range.kind);
            Ok(())
        }
        18 => long(range.whole.1),
        19 => long(range.whole.0),
        20 => long(block(range)),
        _ => Err(INVALID_VALUE),
    }
}

pub fn cuPointerGetAttribute(_: &Call, to: *mut c_void, number: i32, at: CuDevicePtr) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let range = find(at).ok_or(INVALID_VALUE)?;
    attribute(&range, number, at, to)
}

/// What an address has that the device does not know.
fn nothing(number: i32, at: u64, to: *mut c_void) -> Answer {
    match number {
        1 | 3 | 17 => give(to.cast(), 0_u64),
        4 => give(to.cast(), if reservation(at).is_some() { 0 } else { at }),
        2 | 8 | 10 | 13 | 15 | 16 => give(to.cast(), 0_u32),
        9 => give(to.cast(), NO_DEVICE),
        11 | 12 => {
            if let Some((first, bytes)) = reservation(at) {
                give(to.cast(), if number == 11 { first } else { bytes })?;
            }
            Ok(())
        }
        6 | 7 | 14 | 18..=20 => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

/// Several at once: an address that the device does not know is no error here.
pub fn cuPointerGetAttributes(
    _: &Call,
    count: u32,
    numbers: *mut i32,
    values: *mut *mut c_void,
    at: CuDevicePtr,
) -> Answer {
    let range = find(at);
    for place in 0..count as usize {
        let (number, to) = (get_at(numbers, place)?, get_at(values, place)?);
        match &range {
            // No host memory is an answer, and so is no address.
            Some(range) if number == 4 && !is_open(range) => give(to.cast(), 0_u64)?,
            Some(range) if number == 3 && range.access == NOBODY => give(to.cast(), 0_u64)?,
            Some(range) => attribute(range, number, at, to)?,
            None => nothing(number, at, to)?,
        }
    }
    Ok(())
}
