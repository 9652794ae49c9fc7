//! Host memory of the window: allocations, and which of them the device uses by address.

use crate::{Decoder, Encoder, MessageError};

/// A request that makes a range of the window known to the driver. The answer has the device's address of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocateHost {
    /// Offset in the window, bytes: whole pages.
    pub offset: u64,
    /// Size, bytes: whole pages.
    pub bytes: u64,
    /// Whether kernels use the memory by its address. Otherwise only copies that name it do, until an
    /// [`crate::CallId::expose_host`] request.
    pub is_exposed: bool,
}

impl AllocateHost {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.offset);
        encoder.write(self.bytes);
        encoder.write(u8::from(self.is_exposed));
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let request = Self {
            offset: decoder.read()?,
            bytes: decoder.read()?,
            is_exposed: decoder.read::<u8>()? != 0,
        };
        decoder.finish()?;
        Ok(request)
    }
}
