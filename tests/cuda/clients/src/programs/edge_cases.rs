//! What programs may do and seldom do: each a word of the one program `corners`.

use super::graph::NO_COPY;
use super::{DEFAULT, ProgramContext};
use crate::gpu::Arg::{U32, U64};
use crate::gpu::{ClientResult, Code, Gpu};
use crate::options::LookupMode;
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
    let places = values.iter().zip(0..);
    places.map(|(v, i)| v.wrapping_mul(factor).wrapping_add(i)).collect()
}

/// Words on the device, and how they are mixed there.
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

/// Memory of the host is given back that a copy on its way has nothing to do with.
fn other_freed(w: &mut ProgramContext<'_>) -> ClientResult {
    let m = Mixing::new(w)?;
    let (result, other) = (m.gpu.pinned(m.values.len())?, m.gpu.pinned(100)?);
    let (out, stream) = (m.gpu.alloc(m.bytes())?, m.gpu.stream()?);
    m.launch(out, 3, stream)?;
    m.gpu.download_async(result, out, stream)?;
    // SAFETY: memory of the driver's, which nobody uses any more.
    unsafe { m.gpu.d.cuMemFreeHost(other.as_mut_ptr().cast()) }.map_err(text)?;
    m.gpu.finish(stream)?;
    check("words", result, &mixed(&m.values, 3))?;
    w.result.give(result);
    Ok(())
}

/// Memory of the host is given back while a copy is on its way to it: the driver waits for that.
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

/// A copy to memory that the driver does not know is done when the call is back: its place is used again at once.
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

/// An event that was never put anywhere is done, whatever an event before it with its handle stood behind.
fn event_again(w: &mut ProgramContext<'_>) -> ClientResult {
    let m = Mixing::new(w)?;
    let (out, stream, result) = (m.gpu.alloc(m.bytes())?, m.gpu.stream()?, m.gpu.pinned(m.values.len())?);
    m.launch(out, 9, stream)?;
    m.gpu.download_async(result, out, stream)?;
    let event = m.gpu.event()?;
    m.gpu.record(event, stream)?;
    // SAFETY: an event of this program's, which is not used any more.
    unsafe { m.gpu.d.cuEventDestroy_v2(event) }.map_err(text)?;
    let event = m.gpu.event()?;
    // SAFETY: an event of the driver's.
    unsafe { m.gpu.d.cuEventQuery(event) }.map_err(text)?;
    m.gpu.finish(stream)?;
    check("words", result, &mixed(&m.values, 9))?;
    w.result.give(result);
    Ok(())
}

/// Words that a function of the host puts into pinned memory.
struct Filling {
    to: *mut u32,
    values: Vec<u32>,
    wait: std::sync::mpsc::Receiver<()>,
}

unsafe extern "C" fn fill(data: *mut c_void) {
    // SAFETY: what was handed over with the function, which stays until the stream is waited for.
    let filling = unsafe { &*data.cast::<Filling>() };
    let _ = filling.wait.recv();
    // SAFETY: pinned memory of as many words, which nobody else looks at meanwhile.
    unsafe { std::ptr::copy_nonoverlapping(filling.values.as_ptr(), filling.to, filling.values.len()) };
}

/// What a copy brings to the device is put there by a function of the host in front of it; `waits`: which goes on when
/// the program has asked for the copy.
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
    // SAFETY: a function, and what it is called with, which is kept.
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

/// Makes another context, current on this thread: it and the one before.
fn another_context(gpu: &Gpu) -> ClientResult<[*mut c_void; 2]> {
    let (mut first, mut second) = (null_mut(), null_mut());
    // SAFETY: places for the answers.
    unsafe {
        gpu.d.cuCtxGetCurrent(&raw mut first).map_err(text)?;
        gpu.d.cuCtxCreate_v4(&raw mut second, null_mut(), 0, 0).map_err(text)?;
    }
    Ok([first, second])
}

fn enter(gpu: &Gpu, context: *mut c_void) -> ClientResult {
    // SAFETY: a context of the driver's.
    unsafe { gpu.d.cuCtxSetCurrent(context) }.map_err(text)
}

/// Memory is given back in one context while work of another one uses memory that it gave back in its stream's order.
fn two_contexts(w: &mut ProgramContext<'_>) -> ClientResult {
    const WORDS: usize = 1 << 20;
    let gpu = w.gpu;
    let first = gpu.alloc(WORDS * 4)?;
    let [one, two] = another_context(&gpu)?;
    let (second, stream, result) = (gpu.alloc(WORDS * 4)?, gpu.stream()?, gpu.pinned(WORDS)?);
    gpu.fill(second, 9, WORDS, stream)?;
    gpu.download_async(result, second, stream)?;
    // SAFETY: memory that the stream alone uses.
    unsafe { gpu.d.cuMemFreeAsync(second, stream) }.map_err(text)?;
    enter(&gpu, one)?;
    gpu.free(first)?;
    enter(&gpu, two)?;
    gpu.finish(stream)?;
    check("words", result, &[9; WORDS])?;
    w.result.give(result);
    enter(&gpu, one)
}

/// Memory is given back in the order of a stream whose context is not the thread's.
fn elsewhere(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let stream = gpu.stream()?;
    let mut at = 0;
    // SAFETY: a place for the answer.
    unsafe { gpu.d.cuMemAllocAsync(&raw mut at, 4096, stream) }.map_err(text)?;
    let result = gpu.pinned(1024)?;
    gpu.fill(at, 5, 1024, stream)?;
    gpu.download_async(result, at, stream)?;
    let [one, _] = another_context(&gpu)?;
    // SAFETY: memory that the stream alone uses.
    unsafe { gpu.d.cuMemFreeAsync(at, stream) }.map_err(text)?;
    enter(&gpu, one)?;
    gpu.finish(stream)?;
    check("words", result, &[5; 1024])?;
    w.result.give(result);
    Ok(())
}

/// Memory is given back while streams are captured that allow it: what waits for the device would end the capture. Then
/// once more, begun by a function's first form where the loader gives that, and into a graph that is there.
fn capture(w: &mut ProgramContext<'_>) -> ClientResult {
    let m = Mixing::new(w)?;
    let (stream, apart) = (m.gpu.stream()?, m.gpu.stream()?);
    let out = m.gpu.alloc(m.bytes())?;
    m.launch(out, 3, stream)?;
    m.gpu.finish(stream)?;
    let relaxed = 2;
    for round in 0..3 {
        let factor = 13 + round;
        // Large enough for memory of its own.
        let (gone, left) = (m.gpu.alloc(4 << 20)?, m.gpu.alloc(4 << 20)?);
        m.gpu.fill(left, 1, 100, apart)?;
        // SAFETY: memory that the stream alone uses.
        unsafe { m.gpu.d.cuMemFreeAsync(left, apart) }.map_err(text)?;
        let (mut graph, mut exec) = (null_mut(), null_mut());
        // SAFETY: handles of the driver's, and places for the answers.
        unsafe {
            match round {
                0 => m.gpu.d.cuStreamBeginCapture_v2(stream, relaxed),
                1 if w.options.way == LookupMode::Loader => m.gpu.d.cuStreamBeginCapture(stream),
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
        if round != 1 || w.options.way != LookupMode::Loader {
            m.gpu.free(gone)?;
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

/// Memory of pools: plain memory of one that the program makes, and memory that the host reaches.
fn managed_pool(w: &mut ProgramContext<'_>) -> ClientResult {
    const MANAGED: u32 = 2;
    let gpu = w.gpu;
    let stream = gpu.stream()?;
    for kind in [ALLOCATION_PINNED, MANAGED] {
        // `CUmemPoolProps`, of which no more is used.
        let mut properties = [0u32; 32];
        properties[..4].copy_from_slice(&[kind, 0, LOCATION_DEVICE, 0]);
        let (mut pool, mut at, mut own) = (null_mut(), [0; 2], null_mut());
        // SAFETY: a form of the driver's, and places for the answers.
        unsafe {
            gpu.d
                .cuMemPoolCreate(&raw mut pool, properties.as_ptr().cast())
                .map_err(text)?;
            gpu.d
                .cuMemAllocFromPoolAsync(&raw mut at[0], 4096, pool, stream)
                .map_err(text)?;
            gpu.d.cuDeviceGetDefaultMemPool(&raw mut own, 0).map_err(text)?;
            gpu.d.cuDeviceSetMemPool(0, pool).map_err(text)?;
            gpu.d.cuMemAllocAsync(&raw mut at[1], 4096, stream).map_err(text)?;
            gpu.d.cuDeviceSetMemPool(0, own).map_err(text)?;
        }
        gpu.finish(stream)?;
        for at in at {
            let right = if kind == MANAGED {
                let right = words(w.options.seed, 1024);
                // SAFETY: memory of so many bytes that the host reaches, which no work uses.
                unsafe { std::ptr::copy_nonoverlapping(right.as_ptr(), at as *mut u32, 1024) };
                right
            } else {
                gpu.fill(at, 7, 1024, DEFAULT)?;
                vec![7; 1024]
            };
            let got: Vec<u32> = gpu.download(at, 1024)?;
            check("words of a pool", &got, &right)?;
            w.result.give(&got);
            // SAFETY: memory of a pool's.
            unsafe { gpu.d.cuMemFreeAsync(at, stream) }.map_err(text)?;
        }
    }
    gpu.finish(stream)
}

/// A copy of very many slices, which do not follow each other.
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
    // SAFETY: a form of the driver's, of memory that is there.
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

/// The context is released and taken again: what was made in it is gone, and there is room for as much.
fn released(w: &mut ProgramContext<'_>) -> ClientResult {
    const LARGE: usize = 600 << 20;
    for value in [3, 5] {
        let at = w.gpu.alloc(LARGE)?;
        w.gpu.fill(at, value, 1024, DEFAULT)?;
        let got: Vec<u32> = w.gpu.download(at, 1024)?;
        check("words", &got, &[value; 1024])?;
        w.result.give(&got);
        // SAFETY: the context that this thread retained, whose memory is not used any more.
        unsafe { w.gpu.d.cuDevicePrimaryCtxRelease_v2(0) }.map_err(text)?;
        w.gpu.enter()?;
    }
    Ok(())
}

/// A program that waits for a signal gets it, whatever threads there are beside its own.
fn signal(_: &mut ProgramContext<'_>) -> ClientResult {
    // SAFETY: sets of signals are whole, and of this function.
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
        Err(format!("the signal did not come: {got}"))
    }
}
