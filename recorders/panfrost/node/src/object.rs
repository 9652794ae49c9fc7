//! A buffer object, and the transfer of its bytes to the device and back.

use crate::gpu::Gpu;
use crate::memory::Pool;
use driver_mali::{DriverError, SpaceId};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use trace_core::recording::{Page, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE};

const PAGE: u64 = PAGE_SIZE as u64;
/// Size of the unit of comparison, bytes: programs write words.
const WORD: usize = 4;

/// A page with the device's content.
#[derive(Debug)]
struct DevicePage {
    bytes: Box<Page>,
    /// The device changed it once: bytes between the program's own words can be results.
    changed: bool,
}

/// A buffer object.
#[derive(Debug)]
pub(crate) struct Object {
    /// Offset in the memory of its file; a program maps it by the same offset.
    pub offset: u64,
    /// Size in bytes, whole pages.
    pub bytes: u64,
    /// GPU address.
    pub va: GpuVa,
    /// The object gets memory on GPU access; programs cannot map it.
    pub heap: bool,
    /// The name that the program set by the driver's own request.
    pub label: Option<String>,
    /// The program named a buffer in it.
    pub named: bool,
    /// Pages with the device's content, by index in the object; other pages are zero there.
    known: BTreeMap<u64, DevicePage>,
}

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("memory of buffer objects: {0}")]
    Memory(#[from] io::Error),
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl Object {
    pub(crate) fn new(offset: u64, bytes: u64, va: GpuVa, heap: bool) -> Self {
        Self {
            offset,
            bytes,
            va,
            heap,
            label: None,
            named: false,
            known: BTreeMap::new(),
        }
    }

    /// Returns its range in the memory of its file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes)
    }

    /// Copies the program's changes since the last call to the device.
    pub(crate) fn upload(&mut self, pool: &Pool, gpu: &mut Gpu, space: SpaceId) -> Result<(), TransferError> {
        if self.heap {
            return Ok(());
        }
        let mut buffer = Vec::new();
        for chunk in pool.list_resident(self.range())? {
            buffer.resize((chunk.end - chunk.start) as usize, 0);
            pool.read(chunk.start, &mut buffer)?;
            let first = (chunk.start - self.offset) / PAGE;
            for (number, bytes) in (first..).zip(buffer.chunks_exact(PAGE_SIZE)) {
                let known = self.known.get(&number);
                let before = known.map_or(&ZERO_PAGE, |k| &*k.bytes);
                if before == bytes {
                    continue;
                }
                // Unchanged words between two changed ones are copied along if this is invisible. If the device has
                // written the page they are not: they can be its results.
                let gap = if known.is_some_and(|k| k.changed) { 0 } else { 4 * WORD };
                for piece in find_differences(before, bytes, gap) {
                    let va = self.va + number * PAGE + piece.start as u64;
                    gpu.write(space, va, bytes.get(piece).unwrap_or_default())?;
                }
                let known = self.known.entry(number).or_insert_with(|| DevicePage {
                    bytes: Box::new(ZERO_PAGE),
                    changed: false,
                });
                known.bytes.copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Copies the device's changes to the program. Bytes that the device did not change are not written: another thread
    /// of the program can be writing them.
    pub(crate) fn download(&mut self, pool: &Pool, gpu: &mut Gpu, space: SpaceId) -> Result<(), TransferError> {
        if self.heap {
            return Ok(());
        }
        let mut page = ZERO_PAGE;
        for number in 0..self.bytes / PAGE {
            gpu.read_back(space, self.va + number * PAGE, &mut page)?;
            let before = self.known.get(&number).map_or(&ZERO_PAGE, |k| &*k.bytes);
            if *before == page {
                continue;
            }
            for piece in find_differences(before, &page, 0) {
                let at = self.offset + number * PAGE + piece.start as u64;
                pool.write(at, page.get(piece).unwrap_or_default())?;
            }
            let known = DevicePage {
                bytes: Box::new(page),
                changed: true,
            };
            self.known.insert(number, known);
        }
        Ok(())
    }
}

/// Returns the runs of words in which two pages differ. Runs with a gap of at most `gap` bytes are merged.
fn find_differences(before: &[u8], after: &[u8], gap: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (n, (a, b)) in before.chunks(WORD).zip(after.chunks(WORD)).enumerate() {
        if a == b {
            continue;
        }
        let at = n * WORD;
        let end = at + b.len();
        match runs.last_mut().filter(|r| at - r.end <= gap) {
            Some(run) => run.end = end,
            None => runs.push(at..end),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_words_are_grouped_into_runs() {
        let before = [0u8; 64];
        let mut after = before;
        assert!(find_differences(&before, &after, 16).is_empty());
        after[5] = 1;
        after[8] = 1;
        after[20] = 1;
        after[63] = 1;
        assert_eq!(find_differences(&before, &after, 0), [4..12, 20..24, 60..64]);
        assert_eq!(find_differences(&before, &after, 8), [4..24, 60..64]);
    }
}
