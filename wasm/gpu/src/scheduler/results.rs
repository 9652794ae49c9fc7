//! Reads what copies leave in the memory of the system calls.

use super::device_failed;
use crate::copy_memory::{CopyMemories, CopyRange};
use crate::device::Device;
use crate::translation::SystemMemory;
use wasm_run::BackendError;
use wasm_system::SystemLayout;

/// What the memory of an ended copy holds.
#[derive(Default)]
pub(super) struct CopyResults {
    pub standard_output: Vec<u8>,
    pub standard_error: Vec<u8>,
    pub calls: Vec<wasm_system::SystemCall>,
    pub lost_calls: u64,
}

fn damaged_memory(copy: u32, e: impl std::fmt::Display) -> BackendError {
    BackendError::Target(format!("copy {copy}: {e}"))
}

/// Reads the headers of copies, in their order.
pub(super) fn read_headers(
    memories: &CopyMemories<'_>,
    device: &mut dyn Device,
    copies: impl Iterator<Item = u32>,
) -> Result<Vec<Vec<u8>>, BackendError> {
    let range = |copy| CopyRange {
        copy,
        range: 0..SystemLayout::HEADER_BYTES,
    };
    let ranges: Vec<CopyRange> = copies.map(range).collect();
    memories.read(device, &ranges).map_err(device_failed)
}

/// Returns where the results of a copy are in its memory.
pub(super) fn result_ranges(
    system: &SystemMemory,
    header: &[u8],
    copy: u32,
) -> Result<wasm_system::ResultRanges, BackendError> {
    system.layout.result_ranges(header).map_err(|e| damaged_memory(copy, e))
}

/// Reads output and log of copies: their headers first, which say how much there is.
pub(super) fn read_results(
    memories: &CopyMemories<'_>,
    device: &mut dyn Device,
    system: &SystemMemory,
    copies: &[u32],
) -> Result<Vec<CopyResults>, BackendError> {
    let headers = read_headers(memories, device, copies.iter().copied())?;
    let (mut ranges, mut errors, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for (copy, header) in copies.iter().zip(&headers) {
        let found = result_ranges(system, header, *copy)?;
        for (list, range) in [
            (&mut ranges, found.output),
            (&mut errors, found.error_output),
            (&mut logs, found.log),
        ] {
            list.push(CopyRange { copy: *copy, range });
        }
    }
    ranges.extend(errors);
    ranges.extend(logs);
    let mut outputs = memories.read(device, &ranges).map_err(device_failed)?;
    let logs = outputs.split_off(outputs.len().min(2 * copies.len()));
    let errors = outputs.split_off(outputs.len().min(copies.len()));
    let mut results = Vec::with_capacity(copies.len());
    let texts = outputs.into_iter().zip(errors);
    for (((copy, header), (standard_output, standard_error)), log) in copies.iter().zip(&headers).zip(texts).zip(&logs)
    {
        let (calls, lost_calls) = system
            .layout
            .decode_calls(header, log)
            .map_err(|e| damaged_memory(*copy, e))?;
        results.push(CopyResults {
            standard_output,
            standard_error,
            calls,
            lost_calls,
        });
    }
    Ok(results)
}
