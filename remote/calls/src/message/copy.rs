//! Copies between memory of the program and memory of the device.

use crate::{Decoder, Encoder, HandleNumber, MessageError};

/// The program's side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPart<'m> {
    /// The bytes are in the message; for a copy to the program, they come with the answer and this slice is empty.
    Inline(&'m [u8]),
    /// The bytes are in the staging area.
    Staging {
        /// Ticket of the range. The worker releases it after the copy.
        ticket: u64,
        /// Offset in the staging area, bytes.
        offset: u64,
    },
    /// The bytes are in host memory that both processes map, at this offset.
    Window(u64),
}

impl<'m> HostPart<'m> {
    fn write(self, encoder: &mut Encoder) {
        match self {
            Self::Inline(bytes) => {
                encoder.write(0u8);
                encoder.write_bytes(bytes);
            }
            Self::Staging { ticket, offset } => {
                encoder.write(1u8);
                encoder.write(ticket);
                encoder.write(offset);
            }
            Self::Window(offset) => {
                encoder.write(2u8);
                encoder.write(offset);
            }
        }
    }

    fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        match decoder.read::<u8>()? {
            0 => Ok(Self::Inline(decoder.read_bytes()?)),
            1 => Ok(Self::Staging {
                ticket: decoder.read()?,
                offset: decoder.read()?,
            }),
            2 => Ok(Self::Window(decoder.read()?)),
            other => Err(MessageError::Unknown {
                what: "the place of the bytes",
                value: other.into(),
                at,
            }),
        }
    }
}

/// A copy from the program's memory to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyToDevice<'m> {
    /// Address of the first byte on the device.
    pub to: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Stream.
    pub stream: HandleNumber,
    /// The bytes.
    pub source: HostPart<'m>,
}

impl<'m> CopyToDevice<'m> {
    /// Appends the copy to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.to);
        encoder.write(self.bytes);
        encoder.write(self.stream);
        self.source.write(encoder);
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// If the message is not one, or has another number of bytes than it says.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let to = decoder.read()?;
        let at = decoder.offset();
        let bytes: u64 = decoder.read()?;
        let stream = decoder.read()?;
        let source = HostPart::read(decoder)?;
        if let HostPart::Inline(inline) = source
            && inline.len() as u64 != bytes
        {
            return Err(MessageError::Unknown {
                what: "the number of bytes",
                value: bytes,
                at,
            });
        }
        Ok(Self {
            to,
            bytes,
            stream,
            source,
        })
    }
}

/// A copy from the device to the program's memory. The worker answers when the bytes are in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyToHost<'m> {
    /// Address of the first byte on the device.
    pub from: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Stream.
    pub stream: HandleNumber,
    /// Where the bytes go.
    pub target: HostPart<'m>,
}

impl<'m> CopyToHost<'m> {
    /// Appends the copy to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.from);
        encoder.write(self.bytes);
        encoder.write(self.stream);
        self.target.write(encoder);
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        Ok(Self {
            from: decoder.read()?,
            bytes: decoder.read()?,
            stream: decoder.read()?,
            target: HostPart::read(decoder)?,
        })
    }
}

/// Maximum number of requests in a [`CompletedCopies`].
pub const MAX_COMPLETED: u32 = 1024;

/// Asynchronous copies to the window that are complete. A worker of a relayed program sends it before the answer from
/// which the program can know it, in an answer with the sequence number 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletedCopies {
    /// Sequence numbers of the requests.
    pub requests: Vec<u64>,
}

impl CompletedCopies {
    /// Appends the list to an answer.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write_list(&self.requests);
    }

    /// Reads a list.
    ///
    /// # Errors
    /// If the answer is not one, or exceeds [`MAX_COMPLETED`].
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let requests = decoder.read_list("the list of completed copies", MAX_COMPLETED)?;
        decoder.finish()?;
        Ok(Self { requests })
    }
}
