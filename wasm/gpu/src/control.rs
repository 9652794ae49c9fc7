//! The control words of the copies of a group, as they stand in the areas, in host memory.

use crate::device::{Device, DeviceAddress, DeviceError, QueueId, Rows};
use wasm_ptx::{CONTROL_WORDS, CopyState, LANES, Layout, WORD_STRIDE, Word};

/// Argument slots of 64 bits that the host reads and writes: host functions have at most two arguments.
const SLOTS: u32 = 2;
/// Bytes of the control words and the slots of a warp.
const ROW_BYTES: usize = (CONTROL_WORDS as u64 + 2 * SLOTS as u64) as usize * WORD_STRIDE as usize;

/// The control words of a group: one row for each warp.
#[derive(Clone, Debug)]
pub(crate) struct ControlWords {
    rows: Vec<u8>,
    /// Warps that the device does not have yet.
    changed: Vec<bool>,
}

impl ControlWords {
    /// Creates the words of empty copies, which the device does not have yet.
    pub fn new(warps: u32) -> Self {
        Self {
            rows: vec![0; warps as usize * ROW_BYTES],
            changed: vec![true; warps as usize],
        }
    }

    fn index(copy: u32, word: u32) -> usize {
        let (warp, lane) = ((copy / LANES) as usize, (copy % LANES) as usize);
        warp * ROW_BYTES + word as usize * WORD_STRIDE as usize + lane * 4
    }

    fn read(&self, index: usize) -> u32 {
        let bytes = self.rows.get(index..).and_then(|b| b.first_chunk());
        bytes.copied().map_or(0, u32::from_le_bytes)
    }

    fn write(&mut self, copy: u32, index: usize, value: u32) {
        if let Some(to) = self.rows.get_mut(index..).and_then(|b| b.first_chunk_mut()) {
            *to = value.to_le_bytes();
        }
        if let Some(changed) = self.changed.get_mut((copy / LANES) as usize) {
            *changed = true;
        }
    }

    /// Returns a word of a copy.
    pub fn word(&self, copy: u32, word: Word) -> u32 {
        self.read(Self::index(copy, word as u32))
    }

    /// Sets a word of a copy.
    pub fn set_word(&mut self, copy: u32, word: Word, value: u32) {
        self.write(copy, Self::index(copy, word as u32), value);
    }

    /// Returns the state of a copy, or `None` if the word holds no state.
    pub fn state(&self, copy: u32) -> Option<CopyState> {
        CopyState::from_code(self.word(copy, Word::State))
    }

    /// Sets the state of a copy.
    pub fn set_state(&mut self, copy: u32, state: CopyState) {
        self.set_word(copy, Word::State, state as u32);
    }

    /// Returns the low half of an argument slot, 0 or 1.
    pub fn slot(&self, copy: u32, slot: u32) -> u32 {
        self.read(Self::index(copy, CONTROL_WORDS + 2 * slot))
    }

    /// Sets an argument slot, 0 or 1. The high half becomes 0.
    pub fn set_slot(&mut self, copy: u32, slot: u32, value: u32) {
        self.write(copy, Self::index(copy, CONTROL_WORDS + 2 * slot), value);
        self.write(copy, Self::index(copy, CONTROL_WORDS + 2 * slot + 1), 0);
    }

    fn rows_of(layout: &Layout, areas: DeviceAddress, warps: std::ops::Range<usize>) -> Result<Rows, DeviceError> {
        let pitch = layout.area_bytes();
        let offset = pitch.checked_mul(warps.start as u64);
        let offset = offset.ok_or_else(|| DeviceError::Range(format!("warp {}", warps.start)))?;
        Ok(Rows {
            start: areas.offset(offset)?,
            pitch,
            width: ROW_BYTES as u64,
            count: warps.len() as u64,
        })
    }

    /// Reads the words of all warps from the device.
    ///
    /// # Errors
    /// When the device fails.
    pub fn load(
        &mut self,
        device: &mut dyn Device,
        queue: QueueId,
        layout: &Layout,
        areas: DeviceAddress,
    ) -> Result<(), DeviceError> {
        let rows = Self::rows_of(layout, areas, 0..self.changed.len())?;
        device.read_rows(queue, rows, &mut self.rows)
    }

    /// Writes the words of the changed warps to the device.
    ///
    /// # Errors
    /// When the device fails.
    pub fn store(
        &mut self,
        device: &mut dyn Device,
        queue: QueueId,
        layout: &Layout,
        areas: DeviceAddress,
    ) -> Result<(), DeviceError> {
        let (mut start, mut parts, mut ranges) = (0, Vec::new(), Vec::new());
        while start < self.changed.len() {
            let run = self.changed.iter().skip(start).take_while(|c| **c).count();
            if run == 0 {
                start += 1;
                continue;
            }
            parts.push(Self::rows_of(layout, areas, start..start + run)?);
            ranges.push(start * ROW_BYTES..(start + run) * ROW_BYTES);
            start += run;
        }
        let rows = &self.rows;
        device.write_parts(queue, &parts, &|part, to| {
            let range = ranges.get(part).cloned().unwrap_or_default();
            if let Some(from) = rows.get(range).filter(|from| from.len() == to.len()) {
                to.copy_from_slice(from);
            }
        })?;
        self.changed.fill(false);
        Ok(())
    }
}
