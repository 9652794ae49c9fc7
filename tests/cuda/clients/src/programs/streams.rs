//! Streams that wait for each other by events, and copies from and to pinned memory that is reused.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::ClientResult;
use crate::options::LookupMode;
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::{check, words};
use std::ffi::c_void;

const STEPS: u32 = 200;

fn churn(mut x: u32) -> u32 {
    for _ in 0..STEPS {
        x = x
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223)
            .wrapping_add(x >> 16);
    }
    x
}

/// Data of a host function that fills the staging memory in the stream.
struct Filling {
    staging: *mut u32,
    values: Vec<u32>,
}

unsafe extern "C" fn fill(data: *mut c_void) {
    // SAFETY: the data was passed with the function, and stays until the streams are waited for.
    let filling = unsafe { &*data.cast::<Filling>() };
    // SAFETY: the pinned memory has this many words, and no other thread accesses it in between.
    unsafe { std::ptr::copy_nonoverlapping(filling.values.as_ptr(), filling.staging, filling.values.len()) };
}

/// Runs work whose result depends on the order in the streams. With `--host-function`, a host function in the stream
/// fills the staging memory.
pub fn streams(w: &mut ProgramContext<'_>) -> ClientResult {
    const ROUNDS: u32 = 8;
    let n = w.size(1_500);
    let words_of = |round: u32, seed: u32| words(seed.wrapping_mul(977).wrapping_add(round + 1), n);
    let late = w.options.has("--host-function");
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/streams.ptx"))?;
    let (first, second) = (gpu.function(code, "first")?, gpu.function(code, "second")?);
    let staging = gpu.pinned(n as usize)?;
    let results = gpu.pinned((n * ROUNDS) as usize)?;
    let bytes = n as usize * 4;
    let (input, state, sum) = (gpu.alloc(bytes)?, gpu.alloc(bytes)?, gpu.alloc(bytes)?);
    let (one, two) = (gpu.stream()?, gpu.stream()?);
    let (zeroed, copied, stated, summed) = (gpu.event()?, gpu.event()?, gpu.event()?, gpu.event()?);
    gpu.fill(state, 0, n as usize, two)?;
    gpu.fill(sum, 0x5a5a_5a5a, n as usize, two)?;
    gpu.record(zeroed, two)?;
    gpu.wait(one, zeroed)?;
    let mut fillings = Vec::new();
    for (round, result) in (0..ROUNDS).zip(results.chunks_mut(n as usize)) {
        let values = words_of(round, w.options.seed);
        if late {
            let filling = Box::new(Filling {
                staging: staging.as_mut_ptr(),
                values,
            });
            let data = (&raw const *filling).cast_mut().cast();
            fillings.push(filling);
            // SAFETY: the function is passed with its data, which is kept.
            unsafe { gpu.d.cuLaunchHostFunc(one, fill as *mut c_void, data) }.map_err(|e| e.to_string())?;
        } else {
            if round > 0 {
                // SAFETY: the event is the driver's.
                unsafe { gpu.d.cuEventSynchronize(copied) }.map_err(|e| e.to_string())?;
            }
            staging.copy_from_slice(&values);
        }
        gpu.upload_async(input, staging, one)?;
        gpu.record(copied, one)?;
        if round > 0 {
            gpu.wait(one, summed)?;
        }
        let args = [U64(state), U64(input), U32(n), U32(STEPS)];
        gpu.launch(first, n.div_ceil(256), 256, one, &args)?;
        gpu.record(stated, one)?;
        gpu.wait(two, stated)?;
        let args = [U64(sum), U64(state), U32(n), U32(round), U32(STEPS)];
        gpu.launch(second, n.div_ceil(256), 256, two, &args)?;
        gpu.record(summed, two)?;
        gpu.download_async(result, sum, two)?;
    }
    gpu.finish(two)?;
    gpu.finish(one)?;
    let (mut right_state, mut right_sum) = (vec![0u32; n as usize], vec![0x5a5a_5a5au32; n as usize]);
    for (round, got) in (0..ROUNDS).zip(results.chunks(n as usize)) {
        let values = words_of(round, w.options.seed);
        for (s, v) in right_state.iter_mut().zip(values) {
            *s = churn(s.wrapping_mul(31).wrapping_add(v));
        }
        for (i, s) in right_sum.iter_mut().enumerate() {
            *s = churn(*s ^ right_state[(i + 1) % n as usize]).wrapping_add(round);
        }
        check(&format!("round {round}"), got, &right_sum)?;
    }
    w.result.give(results);
    Ok(())
}

/// Leaves copies to the host pending in one stream while it waits for others. Copies of a non-blocking stream are not
/// complete then. Copies of streams that synchronize with the default stream are complete, so that the program reuses
/// their memory at once.
pub fn early(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_000);
    let gpu = w.gpu;
    let slow = gpu.load(include_str!("../../ptx/faulty.ptx"))?;
    let slow = gpu.function(slow, "slow")?;
    let graph = gpu.load(include_str!("../../ptx/graph.ptx"))?;
    let mix = gpu.function(graph, "mix")?;
    let values = words(w.options.seed, n);
    let bytes = n as usize * 4;
    let (input, out, other) = (gpu.upload_new(&values)?, gpu.alloc(bytes)?, gpu.alloc(bytes)?);
    let (copied_back, fourth) = (gpu.alloc(bytes)?, gpu.alloc(bytes)?);
    let right = |factor: u32| -> Vec<u32> {
        (0..n)
            .zip(&values)
            .map(|(i, v)| v.wrapping_mul(factor).wrapping_add(i))
            .collect()
    };
    let (result, second, third) = (
        gpu.pinned(n as usize)?,
        gpu.pinned(n as usize)?,
        gpu.pinned(n as usize)?,
    );
    let non_blocking = gpu.stream()?;
    let mut blocking = DEFAULT;
    // SAFETY: the pointer is valid for the answer.
    unsafe { gpu.d.cuStreamCreate(&raw mut blocking, 0) }.map_err(|e| e.to_string())?;
    gpu.synchronize()?;
    let mixed = |to: u64, factor: u32, stream| {
        gpu.launch(
            mix,
            n.div_ceil(128),
            128,
            stream,
            &[U64(to), U64(input), U32(n), U32(factor)],
        )
    };
    gpu.launch(slow, 1, 1, non_blocking, &[U64(200_000_000)])?;
    mixed(out, 9, non_blocking)?;
    gpu.download_async(result, out, non_blocking)?;
    // The next calls do not wait for the non-blocking stream, which does not wait for the default stream either.
    // SAFETY: the addresses are of device memory.
    unsafe { gpu.d.cuMemcpyDtoD_v2(other, input, bytes) }.map_err(|e| e.to_string())?;
    gpu.finish(DEFAULT)?;
    let back: Vec<u32> = gpu.download(other, n as usize)?;
    check("copied words", &back, &values)?;
    if w.options.lookup == LookupMode::PerThread {
        // A thread's own stream does not synchronize with any other stream.
        gpu.finish(non_blocking)?;
        check("words", result, &right(9))?;
        w.result.give(result);
        w.result.give(&back);
        return Ok(());
    }
    // The default stream's copy waits for the blocking stream.
    gpu.launch(slow, 1, 1, blocking, &[U64(10_000_000)])?;
    mixed(copied_back, 13, blocking)?;
    gpu.download_async(second, copied_back, blocking)?;
    let back: Vec<u32> = gpu.download(other, n as usize)?;
    check("copied words", &back, &values)?;
    check("words of the blocking stream", second, &right(13))?;
    let second_was = second.to_vec();
    second.fill(0);
    // Work of the blocking stream waits for the default stream.
    mixed(fourth, 17, DEFAULT)?;
    gpu.download_async(third, fourth, DEFAULT)?;
    mixed(copied_back, 19, blocking)?;
    gpu.finish(blocking)?;
    check("words of the default stream", third, &right(17))?;
    let third_was = third.to_vec();
    third.fill(0);
    gpu.finish(non_blocking)?;
    check("words", result, &right(9))?;
    // The result has the words in the order of the requests.
    for words in [&*result, &back, &second_was, &back, &third_was] {
        w.result.give(words);
    }
    Ok(())
}
