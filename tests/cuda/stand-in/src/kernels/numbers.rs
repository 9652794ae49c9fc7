//! Kernels over consecutive words and numbers; some use variables of their module.

use super::run::KernelRun;
use crate::Answer;
use crate::codes::INVALID_VALUE;

/// Number of words in the variable `bank`.
const BANK: u64 = 16;

/// Returns the address of a four-byte word.
fn word(base: u64, n: u64) -> u64 {
    base.wrapping_add(n.wrapping_mul(4))
}

/// `vector_add(c, a, b, n)`: c[i] = a[i] + b[i].
pub fn vector_add(r: &KernelRun<'_>) -> Answer {
    let (c, a, b) = (r.u64(0)?, r.u64(1)?, r.u64(2)?);
    r.indices(r.u64(3)?).try_for_each(|i| {
        let sum = r.memory.f32(word(a, i))? + r.memory.f32(word(b, i))?;
        r.memory.set_f32(word(c, i), sum)
    })
}

/// `stride(out, x, y, factor, n)`: out[i] = factor · x[i] + y[i], rounded once, for any number of threads.
pub fn stride(r: &KernelRun<'_>) -> Answer {
    let (out, x, y) = (r.u64(0)?, r.u64(1)?, r.u64(2)?);
    let factor = f32::from_bits(r.u32(3)?);
    // Each thread advances by the number of all threads, so together they process every element.
    (0..r.u64(4)?).try_for_each(|i| {
        let value = factor.mul_add(r.memory.f32(word(x, i))?, r.memory.f32(word(y, i))?);
        r.memory.set_f32(word(out, i), value)
    })
}

/// `reduce(result, values, n)`: sum, maximum, exclusive or, and the counts of values by their low four bits.
pub fn reduce(r: &KernelRun<'_>) -> Answer {
    let (result, values) = (r.u64(0)?, r.u64(1)?);
    r.indices(r.u32(2)?.into()).try_for_each(|i| {
        let value = r.memory.u32(word(values, i))?;
        r.memory.change_u32(result, |old| old.wrapping_add(value))?;
        r.memory.change_u32(word(result, 1), |old| old.max(value))?;
        r.memory.change_u32(word(result, 2), |old| old ^ value)?;
        r.memory
            .change_u32(word(result, 3 + u64::from(value & 15)), |old| old.wrapping_add(1))?;
        Ok(())
    })
}

/// `tile_sums(sums, values, tiles)`: correct only for 1, 2, 4, … 256 threads per block. Other results are wrong in a
/// reproducible way.
pub fn tile_sums(r: &KernelRun<'_>) -> Answer {
    const SHARED: usize = 256;
    const TILE: u64 = 2048;
    let (sums, values) = (r.u64(0)?, r.u64(1)?);
    let threads = r.block_threads() as usize;
    let lanes = threads.min(SHARED);
    for tile in 0..u64::from(r.u32(2)?) {
        let mut partial = [0u32; SHARED];
        for lane in 0..threads {
            let mut sum = 0u32;
            for i in (lane as u64..TILE).step_by(threads) {
                let value = r.memory.u32(word(values, tile * TILE + i))?;
                sum = sum.wrapping_add(value.wrapping_mul(value).wrapping_add(1));
            }
            // The sums of later threads are dropped.
            if let Some(slot) = partial.get_mut(lane) {
                *slot = sum;
            }
        }
        let mut step = lanes / 2;
        while step > 0 {
            for lane in 0..step {
                let further = partial.get(lane + step).copied().unwrap_or(0);
                if let Some(slot) = partial.get_mut(lane) {
                    *slot = slot.wrapping_add(further);
                }
            }
            step /= 2;
        }
        r.memory.set_u32(word(sums, tile), partial[0])?;
    }
    Ok(())
}

/// Returns `Σ a[row, n] · b[n, column]`, of integers.
fn product(r: &KernelRun<'_>, a: u64, b: u64, row: u64, column: u64, inner: u64, columns: u64) -> Answer<u32> {
    let mut sum = 0u32;
    for n in 0..inner {
        let (x, y) = (word(a, row * inner + n), word(b, n * columns + column));
        sum = sum.wrapping_add(r.memory.u32(x)?.wrapping_mul(r.memory.u32(y)?));
    }
    Ok(sum)
}

/// `matmul(c, a, b, rows, inner, columns)`: integers, one thread per element.
pub fn matmul(r: &KernelRun<'_>) -> Answer {
    let (c, a, b) = (r.u64(0)?, r.u64(1)?, r.u64(2)?);
    let (rows, inner, columns) = (u64::from(r.u32(3)?), u64::from(r.u32(4)?), u64::from(r.u32(5)?));
    r.indices(rows * columns).try_for_each(|i| {
        let sum = product(r, a, b, i / columns, i % columns, inner, columns)?;
        r.memory.set_u32(word(c, i), sum)
    })
}

/// `layer(out, in, weights, bias, rows, inner, columns, shift)`: like `matmul`, then adds a bias to each column, shifts
/// right, and sets negative results to zero.
pub fn layer(r: &KernelRun<'_>) -> Answer {
    let (out, from, weights, bias) = (r.u64(0)?, r.u64(1)?, r.u64(2)?, r.u64(3)?);
    let (rows, inner, columns) = (u64::from(r.u32(4)?), u64::from(r.u32(5)?), u64::from(r.u32(6)?));
    let shift = r.u32(7)?;
    r.indices(rows * columns).try_for_each(|i| {
        let column = i % columns;
        let sum = product(r, from, weights, i / columns, column, inner, columns)?;
        let sum = sum.wrapping_add(r.memory.u32(word(bias, column))?) as i32;
        r.memory.set_u32(word(out, i), (sum >> shift.min(31)).max(0) as u32)
    })
}

/// `mix(out, in, n, factor)`: out[i] = in[i] · factor + i.
pub fn mix(r: &KernelRun<'_>) -> Answer {
    let (out, from, factor) = (r.u64(0)?, r.u64(1)?, r.u32(3)?);
    r.indices(r.u32(2)?.into()).try_for_each(|i| {
        let value = r.memory.u32(word(from, i))?.wrapping_mul(factor).wrapping_add(i as u32);
        r.memory.set_u32(word(out, i), value)
    })
}

/// `join(out, a, b, n)`: out[i] = a[i] ^ (b[i] + i).
pub fn join(r: &KernelRun<'_>) -> Answer {
    let (out, a, b) = (r.u64(0)?, r.u64(1)?, r.u64(2)?);
    r.indices(r.u32(3)?.into()).try_for_each(|i| {
        let value = r.memory.u32(word(a, i))? ^ r.memory.u32(word(b, i))?.wrapping_add(i as u32);
        r.memory.set_u32(word(out, i), value)
    })
}

/// Runs steps that each depend on the previous step.
fn churn(mut x: u32, steps: u32) -> u32 {
    for _ in 0..steps {
        x = x
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223)
            .wrapping_add(x >> 16);
    }
    x
}

/// `first(state, input, n, steps)`: state[i] = churn(state[i] · 31 + input[i]).
pub fn first(r: &KernelRun<'_>) -> Answer {
    let (state, input, steps) = (r.u64(0)?, r.u64(1)?, r.u32(3)?);
    r.indices(r.u32(2)?.into()).try_for_each(|i| {
        let x = r
            .memory
            .u32(word(state, i))?
            .wrapping_mul(31)
            .wrapping_add(r.memory.u32(word(input, i))?);
        r.memory.set_u32(word(state, i), churn(x, steps))
    })
}

/// `second(sum, state, n, round, steps)`: sum[i] = churn(sum[i] ^ state[i + 1]) + round.
pub fn second(r: &KernelRun<'_>) -> Answer {
    let (sum, state, n, round, steps) = (r.u64(0)?, r.u64(1)?, u64::from(r.u32(2)?), r.u32(3)?, r.u32(4)?);
    r.indices(n).try_for_each(|i| {
        let x = r.memory.u32(word(sum, i))? ^ r.memory.u32(word(state, (i + 1) % n))?;
        r.memory.set_u32(word(sum, i), churn(x, steps).wrapping_add(round))
    })
}

/// `turn(values, n, thread, round)`: values[i] = values[i] · 1664525 + thread · 1000003 + round.
pub fn turn(r: &KernelRun<'_>) -> Answer {
    let (values, thread, round) = (r.u64(0)?, r.u32(2)?, r.u32(3)?);
    let more = thread.wrapping_mul(1_000_003).wrapping_add(round);
    r.indices(r.u32(1)?.into()).try_for_each(|i| {
        let value = r
            .memory
            .u32(word(values, i))?
            .wrapping_mul(1_664_525)
            .wrapping_add(more);
        r.memory.set_u32(word(values, i), value)
    })
}

/// `together(a, b, barrier, n, rounds)`: b[i] = a[i] · 3 + a[i + 1] in each round. After a round, all threads wait for
/// each other and a and b are swapped. The barrier counts the blocks that arrived.
pub fn together(r: &KernelRun<'_>) -> Answer {
    let (mut from, mut to, barrier) = (r.u64(0)?, r.u64(1)?, r.u64(2)?);
    let n = u64::from(r.u32(3)?);
    for _ in 0..r.u32(4)? {
        for i in 0..n {
            let value = r.memory.u32(word(from, i))?.wrapping_mul(3);
            let value = value.wrapping_add(r.memory.u32(word(from, (i + 1) % n))?);
            r.memory.set_u32(word(to, i), value)?;
        }
        r.memory
            .change_u32(barrier, |arrived| arrived.wrapping_add(r.blocks() as u32))?;
        (from, to) = (to, from);
    }
    Ok(())
}

/// `scale_add(out, in, count, factor, summand)`: out[i] = in[i] · factor + summand.
pub fn scale_add(r: &KernelRun<'_>) -> Answer {
    let (out, from, factor, summand) = (r.u64(0)?, r.u64(1)?, r.u32(3)?, r.u32(4)?);
    r.indices(r.u32(2)?.into()).try_for_each(|i| {
        let value = r.memory.u32(word(from, i))?.wrapping_mul(factor).wrapping_add(summand);
        r.memory.set_u32(word(out, i), value)
    })
}

/// `weigh_globals(out, in, n)`: out[i] = in[i] · weights[i % 4] + counter + bank[i % 16].
pub fn weigh_globals(r: &KernelRun<'_>) -> Answer {
    let (out, from) = (r.u64(0)?, r.u64(1)?);
    let (weights, bank) = (r.variable("weights")?, r.variable("bank")?);
    let counter = r.memory.u32(r.variable("counter")?)?;
    r.indices(r.u32(2)?.into()).try_for_each(|i| {
        let weight = r.memory.u32(weights + i % 4 * 4)?;
        let value = r.memory.u32(from + i * 4)?.wrapping_mul(weight).wrapping_add(counter);
        let value = value.wrapping_add(r.memory.u32(bank + i % BANK * 4)?);
        r.memory.set_u32(out + i * 4, value)
    })
}

/// `count_up(by)`: counter += by, bank[i] += by · i. One block of sixteen threads.
pub fn count_up(r: &KernelRun<'_>) -> Answer {
    let by = r.u32(0)?;
    let (counter, bank) = (r.variable("counter")?, r.variable("bank")?);
    for i in r.indices(BANK) {
        r.memory
            .change_u32(bank + i * 4, |old| old.wrapping_add(by.wrapping_mul(i as u32)))?;
    }
    r.memory.change_u32(counter, |old| old.wrapping_add(by)).map(drop)
}

/// `through(n)`: the variable that `target` points to becomes the exclusive or of itself and i · weights[i % 4].
/// `target` is found through `home`, a variable whose initial value is its address.
pub fn through(r: &KernelRun<'_>) -> Answer {
    let weights = r.variable("weights")?;
    let target = r.memory.u64(r.memory.u64(r.variable("home")?)?)?;
    r.indices(r.u32(0)?.into()).try_for_each(|i| {
        let by = (i as u32).wrapping_mul(r.memory.u32(weights + i % 4 * 4)?);
        r.memory.change_u32(target + i * 4, |old| old ^ by).map(drop)
    })
}

/// `weigh(small, count, out, in)`: out[i] = in[i] · weights[i % 4] + small; the first argument is a byte.
pub fn weigh(r: &KernelRun<'_>) -> Answer {
    let small = r.argument(0)?.first().copied().ok_or(INVALID_VALUE)?;
    let (out, from, weights) = (r.u64(2)?, r.u64(3)?, r.variable("weights")?);
    r.indices(r.u32(1)?.into()).try_for_each(|i| {
        let weight = r.memory.u32(weights + i % 4 * 4)?;
        let value = r
            .memory
            .u32(from + i * 4)?
            .wrapping_mul(weight)
            .wrapping_add(small.into());
        r.memory.set_u32(out + i * 4, value)
    })
}
