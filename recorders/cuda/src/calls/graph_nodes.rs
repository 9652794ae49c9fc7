//! The nodes of a graph, as the driver reports them: the work of each, in topological order.

use super::copies::{element_rows, elements, flatten};
use super::launch_arguments::read_arguments;
use crate::driver::driver;
use crate::graphs::{Node, NodeWork};
use crate::pinned_access;
use crate::recorder::Recorder;
use cuda_driver::{
    Copy3d, CuGraph, CuGraphNode, FillNode, KernelNode, LAUNCH_CLUSTER, LAUNCH_COOPERATIVE, NODE_COPY, NODE_EMPTY,
    NODE_EVENT_RECORD, NODE_FILL, NODE_GRAPH, NODE_HOST, NODE_KERNEL, NODE_WAIT_EVENT,
};
use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use trace_core::recording::LaunchRow;

/// Maximum number of nodes of a graph, and maximum depth of nested graphs.
const MAX_NODES: usize = 1 << 20;
const MAX_DEPTH: u32 = 8;

/// Returns the nodes of a graph, each after the nodes that it depends on.
pub(super) fn list_nodes(r: &Recorder, graph: CuGraph) -> Vec<Node> {
    expand_to(r, graph, 0)
}

fn expand_to(r: &Recorder, graph: CuGraph, depth: u32) -> Vec<Node> {
    let d = driver();
    let mut count = 0;
    // SAFETY: the call queries the number of nodes.
    let asked = unsafe { d.cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count) };
    if depth > MAX_DEPTH || asked.is_err() || count > MAX_NODES {
        r.trace
            .note_not_recorded("graph", "the nodes of a graph could not be read");
        return Vec::new();
    }
    let mut nodes: Vec<CuGraphNode> = vec![std::ptr::null_mut(); count];
    // SAFETY: the list has as many elements as the count says.
    if count > 0 && unsafe { d.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) }.is_err() {
        r.trace
            .note_not_recorded("graph", "the nodes of a graph could not be read");
        return Vec::new();
    }
    nodes.truncate(count);
    let all = sort_by_edges(graph, nodes).into_iter();
    let describe = |node: CuGraphNode| Node {
        handle: node as usize,
        enabled: true,
        work: read_work(r, node, depth).unwrap_or_else(|| {
            r.trace
                .note_not_recorded("graph", "the driver does not report what a node of a graph does");
            NodeWork::Nothing
        }),
    };
    all.map(describe).collect()
}

/// Returns the work of a node, or `None` if the driver does not report it.
fn read_work(r: &Recorder, node: CuGraphNode, depth: u32) -> Option<NodeWork> {
    let d = driver();
    let mut kind = u32::MAX;
    // SAFETY: the node belongs to a graph, and the pointer is valid for the answer.
    unsafe { d.cuGraphNodeGetType(node, &raw mut kind) }.ok()?;
    Some(match kind {
        NODE_KERNEL => {
            let mut form = MaybeUninit::<KernelNode>::zeroed();
            // SAFETY: the buffer is as long as the structure; the graph owns what the structure points to.
            unsafe { d.cuGraphKernelNodeGetParams_v2(node, form.as_mut_ptr()) }.ok()?;
            // SAFETY: the structure is filled, and zero is a valid value of each field.
            let mut what = unsafe { read_launch(r, &form.assume_init()) };
            if let NodeWork::Launch(row, ..) = &mut what {
                shape(node, row);
            }
            what
        }
        NODE_COPY => {
            let mut form = MaybeUninit::<Copy3d>::zeroed();
            // SAFETY: as above.
            unsafe { d.cuGraphMemcpyNodeGetParams(node, form.as_mut_ptr()) }.ok()?;
            // SAFETY: as above.
            NodeWork::Copies(flatten(r, &unsafe { form.assume_init() }))
        }
        NODE_FILL => {
            let mut form = MaybeUninit::<FillNode>::zeroed();
            // SAFETY: as above.
            unsafe { d.cuGraphMemsetNodeGetParams(node, form.as_mut_ptr()) }.ok()?;
            // SAFETY: as above.
            read_fill(&unsafe { form.assume_init() })
        }
        NODE_GRAPH => {
            let mut child = std::ptr::null_mut();
            // SAFETY: the pointer is valid for the answer.
            unsafe { d.cuGraphChildGraphNodeGetGraph(node, &raw mut child) }.ok()?;
            NodeWork::Child(expand_to(r, child, depth + 1))
        }
        NODE_HOST => {
            r.trace.note_not_recorded(
                "graph",
                "a graph calls host functions: the recorder does not see what they do to memory",
            );
            NodeWork::Nothing
        }
        NODE_EMPTY | NODE_WAIT_EVENT | NODE_EVENT_RECORD => NodeWork::Nothing,
        other => {
            r.trace.note_not_recorded(
                "graph",
                format!("a graph has nodes of kind {other}, which the recorder does not know"),
            );
            NodeWork::Nothing
        }
    })
}

/// Returns the fill of a node.
pub(super) fn read_fill(f: &FillNode) -> NodeWork {
    NodeWork::Fill(if f.height <= 1 {
        elements(f.to, f.value, f.element, f.width)
    } else {
        element_rows(f.to, f.pitch, f.value, f.element, f.width, f.height)
    })
}

/// Returns the launch of a node, without the properties that are not in its structure.
///
/// # Safety
/// The structure's pointers are those of a launch of its function.
pub(super) unsafe fn read_launch(r: &Recorder, form: &KernelNode) -> NodeWork {
    let function = if form.function.is_null() {
        form.kernel
    } else {
        form.function
    };
    let known = r.find_function(function);
    // SAFETY: guaranteed by the caller.
    let buffer = unsafe { read_arguments(&known, form.parameters, form.extra) };
    pinned_access::check_arguments(&r.trace, &r.memory, buffer.as_deref());
    let row = LaunchRow {
        function: known.number,
        grid: form.grid,
        block: form.block,
        shared: form.shared,
        ..Default::default()
    };
    NodeWork::Launch(row, buffer, known.is_selected)
}

/// Adds the launch properties from a node's attributes.
fn shape(node: CuGraphNode, row: &mut LaunchRow) {
    let attribute = |which| {
        let mut value = [0u64; 8];
        // SAFETY: the node is a kernel node, and the buffer is as long as a value.
        let asked = unsafe { driver().cuGraphKernelNodeGetAttribute(node, which, &raw mut value) };
        asked.ok().map(|()| value)
    };
    if attribute(LAUNCH_COOPERATIVE).is_some_and(|[low, ..]| low as u32 != 0) {
        row.flags |= LaunchRow::COOPERATIVE;
    }
    if let Some([low, high, ..]) = attribute(LAUNCH_CLUSTER) {
        let cluster = [low as u32, (low >> 32) as u32, high as u32];
        // Every launch without a cluster has a cluster of one block.
        if cluster != [1; 3] {
            row.cluster = cluster;
        }
    }
}

/// Returns nodes in topological order, or in the driver's order if the edges are unknown.
fn sort_by_edges(graph: CuGraph, nodes: Vec<CuGraphNode>) -> Vec<CuGraphNode> {
    let d = driver();
    let mut count = 0;
    let none = std::ptr::null_mut();
    // SAFETY: the call queries the number of edges. Drivers of CUDA 13 have only the second version under this name.
    let asked = unsafe {
        d.cuGraphGetEdges_v2(graph, none, none, std::ptr::null_mut(), &raw mut count)
            .or_else(|_| d.cuGraphGetEdges(graph, none, none, &raw mut count))
    };
    if asked.is_err() || count == 0 || count > MAX_NODES * 8 {
        return nodes;
    }
    let (mut from, mut to): (Vec<CuGraphNode>, Vec<CuGraphNode>) =
        (vec![std::ptr::null_mut(); count], vec![std::ptr::null_mut(); count]);
    // Each edge has eight bytes of data in addition to its ends.
    let mut data = vec![0u64; count];
    // SAFETY: the lists have as many elements as the count says.
    let asked = unsafe {
        d.cuGraphGetEdges_v2(
            graph,
            from.as_mut_ptr(),
            to.as_mut_ptr(),
            data.as_mut_ptr().cast(),
            &raw mut count,
        )
        .or_else(|_| d.cuGraphGetEdges(graph, from.as_mut_ptr(), to.as_mut_ptr(), &raw mut count))
    };
    if asked.is_err() {
        return nodes;
    }
    let place: HashMap<usize, usize> = nodes.iter().enumerate().map(|(n, h)| (*h as usize, n)).collect();
    let mut waits = vec![0u32; nodes.len()];
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (a, b) in from.iter().zip(&to).take(count) {
        if let (Some(a), Some(b)) = (place.get(&(*a as usize)), place.get(&(*b as usize)))
            && let (Some(list), Some(w)) = (behind.get_mut(*a), waits.get_mut(*b))
        {
            list.push(*b);
            *w += 1;
        }
    }
    // Among the free nodes, take the one that the driver lists first.
    let mut free: BTreeMap<usize, ()> = waits
        .iter()
        .enumerate()
        .filter(|(_, w)| **w == 0)
        .map(|(n, _)| (n, ()))
        .collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some((n, ())) = free.pop_first() {
        order.extend(nodes.get(n));
        for b in behind.get(n).into_iter().flatten() {
            if let Some(w) = waits.get_mut(*b) {
                *w -= 1;
                if *w == 0 {
                    free.insert(*b, ());
                }
            }
        }
    }
    if order.len() == nodes.len() { order } else { nodes }
}
