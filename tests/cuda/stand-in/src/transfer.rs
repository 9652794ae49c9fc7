//! A copy: its two sides, rows and slices, and how it runs.

use crate::Answer;
use crate::codes::{ILLEGAL_ADDRESS, INVALID_VALUE};
use crate::handles::pointer;
use crate::memory::arrays::ARRAYS;
use crate::memory::table::{Ranges, Span, find_containing, ranges, spans};
use cuda_driver::{Copy3d, CuArray, MEMORY_ARRAY, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED};

/// One side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The memory is known to the device; otherwise it is the program's own.
    pub device: bool,
    /// Handle of an array, or 0.
    array: usize,
    /// First address; of an array, the offset of the first byte.
    at: u64,
    /// Bytes from one row to the next.
    pitch: u64,
    /// Bytes from one slice to the next.
    slice: u64,
}

/// A copy.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub to: Side,
    pub from: Side,
    width: u64,
    height: u64,
    depth: u64,
}

impl Side {
    /// Returns the side of one row.
    pub fn linear(device: bool, at: u64) -> Self {
        Self {
            device,
            array: 0,
            at,
            pitch: 0,
            slice: 0,
        }
    }

    /// Returns the side of consecutive bytes of an array, if the array has all of them.
    pub fn of_array(array: CuArray, offset: usize, bytes: usize) -> Answer<Self> {
        let array = ARRAYS.get(array)?;
        let end = (offset as u64).checked_add(bytes as u64);
        end.filter(|end| *end <= array.bytes).ok_or(INVALID_VALUE)?;
        Ok(Self {
            array: array.handle,
            ..Self::linear(true, offset as u64)
        })
    }

    /// Returns the side for an address whose kind the driver finds out.
    pub fn any(at: u64) -> Self {
        Self::linear(find_containing(&ranges(), at).is_some(), at)
    }

    /// Returns whether it is program memory that the driver does not know.
    pub fn is_pageable(&self) -> bool {
        !self.device && find_containing(&ranges(), self.at).is_none_or(|r| !r.kind.is_host())
    }

    fn row(&self, y: u64, z: u64) -> Option<u64> {
        let rows = self.pitch.checked_mul(y)?;
        let slices = self.slice.checked_mul(z)?;
        self.at.checked_add(rows)?.checked_add(slices)
    }

    /// Returns the location of a row in this process.
    fn spans(&self, ranges: &Ranges, y: u64, z: u64, width: u64, write: bool, otherwise: u32) -> Answer<Vec<Span>> {
        let at = self.row(y, z).ok_or(INVALID_VALUE)?;
        if self.array != 0 {
            let array = ARRAYS.get(pointer(self.array)).map_err(|_| otherwise)?;
            let end = at.checked_add(width).filter(|end| *end <= array.bytes);
            end.ok_or(otherwise)?;
            Ok(vec![Span::of_process(array.at() + at, width)])
        } else if self.device {
            spans(ranges, at, width, write, otherwise)
        } else {
            Ok(vec![Span::of_process(at, width)])
        }
    }
}

impl Transfer {
    /// Returns a copy of consecutive bytes.
    pub fn linear(to: Side, from: Side, bytes: usize) -> Self {
        Self {
            to,
            from,
            width: bytes as u64,
            height: 1,
            depth: 1,
        }
    }

    /// Parses a copy of slices from the driver's structure.
    pub fn from_copy3d(c: &Copy3d) -> Answer<Self> {
        let side = |kind: u32, host: u64, device: u64, array: CuArray, pitch: usize, height: usize, at: [usize; 3]| {
            let (pitch, height) = (pitch as u64, height as u64);
            let base = match kind {
                MEMORY_HOST => Side::linear(false, host),
                MEMORY_DEVICE => Side::linear(true, device),
                MEMORY_UNIFIED => Side::any(device),
                MEMORY_ARRAY => {
                    let array = ARRAYS.get(array)?;
                    return Ok(Side {
                        pitch: array.row,
                        slice: array.row * array.rows,
                        at: array.offset_of(at, [c.width as u64, c.height as u64, c.depth as u64])?,
                        array: array.handle,
                        ..Side::linear(true, 0)
                    });
                }
                _ => return Err(INVALID_VALUE),
            };
            let whole = Side {
                pitch,
                slice: pitch.checked_mul(height).ok_or(INVALID_VALUE)?,
                ..base
            };
            let at = whole
                .row(at[1] as u64, at[2] as u64)
                .and_then(|row| row.checked_add(at[0] as u64));
            Ok(Side {
                at: at.ok_or(INVALID_VALUE)?,
                ..whole
            })
        };
        let transfer = Self {
            from: side(
                c.source_kind,
                c.source_host as u64,
                c.source_device,
                c.source_array,
                c.source_pitch,
                c.source_height,
                [c.source_x, c.source_y, c.source_z],
            )?,
            to: side(
                c.to_kind,
                c.to_host as u64,
                c.to_device,
                c.to_array,
                c.to_pitch,
                c.to_height,
                [c.to_x, c.to_y, c.to_z],
            )?,
            width: c.width as u64,
            height: c.height as u64,
            depth: c.depth as u64,
        };
        Ok(transfer)
    }

    /// Returns the copy as a graph node's structure.
    pub fn to_copy3d(&self) -> Copy3d {
        let kind = |side: &Side| match side.device {
            _ if side.array != 0 => MEMORY_ARRAY,
            true => MEMORY_DEVICE,
            false => MEMORY_HOST,
        };
        // The position in an array is in the structure; that in other memory is a part of the address.
        let position = |side: &Side| match (side.array, side.slice.max(1), side.pitch.max(1)) {
            (0, ..) => [0; 3],
            (_, slice, row) => [side.at % row, side.at % slice / row, side.at / slice].map(|n| n as usize),
        };
        let (source, target) = (position(&self.from), position(&self.to));
        let host = |side: &Side| if side.device { 0 } else { side.at as usize };
        let device = |side: &Side| if side.device && side.array == 0 { side.at } else { 0 };
        let height = |side: &Side| side.slice.checked_div(side.pitch).unwrap_or(0) as usize;
        Copy3d {
            source_x: source[0],
            source_y: source[1],
            source_z: source[2],
            source_level: 0,
            source_kind: kind(&self.from),
            source_host: std::ptr::with_exposed_provenance(host(&self.from)),
            source_device: device(&self.from),
            source_array: pointer(self.from.array),
            reserved0: std::ptr::null_mut(),
            source_pitch: self.from.pitch as usize,
            source_height: height(&self.from),
            to_x: target[0],
            to_y: target[1],
            to_z: target[2],
            to_level: 0,
            to_kind: kind(&self.to),
            to_host: std::ptr::with_exposed_provenance_mut(host(&self.to)),
            to_device: device(&self.to),
            to_array: pointer(self.to.array),
            reserved1: std::ptr::null_mut(),
            to_pitch: self.to.pitch as usize,
            to_height: height(&self.to),
            width: self.width as usize,
            height: self.height as usize,
            depth: self.depth as usize,
        }
    }

    fn rows(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let height = if self.width == 0 { 0 } else { self.height };
        (0..self.depth).flat_map(move |z| (0..height).map(move |y| (y, z)))
    }

    /// Checks whether all of it is accessible now.
    pub fn check(&self) -> Answer {
        let ranges = ranges();
        for (y, z) in self.rows() {
            self.to.spans(&ranges, y, z, self.width, true, INVALID_VALUE)?;
            self.from.spans(&ranges, y, z, self.width, false, INVALID_VALUE)?;
        }
        Ok(())
    }

    /// Runs the copy.
    pub fn run(&self) -> Answer {
        // Locked during the copy: a concurrent free waits.
        let ranges = ranges();
        for (y, z) in self.rows() {
            let to = self.to.spans(&ranges, y, z, self.width, true, ILLEGAL_ADDRESS)?;
            let from = self.from.spans(&ranges, y, z, self.width, false, ILLEGAL_ADDRESS)?;
            move_bytes(&to, &from);
        }
        Ok(())
    }

    /// Replaces the program's memory by a copy of its current bytes: rows one after another.
    pub fn stage(&self) -> (Vec<u8>, Self) {
        let mut bytes = Vec::new();
        for (y, z) in self.rows() {
            let at = Span::of_process(self.from.row(y, z).unwrap_or(0), self.width);
            // SAFETY: the program guarantees that this many bytes are readable.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(at.pointer(), self.width as usize) });
        }
        let from = Side {
            device: false,
            array: 0,
            at: bytes.as_ptr().expose_provenance() as u64,
            pitch: self.width,
            slice: self.width * self.height,
        };
        (bytes, Self { from, ..self.clone() })
    }
}

/// Copies bytes between spans of the same length.
fn move_bytes(to: &[Span], from: &[Span]) {
    let (mut to, mut from) = (to.iter().copied(), from.iter().copied());
    let (mut t, mut f) = (to.next(), from.next());
    while let (Some(into), Some(out)) = (t, f) {
        let bytes = into.bytes.min(out.bytes);
        // SAFETY: both are in memory that the table of ranges holds, or that the program guarantees to be accessible.
        unsafe { std::ptr::copy(out.pointer(), into.pointer(), bytes as usize) };
        t = if into.bytes > bytes {
            Some(into.skip(bytes))
        } else {
            to.next()
        };
        f = if out.bytes > bytes {
            Some(out.skip(bytes))
        } else {
            from.next()
        };
    }
}
