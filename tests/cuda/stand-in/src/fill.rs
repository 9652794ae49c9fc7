//! A fill of memory: rows of elements of one, two or four bytes.

use crate::Answer;
use crate::codes::{ILLEGAL_ADDRESS, INVALID_VALUE};
use crate::memory::table::{ranges, spans};
use cuda_driver::FillNode;

/// A fill of memory with a value.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    to: u64,
    pitch: u64,
    value: u32,
    element: u32,
    width: u64,
    height: u64,
}

impl Fill {
    /// Returns the fill as a graph node's structure.
    pub fn to_node(self) -> FillNode {
        FillNode {
            to: self.to,
            pitch: self.pitch as usize,
            value: self.value,
            element: self.element,
            width: self.width as usize,
            height: self.height as usize,
        }
    }

    /// Parses a fill from the driver's structure.
    pub fn from_node(form: &FillNode) -> Answer<Self> {
        if !matches!(form.element, 1 | 2 | 4) || !form.to.is_multiple_of(form.element.into()) {
            return Err(INVALID_VALUE);
        }
        let (width, height) = (form.width as u64, form.height.max(1) as u64);
        let bytes = width.checked_mul(form.element.into()).ok_or(INVALID_VALUE)?;
        if height > 1 && (form.pitch as u64) < bytes {
            return Err(INVALID_VALUE);
        }
        Ok(Self {
            to: form.to,
            pitch: form.pitch as u64,
            value: form.value,
            element: form.element,
            width,
            height,
        })
    }

    fn row(&self, y: u64) -> Answer<(u64, u64)> {
        let at = self.pitch.checked_mul(y).and_then(|behind| self.to.checked_add(behind));
        Ok((at.ok_or(INVALID_VALUE)?, self.width * u64::from(self.element)))
    }

    /// Checks whether all of it is accessible now.
    pub fn check(&self) -> Answer {
        let ranges = ranges();
        (0..self.height).try_for_each(|y| {
            let (at, bytes) = self.row(y)?;
            spans(&ranges, at, bytes, true, INVALID_VALUE).map(drop)
        })
    }

    /// Runs the fill.
    pub fn run(&self) -> Answer {
        let ranges = ranges();
        let value = self.value.to_le_bytes();
        let pattern = value.get(..self.element as usize).unwrap_or(&value);
        for y in 0..self.height {
            let (at, bytes) = self.row(y)?;
            let mut place = 0;
            for span in spans(&ranges, at, bytes, true, ILLEGAL_ADDRESS)? {
                for n in 0..span.bytes {
                    let byte = pattern.get((place + n) as usize % pattern.len()).copied().unwrap_or(0);
                    // SAFETY: the table of ranges holds the memory, which cannot be freed during the access.
                    unsafe { span.pointer().add(n as usize).write(byte) };
                }
                place += span.bytes;
            }
        }
        Ok(())
    }
}
