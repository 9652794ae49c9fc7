//! Conversion descriptors: the word that says how `ST_CVT` stores registers and `LD_CVT` loads them.
//!
//! Its fields are those of Mesa's internal conversion descriptor in `genxml/v6.xml` and `v7.xml`: 22 bits of pixel
//! format, one for raw access, three of register format.

use super::TexMemory;
use super::attribute::read_texel;
use super::format::{Arch, PixelFormat};
use super::refusal::{Refusal, TexError};
use super::register::RegisterFormat;

/// A conversion between memory and registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// What memory holds.
    pub memory: PixelFormat,
    /// What registers hold.
    pub registers: RegisterFormat,
}

/// Bytes to be written.
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
    /// The word of a conversion.
    #[must_use]
    pub fn word(memory: &PixelFormat, registers: RegisterFormat) -> u32 {
        memory.raw | registers.number() << 24
    }

    /// Takes the word apart. 0 is no conversion, and what an address out of range comes with: nothing is accessed.
    ///
    /// # Errors
    /// It asks for something that is not implemented.
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

    /// What `ST_CVT` writes at its address: `count` components (1 to 4) out of the registers, those that lack are 0 and
    /// alpha 1.
    ///
    /// # Errors
    /// The conversion is not implemented.
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

    /// What `LD_CVT` loads from an address: four components, each in the low bits of a word.
    ///
    /// # Errors
    /// Memory cannot be read, or the conversion is not implemented.
    pub fn load<M: TexMemory>(&self, memory: &mut M, at: u64) -> Result<[u32; 4], TexError<M::Error>> {
        Ok(self.registers.convert(&read_texel(memory, &self.memory, at)?)?)
    }
}
