//! Copies: between host and device, of rows and slices, immediate or in a stream's order.

use crate::call::Call;
use crate::codes::{ILLEGAL_ADDRESS, INVALID_VALUE};
use crate::context::Context;
use crate::graphs::capture;
use crate::graphs::nodes::Work;
use crate::memory::arrays::ARRAYS;
use crate::memory::{Span, find_containing, ranges, spans};
use crate::pointers::{get, get_at, give_if_wanted};
use crate::streams::{Stream, submit};
use crate::{Answer, memory};
use cuda_driver::{
    Copy2d, Copy3d, CuArray, CuDevicePtr, CuStream, MEMORY_ARRAY, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED,
};
use std::ffi::c_void;
use std::sync::Arc;

/// One side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    /// Whether the device knows the memory. Otherwise, it is the program's own memory.
    device: bool,
    /// First address.
    at: u64,
    /// Bytes from one row to the next.
    pitch: u64,
    /// Bytes from one slice to the next.
    slice: u64,
}

/// A copy.
#[derive(Clone, Debug)]
pub struct Transfer {
    to: Side,
    from: Side,
    width: u64,
    height: u64,
    depth: u64,
}

impl Side {
    fn linear(device: bool, at: u64) -> Self {
        Self {
            device,
            at,
            pitch: 0,
            slice: 0,
        }
    }

    /// Returns the side for an address. The driver determines the kind of its memory.
    fn any(at: u64) -> Self {
        Self::linear(find_containing(&ranges(), at).is_some(), at)
    }

    fn row(&self, y: u64, z: u64) -> Option<u64> {
        let rows = self.pitch.checked_mul(y)?;
        let slices = self.slice.checked_mul(z)?;
        self.at.checked_add(rows)?.checked_add(slices)
    }

    /// Returns the location of a row in this process.
    fn spans(
        &self,
        ranges: &memory::Ranges,
        y: u64,
        z: u64,
        width: u64,
        write: bool,
        otherwise: u32,
    ) -> Answer<Vec<Span>> {
        let at = self.row(y, z).ok_or(INVALID_VALUE)?;
        if self.device {
            spans(ranges, at, width, write, otherwise)
        } else {
            Ok(vec![Span::of_process(at, width)])
        }
    }
}

impl Transfer {
    fn linear(to: Side, from: Side, bytes: usize) -> Self {
        Self {
            to,
            from,
            width: bytes as u64,
            height: 1,
            depth: 1,
        }
    }

    /// Parses a copy of slices from the driver's structure.
    pub fn from_copy3d(c: &Copy3d) -> Answer<Self> {
        let side = |kind: u32, host: u64, device: u64, array: CuArray, pitch: usize, height: usize, at: [usize; 3]| {
            let (pitch, height) = (pitch as u64, height as u64);
            let base = match kind {
                MEMORY_HOST => Side::linear(false, host),
                MEMORY_DEVICE => Side::linear(true, device),
                MEMORY_UNIFIED => Side::any(device),
                MEMORY_ARRAY => {
                    let array = ARRAYS.get(array)?;
                    return Ok(Side {
                        pitch: array.row,
                        at: array.at() + at[0] as u64 + at[1] as u64 * array.row,
                        ..Side::linear(false, 0)
                    });
                }
                _ => return Err(INVALID_VALUE),
            };
            let strided = Side {
                pitch,
                slice: pitch.checked_mul(height).ok_or(INVALID_VALUE)?,
                ..base
            };
            let at = strided
                .row(at[1] as u64, at[2] as u64)
                .and_then(|row| row.checked_add(at[0] as u64));
            Ok(Side {
                at: at.ok_or(INVALID_VALUE)?,
                ..strided
            })
        };
        let transfer = Self {
            from: side(
                c.source_kind,
                c.source_host as u64,
                c.source_device,
                c.source_array,
                c.source_pitch,
                c.source_height,
                [c.source_x, c.source_y, c.source_z],
            )?,
            to: side(
                c.to_kind,
                c.to_host as u64,
                c.to_device,
                c.to_array,
                c.to_pitch,
                c.to_height,
                [c.to_x, c.to_y, c.to_z],
            )?,
            width: c.width as u64,
            height: c.height as u64,
            depth: c.depth as u64,
        };
        Ok(transfer)
    }

    /// Returns the copy as a graph node's structure.
    pub fn to_copy3d(&self) -> Copy3d {
        let kind = |side: &Side| if side.device { MEMORY_DEVICE } else { MEMORY_HOST };
        let host = |side: &Side| if side.device { 0 } else { side.at as usize };
        let device = |side: &Side| if side.device { side.at } else { 0 };
        let height = |side: &Side| side.slice.checked_div(side.pitch).unwrap_or(0) as usize;
        Copy3d {
            source_x: 0,
            source_y: 0,
            source_z: 0,
            source_level: 0,
            source_kind: kind(&self.from),
            source_host: std::ptr::with_exposed_provenance(host(&self.from)),
            source_device: device(&self.from),
            source_array: std::ptr::null_mut(),
            reserved0: std::ptr::null_mut(),
            source_pitch: self.from.pitch as usize,
            source_height: height(&self.from),
            to_x: 0,
            to_y: 0,
            to_z: 0,
            to_level: 0,
            to_kind: kind(&self.to),
            to_host: std::ptr::with_exposed_provenance_mut(host(&self.to)),
            to_device: device(&self.to),
            to_array: std::ptr::null_mut(),
            reserved1: std::ptr::null_mut(),
            to_pitch: self.to.pitch as usize,
            to_height: height(&self.to),
            width: self.width as usize,
            height: self.height as usize,
            depth: self.depth as usize,
        }
    }

    fn rows(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let height = if self.width == 0 { 0 } else { self.height };
        (0..self.depth).flat_map(move |z| (0..height).map(move |y| (y, z)))
    }

    /// Checks that all bytes of both sides are accessible now.
    fn check(&self) -> Answer {
        let ranges = ranges();
        for (y, z) in self.rows() {
            self.to.spans(&ranges, y, z, self.width, true, INVALID_VALUE)?;
            self.from.spans(&ranges, y, z, self.width, false, INVALID_VALUE)?;
        }
        Ok(())
    }

    /// Runs the copy.
    pub fn run(&self) -> Answer {
        // The lock makes a concurrent free wait until the copy is done.
        let ranges = ranges();
        for (y, z) in self.rows() {
            let to = self.to.spans(&ranges, y, z, self.width, true, ILLEGAL_ADDRESS)?;
            let from = self.from.spans(&ranges, y, z, self.width, false, ILLEGAL_ADDRESS)?;
            move_bytes(&to, &from);
        }
        Ok(())
    }

    /// Returns a copy of the source's current bytes, row after row, and a transfer that reads this copy.
    fn stage(&self) -> (Vec<u8>, Self) {
        let mut bytes = Vec::new();
        for (y, z) in self.rows() {
            let at = Span::of_process(self.from.row(y, z).unwrap_or(0), self.width);
            // SAFETY: the program guarantees that this many bytes are readable.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(at.pointer(), self.width as usize) });
        }
        let from = Side {
            device: false,
            at: bytes.as_ptr().expose_provenance() as u64,
            pitch: self.width,
            slice: self.width * self.height,
        };
        (bytes, Self { from, ..self.clone() })
    }

    /// Returns whether one side is program memory that the driver does not know.
    fn is_pageable(side: &Side) -> bool {
        !side.device && find_containing(&ranges(), side.at).is_none_or(|r| !r.kind.is_host())
    }
}

/// Copies bytes between spans of the same length.
fn move_bytes(to: &[Span], from: &[Span]) {
    let (mut to, mut from) = (to.iter().copied(), from.iter().copied());
    let (mut t, mut f) = (to.next(), from.next());
    while let (Some(into), Some(out)) = (t, f) {
        let bytes = into.bytes.min(out.bytes);
        // SAFETY: the table of ranges has both memories, or the program guarantees that they are accessible.
        unsafe { std::ptr::copy(out.pointer(), into.pointer(), bytes as usize) };
        t = if into.bytes > bytes {
            Some(into.skip(bytes))
        } else {
            to.next()
        };
        f = if out.bytes > bytes {
            Some(out.skip(bytes))
        } else {
            from.next()
        };
    }
}

/// The time at which a call returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyReturn {
    /// When the copy is done, if it includes host memory.
    WhenDone,
    /// When the copy is queued, if the driver knows the host memory.
    WhenQueued,
}

fn copy(context: &Arc<Context>, stream: &Arc<Stream>, transfer: Transfer, back: CopyReturn) -> Answer {
    if back == CopyReturn::WhenDone {
        capture::refuse_capturing(stream)?;
    }
    transfer.check()?;
    if capture::capture_work(context, stream, || Work::Copy(transfer.clone()))? {
        return Ok(());
    }
    let to_pageable = Transfer::is_pageable(&transfer.to);
    let waits = to_pageable || back == CopyReturn::WhenDone && !(transfer.to.device && transfer.from.device);
    let done = if !waits && Transfer::is_pageable(&transfer.from) {
        // The driver reads the bytes before the call returns.
        let (bytes, staged) = transfer.stage();
        submit(context, stream, Vec::new(), move |_| {
            let done = staged.run();
            drop(bytes);
            done
        })
    } else {
        submit(context, stream, Vec::new(), move |_| transfer.run())
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

/// Copies a batch. Attributes of the sources have no effect here.
#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuMemcpyBatchAsync_v2(
    call: &Call,
    to: *mut CuDevicePtr,
    from: *mut CuDevicePtr,
    bytes: *mut usize,
    count: usize,
    _attributes: *mut c_void,
    _indices: *mut usize,
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

/// Copies a batch by the function's first version, which also returns the index of a copy that failed by itself.
///
/// No copy fails by itself here.
#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuMemcpyBatchAsync(
    call: &Call,
    to: *mut CuDevicePtr,
    from: *mut CuDevicePtr,
    bytes: *mut usize,
    count: usize,
    attributes: *mut c_void,
    indices: *mut usize,
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
        indices,
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

/// Returns a location in an array, if it has this many bytes there.
fn in_array(array: CuArray, offset: usize, bytes: usize) -> Answer<Side> {
    let array = ARRAYS.get(array)?;
    let end = (offset as u64)
        .checked_add(bytes as u64)
        .filter(|end| *end <= array.bytes);
    end.ok_or(INVALID_VALUE)?;
    Ok(Side::linear(false, array.at() + offset as u64))
}

pub fn cuMemcpyHtoA_v2(call: &Call, to: CuArray, offset: usize, from: *const c_void, bytes: usize) -> Answer {
    let from = Side::linear(false, from as u64);
    now(call, Transfer::linear(in_array(to, offset, bytes)?, from, bytes))
}

pub fn cuMemcpyAtoH_v2(call: &Call, to: *mut c_void, from: CuArray, offset: usize, bytes: usize) -> Answer {
    let to = Side::linear(false, to as u64);
    now(call, Transfer::linear(to, in_array(from, offset, bytes)?, bytes))
}

pub fn cuMemcpyDtoA_v2(call: &Call, to: CuArray, offset: usize, from: CuDevicePtr, bytes: usize) -> Answer {
    let from = Side::linear(true, from);
    now(call, Transfer::linear(in_array(to, offset, bytes)?, from, bytes))
}

pub fn cuMemcpyAtoD_v2(call: &Call, to: CuDevicePtr, from: CuArray, offset: usize, bytes: usize) -> Answer {
    let to = Side::linear(true, to);
    now(call, Transfer::linear(to, in_array(from, offset, bytes)?, bytes))
}
