//! The interpreter of the translated text as a device: memory in this process, blocks on all cores.

use crate::device::{CompiledProgram, Device, DeviceAddress, DeviceError, QueueId, Rows};
use ptx_interpreter::{AddressSpace, GlobalAddress, LaunchShape, Limits, Width};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wasm_ptx::{BLOCK_THREADS, ENTRY_NAME, LANES, LAUNCH_BYTES, LaunchBlock};

/// Address of the first allocation.
const FIRST_ADDRESS: u64 = 0x1_0000_0000;
/// Alignment of allocations in bytes.
const ALIGNMENT: u64 = 512;
/// Maximum number of bytes of all allocations. Most of them are never touched.
const MAX_BYTES: u64 = 64 << 30;
/// Maximum number of bytes that copies are given: an allocation that the system refuses would end the process.
const MAX_FREE_BYTES: u64 = 8 << 30;
/// Default number of copies: a few blocks for each core.
const COPIES_OF_A_CORE: u32 = 4 * BLOCK_THREADS;

/// The interpreter as a device.
#[derive(Debug, Default)]
pub struct InterpreterDevice {
    code: Option<ptx_interpreter::Program>,
    constants: Option<Vec<u8>>,
    /// Allocations by address.
    memory: BTreeMap<u64, Vec<u8>>,
    used: u64,
    times: BTreeMap<usize, Duration>,
}

impl InterpreterDevice {
    /// Creates a device without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn range(&mut self, start: u64, bytes: u64) -> Result<&mut [u8], DeviceError> {
        let outside = || DeviceError::Range(format!("{bytes} bytes at {start:#x}"));
        let (base, allocation) = self.memory.range_mut(..=start).next_back().ok_or_else(outside)?;
        let offset = usize::try_from(start - base).map_err(|_| outside())?;
        let end = usize::try_from(bytes).ok().and_then(|b| offset.checked_add(b));
        end.and_then(|end| allocation.get_mut(offset..end)).ok_or_else(outside)
    }
}

/// Returns the start of each row.
fn row_starts(rows: Rows) -> impl Iterator<Item = Result<u64, DeviceError>> {
    (0..rows.count).map(move |row| {
        let offset = rows.pitch.checked_mul(row);
        let offset = offset.ok_or_else(|| DeviceError::Range(format!("row {row}")))?;
        rows.start.offset(offset).map(|address| address.0)
    })
}

impl Device for InterpreterDevice {
    fn load(&mut self, program: &wasm_ptx::Program, depth_limit: u32) -> Result<CompiledProgram, DeviceError> {
        let start = Instant::now();
        let code = ptx_interpreter::Program::parse(&program.text);
        self.code = Some(code.map_err(|e| DeviceError::Compile(e.to_string()))?);
        self.constants = Some(program.constants.clone());
        Ok(CompiledProgram {
            time: start.elapsed(),
            depth_limit,
            ..CompiledProgram::default()
        })
    }

    fn deepen(&mut self, depth_limit: u32) -> Result<u32, DeviceError> {
        Ok(depth_limit)
    }

    fn free_bytes(&mut self) -> Result<u64, DeviceError> {
        Ok(MAX_FREE_BYTES.saturating_sub(self.used))
    }

    fn max_copies(&self) -> u32 {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        u32::try_from(cores).unwrap_or(1).saturating_mul(COPIES_OF_A_CORE)
    }

    fn allocate(&mut self, bytes: u64) -> Result<DeviceAddress, DeviceError> {
        let too_large = || DeviceError::Memory(format!("{bytes} bytes are more than the interpreter's memory"));
        let size = usize::try_from(bytes)
            .ok()
            .filter(|_| bytes <= MAX_BYTES.saturating_sub(self.used));
        let address = FIRST_ADDRESS + self.used;
        self.memory.insert(address, vec![0; size.ok_or_else(too_large)?]);
        // A gap, so that an access behind the end is an error.
        self.used += bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT;
        Ok(DeviceAddress(address))
    }

    fn release(&mut self, at: DeviceAddress) -> Result<(), DeviceError> {
        // The addresses are not used again.
        self.memory.remove(&at.0);
        Ok(())
    }

    fn write_rows(&mut self, _queue: QueueId, rows: Rows, from: &[u8]) -> Result<(), DeviceError> {
        let width = usize::try_from(rows.width).unwrap_or(usize::MAX).max(1);
        for (start, row) in row_starts(rows).zip(from.chunks_exact(width)) {
            self.range(start?, rows.width)?.copy_from_slice(row);
        }
        Ok(())
    }

    fn read_rows(&mut self, _queue: QueueId, rows: Rows, to: &mut [u8]) -> Result<(), DeviceError> {
        let width = usize::try_from(rows.width).unwrap_or(usize::MAX).max(1);
        for (start, row) in row_starts(rows).zip(to.chunks_exact_mut(width)) {
            row.copy_from_slice(self.range(start?, rows.width)?);
        }
        Ok(())
    }

    fn launch(&mut self, queue: QueueId, at: DeviceAddress, block: &LaunchBlock) -> Result<(), DeviceError> {
        let start = Instant::now();
        self.write(queue, at, &block.encode())?;
        let warps = u64::from(block.copies.div_ceil(LANES));
        let area_bytes = block.area_bytes;
        let constants = self.constants.take().unwrap_or_default();
        let code = self.code.take();
        let mut counters = self.memory.remove(&block.counters);
        let result = (|| {
            let code = code
                .as_ref()
                .ok_or_else(|| DeviceError::Launch("no program is loaded".into()))?;
            let areas = self.range(block.areas, warps.saturating_mul(area_bytes))?;
            let launch = Launch {
                code,
                parameters: [at.0],
                block,
                block_bytes: block.encode(),
                constants: &constants,
                area_bytes,
                counter_bytes: counters.as_ref().map_or(0, Vec::len),
            };
            launch.run(areas, counters.as_deref_mut().unwrap_or_default())
        })();
        if let Some(counters) = counters {
            self.memory.insert(block.counters, counters);
        }
        self.code = code;
        self.constants = Some(constants);
        self.times.insert(queue.0, start.elapsed());
        result
    }

    fn poll(&mut self, queue: QueueId) -> Result<Option<Duration>, DeviceError> {
        Ok(Some(self.times.get(&queue.0).copied().unwrap_or_default()))
    }
}

/// A launch of the interpreter.
struct Launch<'a> {
    code: &'a ptx_interpreter::Program,
    parameters: [u64; 1],
    block: &'a LaunchBlock,
    block_bytes: [u8; LAUNCH_BYTES],
    constants: &'a [u8],
    area_bytes: u64,
    /// Size of the counters in bytes; 0 if the program counts nothing.
    counter_bytes: usize,
}

impl Launch<'_> {
    /// Runs all blocks. The cores share them: each block has the areas of its own warps, each core has counters.
    fn run(&self, areas: &mut [u8], counters: &mut [u8]) -> Result<(), DeviceError> {
        let bytes_of_block = usize::try_from(self.area_bytes.saturating_mul(u64::from(BLOCK_THREADS.div_ceil(LANES))))
            .map_err(|_| DeviceError::Range("area of a block".into()))?;
        let blocks = Mutex::new((0u32..).zip(areas.chunks_mut(bytes_of_block.max(1))));
        let failure: Mutex<Option<DeviceError>> = Mutex::new(None);
        let total = Mutex::new(counters);
        let work = || {
            let mut counters = vec![0; self.counter_bytes];
            loop {
                let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, bytes)) = next else {
                    return add_counters(&mut total.lock().unwrap_or_else(PoisonError::into_inner), &counters);
                };
                let start = self.block.areas + u64::from(number) * bytes_of_block as u64;
                if let Err(e) = self.run_block(number, start, bytes, &mut counters) {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                    return;
                }
            }
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            for _ in 1..cores.min(self.block.grid_blocks() as usize) {
                scope.spawn(work);
            }
            work();
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), Err)
    }

    fn run_block(&self, number: u32, start: u64, bytes: &mut [u8], counters: &mut [u8]) -> Result<(), DeviceError> {
        let shape = LaunchShape {
            blocks: self.block.grid_blocks(),
            threads: BLOCK_THREADS,
        };
        let failed = |e: ptx_interpreter::Fault| DeviceError::Launch(e.to_string());
        let mut launch = self
            .code
            .prepare(ENTRY_NAME, &self.parameters, shape, Limits::default())
            .map_err(failed)?;
        let mut lane_counters = vec![0; self.counter_bytes];
        let mut space = BlockSpace {
            areas: start,
            bytes,
            launch_at: self.parameters[0],
            launch: &self.block_bytes,
            constants_at: self.block.constants,
            constants: self.constants,
            counters_at: self.block.counters,
            counters: &mut lane_counters,
        };
        if self.counter_bytes == 0 {
            return launch.block(number, &mut space).map_err(failed);
        }
        for first in (0..BLOCK_THREADS).step_by(LANES as usize) {
            let mut warp = WarpCounters::new(self.counter_bytes);
            for thread in first..first.saturating_add(LANES).min(BLOCK_THREADS) {
                space.counters.fill(0);
                launch.thread(number, thread, &mut space).map_err(failed)?;
                warp.add_lane(space.counters);
            }
            add_counters(counters, &warp.0);
        }
        Ok(())
    }
}

/// Counters of a warp whose lanes ran one after another: for each block of the program executions and active lanes.
///
/// They are those of lanes that stay together: a warp executes a block as often as the lane that does so most often.
struct WarpCounters(Vec<u8>);

impl WarpCounters {
    fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    /// Adds the counters of a lane, which are those of a warp with one active lane.
    fn add_lane(&mut self, lane: &[u8]) {
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let blocks = self.0.as_chunks_mut::<8>().0.as_chunks_mut::<2>().0;
        for ([executions, lanes], [of_lane, _]) in blocks.iter_mut().zip(lane.as_chunks::<8>().0.as_chunks::<2>().0) {
            let count = number(of_lane);
            *executions = number(executions).max(count).to_le_bytes();
            *lanes = number(lanes).wrapping_add(count).to_le_bytes();
        }
    }
}

/// Adds 64-bit counters to others.
fn add_counters(to: &mut [u8], counters: &[u8]) {
    for (to, from) in to.chunks_exact_mut(8).zip(counters.chunks_exact(8)) {
        let number = |bytes: &[u8]| bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let sum = number(to).wrapping_add(number(from));
        to.copy_from_slice(&sum.to_le_bytes());
    }
}

/// The memory that a block can access: the areas of its warps, the launch block, the constants, the counters.
struct BlockSpace<'a> {
    areas: u64,
    bytes: &'a mut [u8],
    launch_at: u64,
    launch: &'a [u8],
    constants_at: u64,
    constants: &'a [u8],
    counters_at: u64,
    counters: &'a mut [u8],
}

/// Returns the bytes of an access if they are inside memory that begins at `base`.
fn find(memory: &[u8], base: u64, address: GlobalAddress, width: Width) -> Option<&[u8]> {
    let offset = usize::try_from(address.0.checked_sub(base)?).ok()?;
    let bytes = usize::try_from(width.bytes()).ok()?;
    memory.get(offset..offset.checked_add(bytes)?)
}

impl AddressSpace for BlockSpace<'_> {
    fn load(&mut self, address: GlobalAddress, width: Width) -> Option<u64> {
        let bytes = find(self.bytes, self.areas, address, width)
            .or_else(|| find(self.launch, self.launch_at, address, width))
            .or_else(|| find(self.constants, self.constants_at, address, width))?;
        Some(match width {
            Width::Byte => u64::from(*bytes.first()?),
            Width::Half => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            Width::Word => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            Width::Double => u64::from_le_bytes(*bytes.first_chunk()?),
        })
    }

    fn store(&mut self, address: GlobalAddress, width: Width, value: u64) -> Option<()> {
        let offset = usize::try_from(address.0.checked_sub(self.areas)?).ok()?;
        let bytes = usize::try_from(width.bytes()).ok()?;
        let to = self.bytes.get_mut(offset..offset.checked_add(bytes)?)?;
        to.copy_from_slice(value.to_le_bytes().get(..bytes)?);
        Some(())
    }

    /// The counters are all that programs add to: these addresses are outside of the areas.
    fn add(&mut self, address: GlobalAddress, width: Width, value: u64) -> Option<()> {
        let offset = usize::try_from(address.0.checked_sub(self.counters_at)?).ok()?;
        let counter = self.counters.get_mut(offset..)?.first_chunk_mut::<8>()?;
        if width != Width::Double {
            return None;
        }
        *counter = u64::from_le_bytes(*counter).wrapping_add(value).to_le_bytes();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_packed_and_checked() {
        let mut device = InterpreterDevice::new();
        let queue = QueueId(0);
        let start = device.allocate(100).unwrap();
        let rows = Rows {
            start: start.offset(4).unwrap(),
            pitch: 32,
            width: 3,
            count: 3,
        };
        device.write_rows(queue, rows, b"abcdefghi").unwrap();
        let mut back = [0; 9];
        device.read_rows(queue, rows, &mut back).unwrap();
        assert_eq!(&back, b"abcdefghi");
        let mut row = [0; 4];
        let second = Rows {
            start: start.offset(36).unwrap(),
            count: 1,
            width: 4,
            ..rows
        };
        device.read_rows(queue, second, &mut row).unwrap();
        assert_eq!(&row, b"def\0");
        let outside = Rows { count: 4, ..rows };
        assert!(matches!(
            device.read_rows(queue, outside, &mut [0; 12]),
            Err(DeviceError::Range(_))
        ));
        assert!(matches!(device.allocate(u64::MAX), Err(DeviceError::Memory(_))));
    }
}
