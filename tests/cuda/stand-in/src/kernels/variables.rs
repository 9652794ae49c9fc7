//! Kernels that use variables of their module.

use super::KernelRun;
use crate::Answer;
use crate::codes::INVALID_VALUE;

/// Words of the variable `bank`.
const BANK: u64 = 16;

/// `weigh_globals(out, in, n)`: out[i] = in[i] · weights[i % 4] + counter + bank[i % 16].
pub fn weigh_globals(r: &KernelRun<'_>) -> Answer {
    let (out, from) = (r.u64(0)?, r.u64(1)?);
    let (weights, bank) = (r.variable("weights")?, r.variable("bank")?);
    let counter = r.memory.u32(r.variable("counter")?)?;
    r.places(r.u32(2)?.into()).try_for_each(|i| {
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
    for i in r.places(BANK) {
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
    r.places(r.u32(0)?.into()).try_for_each(|i| {
        let by = (i as u32).wrapping_mul(r.memory.u32(weights + i % 4 * 4)?);
        r.memory.change_u32(target + i * 4, |old| old ^ by).map(drop)
    })
}

/// `weigh(small, count, out, in)`: out[i] = in[i] · weights[i % 4] + small; the first argument is a byte.
pub fn weigh(r: &KernelRun<'_>) -> Answer {
    let small = r.argument(0)?.first().copied().ok_or(INVALID_VALUE)?;
    let (out, from, weights) = (r.u64(2)?, r.u64(3)?, r.variable("weights")?);
    r.places(r.u32(1)?.into()).try_for_each(|i| {
        let weight = r.memory.u32(weights + i % 4 * 4)?;
        let value = r
            .memory
            .u32(from + i * 4)?
            .wrapping_mul(weight)
            .wrapping_add(small.into());
        r.memory.set_u32(out + i * 4, value)
    })
}
