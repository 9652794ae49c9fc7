//! Copies between an array and consecutive bytes of host memory.

use crate::{Decoder, Encoder, HandleNumber, MessageError};

/// Direction of a copy between an array and host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayCopyDirection {
    /// From host memory to the array.
    ToArray,
    /// From the array to host memory.
    FromArray,
}

/// A copy between an array and host memory that both processes map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayCopy {
    /// Direction.
    pub direction: ArrayCopyDirection,
    /// The array.
    pub array: HandleNumber,
    /// First byte in the array.
    pub offset: u64,
    /// First byte in the window.
    pub host: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Stream.
    pub stream: HandleNumber,
}

impl ArrayCopy {
    /// Appends the copy to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(u8::from(self.direction == ArrayCopyDirection::FromArray));
        encoder.write(self.array);
        for value in [self.offset, self.host, self.bytes] {
            encoder.write(value);
        }
        encoder.write(self.stream);
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let direction = match decoder.read_flag("the direction of the copy")? {
            false => ArrayCopyDirection::ToArray,
            true => ArrayCopyDirection::FromArray,
        };
        Ok(Self {
            direction,
            array: decoder.read()?,
            offset: decoder.read()?,
            host: decoder.read()?,
            bytes: decoder.read()?,
            stream: decoder.read()?,
        })
    }
}
