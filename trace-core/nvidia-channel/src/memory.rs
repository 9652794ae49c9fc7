//! GPU memory as the reader of commands sees it: what push buffers upload, over what the caller has.

use crate::GpuVa;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of uploaded bytes that are kept. Beyond it all earlier uploads are forgotten.
pub const MAX_UPLOADED_BYTES: usize = 64 << 20;

/// Memory that push buffers do not hold.
pub trait MemoryReader {
    /// Reads the bytes from an address on. Returns `false`, with `out` undefined, if one of them is unknown.
    fn read(&self, address: GpuVa, out: &mut [u8]) -> bool;
}

/// Memory of which nothing is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMemory;

impl MemoryReader for NoMemory {
    fn read(&self, _: GpuVa, out: &mut [u8]) -> bool {
        out.is_empty()
    }
}

/// Bytes of memory, of which some may be unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartialBytes {
    bytes: Vec<u8>,
    /// Known ranges, sorted and apart from each other.
    known: Vec<Range<usize>>,
}

impl PartialBytes {
    /// Returns the number of bytes, known or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns all bytes. Unknown ones are zero.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the known ranges in order. No two of them touch.
    #[must_use]
    pub fn known(&self) -> &[Range<usize>] {
        &self.known
    }

    /// Returns whether every byte is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.bytes.is_empty() || self.known_after(0) == Some(self.bytes.len())
    }

    /// Returns bytes of a range, or `None` if one of them is unknown.
    #[must_use]
    pub fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        let bytes = self.bytes.get(range.clone())?;
        let known = range.is_empty() || self.known_after(range.start).is_some_and(|end| end >= range.end);
        known.then_some(bytes)
    }

    /// Returns the end of the known range that a byte is in.
    #[must_use]
    pub fn known_after(&self, at: usize) -> Option<usize> {
        self.known.iter().find(|r| r.contains(&at)).map(|r| r.end)
    }

    /// Returns a little-endian number of 32 bits, or `None` if a byte of it is unknown.
    #[must_use]
    pub fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(*bytes.first_chunk()?))
    }

    /// Returns a little-endian number of 64 bits, or `None` if a byte of it is unknown.
    #[must_use]
    pub fn u64(&self, at: usize) -> Option<u64> {
        let bytes = self.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }
}

/// Bytes that push buffers wrote to memory.
#[derive(Debug, Clone, Default)]
pub struct UploadedMemory {
    /// Ranges by their first address; no two of them overlap.
    ranges: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
}

impl UploadedMemory {
    /// Writes bytes. Bytes beyond the end of the address space are left out.
    pub fn write(&mut self, address: GpuVa, bytes: &[u8]) {
        let room = usize::try_from(u64::MAX - address.0).unwrap_or(usize::MAX);
        let bytes = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        if self.bytes.saturating_add(bytes.len()) > MAX_UPLOADED_BYTES {
            self.ranges.clear();
            self.bytes = 0;
        }
        if bytes.len() > MAX_UPLOADED_BYTES {
            return;
        }
        self.clear(address.0, address.0 + bytes.len() as u64);
        self.bytes += bytes.len();
        self.ranges.insert(address.0, bytes.to_vec());
    }

    /// Forgets the bytes from an address up to another one, and keeps those before and after.
    fn clear(&mut self, from: u64, to: u64) {
        let before = self.ranges.range(..from).next_back().map(|(start, _)| *start);
        let inside = self.ranges.range(from..to).map(|(start, _)| *start);
        let starts: Vec<u64> = before.into_iter().chain(inside).collect();
        for start in starts {
            let Some(mut bytes) = self.ranges.remove(&start) else {
                continue;
            };
            let len = bytes.len();
            let end = start + len as u64;
            // Both differences are at most the length of the range.
            if end > to {
                let tail = bytes.split_off((to.max(start) - start) as usize);
                self.ranges.insert(to.max(start), tail);
            }
            if start < from {
                bytes.truncate((from - start) as usize);
                self.ranges.insert(start, bytes);
            }
            let kept = from.saturating_sub(start).min(len as u64) + end.saturating_sub(to.max(start)).min(len as u64);
            self.bytes -= len - (kept as usize).min(len);
        }
    }

    /// Reads `len` bytes: uploaded ones first, then those of the other memory.
    #[must_use]
    pub fn read(&self, address: GpuVa, len: usize, below: &dyn MemoryReader) -> PartialBytes {
        let mut out = PartialBytes {
            bytes: vec![0; len],
            known: Vec::new(),
        };
        let Some(end) = address.0.checked_add(len as u64) else {
            return out;
        };
        if len == 0 {
            return out;
        }
        let mut known = Vec::new();
        let before = self.ranges.range(..address.0).next_back();
        for (start, bytes) in before.into_iter().chain(self.ranges.range(address.0..end)) {
            let from = address.0.max(*start);
            let to = end.min(start + bytes.len() as u64);
            if from >= to {
                continue;
            }
            // Offsets are within `len` and within the range.
            let (at, skip, count) = (
                (from - address.0) as usize,
                (from - start) as usize,
                (to - from) as usize,
            );
            if let (Some(target), Some(source)) = (out.bytes.get_mut(at..at + count), bytes.get(skip..skip + count)) {
                target.copy_from_slice(source);
                known.push(at..at + count);
            }
        }
        fill_gaps(address, &mut out.bytes, &mut known, below);
        out.known = join(known);
        out
    }
}

/// Reads the bytes between known ranges, which are sorted, from the other memory.
fn fill_gaps(address: GpuVa, bytes: &mut [u8], known: &mut Vec<Range<usize>>, below: &dyn MemoryReader) {
    let mut gaps = Vec::new();
    let mut at = 0;
    for range in known.iter().cloned().chain(std::iter::once(bytes.len()..bytes.len())) {
        if at < range.start {
            gaps.push(at..range.start);
        }
        at = range.end;
    }
    for gap in gaps {
        let Some(target) = bytes.get_mut(gap.clone()) else {
            continue;
        };
        if below.read(GpuVa(address.0 + gap.start as u64), target) {
            known.push(gap);
        } else {
            target.fill(0);
        }
    }
    known.sort_by_key(|r| r.start);
}

/// Joins sorted ranges that touch.
fn join(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that holds the low byte of each address below a limit.
    struct Counting(u64);

    impl MemoryReader for Counting {
        fn read(&self, address: GpuVa, out: &mut [u8]) -> bool {
            for (n, byte) in out.iter_mut().enumerate() {
                *byte = (address.0 as u8).wrapping_add(n as u8);
            }
            address.0 + out.len() as u64 <= self.0
        }
    }

    #[test]
    fn uploads_cover_memory_below() {
        let mut memory = UploadedMemory::default();
        memory.write(GpuVa(0x10), &[1; 8]);
        memory.write(GpuVa(0x14), &[2; 2]);
        let read = memory.read(GpuVa(0x0e), 12, &Counting(u64::MAX));
        assert_eq!(read.bytes(), [0x0e, 0x0f, 1, 1, 1, 1, 2, 2, 1, 1, 0x18, 0x19]);
        assert!(read.is_complete());
        let read = memory.read(GpuVa(0x0e), 12, &NoMemory);
        assert_eq!(read.known(), [2..10]);
        assert_eq!(read.bytes()[10..], [0, 0]);
        assert_eq!(
            (read.u32(2), read.u32(8), read.u64(2)),
            (Some(0x0101_0101), None, Some(0x0101_0202_0101_0101))
        );
        assert_eq!(read.get(4..4), Some(&[][..]));
        // The range below ends before the last gap does.
        let read = memory.read(GpuVa(0x0e), 12, &Counting(0x18));
        assert_eq!(read.known(), [0..10]);
    }

    #[test]
    fn overlapping_uploads_equal_plain_memory() {
        let mut memory = UploadedMemory::default();
        let mut plain = [None; 64];
        let mut state = 1u32;
        for round in 0..2000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (at, len) = ((state >> 8 & 63) as usize, (state >> 16 & 15) as usize);
            let len = len.min(64 - at);
            memory.write(GpuVa(at as u64), &vec![round as u8; len]);
            plain[at..at + len].fill(Some(round as u8));
            let read = memory.read(GpuVa(0), 64, &NoMemory);
            for (n, byte) in plain.iter().enumerate() {
                assert_eq!(read.get(n..n + 1).map(|b| b[0]), *byte, "byte {n}");
            }
            assert_eq!(memory.bytes, plain.iter().flatten().count());
        }
    }

    #[test]
    fn end_of_the_address_space() {
        let mut memory = UploadedMemory::default();
        memory.write(GpuVa(u64::MAX - 2), &[1, 2, 3, 4]);
        assert_eq!(memory.read(GpuVa(u64::MAX - 2), 2, &NoMemory).bytes(), [1, 2]);
        assert!(!memory.read(GpuVa(u64::MAX), 8, &NoMemory).is_complete());
    }
}
