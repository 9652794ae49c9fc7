//! Texture and surface objects: the memory that kernels access by them.

use crate::{Decoder, Encoder, HandleKind, HandleNumber, MessageError};
use cuda_driver::{RESOURCE_ARRAY, RESOURCE_LINEAR, RESOURCE_MIPMAPPED_ARRAY, RESOURCE_ROWS, ResourceDescription};

/// Number of 32-bit words of `CUDA_TEXTURE_DESC`, which has neither pointers nor handles.
pub const TEXTURE_WORDS: usize = 26;
/// Number of 32-bit words of `CUDA_RESOURCE_VIEW_DESC`, which has neither pointers nor handles.
pub const VIEW_WORDS: usize = 28;

/// Memory that kernels access by an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectMemory {
    /// An array.
    Array(HandleNumber),
    /// A mipmapped array.
    MipmappedArray(HandleNumber),
    /// Consecutive texels of device memory.
    Linear {
        /// Address of the first texel.
        at: u64,
        /// `CUarray_format` and number of channels of a texel.
        texel: [u32; 2],
        /// Size, bytes.
        bytes: u64,
    },
    /// Rows of texels of device memory.
    Rows {
        /// Address of the first texel.
        at: u64,
        /// `CUarray_format` and number of channels of a texel.
        texel: [u32; 2],
        /// Number of texels of a row.
        width: u64,
        /// Number of rows.
        height: u64,
        /// Distance of two rows, bytes.
        pitch: u64,
    },
}

/// What a texture or surface object is made of: `CUDA_RESOURCE_DESC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectResource {
    /// The memory.
    pub memory: ObjectMemory,
    /// Flags. The driver knows none.
    pub flags: u32,
}

impl ObjectResource {
    /// Reads the driver's description. `array` returns the number of an array from the handle in it. `None` for memory of
    /// another kind.
    ///
    /// # Errors
    /// The error of `array`.
    pub fn from_description<E>(
        description: &ResourceDescription,
        array: impl FnOnce(HandleKind, u64) -> Result<HandleNumber, E>,
    ) -> Result<Option<Self>, E> {
        let (at, texel) = (description.memory, [description.format, description.channels]);
        let [width, height, pitch] = description.sizes;
        let memory = match description.kind {
            RESOURCE_ARRAY => ObjectMemory::Array(array(HandleKind::Array, at)?),
            RESOURCE_MIPMAPPED_ARRAY => ObjectMemory::MipmappedArray(array(HandleKind::MipmappedArray, at)?),
            RESOURCE_LINEAR => ObjectMemory::Linear {
                at,
                texel,
                bytes: width,
            },
            RESOURCE_ROWS => ObjectMemory::Rows {
                at,
                texel,
                width,
                height,
                pitch,
            },
            _ => return Ok(None),
        };
        Ok(Some(Self {
            memory,
            flags: description.flags,
        }))
    }

    /// Returns the driver's description. `array` returns the handle of an array from its number.
    ///
    /// # Errors
    /// The error of `array`.
    pub fn to_description<E>(
        &self,
        array: impl FnOnce(HandleKind, HandleNumber) -> Result<u64, E>,
    ) -> Result<ResourceDescription, E> {
        let base = ResourceDescription {
            flags: self.flags,
            ..ResourceDescription::default()
        };
        Ok(match self.memory {
            ObjectMemory::Array(number) => ResourceDescription {
                kind: RESOURCE_ARRAY,
                memory: array(HandleKind::Array, number)?,
                ..base
            },
            ObjectMemory::MipmappedArray(number) => ResourceDescription {
                kind: RESOURCE_MIPMAPPED_ARRAY,
                memory: array(HandleKind::MipmappedArray, number)?,
                ..base
            },
            ObjectMemory::Linear {
                at,
                texel: [format, channels],
                bytes,
            } => ResourceDescription {
                kind: RESOURCE_LINEAR,
                memory: at,
                format,
                channels,
                sizes: [bytes, 0, 0],
                ..base
            },
            ObjectMemory::Rows {
                at,
                texel: [format, channels],
                width,
                height,
                pitch,
            } => ResourceDescription {
                kind: RESOURCE_ROWS,
                memory: at,
                format,
                channels,
                sizes: [width, height, pitch],
                ..base
            },
        })
    }

    /// Appends the resource to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        match self.memory {
            ObjectMemory::Array(array) => {
                encoder.write(0u8);
                encoder.write(array);
            }
            ObjectMemory::MipmappedArray(array) => {
                encoder.write(1u8);
                encoder.write(array);
            }
            ObjectMemory::Linear { at, texel, bytes } => {
                encoder.write(2u8);
                encoder.write(at);
                encoder.write(texel);
                encoder.write(bytes);
            }
            ObjectMemory::Rows {
                at,
                texel,
                width,
                height,
                pitch,
            } => {
                encoder.write(3u8);
                encoder.write(at);
                encoder.write(texel);
                for value in [width, height, pitch] {
                    encoder.write(value);
                }
            }
        }
        encoder.write(self.flags);
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let position = decoder.offset();
        let memory = match decoder.read::<u8>()? {
            0 => ObjectMemory::Array(decoder.read()?),
            1 => ObjectMemory::MipmappedArray(decoder.read()?),
            2 => ObjectMemory::Linear {
                at: decoder.read()?,
                texel: decoder.read()?,
                bytes: decoder.read()?,
            },
            3 => ObjectMemory::Rows {
                at: decoder.read()?,
                texel: decoder.read()?,
                width: decoder.read()?,
                height: decoder.read()?,
                pitch: decoder.read()?,
            },
            other => {
                return Err(MessageError::Unknown {
                    what: "the kind of the object's memory",
                    value: other.into(),
                    at: position,
                });
            }
        };
        Ok(Self {
            memory,
            flags: decoder.read()?,
        })
    }

    /// Returns the address of the texels in device memory, or `None` for an array.
    #[must_use]
    pub const fn address(&self) -> Option<u64> {
        match self.memory {
            ObjectMemory::Linear { at, .. } | ObjectMemory::Rows { at, .. } => Some(at),
            ObjectMemory::Array(_) | ObjectMemory::MipmappedArray(_) => None,
        }
    }
}

/// A request that creates a texture object. The answer has its number, which kernels get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateTexture {
    /// What it reads.
    pub resource: ObjectResource,
    /// How it reads: `CUDA_TEXTURE_DESC`.
    pub texture: [u32; TEXTURE_WORDS],
    /// Which part it reads: `CUDA_RESOURCE_VIEW_DESC`.
    pub view: Option<[u32; VIEW_WORDS]>,
}

impl CreateTexture {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        self.resource.write(encoder);
        encoder.write(self.texture);
        encoder.write(u8::from(self.view.is_some()));
        if let Some(view) = self.view {
            encoder.write(view);
        }
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            resource: ObjectResource::read(decoder)?,
            texture: decoder.read()?,
            view: match decoder.read_flag("the mark of a view")? {
                true => Some(decoder.read()?),
                false => None,
            },
        })
    }
}

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A texture object.
    Texture,
    /// A surface object.
    Surface,
}

/// A question about the memory of an object. The answer is an [`ObjectResource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescribeObject {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Number of the object.
    pub object: u64,
}

impl DescribeObject {
    /// Appends the question to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(u8::from(self.kind == ObjectKind::Surface));
        encoder.write(self.object);
    }

    /// Reads the question.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let kind = match decoder.read_flag("the kind of the object")? {
            false => ObjectKind::Texture,
            true => ObjectKind::Surface,
        };
        Ok(Self {
            kind,
            object: decoder.read()?,
        })
    }
}
