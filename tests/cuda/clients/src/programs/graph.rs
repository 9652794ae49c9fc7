//! Graphs: one graph is captured from two streams, another is built from nodes. The programs launch them several times,
//! with changed arguments, and with copies from pinned memory that changes between launches.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::{Args, ClientResult};
use crate::program_context::ProgramContext;
use crate::result::{check, words};
use cuda_driver::{Copy3d, CudaError, FillNode, KernelNode, MEMORY_DEVICE, MEMORY_HOST};

fn text(e: CudaError) -> String {
    e.to_string()
}

fn mixed(values: &[u32], factor: u32) -> Vec<u32> {
    values
        .iter()
        .zip(0..)
        .map(|(v, i)| v.wrapping_mul(factor).wrapping_add(i))
        .collect()
}

fn joined(a: &[u32], b: &[u32]) -> Vec<u32> {
    a.iter()
        .zip(b)
        .zip(0..)
        .map(|((a, b), i)| a ^ b.wrapping_add(i))
        .collect()
}

pub fn graph(w: &mut ProgramContext<'_>) -> ClientResult {
    captured(w)?;
    built(w)
}

/// Captures two streams. The first copies from pinned memory and mixes, the second mixes with another factor, and the
/// first joins both results.
fn captured(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(2_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let (mix, join) = (gpu.function(code, "mix")?, gpu.function(code, "join")?);
    let bytes = n as usize * 4;
    let (input, a, b, out) = (
        gpu.alloc(bytes)?,
        gpu.alloc(bytes)?,
        gpu.alloc(bytes)?,
        gpu.alloc(bytes)?,
    );
    let (staging, result) = (gpu.pinned(n as usize)?, gpu.pinned(n as usize)?);
    let (one, two) = (gpu.stream()?, gpu.stream()?);
    let (forked, back) = (gpu.event()?, gpu.event()?);
    let grid = n.div_ceil(128);
    let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the stream is the driver's.
    unsafe { gpu.d.cuStreamBeginCapture_v2(one, 0) }.map_err(text)?;
    gpu.upload_async(input, staging, one)?;
    gpu.record(forked, one)?;
    gpu.wait(two, forked)?;
    gpu.launch(mix, grid, 128, one, &[U64(a), U64(input), U32(n), U32(3)])?;
    gpu.launch(mix, grid, 128, two, &[U64(b), U64(input), U32(n), U32(5)])?;
    gpu.record(back, two)?;
    gpu.wait(one, back)?;
    gpu.launch(join, grid, 128, one, &[U64(out), U64(a), U64(b), U32(n)])?;
    gpu.download_async(result, out, one)?;
    // SAFETY: the pointers are valid for the answers.
    unsafe {
        gpu.d.cuStreamEndCapture(one, &raw mut graph).map_err(text)?;
        gpu.d
            .cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)
            .map_err(text)?;
    }
    for round in 0..4 {
        let values = words(w.options.seed.wrapping_mul(31).wrapping_add(round), n);
        staging.copy_from_slice(&values);
        // SAFETY: the handles are the driver's.
        unsafe { gpu.d.cuGraphLaunch(exec, one) }.map_err(text)?;
        gpu.finish(one)?;
        check(
            &format!("captured graph, round {round}"),
            result,
            &joined(&mixed(&values, 3), &mixed(&values, 5)),
        )?;
        w.result.give(result);
    }
    // SAFETY: as above.
    unsafe {
        gpu.d.cuGraphExecDestroy(exec).map_err(text)?;
        gpu.d.cuGraphDestroy(graph).map_err(text)
    }
}

/// Builds a graph: fill, mix twice, join, copy. The factor of one mix changes between launches in the executable graph.
/// Then another graph of the same structure replaces it, and the factor changes again.
fn built(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(2_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let (mix, join) = (gpu.function(code, "mix")?, gpu.function(code, "join")?);
    let bytes = n as usize * 4;
    let values = words(w.options.seed ^ 0xabc, n);
    let input = gpu.upload_new(&values)?;
    let (a, b, out) = (gpu.alloc(bytes)?, gpu.alloc(bytes)?, gpu.alloc(bytes)?);
    let result = gpu.pinned(n as usize)?;
    let kernel = |function, args: &mut Args| KernelNode {
        function,
        grid: [n.div_ceil(128), 1, 1],
        block: [128, 1, 1],
        shared: 0,
        parameters: args.pointers(),
        extra: std::ptr::null_mut(),
        kernel: std::ptr::null_mut(),
        context: std::ptr::null_mut(),
    };
    let none = std::ptr::null_mut();
    let result_at = result.as_mut_ptr();
    let make = |value: u32, factor: u32| -> ClientResult<(*mut std::ffi::c_void, *mut std::ffi::c_void)> {
        let mut graph = none;
        let (mut set, mut one, mut two, mut last, mut copy) = (none, none, none, none, none);
        let fill = FillNode {
            to: b,
            pitch: 0,
            value,
            element: 4,
            width: n as usize,
            height: 1,
        };
        let to_host = Copy3d {
            source_kind: MEMORY_DEVICE,
            source_device: out,
            to_kind: MEMORY_HOST,
            to_host: result_at.cast(),
            width: bytes,
            height: 1,
            depth: 1,
            ..NO_COPY
        };
        // SAFETY: the pointers are valid for the answers, and the structures have as many arguments as the functions.
        unsafe {
            gpu.d.cuGraphCreate(&raw mut graph, 0).map_err(text)?;
            gpu.d
                .cuGraphAddMemsetNode(&raw mut set, graph, std::ptr::null(), 0, &fill, none)
                .map_err(text)?;
            let mut args = Args::new(&[U64(a), U64(input), U32(n), U32(factor)]);
            let form = kernel(mix, &mut args);
            gpu.d
                .cuGraphAddKernelNode_v2(&raw mut one, graph, std::ptr::null(), 0, &form)
                .map_err(text)?;
            let mut args = Args::new(&[U64(b), U64(b), U32(n), U32(11)]);
            let form = kernel(mix, &mut args);
            gpu.d
                .cuGraphAddKernelNode_v2(&raw mut two, graph, &raw const set, 1, &form)
                .map_err(text)?;
            let mut args = Args::new(&[U64(out), U64(a), U64(b), U32(n)]);
            let form = kernel(join, &mut args);
            gpu.d
                .cuGraphAddKernelNode_v2(&raw mut last, graph, [one, two].as_ptr(), 2, &form)
                .map_err(text)?;
            gpu.d
                .cuGraphAddMemcpyNode(&raw mut copy, graph, &raw const last, 1, &to_host, none)
                .map_err(text)?;
        }
        Ok((graph, one))
    };
    let stream = gpu.stream()?;
    let (graph, one) = make(0x77, 2)?;
    let (other, _) = make(0x99, 2)?;
    let mut exec = none;
    // SAFETY: the pointer is valid for the answer.
    unsafe { gpu.d.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) }.map_err(text)?;
    for round in 0..5u32 {
        let (mut value, mut factor) = (0x77, 2 + round);
        if round == 3 {
            let mut report = [0u64; 4];
            // SAFETY: the buffer is longer than the report.
            unsafe { gpu.d.cuGraphExecUpdate_v2(exec, other, report.as_mut_ptr().cast()) }.map_err(text)?;
            factor = 2;
        }
        if round > 0 && round != 3 {
            let mut args = Args::new(&[U64(a), U64(input), U32(n), U32(factor)]);
            let form = kernel(mix, &mut args);
            // SAFETY: the node is of the graph that was instantiated.
            unsafe { gpu.d.cuGraphExecKernelNodeSetParams_v2(exec, one, &form) }.map_err(text)?;
        }
        if round >= 3 {
            value = 0x99;
        }
        // SAFETY: the handles are the driver's.
        unsafe { gpu.d.cuGraphLaunch(exec, stream) }.map_err(text)?;
        gpu.finish(stream)?;
        let right = joined(&mixed(&values, factor), &mixed(&vec![value; n as usize], 11));
        check(&format!("built graph, round {round}"), result, &right)?;
        w.result.give(result);
    }
    // SAFETY: as above.
    unsafe {
        gpu.d.cuGraphExecDestroy(exec).map_err(text)?;
        gpu.d.cuGraphDestroy(graph).map_err(text)?;
        gpu.d.cuGraphDestroy(other).map_err(text)
    }
}

/// A copy whose fields are all zero, as a base for other copies.
pub(super) const NO_COPY: Copy3d = Copy3d {
    source_x: 0,
    source_y: 0,
    source_z: 0,
    source_level: 0,
    source_kind: 0,
    source_host: std::ptr::null(),
    source_device: 0,
    source_array: std::ptr::null_mut(),
    reserved0: std::ptr::null_mut(),
    source_pitch: 0,
    source_height: 0,
    to_x: 0,
    to_y: 0,
    to_z: 0,
    to_level: 0,
    to_kind: 0,
    to_host: std::ptr::null_mut(),
    to_device: 0,
    to_array: std::ptr::null_mut(),
    reserved1: std::ptr::null_mut(),
    to_pitch: 0,
    to_height: 0,
    width: 0,
    height: 0,
    depth: 0,
};
