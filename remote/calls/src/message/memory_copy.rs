//! Copies of boxes between host memory, device memory and arrays.

use crate::{Decoder, Encoder, HandleNumber, MessageError};

/// Memory at one end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPlace {
    /// Host memory that both processes map: its offset there, bytes.
    Window(u64),
    /// Device memory: its address.
    Device(u64),
    /// An array of texels.
    Array(HandleNumber),
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySide {
    /// The memory.
    pub place: MemoryPlace,
    /// Offset in a row, bytes.
    pub x: u64,
    /// First row.
    pub y: u64,
    /// First layer.
    pub z: u64,
    /// Level of a mipmapped array.
    pub level: u64,
    /// Distance of two rows, bytes. Arrays have none.
    pub pitch: u64,
    /// Distance of two layers, rows. Arrays have none.
    pub layer_rows: u64,
}

/// A copy of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCopy {
    /// The source.
    pub source: MemorySide,
    /// The target.
    pub target: MemorySide,
    /// Size of a row, bytes.
    pub width: u64,
    /// Number of rows.
    pub height: u64,
    /// Number of layers.
    pub depth: u64,
}

impl MemorySide {
    fn write(&self, encoder: &mut Encoder) {
        match self.place {
            MemoryPlace::Window(offset) => {
                encoder.write(0u8);
                encoder.write(offset);
            }
            MemoryPlace::Device(at) => {
                encoder.write(1u8);
                encoder.write(at);
            }
            MemoryPlace::Array(array) => {
                encoder.write(2u8);
                encoder.write(array);
            }
        }
        for value in [self.x, self.y, self.z, self.level, self.pitch, self.layer_rows] {
            encoder.write(value);
        }
    }

    fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        let place = match decoder.read::<u8>()? {
            0 => MemoryPlace::Window(decoder.read()?),
            1 => MemoryPlace::Device(decoder.read()?),
            2 => MemoryPlace::Array(decoder.read()?),
            other => {
                return Err(MessageError::Unknown {
                    what: "the kind of memory",
                    value: other.into(),
                    at,
                });
            }
        };
        Ok(Self {
            place,
            x: decoder.read()?,
            y: decoder.read()?,
            z: decoder.read()?,
            level: decoder.read()?,
            pitch: decoder.read()?,
            layer_rows: decoder.read()?,
        })
    }

    /// Returns the number of bytes from the start of linear memory that the side of a copy can reach, or `None` if it is
    /// more than any memory has. The pitch counts for all rows but the last.
    #[must_use]
    pub fn reach(&self, copy: &MemoryCopy) -> Option<u64> {
        if copy.width == 0 || copy.height == 0 || copy.depth == 0 {
            return Some(0);
        }
        let last_layer = self.z.checked_add(copy.depth - 1)?;
        let last_row = self.y.checked_add(copy.height - 1)?;
        let rows = last_layer.checked_mul(self.layer_rows)?.checked_add(last_row)?;
        let row_end = self.x.checked_add(copy.width)?;
        rows.checked_mul(self.pitch)?.checked_add(row_end)
    }
}

impl MemoryCopy {
    /// Appends the copy to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        self.source.write(encoder);
        self.target.write(encoder);
        for value in [self.width, self.height, self.depth] {
            encoder.write(value);
        }
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            source: MemorySide::read(decoder)?,
            target: MemorySide::read(decoder)?,
            width: decoder.read()?,
            height: decoder.read()?,
            depth: decoder.read()?,
        })
    }
}
