//! A page of a framebuffer: its bytes, and which of them a recording shows.

use crate::PAGE_SIZE;

/// What a recording shows of a framebuffer byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StoreState {
    /// No store: it has its value from before the recording.
    Never = 0,
    /// A store gave it its value.
    Stored = 1,
    /// An instruction that the recorder could not decode stored to it, so its value is not in the recording.
    Lost = 2,
}

const WORDS: usize = PAGE_SIZE / 64;

/// A page of a framebuffer.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Page {
    data: [u8; PAGE_SIZE],
    known: [u64; WORDS],
    lost: [u64; WORDS],
}

impl Page {
    /// Creates a page of unknown bytes.
    pub fn new() -> Self {
        Self {
            data: [0; PAGE_SIZE],
            known: [0; WORDS],
            lost: [0; WORDS],
        }
    }

    /// Stores the bytes that lie in the page.
    #[inline]
    pub fn store(&mut self, at: usize, bytes: &[u8]) {
        let n = bytes.len().min(PAGE_SIZE.saturating_sub(at));
        if let (Some(to), Some(from)) = (self.data.get_mut(at..at + n), bytes.get(..n)) {
            to.copy_from_slice(from);
            self.mark(at, n, true);
        }
    }

    /// Marks bytes as stored with unknown values.
    pub fn mark_lost(&mut self, at: usize, n: usize) {
        self.mark(at, n.min(PAGE_SIZE.saturating_sub(at)), false);
    }

    #[inline]
    fn mark(&mut self, at: usize, n: usize, known: bool) {
        let (mut at, end) = (at, at + n);
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let here = (64 - bit).min(end - at);
            let mask = if here == 64 { u64::MAX } else { ((1 << here) - 1) << bit };
            if known {
                self.known[word] |= mask;
                self.lost[word] &= !mask;
            } else {
                self.known[word] &= !mask;
                self.lost[word] |= mask;
            }
            at += here;
        }
    }

    /// Copies bytes and their states.
    pub fn read(&self, at: usize, bytes: &mut [u8], known: &mut [StoreState]) {
        let Some(from) = self.data.get(at..at + bytes.len()) else {
            return;
        };
        bytes.copy_from_slice(from);
        let mut done = 0;
        while done < known.len() {
            let (word, bit) = ((at + done) / 64, (at + done) % 64);
            let here = (64 - bit).min(known.len() - done);
            let mask = if here == 64 { u64::MAX } else { (1 << here) - 1 };
            let (yes, lost) = (self.known[word] >> bit & mask, self.lost[word] >> bit & mask);
            let to = &mut known[done..done + here];
            if yes == mask {
                to.fill(StoreState::Stored);
            } else {
                for (i, k) in to.iter_mut().enumerate() {
                    *k = match (yes >> i & 1, lost >> i & 1) {
                        (1, _) => StoreState::Stored,
                        (_, 1) => StoreState::Lost,
                        _ => StoreState::Never,
                    };
                }
            }
            done += here;
        }
    }
}
