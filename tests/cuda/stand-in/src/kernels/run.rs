//! A running kernel: its launch parameters, and the memory that it can access.

use crate::Answer;
use crate::codes::{INVALID_VALUE, NOT_FOUND};
use crate::health::Health;
use crate::memory::view::View;
use crate::streams::advance_device_clock;
use std::collections::BTreeMap;
use std::time::Duration;

/// A running kernel: its launch parameters, and the memory that it can access.
pub struct KernelRun<'a> {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub arguments: &'a [u8],
    pub layout: &'a [[usize; 2]],
    pub variables: &'a BTreeMap<String, (u64, u64)>,
    pub memory: View,
    pub health: &'a Health,
}

impl KernelRun<'_> {
    /// Returns the bytes of an argument.
    pub fn argument(&self, n: usize) -> Answer<&[u8]> {
        let [at, bytes] = self.layout.get(n).ok_or(INVALID_VALUE)?;
        self.arguments.get(*at..at + bytes).ok_or(INVALID_VALUE)
    }

    /// Returns an argument of eight bytes: an address, or a number.
    pub fn u64(&self, n: usize) -> Answer<u64> {
        let bytes = self.argument(n)?.try_into().map_err(|_| INVALID_VALUE)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Returns an argument of four bytes.
    pub fn u32(&self, n: usize) -> Answer<u32> {
        let bytes = self.argument(n)?.try_into().map_err(|_| INVALID_VALUE)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Returns the address of a variable of the module.
    pub fn variable(&self, name: &str) -> Answer<u64> {
        self.variables.get(name).map(|(at, _)| *at).ok_or(NOT_FOUND)
    }

    /// Returns the number of blocks along x.
    pub fn blocks(&self) -> u64 {
        u64::from(self.grid[0])
    }

    /// Returns the number of threads of a block along x.
    pub fn block_threads(&self) -> u64 {
        u64::from(self.block[0])
    }

    /// Returns the number of threads of all blocks along x.
    pub fn threads(&self) -> u64 {
        self.blocks() * self.block_threads()
    }

    /// Returns the indices below `n` that have a thread each, for a kernel whose threads process one element.
    pub fn indices(&self, n: u64) -> std::ops::Range<u64> {
        0..n.min(self.threads())
    }

    /// Advances the device clock by a time that decreases with the number of threads, up to the device's maximum; whole
    /// warps are faster. The time is computed, not waited for: a busy host does not change it.
    pub fn pace(&self) {
        const ALONE: u64 = 400_000;
        const MAX_ELEMENTS: u64 = 8192;
        let odd = if self.block[0].is_multiple_of(32) { 1 } else { 2 };
        let micros = 200 + odd * ALONE * 32 / self.threads().clamp(32, MAX_ELEMENTS);
        advance_device_clock(Duration::from_micros(micros));
    }
}
