//! Encoder and decoder of message payloads: little-endian values without padding.

use crate::MessageError;

/// Maximum size of a text, bytes: names of functions can be long, paths cannot.
pub const MAX_TEXT_BYTES: u64 = 64 << 10;

/// Writes values to the end of a message.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder that reuses the memory of an earlier message.
    #[must_use]
    pub fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { bytes: buffer }
    }

    /// Appends a value.
    #[inline]
    pub fn write<T: Scalar>(&mut self, value: T) {
        value.append_to(&mut self.bytes);
    }

    /// Appends bytes without their number.
    #[inline]
    pub fn write_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the number of bytes as `u32`, and the bytes. Bytes beyond 4 GiB are cut: no message is that long.
    #[inline]
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.write(count);
        self.write_raw(bytes.get(..count as usize).unwrap_or(bytes));
    }

    /// Appends a list: the number of elements as `u32`, and the elements.
    pub fn write_list<T: Scalar>(&mut self, values: &[T]) {
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        self.write(count);
        for value in values.iter().take(count as usize) {
            self.write(*value);
        }
    }

    /// Returns the message so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the memory of the message.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads values from the start of a message. Every count is checked against the bytes left.
#[derive(Clone, Debug)]
pub struct Decoder<'m> {
    message: &'m [u8],
    at: usize,
}

impl<'m> Decoder<'m> {
    /// Creates a decoder of a whole payload.
    #[must_use]
    pub const fn new(message: &'m [u8]) -> Self {
        Self { message, at: 0 }
    }

    /// Returns the offset of the next value, bytes.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Reads a value.
    ///
    /// # Errors
    /// If the message ends inside it.
    #[inline]
    pub fn read<T: Scalar>(&mut self) -> Result<T, MessageError> {
        T::read_from(self)
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    /// If the message has fewer.
    #[inline]
    pub fn read_raw(&mut self, count: usize) -> Result<&'m [u8], MessageError> {
        let rest = self.message.get(self.at..).unwrap_or_default();
        let Some(bytes) = rest.get(..count) else {
            return Err(MessageError::Truncated {
                at: self.at,
                needed: count,
            });
        };
        self.at += count;
        Ok(bytes)
    }

    /// Reads a byte that is 0 or 1. `what` names it in errors.
    ///
    /// # Errors
    /// If it is another number, or if the message ends before.
    pub fn read_flag(&mut self, what: &'static str) -> Result<bool, MessageError> {
        let at = self.at;
        match self.read::<u8>()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(MessageError::Unknown {
                what,
                value: other.into(),
                at,
            }),
        }
    }

    /// Reads a number of bytes and the bytes.
    ///
    /// # Errors
    /// If the message ends before.
    pub fn read_bytes(&mut self) -> Result<&'m [u8], MessageError> {
        let count: u32 = self.read()?;
        self.read_raw(count as usize)
    }

    /// Reads a text without zeros.
    ///
    /// # Errors
    /// If it is longer than [`MAX_TEXT_BYTES`], not UTF-8, or contains a zero.
    pub fn read_text(&mut self) -> Result<&'m str, MessageError> {
        let at = self.at;
        let bytes = self.read_bytes()?;
        if bytes.len() as u64 > MAX_TEXT_BYTES {
            return Err(MessageError::TooLong {
                what: "the text",
                count: bytes.len() as u64,
                limit: MAX_TEXT_BYTES,
                at,
            });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| MessageError::Text { at })?;
        if text.contains('\0') {
            return Err(MessageError::Text { at });
        }
        Ok(text)
    }

    /// Reads a list of at most `limit` elements. `what` names it in errors.
    ///
    /// # Errors
    /// If it has more elements, or if the message ends before.
    pub fn read_list<T: Scalar>(&mut self, what: &'static str, limit: u32) -> Result<Vec<T>, MessageError> {
        let at = self.at;
        let count: u32 = self.read()?;
        if count > limit {
            return Err(MessageError::TooLong {
                what,
                count: count.into(),
                limit: limit.into(),
                at,
            });
        }
        let left = self.message.len().saturating_sub(self.at);
        let needed = (count as usize).saturating_mul(T::BYTES);
        if needed > left {
            return Err(MessageError::Truncated { at, needed });
        }
        (0..count).map(|_| self.read()).collect()
    }

    /// Checks that the message has no more bytes.
    ///
    /// # Errors
    /// If it has.
    pub fn finish(&self) -> Result<(), MessageError> {
        match self.message.len() - self.at {
            0 => Ok(()),
            extra => Err(MessageError::Excess { at: self.at, extra }),
        }
    }
}

/// A value of fixed size in messages.
pub trait Scalar: Copy {
    /// Its size in messages, bytes.
    const BYTES: usize;

    /// Appends the value.
    fn append_to(self, bytes: &mut Vec<u8>);

    /// Reads a value.
    ///
    /// # Errors
    /// If the message ends inside it.
    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError>;
}

macro_rules! scalars {
    ($($type:ty)*) => {$(
        impl Scalar for $type {
            const BYTES: usize = size_of::<$type>();

            #[inline]
            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
                let mut value = [0; size_of::<$type>()];
                value.copy_from_slice(decoder.read_raw(size_of::<$type>())?);
                Ok(Self::from_le_bytes(value))
            }
        }
    )*};
}

scalars!(u8 u16 u32 u64 i32 i64 f32 f64);

/// Sizes are 64 bits in messages: both ends are 64-bit machines.
impl Scalar for usize {
    const BYTES: usize = 8;

    #[inline]
    fn append_to(self, bytes: &mut Vec<u8>) {
        (self as u64).append_to(bytes);
    }

    #[inline]
    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        let value: u64 = decoder.read()?;
        Self::try_from(value).map_err(|_| MessageError::Unknown {
            what: "the size",
            value,
            at,
        })
    }
}

impl<const N: usize> Scalar for [u32; N] {
    const BYTES: usize = 4 * N;

    fn append_to(self, bytes: &mut Vec<u8>) {
        for value in self {
            value.append_to(bytes);
        }
    }

    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let mut values = [0; N];
        for value in &mut values {
            *value = decoder.read()?;
        }
        Ok(values)
    }
}
