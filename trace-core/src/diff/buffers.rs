//! Comparison of the named buffers of two recordings at their ends, by the type of their elements.

use super::elements::{Comparer, ElementDiff, Tolerance};
use super::rules::Rules;
use crate::memory::{ByteState, GpuMemoryView};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Buffer, ElementType, Recording};
use crate::{GpuVa, PAGE_SIZE};
use serde::Serialize;

/// Size of one comparison step, bytes: a multiple of every element size.
const PIECE: usize = 64 * PAGE_SIZE;

/// A named buffer of both sides at the end, compared by the type of its elements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BufferDiff {
    /// Its name.
    pub name: String,
    /// Address and size in bytes in the first recording; `None` if it has no buffer of this name.
    pub a: Option<(GpuVa, u64)>,
    /// Address and size in bytes in the second recording; `None` if it has no buffer of this name.
    pub b: Option<(GpuVa, u64)>,
    /// Number of bytes that differ, of those that both sides have.
    pub bytes_differ: u64,
    /// Number of bytes that one side does not have: different size, not mapped, or without contents. They are not
    /// compared.
    pub unknown: u64,
    /// The comparison of its elements, or of bytes if the two recordings name different types; `None` if one side has
    /// no such buffer.
    pub elements: Option<ElementDiff>,
    /// The tolerance for its elements.
    pub tolerance: Option<Tolerance>,
}

impl BufferDiff {
    /// Returns whether its elements differ beyond the tolerance, or one side has no such buffer or another size.
    #[must_use]
    pub fn differs(&self) -> bool {
        let bytes = |side: Option<(GpuVa, u64)>| side.map(|s| s.1);
        bytes(self.a) != bytes(self.b) || self.elements.as_ref().is_some_and(|e| e.differ > 0)
    }
}

/// A buffer and the memory that contains it.
struct Side<'a> {
    buffer: &'a Buffer,
    memory: GpuMemoryView<'a>,
}

impl<'a> Side<'a> {
    fn new(recording: &'a Recording, buffer: &'a Buffer) -> Option<Self> {
        let space = recording.metadata.address_spaces.get(buffer.address_space as usize)?;
        Some(Self {
            buffer,
            memory: GpuMemoryView::new(recording.memory.last(), space),
        })
    }

    /// Reads bytes of the buffer from an offset on, and returns the state of each.
    fn read(&self, from: u64, out: &mut [u8]) -> Vec<ByteState> {
        match self.buffer.va.checked_add(from) {
            Some(va) => self.memory.read_partial(va, out),
            None => vec![ByteState::Unmapped; out.len()],
        }
    }

    /// Returns the first offset from `from` on, and before `end`, whose page may have content.
    fn next_content(&self, from: u64, end: u64) -> u64 {
        let Some(first) = self.buffer.va.checked_add(from) else {
            return end;
        };
        let last = self.buffer.va.saturating_add(end);
        match self.memory.next_content(first, last) {
            next if next == last => end,
            next => next - self.buffer.va,
        }
    }
}

/// Compares the buffers that both recordings have by name, in the order of the first; then adds those that only one
/// has.
pub(super) fn diff(
    a: &Recording,
    b: &Recording,
    rules: &Rules,
    progress: &Progress,
) -> Result<Vec<BufferDiff>, Cancelled> {
    let mut out = Vec::new();
    let named = |r: &'_ Recording, name: &str| r.metadata.buffers.iter().position(|x| x.name == name);
    let compared = |x: &&Buffer| rules.compares_buffer(&x.name);
    for x in a.metadata.buffers.iter().filter(compared) {
        let found = named(b, &x.name).and_then(|i| b.metadata.buffers.get(i));
        out.push(match found {
            Some(y) => pair((a, x), (b, y), rules, progress)?,
            None => one_sided_diff(x, true),
        });
    }
    let only_b = b.metadata.buffers.iter().filter(|y| named(a, &y.name).is_none());
    out.extend(only_b.filter(compared).map(|y| one_sided_diff(y, false)));
    // The order does not depend on which recording is first.
    out.sort_by(|x, y| x.name.cmp(&y.name));
    Ok(out)
}

fn one_sided_diff(buffer: &Buffer, in_a: bool) -> BufferDiff {
    let place = Some((buffer.va, buffer.bytes));
    BufferDiff {
        name: buffer.name.clone(),
        a: place.filter(|_| in_a),
        b: place.filter(|_| !in_a),
        bytes_differ: 0,
        unknown: buffer.bytes,
        elements: None,
        tolerance: None,
    }
}

fn pair(
    (a, x): (&Recording, &Buffer),
    (b, y): (&Recording, &Buffer),
    rules: &Rules,
    progress: &Progress,
) -> Result<BufferDiff, Cancelled> {
    let tolerance = rules.tolerance(&x.name);
    let mut out = BufferDiff {
        name: x.name.clone(),
        a: Some((x.va, x.bytes)),
        b: Some((y.va, y.bytes)),
        bytes_differ: 0,
        unknown: 0,
        elements: None,
        tolerance: Some(tolerance).filter(Tolerance::is_some),
    };
    let (Some(one), Some(two)) = (Side::new(a, x), Side::new(b, y)) else {
        out.unknown = x.bytes.max(y.bytes);
        return Ok(out);
    };
    // If the two recordings name different types, bytes are compared.
    let element = if x.element == y.element {
        x.element
    } else {
        ElementType::U8
    };
    let size = element.bytes();
    let common = x.bytes.min(y.bytes);
    out.unknown = x.bytes.max(y.bytes) - common;
    let mut elements = Comparer::new(element, tolerance);
    let (mut here, mut there) = (vec![0; PIECE], vec![0; PIECE]);
    let mut from = 0u64;
    while from < common {
        progress.check()?;
        // A buffer may be much larger than what is recorded of it. Whole pieces without content on a side are skipped.
        let next = one.next_content(from, common).max(two.next_content(from, common));
        let skipped = match next == common {
            true => common - from,
            false => (next - from) / PIECE as u64 * PIECE as u64,
        };
        if skipped > 0 {
            out.unknown += skipped;
            from += skipped;
            continue;
        }
        let len = usize::try_from(common - from).unwrap_or(PIECE).min(PIECE);
        let (Some(p), Some(q)) = (here.get_mut(..len), there.get_mut(..len)) else {
            break;
        };
        let (known_a, known_b) = (one.read(from, p), two.read(from, q));
        // Two bytes that are zero only because they are unknown are not equal: without contents on a side, the byte
        // is unknown.
        let known =
            |n: usize| known_a.get(n) == Some(&ByteState::Content) && known_b.get(n) == Some(&ByteState::Content);
        let mut n = 0;
        while n < len {
            let begin = n;
            let state = known(n);
            while n < len && known(n) == state {
                n += 1;
            }
            if !state {
                out.unknown += (n - begin) as u64;
                continue;
            }
            // Whole elements of the run, counted from the start of the buffer.
            let first = begin.next_multiple_of(size);
            let last = n / size * size;
            if let (Some(x), Some(y)) = (p.get(begin..n), q.get(begin..n)) {
                out.bytes_differ += count_differing(x, y);
            }
            if let (Some(x), Some(y)) = (p.get(first..last), q.get(first..last)) {
                elements.add_pair((from + first as u64) / size as u64, x, y);
            }
        }
        from += len as u64;
    }
    out.elements = Some(elements.finish());
    Ok(out)
}

/// Returns the number of bytes that differ.
pub(super) fn count_differing(a: &[u8], b: &[u8]) -> u64 {
    if a == b {
        return 0;
    }
    // Count in bytes, at most 255 at a time, so that the compiler vectorizes the loop.
    let mut all = 0u64;
    for (x, y) in a.chunks(128).zip(b.chunks(128)) {
        let count: u8 = x.iter().zip(y).map(|(v, w)| u8::from(v != w)).sum();
        all += u64::from(count);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::count_differing;
    use crate::mmu::{self, Rights};
    use crate::progress::Progress;
    use crate::recording::{
        AddressSpace, Buffer, BufferRole, ElementType, FrameRole, MemoryBuilder, MmuFormat, Recording,
    };
    use crate::{GpuVa, PhysAddr};

    /// Returns a recording with a large buffer, of which the first page and one in the middle have content.
    fn with_large_buffer(byte: u8, bytes: u64) -> Recording {
        const FORMAT: MmuFormat = MmuFormat::Aarch64_4k;
        let mut memory = MemoryBuilder::new();
        let mut frames = Vec::new();
        let tables = [(1u64, [(0, 2), (64, 5)]), (2, [(0, 3), (0, 3)]), (3, [(0, 4), (0, 4)])];
        let mut add = |frame: u64, entries: &[(usize, u64)]| {
            let mut page = [0; 4096];
            for (n, entry) in entries {
                page[n * 8..n * 8 + 8].copy_from_slice(&entry.to_le_bytes());
            }
            frames.push((frame, memory.add_page(&page), FrameRole::Table));
        };
        for (frame, entries) in tables {
            add(
                frame,
                &entries.map(|(n, next)| (n, mmu::encode_table(FORMAT, PhysAddr::new(next << 12)))),
            );
        }
        add(
            4,
            &[(0, mmu::encode_leaf(FORMAT, PhysAddr::new(0x8000), Rights::RW, 0))],
        );
        for (frame, next) in [(5u64, 6u64), (6, 7)] {
            add(frame, &[(0, mmu::encode_table(FORMAT, PhysAddr::new(next << 12)))]);
        }
        add(
            7,
            &[(0, mmu::encode_leaf(FORMAT, PhysAddr::new(0x9000), Rights::RW, 0))],
        );
        frames.push((8, memory.add_page(&[byte; 4096]), FrameRole::Data));
        frames.push((9, memory.add_page(&[byte + 1; 4096]), FrameRole::Data));
        memory.add_snapshot(0, frames);
        let mut recording = Recording {
            memory: memory.finish(),
            ..Recording::default()
        };
        recording.metadata.address_spaces.push(AddressSpace {
            number: 0,
            format: FORMAT,
            root: PhysAddr::new(0x1000),
            memattr: 0,
            transcfg: 6,
        });
        recording.metadata.buffers.push(Buffer {
            name: "large".into(),
            role: BufferRole::Shared,
            va: GpuVa::ZERO,
            bytes,
            element: ElementType::U8,
            address_space: 0,
        });
        recording
    }

    /// A damaged file stated such sizes, and each byte was compared.
    #[test]
    fn parts_of_a_buffer_without_content_take_no_time() {
        for bytes in [1 << 46, u64::MAX] {
            let (a, b) = (with_large_buffer(7, bytes), with_large_buffer(9, bytes));
            let found = super::diff(&a, &b, &super::Rules::default(), &Progress::new()).unwrap();
            assert_eq!((found.len(), found[0].bytes_differ), (1, 8192));
            assert_eq!(found[0].unknown, bytes - 8192);
        }
    }

    #[test]
    fn bytes_that_differ_are_counted() {
        let a: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
        let mut b = a.clone();
        assert_eq!(count_differing(&a, &b), 0);
        for at in [0, 1, 127, 128, 999] {
            b[at] ^= 0x80;
        }
        assert_eq!(count_differing(&a, &b), 5);
        let c: Vec<u8> = a.iter().map(|b| !b).collect();
        assert_eq!(count_differing(&a, &c), 1000);
    }
}
