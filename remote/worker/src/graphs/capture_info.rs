//! State of a stream's capture.

use super::queries::node_number;
use crate::call_error::{CallError, CallResult};
use crate::forms::{DriverHandle as _, find_object};
use crate::session::Scope;
use cuda_driver::{CuGraph, CuGraphNode, CuStream, CudaError, NOT_SUPPORTED};
use remote_calls::message::{CaptureInfo, MAX_DEPENDENCIES};
use remote_calls::{Decoder, Encoder, HandleKind, HandleNumber};

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const ACTIVE: u32 = 1;

/// Describes the capture of a stream. The graph that is captured into gets a handle, which it keeps after the capture.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn describe_capture(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let number: HandleNumber = decoder.read()?;
    decoder.finish()?;
    let stream = CuStream::from_object(find_object(scope, HandleKind::Stream, number)?);
    let driver = &scope.session.driver;
    let (mut status, mut id, mut count) = (0, 0, 0);
    let mut graph: CuGraph = std::ptr::null_mut();
    let (mut nodes, mut edges): (*const CuGraphNode, _) = (std::ptr::null(), std::ptr::null());
    let (status_at, id_at, graph_at) = (&raw mut status, &raw mut id, &raw mut graph);
    let (nodes_at, edges_at, count_at) = (&raw mut nodes, &raw mut edges, &raw mut count);
    // SAFETY: the stream is the driver's, and the pointers are valid for the results.
    unsafe {
        match driver.cuStreamGetCaptureInfo_v3(stream, status_at, id_at, graph_at, nodes_at, edges_at, count_at) {
            // Edges of this driver have no data.
            Err(CudaError::Missing { .. }) => {
                driver.cuStreamGetCaptureInfo_v2(stream, status_at, id_at, graph_at, nodes_at, count_at)?;
            }
            done => done?,
        }
    }
    let mut info = CaptureInfo {
        status,
        ..CaptureInfo::default()
    };
    if status == ACTIVE {
        if count > MAX_DEPENDENCIES as usize {
            return Err(CallError::Result(NOT_SUPPORTED));
        }
        info.id = id;
        info.graph = scope.note_captured_graph(number, graph.object())?;
        for index in 0..count {
            // SAFETY: the driver's lists have this many elements, and stay until the stream's next call. An edge's data
            // has 8 bytes.
            let (node, data) = unsafe {
                let data = match edges.is_null() {
                    true => 0,
                    false => edges.cast::<u64>().add(index).read_unaligned(),
                };
                (nodes.add(index).read(), data)
            };
            info.nodes.push(node_number(scope, node, info.graph)?);
            info.edges.push(data);
        }
    }
    info.write(answer);
    Ok(())
}
