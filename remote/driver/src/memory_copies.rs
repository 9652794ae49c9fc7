//! Copies of boxes: between host memory, device memory and arrays.

use crate::copies::CopyStream;
use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::{AbiHandle as _, handle_number};
use crate::host_memory::{self, WindowMemory};
use crate::pointers::{bytes, get, result_bytes};
use crate::request::Request;
use crate::{CallResult, connection, copies};
use cuda_driver::{
    Copy2d, Copy3d, CuArray, CuDevicePtr, INVALID_VALUE, MEMORY_ARRAY, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED,
};
use remote_calls::message::{MemoryCopy, MemoryPlace, MemorySide};
use remote_calls::{CallId, HandleKind};
use std::ffi::c_void;

/// One side of a copy, as the program describes it.
struct ProgramSide {
    /// `CUmemorytype`.
    kind: u32,
    host: *const c_void,
    device: CuDevicePtr,
    array: CuArray,
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    pitch: usize,
    layer_rows: usize,
}

/// A side of a copy, and memory of the program that the worker does not map.
pub struct DescribedSide {
    /// The side.
    pub side: MemorySide,
    /// Address of the program's memory; the side's place is not valid then.
    pub unmapped: Option<u64>,
}

impl ProgramSide {
    fn describe(&self, copy: &MemoryCopy) -> CallResult<DescribedSide> {
        let number = |value: usize| value as u64;
        let mut side = MemorySide {
            place: MemoryPlace::Device(self.device),
            x: number(self.x),
            y: number(self.y),
            z: number(self.z),
            level: number(self.level),
            pitch: number(self.pitch),
            layer_rows: number(self.layer_rows),
        };
        // One row needs no pitch, and one layer needs no height.
        if side.pitch == 0 {
            side.pitch = side.x.checked_add(copy.width).ok_or(INVALID_VALUE)?;
        }
        if side.layer_rows == 0 {
            side.layer_rows = side.y.checked_add(copy.height).ok_or(INVALID_VALUE)?;
        }
        let host = |mut side: MemorySide, at: u64| {
            let reach = side.reach(copy).ok_or(INVALID_VALUE)?;
            let unmapped = match host_memory::window_offset(at, reach.max(1)) {
                Some(offset) => {
                    side.place = MemoryPlace::Window(offset);
                    None
                }
                None => Some(at),
            };
            Ok(DescribedSide { side, unmapped })
        };
        match self.kind {
            MEMORY_HOST => host(side, self.host.addr() as u64),
            MEMORY_DEVICE => Ok(DescribedSide { side, unmapped: None }),
            // Memory of the window is host memory too: a relay sends what a copy reads there.
            MEMORY_UNIFIED if host_memory::find(self.device).is_some() || copies::is_only_here(self.device) => {
                host(side, self.device)
            }
            MEMORY_UNIFIED => Ok(DescribedSide { side, unmapped: None }),
            MEMORY_ARRAY => {
                side.place = MemoryPlace::Array(handle_number(HandleKind::Array, self.array)?);
                Ok(DescribedSide { side, unmapped: None })
            }
            _ => Err(INVALID_VALUE),
        }
    }
}

/// A copy with both sides described.
pub struct DescribedCopy {
    /// The copy; places of unmapped sides are not valid.
    pub copy: MemoryCopy,
    /// Address of the source, if the worker does not map it.
    pub unmapped_source: Option<u64>,
    /// Address of the target, if the worker does not map it.
    pub unmapped_target: Option<u64>,
}

/// Describes a copy of the program.
///
/// # Errors
/// `INVALID_VALUE` for kinds and sizes that no copy has.
pub fn describe(form: &Copy3d) -> CallResult<DescribedCopy> {
    let nowhere = MemorySide {
        place: MemoryPlace::Device(0),
        x: 0,
        y: 0,
        z: 0,
        level: 0,
        pitch: 0,
        layer_rows: 0,
    };
    let mut copy = MemoryCopy {
        source: nowhere,
        target: nowhere,
        width: form.width as u64,
        height: form.height as u64,
        depth: form.depth as u64,
    };
    let source = ProgramSide {
        kind: form.source_kind,
        host: form.source_host,
        device: form.source_device,
        array: form.source_array,
        x: form.source_x,
        y: form.source_y,
        z: form.source_z,
        level: form.source_level,
        pitch: form.source_pitch,
        layer_rows: form.source_height,
    }
    .describe(&copy)?;
    let target = ProgramSide {
        kind: form.to_kind,
        host: form.to_host,
        device: form.to_device,
        array: form.to_array,
        x: form.to_x,
        y: form.to_y,
        z: form.to_z,
        level: form.to_level,
        pitch: form.to_pitch,
        layer_rows: form.to_height,
    }
    .describe(&copy)?;
    (copy.source, copy.target) = (source.side, target.side);
    Ok(DescribedCopy {
        copy,
        unmapped_source: source.unmapped,
        unmapped_target: target.unmapped,
    })
}

/// Returns a copy that the worker described, for the program.
///
/// # Errors
/// `DEVICE_UNAVAILABLE` for a place that is not in the window, or sizes that no memory has.
pub fn to_program(copy: &MemoryCopy) -> CallResult<Copy3d> {
    let window = connection::current()?.window();
    let size = |value: u64| usize::try_from(value).map_err(|_| DEVICE_UNAVAILABLE);
    let null = std::ptr::null_mut::<c_void>();
    let place = |place: MemoryPlace| -> CallResult<(u32, *mut c_void, CuDevicePtr, CuArray)> {
        Ok(match place {
            MemoryPlace::Window(offset) => {
                let host = window.pointer(offset, 0).map_err(|_| DEVICE_UNAVAILABLE)?;
                (MEMORY_HOST, host.cast::<c_void>(), 0, null)
            }
            MemoryPlace::Device(at) => (MEMORY_DEVICE, null, at, null),
            MemoryPlace::Array(array) => (MEMORY_ARRAY, null, 0, CuArray::from_number(array)),
        })
    };
    let (source_kind, source_host, source_device, source_array) = place(copy.source.place)?;
    let (to_kind, to_host, to_device, to_array) = place(copy.target.place)?;
    Ok(Copy3d {
        source_x: size(copy.source.x)?,
        source_y: size(copy.source.y)?,
        source_z: size(copy.source.z)?,
        source_level: size(copy.source.level)?,
        source_kind,
        source_host,
        source_device,
        source_array,
        reserved0: null,
        source_pitch: size(copy.source.pitch)?,
        source_height: size(copy.source.layer_rows)?,
        to_x: size(copy.target.x)?,
        to_y: size(copy.target.y)?,
        to_z: size(copy.target.z)?,
        to_level: size(copy.target.level)?,
        to_kind,
        to_host,
        to_device,
        to_array,
        reserved1: null,
        to_pitch: size(copy.target.pitch)?,
        to_height: size(copy.target.layer_rows)?,
        width: size(copy.width)?,
        height: size(copy.height)?,
        depth: size(copy.depth)?,
    })
}

/// Packs or unpacks the rows of a side: calls `row` with the address of each row in the program's memory and its offset
/// in packed memory.
fn each_row(
    side: &MemorySide,
    copy: &MemoryCopy,
    first: u64,
    mut row: impl FnMut(u64, u64) -> CallResult,
) -> CallResult {
    let mut packed = 0;
    for layer in 0..copy.depth {
        for line in 0..copy.height {
            let rows = (side.z + layer) * side.layer_rows + side.y + line;
            row(first + rows * side.pitch + side.x, packed)?;
            packed += copy.width;
        }
    }
    Ok(())
}

/// Returns the side of packed rows in the window.
const fn packed_side(offset: u64, copy: &MemoryCopy) -> MemorySide {
    MemorySide {
        place: MemoryPlace::Window(offset),
        x: 0,
        y: 0,
        z: 0,
        level: 0,
        pitch: copy.width,
        layer_rows: copy.height,
    }
}

/// Copies a box.
pub fn copy(form: &Copy3d, stream: CopyStream) -> CallResult {
    let DescribedCopy {
        mut copy,
        unmapped_source,
        unmapped_target,
    } = describe(form)?;
    if copy.width == 0 || copy.height == 0 || copy.depth == 0 {
        return Ok(());
    }
    let size = copy
        .width
        .checked_mul(copy.height)
        .and_then(|n| n.checked_mul(copy.depth))
        .ok_or(INVALID_VALUE)?;
    let width = copy.width as usize;
    let pointer = |at: u64| std::ptr::with_exposed_provenance_mut::<c_void>(at as usize);
    let mut source = None;
    if let Some(first) = unmapped_source {
        let packed = WindowMemory::new(size)?;
        let target = packed.pointer()?;
        each_row(&copy.source, &copy, first, |at, offset| {
            let row = bytes(pointer(at), width)?;
            result_bytes(target.wrapping_byte_add(offset as usize), width)?.copy_from_slice(row);
            Ok(())
        })?;
        copy.source = packed_side(packed.offset(), &copy);
        source = Some(packed);
    }
    let mut target = None;
    if unmapped_target.is_some() {
        let packed = WindowMemory::new(size)?;
        target = Some((packed, copy.target));
    }
    if let Some((packed, _)) = &target {
        copy.target = packed_side(packed.offset(), &copy);
    }
    let is_waited_for = !stream.is_asynchronous() || source.is_some() || target.is_some();
    let call = match is_waited_for {
        true => CallId::copy_memory,
        false => CallId::begin_copy_memory,
    };
    let mut request = Request::new(call, false)?;
    request.encoder.write(stream.number()?);
    copy.write(&mut request.encoder);
    request.ask()?;
    if let (Some((packed, side)), Some(first)) = (&target, unmapped_target) {
        let from = packed.pointer()?;
        each_row(side, &copy, first, |at, offset| {
            let row = bytes(from.wrapping_byte_add(offset as usize), width)?;
            result_bytes(pointer(at), width)?.copy_from_slice(row);
            Ok(())
        })?;
    }
    drop(source);
    Ok(())
}

/// Returns a two-dimensional copy as one of a box.
pub const fn box_of(form: &Copy2d) -> Copy3d {
    Copy3d {
        source_x: form.source_x,
        source_y: form.source_y,
        source_z: 0,
        source_level: 0,
        source_kind: form.source_kind,
        source_host: form.source_host,
        source_device: form.source_device,
        source_array: form.source_array,
        reserved0: std::ptr::null_mut(),
        source_pitch: form.source_pitch,
        source_height: 0,
        to_x: form.to_x,
        to_y: form.to_y,
        to_z: 0,
        to_level: 0,
        to_kind: form.to_kind,
        to_host: form.to_host,
        to_device: form.to_device,
        to_array: form.to_array,
        reserved1: std::ptr::null_mut(),
        to_pitch: form.to_pitch,
        to_height: 0,
        width: form.width,
        height: form.height,
        depth: 1,
    }
}

/// `cuMemcpy2D` and its relatives.
pub fn copy_2d(form: *const Copy2d, stream: CopyStream) -> CallResult {
    copy(&box_of(&get(form)?), stream)
}

/// `cuMemcpy3D` and its relatives.
pub fn copy_3d(form: *const Copy3d, stream: CopyStream) -> CallResult {
    copy(&get(form)?, stream)
}
