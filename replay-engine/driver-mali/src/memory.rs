//! Memory functions of the driver: address spaces, mappings, contents, named buffers, snapshots.

use crate::driver::Driver;
use crate::error::DriverError;
use crate::layout::{AddressSpace, Host, SpaceId};
use std::ops::Range;
use trace_core::mmu::Rights;
use trace_core::recording::{Buffer, BufferRole, ElementType, FrameRole, MmuFormat, Region, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE};

/// Free bytes between two allocations, and alignment of allocations.
const GUARD_BYTES: u64 = 0x1_0000;
/// Size of the words that [`Driver::update`] compares, bytes.
const WORD: usize = 4;

impl Driver<'_> {
    /// Creates an address space with empty tables. The hardware is programmed at the first submit into it.
    ///
    /// # Errors
    /// When the hardware has no free address space, or memory is used up.
    pub fn new_space(&mut self, format: MmuFormat) -> Result<SpaceId, DriverError> {
        let number = self.spaces.len();
        if number >= 16 || self.as_present >> number & 1 == 0 {
            return Err(DriverError::NoSpace { number });
        }
        let space = AddressSpace::new(format, &mut self.host())?;
        self.spaces.push(space);
        Ok(SpaceId(number as u8))
    }

    fn host(&mut self) -> Host<'_> {
        Host {
            device: self.device,
            recorder: &mut self.recorder,
            frames: &mut self.frames,
        }
    }

    /// Returns an address space, with the host access that changes it.
    fn space_and_host(&mut self, id: SpaceId) -> Result<(&mut AddressSpace, Host<'_>), DriverError> {
        let number = usize::from(id.0);
        let space = self.spaces.get_mut(number).ok_or(DriverError::NoSpace { number })?;
        let host = Host {
            device: self.device,
            recorder: &mut self.recorder,
            frames: &mut self.frames,
        };
        Ok((space, host))
    }

    pub(crate) fn space(&self, id: SpaceId) -> Result<&AddressSpace, DriverError> {
        self.spaces.get(usize::from(id.0)).ok_or(DriverError::NoSpace {
            number: usize::from(id.0),
        })
    }

    /// Maps new zeroed memory at an address. The hardware's cached translations of the range are invalidated.
    ///
    /// # Errors
    /// When the range cannot be mapped, memory is used up, or the device fails.
    pub fn map(&mut self, space: SpaceId, va: GpuVa, bytes: u64, rights: Rights) -> Result<(), DriverError> {
        let (to, mut host) = self.space_and_host(space)?;
        to.map(va, bytes, rights, &mut host)?;
        self.region(space, va, bytes);
        self.invalidate_range(space, va, bytes)
    }

    /// Maps in `to` the memory that `from` maps at the same addresses, so that jobs in one address space see what jobs
    /// in the other wrote.
    ///
    /// # Errors
    /// When the range is not mapped in `from` or cannot be mapped in `to`, or the device fails.
    pub fn share(&mut self, from: SpaceId, to: SpaceId, va: GpuVa, bytes: u64) -> Result<(), DriverError> {
        let at = usize::from(to.0);
        if from == to || at >= self.spaces.len() {
            return Err(DriverError::NoSpace { number: at });
        }
        self.space(from)?;
        let mut target = self.spaces.remove(at);
        let from_at = usize::from(from.0);
        let mut host = Host {
            device: self.device,
            recorder: &mut self.recorder,
            frames: &mut self.frames,
        };
        let source = self.spaces.get(if from_at > at { from_at - 1 } else { from_at });
        let result = match source {
            Some(source) => target.share(source, va, bytes, &mut host),
            None => Err(DriverError::NoSpace { number: from_at }),
        };
        self.spaces.insert(at, target);
        result?;
        self.region(to, va, bytes);
        self.invalidate_range(to, va, bytes)
    }

    /// Unmaps a range. Memory that nothing maps any more is reused. No running chain may access the range.
    ///
    /// # Errors
    /// When part of the range is not mapped, or the device fails.
    pub fn unmap(&mut self, space: SpaceId, va: GpuVa, bytes: u64) -> Result<(), DriverError> {
        let (from, mut host) = self.space_and_host(space)?;
        from.unmap(va, bytes, &mut host)?;
        self.invalidate_range(space, va, bytes)
    }

    fn region(&mut self, space: SpaceId, va: GpuVa, bytes: u64) {
        if self.recorder.has_ended() {
            return;
        }
        let pages = bytes.div_ceil(PAGE_SIZE as u64);
        self.regions.push(Region {
            address_space: u32::from(space.0),
            start: va,
            end: va.saturating_add(pages.saturating_mul(PAGE_SIZE as u64)),
            committed_pages: pages,
            flags: 0,
            has_content: true,
        });
    }

    /// Maps new zeroed memory at an address that the driver chooses. The address is different in every address space.
    ///
    /// # Errors
    /// Returns the errors of [`Driver::map`].
    pub fn alloc(&mut self, space: SpaceId, bytes: u64, rights: Rights) -> Result<GpuVa, DriverError> {
        let va = GpuVa::new(self.next_va);
        self.map(space, va, bytes, rights)?;
        // The range was mapped, so it ends within 48 bits.
        self.next_va = va
            .get()
            .saturating_add(bytes)
            .next_multiple_of(GUARD_BYTES)
            .saturating_add(GUARD_BYTES);
        Ok(va)
    }

    /// Returns the part of each page that a range covers: frame, range in the page, position in the range.
    fn pieces(&self, space: SpaceId, va: GpuVa, bytes: usize) -> Result<Vec<PagePiece>, DriverError> {
        let s = self.space(space)?;
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < bytes {
            let at = va.saturating_add(done as u64);
            let not_mapped = DriverError::NotMapped {
                va: at,
                number: space.0,
            };
            let frame = s.pages.get(&at.page()).ok_or(not_mapped)?.frame;
            let len = (PAGE_SIZE - at.in_page()).min(bytes - done);
            pieces.push(PagePiece {
                frame,
                start: at.in_page(),
                len,
                from: done,
            });
            done += len;
        }
        Ok(pieces)
    }

    /// Writes bytes to mapped memory, regardless of what the GPU does there. After the first submit, all of them become
    /// host writes of the recording: a replay writes exactly these bytes at this point.
    ///
    /// # Errors
    /// When the range is not mapped; nothing is written then.
    pub fn write(&mut self, space: SpaceId, va: GpuVa, bytes: &[u8]) -> Result<(), DriverError> {
        for p in self.pieces(space, va, bytes.len())? {
            let from = bytes.get(p.in_range()).unwrap_or_default();
            self.host().patch(p.frame, p.in_page(), from)?;
        }
        Ok(())
    }

    /// Makes mapped memory hold these bytes, but writes only the 32-bit words that differ. This is for a caller that
    /// knows the contents of memory but not which writes made them. Returns the number of bytes written.
    ///
    /// # Errors
    /// When the range is not mapped; nothing is written then.
    pub fn update(&mut self, space: SpaceId, va: GpuVa, bytes: &[u8]) -> Result<u64, DriverError> {
        let mut page = ZERO_PAGE;
        let mut written = 0;
        for p in self.pieces(space, va, bytes.len())? {
            self.device.load_page(p.frame, &mut page)?;
            let (Some(now), Some(to)) = (page.get_mut(p.in_page()), bytes.get(p.in_range())) else {
                continue;
            };
            let runs = find_differences(now, to, p.start);
            if runs.is_empty() {
                continue;
            }
            now.copy_from_slice(to);
            self.device.store_page(p.frame, &page)?;
            for run in runs {
                written += run.len() as u64;
                self.recorder.add_host_write(p.frame, FrameRole::Data, run);
            }
        }
        Ok(written)
    }

    /// Writes the 32-bit words that differ between two CPU images of a range, and leaves all other words as jobs left
    /// them. An image that is too short continues with zeros.
    ///
    /// # Errors
    /// When the range is not mapped; the part before the unmapped address is written then.
    pub fn write_changed(&mut self, space: SpaceId, va: GpuVa, before: &[u8], after: &[u8]) -> Result<(), DriverError> {
        let len = before.len().max(after.len());
        for at in (0..len).step_by(PAGE_SIZE) {
            let page = |image: &[u8]| {
                let mut page = ZERO_PAGE;
                let part = image.get(at..).unwrap_or_default();
                let part = part.get(..PAGE_SIZE).unwrap_or(part);
                if let Some(to) = page.get_mut(..part.len()) {
                    to.copy_from_slice(part);
                }
                page
            };
            let (was, is) = (page(before), page(after));
            let len = (len - at).min(PAGE_SIZE);
            for run in find_differences(was.get(..len).unwrap_or_default(), is.get(..len).unwrap_or_default(), 0) {
                let to = va.saturating_add((at + run.start) as u64);
                self.write(space, to, is.get(run).unwrap_or_default())?;
            }
        }
        Ok(())
    }

    /// Reads bytes from mapped memory as they are now.
    ///
    /// # Errors
    /// When the range is not mapped.
    pub fn read(&mut self, space: SpaceId, va: GpuVa, out: &mut [u8]) -> Result<(), DriverError> {
        let mut page = ZERO_PAGE;
        for p in self.pieces(space, va, out.len())? {
            self.device.load_page(p.frame, &mut page)?;
            if let (Some(to), Some(from)) = (out.get_mut(p.in_range()), page.get(p.in_page())) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }

    /// Names a range, so that a user can find it and a replay can change it or copy it out.
    pub fn name_buffer(
        &mut self,
        name: &str,
        role: BufferRole,
        space: SpaceId,
        va: GpuVa,
        bytes: u64,
        element: ElementType,
    ) {
        let address_space = u32::from(space.0);
        self.buffers.push(Buffer {
            name: name.to_owned(),
            role,
            address_space,
            va,
            bytes,
            element,
        });
    }

    /// Takes a snapshot of every allocated frame, as it is before the next event.
    pub(crate) fn take_snapshot(&mut self) -> Result<(), DriverError> {
        let first = !self.recorder.has_begun();
        let (frames, zeros) = self.recorder.take_snapshot(self.device, self.frames.used_frames())?;
        if first {
            (self.source_pages, self.source_zero_pages) = (frames, zeros);
        }
        Ok(())
    }
}

/// Returns the parts in which two equally long pieces of a page differ, as whole aligned words of the page. `start` is
/// the offset of the first byte in the page.
fn find_differences(now: &[u8], to: &[u8], start: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < to.len() {
        let end = ((start + at) / WORD * WORD + WORD - start).min(to.len());
        if now.get(at..end) != to.get(at..end) {
            match runs.last_mut() {
                Some(last) if last.end == start + at => last.end = start + end,
                _ => runs.push(start + at..start + end),
            }
        }
        at = end;
    }
    runs
}

struct PagePiece {
    frame: u64,
    start: usize,
    len: usize,
    from: usize,
}

impl PagePiece {
    fn in_page(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    fn in_range(&self) -> Range<usize> {
        self.from..self.from + self.len
    }
}
