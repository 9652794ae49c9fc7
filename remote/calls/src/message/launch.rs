//! Launch of a kernel.

use crate::{Decoder, Encoder, HandleNumber, MessageError};
use cuda_driver::{LAUNCH_COMPLETION_EVENT, LAUNCH_PROGRAMMATIC_EVENT, LAUNCH_UPDATABLE};

/// Maximum size of a kernel's arguments, bytes: the driver's limit is 32,764 since CUDA 12.1.
pub const MAX_ARGUMENT_BYTES: u32 = 32 << 10;
/// Maximum number of attributes of a launch. The driver knows fewer than 20 kinds.
pub const MAX_LAUNCH_ATTRIBUTES: u32 = 64;

/// Maximum number of an attribute's kind. Kinds of later drivers could hold pointers.
const MAX_ATTRIBUTE_KIND: u32 = 18;

/// Returns whether an attribute of a launch holds only numbers. Others hold handles of events or addresses of results,
/// which only the client's process has.
#[must_use]
pub fn is_number_attribute(id: u32) -> bool {
    id <= MAX_ATTRIBUTE_KIND && ![LAUNCH_PROGRAMMATIC_EVENT, LAUNCH_COMPLETION_EVENT, LAUNCH_UPDATABLE].contains(&id)
}

/// An attribute of a launch: the driver's number of its kind, and its 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchAttributeValue {
    /// Kind, as in `CUlaunchAttributeID`.
    pub id: u32,
    /// Value, as in `CUlaunchAttributeValue`.
    pub value: [u64; 8],
}

impl crate::Scalar for LaunchAttributeValue {
    const BYTES: usize = 68;

    fn append_to(self, bytes: &mut Vec<u8>) {
        self.id.append_to(bytes);
        for word in self.value {
            word.append_to(bytes);
        }
    }

    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let id = decoder.read()?;
        let mut value = [0; 8];
        for word in &mut value {
            *word = decoder.read()?;
        }
        Ok(Self { id, value })
    }
}

/// A launch, of any of the driver's functions for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch<'m> {
    /// Function, or kernel of a library.
    pub function: HandleNumber,
    /// Number of blocks per dimension.
    pub grid: [u32; 3],
    /// Number of threads of a block per dimension.
    pub block: [u32; 3],
    /// Size of dynamic shared memory, bytes.
    pub shared: u32,
    /// Stream.
    pub stream: HandleNumber,
    /// Attributes; `None` for a launch by a function without attributes.
    pub attributes: Option<Vec<LaunchAttributeValue>>,
    /// Whether the blocks of the launch may wait for each other.
    pub cooperative: bool,
    /// Arguments, each at its offset in the function's parameters.
    pub arguments: &'m [u8],
}

impl<'m> Launch<'m> {
    /// Appends the launch to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.function);
        encoder.write(self.grid);
        encoder.write(self.block);
        encoder.write(self.shared);
        encoder.write(self.stream);
        encoder.write(u8::from(self.cooperative) | u8::from(self.attributes.is_some()) << 1);
        if let Some(attributes) = &self.attributes {
            encoder.write_list(attributes);
        }
        encoder.write_bytes(self.arguments);
    }

    /// Reads a launch.
    ///
    /// # Errors
    /// If the message is not one, or a list exceeds its limit.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let function = decoder.read()?;
        let grid = decoder.read()?;
        let block = decoder.read()?;
        let shared = decoder.read()?;
        let stream = decoder.read()?;
        let at = decoder.offset();
        let form: u8 = decoder.read()?;
        if form & !3 != 0 {
            return Err(MessageError::Unknown {
                what: "the form of the launch",
                value: form.into(),
                at,
            });
        }
        let attributes = match form & 2 {
            0 => None,
            _ => Some(decoder.read_list("the list of launch attributes", MAX_LAUNCH_ATTRIBUTES)?),
        };
        let at = decoder.offset();
        let arguments = decoder.read_bytes()?;
        if arguments.len() > MAX_ARGUMENT_BYTES as usize {
            return Err(MessageError::TooLong {
                what: "the block of arguments",
                count: arguments.len() as u64,
                limit: MAX_ARGUMENT_BYTES.into(),
                at,
            });
        }
        Ok(Self {
            function,
            grid,
            block,
            shared,
            stream,
            attributes,
            cooperative: form & 1 != 0,
            arguments,
        })
    }
}
