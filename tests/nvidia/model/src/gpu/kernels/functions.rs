//! The kernels of `kernels/kernels.cu` and `kernels/schedule.ptx`.

use super::{Function, KernelRun};
use crate::gpu::address_space::UnmappedAccess;
use crate::gpu::faults::{ChannelError, ErrorCode};
use crate::system;

/// The kernels by name.
pub const FUNCTIONS: [(&str, Function); 9] = [
    ("vadd", vadd),
    ("blocksum", blocksum),
    ("dynsum", dynsum),
    ("localmem", localmem),
    ("ids", ids),
    ("consts", consts),
    ("bigparam", bigparam),
    ("fault", fault),
    ("schedule", schedule),
];

/// Bytes of shared memory that the system reserves in each block.
const RESERVED_SHARED_BYTES: u64 = 0x400;
/// Number of streaming multiprocessors.
const MULTIPROCESSORS: u32 = 132;

type Outcome = Result<(), ChannelError>;

/// Returns a number of elements: a negative one is none.
fn count(value: u32) -> u32 {
    u32::try_from(value.cast_signed()).unwrap_or(0)
}

fn vadd(run: &KernelRun<'_>) -> Outcome {
    let (a, b, c) = (run.pointer(0)?, run.pointer(8)?, run.pointer(16)?);
    let n = count(run.word(24)?);
    for thread in run.threads() {
        let i = run.index(&thread);
        if i < n {
            let i = u64::from(i);
            let sum = f32::from_bits(run.load(a, i)?) + f32::from_bits(run.load(b, i)?);
            run.store(c, i, sum.to_bits())?;
        }
    }
    Ok(())
}

fn blocksum(run: &KernelRun<'_>) -> Outcome {
    let (a, out, n) = (run.pointer(0)?, run.pointer(8)?, count(run.word(16)?));
    let width = run.block[0] as usize;
    let needed = RESERVED_SHARED_BYTES + 4 * 256;
    if run.shared_bytes < needed || width > 256 {
        return Err(ChannelError::new(ErrorCode::GraphicsException));
    }
    for block in run.blocks() {
        let mut shared = [0f32; 256];
        for (thread, sum) in shared.iter_mut().take(width).enumerate() {
            let i = block[0].wrapping_mul(run.block[0]).wrapping_add(thread as u32);
            if i < n {
                *sum = f32::from_bits(run.load(a, u64::from(i))?);
            }
        }
        let mut half = width / 2;
        while half > 0 {
            let (low, high) = shared.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                *low += *high;
            }
            half /= 2;
        }
        run.store(out, u64::from(block[0]), shared[0].to_bits())?;
    }
    Ok(())
}

fn dynsum(run: &KernelRun<'_>) -> Outcome {
    let (a, out, n) = (run.pointer(0)?, run.pointer(8)?, count(run.word(16)?));
    if run.shared_bytes < RESERVED_SHARED_BYTES + 4 * u64::from(n) {
        return Err(ChannelError::new(ErrorCode::GraphicsException));
    }
    for _ in run.blocks() {
        let mut sum = 0f32;
        for i in 0..n {
            sum += f32::from_bits(run.load(a, u64::from(i))?);
        }
        run.store(out, 0, sum.to_bits())?;
    }
    Ok(())
}

fn localmem(run: &KernelRun<'_>) -> Outcome {
    let (idx, out, n) = (run.pointer(0)?, run.pointer(8)?, count(run.word(16)?));
    let unmapped = UnmappedAccess {
        address: run.local_memory,
        write: true,
    };
    // The array of a thread has 64 numbers.
    if run.local_bytes < 256 || run.space.read_array::<1>(run.local_memory).is_err() {
        return Err(unmapped.into());
    }
    for thread in run.threads() {
        let (step, factor) = (run.load(idx, 0)?, run.load(idx, 1)?);
        let mut values = [0u32; 64];
        for i in 0..64u32 {
            let value = i.wrapping_mul(factor).wrapping_add(thread.thread[0]);
            if let Some(slot) = values.get_mut((i.wrapping_mul(step) & 63) as usize) {
                *slot = value;
            }
        }
        let t = run.index(&thread);
        let start = match n {
            0 => 0,
            _ => run.load(idx, u64::from(t & 3))?,
        };
        let sum = (0..n).fold(0u32, |sum, i| {
            let value = values.get((i.wrapping_add(start) & 63) as usize).copied();
            sum.wrapping_mul(31).wrapping_add(value.unwrap_or(0))
        });
        run.store(out, u64::from(t), sum)?;
    }
    Ok(())
}

fn ids(run: &KernelRun<'_>) -> Outcome {
    let out = run.pointer(0)?;
    let pack = |size: [u32; 3]| size[0] | size[1] << 10 | size[2] << 20;
    for (number, block) in (0u32..).zip(run.blocks()) {
        let values = [
            pack(run.block),
            pack(run.grid),
            block[0],
            block[1],
            block[2],
            number % MULTIPROCESSORS,
            system::wall_clock_ns() as u32,
            0x600d_beef,
        ];
        for (at, value) in (0u64..).zip(values) {
            run.store(out, u64::from(number) * 8 + at, value)?;
        }
    }
    Ok(())
}

fn consts(run: &KernelRun<'_>) -> Outcome {
    let out = run.pointer(0)?;
    let variable = u64::from_le_bytes(run.constant(run.bank_4, 0)?);
    let variable = nvidia_channel::GpuVa(variable);
    for thread in run.threads() {
        let x = thread.thread[0];
        let value = u32::from_le_bytes(run.constant(run.bank_3, u64::from(x & 7) * 4)?);
        let counter = run.load(variable, 0)?;
        run.store(variable, 0, counter.wrapping_add(1))?;
        run.store(out, u64::from(x), value.wrapping_add(1))?;
    }
    Ok(())
}

fn bigparam(run: &KernelRun<'_>) -> Outcome {
    let out = run.pointer(0)?;
    let m1 = u64::from_le_bytes(run.parameter(8)?);
    let m2 = run.word(16)?;
    let m3 = u16::from_le_bytes(run.parameter(20)?);
    let [m4] = run.parameter(22)?;
    let d = f64::from_le_bytes(run.parameter(24)?);
    let values = [
        m1 as u32,
        (m1 >> 32) as u32,
        m2,
        u32::from(m3),
        u32::from(m4),
        d as u32,
        0x600d_beef,
    ];
    for _ in run.threads() {
        for (at, value) in (0u64..).zip(values) {
            run.store(out, at, value)?;
        }
    }
    Ok(())
}

fn fault(run: &KernelRun<'_>) -> Outcome {
    let p = run.pointer(0)?;
    for thread in run.threads() {
        run.store(p, u64::from(thread.thread[0]), 1)?;
    }
    Ok(())
}

fn schedule(run: &KernelRun<'_>) -> Outcome {
    let (page, message) = (run.pointer(0)?, u64::from_le_bytes(run.parameter(8)?));
    for _ in run.threads() {
        run.space.add(page, message)?;
    }
    Ok(())
}
