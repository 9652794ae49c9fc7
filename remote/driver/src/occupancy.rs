//! The block size with the most resident threads, found by questions about occupancy.

use crate::CallResult;
use crate::code::function;
use crate::forwarded;
use crate::pointers::put;
use cuda_driver::{CuFunction, INVALID_VALUE};
use std::ffi::c_void;

/// Threads of a warp.
const WARP: i32 = 32;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
const MULTIPROCESSORS: i32 = 16;

/// `CUoccupancyB2DSize`: dynamic shared memory of a block of this many threads, bytes.
type SharedOf = unsafe extern "C" fn(i32) -> usize;

/// `cuOccupancyMaxPotentialBlockSize`, and its form with flags.
pub fn potential_block_size(
    grid: *mut i32,
    block: *mut i32,
    kernel: CuFunction,
    shared_of: *mut c_void,
    shared: usize,
    limit: i32,
    flags: u32,
) -> CallResult {
    if grid.is_null() || block.is_null() {
        return Err(INVALID_VALUE);
    }
    let max = i32::try_from(function(kernel)?.description.max_threads).unwrap_or(i32::MAX);
    let max = if limit > 0 { max.min(limit) } else { max };
    let shared_for = |threads: i32| match shared_of.is_null() {
        true => shared,
        // SAFETY: the program passes a function of this type.
        false => unsafe { std::mem::transmute::<*mut c_void, SharedOf>(shared_of)(threads) },
    };
    let mut best = (0, 0, 0);
    // Whole warps from the largest block: of equal ones the largest wins, as the driver's manual says.
    let mut threads = max - max % WARP;
    while threads > 0 {
        let mut blocks = 0;
        forwarded::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            false,
            &raw mut blocks,
            kernel,
            threads,
            shared_for(threads),
            flags,
        )?;
        if blocks * threads > best.0 {
            best = (blocks * threads, threads, blocks);
        }
        threads -= WARP;
    }
    let mut device = 0;
    crate::contexts::get_device(&raw mut device)?;
    let mut multiprocessors = 0;
    crate::devices::attribute(&raw mut multiprocessors, MULTIPROCESSORS, device)?;
    let (_, threads, blocks) = best;
    put(block, threads)?;
    put(grid, blocks * multiprocessors)
}
