//! Kernels: one function for each kernel name in the programs' PTX texts. It does the work of the text block by block
//! and thread by thread. The texts are in `tests/cuda/clients/ptx/` and `tests/cuda/programs/driver_api.c`.

mod linked;
mod numbers;
pub mod run;
mod texels;
mod tools;
pub mod translated;

use crate::Answer;
use crate::kernels::run::KernelRun;
use crate::settings::settings;
use std::time::Duration;

/// Order for `obey`: write to an illegal address.
const BAD: u32 = 1;
/// Order for `obey`: never end.
const HANG: u32 = 2;
/// Time between two polls of an order that never ends.
const TICK: Duration = Duration::from_millis(5);

/// Implementation of a kernel.
pub type Body = fn(&KernelRun<'_>) -> Answer;

/// A kernel that the stand-in implements.
struct KernelEntry {
    name: &'static str,
    body: Body,
    /// Registers per thread that a compiler would use by default.
    registers: u32,
    /// Size of the kernel's own shared memory, bytes.
    shared: u32,
}

const fn kernel_entry(name: &'static str, body: Body, registers: u32, shared: u32) -> KernelEntry {
    KernelEntry {
        name,
        body,
        registers,
        shared,
    }
}

const KERNELS: [KernelEntry; 25] = [
    kernel_entry("vector_add", numbers::vector_add, 16, 0),
    kernel_entry("stride", numbers::stride, 24, 0),
    kernel_entry("reduce", numbers::reduce, 20, 0),
    kernel_entry("tile_sums", numbers::tile_sums, 28, 1024),
    kernel_entry("matmul", numbers::matmul, 40, 0),
    kernel_entry("layer", numbers::layer, 40, 0),
    kernel_entry("mix", numbers::mix, 14, 0),
    kernel_entry("join", numbers::join, 14, 0),
    kernel_entry("first", numbers::first, 16, 0),
    kernel_entry("second", numbers::second, 16, 0),
    kernel_entry("turn", numbers::turn, 12, 0),
    kernel_entry("together", numbers::together, 22, 0),
    kernel_entry("scale_add", numbers::scale_add, 14, 0),
    kernel_entry("link", linked::link, 14, 0),
    kernel_entry("walk", linked::walk, 18, 0),
    kernel_entry("reverse", linked::reverse, 18, 0),
    kernel_entry("find", linked::find, 18, 0),
    kernel_entry("weigh_globals", numbers::weigh_globals, 18, 0),
    kernel_entry("count_up", numbers::count_up, 12, 0),
    kernel_entry("through", numbers::through, 14, 0),
    kernel_entry("weigh", numbers::weigh, 16, 0),
    kernel_entry("read_texels", texels::read_texels, 12, 0),
    kernel_entry("read_plane", texels::read_plane, 14, 0),
    kernel_entry("change_plane", texels::change_plane, 14, 0),
    kernel_entry("ncclDevKernel_AllReduce_Sum_f32_RING_LL", numbers::vector_add, 16, 0),
];
const ORDERS: [KernelEntry; 4] = [
    kernel_entry("kinescope_pages", tools::pages, 24, 0),
    kernel_entry("kinescope_hash", tools::hash, 32, 0),
    kernel_entry("obey", obey, 14, 0),
    kernel_entry("slow", slow, 10, 0),
];
/// Registers per thread of an unknown kernel.
const REGISTERS: u32 = 32;

fn find(name: &str) -> Option<&'static KernelEntry> {
    const BOTH: [&[KernelEntry]; 2] = [&KERNELS, &ORDERS];
    BOTH.iter()
        .flat_map(|all| all.iter())
        .find(|kernel| kernel.name == name)
}

/// Returns the implementation of a kernel by name, if there is one.
pub fn find_body(name: &str) -> Option<Body> {
    find(name).map(|kernel| kernel.body)
}

/// Returns the registers per thread that a compiler uses by default.
pub fn registers(name: &str) -> u32 {
    find(name).map_or(REGISTERS, |kernel| kernel.registers)
}

/// Returns the size of a kernel's own shared memory, bytes.
pub fn shared(name: &str) -> u32 {
    find(name).map_or(0, |kernel| kernel.shared)
}

/// Returns the size of a thread's local memory for values that do not fit into this many registers, bytes.
pub fn spilled(name: &str, available: u32) -> u32 {
    registers(name).saturating_sub(available) * 4
}

/// `obey(out, orders, n)`: `orders` holds what to do, a spare word, and an address; out[i] = i · 3 + what.
fn obey(r: &KernelRun<'_>) -> Answer {
    let (out, orders) = (r.u64(0)?, r.u64(1)?);
    if r.memory.u32(orders)? == BAD {
        r.memory.set_u32(r.memory.u64(orders + 8)?, 1)?;
    }
    // A failure of the context ends the loop. The end of the process ends this thread.
    while r.memory.u32(orders)? == HANG {
        r.health.check()?;
        settings().tick();
        std::thread::sleep(TICK);
    }
    let order = r.memory.u32(orders)?;
    let indices = r.indices(r.u32(2)?.into());
    indices.into_iter().try_for_each(|i| {
        r.memory
            .set_u32(out + i * 4, (i as u32).wrapping_mul(3).wrapping_add(order))
    })
}

/// `slow(nanoseconds)`: takes this many nanoseconds.
fn slow(r: &KernelRun<'_>) -> Answer {
    std::thread::sleep(Duration::from_nanos(r.u64(0)?));
    Ok(())
}
