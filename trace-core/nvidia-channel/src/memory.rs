//! GPU memory as the reader of commands sees it: what push buffers upload, over what the caller has.

use crate::GpuVa;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of bytes in pages with uploads. Beyond it all earlier uploads are forgotten.
pub const MAX_UPLOADED_BYTES: usize = 64 << 20;
/// Bytes of a page of uploaded memory.
const PAGE_BYTES: usize = 1024;

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
///
/// Memory is in pages, so that the time of a write does not depend on earlier ones.
#[derive(Debug, Clone, Default)]
pub struct UploadedMemory {
    /// Pages by their number.
    pages: BTreeMap<u64, Box<Page>>,
}

/// A page of which some bytes are known.
#[derive(Debug, Clone)]
struct Page {
    bytes: [u8; PAGE_BYTES],
    /// A bit for each byte.
    known: [u64; PAGE_BYTES / 64],
}

impl Page {
    fn new() -> Self {
        Self {
            bytes: [0; PAGE_BYTES],
            known: [0; PAGE_BYTES / 64],
        }
    }

    /// Writes bytes that end within the page.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        if let Some(target) = self.bytes.get_mut(at..at + bytes.len()) {
            target.copy_from_slice(bytes);
            self.mark_known(at, at + bytes.len());
        }
    }

    /// Marks the bytes of a range of the page as known, 64 at a time.
    fn mark_known(&mut self, start: usize, end: usize) {
        let mut at = start;
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let count = (64 - bit).min(end - at);
            if let Some(bits) = self.known.get_mut(word) {
                *bits |= (u64::MAX >> (64 - count)) << bit;
            }
            at += count;
        }
    }

    /// Returns the known ranges within a range of the page. Ranges that touch are possible.
    fn known_in(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            while at < range.end {
                let bits = self.known.get(at / 64)? >> (at % 64);
                if bits == 0 {
                    at = (at / 64 + 1) * 64;
                    continue;
                }
                let start = at + bits.trailing_zeros() as usize;
                let end = start + (bits >> bits.trailing_zeros()).trailing_ones() as usize;
                at = end;
                return (start < range.end).then(|| start..end.min(range.end));
            }
            None
        })
    }
}

impl UploadedMemory {
    /// Writes bytes. Bytes beyond the end of the address space are left out.
    pub fn write(&mut self, address: GpuVa, bytes: &[u8]) {
        let room = usize::try_from(u64::MAX - address.0).unwrap_or(usize::MAX);
        let mut rest = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        let mut address = address.0;
        while !rest.is_empty() {
            let (number, at) = split_address(address);
            let (now, later) = rest.split_at(rest.len().min(PAGE_BYTES - at));
            if self.pages.len() >= MAX_UPLOADED_BYTES / PAGE_BYTES && !self.pages.contains_key(&number) {
                self.pages.clear();
            }
            let page = self.pages.entry(number).or_insert_with(|| Box::new(Page::new()));
            page.write(at, now);
            rest = later;
            // The end of the bytes is in the address space.
            address = address.saturating_add(now.len() as u64);
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
        let pages = split_address(address.0).0..=split_address(end - 1).0;
        for (number, page) in self.pages.range(pages) {
            let start = number * PAGE_BYTES as u64;
            let from = address.0.saturating_sub(start) as usize;
            let to = (end - start).min(PAGE_BYTES as u64) as usize;
            for range in page.known_in(from..to) {
                // Known bytes are at or after the address, and the difference is less than `len`.
                let at = (start + range.start as u64 - address.0) as usize;
                let source = page.bytes.get(range).unwrap_or_default();
                if let Some(target) = out.bytes.get_mut(at..at + source.len()) {
                    target.copy_from_slice(source);
                    known.push(at..at + source.len());
                }
            }
        }
        let mut known = join(known);
        fill_gaps(address, &mut out.bytes, &mut known, below);
        out.known = join(known);
        out
    }
}

/// Returns the number of the page that an address is in, and the offset in the page.
fn split_address(address: u64) -> (u64, usize) {
    let bytes = PAGE_BYTES as u64;
    (address / bytes, (address % bytes) as usize)
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

    /// Returns the first byte of each known range, and the byte after the last.
    fn ends(bytes: &PartialBytes) -> Vec<(usize, usize)> {
        bytes.known().iter().map(|r| (r.start, r.end)).collect()
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
        assert_eq!(ends(&read), [(2, 10)]);
        assert_eq!(read.bytes()[10..], [0, 0]);
        assert_eq!(
            (read.u32(2), read.u32(8), read.u64(2)),
            (Some(0x0101_0101), None, Some(0x0101_0202_0101_0101))
        );
        assert_eq!(read.get(4..4), Some(&[][..]));
        // The range below ends before the last gap does.
        let read = memory.read(GpuVa(0x0e), 12, &Counting(0x18));
        assert_eq!(ends(&read), [(0, 10)]);
    }

    #[test]
    fn overlapping_uploads_equal_plain_memory() {
        // The bytes lie across the end of a page.
        let start = 7 * PAGE_BYTES as u64 - 100;
        let mut memory = UploadedMemory::default();
        let mut plain = [None; 256];
        let mut state = 1u32;
        for round in 0..300 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (at, len) = ((state >> 8 & 255) as usize, (state >> 16 & 15) as usize);
            let len = len.min(256 - at);
            memory.write(GpuVa(start + at as u64), &vec![round as u8; len]);
            plain[at..at + len].fill(Some(round as u8));
            let read = memory.read(GpuVa(start), 256, &NoMemory);
            assert!(
                read.known().windows(2).all(|w| w[0].end < w[1].start),
                "{:?}",
                read.known()
            );
            for (n, byte) in plain.iter().enumerate() {
                assert_eq!(read.get(n..n + 1).map(|b| b[0]), *byte, "byte {n}");
            }
        }
    }

    #[test]
    fn too_many_pages_forget_the_earlier_ones() {
        let mut memory = UploadedMemory::default();
        let pages = (MAX_UPLOADED_BYTES / PAGE_BYTES) as u64;
        for page in 0..=pages {
            memory.write(GpuVa(page * PAGE_BYTES as u64), &[1]);
        }
        assert_eq!(memory.read(GpuVa(0), 1, &NoMemory).known(), []);
        let last = memory.read(GpuVa(pages * PAGE_BYTES as u64), 1, &NoMemory);
        assert!(last.is_complete());
    }

    #[test]
    fn end_of_the_address_space() {
        let mut memory = UploadedMemory::default();
        memory.write(GpuVa(u64::MAX - 2), &[1, 2, 3, 4]);
        assert_eq!(memory.read(GpuVa(u64::MAX - 2), 2, &NoMemory).bytes(), [1, 2]);
        assert!(!memory.read(GpuVa(u64::MAX), 8, &NoMemory).is_complete());
    }
}
