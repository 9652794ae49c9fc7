//! Graphs that can be launched: made ready, changed, launched.

use super::capture::refuse_capturing;
use super::nodes::{Graph, Work};
use crate::call::Call;
use crate::codes::{GRAPH_UPDATE_FAILURE, INVALID_HANDLE, INVALID_VALUE};
use crate::handles::{Handles, pointer};
use crate::launch::Launch;
use crate::pointers::{get, give, give_if_wanted};
use crate::streams::submit;
use crate::{Answer, lock};
use cuda_driver::{CuGraph, CuGraphExec, CuGraphNode, CuStream, KernelNode};
use std::ffi::{c_char, c_void};
use std::sync::Mutex;

/// A graph that can be launched: what each node does, by the node's handle, each behind those that it waits for.
struct Exec {
    handle: usize,
    nodes: Mutex<Vec<(usize, Work)>>,
}

static EXECS: Handles<Exec> = Handles::new(8);

fn nodes_of(graph: &Graph) -> Vec<(usize, Work)> {
    lock(&graph.nodes)
        .iter()
        .map(|node| (node.handle, lock(&node.work).clone()))
        .collect()
}

fn instantiate(to: *mut CuGraphExec, graph: CuGraph) -> Answer {
    let nodes = nodes_of(&*Graph::of(graph)?);
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let exec = EXECS.put(|handle| Exec {
        handle,
        nodes: Mutex::new(nodes),
    });
    give(to, pointer(exec.handle))
}

pub fn cuGraphInstantiate_v2(
    call: &Call,
    to: *mut CuGraphExec,
    graph: CuGraph,
    node: *mut CuGraphNode,
    _log: *mut c_char,
    _bytes: usize,
) -> Answer {
    call.context()?;
    give_if_wanted(node, std::ptr::null_mut());
    instantiate(to, graph)
}

pub fn cuGraphInstantiateWithFlags(call: &Call, to: *mut CuGraphExec, graph: CuGraph, _flags: u64) -> Answer {
    call.context()?;
    instantiate(to, graph)
}

/// The form has flags, a stream to load it on, the node that is wrong, and the result.
pub fn cuGraphInstantiateWithParams(call: &Call, to: *mut CuGraphExec, graph: CuGraph, form: *mut c_void) -> Answer {
    const RESULT: usize = 24;
    call.context()?;
    if form.is_null() {
        return Err(INVALID_VALUE);
    }
    let done = instantiate(to, graph);
    give(form.cast::<u8>().wrapping_add(RESULT).cast(), u32::from(done.is_err()))?;
    done
}

pub fn cuGraphExecDestroy(_: &Call, exec: CuGraphExec) -> Answer {
    EXECS.take(exec).map(drop)
}

/// Nodes stay those of the graph that it was made ready from; what they do is the other graph's.
pub fn cuGraphExecUpdate_v2(call: &Call, exec: CuGraphExec, graph: CuGraph, told: *mut c_void) -> Answer {
    call.context()?;
    let exec = EXECS.get(exec)?;
    let new = nodes_of(&*Graph::of(graph)?);
    let mut old = lock(&exec.nodes);
    let same =
        |((_, a), (_, b)): (&(usize, Work), &(usize, Work))| std::mem::discriminant(a) == std::mem::discriminant(b);
    let fits = old.len() == new.len() && old.iter().zip(&new).all(same);
    // The first word of what is told: it fitted, or the topology changed.
    give_if_wanted(told.cast::<u32>(), if fits { 0 } else { 2 });
    if !fits {
        return Err(GRAPH_UPDATE_FAILURE);
    }
    for ((_, work), (_, changed)) in old.iter_mut().zip(new) {
        *work = changed;
    }
    Ok(())
}

pub fn cuGraphExecKernelNodeSetParams_v2(
    call: &Call,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const KernelNode,
) -> Answer {
    let context = call.context()?;
    let launch = Launch::of_node(&context, &get(form)?)?;
    let exec = EXECS.get(exec)?;
    let mut nodes = lock(&exec.nodes);
    match nodes.iter_mut().find(|(handle, _)| *handle == node as usize) {
        Some((_, Work::Launch(old))) => {
            *old = launch;
            Ok(())
        }
        _ => Err(INVALID_HANDLE),
    }
}

/// The first form ends before the kernel and the context.
pub fn cuGraphExecKernelNodeSetParams(
    call: &Call,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const KernelNode,
) -> Answer {
    /// Bytes of the first form.
    const FIRST: usize = 56;
    if form.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut whole = std::mem::MaybeUninit::<KernelNode>::zeroed();
    // SAFETY: the caller's form has these bytes, and the place has more.
    unsafe { std::ptr::copy_nonoverlapping(form.cast::<u8>(), whole.as_mut_ptr().cast::<u8>(), FIRST) };
    cuGraphExecKernelNodeSetParams_v2(call, exec, node, whole.as_ptr())
}

fn run(context: &crate::context::Context, nodes: &[(usize, Work)]) -> Answer {
    nodes.iter().try_for_each(|(_, work)| match work {
        Work::Launch(launch) => launch.run(context),
        Work::Copy(transfer) => transfer.run(),
        Work::Fill(fill) => fill.run(),
        Work::Host(function) => {
            function.run();
            Ok(())
        }
        Work::Child(graph) => run(context, &nodes_of(graph)),
        Work::Empty => Ok(()),
    })
}

pub fn cuGraphLaunch(call: &Call, exec: CuGraphExec, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let exec = EXECS.get(exec)?;
    refuse_capturing(&stream)?;
    super::capture::refuse_implicit(&context, &stream)?;
    let nodes = lock(&exec.nodes).clone();
    submit(&context, &stream, Vec::new(), move |context| run(context, &nodes));
    Ok(())
}
