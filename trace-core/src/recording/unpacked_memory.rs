//! The memory of a packed section: each block is unpacked into it once, and lent afterwards.
//!
//! A large section is unpacked into a file without a name, so that the system can write its pages out and read them again.
#![allow(
    unsafe_code,
    reason = "parts of one mapping are lent while others are filled; the states of its blocks say which"
)]

use super::shared_bytes::SharedBytes;
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Maximum size of a section in memory that the system can only keep or swap, bytes.
const MAX_ANONYMOUS_BYTES: usize = 32 << 20;

const EMPTY: u8 = 0;
const FILLING: u8 = 1;
const FILLED: u8 = 2;

/// The unpacked bytes of a section.
pub(crate) struct UnpackedMemory {
    map: MmapRaw,
    bytes: usize,
    block_bytes: usize,
    states: Box<[AtomicU8]>,
    /// Wakes threads that wait for a block that another one fills.
    lock: Mutex<()>,
    change: Condvar,
}

impl UnpackedMemory {
    /// Reserves memory for a section of `bytes` bytes in blocks of `block_bytes` bytes. It uses none until blocks are filled.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(bytes: usize, block_bytes: usize) -> io::Result<Self> {
        let block_bytes = block_bytes.max(1);
        Ok(Self {
            map: map_of(bytes)?,
            bytes,
            block_bytes,
            states: (0..bytes.div_ceil(block_bytes)).map(|_| AtomicU8::new(EMPTY)).collect(),
            lock: Mutex::new(()),
            change: Condvar::new(),
        })
    }

    /// Returns the place of a block.
    pub fn block_range(&self, block: usize) -> Range<usize> {
        let start = block.saturating_mul(self.block_bytes).min(self.bytes);
        start..start.saturating_add(self.block_bytes).min(self.bytes)
    }

    /// Fills a block by `work`, unless it is filled. Another thread that fills it is waited for.
    ///
    /// # Errors
    /// The error of `work`. The block stays empty then.
    pub fn fill<E>(&self, block: usize, work: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let Some(state) = self.states.get(block) else {
            return work(&mut []);
        };
        loop {
            match state.compare_exchange(EMPTY, FILLING, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break,
                Err(FILLED) => return Ok(()),
                Err(_) => {
                    let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_filling = |(): &mut ()| state.load(Ordering::Acquire) == FILLING;
                    drop(self.change.wait_while(guard, is_filling));
                }
            }
        }
        let filling = Filling {
            memory: self,
            state,
            next: EMPTY,
        };
        let place = self.block_range(block);
        // SAFETY: the range is in the mapping, which lives as long as `self`. Only this thread is between `FILLING` and
        // the next state, and `slice` lends no block in this state, so that nothing else refers to these bytes.
        let target = unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(place.start), place.len()) };
        work(target)?;
        filling.end_as(FILLED);
        Ok(())
    }
}

/// A block that is being filled. Its drop lets other threads go on, also if the work panics.
struct Filling<'m> {
    memory: &'m UnpackedMemory,
    state: &'m AtomicU8,
    next: u8,
}

impl Filling<'_> {
    fn end_as(mut self, next: u8) {
        self.next = next;
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.state.store(self.next, Ordering::Release);
        // A waiting thread holds the lock between its look at the state and its sleep.
        drop(self.memory.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.memory.change.notify_all();
    }
}

impl SharedBytes for UnpackedMemory {
    fn len(&self) -> usize {
        self.bytes
    }

    fn slice(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.bytes {
            return None;
        }
        let blocks = range.start / self.block_bytes..range.end.div_ceil(self.block_bytes);
        let mut states = self.states.get(blocks)?.iter();
        if !range.is_empty() && !states.all(|state| state.load(Ordering::Acquire) == FILLED) {
            return None;
        }
        // SAFETY: the range is in the mapping, which lives as long as `self`. All its blocks are filled: they are never
        // written again.
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(range.start), range.len()) })
    }
}

/// Maps memory of this size.
fn map_of(bytes: usize) -> io::Result<MmapRaw> {
    if bytes > MAX_ANONYMOUS_BYTES
        && let Ok(file) = reserved_file(bytes)
    {
        return MmapOptions::new().len(bytes).map_raw(&file);
    }
    // A map has at least one byte.
    Ok(MmapMut::map_anon(bytes.max(1))?.into())
}

/// Creates a file without a name whose blocks on the disk are reserved: a write to a mapped page cannot report that the
/// disk is full.
fn reserved_file(bytes: usize) -> io::Result<File> {
    let file = tempfile::tempfile()?;
    let size = u64::try_from(bytes).map_err(io::Error::other)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_lent_after_they_are_filled() {
        for bytes in [0, 1, 99, 100, 101, 250, MAX_ANONYMOUS_BYTES + 5] {
            let block = (bytes / 3).max(100);
            let memory = UnpackedMemory::new(bytes, block).unwrap();
            assert_eq!((memory.len(), memory.slice(0..0)), (bytes, Some(&[][..])));
            assert_eq!(memory.slice(0..bytes + 1), None);
            for n in 0..bytes.div_ceil(block) {
                let place = memory.block_range(n);
                assert_eq!(memory.slice(place.clone()), None, "block {n} of {bytes} bytes");
                assert_eq!(memory.fill(n, |_| Err("refused")), Err("refused"));
                assert_eq!(memory.slice(place.clone()), None);
                let fill = |to: &mut [u8]| {
                    to.fill(n as u8 + 1);
                    Ok::<(), ()>(())
                };
                memory.fill(n, fill).unwrap();
                memory.fill(n, |_| Err(())).unwrap();
                assert!(memory.slice(place.clone()).unwrap().iter().all(|b| *b == n as u8 + 1));
                assert!(memory.slice(0..place.end).is_some());
            }
        }
    }

    #[test]
    fn a_block_is_filled_once_by_many_threads() {
        let memory = UnpackedMemory::new(1 << 20, 4096).unwrap();
        let count = AtomicU8::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for block in 0..256 {
                        let work = |to: &mut [u8]| {
                            if block == 7 {
                                count.fetch_add(1, Ordering::Relaxed);
                            }
                            to.fill(block as u8);
                            Ok::<(), ()>(())
                        };
                        memory.fill(block, work).unwrap();
                        let lent = memory.slice(memory.block_range(block)).unwrap();
                        assert!(lent.iter().all(|b| *b == block as u8));
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 1);
    }
}
