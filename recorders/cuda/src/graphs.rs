//! Graphs: what is captured or built is done by each launch of a graph, and is told behind it, node by node.

use crate::copies::{element_rows, elements, flattened};
use crate::launches::{Shape, arguments};
use crate::recorder::{Form, Recorder, is_ok, lock};
use crate::resolve::driver;
use cuda_driver::{
    Copy3d, CuGraph, CuGraphExec, CuGraphNode, CuResult, CuStream, FillNode, KernelNode, NODE_COPY, NODE_EMPTY,
    NODE_EVENT_RECORD, NODE_FILL, NODE_GRAPH, NODE_HOST, NODE_KERNEL, NODE_WAIT_EVENT,
};
use cuda_session::With;
use libc::c_void;
use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use trace_core::recording::{CALL_OF_GRAPH, CallEvent, CopyKind, CopyRow, FillRow, LaunchRow};

/// Most nodes of a graph, and most graphs inside each other.
const MOST_NODES: usize = 1 << 20;
const DEEPEST: u32 = 8;

/// What a node does.
#[derive(Clone, Debug)]
enum Node {
    /// A launch, its arguments, and whether launches of its function are recorded one by one.
    Launch(LaunchRow, Option<Vec<u8>>, bool),
    Copies(Vec<CopyRow>),
    Fill(FillRow),
}

/// Graphs that can be launched: their nodes in an order that keeps the edges.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    ready: HashMap<usize, Vec<(usize, Node)>>,
}

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// A graph is made ready to be launched.
pub(crate) fn instantiate(
    r: &Recorder,
    call: Call<'_>,
    name: &'static str,
    exec: *mut CuGraphExec,
    graph: CuGraph,
) -> CuResult {
    let begun = r.session.begun();
    let result = call();
    if is_ok(result) && !exec.is_null() {
        let mut nodes = Vec::new();
        expand(r, graph, 0, &mut nodes);
        // SAFETY: the driver has put the answer there.
        let handle = unsafe { *exec } as usize;
        lock(&r.graphs).ready.insert(handle, nodes);
    }
    r.hand_call(begun, name, None, &[], result);
    result
}

/// `cuGraphExecUpdate`: a graph takes the place of the one that was made ready.
pub(crate) fn update(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    exec: CuGraphExec,
    graph: CuGraph,
    _told: *mut c_void,
) -> CuResult {
    let begun = r.session.begun();
    let result = call();
    if is_ok(result) {
        let mut nodes = Vec::new();
        expand(r, graph, 0, &mut nodes);
        let mut graphs = lock(&r.graphs);
        // The program goes on to name the nodes of the graph that it was made ready from.
        for ((handle, _), (known, _)) in nodes
            .iter_mut()
            .zip(graphs.ready.get(&(exec as usize)).into_iter().flatten())
        {
            *handle = *known;
        }
        graphs.ready.insert(exec as usize, nodes);
    }
    r.hand_call(begun, "cuGraphExecUpdate", None, &[], result);
    result
}

/// A node's launch is changed in a graph that was made ready.
///
/// # Safety
/// The form is the program's, which the driver reads too.
pub(crate) unsafe fn set_kernel(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const KernelNode,
) -> CuResult {
    let begun = r.session.begun();
    let changed = if form.is_null() {
        None
    } else {
        // SAFETY: the caller's promise.
        Some(unsafe { launch_of(r, &*form) })
    };
    let result = call();
    if is_ok(result)
        && let Some(changed) = changed
        && let Some(nodes) = lock(&r.graphs).ready.get_mut(&(exec as usize))
        && let Some((_, n)) = nodes.iter_mut().find(|(handle, _)| *handle == node as usize)
    {
        *n = changed;
    }
    r.hand_call(begun, "cuGraphExecKernelNodeSetParams", None, &[], result);
    result
}

/// `cuGraphExecDestroy`.
pub(crate) fn destroy(r: &Recorder, _form: Form, call: Call<'_>, exec: CuGraphExec) -> CuResult {
    let result = call();
    if is_ok(result) {
        lock(&r.graphs).ready.remove(&(exec as usize));
    }
    result
}

/// `cuGraphLaunch`.
pub(crate) fn launch(r: &Recorder, form: Form, call: Call<'_>, exec: CuGraphExec, stream: CuStream) -> CuResult {
    if r.kernels.is_some() {
        let graphs = lock(&r.graphs);
        let nodes = graphs.ready.get(&(exec as usize));
        let wanted = |(_, n): &(usize, Node)| matches!(n, Node::Launch(_, _, true));
        let wanted = nodes.is_some_and(|nodes| nodes.iter().any(wanted));
        drop(graphs);
        if wanted {
            crate::kernels::in_graph(r);
        }
        return call();
    }
    let begun = r.session.begun();
    let number = r.stream(stream, form);
    let captured = r.captured(stream, form);
    let result = call();
    r.hand_call(begun, "cuGraphLaunch", Some(number), &[], result);
    if !is_ok(result) || captured != 0 {
        return result;
    }
    let nodes = lock(&r.graphs).ready.get(&(exec as usize)).cloned();
    let Some(nodes) = nodes else {
        r.not_recorded(
            "graph",
            "a graph was launched of which the recorder does not know what it does",
        );
        return result;
    };
    let key = Recorder::stream_key(stream, form);
    for (_, node) in nodes {
        match node {
            Node::Launch(row, buffer, _) => {
                lock(&r.progress).work(key);
                let row = LaunchRow {
                    stream: number,
                    flags: row.flags | CALL_OF_GRAPH,
                    ..row
                };
                r.hand(
                    begun,
                    CallEvent::Launch(row),
                    buffer.map_or(With::Nothing, With::Arguments),
                );
                r.launched();
            }
            Node::Copies(rows) => {
                for row in rows {
                    let row = CopyRow {
                        stream: number,
                        flags: row.flags | CALL_OF_GRAPH,
                        ..row
                    };
                    copied(r, begun, key, row);
                }
            }
            Node::Fill(row) => {
                lock(&r.progress).work(key);
                let row = FillRow {
                    stream: number,
                    flags: row.flags | CALL_OF_GRAPH,
                    ..row
                };
                r.hand(begun, CallEvent::Fill(row), With::Nothing);
            }
        }
    }
    result
}

fn copied(r: &Recorder, begun: cuda_session::Begun, key: u64, row: CopyRow) {
    let work = lock(&r.progress).work(key);
    match CopyKind::from_raw(row.kind) {
        Some(CopyKind::DeviceToHost) => r.awaits(begun, key, work, row),
        Some(CopyKind::HostToDevice) => {
            let with = crate::content::content_at(r, row.from, row.from_pitch, &row);
            r.hand(begun, CallEvent::Copy(row), with);
        }
        _ => r.hand(begun, CallEvent::Copy(row), With::Nothing),
    }
}

/// The nodes of a graph, each behind those that it waits for.
fn expand(r: &Recorder, graph: CuGraph, depth: u32, out: &mut Vec<(usize, Node)>) {
    let d = driver();
    let mut count = 0;
    // SAFETY: asks how many there are.
    let asked = unsafe { d.cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count) };
    if depth > DEEPEST || asked.is_err() || count > MOST_NODES {
        r.not_recorded("graph", "the nodes of a graph could not be told");
        return;
    }
    let mut nodes: Vec<CuGraphNode> = vec![std::ptr::null_mut(); count];
    // SAFETY: as many places as are told.
    if count > 0 && unsafe { d.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) }.is_err() {
        return;
    }
    nodes.truncate(count);
    for node in in_order(graph, nodes) {
        let mut kind = u32::MAX;
        // SAFETY: a node of the graph, and a place for the answer.
        let _ = unsafe { d.cuGraphNodeGetType(node, &raw mut kind) };
        match kind {
            NODE_KERNEL => {
                let mut form = MaybeUninit::<KernelNode>::zeroed();
                // SAFETY: the place is as long as the form; what it points to is the graph's own.
                if unsafe { d.cuGraphKernelNodeGetParams_v2(node, form.as_mut_ptr()) }.is_ok() {
                    // SAFETY: filled, and zero is a value of each field.
                    out.push((node as usize, unsafe { launch_of(r, &form.assume_init()) }));
                }
            }
            NODE_COPY => {
                let mut form = MaybeUninit::<Copy3d>::zeroed();
                // SAFETY: as above.
                if unsafe { d.cuGraphMemcpyNodeGetParams(node, form.as_mut_ptr()) }.is_ok() {
                    // SAFETY: as above.
                    out.push((
                        node as usize,
                        Node::Copies(flattened(r, &unsafe { form.assume_init() })),
                    ));
                }
            }
            NODE_FILL => {
                let mut form = MaybeUninit::<FillNode>::zeroed();
                // SAFETY: as above.
                if unsafe { d.cuGraphMemsetNodeGetParams(node, form.as_mut_ptr()) }.is_ok() {
                    // SAFETY: as above.
                    let f = unsafe { form.assume_init() };
                    let row = if f.height <= 1 {
                        elements(f.to, f.value, f.element, f.width)
                    } else {
                        element_rows(f.to, f.pitch, f.value, f.element, f.width, f.height)
                    };
                    out.push((node as usize, Node::Fill(row)));
                }
            }
            NODE_GRAPH => {
                let mut child = std::ptr::null_mut();
                // SAFETY: a place for the answer.
                if unsafe { d.cuGraphChildGraphNodeGetGraph(node, &raw mut child) }.is_ok() {
                    expand(r, child, depth + 1, out);
                }
            }
            NODE_HOST => r.not_recorded(
                "graph",
                "a graph calls functions of the host: what they do to memory is not seen",
            ),
            NODE_EMPTY | NODE_WAIT_EVENT | NODE_EVENT_RECORD => {}
            other => r.not_recorded(
                "graph",
                format!("a graph has nodes of kind {other}, which the recorder does not know"),
            ),
        }
    }
}

/// Nodes in an order that keeps the edges, otherwise as the driver lists them.
fn in_order(graph: CuGraph, nodes: Vec<CuGraphNode>) -> Vec<CuGraphNode> {
    let d = driver();
    let mut count = 0;
    let none = std::ptr::null_mut();
    // SAFETY: asks how many edges there are; drivers of CUDA 13 have the second form alone under this name.
    let asked = unsafe {
        d.cuGraphGetEdges_v2(graph, none, none, std::ptr::null_mut(), &raw mut count)
            .or_else(|_| d.cuGraphGetEdges(graph, none, none, &raw mut count))
    };
    if asked.is_err() || count == 0 || count > MOST_NODES * 8 {
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

/// The launch that a node is.
///
/// # Safety
/// The form's pointers are those of a launch of its function.
unsafe fn launch_of(r: &Recorder, form: &KernelNode) -> Node {
    let function = if form.function.is_null() {
        form.kernel
    } else {
        form.function
    };
    let known = crate::code::function(r, function);
    // SAFETY: the caller's promise.
    let buffer = unsafe { arguments(&known, form.parameters, form.extra) };
    let shape = Shape {
        grid: form.grid,
        block: form.block,
        shared: form.shared,
        ..Default::default()
    };
    let row = LaunchRow {
        function: known.number,
        grid: shape.grid,
        block: shape.block,
        shared: shape.shared,
        ..Default::default()
    };
    Node::Launch(row, buffer, known.wanted)
}
