//! Parts of messages of library calls: scalars, results, and numbers of host generators.

use super::NvidiaLibrary;
use crate::{Decoder, Encoder, MessageError};

/// Maximum size of a scalar, bytes: a complex number of two doubles.
pub const MAX_SCALAR_BYTES: usize = 16;
/// Maximum size of a part of generated numbers in an answer, bytes.
pub const MAX_GENERATED_PART: usize = 64 << 10;

/// A scalar that a call reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarPart<'m> {
    /// The program passes a null pointer.
    Null,
    /// The value, from host memory.
    Host(&'m [u8]),
    /// The address in device memory.
    Device(u64),
}

impl<'m> ScalarPart<'m> {
    /// Appends the scalar to a message.
    pub fn write(self, encoder: &mut Encoder) {
        match self {
            Self::Null => encoder.write(0u8),
            Self::Host(bytes) => {
                encoder.write(1u8);
                encoder.write_bytes(bytes);
            }
            Self::Device(at) => {
                encoder.write(2u8);
                encoder.write(at);
            }
        }
    }

    /// Reads a scalar.
    ///
    /// # Errors
    /// If the message is not one, or the scalar has more than [`MAX_SCALAR_BYTES`].
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        match decoder.read::<u8>()? {
            0 => Ok(Self::Null),
            1 => {
                let bytes = decoder.read_bytes()?;
                if bytes.len() > MAX_SCALAR_BYTES {
                    return Err(MessageError::TooLong {
                        what: "the scalar",
                        count: bytes.len() as u64,
                        limit: MAX_SCALAR_BYTES as u64,
                        at,
                    });
                }
                Ok(Self::Host(bytes))
            }
            2 => Ok(Self::Device(decoder.read()?)),
            other => Err(unknown_place(other, at)),
        }
    }
}

/// Where a call writes a result or an array of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultPart {
    /// The program passes a null pointer.
    Null,
    /// Host memory: the result comes with the answer.
    Host,
    /// The address in device memory.
    Device(u64),
}

impl ResultPart {
    /// Appends the place to a message.
    pub fn write(self, encoder: &mut Encoder) {
        match self {
            Self::Null => encoder.write(0u8),
            Self::Host => encoder.write(1u8),
            Self::Device(at) => {
                encoder.write(2u8);
                encoder.write(at);
            }
        }
    }

    /// Reads a place.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        match decoder.read::<u8>()? {
            0 => Ok(Self::Null),
            1 => Ok(Self::Host),
            2 => Ok(Self::Device(decoder.read()?)),
            other => Err(unknown_place(other, at)),
        }
    }
}

const fn unknown_place(place: u8, at: usize) -> MessageError {
    MessageError::Unknown {
        what: "the place of the value",
        value: place as u64,
        at,
    }
}

/// Request for a library, before its first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLibrary {
    /// The library.
    pub library: NvidiaLibrary,
    /// Major version that the program was built for.
    pub major: u32,
}

impl OpenLibrary {
    /// Appends the request to a message.
    pub fn write(self, encoder: &mut Encoder) {
        encoder.write(self.library);
        encoder.write(self.major);
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            library: decoder.read()?,
            major: decoder.read()?,
        })
    }
}

/// Answer to [`OpenLibrary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryOpening<'m> {
    /// The library is loaded.
    Loaded,
    /// The library could not be loaded, with the loader's reason.
    Missing(&'m str),
}

impl<'m> LibraryOpening<'m> {
    /// Appends the answer to a message.
    pub fn write(self, encoder: &mut Encoder) {
        match self {
            Self::Loaded => encoder.write(0u8),
            Self::Missing(why) => {
                encoder.write(1u8);
                encoder.write_bytes(why.as_bytes());
            }
        }
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        match decoder.read::<u8>()? {
            0 => Ok(Self::Loaded),
            1 => Ok(Self::Missing(decoder.read_text()?)),
            other => Err(MessageError::Unknown {
                what: "the state of the library",
                value: other.into(),
                at,
            }),
        }
    }
}

/// Request for the next numbers that a host generator made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadGenerated {
    /// The generator.
    pub generator: super::LibraryHandle,
    /// Offset of the first byte.
    pub offset: u64,
}

impl ReadGenerated {
    /// Appends the request to a message.
    pub fn write(self, encoder: &mut Encoder) {
        encoder.write(self.generator);
        encoder.write(self.offset);
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            generator: decoder.read()?,
            offset: decoder.read()?,
        })
    }
}

/// A part of the numbers of a host generator: at most [`MAX_GENERATED_PART`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedPart<'m>(pub &'m [u8]);

impl<'m> GeneratedPart<'m> {
    /// Appends the part to a message.
    pub fn write(self, encoder: &mut Encoder) {
        encoder.write_bytes(self.0);
    }

    /// Reads a part.
    ///
    /// # Errors
    /// If the message is not one, or the part is too long.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        let bytes = decoder.read_bytes()?;
        match bytes.len() <= MAX_GENERATED_PART {
            true => Ok(Self(bytes)),
            false => Err(MessageError::TooLong {
                what: "the part of the numbers",
                count: bytes.len() as u64,
                limit: MAX_GENERATED_PART as u64,
                at,
            }),
        }
    }
}
