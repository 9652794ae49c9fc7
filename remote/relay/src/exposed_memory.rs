//! Memory that kernels use by its address: what the other end has of it, and what has changed since.

use crate::error::RelayError;
use remote_ring::HostWindow;
use std::collections::BTreeMap;

/// Size of the parts that are compared at once, bytes.
const PART_BYTES: usize = 64 << 10;
/// Size of a block that is compared before its words, bytes.
const BLOCK_BYTES: usize = 4096;
/// Size of a word that is sent by itself, bytes: the device and the program may own neighbours.
const WORD_BYTES: usize = 4;

/// Exposed memory with what the other end has of it.
#[derive(Debug, Default)]
pub struct ExposedMemory {
    /// Contents by the offsets of their first bytes in the window.
    ranges: BTreeMap<u64, Vec<u8>>,
}

impl ExposedMemory {
    /// Notes a range. The other end has zeros.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn add(&mut self, offset: u64, bytes: u64) -> Result<(), RelayError> {
        if self.ranges.contains_key(&offset) {
            return Ok(());
        }
        let too_much = || RelayError::Limit {
            what: "the size of mapped host memory",
            value: bytes,
            limit: isize::MAX as u64,
        };
        let size = usize::try_from(bytes).map_err(|_| too_much())?;
        let mut shadow = Vec::new();
        shadow.try_reserve_exact(size).map_err(|_| too_much())?;
        shadow.resize(size, 0);
        self.ranges.insert(offset, shadow);
        Ok(())
    }

    /// Forgets a range.
    pub fn remove(&mut self, offset: u64) {
        self.ranges.remove(&offset);
    }

    /// Returns whether there is no range.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Notes bytes that both ends have now.
    pub fn note(&mut self, offset: u64, bytes: &[u8]) {
        let Some((first, shadow)) = self.ranges.range_mut(..=offset).next_back() else {
            return;
        };
        let at = (offset - first) as usize;
        let end = at.saturating_add(bytes.len()).min(shadow.len());
        if let Some(target) = shadow.get_mut(at..end) {
            target.copy_from_slice(bytes.get(..end - at).unwrap_or_default());
        }
    }

    /// Calls `send` with each run of words that changed, and notes that both ends have them.
    ///
    /// # Errors
    /// If the window cannot be read, or the error of `send`.
    pub fn send_changes(
        &mut self,
        window: &HostWindow,
        mut send: impl FnMut(u64, &[u8]) -> Result<(), RelayError>,
    ) -> Result<(), RelayError> {
        let mut part = vec![0; PART_BYTES];
        for (first, shadow) in &mut self.ranges {
            for (index, known) in shadow.chunks_mut(PART_BYTES).enumerate() {
                let at = first + (index * PART_BYTES) as u64;
                let now = part.get_mut(..known.len()).unwrap_or_default();
                window.read(at, now)?;
                let blocks = now.chunks(BLOCK_BYTES).zip(known.chunks_mut(BLOCK_BYTES));
                for (block, (now, known)) in blocks.enumerate() {
                    if now != known {
                        send_runs(at + (block * BLOCK_BYTES) as u64, now, known, &mut send)?;
                        known.copy_from_slice(now);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Calls `send` with each run of words of a block that differ.
fn send_runs(
    at: u64,
    now: &[u8],
    known: &[u8],
    send: &mut impl FnMut(u64, &[u8]) -> Result<(), RelayError>,
) -> Result<(), RelayError> {
    let mut run: Option<usize> = None;
    let words = now.chunks(WORD_BYTES).zip(known.chunks(WORD_BYTES)).enumerate();
    for (index, (now_word, known_word)) in words {
        let offset = index * WORD_BYTES;
        match (now_word != known_word, run) {
            (true, None) => run = Some(offset),
            (false, Some(start)) => {
                send(at + start as u64, now.get(start..offset).unwrap_or_default())?;
                run = None;
            }
            _ => {}
        }
    }
    match run {
        Some(start) => send(at + start as u64, now.get(start..).unwrap_or_default()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote_ring::{WINDOW_PAGE_BYTES, WindowFile};

    fn changes(memory: &mut ExposedMemory, window: &HostWindow) -> Vec<(u64, Vec<u8>)> {
        let mut runs = Vec::new();
        memory
            .send_changes(window, |at, bytes| {
                runs.push((at, bytes.to_vec()));
                Ok(())
            })
            .unwrap();
        runs
    }

    #[test]
    fn only_changed_words_are_sent() {
        let window = HostWindow::attach(WindowFile::create(0, 64 * WINDOW_PAGE_BYTES).unwrap()).unwrap();
        let (first, bytes) = (2 * WINDOW_PAGE_BYTES, 40 * WINDOW_PAGE_BYTES);
        let mut memory = ExposedMemory::default();
        memory.add(first, bytes).unwrap();
        assert_eq!(changes(&mut memory, &window), []);
        // Two neighbours in a block, one word at the end of another, the last byte of all; one outside.
        window.write(first + 8, &[1, 2, 3, 4, 5]).unwrap();
        window.write(first + 5 * WINDOW_PAGE_BYTES - 1, &[7]).unwrap();
        window.write(first + bytes - 1, &[9, 9]).unwrap();
        window.write(0, &[1]).unwrap();
        assert_eq!(
            changes(&mut memory, &window),
            [
                (first + 8, vec![1, 2, 3, 4, 5, 0, 0, 0]),
                (first + 5 * WINDOW_PAGE_BYTES - 4, vec![0, 0, 0, 7]),
                (first + bytes - 4, vec![0, 0, 0, 9]),
            ]
        );
        assert_eq!(changes(&mut memory, &window), []);
        // What the other end sent is no change of this one.
        window.write(first + 100, &[8; 4]).unwrap();
        memory.note(first + 100, &[8; 4]);
        assert_eq!(changes(&mut memory, &window), []);
        memory.remove(first);
        window.write(first, &[1]).unwrap();
        assert_eq!(changes(&mut memory, &window), []);
    }
}
