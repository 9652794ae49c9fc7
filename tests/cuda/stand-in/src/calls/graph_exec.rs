//! Calls on executable graphs: instantiation, changes, launches.

use crate::call::{Call, HostFunction};
use crate::capture::{refuse_capturing, refuse_implicit};
use crate::codes::{GRAPH_UPDATE_FAILURE, INVALID_HANDLE, INVALID_VALUE};
use crate::fill::Fill;
use crate::graphs::{Graph, Node, Work, clone_graph};
use crate::handles::{Handles, pointer};
use crate::health::Health;
use crate::launch::Launch;
use crate::pointers::{get, give, give_if_wanted};
use crate::transfer::Transfer;
use crate::{Answer, lock};
use cuda_driver::{
    Copy3d, CuContext, CuGraph, CuGraphExec, CuGraphNode, CuStream, FillNode, HostNode, KernelNode, NODE_COPY,
    NODE_FILL, NODE_GRAPH, NODE_HOST, NODE_KERNEL, NodeForm,
};
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

/// A node of an executable graph.
#[derive(Clone)]
struct ExecNode {
    /// Handle of the node in the graph that was instantiated.
    handle: usize,
    work: Work,
    /// Whether launches run the node.
    enabled: bool,
}

/// An executable graph: its nodes, each after its dependencies.
struct ExecGraph {
    handle: usize,
    nodes: Mutex<Vec<ExecNode>>,
}

static EXECS: Handles<ExecGraph> = Handles::new(8);

fn nodes_of(graph: &Graph) -> Vec<ExecNode> {
    let ready = |node: &Arc<Node>| ExecNode {
        handle: node.handle,
        work: lock(&node.work).clone(),
        enabled: true,
    };
    lock(&graph.nodes).iter().map(ready).collect()
}

fn instantiate(to: *mut CuGraphExec, graph: CuGraph) -> Answer {
    let nodes = nodes_of(&*Graph::find(graph)?);
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let exec = EXECS.put(|handle| ExecGraph {
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

/// Instantiates with parameters: flags, a stream for the upload, the failed node, and the result.
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

/// Replaces the work of all nodes by the work of another graph. The executable graph keeps its nodes.
pub fn cuGraphExecUpdate_v2(call: &Call, exec: CuGraphExec, graph: CuGraph, report: *mut c_void) -> Answer {
    call.context()?;
    let exec = EXECS.get(exec)?;
    let new = nodes_of(&*Graph::find(graph)?);
    let mut old = lock(&exec.nodes);
    let same = |(a, b): (&ExecNode, &ExecNode)| std::mem::discriminant(&a.work) == std::mem::discriminant(&b.work);
    let fits = old.len() == new.len() && old.iter().zip(&new).all(same);
    // The first word of the report is 0 for success, or 2 for a changed topology.
    give_if_wanted(report.cast::<u32>(), if fits { 0 } else { 2 });
    if !fits {
        return Err(GRAPH_UPDATE_FAILURE);
    }
    for (ready, changed) in old.iter_mut().zip(new) {
        ready.work = changed.work;
    }
    Ok(())
}

/// Updates by the function's first version, which returns a node and a word.
pub fn cuGraphExecUpdate(
    call: &Call,
    exec: CuGraphExec,
    graph: CuGraph,
    node: *mut CuGraphNode,
    report: *mut u32,
) -> Answer {
    give_if_wanted(node, std::ptr::null_mut());
    let mut all = [0u64; 4];
    let done = cuGraphExecUpdate_v2(call, exec, graph, all.as_mut_ptr().cast());
    give_if_wanted(report, all[0] as u32);
    done
}

/// Changes the work of a node in an executable graph; the node keeps its kind.
fn change(exec: CuGraphExec, node: CuGraphNode, to: Work) -> Answer {
    let exec = EXECS.get(exec)?;
    let mut nodes = lock(&exec.nodes);
    let matching = nodes.iter_mut().find(|ready| ready.handle == node as usize);
    let old = &mut matching.ok_or(INVALID_HANDLE)?.work;
    if std::mem::discriminant(old) != std::mem::discriminant(&to) {
        return Err(INVALID_VALUE);
    }
    *old = match (to, &*old) {
        (Work::Launch(new), Work::Launch(old)) => Work::Launch(new.with_attributes_of(old)),
        (to, _) => to,
    };
    Ok(())
}

pub fn cuGraphExecKernelNodeSetParams_v2(
    call: &Call,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const KernelNode,
) -> Answer {
    let context = call.context()?;
    change(exec, node, Work::Launch(Launch::from_node(&context, &get(form)?)?))
}

pub fn cuGraphExecMemcpyNodeSetParams(
    call: &Call,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const Copy3d,
    _context: CuContext,
) -> Answer {
    call.context()?;
    change(exec, node, Work::Copy(Transfer::from_copy3d(&get(form)?)?))
}

pub fn cuGraphExecMemsetNodeSetParams(
    call: &Call,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const FillNode,
    _context: CuContext,
) -> Answer {
    call.context()?;
    change(exec, node, Work::Fill(Fill::from_node(&get(form)?)?))
}

pub fn cuGraphExecHostNodeSetParams(
    call: &Call,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const HostNode,
) -> Answer {
    call.context()?;
    let form = get(form)?;
    let function = HostFunction::new(form.function, form.data).ok_or(INVALID_VALUE)?;
    change(exec, node, Work::Host(function))
}

pub fn cuGraphExecChildGraphNodeSetParams(call: &Call, exec: CuGraphExec, node: CuGraphNode, child: CuGraph) -> Answer {
    call.context()?;
    change(exec, node, Work::Child(clone_graph(&*Graph::find(child)?)))
}

/// Changes a node by the structure for all kinds, which contains the structure of the node's kind.
pub fn cuGraphExecNodeSetParams(call: &Call, exec: CuGraphExec, node: CuGraphNode, form: *mut NodeForm) -> Answer {
    let all = get(form.cast_const())?;
    let at = all.form.as_ptr();
    match all.kind {
        NODE_KERNEL => cuGraphExecKernelNodeSetParams_v2(call, exec, node, at.cast()),
        NODE_COPY => {
            let copy = at.cast::<u8>().wrapping_add(NodeForm::COPY_AT).cast();
            cuGraphExecMemcpyNodeSetParams(call, exec, node, copy, std::ptr::null_mut())
        }
        NODE_FILL => cuGraphExecMemsetNodeSetParams(call, exec, node, at.cast(), std::ptr::null_mut()),
        NODE_HOST => cuGraphExecHostNodeSetParams(call, exec, node, at.cast()),
        NODE_GRAPH => cuGraphExecChildGraphNodeSetParams(call, exec, node, get(at.cast())?),
        _ => Err(INVALID_VALUE),
    }
}

/// Enables or disables a node. Only kernels, copies and fills can be disabled.
pub fn cuGraphNodeSetEnabled(call: &Call, exec: CuGraphExec, node: CuGraphNode, enabled: u32) -> Answer {
    call.context()?;
    let exec = EXECS.get(exec)?;
    let mut nodes = lock(&exec.nodes);
    let matching = nodes.iter_mut().find(|ready| ready.handle == node as usize);
    let ready = matching.ok_or(INVALID_HANDLE)?;
    if !matches!(ready.work, Work::Launch(_) | Work::Copy(_) | Work::Fill(_)) {
        return Err(INVALID_VALUE);
    }
    ready.enabled = enabled != 0;
    Ok(())
}

/// Changes a kernel node by the first version of the structure, which ends before the kernel and the context.
pub fn cuGraphExecKernelNodeSetParams(
    call: &Call,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const KernelNode,
) -> Answer {
    /// Size of the first version, bytes.
    const FIRST: usize = 56;
    if form.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut full_form = std::mem::MaybeUninit::<KernelNode>::zeroed();
    // SAFETY: the caller's structure has these bytes, and the destination is larger.
    unsafe { std::ptr::copy_nonoverlapping(form.cast::<u8>(), full_form.as_mut_ptr().cast::<u8>(), FIRST) };
    cuGraphExecKernelNodeSetParams_v2(call, exec, node, full_form.as_ptr())
}

fn run(health: &Health, nodes: &[ExecNode]) -> Answer {
    nodes.iter().filter(|n| n.enabled).try_for_each(|n| match &n.work {
        Work::Launch(launch) => launch.run(health),
        Work::Copy(transfer) => transfer.run(),
        Work::Fill(fill) => fill.run(),
        Work::Host(function) => {
            function.run();
            Ok(())
        }
        Work::Child(graph) => run(health, &nodes_of(graph)),
        Work::Empty => Ok(()),
    })
}

pub fn cuGraphLaunch(call: &Call, exec: CuGraphExec, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let exec = EXECS.get(exec)?;
    refuse_capturing(&stream)?;
    refuse_implicit(&context, &stream)?;
    let nodes = lock(&exec.nodes).clone();
    context.submit(&stream, Vec::new(), move |health| run(health, &nodes));
    Ok(())
}

/// A launch needs no upload here.
pub fn cuGraphUpload(call: &Call, exec: CuGraphExec, stream: CuStream) -> Answer {
    call.stream(stream)?;
    EXECS.get(exec).map(drop)
}
