//! Addresses in job descriptors, and in the memory that descriptors point to.

use crate::GpuVa;
use crate::memory::GpuMemoryView;

/// Number of bytes of a descriptor that are scanned for addresses.
const DESCRIPTOR_BYTES: u64 = 256;
/// Number of bytes that are scanned at each pointer of a descriptor.
const POINTED_BYTES: u64 = 1024;

/// A word that may be an address, and its own address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub at: GpuVa,
    pub value: u64,
}

/// Returns the words of memory at an address. Bytes without content are 0.
fn read_words(memory: &GpuMemoryView<'_>, at: GpuVa, len: u64) -> Vec<Word> {
    let read = memory.read_range(at, len).bytes;
    let each = (0u64..).step_by(8).zip(read.as_chunks::<8>().0);
    each.map(|(by, w)| Word {
        at: at.saturating_add(by),
        value: u64::from_le_bytes(*w),
    })
    .collect()
}

/// Returns the addresses of known memory among words.
fn find_pointed(memory: &GpuMemoryView<'_>, words: &[Word]) -> impl Iterator<Item = GpuVa> {
    words
        .iter()
        // Pointers in descriptors have sizes and flags in their lowest bits.
        .map(|w| w.value & !63)
        .filter(|p| *p >= 4096 && *p >> 48 == 0)
        .map(GpuVa::new)
        .filter(|p| memory.page(*p).0.is_some())
}

/// Finds the first word of the descriptors at `head`, or of memory that they point to, whose value passes `is_hit`.
/// Memory on the page `page` is not searched through pointers. Returns the word, and the pointer that leads to it.
pub(super) fn find_pointer(
    memory: &GpuMemoryView<'_>,
    head: GpuVa,
    page: u64,
    is_hit: impl Fn(u64) -> bool,
) -> Option<(Word, Option<GpuVa>)> {
    let first = read_words(memory, head.align_down(8), DESCRIPTOR_BYTES);
    if let Some(w) = first.iter().find(|w| is_hit(w.value)) {
        return Some((*w, None));
    }
    find_pointed(memory, &first).filter(|p| p.page() != page).find_map(|p| {
        let found = read_words(memory, p, POINTED_BYTES)
            .into_iter()
            .find(|w| is_hit(w.value))?;
        Some((found, Some(p)))
    })
}

/// Adds all possible addresses in the descriptors at `head` and in the memory that they point to.
pub fn find_pointers(memory: &GpuMemoryView<'_>, head: GpuVa, out: &mut Vec<GpuVa>) {
    let first = read_words(memory, head.align_down(8), DESCRIPTOR_BYTES);
    for p in find_pointed(memory, &first) {
        out.extend(read_words(memory, p, POINTED_BYTES).iter().map(|w| GpuVa::new(w.value)));
    }
    out.extend(first.iter().map(|w| GpuVa::new(w.value)));
}
