//! Kinds of memory: reused addresses, memory from the stream's pool, rows, fills, and copies on the device.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::ClientResult;
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::{check, words};
use cuda_driver::{Copy2d, CuFunction, CudaError, MEMORY_DEVICE, MEMORY_HOST};

fn text(e: CudaError) -> String {
    e.to_string()
}

/// What the parts of the program share: its input, and its functions.
struct Parts {
    n: u32,
    bytes: usize,
    mix: CuFunction,
    join: CuFunction,
    values: Vec<u32>,
}

pub fn memory(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_200) / 4 * 4;
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let parts = Parts {
        n,
        bytes: n as usize * 4,
        mix: gpu.function(code, "mix")?,
        join: gpu.function(code, "join")?,
        values: words(w.options.seed, n),
    };
    allocate_again(w, &parts)?;
    let input = allocate_in_stream(w, &parts)?;
    copy_rows(w, &parts)?;
    copy_on_device(w, &parts, input)
}

/// Returns the words that the function `mix` makes.
fn mixed(values: &[u32], factor: u32) -> Vec<u32> {
    let values = values.iter().zip(0..);
    values.map(|(v, i)| v.wrapping_mul(factor).wrapping_add(i)).collect()
}

/// Frees memory and allocates it again: the same addresses for other data.
fn allocate_again(w: &mut ProgramContext<'_>, parts: &Parts) -> ClientResult {
    let Parts {
        n, bytes, mix, values, ..
    } = parts;
    let (n, bytes, gpu) = (*n, *bytes, w.gpu);
    let mut right = values.clone();
    let mut at = gpu.upload_new(values)?;
    for factor in [3, 5, 7] {
        let next = gpu.alloc(bytes)?;
        gpu.launch_for_each(*mix, n, &[U64(next), U64(at), U32(n), U32(factor)])?;
        gpu.free(at)?;
        at = next;
        right = mixed(&right, factor);
    }
    let got: Vec<u32> = gpu.download(at, n as usize)?;
    check("words", &got, &right)?;
    w.result.give(&got);
    Ok(())
}

/// Allocates memory from the stream's pool, and frees it before any work has run. Returns the input on the device.
fn allocate_in_stream(w: &mut ProgramContext<'_>, parts: &Parts) -> ClientResult<u64> {
    let Parts {
        n, bytes, mix, values, ..
    } = parts;
    let (n, bytes, gpu) = (*n, *bytes, w.gpu);
    let stream = gpu.stream()?;
    let result = gpu.pinned(n as usize)?;
    let input = gpu.upload_new(values)?;
    gpu.synchronize()?;
    let mut from = input;
    let mut right = values.clone();
    for factor in [11, 13] {
        let mut next = 0;
        // SAFETY: the pointer is valid for the answer.
        unsafe { gpu.d.cuMemAllocAsync(&raw mut next, bytes, stream) }.map_err(text)?;
        gpu.launch(
            *mix,
            n.div_ceil(128),
            128,
            stream,
            &[U64(next), U64(from), U32(n), U32(factor)],
        )?;
        if from != input {
            // SAFETY: the memory is from the pool.
            unsafe { gpu.d.cuMemFreeAsync(from, stream) }.map_err(text)?;
        }
        from = next;
        right = mixed(&right, factor);
    }
    gpu.download_async(result, from, stream)?;
    // SAFETY: as above.
    unsafe { gpu.d.cuMemFreeAsync(from, stream) }.map_err(text)?;
    gpu.finish(stream)?;
    check("words of the pool", result, &right)?;
    w.result.give(result);
    Ok(input)
}

/// Copies rows with padding after them to the device and back, with parts filled with a value.
fn copy_rows(w: &mut ProgramContext<'_>, parts: &Parts) -> ClientResult {
    let Parts { n, bytes, values, .. } = parts;
    let (n, bytes, gpu) = (*n, *bytes, w.gpu);
    let (rows, row) = (4, bytes / 4);
    let (mut at, mut pitch) = (0, 0);
    // SAFETY: the pointers are valid for the answers.
    unsafe { gpu.d.cuMemAllocPitch_v2(&raw mut at, &raw mut pitch, row, rows, 4) }.map_err(text)?;
    let to_device = Copy2d {
        source_kind: MEMORY_HOST,
        source_host: values.as_ptr().cast(),
        source_pitch: row,
        to_kind: MEMORY_DEVICE,
        to_device: at,
        to_pitch: pitch,
        width: row,
        height: rows,
        ..NO_COPY
    };
    let mut got = vec![0u32; n as usize];
    let to_host = Copy2d {
        source_kind: MEMORY_DEVICE,
        source_device: at,
        source_pitch: pitch,
        to_kind: MEMORY_HOST,
        to_host: got.as_mut_ptr().cast(),
        to_pitch: row,
        width: row,
        height: rows,
        ..NO_COPY
    };
    // SAFETY: the structures belong to these functions, with the sizes of the buffers.
    unsafe {
        gpu.d.cuMemcpy2D_v2(&to_device).map_err(text)?;
        gpu.d
            .cuMemsetD2D32_v2(at + 4, pitch, 0xdeca_de00, 2, rows)
            .map_err(text)?;
        gpu.d.cuMemsetD8_v2(at + 16, 0x5a, 3).map_err(text)?;
        gpu.d.cuMemsetD16_v2(at + 20, 0xabcd, 2).map_err(text)?;
        gpu.d.cuMemcpy2D_v2(&to_host).map_err(text)?;
    }
    let mut right = values.clone();
    for line in right.chunks_mut(n as usize / rows) {
        line[1] = 0xdeca_de00;
        line[2] = 0xdeca_de00;
    }
    right[4] = right[4] & 0xff00_0000 | 0x005a_5a5a;
    right[5] = 0xabcd_abcd;
    check("rows", &got, &right)?;
    w.result.give(&got);
    Ok(())
}

/// Copies on the device: the halves are swapped; then between addresses whose kind the driver finds out.
fn copy_on_device(w: &mut ProgramContext<'_>, parts: &Parts, input: u64) -> ClientResult {
    let Parts {
        n, bytes, join, values, ..
    } = parts;
    let (n, bytes, gpu) = (*n, *bytes, w.gpu);
    let mut got = vec![0u32; n as usize];
    let swapped = gpu.alloc(bytes)?;
    let half = bytes / 2;
    // SAFETY: the addresses are of device memory, and of a buffer of the same size.
    unsafe {
        gpu.d
            .cuMemcpyDtoDAsync_v2(swapped, input + half as u64, half, DEFAULT)
            .map_err(text)?;
        gpu.d
            .cuMemcpyDtoDAsync_v2(swapped + half as u64, input, half, DEFAULT)
            .map_err(text)?;
    }
    gpu.launch_for_each(*join, n, &[U64(swapped), U64(swapped), U64(input), U32(n)])?;
    // SAFETY: as above.
    unsafe { gpu.d.cuMemcpy(got.as_mut_ptr() as u64, swapped, bytes) }.map_err(text)?;
    let turned = (0..n as usize).map(|i| values[(i + n as usize / 2) % n as usize] ^ values[i].wrapping_add(i as u32));
    check("halves", &got, &turned.collect::<Vec<_>>())?;
    w.result.give(&got);
    Ok(())
}

/// A copy whose fields are all zero, as a base for other copies.
const NO_COPY: Copy2d = Copy2d {
    source_x: 0,
    source_y: 0,
    source_kind: 0,
    source_host: std::ptr::null(),
    source_device: 0,
    source_array: std::ptr::null_mut(),
    source_pitch: 0,
    to_x: 0,
    to_y: 0,
    to_kind: 0,
    to_host: std::ptr::null_mut(),
    to_device: 0,
    to_array: std::ptr::null_mut(),
    to_pitch: 0,
    width: 0,
    height: 0,
};
