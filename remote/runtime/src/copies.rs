//! Copies between host and device: bytes, rows and variables, and the sizes of boxes.

use crate::contexts::bind;
use crate::errors::{INVALID_COPY_DIRECTION, INVALID_PITCH};
use crate::pointers::address_of;
use crate::streams::default_stream;
use crate::{CallResult, symbols};
use cuda_driver::{Copy2d, CuStream, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED};
use std::ffi::c_void;

/// `cudaMemcpyKind`: what the two addresses of a copy are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// From host to host memory.
    HostToHost,
    /// From host to device memory.
    HostToDevice,
    /// From device to host memory.
    DeviceToHost,
    /// From device to device memory.
    DeviceToDevice,
    /// The driver finds out.
    Default,
}

impl CopyKind {
    /// Returns the kind with a number of the runtime.
    pub const fn parse(number: u32) -> CallResult<Self> {
        Ok(match number {
            0 => Self::HostToHost,
            1 => Self::HostToDevice,
            2 => Self::DeviceToHost,
            3 => Self::DeviceToDevice,
            4 => Self::Default,
            _ => return Err(INVALID_COPY_DIRECTION),
        })
    }

    /// Returns the driver's memory types of source and destination.
    pub(crate) const fn memory_types(self) -> (u32, u32) {
        match self {
            Self::HostToHost => (MEMORY_HOST, MEMORY_HOST),
            Self::HostToDevice => (MEMORY_HOST, MEMORY_DEVICE),
            Self::DeviceToHost => (MEMORY_DEVICE, MEMORY_HOST),
            Self::DeviceToDevice => (MEMORY_DEVICE, MEMORY_DEVICE),
            Self::Default => (MEMORY_UNIFIED, MEMORY_UNIFIED),
        }
    }
}

/// When a copy call returns, and in which stream the copy runs.
#[derive(Clone, Copy, Debug)]
pub enum CopyOrder {
    /// The call waits, in the default stream of all threads.
    Immediate,
    /// The call waits, in the thread's own default stream.
    ImmediatePerThread,
    /// The call does not wait.
    Queued(CuStream),
}

impl CopyOrder {
    /// Returns the order of a call that waits.
    #[must_use]
    pub const fn immediate(is_per_thread: bool) -> Self {
        if is_per_thread {
            Self::ImmediatePerThread
        } else {
            Self::Immediate
        }
    }

    /// Returns the stream of a copy that is not [`CopyOrder::Immediate`].
    pub(crate) fn stream(self) -> Option<CuStream> {
        match self {
            Self::Immediate => None,
            Self::ImmediatePerThread => Some(default_stream(true)),
            Self::Queued(stream) => Some(stream),
        }
    }

    /// Waits for the copy if the call has to.
    pub(crate) fn finish(self) -> CallResult {
        match self {
            Self::ImmediatePerThread => bind()?.cuStreamSynchronize(default_stream(true)),
            Self::Immediate | Self::Queued(_) => Ok(()),
        }
    }
}

/// `cudaMemcpy` and `cudaMemcpyAsync`.
pub fn copy(to: *mut c_void, from: *const c_void, bytes: usize, kind: u32, order: CopyOrder) -> CallResult {
    let kind = CopyKind::parse(kind)?;
    let driver = bind()?;
    if bytes == 0 {
        return Ok(());
    }
    let (to_address, from_address) = (address_of(to), address_of(from));
    match (kind, order.stream()) {
        (CopyKind::HostToDevice, None) => driver.cuMemcpyHtoD_v2(to_address, from, bytes)?,
        (CopyKind::DeviceToHost, None) => driver.cuMemcpyDtoH_v2(to, from_address, bytes)?,
        (CopyKind::DeviceToDevice, None) => driver.cuMemcpyDtoD_v2(to_address, from_address, bytes)?,
        (CopyKind::HostToHost | CopyKind::Default, None) => driver.cuMemcpy(to_address, from_address, bytes)?,
        (CopyKind::HostToDevice, Some(stream)) => driver.cuMemcpyHtoDAsync_v2(to_address, from, bytes, stream)?,
        (CopyKind::DeviceToHost, Some(stream)) => driver.cuMemcpyDtoHAsync_v2(to, from_address, bytes, stream)?,
        (CopyKind::DeviceToDevice, Some(stream)) => {
            driver.cuMemcpyDtoDAsync_v2(to_address, from_address, bytes, stream)?;
        }
        (CopyKind::HostToHost | CopyKind::Default, Some(stream)) => {
            driver.cuMemcpyAsync(to_address, from_address, bytes, stream)?;
        }
    }
    order.finish()
}

/// `cudaMemcpyPeer` and `cudaMemcpyPeerAsync`: addresses tell their devices.
pub fn copy_peer(to: *mut c_void, from: *const c_void, bytes: usize, order: CopyOrder) -> CallResult {
    copy(to, from, bytes, CopyKind::Default as u32, order)
}

/// `cudaMemcpyToSymbol` and `cudaMemcpyToSymbolAsync`.
pub fn copy_to_symbol(
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
    order: CopyOrder,
) -> CallResult {
    let parsed = CopyKind::parse(kind)?;
    if matches!(parsed, CopyKind::HostToHost | CopyKind::DeviceToHost) {
        return Err(INVALID_COPY_DIRECTION);
    }
    let to = symbols::locate_range(symbol, bytes, offset)?;
    copy(crate::pointers::pointer_of(to), from, bytes, kind, order)
}

/// `cudaMemcpyFromSymbol` and `cudaMemcpyFromSymbolAsync`.
pub fn copy_from_symbol(
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
    order: CopyOrder,
) -> CallResult {
    let parsed = CopyKind::parse(kind)?;
    if matches!(parsed, CopyKind::HostToHost | CopyKind::HostToDevice) {
        return Err(INVALID_COPY_DIRECTION);
    }
    let from = symbols::locate_range(symbol, bytes, offset)?;
    copy(to, crate::pointers::pointer_of(from), bytes, kind, order)
}

/// Rows of a two-dimensional copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyRows {
    /// First byte of the destination.
    pub to: *mut c_void,
    /// Distance between rows of the destination, bytes.
    pub to_pitch: usize,
    /// First byte of the source.
    pub from: *const c_void,
    /// Distance between rows of the source, bytes.
    pub from_pitch: usize,
    /// Size of a row, bytes.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
}

/// `cudaMemcpy2D` and `cudaMemcpy2DAsync`.
pub fn copy_rows(rows: CopyRows, kind: u32, order: CopyOrder) -> CallResult {
    let (source_kind, to_kind) = CopyKind::parse(kind)?.memory_types();
    let driver = bind()?;
    if rows.width > rows.to_pitch || rows.width > rows.from_pitch {
        return Err(INVALID_PITCH);
    }
    if rows.width == 0 || rows.height == 0 {
        return Ok(());
    }
    let copy = Copy2d {
        source_x: 0,
        source_y: 0,
        source_kind,
        source_host: rows.from,
        source_device: address_of(rows.from),
        source_array: std::ptr::null_mut(),
        source_pitch: rows.from_pitch,
        to_x: 0,
        to_y: 0,
        to_kind,
        to_host: rows.to,
        to_device: address_of(rows.to),
        to_array: std::ptr::null_mut(),
        to_pitch: rows.to_pitch,
        width: rows.width,
        height: rows.height,
    };
    match order.stream() {
        None => driver.cuMemcpy2DUnaligned_v2(&raw const copy)?,
        Some(stream) => driver.cuMemcpy2DAsync_v2(&raw const copy, stream)?,
    }
    order.finish()
}

/// `cudaPos`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Position {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}

/// `cudaExtent`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Extent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// `cudaPitchedPtr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PitchedPointer {
    /// First byte.
    pub at: *mut c_void,
    /// Distance between rows, bytes.
    pub pitch: usize,
    /// Size of a row, bytes.
    pub width: usize,
    /// Number of rows of a slice.
    pub height: usize,
}
