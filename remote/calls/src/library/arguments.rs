//! A call of a library as a message without meaning: for checks of messages.

use super::functions::read_arguments;
use super::parts::{ResultPart, ScalarPart};
use super::{LibraryFunction, LibraryHandle};
use crate::{Decoder, Encoder, HandleNumber, MessageError};

/// An argument as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryArgument<'m> {
    /// An object.
    Handle(LibraryHandle),
    /// A stream of the driver.
    Stream(HandleNumber),
    /// An address in device memory.
    Address(u64),
    /// A scalar.
    Scalar(ScalarPart<'m>),
    /// The place of a result.
    Result(ResultPart),
    /// A number.
    Value(&'m [u8]),
}

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryArguments<'m> {
    /// The function.
    pub function: LibraryFunction,
    /// The arguments that travel, in their order.
    pub arguments: Vec<LibraryArgument<'m>>,
}

impl<'m> LibraryArguments<'m> {
    /// Appends the call to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.function);
        for argument in &self.arguments {
            match *argument {
                LibraryArgument::Handle(handle) => encoder.write(handle),
                LibraryArgument::Stream(stream) => encoder.write(stream),
                LibraryArgument::Address(at) => encoder.write(at),
                LibraryArgument::Scalar(part) => part.write(encoder),
                LibraryArgument::Result(part) => part.write(encoder),
                LibraryArgument::Value(bytes) => encoder.write_raw(bytes),
            }
        }
    }

    /// Reads a call.
    ///
    /// # Errors
    /// If the function is unknown, or an argument is none of its form.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let function = decoder.read()?;
        let mut arguments = Vec::new();
        read_arguments(function, decoder, &mut arguments)?;
        Ok(Self { function, arguments })
    }
}
