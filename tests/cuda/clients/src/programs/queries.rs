//! Questions about graphs: lists of nodes and edges, parameters and attributes of nodes, reports of instantiations and
//! updates, captures into graphs, and handles that are stale.

use super::nodes::{BuiltGraph, Parts, fill, mixed, text, to_host};
use crate::gpu::Arg::{U32, U64};
use crate::gpu::ClientResult;
use crate::program_context::ProgramContext;
use crate::result::{check, words};
use cuda_driver::{
    Copy3d, CuGraph, CuGraphExec, CuGraphNode, CudaError, FillNode, InstantiationParameters, KernelNode,
    LAUNCH_COOPERATIVE, LAUNCH_PROGRAMMATIC_EVENT, MEMORY_HOST, UpdateReport,
};
use std::ptr::{null, null_mut};

/// Result of an update that does not fit.
const UPDATE_FAILURE: u32 = 910;

fn code(result: Result<(), CudaError>) -> u32 {
    result.map_or_else(|e| e.result().unwrap_or(u32::MAX), |()| 0)
}

/// Returns the positions of nodes in a list of known ones; those that are unknown are `u32::MAX`.
fn positions(nodes: &[CuGraphNode], known: &[CuGraphNode]) -> Vec<u32> {
    let position = |node| known.iter().position(|other| other == node);
    nodes
        .iter()
        .map(|node| position(node).map_or(u32::MAX, |n| n as u32))
        .collect()
}

pub fn queries(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_000);
    let gpu = w.gpu;
    let d = gpu.d;
    let code_of_graph = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let values = words(w.options.seed ^ 0x71, n);
    let bytes = n as usize * 4;
    let parts = Parts {
        gpu,
        n,
        mix: gpu.function(code_of_graph, "mix")?,
        join: gpu.function(code_of_graph, "join")?,
        input: gpu.upload_new(&values)?,
        a: gpu.alloc(bytes)?,
        b: gpu.alloc(bytes)?,
        out: gpu.alloc(bytes)?,
    };
    let result = gpu.pinned(n as usize)?;
    let built = parts.make(0x77, 11, 2, result.as_mut_ptr())?;
    lists(w, &built)?;
    parameters(w, &parts, &built, result.as_mut_ptr())?;
    let (first, second) = instantiations(w, &built)?;
    let stream = gpu.stream()?;
    for (exec, value) in [(first, 0x77), (second, 0x66)] {
        if value != 0x77 {
            // SAFETY: the node is of the graph that was instantiated.
            unsafe { d.cuGraphExecMemsetNodeSetParams(exec, built.set, &fill(parts.b, value, n), null_mut()) }
                .map_err(text)?;
        }
        // SAFETY: the handles are the driver's.
        unsafe { d.cuGraphLaunch(exec, stream) }.map_err(text)?;
        gpu.finish(stream)?;
        let (mut a, mut b) = (values.clone(), vec![value; n as usize]);
        // The kernel's argument was changed after the graph was built.
        mixed(&mut a, 7);
        mixed(&mut b, 11);
        let right = a.iter().zip(&b).zip(0..).map(|((a, b), i)| a ^ b.wrapping_add(i));
        check("result of the graph", result, &right.collect::<Vec<u32>>())?;
        w.result.give(result);
    }
    updates(w, &parts, first)?;
    capture(w, &parts, &built)?;
    if w.options.has("--pageable") {
        let mut memory = vec![0u32; n as usize];
        let mut node = null_mut();
        let copy = to_host(memory.as_mut_ptr(), parts.out, n);
        // SAFETY: the graph is never launched.
        unsafe { d.cuGraphAddMemcpyNode(&raw mut node, built.graph, null(), 0, &copy, null_mut()) }.map_err(text)?;
    }
    if w.options.has("--many") {
        many(w)?;
    }
    // NVIDIA's driver does not check all of these handles.
    match w.options.has("--stale") {
        true => stale(w, &built, [first, second]),
        false => Ok(()),
    }
}

/// Lists a chain of so many nodes that a remote driver sends them in parts.
fn many(w: &mut ProgramContext<'_>) -> ClientResult {
    const NODES: usize = 9_000;
    let d = w.gpu.d;
    let (mut graph, mut last) = (null_mut(), null_mut());
    // SAFETY: the pointers are valid for the answers.
    unsafe { d.cuGraphCreate(&raw mut graph, 0) }.map_err(text)?;
    for index in 0..NODES {
        let after = last;
        // SAFETY: as above; the first node comes after none.
        unsafe { d.cuGraphAddEmptyNode(&raw mut last, graph, &raw const after, usize::from(index > 0)) }
            .map_err(text)?;
    }
    let nodes: std::collections::HashSet<_> = list_nodes(w, graph)?.into_iter().collect();
    let mut count = NODES;
    let (mut from, mut to, mut data) = (vec![null_mut(); count], vec![null_mut(); count], vec![u64::MAX; count]);
    let (starts, ends) = (from.as_mut_ptr(), to.as_mut_ptr());
    // SAFETY: the lists have this size.
    unsafe { d.cuGraphGetEdges_v2(graph, starts, ends, data.as_mut_ptr().cast(), &raw mut count) }.map_err(text)?;
    let ends: std::collections::HashSet<_> = to.into_iter().collect();
    w.result.give(&[nodes.len() as u32, count as u32, ends.len() as u32]);
    check("edges", &[count, ends.len(), nodes.len()], &[NODES - 1, NODES, NODES])
}

fn list_nodes(w: &ProgramContext<'_>, graph: CuGraph) -> ClientResult<Vec<CuGraphNode>> {
    let d = w.gpu.d;
    let mut count = 0;
    // SAFETY: no list means that only the count is wanted.
    unsafe { d.cuGraphGetNodes(graph, null_mut(), &raw mut count) }.map_err(|e| format!("number of nodes: {e}"))?;
    // A list with room for one more, and one with room for one less.
    let unset = std::ptr::without_provenance_mut(usize::MAX);
    let (mut nodes, mut room) = (vec![unset; count + 1], count + 1);
    let (mut fewer, mut less) = (vec![unset; count - 1], count - 1);
    // SAFETY: the lists have these sizes.
    let refused = unsafe {
        d.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut room)
            .map_err(|e| format!("list with room for one more: {e}"))?;
        d.cuGraphGetNodes(graph, fewer.as_mut_ptr(), &raw mut less)
    };
    println!("list with room for one less: {}", code(refused));
    if room != count || nodes.pop() != Some(null_mut()) {
        return Err(format!("{room} of {count} nodes are listed"));
    }
    Ok(nodes)
}

fn lists(w: &mut ProgramContext<'_>, built: &BuiltGraph) -> ClientResult {
    let d = w.gpu.d;
    let known = [built.set, built.child, built.mix, built.copy];
    let nodes = list_nodes(w, built.graph)?;
    let mut kinds = Vec::new();
    for node in &nodes {
        let mut kind = u32::MAX;
        // SAFETY: the pointer is valid for the answer.
        unsafe { d.cuGraphNodeGetType(*node, &raw mut kind) }.map_err(text)?;
        kinds.push(kind);
    }
    w.result.give(&kinds);
    w.result.give(&positions(&nodes, &known));
    let mut count = 0;
    let get_edges = |from: *mut CuGraphNode, to: *mut CuGraphNode, count: *mut usize| {
        // SAFETY: the lists are null, or have this size.
        match unsafe { d.cuGraphGetEdges(built.graph, from, to, count) } {
            // Programs that look functions up through the driver get the second version.
            Err(CudaError::Missing { .. }) => {
                // SAFETY: as above; edges need no data.
                unsafe { d.cuGraphGetEdges_v2(built.graph, from, to, null_mut(), count) }
            }
            done => done,
        }
        .map_err(text)
    };
    get_edges(null_mut(), null_mut(), &raw mut count)?;
    let (mut from, mut to, mut data) = (vec![null_mut(); count], vec![null_mut(); count], vec![u64::MAX; count]);
    get_edges(from.as_mut_ptr(), to.as_mut_ptr(), &raw mut count)?;
    w.result.give(&positions(&from, &nodes));
    w.result.give(&positions(&to, &nodes));
    let (mut from_again, mut to_again) = (vec![null_mut(); count], vec![null_mut(); count]);
    let (starts, ends) = (from_again.as_mut_ptr(), to_again.as_mut_ptr());
    // SAFETY: as above; the data of an edge has 8 bytes.
    unsafe { d.cuGraphGetEdges_v2(built.graph, starts, ends, data.as_mut_ptr().cast(), &raw mut count) }
        .map_err(text)?;
    if (from, to) != (from_again, to_again) {
        return Err("both versions list different edges".into());
    }
    w.result.give(&data);
    Ok(())
}

/// Returns a structure of the driver that is filled by `read`.
fn filled<T>(read: impl FnOnce(*mut T) -> Result<(), CudaError>) -> ClientResult<T> {
    let mut form = std::mem::MaybeUninit::<T>::zeroed();
    read(form.as_mut_ptr()).map_err(text)?;
    // SAFETY: zeros are a value of all structures here, and the driver writes valid ones.
    Ok(unsafe { form.assume_init() })
}

/// Reads parameters of nodes, and changes the factor of a kernel from 2 to 7.
fn parameters(w: &mut ProgramContext<'_>, parts: &Parts, built: &BuiltGraph, result: *mut u32) -> ClientResult {
    let d = w.gpu.d;
    let factor_at = |form: &KernelNode| -> *mut u32 {
        // SAFETY: the kernel has four parameters.
        unsafe { form.parameters.add(3).read() }.cast()
    };
    // SAFETY: the node is a kernel node.
    let get = |node| filled(|to| unsafe { d.cuGraphKernelNodeGetParams_v2(node, to) });
    let mut form: KernelNode = get(built.mix)?;
    // SAFETY: the fourth parameter is a number.
    let factor = unsafe { factor_at(&form).read() };
    let mut args = parts.args(7);
    form.parameters = args.pointers();
    // SAFETY: the structure has as many arguments as the function.
    unsafe { d.cuGraphKernelNodeSetParams_v2(built.mix, &raw const form) }.map_err(text)?;
    let form: KernelNode = get(built.mix)?;
    // SAFETY: as above.
    let changed = unsafe { factor_at(&form).read() };
    w.result.give(&[factor, changed, form.shared]);
    w.result.give(&[form.grid, form.block]);
    // A kernel node of the child graph, which the program did not make.
    let mut inside = null_mut();
    // SAFETY: the node is that of a child graph.
    unsafe { d.cuGraphChildGraphNodeGetGraph(built.child, &raw mut inside) }.map_err(text)?;
    let node = *list_nodes(w, inside)?.first().ok_or("the child graph has no node")?;
    let form: KernelNode = get(node)?;
    // SAFETY: as above.
    w.result.give(&[unsafe { factor_at(&form).read() }]);
    // SAFETY: the node is a copy node.
    let copy: Copy3d = filled(|to| unsafe { d.cuGraphMemcpyNodeGetParams(built.copy, to) })?;
    if copy.to_kind != MEMORY_HOST || copy.to_host != result.cast() || copy.source_device != parts.out {
        return Err(format!("the copy is {copy:?}"));
    }
    w.result
        .give(&[copy.width as u64, copy.height as u64, copy.depth as u64]);
    // SAFETY: the node is a fill node.
    let fill: FillNode = filled(|to| unsafe { d.cuGraphMemsetNodeGetParams(built.set, to) })?;
    if fill.to != parts.b {
        return Err(format!("the fill is {fill:?}"));
    }
    w.result
        .give(&[fill.value, fill.element, fill.width as u32, fill.height as u32]);
    let mut value = [0; 8];
    // SAFETY: the values have the size of an attribute.
    let codes = unsafe {
        d.cuGraphKernelNodeSetAttribute(built.mix, LAUNCH_COOPERATIVE, &raw const value)
            .map_err(text)?;
        d.cuGraphKernelNodeGetAttribute(built.mix, LAUNCH_COOPERATIVE, &raw mut value)
            .map_err(text)?;
        [
            d.cuGraphKernelNodeGetAttribute(built.mix, LAUNCH_PROGRAMMATIC_EVENT, &raw mut value)
                .is_err(),
            d.cuGraphKernelNodeGetAttribute(built.copy, LAUNCH_COOPERATIVE, &raw mut value)
                .is_err(),
            d.cuGraphMemsetNodeGetParams(built.copy, &mut { fill }).is_err(),
        ]
    };
    w.result.give(&value);
    w.result.give(&codes.map(u32::from));
    Ok(())
}

/// Instantiates a graph by two functions.
fn instantiations(w: &mut ProgramContext<'_>, built: &BuiltGraph) -> ClientResult<(CuGraphExec, CuGraphExec)> {
    let d = w.gpu.d;
    let (mut first, mut second, mut node) = (null_mut(), null_mut(), null_mut());
    let mut log = [0u8; 100];
    let mut form = InstantiationParameters {
        flags: 0,
        stream: null_mut(),
        node: null_mut(),
        outcome: u32::MAX,
    };
    // SAFETY: the pointers are valid for the answers, and the log has this size.
    unsafe {
        let bytes = log.len();
        match d.cuGraphInstantiate_v2(
            &raw mut first,
            built.graph,
            &raw mut node,
            log.as_mut_ptr().cast(),
            bytes,
        ) {
            // Programs that look functions up through the driver get the one with flags.
            Err(CudaError::Missing { .. }) => d.cuGraphInstantiateWithFlags(&raw mut first, built.graph, 0),
            done => done,
        }
        .map_err(text)?;
        d.cuGraphInstantiateWithParams(&raw mut second, built.graph, (&raw mut form).cast())
            .map_err(text)?;
    }
    w.result
        .give(&[form.outcome, u32::from(form.node.is_null()), u32::from(node.is_null())]);
    w.result.give(&log);
    Ok((first, second))
}

/// Updates an executable graph by a graph that does not fit.
fn updates(w: &mut ProgramContext<'_>, parts: &Parts, exec: CuGraphExec) -> ClientResult {
    let d = w.gpu.d;
    let (mut other, mut node) = (null_mut(), null_mut());
    let mut report = UpdateReport {
        outcome: 0,
        node: null_mut(),
        edge_start: null_mut(),
    };
    let inside = parts.inside(3)?;
    // SAFETY: the pointers are valid for the answers.
    let updated = unsafe {
        d.cuGraphCreate(&raw mut other, 0).map_err(text)?;
        d.cuGraphAddEmptyNode(&raw mut node, other, null(), 0).map_err(text)?;
        d.cuGraphAddChildGraphNode(&raw mut node, other, &raw const node, 1, inside)
            .map_err(text)?;
        code(d.cuGraphExecUpdate_v2(exec, other, (&raw mut report).cast()))
    };
    check("result of the update", &[updated], &[UPDATE_FAILURE])?;
    w.result.give(&[u32::from(report.outcome != 0)]);
    w.result.give(&[list_nodes(w, other)?.len() as u32]);
    // SAFETY: the handles are the driver's.
    unsafe { d.cuGraphDestroy(other) }.map_err(text)
}

/// Captures a launch into the graph, after its last node.
fn capture(w: &mut ProgramContext<'_>, parts: &Parts, built: &BuiltGraph) -> ClientResult {
    let (gpu, n) = (w.gpu, parts.n);
    let stream = gpu.stream()?;
    let mut graph = null_mut();
    let after = &raw const built.copy;
    // SAFETY: the handles are the driver's, and the pointers are valid for the answers.
    unsafe {
        gpu.d
            .cuStreamBeginCaptureToGraph(stream, built.graph, after, null(), 1, 0)
    }
    .map_err(text)?;
    gpu.launch(
        parts.mix,
        n.div_ceil(128),
        128,
        stream,
        &[U64(parts.a), U64(parts.b), U32(n), U32(5)],
    )?;
    // SAFETY: as above.
    unsafe { gpu.d.cuStreamEndCapture(stream, &raw mut graph) }.map_err(text)?;
    let nodes = list_nodes(w, built.graph)?;
    w.result.give(&[u32::from(graph == built.graph), nodes.len() as u32]);
    Ok(())
}

/// Uses handles after the objects were destroyed.
fn stale(w: &mut ProgramContext<'_>, built: &BuiltGraph, execs: [CuGraphExec; 2]) -> ClientResult {
    let d = w.gpu.d;
    let (mut kind, mut count, mut node) = (0, 0, null_mut());
    let [first, second] = execs;
    // SAFETY: the driver checks handles.
    let refused = unsafe {
        d.cuGraphDestroy(built.graph).map_err(text)?;
        d.cuGraphExecDestroy(first).map_err(text)?;
        [
            d.cuGraphNodeGetType(built.mix, &raw mut kind),
            d.cuGraphNodeGetType(built.child, &raw mut kind),
            d.cuGraphGetNodes(built.graph, null_mut(), &raw mut count),
            d.cuGraphAddEmptyNode(&raw mut node, built.graph, null(), 0),
            d.cuGraphDestroy(built.graph),
            d.cuGraphExecDestroy(first),
            d.cuGraphLaunch(first, null_mut()),
        ]
    }
    .map(|result| u32::from(matches!(code(result), 1 | 400)));
    check("refused handles", &refused, &[1; 7])?;
    // SAFETY: executable graphs stay when their graph is destroyed.
    unsafe { d.cuGraphLaunch(second, null_mut()) }.map_err(text)?;
    w.gpu.synchronize()
}
