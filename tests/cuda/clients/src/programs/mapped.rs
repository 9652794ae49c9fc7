//! Memory that a program maps itself, as XLA's and PyTorch's allocators do, and memory shared by host and device.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::{ClientResult, Gpu, mark};
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::{check, words};
use cuda_driver::{
    ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescription, AllocationProperties, CudaError, LOCATION_DEVICE,
    MemLocation,
};
use std::ffi::c_void;

/// Granularity of physical memory, bytes.
const GRANULE: usize = 2 << 20;

fn text(e: CudaError) -> String {
    e.to_string()
}

/// Reserves addresses that are otherwise unused.
fn reserve(gpu: Gpu, granules: usize) -> ClientResult<u64> {
    let mut at = 0;
    // SAFETY: the pointer is valid for the answer.
    unsafe {
        gpu.d
            .cuMemAddressReserve(&raw mut at, granules * GRANULE, GRANULE, 0, 0)
    }
    .map_err(text)?;
    Ok(at)
}

fn create(gpu: Gpu, granules: usize) -> ClientResult<u64> {
    let properties = AllocationProperties {
        kind: ALLOCATION_PINNED,
        handle_types: 0,
        location: MemLocation {
            kind: LOCATION_DEVICE,
            id: 0,
        },
        win32: std::ptr::null_mut(),
        flags: [0; 8],
    };
    let mut handle = 0;
    // SAFETY: the structure is local to this function, and the pointer is valid for the answer.
    unsafe {
        gpu.d
            .cuMemCreate(&raw mut handle, granules * GRANULE, &raw const properties, 0)
    }
    .map_err(text)?;
    Ok(handle)
}

/// Maps memory and gives the device access to it.
fn map(gpu: Gpu, at: u64, granules: usize, handle: u64) -> ClientResult {
    let access = AccessDescription {
        location: MemLocation {
            kind: LOCATION_DEVICE,
            id: 0,
        },
        flags: ACCESS_READ_WRITE,
    };
    // SAFETY: the addresses are reserved, the memory was created, and the structure is valid.
    unsafe {
        gpu.d.cuMemMap(at, granules * GRANULE, 0, handle, 0).map_err(text)?;
        gpu.d
            .cuMemSetAccess(at, granules * GRANULE, &raw const access, 1)
            .map_err(text)
    }
}

fn unmap(gpu: Gpu, at: u64, granules: usize) -> ClientResult {
    // SAFETY: the range was mapped there.
    unsafe { gpu.d.cuMemUnmap(at, granules * GRANULE) }.map_err(text)
}

fn release(gpu: Gpu, handle: u64) -> ClientResult {
    // SAFETY: the handle is this program's.
    unsafe { gpu.d.cuMemRelease(handle) }.map_err(text)
}

/// Data of a host function that fills memory.
struct FillTarget {
    to: *mut u32,
    values: Vec<u32>,
}

unsafe extern "C" fn fill(data: *mut c_void) {
    // SAFETY: the value is the program's own, and stays until the stream is done.
    let filled = unsafe { &*data.cast::<FillTarget>() };
    // SAFETY: the pinned memory has this many words.
    unsafe { std::ptr::copy_nonoverlapping(filled.values.as_ptr(), filled.to, filled.values.len()) };
}

/// Returns each word times a factor, plus its index.
fn mixed(values: &[u32], factor: u32) -> Vec<u32> {
    values
        .iter()
        .zip(0..)
        .map(|(v, i)| v.wrapping_mul(factor).wrapping_add(i))
        .collect()
}

/// Maps memory by itself. `--confused` also maps other memory at the address of memory that is mapped elsewhere too.
pub fn mapped(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_500);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let mix = gpu.function(code, "mix")?;
    let values = words(w.options.seed, n);
    let bytes = n as usize * 4;
    let stream = gpu.stream()?;

    // Like XLA, the program maps its own memory at its own addresses. Host functions fill it in streams.
    let base = reserve(gpu, 32)?;
    let handles = [create(gpu, 1)?, create(gpu, 2)?];
    map(gpu, base, 1, handles[0])?;
    map(gpu, base + GRANULE as u64, 2, handles[1])?;
    let (first, second) = (base + 512, base + GRANULE as u64);
    if w.options.marks {
        gpu.upload(first, &values)?;
        mark(c"begin");
    }
    let pinned = gpu.pinned(n as usize)?;
    let filled = Box::new(FillTarget {
        to: pinned.as_mut_ptr(),
        values: values.clone(),
    });
    let data = (&raw const *filled).cast_mut().cast::<c_void>();
    // SAFETY: the function has this type, and its data stays until the stream is done.
    unsafe { gpu.d.cuLaunchHostFunc(stream, fill as *const () as *mut c_void, data) }.map_err(text)?;
    gpu.upload_async(first, pinned, stream)?;
    gpu.launch(
        mix,
        n.div_ceil(128),
        128,
        stream,
        &[U64(second), U64(first), U32(n), U32(3)],
    )?;
    gpu.finish(stream)?;
    let right = mixed(&values, 3);
    let got: Vec<u32> = gpu.download(second, n as usize)?;
    check("mapped words", &got, &right)?;
    w.result.give(&got);

    // The same memory is mapped at a second address. Writes there are visible at the first address.
    let other = reserve(gpu, 4)?;
    map(gpu, other, 2, handles[1])?;
    gpu.launch_for_each(mix, n, &[U64(first), U64(other), U32(n), U32(5)])?;
    gpu.launch_for_each(mix, n, &[U64(other), U64(first), U32(n), U32(7)])?;
    let got: Vec<u32> = gpu.download(second, n as usize)?;
    check("words that are mapped twice", &got, &mixed(&mixed(&right, 5), 7))?;
    w.result.give(&got);
    unmap(gpu, other, 2)?;
    if w.options.has("--confused") {
        let third = create(gpu, 2)?;
        map(gpu, other, 2, third)?;
        unmap(gpu, other, 2)?;
        release(gpu, third)?;
    }

    // Like PyTorch with segments that grow, the program unmaps memory and maps other memory at its address.
    unmap(gpu, base, 1)?;
    release(gpu, handles[0])?;
    let again = create(gpu, 1)?;
    map(gpu, base, 1, again)?;
    let more = create(gpu, 1)?;
    map(gpu, base + 3 * GRANULE as u64, 1, more)?;
    // This buffer is partly in one mapping and partly in the next.
    let across = base + 3 * GRANULE as u64 - bytes as u64 / 8 * 4;
    gpu.upload(first, &values)?;
    gpu.launch_for_each(mix, n, &[U64(across), U64(first), U32(n), U32(11)])?;
    let got: Vec<u32> = gpu.download(across, n as usize)?;
    check("words across mappings", &got, &mixed(&values, 11))?;
    w.result.give(&got);
    mark(c"end");
    for (at, granules) in [(base, 1), (base + GRANULE as u64, 2), (base + 3 * GRANULE as u64, 1)] {
        unmap(gpu, at, granules)?;
    }
    for handle in [again, more, handles[1]] {
        release(gpu, handle)?;
    }
    // SAFETY: nothing is mapped at these addresses any more.
    unsafe {
        gpu.d.cuMemAddressFree(base, 32 * GRANULE).map_err(text)?;
        gpu.d.cuMemAddressFree(other, 4 * GRANULE).map_err(text)
    }
}

/// Uses managed memory, and pinned memory that kernels access: the host writes and reads it between launches.
pub fn shared(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(900).min(1024);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let mix = gpu.function(code, "mix")?;
    let mut values = words(w.options.seed, n);
    let bytes = n as usize * 4;
    let managed = |gpu: Gpu| -> ClientResult<&'static mut [u32]> {
        let mut at = 0;
        // SAFETY: the pointer is valid for the answer.
        unsafe { gpu.d.cuMemAllocManaged(&raw mut at, bytes, 1) }.map_err(text)?;
        // SAFETY: the memory has this size, the host can access it, and it is not freed.
        Ok(unsafe { std::slice::from_raw_parts_mut(at as usize as *mut u32, n as usize) })
    };
    let (input, output) = (managed(gpu)?, managed(gpu)?);
    input.copy_from_slice(&values);
    if w.options.marks {
        mark(c"begin");
    }
    let at = |words: &[u32]| words.as_ptr() as u64;
    for factor in [3, 5] {
        gpu.launch_for_each(mix, n, &[U64(at(output)), U64(at(input)), U32(n), U32(factor)])?;
        gpu.synchronize()?;
        check("managed words", output, &mixed(&values, factor))?;
        w.result.give(output);
        // The host changes a word, so that the computation does not start from the initial values.
        values[7] = values[7].wrapping_add(factor);
        input[7] = values[7];
    }
    // Two launches in a stream use pinned memory without a wait between them.
    let pinned = gpu.pinned(n as usize)?;
    pinned.copy_from_slice(&values);
    let between = gpu.alloc(bytes)?;
    let result = gpu.pinned(n as usize)?;
    gpu.launch(
        mix,
        n.div_ceil(128),
        128,
        DEFAULT,
        &[U64(between), U64(at(pinned)), U32(n), U32(7)],
    )?;
    gpu.launch(
        mix,
        n.div_ceil(128),
        128,
        DEFAULT,
        &[U64(at(result)), U64(between), U32(n), U32(9)],
    )?;
    gpu.synchronize()?;
    check("pinned words", result, &mixed(&mixed(&values, 7), 9))?;
    w.result.give(result);
    mark(c"end");
    Ok(())
}

/// Makes a kernel access one word more than its buffer has. `--input` selects the buffer that it reads, `--output` the
/// buffer that it writes. Without an option, all accesses are correct. The memory after a buffer is mapped, so that no
/// access faults.
pub fn past(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_024);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let mix = gpu.function(code, "mix")?;
    let values = words(w.options.seed, n);
    let bytes = n as usize * 4;
    let more = |word: &str| if w.options.has(word) { 0 } else { 4 };
    let input = gpu.alloc(bytes + more("--input"))?;
    let between = gpu.alloc(bytes + 4)?;
    let output = gpu.alloc(bytes + more("--output"))?;
    gpu.upload(input, &values)?;
    gpu.launch_for_each(mix, n, &[U64(between), U64(input), U32(n), U32(3)])?;
    let (to, from) = if w.options.has("--input") {
        (between, input)
    } else {
        (output, between)
    };
    gpu.launch_for_each(mix, n + 1, &[U64(to), U64(from), U32(n + 1), U32(5)])?;
    gpu.launch_for_each(mix, n, &[U64(output), U64(to), U32(n), U32(7)])?;
    let got: Vec<u32> = gpu.download(output, n as usize)?;
    w.result.give(&got);
    gpu.free(between)
}
