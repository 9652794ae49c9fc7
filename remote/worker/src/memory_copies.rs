//! Copies of boxes between host memory, device memory and arrays.
#![allow(unsafe_code, reason = "calls of the driver with addresses of shared memory")]

use crate::call_error::{CallError, CallResult};
use crate::copies::refuse_capture;
use crate::forms::{DriverHandle as _, find_object};
use crate::host_memory;
use crate::session::Scope;
use cuda_driver::{
    Copy3d, CuArray, CuDevicePtr, CuStream, INVALID_VALUE, MEMORY_ARRAY, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED,
    NOT_SUPPORTED,
};
use remote_calls::message::{MemoryCopy, MemoryPlace, MemorySide};
use remote_calls::{Decoder, HandleKind};
use std::ffi::c_void;

/// Memory of a side, for the driver.
struct Place {
    kind: u32,
    host: *mut c_void,
    device: CuDevicePtr,
    array: CuArray,
}

fn place_of(scope: &Scope<'_>, side: &MemorySide, copy: &MemoryCopy) -> CallResult<Place> {
    let null = std::ptr::null_mut();
    Ok(match side.place {
        MemoryPlace::Window(offset) => {
            let reach = side.reach(copy).ok_or(CallError::Result(INVALID_VALUE))?;
            Place {
                kind: MEMORY_HOST,
                host: host_memory::pointer(scope, offset, reach)?,
                device: 0,
                array: null,
            }
        }
        MemoryPlace::Device(device) => Place {
            kind: MEMORY_DEVICE,
            host: null,
            device,
            array: null,
        },
        MemoryPlace::Array(number) => Place {
            kind: MEMORY_ARRAY,
            host: null,
            device: 0,
            array: CuArray::from_object(find_object(scope, HandleKind::Array, number)?),
        },
    })
}

/// Returns a copy for the driver.
///
/// # Errors
/// If a range of host memory is not in the window, or an array is unknown.
pub fn to_driver(scope: &Scope<'_>, copy: &MemoryCopy) -> CallResult<Copy3d> {
    let (source, target) = (
        place_of(scope, &copy.source, copy)?,
        place_of(scope, &copy.target, copy)?,
    );
    let size = |value: u64| usize::try_from(value).map_err(|_| CallError::Result(INVALID_VALUE));
    Ok(Copy3d {
        source_x: size(copy.source.x)?,
        source_y: size(copy.source.y)?,
        source_z: size(copy.source.z)?,
        source_level: size(copy.source.level)?,
        source_kind: source.kind,
        source_host: source.host,
        source_device: source.device,
        source_array: source.array,
        reserved0: std::ptr::null_mut(),
        source_pitch: size(copy.source.pitch)?,
        source_height: size(copy.source.layer_rows)?,
        to_x: size(copy.target.x)?,
        to_y: size(copy.target.y)?,
        to_z: size(copy.target.z)?,
        to_level: size(copy.target.level)?,
        to_kind: target.kind,
        to_host: target.host,
        to_device: target.device,
        to_array: target.array,
        reserved1: std::ptr::null_mut(),
        to_pitch: size(copy.target.pitch)?,
        to_height: size(copy.target.layer_rows)?,
        width: size(copy.width)?,
        height: size(copy.height)?,
        depth: size(copy.depth)?,
    })
}

/// Returns a copy that the driver described.
///
/// # Errors
/// `NOT_SUPPORTED` if a side is memory that the program does not know.
pub fn from_driver(scope: &Scope<'_>, copy: &Copy3d) -> CallResult<MemoryCopy> {
    let place = |kind: u32, host: *const c_void, device: CuDevicePtr, array: CuArray| {
        let window = |at| host_memory::offset(scope, at).map(MemoryPlace::Window);
        let place = match kind {
            MEMORY_HOST => window(host.addr() as u64),
            MEMORY_DEVICE => Some(MemoryPlace::Device(device)),
            MEMORY_UNIFIED => Some(window(device).unwrap_or(MemoryPlace::Device(device))),
            MEMORY_ARRAY => {
                let number = scope.session.handles.find_number(HandleKind::Array, array.object());
                number.map(MemoryPlace::Array)
            }
            _ => None,
        };
        place.ok_or(CallError::Result(NOT_SUPPORTED))
    };
    Ok(MemoryCopy {
        source: MemorySide {
            place: place(
                copy.source_kind,
                copy.source_host,
                copy.source_device,
                copy.source_array,
            )?,
            x: copy.source_x as u64,
            y: copy.source_y as u64,
            z: copy.source_z as u64,
            level: copy.source_level as u64,
            pitch: copy.source_pitch as u64,
            layer_rows: copy.source_height as u64,
        },
        target: MemorySide {
            place: place(copy.to_kind, copy.to_host, copy.to_device, copy.to_array)?,
            x: copy.to_x as u64,
            y: copy.to_y as u64,
            z: copy.to_z as u64,
            level: copy.to_level as u64,
            pitch: copy.to_pitch as u64,
            layer_rows: copy.to_height as u64,
        },
        width: copy.width as u64,
        height: copy.height as u64,
        depth: copy.depth as u64,
    })
}

/// Copies a box, and waits for it where the program does.
///
/// # Errors
/// If the message is invalid, or the driver refuses the copy.
pub fn copy(scope: &Scope<'_>, decoder: &mut Decoder<'_>, is_waited_for: bool) -> CallResult {
    let stream = decoder.read()?;
    let copy = MemoryCopy::read(decoder)?;
    decoder.finish()?;
    let stream = CuStream::from_object(find_object(scope, HandleKind::Stream, stream)?);
    let is_to_host = matches!(copy.target.place, MemoryPlace::Window(_));
    let copy = to_driver(scope, &copy)?;
    let driver = &scope.session.driver;
    if is_waited_for {
        refuse_capture(scope, stream)?;
    }
    // SAFETY: host ranges are in the window, which stays mapped.
    unsafe {
        driver.cuMemcpy3DAsync_v2(&raw const copy, stream)?;
        if is_waited_for {
            driver.cuStreamSynchronize(stream)?;
        } else if is_to_host {
            scope.note_host_copy(stream);
        }
    }
    Ok(())
}
