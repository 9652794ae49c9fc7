//! Questions about contexts, streams and captures, attributes of pools, and changes of graphs.

use crate::gpu::ClientResult;
use crate::program_context::ProgramContext;
use crate::result::check;
use cuda_driver::{CuContext, CudaError, LOCATION_DEVICE, MemLocation, NODE_FILL};

/// `CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC` and `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
const REUSE: u32 = 2;
const THRESHOLD: u32 = 4;
/// `CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY`.
const WAIT_POLICY: u32 = 3;
/// Number of words of the program's memory.
const WORDS: usize = 64;

fn text(e: CudaError) -> String {
    e.to_string()
}

fn code(result: Result<(), CudaError>) -> u32 {
    result.err().and_then(|e| e.result()).unwrap_or(0)
}

/// Prints what the driver says, and checks what it does.
pub fn details(w: &mut ProgramContext<'_>) -> ClientResult {
    contexts(w)?;
    captures(w)?;
    pools(w)?;
    hints(w)
}

fn contexts(w: &ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let (mut lowest, mut highest, mut flags, mut version, mut active) = (1, 1, 0, 0, 0);
    let (mut context, mut of_stream): (CuContext, CuContext) = (std::ptr::null_mut(), std::ptr::null_mut());
    let stream = gpu.stream()?;
    // SAFETY: the handles are the driver's, and the pointers are valid for the answers.
    unsafe {
        let d = gpu.d;
        d.cuCtxGetCurrent(&raw mut context).map_err(text)?;
        d.cuCtxGetStreamPriorityRange(&raw mut lowest, &raw mut highest)
            .map_err(text)?;
        d.cuCtxGetStreamPriorityRange(&raw mut lowest, std::ptr::null_mut())
            .map_err(text)?;
        d.cuCtxGetApiVersion(context, &raw mut version).map_err(text)?;
        // Blocking waits.
        d.cuDevicePrimaryCtxSetFlags_v2(0, 4).map_err(text)?;
        d.cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active)
            .map_err(text)?;
        println!("priorities {lowest} to {highest}, version {version}, active {active}");
        check("flags for waits", &[flags & 7], &[4])?;
        d.cuCtxGetFlags(&raw mut flags).map_err(text)?;
        check("flags of the context", &[flags & 7], &[4])?;
        println!("bad flags: {}", code(d.cuDevicePrimaryCtxSetFlags_v2(0, 0x4000_0000)));
        println!("bad device: {}", code(d.cuDevicePrimaryCtxSetFlags_v2(99, 0)));
        d.cuCtxResetPersistingL2Cache().map_err(text)?;
        // Blocking waits for a stream, copied to another one.
        let (mut policy, mut unknown, other) = ([4u64, 0, 0, 0, 0, 0, 0, 0], [0u64; 8], gpu.stream()?);
        d.cuStreamSetAttribute(stream, WAIT_POLICY, policy.as_ptr().cast())
            .map_err(text)?;
        d.cuStreamCopyAttributes(other, stream).map_err(text)?;
        policy[0] = 0;
        d.cuStreamGetAttribute(other, WAIT_POLICY, policy.as_mut_ptr().cast())
            .map_err(text)?;
        check("way of waits", &[policy[0] as u32], &[4])?;
        let asked = d.cuStreamGetAttribute(other, 77, unknown.as_mut_ptr().cast());
        check("unknown attribute of a stream", &[code(asked) != 0], &[true])?;
        // A driver that is asked for its functions has the second version alone.
        let streams = match w.options.has("--by-name") {
            true => vec![std::ptr::null_mut(), stream],
            false => Vec::new(),
        };
        for stream in streams {
            d.cuStreamGetCtx(stream, &raw mut of_stream).map_err(text)?;
            check("context of a stream", &[of_stream], &[context])?;
        }
    }
    Ok(())
}

/// Asks for the state of a capture, takes the graph, changes it, and runs its clone.
fn captures(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let memory = gpu.upload_new(&[0u32; WORDS])?;
    let stream = gpu.stream()?;
    let (mut status, mut id, mut count) = (9, 0, 9);
    let (mut graph, mut clone, mut captured) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let (mut nodes, mut edges) = (std::ptr::null(), std::ptr::null());
    let mut exec = std::ptr::null_mut();
    // SAFETY: the handles are the driver's, and the pointers are valid for the answers. The lists of a capture have as
    // many elements as their count says.
    unsafe {
        let d = gpu.d;
        let none: *mut u64 = std::ptr::null_mut();
        let asked = d.cuStreamGetCaptureInfo_v3(
            stream,
            &raw mut status,
            none.cast(),
            none.cast(),
            none.cast(),
            none.cast(),
            none.cast(),
        );
        asked.map_err(text)?;
        check("state before the capture", &[status], &[0])?;
        let mut mode = 2;
        d.cuThreadExchangeStreamCaptureMode(&raw mut mode).map_err(text)?;
        check("mode of the thread", &[mode], &[0])?;
        d.cuThreadExchangeStreamCaptureMode(&raw mut mode).map_err(text)?;
        check("mode of the thread", &[mode], &[2])?;
        mode = 3;
        println!("bad mode: {}", code(d.cuThreadExchangeStreamCaptureMode(&raw mut mode)));

        d.cuStreamBeginCapture_v2(stream, 0).map_err(text)?;
        gpu.fill(memory, 5, WORDS, stream)?;
        gpu.fill(memory + 8, 7, 4, stream)?;
        let asked = d.cuStreamGetCaptureInfo_v3(
            stream,
            &raw mut status,
            &raw mut id,
            &raw mut graph,
            &raw mut nodes,
            &raw mut edges,
            &raw mut count,
        );
        asked.map_err(text)?;
        check("state of the capture", &[(status, id != 0, count)], &[(1, true, 1)])?;
        let (first_graph, last) = (graph, *nodes);
        if w.options.has("--by-name") {
            let (mut again, before) = (0, id);
            let asked = d.cuStreamGetCaptureInfo_v2(
                stream,
                &raw mut status,
                &raw mut again,
                &raw mut graph,
                &raw mut nodes,
                &raw mut count,
            );
            asked.map_err(text)?;
            check("the capture", &[(again, graph, *nodes)], &[(before, first_graph, last)])?;
        }
        let mut kind = 0;
        d.cuGraphNodeGetType(last, &raw mut kind).map_err(text)?;
        check("kind of the last node", &[kind], &[NODE_FILL])?;
        d.cuStreamEndCapture(stream, &raw mut captured).map_err(text)?;
        check("the captured graph", &[captured], &[graph])?;

        // The clone keeps the second fill, which the graph loses.
        d.cuGraphClone(&raw mut clone, graph).map_err(text)?;
        d.cuGraphDestroyNode(last).map_err(text)?;
        for (graph, nodes, word) in [(clone, 2, 7u32), (graph, 1, 5)] {
            let mut count = 0;
            d.cuGraphGetNodes(graph, none.cast(), &raw mut count).map_err(text)?;
            check("number of nodes", &[count], &[nodes])?;
            let mut edges = 9;
            d.cuGraphGetEdges_v2(graph, none.cast(), none.cast(), none.cast(), &raw mut edges)
                .map_err(text)?;
            check("number of edges", &[edges], &[nodes - 1])?;
            d.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0).map_err(text)?;
            d.cuGraphUpload(exec, stream).map_err(text)?;
            d.cuGraphLaunch(exec, stream).map_err(text)?;
            gpu.finish(stream)?;
            let got: Vec<u32> = gpu.download(memory, WORDS)?;
            check("words", &got[1..4], &[5, word, word])?;
            w.result.give(&got);
            d.cuGraphExecDestroy(exec).map_err(text)?;
            d.cuGraphDestroy(graph).map_err(text)?;
        }
    }
    gpu.free(memory)
}

fn pools(w: &ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let mut pool = std::ptr::null_mut();
    // A pool of pinned memory of the first device: kind, kinds of handles, kind and number of the location.
    let mut properties = [0u32; 22];
    (properties[0], properties[2]) = (1, LOCATION_DEVICE);
    let (mut threshold, mut reuse) = (1u64 << 20, 0u32);
    let mut at = 0;
    let stream = gpu.stream()?;
    // SAFETY: the structure has the driver's form, the values have the sizes of their attributes, and the pointers are
    // valid for the answers.
    unsafe {
        let d = gpu.d;
        d.cuMemPoolCreate(&raw mut pool, properties.as_ptr().cast())
            .map_err(text)?;
        d.cuMemPoolSetAttribute(pool, THRESHOLD, (&raw mut threshold).cast())
            .map_err(text)?;
        d.cuMemPoolSetAttribute(pool, REUSE, (&raw mut reuse).cast())
            .map_err(text)?;
        (threshold, reuse) = (0, 9);
        d.cuMemPoolGetAttribute(pool, THRESHOLD, (&raw mut threshold).cast())
            .map_err(text)?;
        d.cuMemPoolGetAttribute(pool, REUSE, (&raw mut reuse).cast())
            .map_err(text)?;
        check("attributes", &[(threshold, reuse)], &[(1 << 20, 0)])?;
        let unknown = d.cuMemPoolGetAttribute(pool, 99, (&raw mut threshold).cast());
        println!("unknown attribute: {}", code(unknown));
        d.cuMemAllocFromPoolAsync(&raw mut at, 4096, pool, stream)
            .map_err(text)?;
        d.cuMemFreeAsync(at, stream).map_err(text)?;
        gpu.finish(stream)?;
        d.cuMemPoolTrimTo(pool, 0).map_err(text)?;
        d.cuMemPoolDestroy(pool).map_err(text)
    }
}

fn hints(w: &ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let bytes = 1 << 16;
    let device = MemLocation {
        kind: LOCATION_DEVICE,
        id: 0,
    };
    let mut at = 0;
    let stream = gpu.stream()?;
    let plain = gpu.alloc(bytes)?;
    // SAFETY: the handles are the driver's, and the pointer is valid for the answer.
    unsafe {
        let d = gpu.d;
        d.cuMemAllocManaged(&raw mut at, bytes, 1).map_err(text)?;
        // A driver that is asked for its functions has the second versions alone.
        if w.options.has("--by-name") {
            println!("first version: {}", code(d.cuMemAdvise(at, bytes, 3, -1)));
            println!("first version: {}", code(d.cuMemPrefetchAsync(at, bytes, -1, stream)));
            println!("no device: {}", code(d.cuMemPrefetchAsync(at, bytes, 77, stream)));
        }
        for (what, result) in [
            ("mostly read", d.cuMemAdvise_v2(at, bytes, 1, device)),
            ("preferred", d.cuMemAdvise_v2(at, bytes, 3, device)),
            ("prefetched", d.cuMemPrefetchAsync_v2(at, bytes, device, 0, stream)),
            (
                "prefetched beyond the end",
                d.cuMemPrefetchAsync_v2(at, bytes * 2, device, 0, stream),
            ),
            ("unknown hint", d.cuMemAdvise_v2(at, bytes, 77, device)),
            ("other memory", d.cuMemPrefetchAsync_v2(plain, bytes, device, 0, stream)),
        ] {
            println!("{what}: {}", code(result));
        }
        gpu.finish(stream)?;
        d.cuMemFree_v2(at).map_err(text)?;
    }
    gpu.free(plain)
}
