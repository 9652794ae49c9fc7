//! Nodes of graphs: all kinds of changes in the executable graph, and attributes. Also graphs that copy memory to the
//! host and back to the device.

use super::graph::NO_COPY;
use crate::gpu::Arg::{U32, U64};
use crate::gpu::{Args, ClientResult, Gpu};
use crate::program_context::ProgramContext;
use crate::result::{check, words};
use cuda_driver::{
    Copy3d, CuFunction, CuGraph, CuGraphNode, CudaError, FillNode, KernelNode, LAUNCH_CLUSTER, MEMORY_DEVICE,
    MEMORY_HOST, NODE_COPY, NODE_FILL, NODE_KERNEL, NodeForm,
};
use std::ptr::{null, null_mut};

pub(super) fn text(e: CudaError) -> String {
    e.to_string()
}

pub(super) fn mixed(values: &mut [u32], factor: u32) {
    for (v, i) in values.iter_mut().zip(0..) {
        *v = v.wrapping_mul(factor).wrapping_add(i);
    }
}

pub(super) fn kernel(function: CuFunction, n: u32, args: &mut Args) -> KernelNode {
    KernelNode {
        function,
        grid: [n.div_ceil(128).next_multiple_of(2), 1, 1],
        block: [128, 1, 1],
        shared: 0,
        parameters: args.pointers(),
        extra: null_mut(),
        kernel: null_mut(),
        context: null_mut(),
    }
}

pub(super) fn fill(to: u64, value: u32, n: u32) -> FillNode {
    FillNode {
        to,
        pitch: 0,
        value,
        element: 4,
        width: n as usize,
        height: 1,
    }
}

pub(super) fn to_host(to: *mut u32, from: u64, n: u32) -> Copy3d {
    Copy3d {
        source_kind: MEMORY_DEVICE,
        source_device: from,
        to_kind: MEMORY_HOST,
        to_host: to.cast(),
        width: n as usize * 4,
        height: 1,
        depth: 1,
        ..NO_COPY
    }
}

/// Returns the structure for all kinds of nodes, with `form` at a byte offset.
fn any<T: Copy>(kind: u32, at: usize, form: &T) -> NodeForm {
    let mut all = NodeForm {
        kind,
        reserved: [0; 3],
        form: [0; 29],
        last: 0,
    };
    assert!(at + size_of::<T>() <= size_of_val(&all.form));
    // SAFETY: the size was just checked to fit into the destination.
    unsafe {
        all.form
            .as_mut_ptr()
            .cast::<u8>()
            .add(at)
            .cast::<T>()
            .write_unaligned(*form)
    };
    all
}

/// A graph that fills memory, mixes it by a child graph, mixes an input by a kernel, joins both, and copies back.
pub(super) struct BuiltGraph {
    pub(super) graph: CuGraph,
    pub(super) set: CuGraphNode,
    pub(super) child: CuGraphNode,
    pub(super) mix: CuGraphNode,
    pub(super) copy: CuGraphNode,
}

pub(super) struct Parts {
    pub(super) gpu: Gpu,
    pub(super) n: u32,
    pub(super) mix: CuFunction,
    pub(super) join: CuFunction,
    pub(super) input: u64,
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) out: u64,
}

impl Parts {
    pub(super) fn inside(&self, factor: u32) -> ClientResult<CuGraph> {
        let (mut graph, mut node) = (null_mut(), null_mut());
        let mut args = Args::new(&[U64(self.b), U64(self.b), U32(self.n), U32(factor)]);
        let form = kernel(self.mix, self.n, &mut args);
        // SAFETY: the pointers are valid for the answers, and the structure has as many arguments as the function.
        unsafe {
            self.gpu.d.cuGraphCreate(&raw mut graph, 0).map_err(text)?;
            self.gpu
                .d
                .cuGraphAddKernelNode_v2(&raw mut node, graph, null(), 0, &form)
                .map_err(text)?;
        }
        Ok(graph)
    }

    pub(super) fn args(&self, factor: u32) -> Args {
        Args::new(&[U64(self.a), U64(self.input), U32(self.n), U32(factor)])
    }

    pub(super) fn make(&self, value: u32, child: u32, factor: u32, to: *mut u32) -> ClientResult<BuiltGraph> {
        let d = self.gpu.d;
        let mut built = BuiltGraph {
            graph: null_mut(),
            set: null_mut(),
            child: null_mut(),
            mix: null_mut(),
            copy: null_mut(),
        };
        let mut last = null_mut();
        let inside = self.inside(child)?;
        let mut args = self.args(factor);
        let mut join = Args::new(&[U64(self.out), U64(self.a), U64(self.b), U32(self.n)]);
        let (set, mix) = (fill(self.b, value, self.n), kernel(self.mix, self.n, &mut args));
        let (join, copy) = (kernel(self.join, self.n, &mut join), to_host(to, self.out, self.n));
        // SAFETY: as above.
        unsafe {
            d.cuGraphCreate(&raw mut built.graph, 0).map_err(text)?;
            d.cuGraphAddMemsetNode(&raw mut built.set, built.graph, null(), 0, &set, null_mut())
                .map_err(text)?;
            d.cuGraphAddChildGraphNode(&raw mut built.child, built.graph, &raw const built.set, 1, inside)
                .map_err(text)?;
            d.cuGraphAddKernelNode_v2(&raw mut built.mix, built.graph, null(), 0, &mix)
                .map_err(text)?;
            let both = [built.child, built.mix];
            d.cuGraphAddKernelNode_v2(&raw mut last, built.graph, both.as_ptr(), 2, &join)
                .map_err(text)?;
            d.cuGraphAddMemcpyNode(&raw mut built.copy, built.graph, &raw const last, 1, &copy, null_mut())
                .map_err(text)?;
            d.cuGraphDestroy(inside).map_err(text)?;
        }
        Ok(built)
    }
}

/// Changes a part of the executable graph in each round. With `--via dlsym`, the program also uses first versions of
/// functions. `--cluster` requests clusters, which old devices do not support.
pub fn nodes(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_000);
    let gpu = w.gpu;
    let d = gpu.d;
    let code = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let values = words(w.options.seed ^ 0x51, n);
    let bytes = n as usize * 4;
    let parts = Parts {
        gpu,
        n,
        mix: gpu.function(code, "mix")?,
        join: gpu.function(code, "join")?,
        input: gpu.upload_new(&values)?,
        a: gpu.alloc(bytes)?,
        b: gpu.alloc(bytes)?,
        out: gpu.alloc(bytes)?,
    };
    let (first, second) = (gpu.pinned(n as usize)?, gpu.pinned(n as usize)?);
    let built = parts.make(0x77, 11, 2, first.as_mut_ptr())?;
    let other = parts.make(0x1234, 17, 6, first.as_mut_ptr())?;
    if w.options.has("--cluster") {
        let value = [2 | 1 << 32, 1, 0, 0, 0, 0, 0, 0];
        // SAFETY: the node is a kernel node, and the value is valid.
        unsafe { d.cuGraphKernelNodeSetAttribute(built.mix, LAUNCH_CLUSTER, &raw const value) }.map_err(text)?;
    }
    let stream = gpu.stream()?;
    let mut exec = null_mut();
    // SAFETY: the pointer is valid for the answer.
    unsafe { d.cuGraphInstantiateWithFlags(&raw mut exec, built.graph, 0) }.map_err(text)?;
    let (mut value, mut child, mut factor, mut is_second, mut is_set) = (0x77, 11, 2, false, true);
    let mut b = vec![0; n as usize];
    for round in 0..11u32 {
        let mut args = parts.args(factor);
        // SAFETY: the nodes are of the graph that was instantiated, and the structures are complete.
        unsafe {
            match round {
                1 => {
                    value = 0x55;
                    d.cuGraphExecMemsetNodeSetParams(exec, built.set, &fill(parts.b, value, n), null_mut())
                }
                2 => {
                    is_second = true;
                    let copy = to_host(second.as_mut_ptr(), parts.out, n);
                    d.cuGraphExecMemcpyNodeSetParams(exec, built.copy, &copy, null_mut())
                }
                3 => {
                    child = 13;
                    let inside = parts.inside(child)?;
                    d.cuGraphExecChildGraphNodeSetParams(exec, built.child, inside)
                }
                4 => {
                    factor = 5;
                    args = parts.args(factor);
                    let mut form = any(NODE_KERNEL, 0, &kernel(parts.mix, n, &mut args));
                    d.cuGraphExecNodeSetParams(exec, built.mix, &raw mut form)
                }
                5 => {
                    is_set = false;
                    d.cuGraphNodeSetEnabled(exec, built.set, 0)
                }
                6 => {
                    is_set = true;
                    d.cuGraphNodeSetEnabled(exec, built.set, 1)
                }
                7 => {
                    value = 0x66;
                    let mut form = any(NODE_FILL, 0, &fill(parts.b, value, n));
                    d.cuGraphExecNodeSetParams(exec, built.set, &raw mut form)
                }
                8 => {
                    is_second = false;
                    let copy = to_host(first.as_mut_ptr(), parts.out, n);
                    let mut form = any(NODE_COPY, NodeForm::COPY_AT, &copy);
                    d.cuGraphExecNodeSetParams(exec, built.copy, &raw mut form)
                }
                9 => {
                    factor = 9;
                    args = parts.args(factor);
                    let form = kernel(parts.mix, n, &mut args);
                    match d.cuGraphExecKernelNodeSetParams(exec, built.mix, &form) {
                        Err(CudaError::Missing { .. }) => d.cuGraphExecKernelNodeSetParams_v2(exec, built.mix, &form),
                        done => done,
                    }
                }
                10 => {
                    (value, child, factor, is_second) = (0x1234, 17, 6, false);
                    let (mut node, mut reported, mut all) = (null_mut(), 0, [0u64; 4]);
                    match d.cuGraphExecUpdate(exec, other.graph, &raw mut node, &raw mut reported) {
                        Err(CudaError::Missing { .. }) => {
                            d.cuGraphExecUpdate_v2(exec, other.graph, all.as_mut_ptr().cast())
                        }
                        done => done,
                    }
                }
                _ => Ok(()),
            }
            .map_err(|e| format!("round {round}: {e}"))?;
            d.cuGraphLaunch(exec, stream).map_err(text)?;
        }
        gpu.finish(stream)?;
        drop(args);
        if is_set {
            b.fill(value);
        }
        mixed(&mut b, child);
        let mut a = values.clone();
        mixed(&mut a, factor);
        let right: Vec<u32> = a
            .iter()
            .zip(&b)
            .zip(0..)
            .map(|((a, b), i)| a ^ b.wrapping_add(i))
            .collect();
        let got = if is_second { &*second } else { &*first };
        check(&format!("round {round}"), got, &right)?;
        w.result.give(got);
    }
    Ok(())
}

/// Runs a graph that copies memory to the host and back. Then runs a graph three times without a wait, which reads host
/// memory and writes its result to the same memory.
pub fn feedback(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let mix = gpu.function(code, "mix")?;
    let bytes = n as usize * 4;
    let (p, q) = (gpu.alloc(bytes)?, gpu.alloc(bytes)?);
    let (one, two) = (gpu.pinned(n as usize)?, gpu.pinned(n as usize)?);
    one.fill(0x1111_1111);
    let mut values = words(w.options.seed ^ 0x77, n);
    two.copy_from_slice(&values);
    let stream = gpu.stream()?;
    let begin = || {
        // SAFETY: the stream is the driver's.
        unsafe { gpu.d.cuStreamBeginCapture_v2(stream, 0) }.map_err(text)
    };
    let end = || -> ClientResult<*mut std::ffi::c_void> {
        let (mut graph, mut exec) = (null_mut(), null_mut());
        // SAFETY: the pointers are valid for the answers.
        unsafe {
            gpu.d.cuStreamEndCapture(stream, &raw mut graph).map_err(text)?;
            gpu.d
                .cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)
                .map_err(text)?;
        }
        Ok(exec)
    };
    begin()?;
    gpu.fill(p, 0x99, n as usize, stream)?;
    gpu.download_async(one, p, stream)?;
    gpu.upload_async(q, one, stream)?;
    let round_trip = end()?;
    // SAFETY: the handles are the driver's.
    unsafe { gpu.d.cuGraphLaunch(round_trip, stream) }.map_err(text)?;
    gpu.finish(stream)?;
    w.result.give(one);
    let got: Vec<u32> = gpu.download(q, n as usize)?;
    check("words copied to the host and back", &got, &vec![0x99; n as usize])?;
    w.result.give(&got);
    begin()?;
    gpu.upload_async(p, two, stream)?;
    gpu.launch(mix, n.div_ceil(128), 128, stream, &[U64(q), U64(p), U32(n), U32(3)])?;
    gpu.download_async(two, q, stream)?;
    let in_place = end()?;
    for _ in 0..3 {
        // SAFETY: as above.
        unsafe { gpu.d.cuGraphLaunch(in_place, stream) }.map_err(text)?;
        mixed(&mut values, 3);
    }
    gpu.finish(stream)?;
    check("words copied back to their source", two, &values)?;
    w.result.give(two);
    let got: Vec<u32> = gpu.download(q, n as usize)?;
    w.result.give(&got);
    Ok(())
}
