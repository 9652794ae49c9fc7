//! Calls that capture streams into graphs.

use crate::call::Call;
use crate::capture::{GLOBAL, find_capture, refuse_implicit};
use crate::graphs::Graph;
use crate::handles::pointer;
use crate::pointers::{get, get_at, give, give_if_wanted};
use crate::{Answer, capture};
use cuda_driver::{CuGraph, CuGraphNode, CuStream};
use std::ffi::c_void;

/// Starts a capture by the function's first version: calls of any thread can end it.
pub fn cuStreamBeginCapture(call: &Call, stream: CuStream) -> Answer {
    cuStreamBeginCapture_v2(call, stream, GLOBAL)
}

pub fn cuStreamBeginCapture_v2(call: &Call, stream: CuStream, mode: u32) -> Answer {
    let (context, stream) = call.stream(stream)?;
    capture::begin(&context, &stream, mode, Graph::new(), Vec::new())
}

/// Starts a capture into an existing graph, after some of its nodes.
pub fn cuStreamBeginCaptureToGraph(
    call: &Call,
    stream: CuStream,
    graph: CuGraph,
    after: *const CuGraphNode,
    _data: *const c_void,
    count: usize,
    mode: u32,
) -> Answer {
    let after = (0..count).map(|n| get_at(after, n).map(|node| node as usize));
    let (graph, after) = (Graph::find(graph)?, after.collect::<Answer<_>>()?);
    let (context, stream) = call.stream(stream)?;
    capture::begin(&context, &stream, mode, graph, after)
}

pub fn cuStreamEndCapture(call: &Call, stream: CuStream, to: *mut CuGraph) -> Answer {
    let (_, stream) = call.stream(stream)?;
    match capture::end(&stream)? {
        Ok(graph) => give(to, pointer(graph.handle)),
        Err(code) => {
            give(to, std::ptr::null_mut())?;
            Err(code)
        }
    }
}

pub fn cuStreamIsCapturing(call: &Call, stream: CuStream, to: *mut u32) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_implicit(&context, &stream)?;
    // None, active, invalidated.
    give(
        to,
        find_capture(&stream).map_or(0, |capture| if capture.check().is_ok() { 1 } else { 2 }),
    )
}

/// `cuStreamGetCaptureInfo` with the data of edges, which is zero here.
#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuStreamGetCaptureInfo_v3(
    call: &Call,
    stream: CuStream,
    status: *mut u32,
    id: *mut u64,
    graph: *mut CuGraph,
    nodes: *mut *const CuGraphNode,
    edges: *mut *const c_void,
    count: *mut usize,
) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_implicit(&context, &stream)?;
    let Some(capture) = find_capture(&stream) else {
        return give(status, 0);
    };
    if capture.check().is_err() {
        return give(status, 2);
    }
    give(status, 1)?;
    let (node_list, edge_list, number) = capture.lists(&stream);
    give_if_wanted(id, capture.id);
    give_if_wanted(graph, pointer(capture.graph()));
    give_if_wanted(nodes, node_list.cast());
    give_if_wanted(edges, edge_list.cast());
    give_if_wanted(count, number);
    Ok(())
}

pub fn cuStreamGetCaptureInfo_v2(
    call: &Call,
    stream: CuStream,
    status: *mut u32,
    id: *mut u64,
    graph: *mut CuGraph,
    nodes: *mut *const CuGraphNode,
    count: *mut usize,
) -> Answer {
    cuStreamGetCaptureInfo_v3(call, stream, status, id, graph, nodes, std::ptr::null_mut(), count)
}

pub fn cuThreadExchangeStreamCaptureMode(_: &Call, mode: *mut u32) -> Answer {
    let before = capture::exchange_mode(get(mode.cast_const())?);
    give(mode, before)
}
