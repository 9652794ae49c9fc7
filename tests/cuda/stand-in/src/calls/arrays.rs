//! Calls on arrays of texels. Textures and surfaces are not supported.

use crate::Answer;
use crate::call::Call;
use crate::codes::{INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY};
use crate::handles::pointer;
use crate::memory::arrays::{ARRAYS, Array};
use crate::pointers::{get, give};
use cuda_driver::{CuArray, CuObject};
use std::ffi::c_void;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Description {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

pub fn cuArrayCreate_v2(call: &Call, to: *mut CuArray, description: *const c_void) -> Answer {
    call.context()?;
    let d = get(description.cast::<Description>())?;
    let element = match d.format {
        1 | 8 => 1,
        2 | 9 | 16 => 2,
        3 | 10 | 32 => 4,
        _ => return Err(INVALID_VALUE),
    };
    if d.width == 0 || !matches!(d.channels, 1 | 2 | 4) {
        return Err(INVALID_VALUE);
    }
    let row = (d.width as u64)
        .checked_mul(element * u64::from(d.channels))
        .ok_or(OUT_OF_MEMORY)?;
    let bytes = row.checked_mul(d.height.max(1) as u64).ok_or(OUT_OF_MEMORY)?;
    give(to, pointer(Array::make(row, bytes)?.handle))
}

pub fn cuArray3DCreate_v2(_: &Call, _to: *mut CuArray, _description: *const c_void) -> Answer {
    Err(NOT_SUPPORTED)
}

pub fn cuArrayDestroy(call: &Call, array: CuArray) -> Answer {
    call.context()?.synchronize()?;
    ARRAYS.take(array).map(drop)
}

pub fn cuTexObjectCreate(
    _: &Call,
    _to: *mut CuObject,
    _resource: *const c_void,
    _texture: *const c_void,
    _view: *const c_void,
) -> Answer {
    Err(NOT_SUPPORTED)
}

pub fn cuTexObjectDestroy(_: &Call, _object: CuObject) -> Answer {
    Err(NOT_SUPPORTED)
}

pub fn cuSurfObjectCreate(_: &Call, _to: *mut CuObject, _resource: *const c_void) -> Answer {
    Err(NOT_SUPPORTED)
}
