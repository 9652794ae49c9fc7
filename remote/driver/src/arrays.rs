//! Arrays of texels: copies of consecutive bytes, and descriptions.

use crate::copies::CopyStream;
use crate::forms::handle_number;
use crate::host_memory::{self, WindowMemory};
use crate::pointers::{bytes, put, result_bytes};
use crate::request::Request;
use crate::{CallResult, forwarded, lock};
use cuda_driver::{ArrayDescription, CuArray, CuDevicePtr, INVALID_VALUE, STREAM_PER_THREAD};
use remote_calls::message::{ArrayCopy, ArrayCopyDirection};
use remote_calls::{CallId, HandleKind, HandleNumber};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

/// Descriptions that the program asked for. An array keeps its description until its end.
static DESCRIPTIONS: LazyLock<Mutex<HashMap<HandleNumber, ArrayDescription>>> = LazyLock::new(Mutex::default);

/// Forgets all descriptions, when arrays end with a context.
pub fn forget_descriptions() {
    lock(&DESCRIPTIONS).clear();
}

/// `cuArray3DGetDescriptor`. The worker is asked once for each array.
pub fn describe(to: *mut ArrayDescription, array: CuArray) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let number = handle_number(HandleKind::Array, array)?;
    if let Some(known) = lock(&DESCRIPTIONS).get(&number) {
        return put(to, *known);
    }
    let mut description = ArrayDescription::default();
    forwarded::cuArray3DGetDescriptor_v2(false, (&raw mut description).cast(), array)?;
    lock(&DESCRIPTIONS).insert(number, description);
    put(to, description)
}

/// `cuArrayDestroy`.
pub fn destroy(array: CuArray) -> CallResult {
    forwarded::cuArrayDestroy(false, array)?;
    lock(&DESCRIPTIONS).remove(&handle_number(HandleKind::Array, array)?);
    Ok(())
}

/// `cuMipmappedArrayDestroy`: its levels end with it.
pub fn destroy_mipmapped(array: CuArray) -> CallResult {
    forwarded::cuMipmappedArrayDestroy(false, array)?;
    forget_descriptions();
    Ok(())
}

/// Bytes of the program in the window.
struct HostSide {
    /// Offset in the window.
    offset: u64,
    /// Memory of the window for bytes that the worker does not map.
    packed: Option<WindowMemory>,
}

impl HostSide {
    fn new(at: *const c_void, count: usize) -> CallResult<Self> {
        if count == 0 {
            return Ok(Self {
                offset: 0,
                packed: None,
            });
        }
        if at.is_null() {
            return Err(INVALID_VALUE);
        }
        if let Some(offset) = host_memory::window_offset(at.addr() as u64, count as u64) {
            return Ok(Self { offset, packed: None });
        }
        let packed = WindowMemory::new(count as u64)?;
        Ok(Self {
            offset: packed.offset(),
            packed: Some(packed),
        })
    }
}

fn copy(
    direction: ArrayCopyDirection,
    array: CuArray,
    offset: usize,
    host: &HostSide,
    count: usize,
    stream: CopyStream,
) -> CallResult {
    let call = match stream.is_asynchronous() && host.packed.is_none() {
        true => CallId::begin_copy_array,
        false => CallId::copy_array,
    };
    let mut request = Request::new(call, false)?;
    ArrayCopy {
        direction,
        array: handle_number(HandleKind::Array, array)?,
        offset: offset as u64,
        host: host.offset,
        bytes: count as u64,
        stream: stream.number()?,
    }
    .write(&mut request.encoder);
    // The array's edges are known to the worker: an error must come from this call.
    request.ask().map(drop)
}

/// `cuMemcpyHtoA` and `cuMemcpyHtoAAsync`. Memory that the worker does not map is read before the call returns.
pub fn from_host(to: CuArray, offset: usize, from: *const c_void, count: usize, stream: CopyStream) -> CallResult {
    let host = HostSide::new(from, count)?;
    if let Some(packed) = &host.packed {
        result_bytes(packed.pointer()?, count)?.copy_from_slice(bytes(from, count)?);
    }
    copy(ArrayCopyDirection::ToArray, to, offset, &host, count, stream)
}

/// `cuMemcpyAtoH` and `cuMemcpyAtoHAsync`. Memory that the worker does not map is written before the call returns.
pub fn to_host(to: *mut c_void, from: CuArray, offset: usize, count: usize, stream: CopyStream) -> CallResult {
    let host = HostSide::new(to, count)?;
    copy(ArrayCopyDirection::FromArray, from, offset, &host, count, stream)?;
    match &host.packed {
        Some(packed) => {
            result_bytes(to, count)?.copy_from_slice(bytes(packed.pointer()?, count)?);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Waits for the thread's own default stream, where a copy belongs to it: the driver's functions on device memory and
/// arrays have no stream, and their worker's default stream is that of all threads. Work that follows waits for it.
fn order(is_per_thread: bool) -> CallResult {
    match is_per_thread {
        true => forwarded::cuStreamSynchronize(true, std::ptr::without_provenance_mut(STREAM_PER_THREAD)),
        false => Ok(()),
    }
}

/// `cuMemcpyDtoA`.
pub fn from_device(is_per_thread: bool, to: CuArray, offset: usize, from: CuDevicePtr, count: usize) -> CallResult {
    order(is_per_thread)?;
    forwarded::cuMemcpyDtoA_v2(false, to, offset, from, count)
}

/// `cuMemcpyAtoD`.
pub fn to_device(is_per_thread: bool, to: CuDevicePtr, from: CuArray, offset: usize, count: usize) -> CallResult {
    order(is_per_thread)?;
    forwarded::cuMemcpyAtoD_v2(false, to, from, offset, count)
}

/// `cuMemcpyAtoA`.
pub fn to_array(
    is_per_thread: bool,
    to: CuArray,
    to_offset: usize,
    from: CuArray,
    from_offset: usize,
    count: usize,
) -> CallResult {
    order(is_per_thread)?;
    forwarded::cuMemcpyAtoA_v2(false, to, to_offset, from, from_offset, count)
}
