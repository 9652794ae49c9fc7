//! Kernels with requested faults: they fail, never end, or take time.

use super::KernelRun;
use crate::Answer;
use crate::settings::settings;
use std::time::Duration;

/// Order: write to an illegal address.
const BAD: u32 = 1;
/// Order: never end.
const HANG: u32 = 2;
/// Time between two polls for the end.
const TICK: Duration = Duration::from_millis(5);

/// `obey(out, orders, n)`: `orders` holds what to do, a spare word, and an address; out[i] = i · 3 + what.
pub fn obey(r: &KernelRun<'_>) -> Answer {
    let (out, orders) = (r.u64(0)?, r.u64(1)?);
    if r.memory.u32(orders)? == BAD {
        r.memory.set_u32(r.memory.u64(orders + 8)?, 1)?;
    }
    // The end of a process ends its threads, and the failure of a context ends its kernels.
    while r.memory.u32(orders)? == HANG {
        r.context.check()?;
        settings().tick();
        std::thread::sleep(TICK);
    }
    let what = r.memory.u32(orders)?;
    let places = r.places(r.u32(2)?.into());
    places.into_iter().try_for_each(|i| {
        r.memory
            .set_u32(out + i * 4, (i as u32).wrapping_mul(3).wrapping_add(what))
    })
}

/// `slow(nanoseconds)`: takes this long.
pub fn slow(r: &KernelRun<'_>) -> Answer {
    std::thread::sleep(Duration::from_nanos(r.u64(0)?));
    Ok(())
}
