//! View of memory for one chunk of workgroups: GPU addresses, rights, and the chunk's own writes over shared memory.
//!
//! No other chunk sees a chunk's writes before they are committed: see [`super::dispatch`].

use super::overlay::{PageCopy, Slot};
use super::stop::Stop;
use super::tlb::{Tlb, TlbEntry, WalkMemory};
use super::trace::{AccessRange, AccessSource, NoTrace, Trace, Value};
use crate::address_space::{Access, MmuFault, Translation};
use crate::fault::Fault;
use crate::frame_map::FrameMap;
use crate::memory::ArenaMemory;
use crate::registers::exception;
use trace_core::recording::Page;
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

/// How a chunk may use memory that it has not touched before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkMode {
    /// The chunk runs ahead of its turn and may touch this many pages. A further page, or a write for which the device
    /// lacks memory, ends it, and it runs again in order.
    Speculative {
        /// Maximum number of pages.
        pages: usize,
    },
    /// Everything before the chunk is committed. It may touch any page, and its faults are final.
    InOrder,
}

/// Number of touched pages at which an in-order chunk drops pages that it only read.
const SWEEP: usize = 1 << 14;

/// Result of a chunk.
#[derive(Debug)]
pub(crate) struct ViewResult<T> {
    /// The pages that the chunk touched.
    pub slots: Vec<Slot>,
    /// Trace of the accesses.
    pub trace: T,
    /// Number of accesses outside the device's memory.
    pub outside: u64,
    /// Number of writes refused because the device's memory limit was reached.
    pub refused: u64,
}

/// Memory as a chunk sees it.
///
/// Addresses are GPU addresses, words are little-endian. An access that spans two pages checks both before it does
/// anything. A stop says why an access failed. It must be returned to the caller, and it ends the workgroup.
pub(crate) struct View<'m, T: Trace = NoTrace> {
    memory: &'m ArenaMemory,
    translation: Translation,
    turn: ChunkMode,
    tlb: Tlb<'m>,
    slots: Vec<Slot>,
    by_frame: FrameMap<u32>,
    /// Number of touched pages at which pages that were only read are dropped.
    sweep_at: usize,
    /// Number of frames that may still be allocated.
    room: usize,
    outside: u64,
    refused: u64,
    trace: T,
    who: AccessSource,
}

impl<'m, T: Trace> View<'m, T> {
    /// Creates a view without accesses.
    pub(crate) fn new(memory: &'m ArenaMemory, translation: Translation, turn: ChunkMode) -> Self {
        Self {
            memory,
            translation,
            turn,
            tlb: Tlb::new(),
            slots: Vec::new(),
            by_frame: FrameMap::default(),
            sweep_at: SWEEP,
            room: memory.free_frames(),
            outside: 0,
            refused: 0,
            trace: T::default(),
            who: AccessSource::default(),
        }
    }

    /// Sets the source of the following accesses. Only traces use it; call it if [`Trace::ON`].
    #[inline(always)]
    pub(crate) fn set_access_source(&mut self, who: AccessSource) {
        if T::ON {
            self.who = who;
        }
    }

    /// Returns the trace of the view's accesses.
    #[inline(always)]
    pub(crate) fn trace(&mut self) -> &mut T {
        &mut self.trace
    }

    /// Ends the view and returns its result.
    pub(crate) fn finish(self) -> ViewResult<T> {
        ViewResult {
            slots: self.slots,
            trace: self.trace,
            outside: self.outside,
            refused: self.refused,
        }
    }

    // Words.

    /// Loads `N` words, 1 to 8. The fast path is an aligned address in a page that was loaded from before.
    #[inline(always)]
    pub(crate) fn load<const N: usize>(&mut self, va: GpuVa) -> Result<[u32; N], Stop> {
        const { assert!(N >= 1 && N <= 8) };
        let entry = self.tlb.at(va.page());
        let at = va.in_page();
        if entry.load == va.page()
            && at.is_multiple_of(4)
            && let Some(slot) = self.slots.get_mut(entry.slot as usize)
        {
            let word = at / 4;
            let image = match &slot.copy {
                None => entry.image,
                Some(copy) => &*copy.bytes,
            };
            if let Some(from) = image.as_chunks::<4>().0.get(word..word + N) {
                let words = std::array::from_fn(|i| from.get(i).map_or(0, |b| u32::from_le_bytes(*b)));
                // A word that the chunk wrote itself depends on no other chunk.
                if slot.copy.as_ref().is_none_or(|c| !c.covers(at, 4 * N)) {
                    slot.mark_read(word, N);
                }
                if T::READS {
                    let pa = slot.pa(at);
                    let bytes = 4 * N as u32;
                    self.trace
                        .read(AccessRange { va, pa, bytes }, Value::Words(&words), &self.who);
                }
                return Ok(words);
            }
        }
        self.load_slow(va)
    }

    #[cold]
    #[inline(never)]
    fn load_slow<const N: usize>(&mut self, va: GpuVa) -> Result<[u32; N], Stop> {
        let mut bytes = [0; 32];
        self.read(va, bytes.get_mut(..4 * N).unwrap_or(&mut []))?;
        let words = bytes.as_chunks::<4>().0;
        Ok(std::array::from_fn(|i| {
            words.get(i).map_or(0, |b| u32::from_le_bytes(*b))
        }))
    }

    /// Stores `N` words, 1 to 8. The fast path is an aligned address in a page that was stored to before.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, va: GpuVa, words: [u32; N]) -> Result<(), Stop> {
        let Some(what) = self.put_words(va, words) else {
            return self.store_slow(va, words);
        };
        if T::ON {
            self.trace.write(what, Value::Words(&words), &self.who);
        }
        Ok(())
    }

    /// Stores one word for each of `N` consecutive threads, 1 to 8. The first thread is set by
    /// [`View::set_access_source`].
    #[inline(always)]
    pub(crate) fn store_run<const N: usize>(&mut self, va: GpuVa, words: [u32; N]) -> Result<(), Stop> {
        if let Some(what) = self.put_words(va, words) {
            if T::ON {
                self.trace.write_run(what, &words, &self.who);
            }
            return Ok(());
        }
        if !T::ON {
            return self.store_slow(va, words);
        }
        let first = self.who;
        for (n, word) in (0u32..).zip(words) {
            self.who = first.with_thread_offset(n);
            self.store(va.wrapping_add(4 * u64::from(n)), [word])?;
        }
        Ok(())
    }

    /// Stores words to an aligned address in a page that was stored to before.
    #[inline(always)]
    fn put_words<const N: usize>(&mut self, va: GpuVa, words: [u32; N]) -> Option<AccessRange> {
        const { assert!(N >= 1 && N <= 8) };
        let entry = self.tlb.at(va.page());
        let at = va.in_page();
        if entry.store != va.page() || !at.is_multiple_of(4) {
            return None;
        }
        let slot = self.slots.get_mut(entry.slot as usize)?;
        let copy = slot.copy.as_mut()?;
        let to = copy.bytes.as_chunks_mut::<4>().0.get_mut(at / 4..at / 4 + N)?;
        for (to, word) in to.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        copy.mark(at, 4 * N);
        Some(AccessRange {
            va,
            pa: slot.pa(at),
            bytes: 4 * N as u32,
        })
    }

    #[cold]
    #[inline(never)]
    fn store_slow<const N: usize>(&mut self, va: GpuVa, words: [u32; N]) -> Result<(), Stop> {
        let mut bytes = [0; 32];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        self.write(va, bytes.get(..4 * N).unwrap_or(&[]))
    }

    // Accesses of less than a word.

    /// Loads a byte.
    #[inline]
    pub(crate) fn load_u8(&mut self, va: GpuVa) -> Result<u8, Stop> {
        self.load_part(va).map(|[b]| b)
    }

    /// Loads two bytes.
    #[inline]
    pub(crate) fn load_u16(&mut self, va: GpuVa) -> Result<u16, Stop> {
        self.load_part(va).map(u16::from_le_bytes)
    }

    /// Stores a byte.
    #[inline]
    pub(crate) fn store_u8(&mut self, va: GpuVa, value: u8) -> Result<(), Stop> {
        self.store_part(va, [value])
    }

    /// Stores two bytes.
    #[inline]
    pub(crate) fn store_u16(&mut self, va: GpuVa, value: u16) -> Result<(), Stop> {
        self.store_part(va, value.to_le_bytes())
    }

    #[inline]
    fn load_part<const N: usize>(&mut self, va: GpuVa) -> Result<[u8; N], Stop> {
        let entry = self.tlb.at(va.page());
        let at = va.in_page();
        if entry.load == va.page()
            && at.is_multiple_of(N)
            && let Some(slot) = self.slots.get_mut(entry.slot as usize)
        {
            let image = match &slot.copy {
                None => entry.image,
                Some(copy) => &*copy.bytes,
            };
            if let Some(from) = image.get(at..).and_then(|b| b.first_chunk::<N>()) {
                let bytes = *from;
                if slot.copy.as_ref().is_none_or(|c| !c.covers(at, N)) {
                    slot.mark_read(at / 4, 1);
                }
                if T::READS {
                    let pa = slot.pa(at);
                    let what = AccessRange {
                        va,
                        pa,
                        bytes: N as u32,
                    };
                    self.trace.read(what, Value::Bytes(&bytes), &self.who);
                }
                return Ok(bytes);
            }
        }
        let mut bytes = [0; N];
        self.read(va, &mut bytes)?;
        Ok(bytes)
    }

    #[inline]
    fn store_part<const N: usize>(&mut self, va: GpuVa, bytes: [u8; N]) -> Result<(), Stop> {
        let entry = self.tlb.at(va.page());
        let at = va.in_page();
        if entry.store == va.page()
            && at.is_multiple_of(N)
            && let Some(slot) = self.slots.get_mut(entry.slot as usize)
            && let Some(copy) = &mut slot.copy
            && let Some(to) = copy.bytes.get_mut(at..).and_then(|b| b.first_chunk_mut::<N>())
        {
            *to = bytes;
            copy.mark(at, N);
            if T::ON {
                let pa = slot.pa(at);
                let what = AccessRange {
                    va,
                    pa,
                    bytes: N as u32,
                };
                self.trace.write(what, Value::Bytes(&bytes), &self.who);
            }
            return Ok(());
        }
        self.write(va, &bytes)
    }

    // Atomic accesses.

    /// Replaces a word by the result of `change` and returns the old word. The result is exact, as if the workgroups
    /// ran one after another.
    #[inline]
    pub(crate) fn atomic(&mut self, va: GpuVa, change: impl FnOnce(u32) -> u32) -> Result<u32, Stop> {
        let [old] = self.load_for_atomic::<1>(va)?;
        self.store(va, [change(old)])?;
        Ok(old)
    }

    /// Does the same as [`View::atomic`] on two words.
    #[inline]
    pub(crate) fn atomic64(&mut self, va: GpuVa, change: impl FnOnce(u64) -> u64) -> Result<u64, Stop> {
        let [low, high] = self.load_for_atomic::<2>(va)?;
        let old = u64::from(low) | u64::from(high) << 32;
        let new = change(old);
        self.store(va, [new as u32, (new >> 32) as u32])?;
        Ok(old)
    }

    /// Loads words that are stored to afterwards. A fault is reported as an atomic access, and no fault can follow the
    /// load.
    #[inline]
    fn load_for_atomic<const N: usize>(&mut self, va: GpuVa) -> Result<[u32; N], Stop> {
        let entry = self.tlb.at(va.page());
        let within = va.in_page() <= PAGE_SIZE - 4 * N;
        if !(entry.store == va.page() && entry.load == va.page() && within) {
            self.check(va, 4 * N, Access::Atomic)?;
        }
        self.load(va)
    }

    // Code.

    /// Fetches sixteen bytes of code at a multiple of 16.
    pub(crate) fn fetch(&mut self, va: GpuVa) -> Result<[u8; 16], Stop> {
        let mut bytes = [0; 16];
        self.each_page(va, 16, Access::Execute, |view, slot, image, at, from, len| {
            view.copy_out(slot, image, at, bytes.get_mut(from..from + len).unwrap_or(&mut []));
        })?;
        Ok(bytes)
    }

    // Byte ranges.

    /// Reads bytes from any address.
    pub(crate) fn read(&mut self, va: GpuVa, out: &mut [u8]) -> Result<(), Stop> {
        self.each_page(va, out.len(), Access::Read, |view, slot, image, at, from, len| {
            view.copy_out(slot, image, at, out.get_mut(from..from + len).unwrap_or(&mut []));
            if T::READS {
                let read = out.get(from..from + len).unwrap_or(&[]);
                view.trace_access(va + from as u64, slot, at, read, false);
            }
        })
    }

    /// Writes bytes to any address.
    pub(crate) fn write(&mut self, va: GpuVa, bytes: &[u8]) -> Result<(), Stop> {
        let mut tables = false;
        self.each_page(va, bytes.len(), Access::Write, |view, slot, _, at, from, len| {
            if T::ON {
                let written = bytes.get(from..from + len).unwrap_or(&[]);
                view.trace_access(va + from as u64, slot, at, written, true);
            }
            let Some(slot) = view.slots.get_mut(slot) else { return };
            tables |= slot.table;
            let (Some(copy), Some(bytes)) = (&mut slot.copy, bytes.get(from..from + len)) else {
                return;
            };
            if let Some(to) = copy.bytes.get_mut(at..at + len) {
                to.copy_from_slice(bytes);
            }
            for i in (0..len).step_by(64) {
                copy.mark(at + i, (len - i).min(64));
            }
        })?;
        if tables {
            self.tlb.flush();
        }
        Ok(())
    }

    /// Translates every page of a range, and calls `each` for every page if all of them may be accessed. Its arguments
    /// are the page's slot, its image from before the chunk, the offset in the page, the offset in the range, and the
    /// length.
    fn each_page(
        &mut self,
        va: GpuVa,
        bytes: usize,
        access: Access,
        mut each: impl FnMut(&mut Self, usize, &'m Page, usize, usize, usize),
    ) -> Result<(), Stop> {
        if bytes == 0 {
            return Ok(());
        }
        let first = (PAGE_SIZE - va.in_page()).min(bytes);
        if first == bytes {
            let (slot, image) = self.access_page(va, access)?;
            each(self, slot, image, va.in_page(), 0, bytes);
            return Ok(());
        }
        self.check(va, bytes, access)?;
        let mut from = 0;
        while from < bytes {
            // The sum was checked before, and pages that were found once are found again.
            let here = va.wrapping_add(from as u64);
            let (slot, image) = self.access_page(here, access)?;
            let at = here.in_page();
            let len = (PAGE_SIZE - at).min(bytes - from);
            each(self, slot, image, at, from, len);
            from += len;
        }
        Ok(())
    }

    /// Checks that all of a range may be accessed.
    fn check(&mut self, va: GpuVa, bytes: usize, access: Access) -> Result<(), Stop> {
        let mut from = 0;
        while from < bytes {
            let here = va.checked_add(from as u64).ok_or(Stop::Fault(Fault::Mmu(MmuFault {
                code: exception::ADDRESS_SIZE,
                va,
                access,
                bus: false,
            })))?;
            self.access_page(here, access)?;
            from += PAGE_SIZE - here.in_page();
        }
        Ok(())
    }

    /// Copies bytes out of a page, and marks their words as read unless the chunk wrote them.
    fn copy_out(&mut self, slot: usize, image: &'m Page, at: usize, out: &mut [u8]) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        let page = slot.copy.as_ref().map_or(image, |c| &*c.bytes);
        if let Some(from) = page.get(at..at + out.len()) {
            out.copy_from_slice(from);
        }
        if out.is_empty() {
            return;
        }
        for word in at / 4..=(at + out.len() - 1) / 4 {
            let begin = (word * 4).max(at);
            let bytes = (word * 4 + 4).min(at + out.len()) - begin;
            if slot.copy.as_ref().is_none_or(|c| !c.covers(begin, bytes)) {
                slot.mark_read(word, 1);
            }
        }
    }

    fn trace_access(&mut self, va: GpuVa, slot: usize, at: usize, value: &[u8], wrote: bool) {
        let Some(slot) = self.slots.get(slot) else { return };
        let what = AccessRange {
            va,
            pa: slot.pa(at),
            bytes: value.len() as u32,
        };
        let value = Value::Bytes(value);
        if wrote {
            self.trace.write(what, value, &self.who);
        } else {
            self.trace.read(what, value, &self.who);
        }
    }

    // Pages.

    /// Translates the page of an address and checks its rights. Returns its slot, with a copy if the page is to be
    /// written, and its image from before the chunk.
    fn access_page(&mut self, va: GpuVa, access: Access) -> Result<(usize, &'m Page), Stop> {
        let seen = WalkMemory::new(self.memory, &self.slots, &self.by_frame);
        let found = self.translation.find(va, access, &seen);
        let entries = seen.entries();
        self.sweep_when_due();
        // A translation depends on the table entries that it read, and so does a fault.
        for at in entries.into_iter().flatten() {
            self.note_table_read(at)?;
        }
        let found = found.map_err(Fault::Mmu)?;
        if !access.is_allowed(found.rights) {
            return Err(Fault::Mmu(found.permission_fault(va, access)).into());
        }
        let frame = found.pa.frame();
        let Some(image) = self.memory.frame(frame) else {
            self.outside += 1;
            return Err(Stop::Fault(Fault::Bus {
                address: found.pa,
                va,
                access,
            }));
        };
        let n = self.slot_of(frame)?;
        if matches!(access, Access::Write | Access::Atomic) {
            self.make_copy(n, image, found.pa, va, access)?;
        }
        let ready = self.slots.get(n).is_some_and(|s| s.copy.is_some() && !s.table);
        let page = va.page();
        let place = |may: bool| if may { page } else { u64::MAX };
        self.tlb.put(
            page,
            TlbEntry {
                load: place(found.rights.read),
                store: place(found.rights.write && ready),
                image,
                slot: n as u32,
            },
        );
        Ok((n, image))
    }

    /// Marks a table entry as read, and its page as a page that holds tables.
    fn note_table_read(&mut self, at: PhysAddr) -> Result<(), Stop> {
        let n = self.slot_of(at.frame())?;
        let Some(slot) = self.slots.get_mut(n) else {
            return Ok(());
        };
        if !slot.table {
            slot.table = true;
            // The cache may contain the page as one that can be stored to.
            self.tlb.flush();
        }
        if slot.copy.as_ref().is_none_or(|c| !c.covers(at.in_page(), 8)) {
            slot.mark_read(at.in_page() / 4, 2);
        }
        Ok(())
    }

    /// Returns the slot of a frame.
    fn slot_of(&mut self, frame: u64) -> Result<usize, Stop> {
        if let Some(n) = self.by_frame.get(&frame) {
            return Ok(*n as usize);
        }
        let n = self.slots.len();
        if let ChunkMode::Speculative { pages } = self.turn
            && n >= pages
        {
            return Err(Stop::Retry);
        }
        self.slots.push(Slot {
            frame,
            read: [0; 16],
            copy: None,
            table: false,
        });
        self.by_frame.insert(frame, n as u32);
        Ok(n)
    }

    /// Creates the copy of a slot.
    fn make_copy(&mut self, n: usize, image: &'m Page, pa: PhysAddr, va: GpuVa, access: Access) -> Result<(), Stop> {
        let Some(slot) = self.slots.get_mut(n).filter(|s| s.copy.is_none()) else {
            return Ok(());
        };
        if !self.memory.is_backed(slot.frame) {
            if self.room == 0 {
                if self.turn != ChunkMode::InOrder {
                    return Err(Stop::Retry);
                }
                self.refused += 1;
                return Err(Stop::Fault(Fault::Bus {
                    address: pa,
                    va,
                    access,
                }));
            }
            self.room -= 1;
        }
        slot.copy = Some(Box::new(PageCopy {
            bytes: Box::new(*image),
            written: [0; 64],
        }));
        Ok(())
    }

    /// Drops pages that were only read, because an in-order chunk need not remember them.
    fn sweep_when_due(&mut self) {
        if T::PAGES || self.turn != ChunkMode::InOrder || self.slots.len() < self.sweep_at {
            return;
        }
        self.slots.retain(|s| s.copy.is_some());
        self.by_frame = (0..).zip(&self.slots).map(|(n, s)| (s.frame, n)).collect();
        self.slots.iter_mut().for_each(|s| s.table = false);
        self.tlb.flush();
        // The remaining pages were written and stay. Doubling the limit keeps sweeps rare.
        self.sweep_at = SWEEP.max(self.slots.len().saturating_mul(2));
    }
}
