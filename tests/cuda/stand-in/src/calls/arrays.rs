//! Calls on arrays of texels.

use crate::call::Call;
use crate::codes::INVALID_VALUE;
use crate::handles::pointer;
use crate::memory::arrays::{ARRAYS, Array, MIPMAPPED_ARRAYS, MipmappedArray, destroy, destroy_mipmapped};
use crate::pointers::{get, give};
use crate::{Answer, lock};
use cuda_driver::{ArrayDescription, CuArray, CuMipmappedArray};
use std::ffi::c_void;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[derive(Clone, Copy)]
#[repr(C)]
struct PlaneDescription {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

pub fn cuArrayCreate_v2(call: &Call, to: *mut CuArray, description: *const c_void) -> Answer {
    let d = get(description.cast::<PlaneDescription>())?;
    let description = ArrayDescription {
        width: d.width,
        height: d.height,
        depth: 0,
        format: d.format,
        channels: d.channels,
        flags: 0,
    };
    cuArray3DCreate_v2(call, to, (&raw const description).cast())
}

pub fn cuArray3DCreate_v2(call: &Call, to: *mut CuArray, description: *const c_void) -> Answer {
    let context = call.context()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let array = Array::make(get(description.cast())?, context.handle, 0)?;
    give(to, pointer(array.handle))
}

pub fn cuArrayDestroy(call: &Call, array: CuArray) -> Answer {
    call.context()?.synchronize()?;
    destroy(array)
}

pub fn cuArrayGetDescriptor_v2(call: &Call, to: *mut c_void, array: CuArray) -> Answer {
    call.context()?;
    let d = ARRAYS.get(array)?.description;
    let description = PlaneDescription {
        width: d.width,
        height: d.height,
        format: d.format,
        channels: d.channels,
    };
    give(to.cast(), description)
}

pub fn cuArray3DGetDescriptor_v2(call: &Call, to: *mut c_void, array: CuArray) -> Answer {
    call.context()?;
    give(to.cast(), ARRAYS.get(array)?.description)
}

pub fn cuMipmappedArrayCreate(
    call: &Call,
    to: *mut CuMipmappedArray,
    description: *const c_void,
    levels: u32,
) -> Answer {
    let context = call.context()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let array = MipmappedArray::make(get(description.cast())?, levels, context.handle)?;
    give(to, pointer(array.handle))
}

pub fn cuMipmappedArrayGetLevel(call: &Call, to: *mut CuArray, array: CuMipmappedArray, level: u32) -> Answer {
    call.context()?;
    let array = MIPMAPPED_ARRAYS.get(array)?;
    let level = lock(&array.levels).get(level as usize).copied();
    give(to, pointer(level.ok_or(INVALID_VALUE)?))
}

pub fn cuMipmappedArrayDestroy(call: &Call, array: CuMipmappedArray) -> Answer {
    call.context()?.synchronize()?;
    destroy_mipmapped(array)
}
