//! Queries about memory: its size, and properties of an address.

use crate::call::Call;
use crate::codes::{INVALID_VALUE, NOT_FOUND};
use crate::handles::pointer;
use crate::memory::piece::free_bytes;
use crate::memory::table::{Kind, Range, find, find_containing, ranges};
use crate::pointers::{get_at, give, give_if_wanted};
use crate::settings::settings;
use crate::{Answer, context};
use cuda_driver::{CuDevicePtr, MEMORY_DEVICE, MEMORY_HOST};
use std::ffi::c_void;

pub fn cuMemGetInfo_v2(call: &Call, free: *mut usize, total: *mut usize) -> Answer {
    call.context()?;
    give(free, free_bytes() as usize)?;
    give(total, settings().memory as usize)
}

pub fn cuMemGetAddressRange_v2(call: &Call, base: *mut CuDevicePtr, bytes: *mut usize, at: CuDevicePtr) -> Answer {
    call.context()?;
    let range = find(at).filter(|r| !r.kind.is_host()).ok_or(NOT_FOUND)?;
    give_if_wanted(base, range.at);
    give_if_wanted(bytes, range.bytes as usize);
    Ok(())
}

/// Writes one attribute of an address; the buffer is as long as the attribute.
fn attribute(to: *mut c_void, attribute: i32, at: u64, range: Option<&Range>) -> Answer {
    let kind = range.map(|r| r.kind);
    let is_host = kind.is_some_and(Kind::is_host);
    let range = range.ok_or(INVALID_VALUE);
    match attribute {
        // Attributes 1 to 4 are the context, the kind of memory, the device address and the host address.
        1 => give(
            to.cast(),
            context::current().map_or(std::ptr::null_mut(), |c| pointer(c.handle)),
        ),
        2 => range.and_then(|_| give(to.cast(), if is_host { MEMORY_HOST } else { MEMORY_DEVICE })),
        3 => range.and_then(|_| give(to.cast(), at)),
        4 if is_host || kind == Some(Kind::Managed) => give(to.cast(), at),
        4 => Err(INVALID_VALUE),
        // Attribute 7 is a number that is unique for each allocation.
        7 => range.and_then(|r| give(to.cast(), r.at)),
        // Attributes 8 and 9 are whether the memory is managed, and the device number.
        8 => range.and_then(|r| give(to.cast(), u32::from(r.kind == Kind::Managed))),
        9 => range.and_then(|_| give(to.cast(), 0i32)),
        11 => range.and_then(|r| give(to.cast(), r.at)),
        12 => range.and_then(|r| give(to.cast(), r.bytes as usize)),
        // Attribute 13 is whether the address is mapped.
        13 => give(to.cast(), u32::from(range.is_ok())),
        _ => Err(INVALID_VALUE),
    }
}

pub fn cuPointerGetAttribute(_: &Call, to: *mut c_void, which: i32, at: CuDevicePtr) -> Answer {
    let ranges = ranges();
    attribute(
        to,
        which,
        at,
        find_containing(&ranges, at).filter(|r| !r.is_freed_in_stream),
    )
}

/// Writes attributes of an address. Unknown attributes have default values here, and are not an error.
pub fn cuPointerGetAttributes(
    _: &Call,
    count: u32,
    attributes: *mut i32,
    values: *mut *mut c_void,
    at: CuDevicePtr,
) -> Answer {
    let ranges = ranges();
    let range = find_containing(&ranges, at).filter(|r| !r.is_freed_in_stream);
    for index in 0..count as usize {
        let (which, to) = (
            get_at(attributes.cast_const(), index)?,
            get_at(values.cast_const(), index)?,
        );
        if attribute(to, which, at, range).is_err() {
            match which {
                1 | 3 | 4 | 7 | 11 | 12 => give(to.cast(), 0u64)?,
                9 => give(to.cast(), -2i32)?,
                _ => give(to.cast(), 0u32)?,
            }
        }
    }
    Ok(())
}
