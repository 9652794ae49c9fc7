//! Conversion descriptors, which define how `ST_CVT` stores registers and how `LD_CVT` loads them.
//!
//! The fields are those of Mesa's internal conversion descriptor in `genxml/v6.xml` and `v7.xml`: 22 bits of pixel
//! format, one bit for raw access, three bits of register format.

use super::TexMemory;
use super::attribute::read_texel;
use super::format::{Arch, PixelFormat};
use super::refusal::{Refusal, TexError};
use super::register::RegisterFormat;
use trace_core::GpuVa;

/// Conversion between memory and registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Format in memory.
    pub memory: PixelFormat,
    /// Format in registers.
    pub registers: RegisterFormat,
}

/// Bytes to write to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvertedTexel {
    bytes: [u8; 16],
    count: u8,
}

impl ConvertedTexel {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

impl Conversion {
    /// Returns the word of a conversion.
    #[must_use]
    pub fn word(memory: &PixelFormat, registers: RegisterFormat) -> u32 {
        memory.raw | registers.number() << 24
    }

    /// Parses the word. 0 means no conversion: an address out of range has this word, and nothing is accessed.
    ///
    /// # Errors
    /// When the word requests something that is not implemented.
    pub fn parse(arch: Arch, word: u32) -> Result<Option<Self>, Refusal> {
        if word == 0 {
            return Ok(None);
        }
        if word >> 22 & 1 != 0 {
            return Err(Refusal::Feature("a raw conversion"));
        }
        let memory = PixelFormat::parse(arch, word)?;
        if memory.block().width > 1 {
            return Err(Refusal::BlockAccess {
                arch,
                index: memory.index(),
            });
        }
        Ok(Some(Self {
            memory,
            registers: RegisterFormat::from_number(word >> 24 & 7)?,
        }))
    }

    /// Returns what `ST_CVT` writes at its address: the first `count` components (1 to 4) of the registers. Missing
    /// components are 0, and alpha is 1.
    ///
    /// # Errors
    /// When the conversion is not implemented.
    pub fn store(&self, registers: [u32; 4], count: u32) -> Result<ConvertedTexel, Refusal> {
        let class = self.memory.class();
        let mut texel = self.registers.convert_back(self.registers.unpack(registers), class)?;
        let lacking = super::texel::Texel::zero(class).swizzled(&[
            super::format::Channel::Zero,
            super::format::Channel::Zero,
            super::format::Channel::Zero,
            super::format::Channel::One,
        ]);
        for (i, to) in texel.bits.iter_mut().enumerate() {
            if i as u32 >= count {
                *to = lacking.bits[i];
            }
        }
        Ok(ConvertedTexel {
            bytes: self.memory.encode(&texel)?,
            count: self.memory.block().bytes as u8,
        })
    }

    /// Returns what `LD_CVT` loads from an address: four components, each in the low bits of a word.
    ///
    /// # Errors
    /// When memory cannot be read, or the conversion is not implemented.
    pub fn load<M: TexMemory>(&self, memory: &mut M, at: GpuVa) -> Result<[u32; 4], TexError<M::Error>> {
        Ok(self.registers.convert(&read_texel(memory, &self.memory, at)?)?)
    }
}
