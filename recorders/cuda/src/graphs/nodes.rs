//! The nodes of a graph: what each of them does, in an order that keeps the edges.

use crate::copies::{element_rows, elements, flatten};
use crate::launches::read_arguments;
use crate::recorder::Recorder;
use crate::resolve::driver;
use cuda_driver::{
    Copy3d, CuGraph, CuGraphNode, FillNode, KernelNode, LAUNCH_CLUSTER, LAUNCH_COOPERATIVE, NODE_COPY, NODE_EMPTY,
    NODE_EVENT_RECORD, NODE_FILL, NODE_GRAPH, NODE_HOST, NODE_KERNEL, NODE_WAIT_EVENT,
};
use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use trace_core::recording::{CopyRow, FillRow, LaunchRow};

/// Maximum number of nodes of a graph, and most graphs inside each other.
const MAX_NODES: usize = 1 << 20;
const MAX_DEPTH: u32 = 8;

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its handle, by which the program names it in what was made ready.
    pub handle: usize,
    /// Whether launches do it.
    pub enabled: bool,
    pub work: NodeWork,
}

/// What a node does.
#[derive(Clone, Debug)]
pub(super) enum NodeWork {
    /// A launch, its arguments, and whether launches of its function are recorded one by one.
    Launch(LaunchRow, Option<Vec<u8>>, bool),
    Copies(Vec<CopyRow>),
    Fill(FillRow),
    Child(Vec<Node>),
    /// Nothing that is recorded.
    Nothing,
}

impl Node {
    /// Does something else from now on. What the form of the change does not tell stays.
    pub fn change(&mut self, to: NodeWork) {
        self.work = match (to, &self.work) {
            (NodeWork::Launch(new, buffer, wanted), NodeWork::Launch(old, ..)) => {
                let row = LaunchRow {
                    cluster: old.cluster,
                    flags: old.flags,
                    ..new
                };
                NodeWork::Launch(row, buffer, wanted)
            }
            (NodeWork::Child(mut new), NodeWork::Child(old)) => {
                keep_handles(&mut new, old);
                NodeWork::Child(new)
            }
            (to, _) => to,
        };
    }
}

/// Nodes that take the place of others of the same form: the program goes on to name the ones that were there first.
pub(super) fn keep_handles(new: &mut [Node], old: &[Node]) {
    for (new, old) in new.iter_mut().zip(old) {
        new.handle = old.handle;
        if let (NodeWork::Child(new), NodeWork::Child(old)) = (&mut new.work, &old.work) {
            keep_handles(new, old);
        }
    }
}

/// The node of this handle, in graphs inside too.
pub(super) fn find(nodes: &mut [Node], handle: usize) -> Option<&mut Node> {
    nodes.iter_mut().find_map(|node| {
        if node.handle == handle {
            return Some(node);
        }
        match &mut node.work {
            NodeWork::Child(nodes) => find(nodes, handle),
            _ => None,
        }
    })
}

/// Each node that launches do, in order.
pub(super) fn for_each_enabled<'a>(nodes: &'a [Node], to: &mut dyn FnMut(&'a NodeWork)) {
    for node in nodes.iter().filter(|n| n.enabled) {
        match &node.work {
            NodeWork::Child(nodes) => for_each_enabled(nodes, to),
            what => to(what),
        }
    }
}

/// The nodes of a graph, each behind those that it waits for.
pub(super) fn list_nodes(r: &Recorder, graph: CuGraph) -> Vec<Node> {
    expand_to(r, graph, 0)
}

fn expand_to(r: &Recorder, graph: CuGraph, depth: u32) -> Vec<Node> {
    let d = driver();
    let mut count = 0;
    // SAFETY: asks how many there are.
    let asked = unsafe { d.cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count) };
    if depth > MAX_DEPTH || asked.is_err() || count > MAX_NODES {
        r.note_not_recorded("graph", "the nodes of a graph could not be told");
        return Vec::new();
    }
    let mut nodes: Vec<CuGraphNode> = vec![std::ptr::null_mut(); count];
    // SAFETY: as many places as are told.
    if count > 0 && unsafe { d.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) }.is_err() {
        r.note_not_recorded("graph", "the nodes of a graph could not be told");
        return Vec::new();
    }
    nodes.truncate(count);
    let all = sort_by_edges(graph, nodes).into_iter();
    let describe = |node: CuGraphNode| Node {
        handle: node as usize,
        enabled: true,
        work: read_work(r, node, depth).unwrap_or_else(|| {
            r.note_not_recorded("graph", "the driver does not tell what a node of a graph does");
            NodeWork::Nothing
        }),
    };
    all.map(describe).collect()
}

/// What a node does; `None`: the driver does not tell.
fn read_work(r: &Recorder, node: CuGraphNode, depth: u32) -> Option<NodeWork> {
    let d = driver();
    let mut kind = u32::MAX;
    // SAFETY: a node of a graph, and a place for the answer.
    unsafe { d.cuGraphNodeGetType(node, &raw mut kind) }.ok()?;
    Some(match kind {
        NODE_KERNEL => {
            let mut form = MaybeUninit::<KernelNode>::zeroed();
            // SAFETY: the place is as long as the form; what it points to is the graph's own.
            unsafe { d.cuGraphKernelNodeGetParams_v2(node, form.as_mut_ptr()) }.ok()?;
            // SAFETY: filled, and zero is a value of each field.
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
            // SAFETY: a place for the answer.
            unsafe { d.cuGraphChildGraphNodeGetGraph(node, &raw mut child) }.ok()?;
            NodeWork::Child(expand_to(r, child, depth + 1))
        }
        NODE_HOST => {
            r.note_not_recorded(
                "graph",
                "a graph calls functions of the host: what they do to memory is not seen",
            );
            NodeWork::Nothing
        }
        NODE_EMPTY | NODE_WAIT_EVENT | NODE_EVENT_RECORD => NodeWork::Nothing,
        other => {
            r.note_not_recorded(
                "graph",
                format!("a graph has nodes of kind {other}, which the recorder does not know"),
            );
            NodeWork::Nothing
        }
    })
}

/// The fill that a node is.
pub(super) fn read_fill(f: &FillNode) -> NodeWork {
    NodeWork::Fill(if f.height <= 1 {
        elements(f.to, f.value, f.element, f.width)
    } else {
        element_rows(f.to, f.pitch, f.value, f.element, f.width, f.height)
    })
}

/// The launch that a node is, apart from what its form does not tell.
///
/// # Safety
/// The form's pointers are those of a launch of its function.
pub(super) unsafe fn read_launch(r: &Recorder, form: &KernelNode) -> NodeWork {
    let function = if form.function.is_null() {
        form.kernel
    } else {
        form.function
    };
    let known = crate::code::function(r, function);
    // SAFETY: the caller's promise.
    let buffer = unsafe { read_arguments(&known, form.parameters, form.extra) };
    crate::pinned_access::check_arguments(r, buffer.as_deref());
    let row = LaunchRow {
        function: known.number,
        grid: form.grid,
        block: form.block,
        shared: form.shared,
        ..Default::default()
    };
    NodeWork::Launch(row, buffer, known.is_selected)
}

/// What a node's attributes tell of its launch.
fn shape(node: CuGraphNode, row: &mut LaunchRow) {
    let attribute = |which| {
        let mut value = [0u64; 8];
        // SAFETY: a kernel's node, and a place that is as long as a value.
        let asked = unsafe { driver().cuGraphKernelNodeGetAttribute(node, which, &raw mut value) };
        asked.ok().map(|()| value)
    };
    if attribute(LAUNCH_COOPERATIVE).is_some_and(|[low, ..]| low as u32 != 0) {
        row.flags |= LaunchRow::COOPERATIVE;
    }
    if let Some([low, high, ..]) = attribute(LAUNCH_CLUSTER) {
        let cluster = [low as u32, (low >> 32) as u32, high as u32];
        // A cluster of one block is what every launch has that asks for none.
        if cluster != [1; 3] {
            row.cluster = cluster;
        }
    }
}

/// Nodes in an order that keeps the edges, otherwise as the driver lists them.
fn sort_by_edges(graph: CuGraph, nodes: Vec<CuGraphNode>) -> Vec<CuGraphNode> {
    let d = driver();
    let mut count = 0;
    let none = std::ptr::null_mut();
    // SAFETY: asks how many edges there are; drivers of CUDA 13 have the second form alone under this name.
    let asked = unsafe {
        d.cuGraphGetEdges_v2(graph, none, none, std::ptr::null_mut(), &raw mut count)
            .or_else(|_| d.cuGraphGetEdges(graph, none, none, &raw mut count))
    };
    if asked.is_err() || count == 0 || count > MAX_NODES * 8 {
        return nodes;
    }
    let (mut from, mut to): (Vec<CuGraphNode>, Vec<CuGraphNode>) =
        (vec![std::ptr::null_mut(); count], vec![std::ptr::null_mut(); count]);
    // What is told of each edge beside its ends: eight bytes.
    let mut data = vec![0u64; count];
    // SAFETY: as many places as are told.
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
    // Of those that are free the one that the driver lists first.
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
