//! Variables of device code: their addresses and sizes.

use crate::contexts::{bind, current, generation};
use crate::errors::{INVALID_SYMBOL, INVALID_VALUE, SYMBOL_NOT_FOUND};
use crate::pointers::{pointer_of, put};
use crate::registration::{SymbolLocation, variable};
use crate::{CallResult, lock};
use cuda_driver::CuDevicePtr;
use std::ffi::c_void;

/// Returns the location of a variable in the current context.
pub fn locate(symbol: *const c_void) -> CallResult<SymbolLocation> {
    let variable = variable(symbol)?;
    let driver = bind()?;
    let (generation, context) = (generation(), current()?.addr());
    let mut known = lock(&variable.location);
    if let Some(location) = known.filter(|l| l.generation == generation && l.context == context) {
        return Ok(location);
    }
    let library = variable.library()?;
    let (mut address, mut bytes) = (0, 0);
    driver
        .cuLibraryGetGlobal(&raw mut address, &raw mut bytes, library, variable.name.as_ptr())
        .map_err(|code| if code == SYMBOL_NOT_FOUND { INVALID_SYMBOL } else { code })?;
    let location = SymbolLocation {
        generation,
        context,
        address,
        bytes,
    };
    *known = Some(location);
    Ok(location)
}

/// Returns the address of a range of bytes in a variable.
pub fn locate_range(symbol: *const c_void, bytes: usize, offset: usize) -> CallResult<CuDevicePtr> {
    let location = locate(symbol)?;
    match offset.checked_add(bytes) {
        Some(end) if end <= location.bytes => Ok(location.address + offset as u64),
        _ => Err(INVALID_VALUE),
    }
}

/// `cudaGetSymbolAddress`.
pub fn write_address(to: *mut *mut c_void, symbol: *const c_void) -> CallResult {
    put(to, pointer_of(locate(symbol)?.address))
}

/// `cudaGetSymbolSize`.
pub fn write_size(to: *mut usize, symbol: *const c_void) -> CallResult {
    put(to, locate(symbol)?.bytes)
}
