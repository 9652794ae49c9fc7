//! Copies and fills by a copy engine.

use super::{EncodeError, EngineKind, PushBufferWriter, address_words};
use crate::GpuVa;
use crate::methods::copy::{
    LAUNCH_DMA, LINE_LENGTH_IN, OFFSET_IN_UPPER, OFFSET_OUT_UPPER, SET_REMAP_CONST_A, SET_SEMAPHORE_A,
};

/// Maximum number of bytes in one line of a copy. Longer copies become several.
pub const MAX_COPY_BYTES: u64 = 1 << 30;
/// Address bits since Hopper. The older classes have 49.
const ADDRESS_BITS: u32 = 57;
/// `LAUNCH_DMA`: a copy that waits for earlier ones.
const NON_PIPELINED: u32 = 2;
/// `LAUNCH_DMA`: caches are flushed at the end.
const FLUSH: u32 = 1 << 2;
/// `LAUNCH_DMA`: source and destination have lines one after the other.
const PITCH: u32 = 1 << 7 | 1 << 8;
/// `LAUNCH_DMA`: the line count is used.
const MULTI_LINE: u32 = 1 << 9;
/// `LAUNCH_DMA`: components are exchanged.
const REMAP: u32 = 1 << 10;
/// Component that is not written.
const NO_WRITE: u32 = 6;

/// A copy of lines with a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRectangle {
    /// First byte of the source.
    pub source: GpuVa,
    /// Distance of two lines of the source in bytes.
    pub source_pitch: u32,
    /// First byte of the destination.
    pub destination: GpuVa,
    /// Distance of two lines of the destination in bytes.
    pub destination_pitch: u32,
    /// Length of a line in bytes, from 1.
    pub line_bytes: u32,
    /// Number of lines, from 1.
    pub lines: u32,
}

/// Bytes that a fill repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillPattern {
    /// One byte.
    Byte(u8),
    /// Two bytes, little-endian.
    Half(u16),
    /// Four bytes, little-endian.
    Word(u32),
    /// Eight bytes, little-endian.
    Wide(u64),
}

impl FillPattern {
    /// Returns the number of bytes that are repeated: 1, 2, 4 or 8.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Byte(_) => 1,
            Self::Half(_) => 2,
            Self::Word(_) => 4,
            Self::Wide(_) => 8,
        }
    }

    /// Returns the two constants and the value of `SET_REMAP_COMPONENTS`.
    fn remap(self) -> [u32; 3] {
        // Constant A is component x; constant B is y, or y is not written.
        let components = |size: u32, y: u32, count: u32| {
            4 | y << 4 | NO_WRITE << 8 | NO_WRITE << 12 | (size - 1) << 16 | (count - 1) << 24
        };
        match self {
            Self::Byte(value) => [value.into(), 0, components(1, NO_WRITE, 1)],
            Self::Half(value) => [value.into(), 0, components(2, NO_WRITE, 1)],
            Self::Word(value) => [value, 0, components(4, NO_WRITE, 1)],
            Self::Wide(value) => [value as u32, (value >> 32) as u32, components(4, 5, 2)],
        }
    }
}

impl PushBufferWriter {
    /// Writes a copy of bytes. More than [`MAX_COPY_BYTES`] become several copies; no bytes write nothing.
    ///
    /// # Errors
    /// [`EncodeError::Address`] if an address or an end is beyond the address space, [`EncodeError::UnboundEngine`]
    /// without a copy class.
    pub fn copy(&mut self, source: GpuVa, destination: GpuVa, bytes: u64) -> Result<(), EncodeError> {
        self.copy_address("the source", source, 0, bytes)?;
        self.copy_address("the destination", destination, 0, bytes)?;
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(MAX_COPY_BYTES);
            let from = self.copy_address("the source", source, done, part)?;
            let to = self.copy_address("the destination", destination, done, part)?;
            self.write_engine(EngineKind::Copy, OFFSET_IN_UPPER, &[from[0], from[1], to[0], to[1]])?;
            self.write_engine(EngineKind::Copy, LINE_LENGTH_IN, &[part as u32])?;
            self.write_engine(EngineKind::Copy, LAUNCH_DMA, &[NON_PIPELINED | PITCH])?;
            done += part;
        }
        Ok(())
    }

    /// Writes a copy of lines.
    ///
    /// # Errors
    /// [`EncodeError::Size`] without lines or bytes; same as [`PushBufferWriter::copy`] for addresses.
    pub fn copy_rectangle(&mut self, copy: CopyRectangle) -> Result<(), EncodeError> {
        for (what, value) in [
            ("the length of a line", copy.line_bytes),
            ("the number of lines", copy.lines),
        ] {
            if value == 0 {
                let max = u32::MAX.into();
                return Err(EncodeError::Size {
                    what,
                    value: 0,
                    min: 1,
                    max,
                });
            }
        }
        // Two factors of 32 bits and an addend of 32 bits fit 64 bits.
        let extent = |pitch: u32| u64::from(pitch) * u64::from(copy.lines - 1) + u64::from(copy.line_bytes);
        let from = self.copy_address("the source", copy.source, 0, extent(copy.source_pitch))?;
        let to = self.copy_address("the destination", copy.destination, 0, extent(copy.destination_pitch))?;
        let values = [
            from[0],
            from[1],
            to[0],
            to[1],
            copy.source_pitch,
            copy.destination_pitch,
            copy.line_bytes,
            copy.lines,
        ];
        self.write_engine(EngineKind::Copy, OFFSET_IN_UPPER, &values)?;
        self.write_engine(EngineKind::Copy, LAUNCH_DMA, &[NON_PIPELINED | PITCH | MULTI_LINE])
    }

    /// Writes a fill of memory with a pattern. `count` is the number of patterns; none write nothing.
    ///
    /// # Errors
    /// [`EncodeError::Size`] if the number of bytes exceeds 64 bits; same as [`PushBufferWriter::copy`] otherwise.
    pub fn fill(&mut self, destination: GpuVa, pattern: FillPattern, count: u64) -> Result<(), EncodeError> {
        let unit = pattern.bytes();
        let max = u64::MAX / unit;
        if count > max {
            return Err(EncodeError::Size {
                what: "the number of patterns",
                value: count,
                min: 0,
                max,
            });
        }
        let (bytes, mut done) = (count * unit, 0);
        self.copy_address("the destination", destination, 0, bytes)?;
        while done < bytes {
            let part = (bytes - done).min(MAX_COPY_BYTES);
            let to = self.copy_address("the destination", destination, done, part)?;
            self.write_engine(EngineKind::Copy, SET_REMAP_CONST_A, &pattern.remap())?;
            self.write_engine(EngineKind::Copy, OFFSET_OUT_UPPER, &to)?;
            self.write_engine(EngineKind::Copy, LINE_LENGTH_IN, &[(part / unit) as u32])?;
            self.write_engine(EngineKind::Copy, LAUNCH_DMA, &[NON_PIPELINED | PITCH | REMAP])?;
            done += part;
        }
        Ok(())
    }

    /// Writes the release of a semaphore by the copy engine, after its earlier copies. A time stamp makes it 16 bytes.
    ///
    /// # Errors
    /// [`EncodeError::Address`] if the address is not a multiple of 4 (16 with a time stamp).
    pub fn release_copy_semaphore(&mut self, address: GpuVa, payload: u32, timestamp: bool) -> Result<(), EncodeError> {
        let alignment = if timestamp { 16 } else { 4 };
        let bits = self.copy_address_bits()?;
        let [upper, lower] = address_words("the semaphore at", address, alignment, bits)?;
        let kind = if timestamp { 2 } else { 1 };
        self.write_engine(EngineKind::Copy, SET_SEMAPHORE_A, &[upper, lower, payload])?;
        self.write_engine(EngineKind::Copy, LAUNCH_DMA, &[FLUSH | kind << 3])
    }

    fn copy_address_bits(&self) -> Result<u32, EncodeError> {
        let (_, class) = self.engine(EngineKind::Copy)?;
        Ok(if class >= 0xc8b5 { ADDRESS_BITS } else { 49 })
    }

    /// Returns the words of an address some bytes further, and checks that the bytes after it exist.
    fn copy_address(&self, what: &'static str, base: GpuVa, done: u64, bytes: u64) -> Result<[u32; 2], EncodeError> {
        let bits = self.copy_address_bits()?;
        let error = || EncodeError::Address {
            what,
            address: base,
            alignment: 1,
            bits,
        };
        let address = base.checked_add(done).ok_or_else(error)?;
        let last = address.checked_add(bytes.saturating_sub(1)).ok_or_else(error)?;
        if last.0 >> bits != 0 {
            return Err(error());
        }
        address_words(what, address, 1, bits)
    }
}
