//! Whole pages of a player's memory: reads of each page of a range, and ranges that become zero.

use crate::player::{COPY_SUBCHANNEL, header};
use crate::player_objects::STAGING_BYTES;
use crate::steps::PAGE_BYTES;
use crate::{Kernel, Memory, Place, PlayError, Player};

/// Minimum number of bytes of video memory that the copy engine clears. The CPU clears shorter ranges faster.
const MIN_FILL_BYTES: usize = 0x1_0000;
/// Maximum number of bytes that one fill of the copy engine clears: each fill has a time limit.
const MAX_FILL_BYTES: u64 = 0x1000_0000;
/// Bytes of a pixel of a fill: four components of four bytes.
const PIXEL_BYTES: usize = 16;

impl<K: Kernel> Player<'_, K> {
    /// Reads each page of a range of mapped memory, and calls `visit` with its address and its bytes, in address order.
    /// Video memory is copied by the GPU first. `va` and `bytes` are multiples of [`PAGE_BYTES`].
    ///
    /// # Errors
    /// If a part is not mapped or not whole pages, or a copy does not complete.
    pub fn visit_pages(
        &mut self,
        va: u64,
        bytes: u64,
        mut visit: impl FnMut(u64, &[u8; PAGE_BYTES]),
    ) -> Result<(), PlayError> {
        let unmapped = PlayError::Unmapped { va, bytes };
        require_pages(va, bytes)?;
        let mut page = [0; PAGE_BYTES];
        let mut at = va;
        let mut left = bytes;
        while left > 0 {
            let (index, offset, now) = self.piece(at, left.min(STAGING_BYTES) as usize)?;
            let memory = self.memories.get(index).and_then(Option::as_ref);
            let is_direct = memory.is_some_and(|m| m.place == Place::System && m.mapping().is_some());
            if !is_direct {
                let staging = self.own.staging.va;
                self.copy(at, staging, now as u32)?;
            }
            let (source, first) = match is_direct {
                true => (self.memories.get(index).and_then(Option::as_ref), offset),
                false => (Some(&self.own.staging), 0),
            };
            let mapping = source.and_then(Memory::mapping).ok_or(unmapped)?;
            for part in (0..now).step_by(PAGE_BYTES) {
                if !mapping.read(first.saturating_add(part), &mut page) {
                    return Err(unmapped);
                }
                visit(at.wrapping_add(part as u64), &page);
            }
            at = at.wrapping_add(now as u64);
            left = left.saturating_sub(now as u64);
        }
        Ok(())
    }

    /// Sets mapped memory to zero. `va` and `bytes` are multiples of [`PAGE_BYTES`].
    ///
    /// # Errors
    /// If a part is not mapped or not whole pages, or a fill does not complete.
    pub fn clear_pages(&mut self, va: u64, bytes: u64) -> Result<(), PlayError> {
        require_pages(va, bytes)?;
        let mut at = va;
        let mut left = bytes;
        while left > 0 {
            let (index, offset, now) = self.piece(at, left.min(MAX_FILL_BYTES) as usize)?;
            let memory = self.memories.get_mut(index).and_then(Option::as_mut);
            let direct = memory.filter(|m| m.place == Place::System || now < MIN_FILL_BYTES);
            match direct.and_then(Memory::mapping_mut) {
                Some(mapping) => {
                    mapping.clear(offset, now);
                }
                None => self.fill_with_zeros(at, now)?,
            }
            at = at.wrapping_add(now as u64);
            left = left.saturating_sub(now as u64);
        }
        Ok(())
    }

    /// Clears memory by the player's own copy engine.
    fn fill_with_zeros(&mut self, va: u64, bytes: usize) -> Result<(), PlayError> {
        const SET_REMAP_CONST_A: u32 = 0x700;
        const OFFSET_OUT: u32 = 0x408;
        const LINE_LENGTH_IN: u32 = 0x418;
        const LAUNCH_DMA: u32 = 0x300;
        // Each of four components of four bytes is the first constant.
        const COMPONENTS: u32 = 0x4444 | 3 << 16 | 3 << 24;
        // Not pipelined, flushed, both sides in lines, components exchanged.
        const LAUNCH: u32 = 2 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10;
        let class = u32::from(self.client().info().classes.copy);
        let words = [
            header(COPY_SUBCHANNEL, 0, 1),
            class,
            header(COPY_SUBCHANNEL, SET_REMAP_CONST_A, 3),
            0,
            0,
            COMPONENTS,
            header(COPY_SUBCHANNEL, OFFSET_OUT, 2),
            (va >> 32) as u32,
            va as u32,
            header(COPY_SUBCHANNEL, LINE_LENGTH_IN, 2),
            (bytes / PIXEL_BYTES) as u32,
            1,
            header(COPY_SUBCHANNEL, LAUNCH_DMA, 1),
            LAUNCH,
        ];
        self.submit_service(&words)
    }
}

/// Returns an error unless a range is whole pages.
fn require_pages(va: u64, bytes: u64) -> Result<(), PlayError> {
    let is_whole = |n: u64| n.is_multiple_of(PAGE_BYTES as u64);
    match is_whole(va) && is_whole(bytes) {
        true => Ok(()),
        false => Err(PlayError::Unaligned { va, bytes }),
    }
}
