//! Calls that copy: between host and device, of rows and slices, immediate or in a stream's order.

use crate::call::Call;
use crate::codes::INVALID_VALUE;
use crate::context::Context;
use crate::graphs::Work;
use crate::pointers::{get, get_at, give_if_wanted};
use crate::streams::Stream;
use crate::transfer::{Side, Transfer};
use crate::{Answer, capture};
use cuda_driver::{Copy2d, Copy3d, CuArray, CuDevicePtr, CuStream};
use std::ffi::c_void;
use std::sync::Arc;

/// The time at which a call returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyReturn {
    /// When the copy is done, if it includes host memory.
    WhenDone,
    /// When the copy is queued, if the driver knows the host memory.
    WhenQueued,
}

fn copy(context: &Context, stream: &Arc<Stream>, transfer: Transfer, back: CopyReturn) -> Answer {
    if back == CopyReturn::WhenDone {
        capture::refuse_capturing(stream)?;
    }
    transfer.check()?;
    if capture::capture_work(context, stream, || Work::Copy(transfer.clone()))? {
        return Ok(());
    }
    let to_pageable = transfer.to.is_pageable();
    let waits = to_pageable || back == CopyReturn::WhenDone && !(transfer.to.device && transfer.from.device);
    let done = if !waits && transfer.from.is_pageable() {
        // The driver takes the bytes before the call returns.
        let (bytes, staged) = transfer.stage();
        context.submit(stream, Vec::new(), move |_| {
            let done = staged.run();
            drop(bytes);
            done
        })
    } else {
        context.submit(stream, Vec::new(), move |_| transfer.run())
    };
    if waits {
        done.wait();
        context.check()?;
    }
    Ok(())
}

fn now(call: &Call, transfer: Transfer) -> Answer {
    let (context, stream) = call.default_stream()?;
    copy(&context, &stream, transfer, CopyReturn::WhenDone)
}

fn later(call: &Call, transfer: Transfer, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    copy(&context, &stream, transfer, CopyReturn::WhenQueued)
}

fn any(to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Transfer {
    Transfer::linear(Side::any(to), Side::any(from), bytes)
}

fn to_device(to: CuDevicePtr, from: *const c_void, bytes: usize) -> Transfer {
    Transfer::linear(Side::linear(true, to), Side::linear(false, from as u64), bytes)
}

fn to_host(to: *mut c_void, from: CuDevicePtr, bytes: usize) -> Transfer {
    Transfer::linear(Side::linear(false, to as u64), Side::linear(true, from), bytes)
}

fn on_device(to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Transfer {
    Transfer::linear(Side::linear(true, to), Side::linear(true, from), bytes)
}

fn rows(c: *const Copy2d) -> Answer<Transfer> {
    let c = get(c)?;
    Transfer::from_copy3d(&Copy3d {
        source_x: c.source_x,
        source_y: c.source_y,
        source_z: 0,
        source_level: 0,
        source_kind: c.source_kind,
        source_host: c.source_host,
        source_device: c.source_device,
        source_array: c.source_array,
        reserved0: std::ptr::null_mut(),
        source_pitch: c.source_pitch,
        source_height: 0,
        to_x: c.to_x,
        to_y: c.to_y,
        to_z: 0,
        to_level: 0,
        to_kind: c.to_kind,
        to_host: c.to_host,
        to_device: c.to_device,
        to_array: c.to_array,
        reserved1: std::ptr::null_mut(),
        to_pitch: c.to_pitch,
        to_height: 0,
        width: c.width,
        height: c.height,
        depth: 1,
    })
}

pub fn cuMemcpy(call: &Call, to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Answer {
    now(call, any(to, from, bytes))
}

pub fn cuMemcpyAsync(call: &Call, to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) -> Answer {
    later(call, any(to, from, bytes), stream)
}

/// Copies a batch; attributes of the sources have no effect here.
#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuMemcpyBatchAsync_v2(
    call: &Call,
    to: *mut CuDevicePtr,
    from: *mut CuDevicePtr,
    bytes: *mut usize,
    count: usize,
    _attributes: *mut c_void,
    _places: *mut usize,
    _attribute_count: usize,
    stream: CuStream,
) -> Answer {
    if count == 0 {
        return Err(INVALID_VALUE);
    }
    (0..count).try_for_each(|n| {
        let (to, from) = (get_at(to.cast_const(), n)?, get_at(from.cast_const(), n)?);
        cuMemcpyAsync(call, to, from, get_at(bytes.cast_const(), n)?, stream)
    })
}

/// Copies a batch by the function's first version, which also returns the index of the failed copy, if one failed by
/// itself.
#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuMemcpyBatchAsync(
    call: &Call,
    to: *mut CuDevicePtr,
    from: *mut CuDevicePtr,
    bytes: *mut usize,
    count: usize,
    attributes: *mut c_void,
    places: *mut usize,
    attribute_count: usize,
    failed: *mut usize,
    stream: CuStream,
) -> Answer {
    give_if_wanted(failed, usize::MAX);
    cuMemcpyBatchAsync_v2(
        call,
        to,
        from,
        bytes,
        count,
        attributes,
        places,
        attribute_count,
        stream,
    )
}

pub fn cuMemcpyHtoD_v2(call: &Call, to: CuDevicePtr, from: *const c_void, bytes: usize) -> Answer {
    now(call, to_device(to, from, bytes))
}

pub fn cuMemcpyHtoDAsync_v2(
    call: &Call,
    to: CuDevicePtr,
    from: *const c_void,
    bytes: usize,
    stream: CuStream,
) -> Answer {
    later(call, to_device(to, from, bytes), stream)
}

pub fn cuMemcpyDtoH_v2(call: &Call, to: *mut c_void, from: CuDevicePtr, bytes: usize) -> Answer {
    now(call, to_host(to, from, bytes))
}

pub fn cuMemcpyDtoHAsync_v2(call: &Call, to: *mut c_void, from: CuDevicePtr, bytes: usize, stream: CuStream) -> Answer {
    later(call, to_host(to, from, bytes), stream)
}

pub fn cuMemcpyDtoD_v2(call: &Call, to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Answer {
    now(call, on_device(to, from, bytes))
}

pub fn cuMemcpyDtoDAsync_v2(call: &Call, to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) -> Answer {
    later(call, on_device(to, from, bytes), stream)
}

pub fn cuMemcpy2D_v2(call: &Call, c: *const Copy2d) -> Answer {
    now(call, rows(c)?)
}

pub fn cuMemcpy2DUnaligned_v2(call: &Call, c: *const Copy2d) -> Answer {
    now(call, rows(c)?)
}

pub fn cuMemcpy2DAsync_v2(call: &Call, c: *const Copy2d, stream: CuStream) -> Answer {
    later(call, rows(c)?, stream)
}

pub fn cuMemcpy3D_v2(call: &Call, c: *const Copy3d) -> Answer {
    now(call, Transfer::from_copy3d(&get(c)?)?)
}

pub fn cuMemcpy3DAsync_v2(call: &Call, c: *const Copy3d, stream: CuStream) -> Answer {
    later(call, Transfer::from_copy3d(&get(c)?)?, stream)
}

pub fn cuMemcpyHtoA_v2(call: &Call, to: CuArray, offset: usize, from: *const c_void, bytes: usize) -> Answer {
    let from = Side::linear(false, from as u64);
    now(call, Transfer::linear(Side::of_array(to, offset, bytes)?, from, bytes))
}

pub fn cuMemcpyHtoAAsync_v2(
    call: &Call,
    to: CuArray,
    offset: usize,
    from: *const c_void,
    bytes: usize,
    stream: CuStream,
) -> Answer {
    let from = Side::linear(false, from as u64);
    later(
        call,
        Transfer::linear(Side::of_array(to, offset, bytes)?, from, bytes),
        stream,
    )
}

pub fn cuMemcpyAtoH_v2(call: &Call, to: *mut c_void, from: CuArray, offset: usize, bytes: usize) -> Answer {
    let to = Side::linear(false, to as u64);
    now(call, Transfer::linear(to, Side::of_array(from, offset, bytes)?, bytes))
}

pub fn cuMemcpyAtoHAsync_v2(
    call: &Call,
    to: *mut c_void,
    from: CuArray,
    offset: usize,
    bytes: usize,
    stream: CuStream,
) -> Answer {
    let to = Side::linear(false, to as u64);
    later(
        call,
        Transfer::linear(to, Side::of_array(from, offset, bytes)?, bytes),
        stream,
    )
}

pub fn cuMemcpyDtoA_v2(call: &Call, to: CuArray, offset: usize, from: CuDevicePtr, bytes: usize) -> Answer {
    let from = Side::linear(true, from);
    now(call, Transfer::linear(Side::of_array(to, offset, bytes)?, from, bytes))
}

pub fn cuMemcpyAtoD_v2(call: &Call, to: CuDevicePtr, from: CuArray, offset: usize, bytes: usize) -> Answer {
    let to = Side::linear(true, to);
    now(call, Transfer::linear(to, Side::of_array(from, offset, bytes)?, bytes))
}

pub fn cuMemcpyAtoA_v2(
    call: &Call,
    to: CuArray,
    to_offset: usize,
    from: CuArray,
    from_offset: usize,
    bytes: usize,
) -> Answer {
    let (to, from) = (
        Side::of_array(to, to_offset, bytes)?,
        Side::of_array(from, from_offset, bytes)?,
    );
    now(call, Transfer::linear(to, from, bytes))
}
