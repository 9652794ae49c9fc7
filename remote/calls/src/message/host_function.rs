//! Host functions: launches by the program, and calls by the worker.

use crate::{Decoder, Encoder, HandleNumber, MessageError};

/// Maximum number of a host function: it shares 64 bits with the number of a session.
pub const MAX_HOST_FUNCTION: u64 = (1 << 48) - 1;

/// Form of a host function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFunctionForm {
    /// A function with its argument, of `cuLaunchHostFunc`.
    Function,
    /// A callback with stream and result, of `cuStreamAddCallback`.
    Callback,
}

/// A request to run a host function in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchHostFunction {
    /// Number of the function at the client, at most [`MAX_HOST_FUNCTION`].
    pub id: u64,
    /// The stream.
    pub stream: HandleNumber,
    /// Its form.
    pub form: HostFunctionForm,
}

impl LaunchHostFunction {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.id);
        encoder.write(self.stream);
        encoder.write(u8::from(self.form == HostFunctionForm::Callback));
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        let id: u64 = decoder.read()?;
        if id > MAX_HOST_FUNCTION {
            return Err(MessageError::Unknown {
                what: "the host function",
                value: id,
                at,
            });
        }
        let stream = decoder.read()?;
        let at = decoder.offset();
        let form = match decoder.read::<u8>()? {
            0 => HostFunctionForm::Function,
            1 => HostFunctionForm::Callback,
            other => {
                return Err(MessageError::Unknown {
                    what: "the form of the host function",
                    value: other.into(),
                    at,
                });
            }
        };
        Ok(Self { id, stream, form })
    }
}

/// A call of a host function, from the worker to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFunctionCall {
    /// Number of the function.
    pub id: u64,
    /// Number of the call.
    pub ticket: u64,
    /// Result of the stream, for a callback.
    pub status: u32,
}

impl HostFunctionCall {
    /// Appends the call to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.id);
        encoder.write(self.ticket);
        encoder.write(self.status);
    }

    /// Reads a call.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let call = Self {
            id: decoder.read()?,
            ticket: decoder.read()?,
            status: decoder.read()?,
        };
        decoder.finish()?;
        Ok(call)
    }
}

/// The end of a call, from the client to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFunctionDone {
    /// Number of the call.
    pub ticket: u64,
}

impl HostFunctionDone {
    /// Appends it to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.ticket);
    }

    /// Reads it.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let ticket = decoder.read()?;
        decoder.finish()?;
        Ok(Self { ticket })
    }
}
