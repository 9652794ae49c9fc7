//! Device memory as a kernel accesses it. Each access looks up its word, which stays valid while the kernel runs.

use super::piece::Piece;
use super::table::{READ, READ_WRITE, ranges};
use crate::Answer;
use crate::codes::{ILLEGAL_ADDRESS, MISALIGNED_ADDRESS};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

struct Part {
    from: u64,
    to: u64,
    host: u64,
    write: bool,
    _memory: Option<Arc<Piece>>,
}

/// Memory that the device could access when the kernel started.
pub struct View {
    parts: Vec<Part>,
    /// Index of the part of the last access. The next access is usually in the same part.
    last: Cell<usize>,
}

impl View {
    /// Returns a view of the currently accessible memory.
    pub fn now() -> Self {
        let ranges = ranges();
        let accessible = ranges.values().filter(|range| range.access & READ != 0);
        let parts = accessible.map(|range| Part {
            from: range.at,
            to: range.end(),
            host: range.host,
            write: range.access & READ_WRITE == READ_WRITE,
            _memory: range.memory.clone(),
        });
        Self {
            parts: parts.collect(),
            last: Cell::new(0),
        }
    }

    /// Returns the address of a word in this process.
    fn word(&self, at: u64, bytes: u64, write: bool) -> Answer<usize> {
        if !at.is_multiple_of(bytes) {
            return Err(MISALIGNED_ADDRESS);
        }
        let end = at.saturating_add(bytes);
        let holds = |part: &&Part| part.from <= at && end <= part.to;
        let part = match self.parts.get(self.last.get()).filter(holds) {
            Some(part) => part,
            None => {
                let index = self.parts.partition_point(|part| part.from <= at).wrapping_sub(1);
                let part = self.parts.get(index).filter(holds).ok_or(ILLEGAL_ADDRESS)?;
                self.last.set(index);
                part
            }
        };
        if write && !part.write {
            return Err(ILLEGAL_ADDRESS);
        }
        Ok((part.host + (at - part.from)) as usize)
    }

    fn word32(&self, at: u64, write: bool) -> Answer<&AtomicU32> {
        let word = std::ptr::with_exposed_provenance_mut(self.word(at, 4, write)?);
        // SAFETY: the word is aligned and in memory that this view keeps mapped. Kernels access it only by atomics.
        Ok(unsafe { AtomicU32::from_ptr(word) })
    }

    fn word64(&self, at: u64, write: bool) -> Answer<&AtomicU64> {
        let word = std::ptr::with_exposed_provenance_mut(self.word(at, 8, write)?);
        // SAFETY: the same as for a four-byte word.
        Ok(unsafe { AtomicU64::from_ptr(word) })
    }

    fn word16(&self, at: u64, write: bool) -> Answer<&AtomicU16> {
        let word = std::ptr::with_exposed_provenance_mut(self.word(at, 2, write)?);
        // SAFETY: the same as for a four-byte word.
        Ok(unsafe { AtomicU16::from_ptr(word) })
    }

    fn byte(&self, at: u64, write: bool) -> Answer<&AtomicU8> {
        let byte = std::ptr::with_exposed_provenance_mut(self.word(at, 1, write)?);
        // SAFETY: the same as for a four-byte word.
        Ok(unsafe { AtomicU8::from_ptr(byte) })
    }

    /// Reads a byte.
    pub fn u8(&self, at: u64) -> Answer<u8> {
        Ok(self.byte(at, false)?.load(Ordering::Relaxed))
    }

    /// Writes a byte.
    pub fn set_u8(&self, at: u64, value: u8) -> Answer {
        self.byte(at, true)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Reads a two-byte word.
    pub fn u16(&self, at: u64) -> Answer<u16> {
        Ok(self.word16(at, false)?.load(Ordering::Relaxed))
    }

    /// Writes a two-byte word.
    pub fn set_u16(&self, at: u64, value: u16) -> Answer {
        self.word16(at, true)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Reads a four-byte word.
    pub fn u32(&self, at: u64) -> Answer<u32> {
        Ok(self.word32(at, false)?.load(Ordering::Relaxed))
    }

    /// Writes a four-byte word.
    pub fn set_u32(&self, at: u64, value: u32) -> Answer {
        self.word32(at, true)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Changes a four-byte word atomically.
    pub fn change_u32(&self, at: u64, change: impl Fn(u32) -> u32) -> Answer<u32> {
        let word = self.word32(at, true)?;
        let changed = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(change(old)));
        Ok(changed.unwrap_or_default())
    }

    /// Reads an eight-byte word.
    pub fn u64(&self, at: u64) -> Answer<u64> {
        Ok(self.word64(at, false)?.load(Ordering::Relaxed))
    }

    /// Writes an eight-byte word.
    pub fn set_u64(&self, at: u64, value: u64) -> Answer {
        self.word64(at, true)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Adds to an eight-byte word atomically.
    pub fn add_u64(&self, at: u64, value: u64) -> Answer {
        self.word64(at, true)?.fetch_add(value, Ordering::Relaxed);
        Ok(())
    }

    /// Reads a 32-bit float.
    pub fn f32(&self, at: u64) -> Answer<f32> {
        self.u32(at).map(f32::from_bits)
    }

    /// Writes a 32-bit float.
    pub fn set_f32(&self, at: u64, value: f32) -> Answer {
        self.set_u32(at, value.to_bits())
    }
}
