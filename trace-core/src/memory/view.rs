//! A recording's memory as the GPU sees it through one address space.

use crate::mmu::{self, Leaf, PAGE_BYTES, WalkFault};
use crate::recording::{AddressSpace, Buffer, MemoryView, Page, Recording};
use crate::{GpuVa, PAGE_SIZE, PhysAddr};
use std::ops::{ControlFlow, Range};

/// Maximum size of a read by [`GpuMemoryView::read_range`] and [`GpuMemoryView::read_buffer`], bytes: 1 GiB.
pub const MAX_READ: u64 = 1 << 30;
/// Maximum number of ranges without content that are skipped at once.
const MAX_SKIPS: usize = 1 << 12;

/// GPU memory read through virtual addresses.
pub trait GpuMemory {
    /// Fills `out` with the bytes at `va`. Returns `false` if a byte of the range is unmapped or without content;
    /// `out` is then undefined.
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool;
}

/// What the recording knows about a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteState {
    /// The recording holds its value.
    Content,
    /// It is mapped, and the recording does not hold its value.
    NoContent,
    /// Nothing is mapped there.
    Unmapped,
}

/// A buffer's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferBytes {
    /// The bytes; bytes without content are 0.
    pub bytes: Vec<u8>,
    /// Byte ranges without content, relative to the start of the buffer, in ascending order; neighbours of one state
    /// are joined.
    pub holes: Vec<(Range<u64>, ByteState)>,
}

/// Memory by GPU address at one event.
#[derive(Clone, Copy, Debug)]
pub struct GpuMemoryView<'a> {
    view: MemoryView<'a>,
    space: &'a AddressSpace,
}

impl<'a> GpuMemoryView<'a> {
    /// Creates a view of the memory of `view` through the page tables of `space`.
    #[must_use]
    pub fn new(view: MemoryView<'a>, space: &'a AddressSpace) -> Self {
        Self { view, space }
    }

    /// Returns the memory of a recording at an event through an address space, by its index in the recording's list.
    /// Returns `None` if the recording does not have that address space.
    #[must_use]
    pub fn at(recording: &'a Recording, space: u32, event: u64) -> Option<Self> {
        let space = recording.metadata.address_spaces.get(space as usize)?;
        Some(Self::new(recording.memory.at(event), space))
    }

    /// Returns the physical memory.
    pub(super) fn view(&self) -> &MemoryView<'a> {
        &self.view
    }

    /// Returns the physical memory.
    #[must_use]
    pub fn physical(&self) -> MemoryView<'a> {
        self.view
    }

    /// Returns the address space.
    #[must_use]
    pub fn space(&self) -> &'a AddressSpace {
        self.space
    }

    /// Translates an address.
    ///
    /// # Errors
    ///
    /// The fault that the GPU would report.
    pub fn translate(&self, va: GpuVa) -> Result<Leaf, WalkFault> {
        mmu::translate(self.space.format, self.space.root, va, &self.view)
    }

    /// Returns the page image of an address, and its state.
    #[must_use]
    pub fn page(&self, va: GpuVa) -> (Option<&'a Page>, ByteState) {
        let Some(pa) = self.physical_address(va) else {
            return (None, ByteState::Unmapped);
        };
        match self.view.frame(pa.frame()) {
            Some(p) => (Some(p), ByteState::Content),
            None => (None, ByteState::NoContent),
        }
    }

    /// Returns the physical address that a GPU address leads to.
    #[must_use]
    pub fn physical_address(&self, va: GpuVa) -> Option<PhysAddr> {
        self.translate(va).ok()?.target(va)
    }

    /// Returns the first address from `from` on, and before `end`, whose page may have content; `end` if there is none.
    /// Ranges that are not mapped are skipped as a whole. After some steps it returns the address so far.
    pub(crate) fn next_content(&self, from: GpuVa, end: GpuVa) -> GpuVa {
        let mut at = from;
        for _ in 0..MAX_SKIPS {
            if at >= end || self.page(at).1 == ByteState::Content {
                break;
            }
            let covered = match self.translate(at) {
                // The last entry that was read covers what is not mapped. Without one, nothing is.
                Err(_) => match mmu::walk(self.space.format, self.space.root, at, &self.view)
                    .steps
                    .last()
                {
                    Some(step) => step.span_bytes,
                    None => return end,
                },
                Ok(_) => PAGE_BYTES,
            };
            let Some(next) = at.align_down(covered).checked_add(covered) else {
                return end;
            };
            at = next;
        }
        at.min(end)
    }

    /// Calls `each` for every part of a range within one page: address, offset from the start of the range, length,
    /// page image and state.
    fn for_each_part(
        &self,
        va: GpuVa,
        bytes: u64,
        mut each: impl FnMut(usize, u64, u64, Option<&'a Page>, ByteState) -> ControlFlow<()>,
    ) {
        let mut done = 0u64;
        while done < bytes {
            let (page, state, at) = match va.checked_add(done) {
                Some(at) => {
                    let (page, state) = self.page(at);
                    (page, state, at.in_page())
                }
                None => (None, ByteState::Unmapped, 0),
            };
            let len = (PAGE_BYTES - at as u64).min(bytes - done);
            if each(at, done, len, page, state).is_break() {
                return;
            }
            done += len;
        }
    }

    /// Fills `out` from `va` on and returns the state of each byte; bytes without content are 0.
    pub fn read_partial(&self, va: GpuVa, out: &mut [u8]) -> Vec<ByteState> {
        out.fill(0);
        let mut states = Vec::with_capacity(out.len());
        self.for_each_part(va, out.len() as u64, |at, done, len, page, state| {
            let (done, len) = (done as usize, len as usize);
            if let Some(from) = page.and_then(|p| p.get(at..at + len))
                && let Some(to) = out.get_mut(done..done + len)
            {
                to.copy_from_slice(from);
            }
            states.resize(states.len() + len, state);
            ControlFlow::Continue(())
        });
        states
    }

    /// Reads a range; holes are 0 and listed. A range of more than [`MAX_READ`] bytes is cut there; the cut part is
    /// listed as a hole.
    #[must_use]
    pub fn read_range(&self, va: GpuVa, bytes: u64) -> BufferBytes {
        self.read_range_at_most(va, bytes, MAX_READ)
    }

    /// Reads a range; holes are 0 and listed. A range of more than `limit` bytes is cut there; the cut part is listed
    /// as a hole.
    #[must_use]
    pub fn read_range_at_most(&self, va: GpuVa, bytes: u64, limit: u64) -> BufferBytes {
        let kept = bytes.min(limit).min(MAX_READ);
        let mut out = vec![0; usize::try_from(kept).unwrap_or(0)];
        let mut holes: Vec<(Range<u64>, ByteState)> = Vec::new();
        let mut hole = |range: Range<u64>, state: ByteState| match holes.last_mut() {
            Some((r, s)) if r.end == range.start && *s == state => r.end = range.end,
            _ => holes.push((range, state)),
        };
        self.for_each_part(va, out.len() as u64, |at, done, len, page, state| {
            match page.and_then(|p| p.get(at..at + len as usize)) {
                Some(from) => {
                    if let Some(to) = out.get_mut(done as usize..(done + len) as usize) {
                        to.copy_from_slice(from);
                    }
                }
                None => hole(done..done + len, state),
            }
            ControlFlow::Continue(())
        });
        if kept < bytes {
            hole(kept..bytes, ByteState::NoContent);
        }
        BufferBytes { bytes: out, holes }
    }

    /// Reads a buffer; holes are 0 and listed.
    #[must_use]
    pub fn read_buffer(&self, buffer: &Buffer) -> BufferBytes {
        self.read_range(buffer.va, buffer.bytes)
    }
}

impl GpuMemory for GpuMemoryView<'_> {
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
        let mut whole = true;
        self.for_each_part(va, out.len() as u64, |at, done, len, page, _| {
            let (done, len) = (done as usize, len as usize);
            match (page.and_then(|p| p.get(at..at + len)), out.get_mut(done..done + len)) {
                (Some(from), Some(to)) => {
                    to.copy_from_slice(from);
                    ControlFlow::Continue(())
                }
                _ => {
                    whole = false;
                    ControlFlow::Break(())
                }
            }
        });
        whole
    }
}

const _: () = assert!(PAGE_SIZE as u64 == PAGE_BYTES);
