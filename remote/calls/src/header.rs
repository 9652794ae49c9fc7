//! Headers of requests and answers.

use crate::{CallId, Decoder, Encoder, HandleNumber, MessageError};

/// Size of a request's header, bytes.
pub const REQUEST_HEADER_BYTES: usize = 20;
/// Size of an answer's header, bytes.
pub const ANSWER_HEADER_BYTES: usize = 24;

/// Properties of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFlags(u16);

impl RequestFlags {
    /// The client waits for the answer.
    pub const ANSWERED: Self = Self(1);
    /// The call may wait for the device: the worker continues with other threads' calls.
    pub const BLOCKING: Self = Self(2);
    const ALL: u16 = 3;

    /// Returns whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The call.
    pub call: CallId,
    /// Its properties.
    pub flags: RequestFlags,
    /// Number of the calling thread of the program, from 1.
    pub thread: u32,
    /// Number of the request. Answers repeat it.
    pub sequence: u64,
    /// The thread's current context; null if it has none.
    pub context: HandleNumber,
}

impl RequestHeader {
    /// Returns the header as the first bytes of a message.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        let (head, sequence) = (
            u64::from(self.call.number()) | u64::from(self.flags.0) << 16 | u64::from(self.thread) << 32,
            self.sequence,
        );
        bytes[..8].copy_from_slice(&head.to_le_bytes());
        bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
        bytes[16..].copy_from_slice(&self.context.get().to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// If the message is shorter, or names an unknown call or flag.
    #[inline]
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        let number: u16 = decoder.read()?;
        let call = CallId::from_number(number).ok_or(MessageError::Unknown {
            what: "the call",
            value: number.into(),
            at,
        })?;
        let at = decoder.offset();
        let flags: u16 = decoder.read()?;
        if flags & !RequestFlags::ALL != 0 {
            return Err(MessageError::Unknown {
                what: "the set of flags",
                value: flags.into(),
                at,
            });
        }
        Ok(Self {
            call,
            flags: RequestFlags(flags),
            thread: decoder.read()?,
            sequence: decoder.read()?,
            context: decoder.read()?,
        })
    }
}

/// Header of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerHeader {
    /// Number of the request.
    pub sequence: u64,
    /// Result of the call, as the driver returned it.
    pub result: u32,
    /// Result of the first call without an answer that failed since the last answer; 0 if none failed.
    pub deferred: u32,
    /// All staging ranges with lower tickets are free again.
    pub released: u64,
}

impl AnswerHeader {
    /// Appends the header to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.sequence);
        encoder.write(self.result);
        encoder.write(self.deferred);
        encoder.write(self.released);
    }

    /// Reads a header.
    ///
    /// # Errors
    /// If the message is shorter.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            sequence: decoder.read()?,
            result: decoder.read()?,
            deferred: decoder.read()?,
            released: decoder.read()?,
        })
    }
}
