//! Calls in states that few programs reach, each by a word of its own. It prints the results of the calls.

use crate::gpu::{ClientResult, Gpu};
use crate::program_context::ProgramContext;
use cuda_driver::{CudaError, SUCCESS};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Size of a copy that goes through a staging area in parts, bytes.
const LARGE: usize = 4 << 20;

fn print(name: &str, done: Result<(), CudaError>) {
    let result = done.map_or_else(|e| e.result().unwrap_or(u32::MAX), |()| SUCCESS);
    println!("{name}: {result}");
}

type State = fn(&mut ProgramContext<'_>) -> ClientResult;

const STATES: [(&str, State); 4] = [
    ("--freed-elsewhere", freed_elsewhere),
    ("--dead-stream", dead_stream),
    ("--failed-fill", failed_fill),
    ("--copies-after-error", copies_after_error),
];

pub fn states(w: &mut ProgramContext<'_>) -> ClientResult {
    for (word, state) in STATES {
        if w.options.has(word) {
            state(w)?;
        }
    }
    Ok(())
}

fn pinned(gpu: &Gpu) -> Result<*mut c_void, CudaError> {
    let mut at = null_mut();
    // SAFETY: the pointer is valid for the answer.
    unsafe { gpu.d.cuMemHostAlloc(&raw mut at, 4096, 0) }.map(|()| at)
}

/// Frees pinned memory of a context while another one is current, and allocates again.
fn freed_elsewhere(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let at = pinned(&gpu).map_err(|e| e.to_string())?;
    let (mut first, mut second) = (null_mut(), null_mut());
    // SAFETY: the pointers are valid for the answers, the memory is not used any more, and the handles are the driver's.
    unsafe {
        print("get current", gpu.d.cuCtxGetCurrent(&raw mut first));
        print("create", gpu.d.cuCtxCreate_v2(&raw mut second, 0, 0));
        print("free", gpu.d.cuMemFreeHost(at));
        print("set current", gpu.d.cuCtxSetCurrent(first));
    }
    print("allocate", pinned(&gpu).map(drop));
    Ok(())
}

/// Copies in a stream that was destroyed.
fn dead_stream(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let (to, stream, values) = (gpu.alloc(64)?, gpu.stream()?, [7u8; 64]);
    // SAFETY: the memory has this size. The driver checks the handle.
    unsafe {
        print("destroy", gpu.d.cuStreamDestroy_v2(stream));
        print(
            "copy",
            gpu.d.cuMemcpyHtoDAsync_v2(to, values.as_ptr().cast(), 64, stream),
        );
    }
    print("synchronize", synchronize(&gpu));
    Ok(())
}

fn synchronize(gpu: &Gpu) -> Result<(), CudaError> {
    // SAFETY: the call only waits.
    unsafe { gpu.d.cuCtxSynchronize() }
}

/// Fills memory, queries the stream, and waits: one of these calls reports an error of the fill.
fn failed_fill(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let (to, stream) = (gpu.alloc(64)?, gpu.stream()?);
    // SAFETY: the memory has this size, and the handle is the driver's.
    let results = unsafe {
        [
            gpu.d.cuMemsetD8Async(to, 1, 64, stream),
            gpu.d.cuStreamQuery(stream),
            gpu.d.cuCtxSynchronize(),
        ]
    };
    let is_reported = results
        .iter()
        .any(|result| result.as_ref().is_err_and(|e| e.result() == Some(1)));
    println!("reported: {is_reported}");
    Ok(())
}

/// Copies while every call answers an error: each copy ends with it.
fn copies_after_error(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let (to, stream, values) = (gpu.alloc(LARGE)?, gpu.stream()?, vec![7u8; LARGE]);
    // SAFETY: the handle is the driver's.
    print("query", unsafe { gpu.d.cuStreamQuery(stream) });
    for _ in 0..20 {
        // SAFETY: the memory has this size.
        print("copy", unsafe {
            gpu.d.cuMemcpyHtoD_v2(to, values.as_ptr().cast(), LARGE)
        });
    }
    Ok(())
}
