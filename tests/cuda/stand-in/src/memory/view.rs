//! Device memory as a kernel reaches it: every word is looked up, and is there for as long as the kernel runs.

use super::arena::Bytes;
use super::table::{READ, READ_WRITE, ranges};
use crate::Answer;
use crate::codes::{ILLEGAL_ADDRESS, MISALIGNED_ADDRESS};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

struct Part {
    from: u64,
    to: u64,
    host: u64,
    write: bool,
    _memory: Option<Arc<Bytes>>,
}

/// What the device could reach when the kernel began.
pub struct View {
    parts: Vec<Part>,
}

impl View {
    /// What it can reach now.
    pub fn now() -> Self {
        let parts = ranges()
            .values()
            .filter(|range| range.access & READ != 0)
            .map(|range| Part {
                from: range.at,
                to: range.end(),
                host: range.host,
                write: range.access & READ_WRITE == READ_WRITE,
                _memory: range.memory.clone(),
            })
            .collect();
        Self { parts }
    }

    /// Where the driver reaches a word.
    fn word(&self, at: u64, bytes: u64, write: bool) -> Answer<usize> {
        if !at.is_multiple_of(bytes) {
            return Err(MISALIGNED_ADDRESS);
        }
        let place = self.parts.partition_point(|part| part.from <= at);
        let part = place.checked_sub(1).and_then(|place| self.parts.get(place)).ok_or(ILLEGAL_ADDRESS)?;
        if part.to < at.saturating_add(bytes) || (write && !part.write) {
            return Err(ILLEGAL_ADDRESS);
        }
        Ok((part.host + (at - part.from)) as usize)
    }

    fn word32(&self, at: u64, write: bool) -> Answer<&AtomicU32> {
        let word = std::ptr::with_exposed_provenance_mut(self.word(at, 4, write)?);
        // SAFETY: the word is aligned and lies in memory that this view keeps; kernels reach it by atomics alone.
        Ok(unsafe { AtomicU32::from_ptr(word) })
    }

    /// Reads a word.
    pub fn u32(&self, at: u64) -> Answer<u32> {
        Ok(self.word32(at, false)?.load(Ordering::Relaxed))
    }

    /// Writes a word.
    pub fn set_u32(&self, at: u64, value: u32) -> Answer {
        self.word32(at, true)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Adds to a word, and gives what was there.
    pub fn add_u32(&self, at: u64, value: u32) -> Answer<u32> {
        Ok(self.word32(at, true)?.fetch_add(value, Ordering::Relaxed))
    }

    /// Reads two words.
    pub fn u64(&self, at: u64) -> Answer<u64> {
        let word = std::ptr::with_exposed_provenance_mut(self.word(at, 8, false)?);
        // SAFETY: as for one word.
        Ok(unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Relaxed))
    }

    /// Reads a number.
    pub fn f32(&self, at: u64) -> Answer<f32> {
        self.u32(at).map(f32::from_bits)
    }

    /// Writes a number.
    pub fn set_f32(&self, at: u64, value: f32) -> Answer {
        self.set_u32(at, value.to_bits())
    }
}
