//! The driver's memory: address spaces, mappings, contents, named buffers, snapshots.

use crate::driver::Driver;
use crate::error::DriverError;
use crate::layout::{AddressSpace, SpaceId};
use trace_core::mmu::Rights;
use trace_core::recording::{Buffer, BufferRole, ElementType, FrameRole, MmuFormat, Page, PageId, Region, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE};

/// Bytes left free between two allocations, and their alignment.
const GUARD_BYTES: u64 = 0x1_0000;

impl Driver<'_> {
    /// A new address space with empty tables. The hardware learns of it at the first submit into it.
    ///
    /// # Errors
    /// When the hardware has no further one, or memory is used up.
    pub fn new_space(&mut self, format: MmuFormat) -> Result<SpaceId, DriverError> {
        self.before_work()?;
        let number = self.spaces.len();
        if number >= 16 || self.as_present >> number & 1 == 0 {
            return Err(DriverError::NoSpace { number });
        }
        self.spaces
            .push(AddressSpace::new(format, &mut self.frames, self.board)?);
        Ok(SpaceId(number as u8))
    }

    pub(crate) fn space(&self, id: SpaceId) -> Result<&AddressSpace, DriverError> {
        self.spaces.get(usize::from(id.0)).ok_or(DriverError::NoSpace {
            number: usize::from(id.0),
        })
    }

    fn before_work(&self) -> Result<(), DriverError> {
        if self.begun {
            Err(DriverError::WorkBegun)
        } else {
            Ok(())
        }
    }

    /// Maps fresh zeroed memory at an address.
    ///
    /// # Errors
    /// When the range cannot be mapped, memory is used up, or work has begun.
    pub fn map(&mut self, space: SpaceId, va: GpuVa, bytes: u64, rights: Rights) -> Result<(), DriverError> {
        self.before_work()?;
        let missing = DriverError::NoSpace {
            number: usize::from(space.0),
        };
        let to = self.spaces.get_mut(usize::from(space.0)).ok_or(missing)?;
        to.map(va, bytes, rights, &mut self.frames, self.board)?;
        self.region(space, va, bytes);
        Ok(())
    }

    /// Maps in `to` the memory that `from` has at the same addresses: what work in one leaves there, work in the
    /// other finds.
    ///
    /// # Errors
    /// When the range is not mapped in `from` or cannot be mapped in `to`, or work has begun.
    pub fn share(&mut self, from: SpaceId, to: SpaceId, va: GpuVa, bytes: u64) -> Result<(), DriverError> {
        self.before_work()?;
        let at = usize::from(to.0);
        if from == to || at >= self.spaces.len() {
            return Err(DriverError::NoSpace { number: at });
        }
        self.space(from)?;
        let mut target = self.spaces.remove(at);
        let from_at = usize::from(from.0);
        let source = self.spaces.get(if from_at > at { from_at - 1 } else { from_at });
        let result = match source {
            Some(source) => target.share(source, va, bytes, &mut self.frames, self.board),
            None => Err(DriverError::NoSpace { number: from_at }),
        };
        self.spaces.insert(at, target);
        result?;
        self.region(to, va, bytes);
        Ok(())
    }

    fn region(&mut self, space: SpaceId, va: GpuVa, bytes: u64) {
        let pages = bytes.div_ceil(PAGE_SIZE as u64);
        self.regions.push(Region {
            address_space: u32::from(space.0),
            start: va,
            end: GpuVa(va.0.saturating_add(pages.saturating_mul(PAGE_SIZE as u64))),
            committed_pages: pages,
            flags: 0,
            has_content: true,
        });
    }

    /// Maps fresh zeroed memory at an address of the driver's choice, in every address space another one.
    ///
    /// # Errors
    /// As [`Driver::map`].
    pub fn alloc(&mut self, space: SpaceId, bytes: u64, rights: Rights) -> Result<GpuVa, DriverError> {
        let va = GpuVa(self.next_va);
        self.map(space, va, bytes, rights)?;
        // The range was mapped, so that it ends within 48 bits.
        self.next_va =
            va.0.saturating_add(bytes)
                .next_multiple_of(GUARD_BYTES)
                .saturating_add(GUARD_BYTES);
        Ok(va)
    }

    /// Visits the part of each page that a range covers: frame, range in the page, position in the range.
    fn pieces(&self, space: SpaceId, va: GpuVa, bytes: usize) -> Result<Vec<Piece>, DriverError> {
        let s = self.space(space)?;
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < bytes {
            let at = GpuVa(va.0.saturating_add(done as u64));
            let not_mapped = DriverError::NotMapped {
                va: at,
                number: space.0,
            };
            let frame = s.pages.get(&at.page()).ok_or(not_mapped)?.frame;
            let len = (PAGE_SIZE - at.in_page()).min(bytes - done);
            pieces.push(Piece {
                frame,
                start: at.in_page(),
                len,
                from: done,
            });
            done += len;
        }
        Ok(pieces)
    }

    /// Puts bytes into mapped memory, whatever the GPU may do there.
    ///
    /// # Errors
    /// When the range is not mapped, or work has begun.
    pub fn write(&mut self, space: SpaceId, va: GpuVa, bytes: &[u8]) -> Result<(), DriverError> {
        self.before_work()?;
        let mut page = ZERO_PAGE;
        for p in self.pieces(space, va, bytes.len())? {
            self.board.load_page(p.frame, &mut page)?;
            if let (Some(to), Some(from)) = (page.get_mut(p.in_page()), bytes.get(p.in_range())) {
                to.copy_from_slice(from);
            }
            self.board.store_page(p.frame, &page)?;
        }
        Ok(())
    }

    /// Takes bytes out of mapped memory as they are now.
    ///
    /// # Errors
    /// When the range is not mapped.
    pub fn read_back(&mut self, space: SpaceId, va: GpuVa, out: &mut [u8]) -> Result<(), DriverError> {
        let mut page = ZERO_PAGE;
        for p in self.pieces(space, va, out.len())? {
            self.board.load_page(p.frame, &mut page)?;
            if let (Some(to), Some(from)) = (out.get_mut(p.in_range()), page.get(p.in_page())) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }

    /// Names a range, so that a person can find it and a replay can change it or copy it out.
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

    /// Takes down what is in every frame given out, as it is before an event.
    pub(crate) fn take_snapshot(&mut self, event: u64) -> Result<(), DriverError> {
        let mut frames: Vec<(u64, PageId, FrameRole)> = Vec::new();
        let mut page: Page = ZERO_PAGE;
        for (frame, role) in self.frames.taken() {
            self.board.load_page(frame, &mut page)?;
            frames.push((frame, self.memory.add_page(&page), role));
        }
        if event == 0 {
            let data = || frames.iter().filter(|f| f.2 == FrameRole::Data);
            self.source_pages = data().count() as u64;
            self.source_zero_pages = data().filter(|f| f.1 == PageId::ZERO).count() as u64;
        }
        self.memory.add_snapshot(event, frames);
        Ok(())
    }
}

struct Piece {
    frame: u64,
    start: usize,
    len: usize,
    from: usize,
}

impl Piece {
    fn in_page(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }

    fn in_range(&self) -> std::ops::Range<usize> {
        self.from..self.from + self.len
    }
}
