//! Pages that a chunk of workgroups touched: copies of the written pages, and marks of reads and writes.

use crate::frame_map::FrameMap;
use crate::memory::{ArenaMemory, MemoryError};
use trace_core::recording::Page;
use trace_core::{PAGE_SIZE, PhysAddr};

/// One mark for each 32-bit word of a page.
pub(crate) type WordMask = [u64; PAGE_SIZE / 4 / 64];
/// One mark for each byte of a page.
pub(crate) type ByteMask = [u64; PAGE_SIZE / 64];

/// Page as the chunk sees it after its first write to it.
#[derive(Debug)]
pub(crate) struct PageCopy {
    pub bytes: Box<Page>,
    pub written: ByteMask,
}

impl PageCopy {
    /// Returns whether the chunk wrote all `bytes` bytes at `at`. The range has at most 64 bytes and lies within the
    /// page.
    #[inline(always)]
    pub fn covers(&self, at: usize, bytes: usize) -> bool {
        let (low, high) = marks(at, bytes);
        let i = at / 64 % self.written.len();
        if high != 0 && self.written.get(i + 1).is_none_or(|w| w & high != high) {
            return false;
        }
        self.written[i] & low == low
    }

    /// Marks `bytes` bytes at `at` as written. The range has at most 64 bytes and lies within the page.
    #[inline(always)]
    pub fn mark(&mut self, at: usize, bytes: usize) {
        let (low, high) = marks(at, bytes);
        let i = at / 64 % self.written.len();
        self.written[i] |= low;
        if high != 0
            && let Some(w) = self.written.get_mut(i + 1)
        {
            *w |= high;
        }
    }
}

/// Returns the mark bits of `bytes` bytes at `at`: those of the 64-byte block that contains `at`, and those of the next
/// block.
#[inline(always)]
fn marks(at: usize, bytes: usize) -> (u64, u64) {
    let m = ((1u128 << (bytes & 127)) - 1) << (at & 63);
    (m as u64, (m >> 64) as u64)
}

/// Page that a chunk touched.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Frame of the page.
    pub frame: u64,
    /// Words whose contents from before the chunk were read.
    pub read: WordMask,
    /// Copy of the page, present after the chunk's first write to it.
    pub copy: Option<Box<PageCopy>>,
    /// Whether a translation used the page as a table.
    pub table: bool,
}

impl Slot {
    /// Returns the physical address at an offset in the page.
    #[inline(always)]
    pub fn pa(&self, at: usize) -> PhysAddr {
        PhysAddr::new((self.frame << 12) + at as u64)
    }

    /// Marks `words` words from word `at` as read. The range has at most 32 words and lies within the page.
    #[inline(always)]
    pub fn mark_read(&mut self, at: usize, words: usize) {
        let marks = (1u64 << (words & 63)) - 1;
        let (i, shift) = (at / 64 % self.read.len(), at & 63);
        self.read[i] |= marks << shift;
        if shift + words > 64
            && let Some(w) = self.read.get_mut(i + 1)
        {
            *w |= marks >> (64 - shift);
        }
    }
}

/// Writes of the earlier chunks of a round.
#[derive(Debug, Default)]
pub(crate) struct RoundWrites(FrameMap<ByteMask>);

impl RoundWrites {
    /// Returns whether a chunk read a word that is written here.
    pub fn has_conflict(&self, slots: &[Slot]) -> bool {
        !self.0.is_empty()
            && slots.iter().any(|s| {
                s.read.iter().any(|r| *r != 0) && self.0.get(&s.frame).is_some_and(|written| overlap(&s.read, written))
            })
    }

    /// Writes a chunk's writes to memory and records them. Writes nothing if they do not fit.
    pub fn commit(&mut self, slots: Vec<Slot>, memory: &mut ArenaMemory) -> Result<(), MemoryError> {
        let new = slots
            .iter()
            .filter(|s| s.copy.is_some() && !memory.is_backed(s.frame))
            .count();
        if new > memory.free_frames() {
            return Err(MemoryError::Full);
        }
        for slot in slots {
            let Some(copy) = slot.copy else { continue };
            match self.0.entry(slot.frame) {
                // No other chunk wrote to the page in this round, so the copy becomes the memory.
                std::collections::hash_map::Entry::Vacant(e) => {
                    memory.exchange(slot.frame, copy.bytes)?;
                    e.insert(copy.written);
                }
                std::collections::hash_map::Entry::Occupied(mut e) => {
                    put(memory.frame_mut(slot.frame)?, &copy);
                    for (to, from) in e.get_mut().iter_mut().zip(&copy.written) {
                        *to |= from;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a word is marked as read and a byte of it as written.
fn overlap(read: &WordMask, written: &ByteMask) -> bool {
    // One element of the word mask corresponds to four elements of the byte mask.
    read.iter()
        .zip(written.as_chunks::<4>().0)
        .filter(|(r, _)| **r != 0)
        .any(|(r, w)| {
            (0..4).any(|i| {
                let words = r >> (16 * i) & 0xffff;
                words & fold(w.get(i).copied().unwrap_or(0)) != 0
            })
        })
}

/// Returns a bit for each four bits of which at least one is set.
fn fold(bytes: u64) -> u64 {
    let any = bytes | bytes >> 1;
    let any = (any | any >> 2) & 0x1111_1111_1111_1111;
    // Moves every fourth bit together.
    let m = (any | any >> 3) & 0x0303_0303_0303_0303;
    let m = (m | m >> 6) & 0x000f_000f_000f_000f;
    let m = (m | m >> 12) & 0x0000_00ff_0000_00ff;
    (m | m >> 24) & 0xffff
}

/// Copies the written bytes of a copy to a page.
fn put(page: &mut Page, copy: &PageCopy) {
    let blocks = page.as_chunks_mut::<64>().0.iter_mut();
    for ((to, from), mask) in blocks.zip(copy.bytes.as_chunks::<64>().0).zip(copy.written) {
        match mask {
            0 => {}
            u64::MAX => *to = *from,
            mask => {
                for (i, (t, f)) in to.iter_mut().zip(from).enumerate() {
                    if mask >> i & 1 == 1 {
                        *t = *f;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trace_core::recording::ZERO_PAGE;

    fn slot() -> Slot {
        Slot {
            frame: 1,
            read: [0; 16],
            copy: Some(Box::new(PageCopy {
                bytes: Box::new(ZERO_PAGE),
                written: [0; 64],
            })),
            table: false,
        }
    }

    proptest! {
        #[test]
        fn overlay_marks_match_the_accessed_bytes(at in 0usize..4096, bytes in 1usize..=16, word in 0usize..1024, words in 1usize..=4) {
            let bytes = bytes.min(4096 - at);
            let words = words.min(1024 - word);
            let mut s = slot();
            s.mark_read(word, words);
            let c = s.copy.as_mut().unwrap();
            c.mark(at, bytes);
            for i in 0..4096 {
                prop_assert_eq!(c.written[i / 64] >> (i % 64) & 1 == 1, (at..at + bytes).contains(&i));
                prop_assert_eq!(c.covers(i, 1), (at..at + bytes).contains(&i));
            }
            prop_assert!(c.covers(at, bytes));
            prop_assert!(!c.covers(at, bytes + 1) || at + bytes == 4096);
            for i in 0..1024 {
                prop_assert_eq!(s.read[i / 64] >> (i % 64) & 1 == 1, (word..word + words).contains(&i));
            }
            let meet = (at / 4..=(at + bytes - 1) / 4).any(|w| (word..word + words).contains(&w));
            prop_assert_eq!(overlap(&s.read, &s.copy.as_ref().unwrap().written), meet);
        }

        #[test]
        fn overlay_applies_only_written_bytes(marks in proptest::collection::vec((0usize..4096, 1usize..=64), 0..20)) {
            let mut c = PageCopy { bytes: Box::new([7; 4096]), written: [0; 64] };
            for (at, bytes) in marks {
                c.mark(at, bytes.min(4096 - at).min(64));
            }
            let mut page = ZERO_PAGE;
            put(&mut page, &c);
            for (i, b) in page.iter().enumerate() {
                prop_assert_eq!(*b == 7, c.covers(i, 1));
            }
        }
    }
}
