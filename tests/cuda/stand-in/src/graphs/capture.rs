//! Capture of streams into graphs: work becomes nodes, and work that cannot be part of a graph ends the capture.

use super::nodes::{Graph, Work};
use crate::call::Call;
use crate::codes::{
    CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_UNJOINED, CAPTURE_UNMATCHED, INVALID_VALUE,
    STREAM_CAPTURE_UNSUPPORTED,
};
use crate::context::Context;
use crate::handles::pointer;
use crate::pointers::{get_at, give};
use crate::streams::Stream;
use crate::{Answer, lock};
use cuda_driver::{CuGraph, CuGraphNode, CuResult, CuStream};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// Capture mode: calls of any thread can end the capture.
const GLOBAL: u32 = 0;
/// Capture mode: only calls of the thread that started the capture can end it.
const THREAD: u32 = 1;
/// Capture mode: no call can end the capture.
const RELAXED: u32 = 2;

/// A capture.
pub struct Capture {
    graph: Arc<Graph>,
    /// Number of the stream that the capture was started on.
    origin: u64,
    mode: u32,
    thread: ThreadId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Dependencies of each stream's next node.
    heads: BTreeMap<u64, Vec<usize>>,
    streams: Vec<Arc<Stream>>,
    invalid: bool,
}

impl Capture {
    /// Returns the dependencies of a stream's next node.
    pub fn heads(&self, stream: &Stream) -> Vec<usize> {
        lock(&self.state).heads.get(&stream.id).cloned().unwrap_or_default()
    }

    fn invalidate(&self) {
        lock(&self.state).invalid = true;
    }

    fn check(&self) -> Answer {
        if lock(&self.state).invalid {
            Err(CAPTURE_INVALIDATED)
        } else {
            Ok(())
        }
    }

    /// Returns whether all captured work precedes the end of the stream that the capture was started on.
    fn is_joined(&self) -> bool {
        let nodes = lock(&self.graph.nodes);
        let state = lock(&self.state);
        let mut reached: BTreeSet<usize> = state.heads.get(&self.origin).into_iter().flatten().copied().collect();
        for node in nodes.iter().rev() {
            if reached.contains(&node.handle) {
                reached.extend(&node.after);
            }
        }
        state.heads.values().flatten().all(|head| reached.contains(head))
    }
}

/// Returns the capture that a stream is part of.
fn find_capture(stream: &Stream) -> Option<Arc<Capture>> {
    lock(&stream.capture).clone()
}

fn refuse(capture: &Capture, code: CuResult) -> Answer {
    capture.invalidate();
    Err(code)
}

/// Adds work to the graph that a stream is captured into. Returns `false` if the stream is not captured and the work
/// must run.
pub fn capture_work(context: &Context, stream: &Stream, work: impl FnOnce() -> Work) -> Answer<bool> {
    let Some(capture) = find_capture(stream) else {
        refuse_implicit(context, stream)?;
        return Ok(false);
    };
    capture.check()?;
    let node = capture.graph.add(work(), capture.heads(stream));
    lock(&capture.state).heads.insert(stream.id, vec![node]);
    Ok(true)
}

/// Refuses a call that cannot be part of a graph.
pub fn refuse_capturing(stream: &Stream) -> Answer {
    find_capture(stream).map_or(Ok(()), |capture| refuse(&capture, STREAM_CAPTURE_UNSUPPORTED))
}

/// Refuses a captured stream's wait for work outside a graph.
pub fn refuse_outside(stream: &Stream) -> Answer {
    find_capture(stream).map_or(Ok(()), |capture| refuse(&capture, CAPTURE_ISOLATION))
}

/// Refuses a call that waits for all streams.
pub fn refuse_any_capture(context: &Context) -> Answer {
    let all = lock(&context.captures);
    all.iter().for_each(|capture| capture.invalidate());
    if all.is_empty() {
        Ok(())
    } else {
        Err(STREAM_CAPTURE_UNSUPPORTED)
    }
}

/// Refuses a call that can wait for captured work implicitly.
pub fn refuse_unsafe(context: &Context) -> Answer {
    let thread = std::thread::current().id();
    let all = lock(&context.captures);
    let forbids = |c: &&Arc<Capture>| c.mode == GLOBAL || c.mode == THREAD && c.thread == thread;
    let mut forbidden = Ok(());
    for capture in all.iter().filter(forbids) {
        forbidden = refuse(capture, STREAM_CAPTURE_UNSUPPORTED);
    }
    forbidden
}

/// Refuses work of the default stream, which would wait for captured streams.
pub fn refuse_implicit(context: &Context, stream: &Stream) -> Answer {
    if !stream.legacy {
        return Ok(());
    }
    let all = lock(&context.captures);
    let waits = |c: &&Arc<Capture>| lock(&c.state).streams.iter().any(|s| s.is_blocking());
    all.iter()
        .find(waits)
        .map_or(Ok(()), |capture| refuse(capture, CAPTURE_IMPLICIT))
}

/// Makes a stream wait for an event of a capture, and adds the stream to the capture.
pub fn join(stream: &Arc<Stream>, capture: &Arc<Capture>, nodes: &[usize]) -> Answer {
    capture.check()?;
    match find_capture(stream) {
        Some(current) if !Arc::ptr_eq(&current, capture) => return refuse(&current, CAPTURE_ISOLATION),
        Some(_) => {}
        None => {
            *lock(&stream.capture) = Some(Arc::clone(capture));
            lock(&capture.state).streams.push(Arc::clone(stream));
        }
    }
    let mut state = lock(&capture.state);
    let heads = state.heads.entry(stream.id).or_default();
    for node in nodes {
        if !heads.contains(node) {
            heads.push(*node);
        }
    }
    Ok(())
}

/// Starts a capture by the function's first version: calls of any thread can end it.
pub fn cuStreamBeginCapture(call: &Call, stream: CuStream) -> Answer {
    begin(call, stream, GLOBAL, Graph::new(), Vec::new())
}

pub fn cuStreamBeginCapture_v2(call: &Call, stream: CuStream, mode: u32) -> Answer {
    begin(call, stream, mode, Graph::new(), Vec::new())
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
    begin(call, stream, mode, Graph::find(graph)?, after.collect::<Answer<_>>()?)
}

fn begin(call: &Call, stream: CuStream, mode: u32, graph: Arc<Graph>, after: Vec<usize>) -> Answer {
    let (context, stream) = call.stream(stream)?;
    if mode > RELAXED {
        return Err(INVALID_VALUE);
    }
    if stream.legacy {
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut current = lock(&stream.capture);
    if current.is_some() {
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    let capture = Arc::new(Capture {
        graph,
        origin: stream.id,
        mode,
        thread: std::thread::current().id(),
        state: Mutex::new(State {
            heads: BTreeMap::from([(stream.id, after)]),
            streams: vec![Arc::clone(&stream)],
            ..State::default()
        }),
    });
    *current = Some(Arc::clone(&capture));
    lock(&context.captures).push(capture);
    Ok(())
}

pub fn cuStreamEndCapture(call: &Call, stream: CuStream, to: *mut CuGraph) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let capture = find_capture(&stream)
        .filter(|c| c.origin == stream.id)
        .ok_or(CAPTURE_UNMATCHED)?;
    lock(&context.captures).retain(|c| !Arc::ptr_eq(c, &capture));
    for stream in std::mem::take(&mut lock(&capture.state).streams) {
        *lock(&stream.capture) = None;
    }
    let result = if capture.is_joined() {
        capture.check()
    } else {
        Err(CAPTURE_UNJOINED)
    };
    if result.is_err() {
        capture.graph.end();
        give(to, std::ptr::null_mut())?;
        return result;
    }
    give(to, pointer(capture.graph.handle))
}

pub fn cuStreamIsCapturing(call: &Call, stream: CuStream, to: *mut u32) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_implicit(&context, &stream)?;
    // 0 is no capture, 1 is an active capture, 2 is an invalidated capture.
    give(
        to,
        find_capture(&stream).map_or(0, |capture| if capture.check().is_ok() { 1 } else { 2 }),
    )
}
