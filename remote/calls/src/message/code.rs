//! Code: images to load, and what functions need to be launched.

use super::session::read_count;
use crate::{Decoder, Encoder, HandleNumber, MessageError};

/// Maximum number of functions of an image.
pub const MAX_FUNCTIONS: u32 = 1 << 20;
/// Maximum number of parameters of a kernel: each has at least a byte of the driver's 32,764.
pub const MAX_PARAMETERS: u32 = 32 << 10;
/// Maximum number of options of the just-in-time compiler.
const MAX_OPTIONS: u32 = 64;

/// An option of the just-in-time compiler: the driver's number of its kind, and its value. Options with buffers for logs
/// have the buffer's size as the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitOption {
    /// Kind, as in `CUjit_option`.
    pub kind: i32,
    /// Value, as the driver takes it.
    pub value: u64,
}

impl crate::Scalar for JitOption {
    const BYTES: usize = 12;

    fn append_to(self, bytes: &mut Vec<u8>) {
        self.kind.append_to(bytes);
        self.value.append_to(bytes);
    }

    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            kind: decoder.read()?,
            value: decoder.read()?,
        })
    }
}

/// Where the bytes of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeImage<'m> {
    /// In the message.
    Inline(&'m [u8]),
    /// In pieces that were sent before, in order. The worker has collected this number of bytes.
    Collected(u64),
}

/// A request to load a module or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadCode<'m> {
    /// Handle that the client made for it.
    pub handle: HandleNumber,
    /// Options of the just-in-time compiler.
    pub options: Vec<JitOption>,
    /// The image: PTX text, a cubin or a fatbin.
    pub image: CodeImage<'m>,
}

impl<'m> LoadCode<'m> {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.handle);
        encoder.write_list(&self.options);
        match self.image {
            CodeImage::Inline(bytes) => {
                encoder.write(0u8);
                encoder.write_bytes(bytes);
            }
            CodeImage::Collected(bytes) => {
                encoder.write(1u8);
                encoder.write(bytes);
            }
        }
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one, or a list exceeds its limit.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let handle = decoder.read()?;
        let options = decoder.read_list("the list of compiler options", MAX_OPTIONS)?;
        let at = decoder.offset();
        let image = match decoder.read::<u8>()? {
            0 => CodeImage::Inline(decoder.read_bytes()?),
            1 => CodeImage::Collected(decoder.read()?),
            other => {
                return Err(MessageError::Unknown {
                    what: "the place of the image",
                    value: other.into(),
                    at,
                });
            }
        };
        Ok(Self { handle, options, image })
    }
}

/// The answer to [`LoadCode`]: the logs of the compiler, each as long as its buffer allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadAnswer<'m> {
    /// Information log.
    pub info: &'m [u8],
    /// Error log.
    pub error: &'m [u8],
}

impl<'m> LoadAnswer<'m> {
    /// Appends the answer to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write_bytes(self.info);
        encoder.write_bytes(self.error);
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        Ok(Self {
            info: decoder.read_bytes()?,
            error: decoder.read_bytes()?,
        })
    }
}

/// A request for a function of a module, or a kernel of a library, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionLookup<'m> {
    /// The module or library.
    pub owner: HandleNumber,
    /// The name.
    pub name: &'m str,
}

impl<'m> FunctionLookup<'m> {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.owner);
        encoder.write_bytes(self.name.as_bytes());
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        Ok(Self {
            owner: decoder.read()?,
            name: decoder.read_text()?,
        })
    }
}

/// Place of a parameter of a kernel, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterPlace {
    /// Offset of its first byte.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
}

impl crate::Scalar for ParameterPlace {
    const BYTES: usize = 8;

    fn append_to(self, bytes: &mut Vec<u8>) {
        self.offset.append_to(bytes);
        self.bytes.append_to(bytes);
    }

    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            offset: decoder.read()?,
            bytes: decoder.read()?,
        })
    }
}

/// A function or kernel, with what its launches need at the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDescription {
    /// Handle that the worker made.
    pub handle: HandleNumber,
    /// Name, as in the image.
    pub name: String,
    /// Maximum number of threads of a block.
    pub max_threads: u32,
    /// Static shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Parameters in order.
    pub parameters: Vec<ParameterPlace>,
}

impl FunctionDescription {
    /// Appends the description to an answer.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.handle);
        encoder.write_bytes(self.name.as_bytes());
        encoder.write(self.max_threads);
        encoder.write(self.shared_bytes);
        encoder.write_list(&self.parameters);
    }

    /// Reads a description.
    ///
    /// # Errors
    /// If the answer is not one, or a list exceeds its limit.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            handle: decoder.read()?,
            name: decoder.read_text()?.to_owned(),
            max_threads: decoder.read()?,
            shared_bytes: decoder.read()?,
            parameters: decoder.read_list("the list of parameters", MAX_PARAMETERS)?,
        })
    }

    /// Returns the size of the arguments, bytes: the end of the last parameter.
    #[must_use]
    pub fn argument_bytes(&self) -> u32 {
        let ends = self.parameters.iter().map(|p| p.offset.saturating_add(p.bytes));
        ends.max().unwrap_or(0)
    }
}

/// All functions of a module, or all kernels of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionList {
    /// The functions, in the driver's order.
    pub functions: Vec<FunctionDescription>,
}

impl FunctionList {
    /// Appends the list to an answer.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.functions.len() as u32);
        for function in &self.functions {
            function.write(encoder);
        }
    }

    /// Reads a list.
    ///
    /// # Errors
    /// If the answer is not one, or a list exceeds its limit.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let count = read_count(decoder, "the list of functions", MAX_FUNCTIONS)?;
        let mut functions = Vec::new();
        for _ in 0..count {
            functions.push(FunctionDescription::read(decoder)?);
        }
        Ok(Self { functions })
    }
}
