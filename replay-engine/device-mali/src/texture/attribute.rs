//! Attributes: elements of buffers and texels of images, accessed by `LD_ATTR`, `LEA_ATTR` and their image variants.
//!
//! The descriptor layout is from Mesa's `genxml/v6.xml` and `v7.xml`, and the values that the driver writes are from
//! `pan_cmdstream.c` (Copyright 2018-2020 Collabora, Ltd., Alyssa Rosenzweig, MIT). An image is an attribute whose
//! buffer is followed by a record with its extent.
//!
//! Neither source defines accesses out of range. Here a load returns zeros in all components and a store is dropped, as
//! the API's robust access requires. An atomic on a texel is two instructions: the address, then an atomic on any
//! address, which knows no image. Mesa's driver inserts no check between them. Out of range the address is 0, and the
//! atomic faults there unless something is mapped at 0. Robust access does not permit that, and it is unknown whether
//! hardware returns another address.

use super::TexMemory;
use super::conversion::Conversion;
use super::descriptor::word;
use super::format::{Arch, Class, PixelFormat};
use super::refusal::{Refusal, TexError};
use super::register::RegisterFormat;
use super::texel::Texel;
use super::tiling::{self, Ordering};
use trace_core::GpuVa;

/// Size of an attribute descriptor, bytes.
pub const ATTRIBUTE_BYTES: u64 = 8;
/// Size of an attribute buffer descriptor, and of the record that continues one, bytes.
pub const BUFFER_BYTES: u64 = 16;

/// Arrangement of the elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One after another.
    OneD,
    /// An image.
    Image {
        /// Order of texels.
        ordering: Ordering,
        /// Number of texels across, down and in depth (or layers, or samples).
        extent: [u32; 3],
        /// Distance from one row of texels or tiles to the next, bytes.
        row_stride: i32,
        /// Distance from one slice to the next, bytes.
        slice_stride: i32,
    },
}

/// Attribute with its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Format of the elements.
    pub format: PixelFormat,
    /// Address of the first byte of the buffer.
    pub pointer: GpuVa,
    /// Distance from one element to the next, bytes.
    pub stride: u32,
    /// Size of the buffer, bytes.
    pub size: u32,
    /// Offset that is added to an element's position, bytes.
    pub offset: i32,
    /// Arrangement of the elements.
    pub shape: Shape,
}

/// Reads the record at an index of a table.
fn record<M: TexMemory, const N: usize>(
    memory: &mut M,
    table: GpuVa,
    index: u64,
) -> Result<[u8; N], TexError<M::Error>> {
    let at = index
        .checked_mul(N as u64)
        .and_then(|d| table.checked_add(d))
        .ok_or(Refusal::Address)?;
    let mut bytes = [0; N];
    memory.read(at, &mut bytes).map_err(TexError::Memory)?;
    Ok(bytes)
}

/// Returns the name of a buffer type.
fn type_name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        2 => "an attribute buffer with a power-of-two divisor",
        3 => "an attribute buffer with a modulus",
        4 => "an attribute buffer with a divisor",
        7 => "a primitive index buffer",
        10..=12 => "an attribute buffer with write reduction",
        _ => return None,
    })
}

impl Attribute {
    /// Reads attribute `index` and the buffer that it refers to.
    ///
    /// # Errors
    /// When they cannot be read, or request an unsupported feature: instancing has no meaning without a draw.
    pub fn load<M: TexMemory>(
        arch: Arch,
        memory: &mut M,
        attributes: GpuVa,
        buffers: GpuVa,
        index: u32,
    ) -> Result<Self, TexError<M::Error>> {
        let bytes = record::<M, { ATTRIBUTE_BYTES as usize }>(memory, attributes, u64::from(index))?;
        let (first, offset) = (word(&bytes, 0), word(&bytes, 1) as i32);
        let format = PixelFormat::parse(arch, first >> 10)?;
        if format.block().width > 1 {
            return Err(TexError::Refused(Refusal::BlockAccess {
                arch,
                index: format.index(),
            }));
        }
        let number = u64::from(first & 0x1ff);
        let b = record::<M, { BUFFER_BYTES as usize }>(memory, buffers, number)?;
        let head = u64::from(word(&b, 0)) | u64::from(word(&b, 1)) << 32;
        let kind = word(&b, 0) & 63;
        let shape = match kind {
            1 => Shape::OneD,
            5 | 6 => {
                let c = record::<M, { BUFFER_BYTES as usize }>(memory, buffers, number + 1)?;
                let found = word(&c, 0) & 63;
                if found != 32 {
                    return Err(TexError::Refused(Refusal::DescriptorType {
                        what: "continued attribute buffer",
                        found,
                        expected: 32,
                    }));
                }
                Shape::Image {
                    ordering: if kind == 5 {
                        Ordering::Linear
                    } else {
                        Ordering::Interleaved { side: 16 }
                    },
                    extent: [word(&c, 0) >> 16, word(&c, 1) & 0xffff, word(&c, 1) >> 16].map(|n| n + 1),
                    row_stride: word(&c, 2) as i32,
                    slice_stride: word(&c, 3) as i32,
                }
            }
            value => {
                return Err(TexError::Refused(match type_name(value) {
                    Some(name) => Refusal::Feature(name),
                    None => Refusal::Value {
                        field: "the type of an attribute buffer",
                        value,
                    },
                }));
            }
        };
        Ok(Self {
            format,
            pointer: GpuVa::new(head & 0x00ff_ffff_ffff_ffc0),
            stride: word(&b, 2),
            size: word(&b, 3),
            offset: if first >> 9 & 1 == 1 { offset } else { 0 },
            shape,
        })
    }

    /// Returns the address at an offset in the buffer, if a whole element lies within the buffer there.
    fn within(&self, distance: i64) -> Option<GpuVa> {
        let from = distance.checked_add(i64::from(self.offset))?;
        let end = from.checked_add(i64::from(self.format.block().bytes))?;
        if from < 0 || end > i64::from(self.size) {
            return None;
        }
        self.pointer.checked_add(from as u64)
    }

    /// Returns the address of element `index`, or `None` outside the buffer.
    ///
    /// # Errors
    /// When the buffer is an image.
    pub fn element(&self, index: u32) -> Result<Option<GpuVa>, Refusal> {
        match self.shape {
            Shape::OneD => Ok(i64::from(index)
                .checked_mul(i64::from(self.stride))
                .and_then(|d| self.within(d))),
            Shape::Image { .. } => Err(Refusal::Feature("an image accessed as an array of elements")),
        }
    }

    /// Returns the address of a texel, or `None` outside the image. The operands are those of image instructions: the
    /// first register holds the column and, in its upper half, the row; the second holds the slice, layer or sample.
    ///
    /// # Errors
    /// When the buffer is not an image, or the address exceeds 64 bits.
    pub fn texel(&self, columns_and_rows: u32, slice: u32) -> Result<Option<GpuVa>, Refusal> {
        let Shape::Image {
            ordering,
            extent,
            row_stride,
            slice_stride,
        } = self.shape
        else {
            return Err(Refusal::Feature("an array of elements accessed as an image"));
        };
        let (x, y) = (columns_and_rows & 0xffff, columns_and_rows >> 16);
        if x >= extent[0] || y >= extent[1] || slice >= extent[2] {
            return Ok(None);
        }
        let inside = tiling::offset(ordering, x, y, self.stride, i64::from(row_stride))?;
        let slices = i64::from(slice) * i64::from(slice_stride);
        Ok(self.within(inside.checked_add(slices).ok_or(Refusal::Address)?))
    }

    /// Loads an element as four components in a register format, each in the low bits of a word. `None` (out of range)
    /// loads zeros. `auto` is the format that needs no conversion.
    ///
    /// # Errors
    /// When memory cannot be read, or the conversion is not implemented.
    pub fn load_from<M: TexMemory>(
        &self,
        memory: &mut M,
        at: Option<GpuVa>,
        format: Option<RegisterFormat>,
    ) -> Result<[u32; 4], TexError<M::Error>> {
        let format = format.unwrap_or(RegisterFormat::natural(self.class()));
        match at {
            None => Ok([0; 4]),
            Some(at) => Ok(format.convert(&read_texel(memory, &self.format, at)?)?),
        }
    }

    fn class(&self) -> Class {
        self.format.class()
    }

    /// Returns the three registers of `LEA_ATTR` and its variants: the address, and a conversion for `ST_CVT` and
    /// `LD_CVT`. Out of range they are all 0, which [`Conversion::parse`] treats as no conversion; an atomic then
    /// accesses address 0.
    #[must_use]
    pub fn reference(&self, at: Option<GpuVa>, format: Option<RegisterFormat>) -> [u32; 3] {
        let format = format.unwrap_or(RegisterFormat::natural(self.class()));
        match at {
            None => [0; 3],
            Some(at) => [
                at.get() as u32,
                (at.get() >> 32) as u32,
                Conversion::word(&self.format, format),
            ],
        }
    }
}

/// Reads and decodes one texel that is stored individually.
pub(super) fn read_texel<M: TexMemory>(
    memory: &mut M,
    format: &PixelFormat,
    at: GpuVa,
) -> Result<Texel, TexError<M::Error>> {
    let mut bytes = [0; 16];
    let size = format.block().bytes as usize;
    if let Some(to) = bytes.get_mut(..size).filter(|to| !to.is_empty()) {
        memory.read(at, to).map_err(TexError::Memory)?;
    }
    Ok(format.decode(&bytes, 0, 0, true))
}

#[cfg(test)]
#[path = "attribute_tests.rs"]
mod tests;
