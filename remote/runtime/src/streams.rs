//! Streams: creation, waiting, host functions and captures.

use crate::CallResult;
use crate::contexts::bind;
use crate::errors::{INVALID_RESOURCE_HANDLE, INVALID_VALUE};
use cuda_driver::{CuEvent, CuGraph, CuGraphNode, CuStream, STREAM_LEGACY, STREAM_PER_THREAD};
use std::ffi::c_void;

/// Where the results of a question about a capture go.
#[derive(Clone, Copy, Debug)]
pub struct CaptureResults {
    /// `cudaStreamCaptureStatus`.
    pub status: *mut u32,
    /// Number of the capture.
    pub id: *mut u64,
    /// Graph that is captured into.
    pub graph: *mut CuGraph,
    /// Address of the list of nodes that the next work comes after.
    pub nodes: *mut *const CuGraphNode,
    /// Address of the data of the edges from these nodes.
    pub edges: *mut *const c_void,
    /// Number of these nodes.
    pub count: *mut usize,
}

impl CaptureResults {
    /// Returns a question about the status and the number alone.
    #[must_use]
    pub const fn new(status: *mut u32, id: *mut u64) -> Self {
        Self {
            status,
            id,
            graph: std::ptr::null_mut(),
            nodes: std::ptr::null_mut(),
            edges: std::ptr::null_mut(),
            count: std::ptr::null_mut(),
        }
    }
}

/// Returns the stream that a handle means. The null handle is the thread's own default stream for callers that were
/// compiled with per-thread default streams.
pub fn resolve(stream: CuStream, is_per_thread: bool) -> CuStream {
    match stream.is_null() && is_per_thread {
        true => std::ptr::without_provenance_mut(STREAM_PER_THREAD),
        false => stream,
    }
}

/// Returns the default stream of a caller.
pub fn default_stream(is_per_thread: bool) -> CuStream {
    resolve(std::ptr::null_mut(), is_per_thread)
}

/// `cudaStreamCreate` and its relatives.
pub fn create(to: *mut CuStream, flags: u32) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuStreamCreate(to, flags)
}

/// `cudaStreamCreateWithPriority`.
pub fn create_with_priority(to: *mut CuStream, flags: u32, priority: i32) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuStreamCreateWithPriority(to, flags, priority)
}

/// `cudaStreamDestroy`. Default streams cannot be destroyed.
pub fn destroy(stream: CuStream) -> CallResult {
    let driver = bind()?;
    if stream.is_null() || [STREAM_LEGACY, STREAM_PER_THREAD].contains(&stream.addr()) {
        return Err(INVALID_RESOURCE_HANDLE);
    }
    driver.cuStreamDestroy_v2(stream)
}

/// `cudaStreamSynchronize`.
pub fn synchronize(stream: CuStream) -> CallResult {
    bind()?.cuStreamSynchronize(stream)
}

/// `cudaStreamQuery`.
pub fn query(stream: CuStream) -> CallResult {
    bind()?.cuStreamQuery(stream)
}

/// `cudaStreamWaitEvent`.
pub fn wait_event(stream: CuStream, event: CuEvent, flags: u32) -> CallResult {
    bind()?.cuStreamWaitEvent(stream, event, flags)
}

/// `cudaStreamGetFlags`.
pub fn flags(stream: CuStream, to: *mut u32) -> CallResult {
    bind()?.cuStreamGetFlags(stream, to)
}

/// `cudaStreamGetPriority`.
pub fn priority(stream: CuStream, to: *mut i32) -> CallResult {
    bind()?.cuStreamGetPriority(stream, to)
}

/// `cudaStreamAddCallback`. The runtime's callback has the same form as the driver's.
pub fn add_callback(stream: CuStream, function: *mut c_void, data: *mut c_void, flags: u32) -> CallResult {
    bind()?.cuStreamAddCallback(stream, function, data, flags)
}

/// `cudaLaunchHostFunc`.
pub fn launch_host_function(stream: CuStream, function: *mut c_void, data: *mut c_void) -> CallResult {
    if function.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuLaunchHostFunc(stream, function, data)
}

/// `cudaStreamBeginCapture`.
pub fn begin_capture(stream: CuStream, mode: u32) -> CallResult {
    bind()?.cuStreamBeginCapture_v2(stream, mode)
}

/// `cudaStreamEndCapture`.
pub fn end_capture(stream: CuStream, graph: *mut CuGraph) -> CallResult {
    bind()?.cuStreamEndCapture(stream, graph)
}

/// `cudaStreamIsCapturing`.
pub fn is_capturing(stream: CuStream, status: *mut u32) -> CallResult {
    bind()?.cuStreamIsCapturing(stream, status)
}

/// `cudaThreadExchangeStreamCaptureMode`.
pub fn exchange_capture_mode(mode: *mut u32) -> CallResult {
    bind()?.cuThreadExchangeStreamCaptureMode(mode)
}

/// `cudaStreamGetCaptureInfo`, in all versions. Results that the program does not want are null.
pub fn write_capture_info(stream: CuStream, to: CaptureResults) -> CallResult {
    let CaptureResults {
        status,
        id,
        graph,
        nodes,
        edges,
        count,
    } = to;
    bind()?.cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, edges, count)
}

/// `cudaStreamSetAttribute`. Attributes are those of the driver.
pub fn set_attribute(stream: CuStream, attribute: u32, value: *const c_void) -> CallResult {
    bind()?.cuStreamSetAttribute(stream, attribute, value)
}

/// `cudaStreamGetAttribute`.
pub fn write_attribute(stream: CuStream, attribute: u32, to: *mut c_void) -> CallResult {
    bind()?.cuStreamGetAttribute(stream, attribute, to)
}

/// `cudaStreamCopyAttributes`.
pub fn copy_attributes(to: CuStream, from: CuStream) -> CallResult {
    bind()?.cuStreamCopyAttributes(to, from)
}
