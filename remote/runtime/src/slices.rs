//! Copies of slices, between memory with addresses and arrays.

use crate::contexts::bind;
use crate::copies::{CopyKind, CopyOrder, Extent, PitchedPointer, Position};
use crate::driver::RuntimeDriver;
use crate::errors::INVALID_VALUE;
use crate::pointers::{address_of, get};
use crate::{CallResult, arrays};
use cuda_driver::{Copy3d, CuArray, MEMORY_ARRAY};
use std::ffi::c_void;

/// `cudaMemcpy3DParms`. A side has an array or a pointer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Copy3dParameters {
    /// Array of the source.
    pub source_array: CuArray,
    /// Position in the source.
    pub source_position: Position,
    /// Memory of the source.
    pub source: PitchedPointer,
    /// Array of the target.
    pub to_array: CuArray,
    /// Position in the target.
    pub to_position: Position,
    /// Memory of the target.
    pub to: PitchedPointer,
    /// Size.
    pub extent: Extent,
    /// `cudaMemcpyKind`.
    pub kind: u32,
}

impl Copy3dParameters {
    /// Returns the parameters of a copy of consecutive bytes.
    #[must_use]
    pub fn linear(to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) -> Self {
        let start = Position { x: 0, y: 0, z: 0 };
        let row = |at| PitchedPointer {
            at,
            pitch: bytes,
            width: bytes,
            height: 1,
        };
        Self {
            source_array: std::ptr::null_mut(),
            source_position: start,
            source: row(from.cast_mut()),
            to_array: std::ptr::null_mut(),
            to_position: start,
            to: row(to),
            extent: Extent {
                width: bytes,
                height: 1,
                depth: 1,
            },
            kind,
        }
    }

    /// Returns the driver's form. With an array, positions in it and sizes are numbers of its texels.
    pub(crate) fn to_driver(self, driver: &RuntimeDriver) -> CallResult<Copy3d> {
        let texel = |array: CuArray| match array.is_null() {
            true => Ok(None),
            false => {
                let description = arrays::describe(driver, array)?;
                arrays::texel_of(&description).bytes().map(Some)
            }
        };
        let (source_texel, to_texel) = (texel(self.source_array)?, texel(self.to_array)?);
        let (mut source_kind, mut to_kind) = CopyKind::parse(self.kind)?.memory_types();
        match (source_texel, to_texel) {
            (Some(source), Some(to)) if source != to => return Err(INVALID_VALUE),
            (Some(_), Some(_)) => {}
            (Some(_), None) => to_kind = arrays::target_of(self.kind)?,
            (None, Some(_)) => source_kind = arrays::source_of(self.kind)?,
            (None, None) => {}
        }
        // A side is an array or an address, and not both.
        let is_possible = |array: *mut c_void, at: *mut c_void| array.is_null() != at.is_null();
        if !is_possible(self.source_array, self.source.at) || !is_possible(self.to_array, self.to.at) {
            return Err(INVALID_VALUE);
        }
        let bytes = |count: usize, texel: Option<usize>| count.checked_mul(texel.unwrap_or(1)).ok_or(INVALID_VALUE);
        let source_x = bytes(self.source_position.x, source_texel)?;
        let to_x = bytes(self.to_position.x, to_texel)?;
        let width = bytes(self.extent.width, source_texel.or(to_texel))?;
        if source_texel.is_some() {
            source_kind = MEMORY_ARRAY;
        }
        if to_texel.is_some() {
            to_kind = MEMORY_ARRAY;
        }
        let none = std::ptr::null_mut();
        Ok(Copy3d {
            source_x,
            source_y: self.source_position.y,
            source_z: self.source_position.z,
            source_level: 0,
            source_kind,
            source_host: self.source.at,
            source_device: address_of(self.source.at),
            source_array: self.source_array,
            reserved0: none,
            source_pitch: self.source.pitch,
            source_height: self.source.height,
            to_x,
            to_y: self.to_position.y,
            to_z: self.to_position.z,
            to_level: 0,
            to_kind,
            to_host: self.to.at,
            to_device: address_of(self.to.at),
            to_array: self.to_array,
            reserved1: none,
            to_pitch: self.to.pitch,
            to_height: self.to.height,
            width,
            height: self.extent.height,
            depth: self.extent.depth,
        })
    }
}

/// `cudaMemcpy3D` and `cudaMemcpy3DAsync`.
pub fn copy_slices(parameters: *const Copy3dParameters, order: CopyOrder) -> CallResult {
    let parameters = get(parameters)?;
    let driver = bind()?;
    let copy = parameters.to_driver(driver)?;
    if copy.width == 0 || copy.height == 0 || copy.depth == 0 {
        return Ok(());
    }
    match order.stream() {
        None => driver.cuMemcpy3D_v2(&raw const copy)?,
        Some(stream) => driver.cuMemcpy3DAsync_v2(&raw const copy, stream)?,
    }
    order.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_parameters_have_the_size_of_the_header() {
        assert_eq!(size_of::<Copy3dParameters>(), 160);
        assert_eq!(std::mem::offset_of!(Copy3dParameters, kind), 152);
    }
}
