//! Internals for tests and benchmarks: execution of a single clause, and memory as a job sees it.

use crate::address_space::Translation;
use crate::compute::view::{ChunkMode, View};
use crate::device::SoftwareMali;
use crate::job_trace::JobTrace;
use crate::memory::ArenaMemory;
use crate::shader::group::{run_single_clause, translate_clause};
use replay_engine::device::Arena;
use trace_core::mmu::{self, Rights};
use trace_core::recording::MmuFormat;
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

/// Runs one clause of arithmetic on the registers of up to 32 lanes, all of which are active.
///
/// `registers` holds the 64 registers of each lane. `push` are the pushed uniforms, 64 bits each.
///
/// # Errors
/// Names the part of the clause that cannot be executed: an unknown operation, or one that needs memory, a workgroup or
/// a branch.
pub fn run_clause(code: &[u8], registers: &mut [[u32; 64]], push: &[u64]) -> Result<(), String> {
    run_single_clause(code, registers, push)
}

/// Enables last-writer tracking on a device, starting empty. This is for measurements.
pub fn track_last_writers(device: &mut SoftwareMali) {
    device.job_trace = JobTrace::for_writers(None);
}

/// Memory with page tables, as a job sees it. This is for measurements.
#[derive(Debug)]
pub struct PagedMemory {
    memory: ArenaMemory,
    translation: Translation,
    bytes: u64,
}

/// Start address of the measured memory, for the GPU and in the arena. The tables lie before it.
const VA: GpuVa = GpuVa::new(0x4000_0000);
const FIRST: u64 = 0x100_0000;

impl PagedMemory {
    /// Creates memory of this size in bytes, a multiple of 4096, at most 512 MiB.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let mut memory = ArenaMemory::new(Arena {
            base: PhysAddr::ZERO,
            pages: 1 << 18,
        });
        let format = MmuFormat::MaliLpae;
        let bytes = bytes.min(512 << 20);
        let page = PAGE_SIZE as u64;
        let mut put = |table: u64, level: u8, va: GpuVa, entry: u64| {
            let at = PhysAddr::new(table * page + u64::from(mmu::index_at(level, va)) * 8);
            // The address is well inside the arena, and memory is not full.
            let _fits = memory.write(at, &entry.to_le_bytes());
        };
        put(1, 0, VA, mmu::encode_table(format, PhysAddr::new(2 * page)));
        put(2, 1, VA, mmu::encode_table(format, PhysAddr::new(3 * page)));
        for n in 0..bytes / page {
            let va = VA + n * page;
            let last = 4 + (n >> 9);
            put(3, 2, va, mmu::encode_table(format, PhysAddr::new(last * page)));
            put(
                last,
                3,
                va,
                mmu::encode_leaf(format, PhysAddr::new(FIRST + n * page), Rights::RW, 0),
            );
        }
        Self {
            memory,
            translation: Translation::tables(format, PhysAddr::new(page)),
            bytes,
        }
    }

    fn view(&self) -> View<'_> {
        View::new(&self.memory, self.translation, ChunkMode::InOrder)
    }

    /// Loads one word for every four of `bytes`, `step` bytes apart, wrapping around. Returns the sum of the words.
    #[must_use]
    pub fn sum_loads(&self, step: u64, bytes: u64) -> u32 {
        let mut view = self.view();
        let (mut at, mut sum) = (0u64, 0u32);
        for _ in 0..bytes / 4 {
            sum = sum.wrapping_add(view.load::<1>(VA + at).map_or(0, |[w]| w));
            at += step;
            if at >= self.bytes {
                at = (at + 4) % step.max(4);
            }
        }
        sum
    }

    /// Stores one word for every four of `bytes` in the same way. Returns the number of successful stores.
    #[must_use]
    pub fn count_stores(&self, step: u64, bytes: u64) -> u32 {
        let mut view = self.view();
        let (mut at, mut done) = (0u64, 0u32);
        for n in 0..bytes / 4 {
            done += u32::from(view.store(VA + at, [n as u32]).is_ok());
            at += step;
            if at >= self.bytes {
                at = (at + 4) % step.max(4);
            }
        }
        done
    }
}

/// Returns the executable form of a clause as text. Tests use it to check that no part is left out.
///
/// # Errors
/// Names the part of the clause that cannot be executed.
pub fn format_clause(code: &[u8], push: &[u64]) -> Result<String, String> {
    let (block, constants) = translate_clause(code, push)?;
    Ok(format!("{:?} {constants:x?}", block.segments))
}
