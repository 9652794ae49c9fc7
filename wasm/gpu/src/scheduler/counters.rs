//! Counters of blocks on a device: executions by warps, and active lanes.

use crate::device::{Device, DeviceAddress, DeviceError, QueueId, Rows};
use crate::translation::TranslatedProgram;
use wasm_run::BlockProfile;

/// Bytes of the counters of a block: two 64-bit numbers.
const BLOCK_BYTES: usize = 16;
/// The queue that clears and reads the counters.
const QUEUE: QueueId = QueueId(0);

/// The counters of a run.
#[derive(Debug)]
pub(crate) struct Counters {
    start: DeviceAddress,
    bytes: usize,
}

impl Counters {
    /// Allocates and clears the counters, or returns `None` if the program counts nothing.
    pub fn allocate(device: &mut dyn Device, program: &wasm_ptx::Program) -> Result<Option<Self>, DeviceError> {
        let bytes = program.counter_bytes();
        if bytes == 0 {
            return Ok(None);
        }
        let start = device.allocate(bytes as u64)?;
        device.write(QUEUE, start, &vec![0; bytes])?;
        Ok(Some(Self { start, bytes }))
    }

    /// Returns the device address for the launch block.
    pub fn address(&self) -> u64 {
        self.start.0
    }

    /// Reads the counters of the user's program after the last launch.
    pub fn read(
        &self,
        device: &mut dyn Device,
        translated: &TranslatedProgram,
    ) -> Result<Vec<BlockProfile>, DeviceError> {
        let width = self.bytes as u64;
        let rows = Rows {
            start: self.start,
            pitch: width,
            width,
            count: 1,
        };
        let mut counters = vec![0; self.bytes];
        device.read_rows(QUEUE, rows, &mut counters)?;
        let is_user = |function: wasm_ptx::FunctionId| {
            let found = translated.program.functions.get(function.0 as usize);
            found.is_some_and(|f| f.instance == Some(translated.user))
        };
        let number = |bytes: &[u8]| bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let blocks = translated.program.blocks.iter().zip(counters.chunks_exact(BLOCK_BYTES));
        let blocks = blocks
            .filter(|(block, _)| is_user(block.function))
            .map(|(block, counters)| {
                let (executions, active_lanes) = counters.split_at(BLOCK_BYTES / 2);
                BlockProfile {
                    offset: block.code_offset,
                    executions: number(executions),
                    active_lanes: number(active_lanes),
                }
            });
        Ok(BlockProfile::sort(blocks.collect()))
    }
}
