//! Calls on graphs and their nodes: creation, queries, changes.

use crate::call::{Call, HostFunction};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE};
use crate::fill::Fill;
use crate::graphs::{Graph, NODES, Node, Work, clone_graph, destroy_node};
use crate::handles::pointer;
use crate::launch::Launch;
use crate::pointers::{get, get_at, give, give_list};
use crate::transfer::Transfer;
use crate::{Answer, lock};
use cuda_driver::{
    Copy3d, CuContext, CuGraph, CuGraphNode, FillNode, HostNode, KernelNode, NODE_COPY, NODE_EMPTY, NODE_FILL,
    NODE_GRAPH, NODE_HOST, NODE_KERNEL,
};
use std::ffi::c_void;
use std::sync::Arc;

fn add(to: *mut CuGraphNode, graph: CuGraph, after: *const CuGraphNode, count: usize, work: Work) -> Answer {
    let graph = Graph::find(graph)?;
    let after = (0..count).map(|n| get_at(after, n).map(|node| node as usize));
    let after = after.collect::<Answer<Vec<_>>>()?;
    let nodes = lock(&graph.nodes);
    if to.is_null()
        || after
            .iter()
            .any(|handle| !nodes.iter().any(|node| node.handle == *handle))
    {
        return Err(INVALID_VALUE);
    }
    drop(nodes);
    give(to, pointer(graph.add(work, after)))
}

pub fn cuGraphCreate(call: &Call, to: *mut CuGraph, flags: u32) -> Answer {
    call.context()?;
    if to.is_null() || flags != 0 {
        return Err(INVALID_VALUE);
    }
    give(to, pointer(Graph::new().handle))
}

pub fn cuGraphDestroy(_: &Call, graph: CuGraph) -> Answer {
    Graph::find(graph)?.end();
    Ok(())
}

pub fn cuGraphClone(call: &Call, to: *mut CuGraph, graph: CuGraph) -> Answer {
    call.context()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    give(to, pointer(clone_graph(&*Graph::find(graph)?).handle))
}

pub fn cuGraphDestroyNode(_: &Call, node: CuGraphNode) -> Answer {
    destroy_node(node)
}

pub fn cuGraphAddKernelNode_v2(
    call: &Call,
    to: *mut CuGraphNode,
    graph: CuGraph,
    after: *const CuGraphNode,
    count: usize,
    form: *const KernelNode,
) -> Answer {
    let context = call.context()?;
    let launch = Launch::from_node(&context, &get(form)?)?;
    add(to, graph, after, count, Work::Launch(launch))
}

pub fn cuGraphAddMemcpyNode(
    call: &Call,
    to: *mut CuGraphNode,
    graph: CuGraph,
    after: *const CuGraphNode,
    count: usize,
    form: *const Copy3d,
    _context: CuContext,
) -> Answer {
    call.context()?;
    add(to, graph, after, count, Work::Copy(Transfer::from_copy3d(&get(form)?)?))
}

pub fn cuGraphAddMemsetNode(
    call: &Call,
    to: *mut CuGraphNode,
    graph: CuGraph,
    after: *const CuGraphNode,
    count: usize,
    form: *const FillNode,
    _context: CuContext,
) -> Answer {
    call.context()?;
    add(to, graph, after, count, Work::Fill(Fill::from_node(&get(form)?)?))
}

pub fn cuGraphAddHostNode(
    call: &Call,
    to: *mut CuGraphNode,
    graph: CuGraph,
    after: *const CuGraphNode,
    count: usize,
    form: *const HostNode,
) -> Answer {
    call.context()?;
    let form = get(form)?;
    let function = HostFunction::new(form.function, form.data).ok_or(INVALID_VALUE)?;
    add(to, graph, after, count, Work::Host(function))
}

pub fn cuGraphAddChildGraphNode(
    call: &Call,
    to: *mut CuGraphNode,
    graph: CuGraph,
    after: *const CuGraphNode,
    count: usize,
    child: CuGraph,
) -> Answer {
    call.context()?;
    add(to, graph, after, count, Work::Child(clone_graph(&*Graph::find(child)?)))
}

pub fn cuGraphAddEmptyNode(
    call: &Call,
    to: *mut CuGraphNode,
    graph: CuGraph,
    after: *const CuGraphNode,
    count: usize,
) -> Answer {
    call.context()?;
    add(to, graph, after, count, Work::Empty)
}

/// Returns the nodes of a graph. A driver can list them in any order: this one starts with the last.
pub fn cuGraphGetNodes(_: &Call, graph: CuGraph, to: *mut CuGraphNode, count: *mut usize) -> Answer {
    let graph = Graph::find(graph)?;
    let nodes: Vec<CuGraphNode> = lock(&graph.nodes)
        .iter()
        .rev()
        .map(|node| pointer(node.handle))
        .collect();
    // NVIDIA's driver 580 refuses a list without room.
    if !to.is_null() && get(count.cast_const())? == 0 {
        return Err(INVALID_VALUE);
    }
    list(to, count, &nodes, std::ptr::null_mut())
}

/// Writes a list of at most `count` elements, or only returns its length if there is no buffer.
fn list<T: Copy>(to: *mut T, count: *mut usize, all: &[T], rest: T) -> Answer {
    let room = get(count.cast_const())?;
    if to.is_null() {
        return give(count, all.len());
    }
    give_list(to, all, room, rest)?;
    give(count, all.len().min(room))
}

pub fn cuGraphGetEdges_v2(
    call: &Call,
    graph: CuGraph,
    from: *mut CuGraphNode,
    to: *mut CuGraphNode,
    data: *mut c_void,
    count: *mut usize,
) -> Answer {
    if !data.is_null() {
        let room = get(count.cast_const())?;
        give_list(data.cast::<u64>(), &[], room, 0)?;
    }
    cuGraphGetEdges(call, graph, from, to, count)
}

pub fn cuGraphGetEdges(
    _: &Call,
    graph: CuGraph,
    from: *mut CuGraphNode,
    to: *mut CuGraphNode,
    count: *mut usize,
) -> Answer {
    if from.is_null() != to.is_null() {
        return Err(INVALID_VALUE);
    }
    let edges = Graph::find(graph)?.edges();
    let starts: Vec<CuGraphNode> = edges.iter().map(|(from, _)| pointer(*from)).collect();
    let ends: Vec<CuGraphNode> = edges.iter().map(|(_, to)| pointer(*to)).collect();
    let mut room = get(count.cast_const())?;
    list(to, &raw mut room, &ends, std::ptr::null_mut())?;
    list(from, count, &starts, std::ptr::null_mut())
}

fn node(handle: CuGraphNode) -> Answer<Arc<Node>> {
    NODES.get(handle)
}

pub fn cuGraphNodeGetType(_: &Call, handle: CuGraphNode, to: *mut u32) -> Answer {
    let node = node(handle)?;
    let kind = match &*lock(&node.work) {
        Work::Launch(_) => NODE_KERNEL,
        Work::Copy(_) => NODE_COPY,
        Work::Fill(_) => NODE_FILL,
        Work::Host(_) => NODE_HOST,
        Work::Child(_) => NODE_GRAPH,
        Work::Empty => NODE_EMPTY,
    };
    give(to, kind)
}

pub fn cuGraphKernelNodeGetParams_v2(_: &Call, handle: CuGraphNode, to: *mut KernelNode) -> Answer {
    match &*lock(&node(handle)?.work) {
        Work::Launch(launch) => give(to, launch.to_node()),
        _ => Err(INVALID_HANDLE),
    }
}

pub fn cuGraphKernelNodeSetParams_v2(call: &Call, handle: CuGraphNode, form: *const KernelNode) -> Answer {
    let context = call.context()?;
    let launch = Launch::from_node(&context, &get(form)?)?;
    match &mut *lock(&node(handle)?.work) {
        Work::Launch(old) => {
            *old = launch.with_attributes_of(old);
            Ok(())
        }
        _ => Err(INVALID_HANDLE),
    }
}

pub fn cuGraphKernelNodeGetAttribute(_: &Call, handle: CuGraphNode, attribute: u32, to: *mut [u64; 8]) -> Answer {
    match &*lock(&node(handle)?.work) {
        Work::Launch(launch) => give(to, launch.attribute(attribute)?),
        _ => Err(INVALID_HANDLE),
    }
}

pub fn cuGraphKernelNodeSetAttribute(_: &Call, handle: CuGraphNode, attribute: u32, value: *const [u64; 8]) -> Answer {
    let value = get(value)?;
    match &mut *lock(&node(handle)?.work) {
        Work::Launch(launch) => launch.set_attribute(attribute, value),
        _ => Err(INVALID_HANDLE),
    }
}

pub fn cuGraphMemcpyNodeGetParams(_: &Call, handle: CuGraphNode, to: *mut Copy3d) -> Answer {
    match &*lock(&node(handle)?.work) {
        Work::Copy(transfer) => give(to, transfer.to_copy3d()),
        _ => Err(INVALID_HANDLE),
    }
}

pub fn cuGraphMemsetNodeGetParams(_: &Call, handle: CuGraphNode, to: *mut FillNode) -> Answer {
    match &*lock(&node(handle)?.work) {
        Work::Fill(fill) => give(to, fill.to_node()),
        _ => Err(INVALID_HANDLE),
    }
}

pub fn cuGraphChildGraphNodeGetGraph(_: &Call, handle: CuGraphNode, to: *mut CuGraph) -> Answer {
    match &*lock(&node(handle)?.work) {
        Work::Child(graph) => give(to, pointer(graph.handle)),
        _ => Err(INVALID_HANDLE),
    }
}
