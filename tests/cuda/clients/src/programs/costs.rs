//! What calls cost the program: figures on the standard error stream, medians of several rounds.

use crate::gpu::Arg::U64;
use crate::gpu::{Args, ClientResult};
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::check;
use std::time::Instant;

/// `CU_LIMIT_STACK_SIZE`: the driver answers without the device.
const LIMIT_STACK_SIZE: u32 = 0;
/// Number of calls of a round.
const CALLS: u32 = 500;
/// Number of rounds.
const ROUNDS: usize = 9;
/// Sizes of copies, bytes.
const COPIES: [usize; 5] = [64 << 10, 1 << 20, 16 << 20, 128 << 20, 1 << 30];
/// Default size of the largest copy, MiB.
const MAX_COPY_MIB: u32 = 128;

/// Prints the median time of a call, nanoseconds: `prepare` runs before each round, outside of the time.
fn measure(
    name: &str,
    mut call: impl FnMut() -> ClientResult,
    mut finish: impl FnMut() -> ClientResult,
) -> ClientResult {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        times.push(begun.elapsed().as_nanos() / u128::from(CALLS));
        finish()?;
    }
    times.sort_unstable();
    if let (Some(median), Some(first), Some(last)) = (times.get(ROUNDS / 2), times.first(), times.last()) {
        eprintln!("{name}: {median} ns ({first} to {last})");
    }
    Ok(())
}

/// Measures launches, waits, events, and copies in both directions.
pub fn costs(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/vector_add.ptx"))?;
    let add = gpu.function(code, "vector_add")?;
    let (a, stream, event) = (gpu.alloc(256)?, gpu.stream()?, gpu.event()?);
    gpu.fill(a, 0, 64, DEFAULT)?;
    let mut args = Args::new(&[U64(a), U64(a), U64(a), U64(0)]);
    let mut launch = || {
        let none = std::ptr::null_mut();
        // SAFETY: the function has four arguments.
        unsafe {
            gpu.d
                .cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, args.pointers(), none)
        }
        .map_err(|e| e.to_string())
    };
    measure("launch", &mut launch, || gpu.finish(stream))?;
    measure(
        "launch and wait",
        || launch().and_then(|()| gpu.finish(stream)),
        || Ok(()),
    )?;
    measure(
        "record of an event",
        || gpu.record(event, stream),
        || gpu.finish(stream),
    )?;
    let query = || {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid for the answers.
        unsafe { gpu.d.cuMemGetInfo_v2(&raw mut free, &raw mut total) }.map_err(|e| e.to_string())
    };
    measure("question about memory", query, || Ok(()))?;
    let limit = || {
        let mut value = 0;
        // SAFETY: the pointer is valid for the answer.
        unsafe { gpu.d.cuCtxGetLimit(&raw mut value, LIMIT_STACK_SIZE) }.map_err(|e| e.to_string())
    };
    measure("question about a limit", limit, || Ok(()))?;
    let max_bytes = (w.size(MAX_COPY_MIB) as usize) << 20;
    for bytes in COPIES.into_iter().filter(|&bytes| bytes <= max_bytes) {
        let to = gpu.alloc(bytes)?;
        let pageable = vec![7u32; bytes / 4];
        let pinned = gpu.pinned(bytes / 4)?;
        pinned.fill(9);
        let rate = |name: &str, copy: &mut dyn FnMut() -> ClientResult| -> ClientResult {
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let begun = Instant::now();
                copy()?;
                times.push(begun.elapsed().as_secs_f64());
            }
            times.sort_unstable_by(f64::total_cmp);
            let seconds = times.get(ROUNDS / 2).copied().unwrap_or(f64::NAN);
            eprintln!(
                "{name}, {} KiB: {:.2} GiB/s",
                bytes >> 10,
                bytes as f64 / seconds / f64::from(1 << 30)
            );
            Ok(())
        };
        rate("to the device, pageable", &mut || {
            gpu.upload(to, &pageable).and_then(|()| gpu.synchronize())
        })?;
        // Memory that was written before: first accesses to new pages are not what is measured.
        let mut back = vec![1u32; bytes / 4];
        rate("to the host, pageable", &mut || gpu.download_into(&mut back, to))?;
        check("words", &back, &pageable)?;
        rate("to the device, pinned", &mut || {
            gpu.upload_async(to, pinned, stream).and_then(|()| gpu.finish(stream))
        })?;
        rate("to the host, pinned", &mut || {
            gpu.download_async(pinned, to, stream).and_then(|()| gpu.finish(stream))
        })?;
        check("words", pinned, &vec![9u32; bytes / 4])?;
        gpu.free(to)?;
    }
    Ok(())
}
