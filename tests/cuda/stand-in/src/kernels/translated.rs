//! Kernels of translated WebAssembly programs: the PTX interpreter runs their text over the device's memory.

use crate::Answer;
use crate::codes::{ILLEGAL_ADDRESS, LAUNCH_FAILED, MISALIGNED_ADDRESS, NOT_SUPPORTED};
use crate::kernels::run::KernelRun;
use crate::memory::view::View;
use cuda_driver::CuResult;
use ptx_interpreter::{AddressSpace, FaultKind, GlobalAddress, LaunchShape, Limits, Program, Width};
use std::sync::atomic::{AtomicU32, Ordering};

/// A line that the text of each translated program holds.
pub const MARKER: &[u8] = b"// kinescope wasm 1";
/// Number of bytes at the start of a text that hold the marker.
const MARKER_BYTES: usize = 256;

/// Returns whether a text is a translated program.
pub fn is_translated(text: &[u8]) -> bool {
    let start = text.get(..MARKER_BYTES).unwrap_or(text);
    start.split(|b| *b == b'\n').any(|line| line.trim_ascii() == MARKER)
}

/// Device memory as the interpreter accesses it.
struct DeviceMemory<'a>(&'a View);

impl AddressSpace for DeviceMemory<'_> {
    fn load(&mut self, address: GlobalAddress, width: Width) -> Option<u64> {
        let at = address.0;
        let value = match width {
            Width::Byte => self.0.u8(at).map(u64::from),
            Width::Half => self.0.u16(at).map(u64::from),
            Width::Word => self.0.u32(at).map(u64::from),
            Width::Double => self.0.u64(at),
        };
        value.ok()
    }

    fn store(&mut self, address: GlobalAddress, width: Width, value: u64) -> Option<()> {
        let at = address.0;
        let done = match width {
            Width::Byte => self.0.set_u8(at, value as u8),
            Width::Half => self.0.set_u16(at, value as u16),
            Width::Word => self.0.set_u32(at, value as u32),
            Width::Double => self.0.set_u64(at, value),
        };
        done.ok()
    }

    fn add(&mut self, address: GlobalAddress, width: Width, value: u64) -> Option<()> {
        let at = address.0;
        let done = match width {
            Width::Word => self.0.change_u32(at, |old| old.wrapping_add(value as u32)).map(|_| ()),
            Width::Double => self.0.add_u64(at, value),
            Width::Byte | Width::Half => return None,
        };
        done.ok()
    }
}

/// Returns the driver's error for a fault, and reports the fault on the standard error stream.
fn code_of(fault: &ptx_interpreter::Fault) -> CuResult {
    eprintln!("stand-in: {fault}");
    match fault.kind {
        FaultKind::IllegalAddress(_) => ILLEGAL_ADDRESS,
        FaultKind::MisalignedAddress(_) => MISALIGNED_ADDRESS,
        _ => LAUNCH_FAILED,
    }
}

/// Runs a launch of an entry. The host's processors share its blocks.
pub fn run(program: &Program, name: &str, run: &KernelRun<'_>) -> Answer {
    let ([blocks, 1, 1], [threads, 1, 1]) = (run.grid, run.block) else {
        return Err(NOT_SUPPORTED);
    };
    let parameters = (0..run.layout.len()).map(|n| {
        let bytes = run.argument(n)?;
        Ok(bytes.iter().rev().fold(0, |value, b| value << 8 | u64::from(*b)))
    });
    let parameters = parameters.collect::<Answer<Vec<u64>>>()?;
    let shape = LaunchShape { blocks, threads };
    let next = AtomicU32::new(0);
    let run_blocks = || {
        let view = View::now();
        let launch = program.prepare(name, &parameters, shape, Limits::default());
        let mut launch = launch.map_err(|fault| code_of(&fault))?;
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= blocks {
                return Ok(());
            }
            for thread in 0..threads {
                run.health.check()?;
                let result = launch.thread(block, thread, &mut DeviceMemory(&view));
                result.map_err(|fault| code_of(&fault))?;
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..processors.min(blocks as usize))
            .map(|_| scope.spawn(run_blocks))
            .collect();
        let own = run_blocks();
        workers.into_iter().fold(own, |result, worker| {
            result.and(worker.join().unwrap_or(Err(LAUNCH_FAILED)))
        })
    })
}
