//! What tests and benchmarks need of the inside: a single clause on registers of the caller's choice, and memory as a
//! job sees it.

use crate::address_space::Translation;
use crate::compute::view::{ChunkMode, View};
use crate::debug::job_trace::JobTrace;
use crate::device::SoftwareMali;
use crate::memory::ArenaMemory;
use crate::shader::group::{run_single_clause, translate_clause};
use replay_engine::device::Arena;
use trace_core::mmu::{self, Rights};
use trace_core::recording::MmuFormat;
use trace_core::{PAGE_SIZE, PhysAddr};

/// Runs one clause of arithmetic on the registers of up to 32 lanes, which all take part.
///
/// `registers` holds the 64 registers of each lane. `push` are the pushed uniforms, 64 bits each.
///
/// # Errors
/// What of the clause cannot be executed: an operation that is unknown, or one that needs memory, a workgroup, a
/// branch.
pub fn run_clause(code: &[u8], registers: &mut [[u32; 64]], push: &[u64]) -> Result<(), String> {
    run_single_clause(code, registers, push)
}

/// Lets a device remember who writes each byte from here on, with nothing remembered yet: for measuring.
pub fn track_last_writers(device: &mut SoftwareMali) {
    device.job_trace = JobTrace::for_writers(None);
}

/// Memory behind page tables, as a job sees it: for measuring.
#[derive(Debug)]
pub struct PagedMemory {
    memory: ArenaMemory,
    translation: Translation,
    bytes: u64,
}

/// Where the measured memory begins, for the GPU and in the arena; the tables lie before it.
const VA: u64 = 0x4000_0000;
const FIRST: u64 = 0x100_0000;

impl PagedMemory {
    /// Memory of this many bytes, a multiple of 4096, at most 512 MiB.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let mut memory = ArenaMemory::new(Arena {
            base: PhysAddr(0),
            pages: 1 << 18,
        });
        let format = MmuFormat::MaliLpae;
        let bytes = bytes.min(512 << 20);
        let page = PAGE_SIZE as u64;
        let mut put = |table: u64, level: u8, va: u64, entry: u64| {
            let at = PhysAddr(table * page + u64::from(mmu::index_at(level, va)) * 8);
            // It is far inside of the arena, and memory is not full.
            let _fits = memory.write(at, &entry.to_le_bytes());
        };
        put(1, 0, VA, mmu::encode_table(format, PhysAddr(2 * page)));
        put(2, 1, VA, mmu::encode_table(format, PhysAddr(3 * page)));
        for n in 0..bytes / page {
            let va = VA + n * page;
            let last = 4 + (n >> 9);
            put(3, 2, va, mmu::encode_table(format, PhysAddr(last * page)));
            put(
                last,
                3,
                va,
                mmu::encode_leaf(format, PhysAddr(FIRST + n * page), Rights::RW, 0),
            );
        }
        Self {
            memory,
            translation: Translation::Tables {
                format,
                root: PhysAddr(page),
            },
            bytes,
        }
    }

    fn view(&self) -> View<'_> {
        View::new(&self.memory, self.translation, ChunkMode::InOrder)
    }

    /// Loads a word for each four of `bytes`, `step` bytes from one to the next, around and around; gives their sum.
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

    /// Stores a word for each four of `bytes` likewise; gives how many could be stored.
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

/// What the executor made of a clause, as text: for tests of whether anything of it was left out.
///
/// # Errors
/// What of the clause cannot be executed.
pub fn format_clause(code: &[u8], push: &[u64]) -> Result<String, String> {
    let (block, constants) = translate_clause(code, push)?;
    Ok(format!("{:?} {constants:x?}", block.segments))
}
