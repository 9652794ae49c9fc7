//! Programs with one or two kernels, all in the default stream.

use crate::gpu::Arg::{F32, U32, U64};
use crate::gpu::{Args, ClientResult, mark};
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::{check, words};
use std::io::Write as _;

fn floats(seed: u32, n: u32) -> Vec<f32> {
    words(seed, n)
        .iter()
        .map(|w| (w >> 8) as f32 / 65_536.0 - 128.0)
        .collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Runs one kernel with inputs and one output. With `--marks`, a second round is between the marks.
pub fn vector_add(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(10_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/vector_add.ptx"))?;
    let add = gpu.function(code, "vector_add")?;
    let rounds = if w.options.marks { 2 } else { 1 };
    let c = gpu.alloc(n as usize * 4)?;
    let (mut a, mut b) = (gpu.alloc(n as usize * 4)?, gpu.alloc(n as usize * 4)?);
    for round in 0..rounds {
        let (x, y) = (
            floats(w.options.seed + 2 * round, n),
            floats(w.options.seed + 2 * round + 1, n),
        );
        if round == 1 {
            // The content at the mark matters: the second summand is the first round's sum.
            (b, a) = (c, b);
            mark(c"begin");
        }
        gpu.upload(a, &x)?;
        if round == 0 {
            gpu.upload(b, &y)?;
        }
        gpu.launch_for_each(add, n, &[U64(c), U64(a), U64(b), U64(n.into())])?;
        let got: Vec<f32> = gpu.download(c, n as usize)?;
        if round == 1 {
            mark(c"end");
        }
        let before = floats(w.options.seed, n);
        let first: Vec<f32> = before
            .iter()
            .zip(floats(w.options.seed + 1, n))
            .map(|(x, y)| x + y)
            .collect();
        let right: Vec<f32> = match round {
            0 => first,
            _ => x.iter().zip(&first).map(|(x, y)| x + y).collect(),
        };
        check("sums", &bits(&got), &bits(&right))?;
        w.result.give(&got);
    }
    gpu.free(c)?;
    gpu.synchronize()
}

/// Launches a kernel with the name of an NCCL kernel three times. It needs no other device here.
pub fn collective(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1000);
    let gpu = w.gpu;
    let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    let code = gpu.load(&include_str!("../../ptx/vector_add.ptx").replace("vector_add", name))?;
    let add = gpu.function(code, name)?;
    let c = gpu.alloc(n as usize * 4)?;
    let a = gpu.alloc(n as usize * 4)?;
    gpu.upload(a, &floats(w.options.seed, n))?;
    for _ in 0..3 {
        gpu.launch_for_each(add, n, &[U64(c), U64(a), U64(a), U64(n.into())])?;
    }
    let got: Vec<f32> = gpu.download(c, n as usize)?;
    w.result.give(&got);
    gpu.synchronize()
}

/// Runs atomics: sum, maximum, exclusive or, histogram.
pub fn reduction(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(20_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/reduction.ptx"))?;
    let reduce = gpu.function(code, "reduce")?;
    let values = words(w.options.seed, n);
    let (result, device) = (gpu.alloc(19 * 4)?, gpu.upload_new(&values)?);
    gpu.fill(result, 0, 19, DEFAULT)?;
    gpu.launch_for_each(reduce, n, &[U64(result), U64(device), U32(n)])?;
    let got: Vec<u32> = gpu.download(result, 19)?;
    let mut right = vec![0u32; 19];
    for v in &values {
        right[0] = right[0].wrapping_add(*v);
        right[1] = right[1].max(*v);
        right[2] ^= v;
        right[3 + (*v as usize & 15)] += 1;
    }
    check("results", &got, &right)?;
    w.result.give(&got);
    Ok(())
}

/// Uses variables of a module: with initial values, set by the host, changed by kernels, or with addresses.
pub fn globals(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(4_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/globals.ptx"))?;
    let weigh = gpu.function(code, "weigh_globals")?;
    let count = gpu.function(code, "count_up")?;
    let through = gpu.function(code, "through")?;
    let values = words(w.options.seed, n);
    let (input, out) = (gpu.upload_new(&values)?, gpu.alloc(n as usize * 4)?);
    let (mut weights, mut counter) = ([3u32, 1, 4, 1], 7u32);
    let mut bank = [0u32; 16];
    bank[..4].copy_from_slice(&[100, 101, 102, 103]);
    let (at, bytes) = gpu.variable(code, "weights")?;
    if bytes != 16 {
        return Err(format!("the variable has {bytes} bytes"));
    }
    let (target, _) = gpu.variable(code, "target")?;
    gpu.upload(target, &[out])?;
    for round in 0..3u32 {
        if round == 1 {
            weights[2] = 0x10001 + w.options.seed;
            gpu.upload(at + 8, &weights[2..3])?;
        }
        gpu.launch_for_each(weigh, n, &[U64(out), U64(input), U32(n)])?;
        gpu.launch_for_each(through, n, &[U32(n)])?;
        let got: Vec<u32> = gpu.download(out, n as usize)?;
        let right = (0..n as usize).map(|i| {
            let weighed = values[i]
                .wrapping_mul(weights[i % 4])
                .wrapping_add(counter)
                .wrapping_add(bank[i % 16]);
            weighed ^ (i as u32).wrapping_mul(weights[i % 4])
        });
        check("words", &got, &right.collect::<Vec<_>>())?;
        w.result.give(&got);
        gpu.launch(count, 1, 16, DEFAULT, &[U32(round + 5)])?;
        counter += round + 5;
        bank.iter_mut().zip(0..).for_each(|(b, i)| *b += (round + 5) * i);
    }
    let (at, _) = gpu.variable(code, "bank")?;
    let got: Vec<u32> = gpu.download(at, 16)?;
    check("bank", &got, &bank)?;
    w.result.give(&got);
    Ok(())
}

/// Launches a kernel that is correct for every grid and block size. The default sizes are small.
pub fn stride(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(30_000);
    let gpu = w.gpu;
    let (grid, block) = (w.options.grid.unwrap_or(4), w.options.block.unwrap_or(64));
    let code = gpu.load(include_str!("../../ptx/stride.ptx"))?;
    let stride = gpu.function(code, "stride")?;
    let factor = std::f32::consts::E;
    let (x, y) = (floats(w.options.seed, n), floats(w.options.seed + 1, n));
    let (dx, dy, out) = (gpu.upload_new(&x)?, gpu.upload_new(&y)?, gpu.alloc(n as usize * 4)?);
    gpu.fill(out, 0, n as usize, DEFAULT)?;
    let args = [U64(out), U64(dx), U64(dy), F32(factor), U64(n.into())];
    gpu.launch(stride, grid, block, DEFAULT, &args)?;
    let got: Vec<f32> = gpu.download(out, n as usize)?;
    let right: Vec<f32> = x.iter().zip(&y).map(|(x, y)| factor.mul_add(*x, *y)).collect();
    check("values", &bits(&got), &bits(&right))?;
    w.result.give(&got);
    Ok(())
}

/// Launches a kernel that is correct for 1, 2, 4, … 256 threads per block, and wrong for all others.
pub fn wrong_for_some(w: &mut ProgramContext<'_>) -> ClientResult {
    const TILE: u32 = 2048;
    let tiles = w.size(16);
    let gpu = w.gpu;
    let (grid, block) = (w.options.grid.unwrap_or(8), w.options.block.unwrap_or(32));
    let code = gpu.load(include_str!("../../ptx/wrong_for_some.ptx"))?;
    let tile_sums = gpu.function(code, "tile_sums")?;
    let values = words(w.options.seed, tiles * TILE);
    let (device, sums) = (gpu.upload_new(&values)?, gpu.alloc(tiles as usize * 4)?);
    gpu.fill(sums, 0, tiles as usize, DEFAULT)?;
    gpu.launch(tile_sums, grid, block, DEFAULT, &[U64(sums), U64(device), U32(tiles)])?;
    let got: Vec<u32> = gpu.download(sums, tiles as usize)?;
    let square = |sum: u32, v: &u32| sum.wrapping_add(v.wrapping_mul(*v).wrapping_add(1));
    let right = values.chunks(TILE as usize).map(|tile| tile.iter().fold(0, square));
    check(
        &format!("sums with blocks of {block}"),
        &got,
        &right.collect::<Vec<_>>(),
    )?;
    w.result.give(&got);
    Ok(())
}

/// Runs correctly by default; `--bad` writes to an illegal address, `--hang` never ends. The first word of an input
/// selects the behaviour.
pub fn faulty(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/faulty.ptx"))?;
    let obey = gpu.function(code, "obey")?;
    let order = if w.options.has("--bad") {
        1
    } else {
        u32::from(w.options.has("--hang")) * 2
    };
    let orders = gpu.upload_new(&[order, 0, 0x10, 0])?;
    let out = gpu.alloc(n as usize * 4)?;
    gpu.fill(out, 0, n as usize, DEFAULT)?;
    if order == 2 {
        println!("faulty: hanging now");
        std::io::stdout().flush().map_err(|e| e.to_string())?;
        // SAFETY: the call only requests a signal. It ends an endless kernel that no other process ends.
        unsafe { libc::alarm(60) };
    }
    gpu.launch_for_each(obey, n, &[U64(out), U64(orders), U32(n)])?;
    gpu.synchronize()?;
    let got: Vec<u32> = gpu.download(out, n as usize)?;
    check("words", &got, &(0..n).map(|i| i * 3).collect::<Vec<_>>())?;
    w.result.give(&got);
    Ok(())
}

/// Makes a cooperative launch whose threads wait for each other across the grid. With `--graph`, a graph makes it.
pub fn cooperative(w: &mut ProgramContext<'_>) -> ClientResult {
    const ROUNDS: u32 = 5;
    let n = w.size(3_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/cooperative.ptx"))?;
    let together = gpu.function(code, "together")?;
    let mut values = words(w.options.seed, n);
    let (a, b) = (gpu.upload_new(&values)?, gpu.alloc(n as usize * 4)?);
    let barrier = gpu.upload_new(&[0u32])?;
    let mut args = Args::new(&[U64(a), U64(b), U64(barrier), U32(n), U32(ROUNDS)]);
    let graph = w.options.has("--graph");
    let stream = if graph { gpu.stream()? } else { DEFAULT };
    let (mut captured, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the function has as many arguments as are passed, the handles are the driver's, and the pointers are
    // valid for the answers.
    unsafe {
        if graph {
            gpu.d.cuStreamBeginCapture_v2(stream, 0).map_err(|e| e.to_string())?;
        }
        let pointers = args.pointers();
        gpu.d
            .cuLaunchCooperativeKernel(together, 4, 1, 1, 128, 1, 1, 0, stream, pointers)
            .map_err(|e| e.to_string())?;
        if graph {
            gpu.d
                .cuStreamEndCapture(stream, &raw mut captured)
                .and_then(|()| gpu.d.cuGraphInstantiateWithFlags(&raw mut exec, captured, 0))
                .and_then(|()| gpu.d.cuGraphLaunch(exec, stream))
                .and_then(|()| gpu.d.cuStreamSynchronize(stream))
                .map_err(|e| e.to_string())?;
        }
    }
    let got: Vec<u32> = gpu.download(if ROUNDS.is_multiple_of(2) { a } else { b }, n as usize)?;
    for _ in 0..ROUNDS {
        let next = (0..n as usize).map(|i| values[i].wrapping_mul(3).wrapping_add(values[(i + 1) % n as usize]));
        values = next.collect();
    }
    check("words", &got, &values)?;
    w.result.give(&got);
    let arrived: Vec<u32> = gpu.download(barrier, 1)?;
    check("arrived blocks", &arrived, &[4 * ROUNDS])?;
    w.result.give(&arrived);
    Ok(())
}
