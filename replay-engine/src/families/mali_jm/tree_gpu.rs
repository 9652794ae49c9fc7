//! GPUs in device trees: identity and reset.

use crate::device::mapping::Mapping;
use crate::device::platform::TreeGpu;
use std::time::{Duration, Instant};
use trace_core::families::mali_jm::RESETS;

/// Maximum time of a reset.
const RESET_LIMIT: Duration = Duration::from_millis(500);

// Registers and values of a reset, the same on all models. Registers are offsets in the MMIO region, bytes.

/// Id of the GPU.
const GPU_ID: u64 = 0x0;
/// Raised interrupts of the GPU.
const GPU_IRQ_RAWSTAT: u64 = 0x20;
/// Acknowledges interrupts of the GPU.
const GPU_IRQ_CLEAR: u64 = 0x24;
/// Interrupt masks of GPU, jobs and address spaces.
const MASKS: [u64; 3] = [0x28, 0x1008, 0x2008];
/// Commands of the GPU.
const GPU_COMMAND: u64 = 0x30;
/// The command that resets the GPU after the work of its bus.
const SOFT_RESET: u64 = RESETS[0];
/// The interrupt of a completed reset.
pub(super) const RESET_COMPLETED: u64 = 1 << 8;

/// The GPUs.
pub(super) struct MaliTreeGpu;

impl TreeGpu for MaliTreeGpu {
    fn name(&self) -> &'static str {
        "Mali"
    }

    fn is_compatible(&self, compatible: &str) -> bool {
        compatible.starts_with("arm,mali-")
    }

    fn read_id(&self, registers: &Mapping) -> u32 {
        registers.read(GPU_ID, 4).unwrap_or(0) as u32
    }

    fn reset(&self, registers: &Mapping) -> Result<(), &'static str> {
        let write = |offset, value| registers.write(offset, 4, value).ok_or("its MMIO region is too small");
        for mask in MASKS {
            write(mask, 0)?;
        }
        write(GPU_IRQ_CLEAR, RESET_COMPLETED)?;
        write(GPU_COMMAND, SOFT_RESET)?;
        let start = Instant::now();
        while registers.read(GPU_IRQ_RAWSTAT, 4).unwrap_or(0) & RESET_COMPLETED == 0 {
            if start.elapsed() > RESET_LIMIT {
                return Err("it did not end a reset within 500 ms");
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        write(GPU_IRQ_CLEAR, u64::from(u32::MAX))
    }
}
