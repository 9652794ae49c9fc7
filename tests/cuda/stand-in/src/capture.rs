//! Capture of streams into graphs: work becomes nodes, and work that cannot be part of a graph ends the capture.

use crate::codes::{
    CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_UNJOINED, CAPTURE_UNMATCHED, INVALID_VALUE,
    STREAM_CAPTURE_UNSUPPORTED,
};
use crate::context::Context;
use crate::graphs::{Graph, Work};
use crate::streams::Stream;
use crate::{Answer, lock};
use cuda_driver::CuResult;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// Capture mode: calls of any thread can end the capture.
pub const GLOBAL: u32 = 0;
/// Capture mode: only calls of the thread that started it can.
const THREAD: u32 = 1;
/// Capture mode: no call can end the capture.
const RELAXED: u32 = 2;

/// A capture.
pub struct Capture {
    graph: Arc<Graph>,
    /// Handle of the context of its streams.
    context: usize,
    /// Number of the stream that it was started on.
    origin: u64,
    mode: u32,
    thread: ThreadId,
    /// Number of the capture.
    pub id: u64,
    state: Mutex<State>,
    /// Lists that a program got: handles of nodes, and data of edges.
    lists: Mutex<(Vec<usize>, Vec<u64>)>,
}

thread_local! {
    /// What calls of this thread are allowed to do during captures of others.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// Changes the thread's mode, and returns the one before.
pub fn exchange_mode(mode: u32) -> u32 {
    // NVIDIA's driver 580 takes any number.
    MODE.try_with(|own| own.replace(mode)).unwrap_or(GLOBAL)
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

    /// Returns the graph's handle.
    pub fn graph(&self) -> usize {
        self.graph.handle
    }

    /// Returns the dependencies of a stream's next node as lists that stay until the next call or the end of the
    /// capture: addresses of handles and of edges' data, and their number.
    pub fn lists(&self, stream: &Stream) -> (*const usize, *const u64, usize) {
        let heads = self.heads(stream);
        let mut lists = lock(&self.lists);
        *lists = (heads.clone(), vec![0; heads.len()]);
        (lists.0.as_ptr(), lists.1.as_ptr(), heads.len())
    }

    fn invalidate(&self) {
        lock(&self.state).invalid = true;
    }

    /// Checks that no call has ended the capture.
    pub fn check(&self) -> Answer {
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
                reached.extend(lock(&node.after).iter());
            }
        }
        state.heads.values().flatten().all(|head| reached.contains(head))
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Captures that have not ended.
static CAPTURES: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());
/// The capture that each stream is part of, by the stream's number.
static OF_STREAMS: Mutex<BTreeMap<u64, Arc<Capture>>> = Mutex::new(BTreeMap::new());

/// Returns the capture that a stream is part of.
pub fn find_capture(stream: &Stream) -> Option<Arc<Capture>> {
    lock(&OF_STREAMS).get(&stream.id).cloned()
}

/// Returns the captures of a context that have not ended.
fn captures_of(context: &Context) -> Vec<Arc<Capture>> {
    let all = lock(&CAPTURES);
    all.iter().filter(|c| c.context == context.handle).cloned().collect()
}

/// Removes the captures of a context that is destroyed.
pub fn forget(context: usize) {
    lock(&CAPTURES).retain(|c| c.context != context);
}

/// Starts the capture of a stream into a graph, after some of its nodes.
pub fn begin(context: &Context, stream: &Arc<Stream>, mode: u32, graph: Arc<Graph>, after: Vec<usize>) -> Answer {
    if mode > RELAXED {
        return Err(INVALID_VALUE);
    }
    if stream.legacy {
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut of_streams = lock(&OF_STREAMS);
    if of_streams.contains_key(&stream.id) {
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    let capture = Arc::new(Capture {
        graph,
        context: context.handle,
        origin: stream.id,
        mode,
        thread: std::thread::current().id(),
        id: NEXT.fetch_add(1, Ordering::Relaxed),
        lists: Mutex::default(),
        state: Mutex::new(State {
            heads: BTreeMap::from([(stream.id, after)]),
            streams: vec![Arc::clone(stream)],
            ..State::default()
        }),
    });
    of_streams.insert(stream.id, Arc::clone(&capture));
    lock(&CAPTURES).push(capture);
    Ok(())
}

/// Ends the capture that was started on a stream. Returns its graph, or the error that makes the graph unusable.
pub fn end(stream: &Stream) -> Answer<Result<Arc<Graph>, CuResult>> {
    let capture = find_capture(stream)
        .filter(|c| c.origin == stream.id)
        .ok_or(CAPTURE_UNMATCHED)?;
    lock(&CAPTURES).retain(|c| !Arc::ptr_eq(c, &capture));
    for stream in std::mem::take(&mut lock(&capture.state).streams) {
        lock(&OF_STREAMS).remove(&stream.id);
    }
    let whole = if capture.is_joined() {
        capture.check()
    } else {
        Err(CAPTURE_UNJOINED)
    };
    if whole.is_err() {
        capture.graph.end();
    }
    Ok(whole.map(|()| Arc::clone(&capture.graph)))
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
    let all = captures_of(context);
    all.iter().for_each(|capture| capture.invalidate());
    if all.is_empty() {
        Ok(())
    } else {
        Err(STREAM_CAPTURE_UNSUPPORTED)
    }
}

/// Refuses a call that can wait for captured work implicitly.
pub fn refuse_unsafe(context: &Context) -> Answer {
    let own = std::thread::current().id();
    let is_allowed = MODE.try_with(|mode| mode.get() == RELAXED).unwrap_or(false);
    let all = if is_allowed { Vec::new() } else { captures_of(context) };
    let forbids = |c: &&Arc<Capture>| c.mode == GLOBAL || c.mode == THREAD && c.thread == own;
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
    let all = captures_of(context);
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
            lock(&OF_STREAMS).insert(stream.id, Arc::clone(capture));
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
