//! Physical memory of the device (the arena), which stores only frames that were written.

use crate::frame_map::FrameMap;
use replay_engine::device::Arena;
use trace_core::recording::{Page, ZERO_PAGE};
use trace_core::{PAGE_SIZE, PhysAddr};

/// Maximum number of frames whose contents the device keeps: 1 GiB. Further writes of a plan are refused.
pub(crate) const MAX_BACKED_FRAMES: usize = 1 << 18;

/// Reason of a failed access to the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryError {
    /// The access leaves the arena.
    Outside,
    /// The access would exceed the device's memory limit.
    Full,
}

/// Physical memory, zero where nothing was written.
pub struct ArenaMemory {
    arena: Arena,
    frames: FrameMap<Box<Page>>,
    max_frames: usize,
}

impl std::fmt::Debug for ArenaMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArenaMemory({:?}, {} frames kept)", self.arena, self.frames.len())
    }
}

impl ArenaMemory {
    pub(crate) fn new(arena: Arena) -> Self {
        Self {
            arena,
            frames: FrameMap::default(),
            max_frames: MAX_BACKED_FRAMES,
        }
    }

    /// Returns the range of physical addresses.
    #[must_use]
    pub fn arena(&self) -> Arena {
        self.arena
    }

    /// Returns the frames with contents, in ascending order.
    #[must_use]
    pub fn backed_frames(&self) -> Vec<u64> {
        let mut v: Vec<u64> = self.frames.keys().copied().collect();
        v.sort_unstable();
        v
    }

    /// Returns the number of frames with contents.
    pub(crate) fn backed_count(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn clear(&mut self) {
        self.frames.clear();
    }

    pub(crate) fn has_frame(&self, frame: u64) -> bool {
        frame
            .checked_mul(PAGE_SIZE as u64)
            .is_some_and(|at| self.arena.contains(PhysAddr::new(at)))
    }

    /// Returns the contents of a frame, or `None` outside the arena.
    #[must_use]
    pub fn frame(&self, frame: u64) -> Option<&Page> {
        if !self.has_frame(frame) {
            return None;
        }
        Some(self.frames.get(&frame).map_or(&ZERO_PAGE, |p| &**p))
    }

    pub(crate) fn frame_mut(&mut self, frame: u64) -> Result<&mut Page, MemoryError> {
        if !self.has_frame(frame) {
            return Err(MemoryError::Outside);
        }
        let full = self.frames.len() >= self.max_frames;
        match self.frames.entry(frame) {
            std::collections::hash_map::Entry::Occupied(e) => Ok(e.into_mut()),
            std::collections::hash_map::Entry::Vacant(_) if full => Err(MemoryError::Full),
            std::collections::hash_map::Entry::Vacant(e) => Ok(e.insert(Box::new(ZERO_PAGE))),
        }
    }

    /// Stores contents in a frame. A page of zeros takes no memory.
    pub(crate) fn store(&mut self, frame: u64, page: &Page) -> Result<(), MemoryError> {
        if !self.has_frame(frame) {
            return Err(MemoryError::Outside);
        }
        if *page == ZERO_PAGE {
            self.frames.remove(&frame);
            return Ok(());
        }
        *self.frame_mut(frame)? = *page;
        Ok(())
    }

    /// Returns how many more frames can store contents.
    pub(crate) fn free_frames(&self) -> usize {
        self.max_frames.saturating_sub(self.frames.len())
    }

    /// Returns whether a frame has contents.
    pub(crate) fn is_backed(&self, frame: u64) -> bool {
        self.frames.contains_key(&frame)
    }

    /// Replaces the contents of a frame by a page and returns the old contents, if there were any. A page of zeros is
    /// kept too: a frame that was written keeps contents, whatever was written.
    pub(crate) fn exchange(&mut self, frame: u64, page: Box<Page>) -> Result<Option<Box<Page>>, MemoryError> {
        if !self.has_frame(frame) {
            return Err(MemoryError::Outside);
        }
        if !self.is_backed(frame) && self.free_frames() == 0 {
            return Err(MemoryError::Full);
        }
        Ok(self.frames.insert(frame, page))
    }

    /// Sets the maximum number of frames with contents.
    #[cfg(test)]
    pub(crate) fn set_max_frames(&mut self, frames: usize) {
        self.max_frames = frames;
    }

    /// Reads bytes that do not cross a page.
    pub(crate) fn read(&self, at: PhysAddr, out: &mut [u8]) -> Result<(), MemoryError> {
        let page = self.frame(at.frame()).ok_or(MemoryError::Outside)?;
        let end = at.in_page().saturating_add(out.len());
        out.copy_from_slice(page.get(at.in_page()..end).ok_or(MemoryError::Outside)?);
        Ok(())
    }

    /// Writes bytes that do not cross a page.
    pub(crate) fn write(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), MemoryError> {
        let end = at.in_page().saturating_add(bytes.len());
        let page = self.frame_mut(at.frame())?;
        page.get_mut(at.in_page()..end)
            .ok_or(MemoryError::Outside)?
            .copy_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> ArenaMemory {
        ArenaMemory::new(Arena {
            base: PhysAddr::new(0x10_0000),
            pages: 4,
        })
    }

    #[test]
    fn memory_without_content_is_zero_and_uses_no_frame() {
        let mut m = small();
        assert_eq!(m.frame(0x100), Some(&ZERO_PAGE));
        m.store(0x101, &ZERO_PAGE).unwrap();
        assert!(m.backed_frames().is_empty());
        m.write(PhysAddr::new(0x10_1ffc), &[1, 2, 3, 4]).unwrap();
        let mut out = [0; 4];
        m.read(PhysAddr::new(0x10_1ffc), &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4]);
        assert_eq!(m.backed_frames(), [0x101]);
    }

    #[test]
    fn accesses_outside_the_arena_fail() {
        let mut m = small();
        assert_eq!(m.frame(0xff), None);
        assert_eq!(m.frame(0x104), None);
        assert_eq!(m.frame(u64::MAX), None);
        assert_eq!(m.store(0x104, &[1; 4096]), Err(MemoryError::Outside));
        assert_eq!(
            m.write(PhysAddr::new(0x10_3ffe), &[1, 2, 3, 4]),
            Err(MemoryError::Outside)
        );
        assert_eq!(m.read(PhysAddr::MAX, &mut [0; 1]), Err(MemoryError::Outside));
    }

    #[test]
    fn number_of_backed_frames_is_bounded() {
        let mut m = small();
        m.max_frames = 2;
        m.write(PhysAddr::new(0x10_0000), &[1]).unwrap();
        m.write(PhysAddr::new(0x10_1000), &[1]).unwrap();
        assert_eq!(m.write(PhysAddr::new(0x10_2000), &[1]), Err(MemoryError::Full));
        m.write(PhysAddr::new(0x10_1001), &[1]).unwrap();
    }
}
