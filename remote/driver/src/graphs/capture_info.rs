//! State of a stream's capture.

use crate::errors::{DEVICE_UNAVAILABLE, LOSSY_QUERY};
use crate::forms::{AbiHandle as _, stream_number};
use crate::pointers::{put, put_if_wanted};
use crate::request::Request;
use crate::{CallResult, lock, thread_state};
use cuda_driver::{CuGraph, CuGraphNode, CuStream};
use remote_calls::message::CaptureInfo;
use remote_calls::{CallId, HandleNumber};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const ACTIVE: u32 = 1;

/// Lists that the program got for a stream: they stay until it asks again, or ends the capture.
struct Lists {
    /// Handles of nodes, as addresses.
    nodes: Vec<usize>,
    /// Data of edges.
    edges: Vec<u64>,
}

/// Lists by their streams; those of a thread's default stream by their thread too.
static LISTS: LazyLock<Mutex<HashMap<(u32, HandleNumber), Lists>>> = LazyLock::new(Mutex::default);

fn key(stream: HandleNumber) -> (u32, HandleNumber) {
    match stream == HandleNumber::STREAM_PER_THREAD {
        true => (thread_state::number(), stream),
        false => (0, stream),
    }
}

/// Forgets the lists of a stream whose capture has ended.
pub fn forget_lists(stream: HandleNumber) {
    lock(&LISTS).remove(&key(stream));
}

/// Where the results of a question go. Each can be null, except the status.
pub struct CaptureResults {
    /// `CUstreamCaptureStatus`.
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

/// `cuStreamGetCaptureInfo`, in all versions.
pub fn write_capture_info(is_per_thread: bool, stream: CuStream, to: &CaptureResults) -> CallResult {
    let number = stream_number(is_per_thread, stream)?;
    let mut request = Request::new(CallId::capture_info, false)?;
    request.encoder.write(number);
    let answer = request.ask()?;
    let info = CaptureInfo::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
    put(to.status, info.status)?;
    if info.status != ACTIVE {
        return Ok(());
    }
    if !to.nodes.is_null() && to.edges.is_null() && info.edges.iter().any(|data| *data != 0) {
        return Err(LOSSY_QUERY);
    }
    put_if_wanted(to.id, info.id);
    put_if_wanted(to.graph, CuGraph::from_number(info.graph));
    put_if_wanted(to.count, info.nodes.len());
    let edges = match info.edges.is_empty() {
        true => vec![0; info.nodes.len()],
        false => info.edges,
    };
    let lists = Lists {
        nodes: info.nodes.iter().map(|node| node.as_address() as usize).collect(),
        edges,
    };
    // The lists are on the heap, and do not move with the map.
    put_if_wanted(to.nodes, lists.nodes.as_ptr().cast());
    put_if_wanted(to.edges, lists.edges.as_ptr().cast());
    lock(&LISTS).insert(key(number), lists);
    Ok(())
}
