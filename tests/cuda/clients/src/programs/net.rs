//! A small integer neural network: weights first, then inferences, each with one copy to the device and one back.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::{ClientResult, mark};
use crate::program_context::ProgramContext;
use crate::result::{check, words};

/// Sizes of the layers, the input first.
const SIZES: [u32; 4] = [64, 48, 32, 10];
const ROWS: u32 = 4;
const SHIFT: u32 = 6;

fn small(seed: u32, n: u32) -> Vec<i32> {
    words(seed, n).iter().map(|w| (w % 31) as i32 - 15).collect()
}

fn layer(from: &[i32], weights: &[i32], bias: &[i32], inner: usize, columns: usize) -> Vec<i32> {
    let at = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        let products = (0..inner).map(|k| from[row * inner + k].wrapping_mul(weights[k * columns + column]));
        let sum = products.fold(bias[column], i32::wrapping_add);
        (sum >> SHIFT).max(0)
    };
    (0..ROWS as usize * columns).map(at).collect()
}

/// Runs `SIZE` inferences. With `--marks`, the last inference is between the marks.
pub fn net(w: &mut ProgramContext<'_>) -> ClientResult {
    let rounds = w.size(3);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/net.ptx"))?;
    let (run, matmul) = (gpu.function(code, "layer")?, gpu.function(code, "matmul")?);
    let mut layers = Vec::new();
    for (n, pair) in SIZES.windows(2).enumerate() {
        // The seed selects only the input, so that weights are the same for every seed.
        let seed = 1000 + n as u32;
        let (weights, bias) = (small(seed, pair[0] * pair[1]), small(seed + 100, pair[1]));
        let (dw, db) = (gpu.upload_new(&weights)?, gpu.upload_new(&bias)?);
        let out = gpu.alloc((ROWS * pair[1]) as usize * 4)?;
        layers.push((weights, bias, dw, db, out, pair[0], pair[1]));
    }
    // The last step multiplies the last layer's result by a matrix, without a bias.
    let last = SIZES[3];
    let turn = small(2000, last * last);
    let (dturn, scores) = (gpu.upload_new(&turn)?, gpu.alloc((ROWS * last) as usize * 4)?);
    let input = gpu.alloc((ROWS * SIZES[0]) as usize * 4)?;
    for round in 0..rounds {
        let marked = w.options.marks && round + 1 == rounds;
        if marked {
            gpu.synchronize()?;
            mark(c"begin");
        }
        let mut values = small(w.options.seed.wrapping_mul(53).wrapping_add(round), ROWS * SIZES[0]);
        gpu.upload(input, &values)?;
        let mut from = input;
        for (_, _, weights, bias, out, inner, columns) in &layers {
            let (inner, columns) = (*inner, *columns);
            let args = [
                U64(*out),
                U64(from),
                U64(*weights),
                U64(*bias),
                U32(ROWS),
                U32(inner),
                U32(columns),
                U32(SHIFT),
            ];
            gpu.launch_for_each(run, ROWS * columns, &args)?;
            from = *out;
        }
        let args = [U64(scores), U64(from), U64(dturn), U32(ROWS), U32(last), U32(last)];
        gpu.launch_for_each(matmul, ROWS * last, &args)?;
        let got: Vec<i32> = gpu.download(scores, (ROWS * last) as usize)?;
        if marked {
            mark(c"end");
        }
        for (weights, bias, _, _, _, inner, columns) in &layers {
            values = layer(&values, weights, bias, *inner as usize, *columns as usize);
        }
        let last = last as usize;
        let right = (0..ROWS as usize * last).map(|i| {
            let products = (0..last).map(|k| values[i / last * last + k].wrapping_mul(turn[k * last + i % last]));
            products.fold(0, i32::wrapping_add)
        });
        check(&format!("scores of round {round}"), &got, &right.collect::<Vec<_>>())?;
        w.result.give(&got);
    }
    Ok(())
}
