//! One launch and optional extras. Each command line option adds an extra.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::{Args, ClientResult, Gpu};
use crate::program_context::ProgramContext;
use crate::result::{check, words};
use cuda_driver::{CuStream, CudaError, LAUNCH_PROGRAMMATIC, LIMIT_HEAP, LIMIT_STACK, LaunchAttribute, LaunchConfig};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

fn text(e: impl ToString) -> String {
    e.to_string()
}

/// Host function that does nothing.
unsafe extern "C" fn nothing(_stream: CuStream, _status: u32, _data: *mut c_void) {}

/// Loads a file that is removed right after the load.
fn load_from_file(gpu: Gpu, ptx: &str) -> ClientResult<*mut c_void> {
    let path = std::env::temp_dir().join(format!("cuda-client-{}.ptx", std::process::id()));
    std::fs::write(&path, format!("{ptx}\0")).map_err(text)?;
    let name = CString::new(path.to_string_lossy().into_owned()).map_err(text)?;
    let (mut module, mut function) = (null_mut(), null_mut());
    // SAFETY: the strings end in a zero, and the pointers are valid for the answers.
    unsafe {
        let loaded = gpu.d.cuModuleLoad(&raw mut module, name.as_ptr());
        std::fs::remove_file(&path).map_err(text)?;
        loaded.map_err(text)?;
        gpu.d
            .cuModuleGetFunction(&raw mut function, module, c"mix".as_ptr())
            .map_err(text)?;
    }
    Ok(function)
}

/// Copies a batch: on the device, from the host, and to pinned memory. Returns all copied words.
fn batch(gpu: Gpu, stream: CuStream, values: &[u32]) -> ClientResult<Vec<u32>> {
    let bytes = size_of_val(values);
    let (a, b) = (gpu.upload_new(values)?, gpu.alloc(bytes)?);
    let input: Vec<u32> = values.iter().map(|v| !v).collect();
    let c = gpu.alloc(bytes)?;
    let result = gpu.pinned(values.len())?;
    // The copies can run in any order, because none reads memory that another writes.
    let mut to = [b, c, result.as_mut_ptr() as u64];
    let mut from = [a, input.as_ptr() as u64, a];
    let (mut sizes, mut failed) = ([bytes; 3], 0);
    // 1: the source is read in the stream's order. 2: it is read before the call returns, because it is not pinned.
    let mut attributes = [[1u32, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]];
    let mut indices = [0, 1, 2];
    let (to, from, sizes) = (to.as_mut_ptr(), from.as_mut_ptr(), sizes.as_mut_ptr());
    let (attributes, indices) = (attributes.as_mut_ptr().cast(), indices.as_mut_ptr());
    // SAFETY: the lists have as many elements as the count says, and the memory stays.
    unsafe {
        match gpu
            .d
            .cuMemcpyBatchAsync(to, from, sizes, 3, attributes, indices, 3, &raw mut failed, stream)
        {
            Err(CudaError::Missing { .. }) => gpu
                .d
                .cuMemcpyBatchAsync_v2(to, from, sizes, 3, attributes, indices, 3, stream),
            done => done,
        }
    }
    .map_err(text)?;
    gpu.finish(stream)?;
    check("batch copy to pinned memory", result, values)?;
    let mut all = result.to_vec();
    for at in [b, c] {
        all.extend(gpu.download::<u32>(at, values.len())?);
    }
    check("batch copy on the device", &all[values.len()..2 * values.len()], values)?;
    check("batch copy from the host", &all[2 * values.len()..], &input)?;
    Ok(all)
}

/// Runs one launch. `--file`, `--batch`, `--limits`, `--attributes`, `--callback`, `--pinned` and `--first` add extras.
pub fn besides(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(900);
    let gpu = w.gpu;
    let ptx = include_str!("../../ptx/graph.ptx");
    if w.options.has("--limits") {
        for (limit, value) in [(LIMIT_STACK, 4096), (LIMIT_HEAP, 32 << 20), (LIMIT_STACK, 2048)] {
            // SAFETY: the driver checks the limit and its value.
            unsafe { gpu.d.cuCtxSetLimit(limit, value) }.map_err(text)?;
        }
    }
    let mix = if w.options.has("--file") {
        load_from_file(gpu, ptx)?
    } else {
        gpu.function(gpu.load(ptx)?, "mix")?
    };
    if w.options.has("--first") {
        // The program has allocated no memory yet. A launch over zero words reads no memory.
        gpu.launch(mix, 1, 32, null_mut(), &[U64(0), U64(0), U32(0), U32(3)])?;
    }
    let stream = gpu.stream()?;
    let values = words(w.options.seed, n);
    let (input, out) = (gpu.upload_new(&values)?, gpu.alloc(n as usize * 4)?);
    let pinned = gpu.pinned(n as usize)?;
    let to = if w.options.has("--pinned") {
        pinned.as_mut_ptr() as u64
    } else {
        out
    };
    if w.options.has("--callback") {
        // SAFETY: the function has this type.
        unsafe {
            gpu.d
                .cuStreamAddCallback(stream, nothing as *const () as *mut c_void, null_mut(), 0)
        }
        .map_err(text)?;
    }
    let mut args = Args::new(&[U64(to), U64(input), U32(n), U32(3)]);
    // A priority does not affect results. A programmatic early start can affect them.
    let attribute = |id, value| LaunchAttribute {
        id,
        pad: [0; 4],
        value: [value, 0, 0, 0, 0, 0, 0, 0],
    };
    let attributes = [attribute(8, 0), attribute(LAUNCH_PROGRAMMATIC, 1)];
    let config = LaunchConfig {
        grid: [n.div_ceil(128), 1, 1],
        block: [128, 1, 1],
        shared: 0,
        stream,
        attributes: attributes.as_ptr(),
        attribute_count: if w.options.has("--attributes") { 2 } else { 1 },
    };
    // SAFETY: the structures are complete, and the function has as many arguments as are passed.
    unsafe {
        gpu.d
            .cuLaunchKernelEx(&raw const config, mix, args.pointers(), null_mut())
    }
    .map_err(text)?;
    gpu.finish(stream)?;
    let got = if w.options.has("--pinned") {
        pinned.to_vec()
    } else {
        gpu.download(out, n as usize)?
    };
    let right = values.iter().zip(0..).map(|(v, i)| v.wrapping_mul(3).wrapping_add(i));
    check("words", &got, &right.collect::<Vec<u32>>())?;
    w.result.give(&got);
    if w.options.has("--batch") {
        let all = batch(gpu, stream, &values)?;
        w.result.give(&all);
    }
    Ok(())
}
