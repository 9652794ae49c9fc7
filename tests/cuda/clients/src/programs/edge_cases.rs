//! Rare but valid behaviour of programs: each case is an option of the one program `corners`.

use super::graph::NO_COPY;
use crate::gpu::Arg::{U32, U64};
use crate::gpu::{ClientResult, Code, Gpu};
use crate::options::LookupMode;
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::{check, words};
use cuda_driver::{ALLOCATION_PINNED, Copy3d, CuStream, CudaError, LOCATION_DEVICE, MEMORY_DEVICE, MEMORY_HOST};
use std::ffi::c_void;
use std::ptr::null_mut;

type Corner = fn(&mut ProgramContext<'_>) -> ClientResult;

const CORNERS: [(&str, Corner); 13] = [
    ("--other-freed", other_freed),
    ("--freed-early", freed_early),
    ("--pageable", pageable),
    ("--event-again", event_again),
    ("--host-fill", host_fill),
    ("--host-waits", host_waits),
    ("--two-contexts", two_contexts),
    ("--elsewhere", elsewhere),
    ("--capture", capture),
    ("--managed-pool", managed_pool),
    ("--signal", signal),
    ("--slices", slices),
    ("--released", released),
];

fn text(e: CudaError) -> String {
    e.to_string()
}

pub fn corners(w: &mut ProgramContext<'_>) -> ClientResult {
    for (word, corner) in CORNERS {
        if w.options.has(word) {
            corner(w)?;
        }
    }
    Ok(())
}

fn mixed(values: &[u32], factor: u32) -> Vec<u32> {
    let indexed = values.iter().zip(0..);
    indexed.map(|(v, i)| v.wrapping_mul(factor).wrapping_add(i)).collect()
}

/// Words on the device, and code that mixes them there.
struct Mixing {
    gpu: Gpu,
    code: Code,
    values: Vec<u32>,
    input: u64,
}

impl Mixing {
    fn new(w: &ProgramContext<'_>) -> ClientResult<Self> {
        let values = words(w.options.seed, w.size(1_000));
        Ok(Self {
            gpu: w.gpu,
            code: w.gpu.load(include_str!("../../ptx/graph.ptx"))?,
            input: w.gpu.upload_new(&values)?,
            values,
        })
    }

    fn n(&self) -> u32 {
        self.values.len() as u32
    }

    fn bytes(&self) -> usize {
        self.values.len() * 4
    }

    fn launch(&self, to: u64, factor: u32, stream: CuStream) -> ClientResult {
        let mix = self.gpu.function(self.code, "mix")?;
        let args = [U64(to), U64(self.input), U32(self.n()), U32(factor)];
        self.gpu.launch(mix, self.n().div_ceil(128), 128, stream, &args)
    }
}

/// Frees host memory that a pending copy does not use.
fn other_freed(w: &mut ProgramContext<'_>) -> ClientResult {
    let m = Mixing::new(w)?;
    let (result, other) = (m.gpu.pinned(m.values.len())?, m.gpu.pinned(100)?);
    let (out, stream) = (m.gpu.alloc(m.bytes())?, m.gpu.stream()?);
    m.launch(out, 3, stream)?;
    m.gpu.download_async(result, out, stream)?;
    // SAFETY: the memory is the driver's, and is not used any more.
    unsafe { m.gpu.d.cuMemFreeHost(other.as_mut_ptr().cast()) }.map_err(text)?;
    m.gpu.finish(stream)?;
    check("words", result, &mixed(&m.values, 3))?;
    w.result.give(result);
    Ok(())
}

/// Frees host memory while a copy to it is pending: the driver waits for the copy.
fn freed_early(w: &mut ProgramContext<'_>) -> ClientResult {
    let m = Mixing::new(w)?;
    let (out, stream, result) = (m.gpu.alloc(m.bytes())?, m.gpu.stream()?, m.gpu.pinned(m.values.len())?);
    m.launch(out, 5, stream)?;
    m.gpu.download_async(result, out, stream)?;
    // SAFETY: as above.
    unsafe { m.gpu.d.cuMemFreeHost(result.as_mut_ptr().cast()) }.map_err(text)?;
    w.result.give(&mixed(&m.values, 5));
    Ok(())
}

/// Copies to memory that the driver does not know: the copy is done when the call returns, and its memory is reused at
/// once.
fn pageable(w: &mut ProgramContext<'_>) -> ClientResult {
    let m = Mixing::new(w)?;
    let (out, stream) = (m.gpu.alloc(m.bytes())?, m.gpu.stream()?);
    m.launch(out, 7, stream)?;
    let mut result = vec![0u32; m.values.len()];
    m.gpu.download_async(&mut result, out, stream)?;
    check("words", &result, &mixed(&m.values, 7))?;
    w.result.give(&result);
    result.fill(0x2222_2222);
    m.gpu.finish(stream)
}

/// Queries an event that was never recorded. It is complete, even if an earlier event with its handle waited for work.
fn event_again(w: &mut ProgramContext<'_>) -> ClientResult {
    let m = Mixing::new(w)?;
    let (out, stream, result) = (m.gpu.alloc(m.bytes())?, m.gpu.stream()?, m.gpu.pinned(m.values.len())?);
    m.launch(out, 9, stream)?;
    m.gpu.download_async(result, out, stream)?;
    let event = m.gpu.event()?;
    m.gpu.record(event, stream)?;
    // SAFETY: the event is this program's, and is not used any more.
    unsafe { m.gpu.d.cuEventDestroy_v2(event) }.map_err(text)?;
    let event = m.gpu.event()?;
    // SAFETY: the event is the driver's.
    unsafe { m.gpu.d.cuEventQuery(event) }.map_err(text)?;
    m.gpu.finish(stream)?;
    check("words", result, &mixed(&m.values, 9))?;
    w.result.give(result);
    Ok(())
}

/// Data of a host function that writes words into pinned memory.
struct Filling {
    to: *mut u32,
    values: Vec<u32>,
    wait: std::sync::mpsc::Receiver<()>,
}

unsafe extern "C" fn fill(data: *mut c_void) {
    // SAFETY: the data was passed with the function, and stays until the stream is waited for.
    let filling = unsafe { &*data.cast::<Filling>() };
    let _ = filling.wait.recv();
    // SAFETY: the pinned memory has this many words, and no other thread accesses it meanwhile.
    unsafe { std::ptr::copy_nonoverlapping(filling.values.as_ptr(), filling.to, filling.values.len()) };
}

/// Copies to the device from memory that a host function fills earlier in the stream. If `waits` is `true`, the host
/// function continues only after the program has requested the copy.
fn filled(w: &mut ProgramContext<'_>, waits: bool) -> ClientResult {
    let m = Mixing::new(w)?;
    let (stream, staging) = (m.gpu.stream()?, m.gpu.pinned(m.values.len())?);
    let values = mixed(&m.values, 11);
    let (sender, wait) = std::sync::mpsc::channel();
    let filling = Box::new(Filling {
        to: staging.as_mut_ptr(),
        values: values.clone(),
        wait,
    });
    let data = (&raw const *filling).cast_mut().cast();
    // SAFETY: the function is passed with its data, which is kept.
    unsafe { m.gpu.d.cuLaunchHostFunc(stream, fill as *mut c_void, data) }.map_err(text)?;
    if !waits {
        sender.send(()).map_err(|e| e.to_string())?;
    }
    let to = m.gpu.alloc(m.bytes())?;
    m.gpu.upload_async(to, staging, stream)?;
    if waits {
        sender.send(()).map_err(|e| e.to_string())?;
    }
    m.gpu.finish(stream)?;
    let got: Vec<u32> = m.gpu.download(to, m.values.len())?;
    check("words", &got, &values)?;
    w.result.give(&got);
    Ok(())
}

fn host_fill(w: &mut ProgramContext<'_>) -> ClientResult {
    filled(w, false)
}

fn host_waits(w: &mut ProgramContext<'_>) -> ClientResult {
    filled(w, true)
}

/// Creates another context and makes it current on this thread. Returns the previous context and the new context.
fn another_context(gpu: &Gpu) -> ClientResult<[*mut c_void; 2]> {
    let (mut first, mut second) = (null_mut(), null_mut());
    // SAFETY: the pointers are valid for the answers.
    unsafe {
        gpu.d.cuCtxGetCurrent(&raw mut first).map_err(text)?;
        gpu.d.cuCtxCreate_v4(&raw mut second, null_mut(), 0, 0).map_err(text)?;
    }
    Ok([first, second])
}

fn enter(gpu: &Gpu, context: *mut c_void) -> ClientResult {
    // SAFETY: the context is the driver's.
    unsafe { gpu.d.cuCtxSetCurrent(context) }.map_err(text)
}

/// Frees memory in one context while a stream of another context uses memory that was freed in the stream's order.
fn two_contexts(w: &mut ProgramContext<'_>) -> ClientResult {
    const WORDS: usize = 1 << 20;
    let gpu = w.gpu;
    let first = gpu.alloc(WORDS * 4)?;
    let [one, two] = another_context(&gpu)?;
    let (second, stream, result) = (gpu.alloc(WORDS * 4)?, gpu.stream()?, gpu.pinned(WORDS)?);
    gpu.fill(second, 9, WORDS, stream)?;
    gpu.download_async(result, second, stream)?;
    // SAFETY: only the stream uses the memory.
    unsafe { gpu.d.cuMemFreeAsync(second, stream) }.map_err(text)?;
    enter(&gpu, one)?;
    gpu.free(first)?;
    enter(&gpu, two)?;
    gpu.finish(stream)?;
    check("words", result, &[9; WORDS])?;
    w.result.give(result);
    enter(&gpu, one)
}

/// Frees memory in the order of a stream whose context is not the thread's.
fn elsewhere(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let stream = gpu.stream()?;
    let mut at = 0;
    // SAFETY: the pointer is valid for the answer.
    unsafe { gpu.d.cuMemAllocAsync(&raw mut at, 4096, stream) }.map_err(text)?;
    let result = gpu.pinned(1024)?;
    gpu.fill(at, 5, 1024, stream)?;
    gpu.download_async(result, at, stream)?;
    let [one, _] = another_context(&gpu)?;
    // SAFETY: only the stream uses the memory.
    unsafe { gpu.d.cuMemFreeAsync(at, stream) }.map_err(text)?;
    enter(&gpu, one)?;
    gpu.finish(stream)?;
    check("words", result, &[5; 1024])?;
    w.result.give(result);
    Ok(())
}

/// Frees memory during captures that allow it. A wait for the device would end such a capture.
///
/// Also captures by the function's first version, if the loader returns it, and into an existing graph.
fn capture(w: &mut ProgramContext<'_>) -> ClientResult {
    let m = Mixing::new(w)?;
    let (stream, other_stream) = (m.gpu.stream()?, m.gpu.stream()?);
    let out = m.gpu.alloc(m.bytes())?;
    m.launch(out, 3, stream)?;
    m.gpu.finish(stream)?;
    let relaxed = 2;
    for round in 0..3 {
        let factor = 13 + round;
        // Allocations of this size are large enough for memory of their own.
        let (unused, pending) = (m.gpu.alloc(4 << 20)?, m.gpu.alloc(4 << 20)?);
        m.gpu.fill(pending, 1, 100, other_stream)?;
        // SAFETY: only the stream uses the memory.
        unsafe { m.gpu.d.cuMemFreeAsync(pending, other_stream) }.map_err(text)?;
        let (mut graph, mut exec) = (null_mut(), null_mut());
        // SAFETY: the handles are the driver's, and the pointers are valid for the answers.
        unsafe {
            match round {
                0 => m.gpu.d.cuStreamBeginCapture_v2(stream, relaxed),
                1 if w.options.lookup == LookupMode::Loader => m.gpu.d.cuStreamBeginCapture(stream),
                _ => {
                    m.gpu.d.cuGraphCreate(&raw mut graph, 0).map_err(text)?;
                    let none = std::ptr::null();
                    m.gpu
                        .d
                        .cuStreamBeginCaptureToGraph(stream, graph, none, std::ptr::null(), 0, relaxed)
                }
            }
            .map_err(text)?;
        }
        m.launch(out, factor, stream)?;
        if round != 1 || w.options.lookup != LookupMode::Loader {
            m.gpu.free(unused)?;
        }
        // SAFETY: as above.
        unsafe {
            m.gpu.d.cuStreamEndCapture(stream, &raw mut graph).map_err(text)?;
            m.gpu
                .d
                .cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)
                .map_err(text)?;
            m.gpu.d.cuGraphLaunch(exec, stream).map_err(text)?;
        }
        m.gpu.finish(stream)?;
        let got: Vec<u32> = m.gpu.download(out, m.values.len())?;
        check("words", &got, &mixed(&m.values, factor))?;
        w.result.give(&got);
    }
    Ok(())
}

/// Uses memory of pools: plain memory of the program's own pool, and memory that the host can access.
fn managed_pool(w: &mut ProgramContext<'_>) -> ClientResult {
    const MANAGED: u32 = 2;
    let gpu = w.gpu;
    let stream = gpu.stream()?;
    for kind in [ALLOCATION_PINNED, MANAGED] {
        // The structure is `CUmemPoolProps`. The program uses none of its other fields.
        let mut properties = [0u32; 32];
        properties[..4].copy_from_slice(&[kind, 0, LOCATION_DEVICE, 0]);
        let (mut pool, mut at, mut default_pool) = (null_mut(), [0; 2], null_mut());
        // SAFETY: the structure is the driver's, and the pointers are valid for the answers.
        unsafe {
            gpu.d
                .cuMemPoolCreate(&raw mut pool, properties.as_ptr().cast())
                .map_err(text)?;
            gpu.d
                .cuMemAllocFromPoolAsync(&raw mut at[0], 4096, pool, stream)
                .map_err(text)?;
            gpu.d
                .cuDeviceGetDefaultMemPool(&raw mut default_pool, 0)
                .map_err(text)?;
            gpu.d.cuDeviceSetMemPool(0, pool).map_err(text)?;
            gpu.d.cuMemAllocAsync(&raw mut at[1], 4096, stream).map_err(text)?;
            gpu.d.cuDeviceSetMemPool(0, default_pool).map_err(text)?;
        }
        gpu.finish(stream)?;
        for at in at {
            let right = if kind == MANAGED {
                let right = words(w.options.seed, 1024);
                // SAFETY: the memory has this size, the host can access it, and no work uses it.
                unsafe { std::ptr::copy_nonoverlapping(right.as_ptr(), at as *mut u32, 1024) };
                right
            } else {
                gpu.fill(at, 7, 1024, DEFAULT)?;
                vec![7; 1024]
            };
            let got: Vec<u32> = gpu.download(at, 1024)?;
            check("words of a pool", &got, &right)?;
            w.result.give(&got);
            // SAFETY: the memory is from a pool.
            unsafe { gpu.d.cuMemFreeAsync(at, stream) }.map_err(text)?;
        }
    }
    gpu.finish(stream)
}

/// Copies very many slices that are not contiguous.
fn slices(w: &mut ProgramContext<'_>) -> ClientResult {
    let (gpu, depth) = (w.gpu, 70_000);
    let values = words(w.options.seed, depth * 2);
    let to = gpu.alloc(depth as usize * 8)?;
    gpu.fill(to, 0, depth as usize * 2, DEFAULT)?;
    let copy = Copy3d {
        source_kind: MEMORY_HOST,
        source_host: values.as_ptr().cast(),
        source_pitch: 4,
        source_height: 2,
        to_kind: MEMORY_DEVICE,
        to_device: to,
        to_pitch: 4,
        to_height: 2,
        width: 4,
        height: 1,
        depth: depth as usize,
        ..NO_COPY
    };
    // SAFETY: the structure is the driver's, and its memory exists.
    unsafe { gpu.d.cuMemcpy3D_v2(&raw const copy) }.map_err(text)?;
    let got: Vec<u32> = gpu.download(to, depth as usize * 2)?;
    let right: Vec<u32> = values
        .iter()
        .enumerate()
        .map(|(n, v)| if n % 2 == 0 { *v } else { 0 })
        .collect();
    check("words", &got, &right)?;
    w.result.give(&got);
    Ok(())
}

/// Releases the context and retains it again. The release destroys its objects, so that new ones of this size fit.
fn released(w: &mut ProgramContext<'_>) -> ClientResult {
    const LARGE: usize = 600 << 20;
    for value in [3, 5] {
        let at = w.gpu.alloc(LARGE)?;
        w.gpu.fill(at, value, 1024, DEFAULT)?;
        let got: Vec<u32> = w.gpu.download(at, 1024)?;
        check("words", &got, &[value; 1024])?;
        w.result.give(&got);
        // SAFETY: this thread retained the context, and its memory is not used any more.
        unsafe { w.gpu.d.cuDevicePrimaryCtxRelease_v2(0) }.map_err(text)?;
        w.gpu.enter()?;
    }
    Ok(())
}

/// Waits for a signal. The program must get the signal, even if a recorder runs other threads.
fn signal(_: &mut ProgramContext<'_>) -> ClientResult {
    // SAFETY: the signal sets are complete and local to this function.
    let got = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut());
        libc::kill(libc::getpid(), libc::SIGTERM);
        let long = libc::timespec { tv_sec: 10, tv_nsec: 0 };
        libc::sigtimedwait(&raw const set, null_mut(), &raw const long)
    };
    if got == libc::SIGTERM {
        Ok(())
    } else {
        Err(format!("the signal did not arrive: {got}"))
    }
}
