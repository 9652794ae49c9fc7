//! Texture operations: decoder of the word that `TEXC` takes.
//!
//! The fields are from Mesa's `bifrost.h` (Copyright 2019-2022 Collabora, Ltd., Alyssa Rosenzweig, MIT).

mod run;

use super::descriptor::Dimension;
use super::refusal::Refusal;
use super::register::RegisterFormat;

/// Maximum number of staging registers that an operation reads.
pub const MAX_STAGING: usize = 9;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Filtered sampling.
    Sample(LodMode),
    /// Fetch of a texel by its numbers.
    Fetch,
    /// Gather of one component of four texels.
    Gather(u8),
    /// Level of detail for the given derivatives.
    Gradient {
        /// Whether the derivatives are operands; otherwise they are those of the coordinates.
        explicit: bool,
        /// Whether the sampler's bias is not added.
        no_bias: bool,
        /// Whether the result is not clamped to the sampler's limits.
        no_clamp: bool,
    },
}

/// Source of a sample's level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LodMode {
    /// Two staging registers that a gradient operation wrote.
    Gradient,
    /// A staging register.
    Explicit,
    /// Derivatives of the coordinates, plus a staging register.
    Bias,
    /// Zero.
    Zero,
    /// Derivatives of the coordinates.
    Computed,
}

/// Range to which float results are clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clamp {
    /// No range.
    None,
    /// 0 and above.
    Positive,
    /// -1 to 1.
    Signed,
    /// 0 to 1.
    Unit,
}

impl Clamp {
    fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::None,
            1 => Self::Positive,
            2 => Self::Signed,
            _ => Self::Unit,
        }
    }

    /// Clamps a number. NaN becomes the lower limit, if there is one.
    fn apply(self, x: f32) -> f32 {
        let (low, high) = match self {
            Self::None => return x,
            Self::Positive => (0.0, f32::INFINITY),
            Self::Signed => (-1.0, 1.0),
            Self::Unit => (0.0, 1.0),
        };
        if x.is_nan() { low } else { x.clamp(low, high) }
    }
}

/// Source of a descriptor's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// A number in the operation itself.
    Immediate(u32),
    /// A staging register.
    Staging,
}

/// Operation on one texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// Kind of the operation.
    pub kind: Kind,
    /// Dimension of the texture that the instruction expects.
    pub dimension: Dimension,
    /// Whether a staging register holds the layer.
    pub array: bool,
    /// Whether a staging register holds a reference, with which depths are compared.
    pub shadow: bool,
    /// Whether a staging register holds offsets and the number of a sample.
    pub offset: bool,
    /// Number of the texture.
    pub texture: Index,
    /// Number of the sampler.
    pub sampler: Index,
    /// Format of the results.
    pub format: RegisterFormat,
    /// Range to which the results are clamped.
    pub clamp: Clamp,
    /// Components that are written, one bit each.
    pub mask: u8,
}

/// Operation on two textures at the same coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dual {
    /// The first operation, whose results go to the same registers as those of a single operation.
    pub primary: Single,
    /// The second operation, whose results go to other registers.
    pub secondary: Single,
    /// First register of the second operation's results.
    pub secondary_register: u32,
}

/// Decoded word of `TEXC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One texture.
    Single(Single),
    /// Two textures.
    Dual(Dual),
}

fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

fn result(format: u32) -> Result<(RegisterFormat, Clamp), Refusal> {
    let exact = |f| Ok((f, Clamp::None));
    match format {
        0..=3 => Ok((RegisterFormat::F16, Clamp::from_bits(format))),
        4..=7 => Ok((RegisterFormat::F32, Clamp::from_bits(format))),
        12 => exact(RegisterFormat::U16),
        13 => exact(RegisterFormat::S16),
        14 => exact(RegisterFormat::U32),
        15 => exact(RegisterFormat::S32),
        value => Err(Refusal::Value {
            field: "the result format of a texture operation",
            value,
        }),
    }
}

impl Operation {
    /// Decodes the word.
    ///
    /// # Errors
    /// When it requests something that is not implemented.
    pub fn decode(word: u32) -> Result<Self, Refusal> {
        let immediate = bits(word, 11, 1) == 1;
        match (immediate, bits(word, 2, 2)) {
            (true, _) | (false, 3) => single(word, immediate).map(Self::Single),
            (false, 1) => dual(word).map(Self::Dual),
            (_, value) => Err(Refusal::Value {
                field: "the mode of a texture operation",
                value,
            }),
        }
    }
}

fn single(word: u32, immediate: bool) -> Result<Single, Refusal> {
    let (low, index) = (bits(word, 0, 4), Index::Immediate(bits(word, 4, 7)));
    let (texture, sampler) = match (immediate, low & 3) {
        (true, _) => (index, Index::Immediate(low)),
        (_, 0) => (index, index),
        (_, 1) => (Index::Staging, index),
        (_, 2) => (index, Index::Staging),
        _ => (Index::Staging, Index::Staging),
    };
    let (offset, shadow) = (bits(word, 15, 1) == 1, bits(word, 16, 1) == 1);
    let how = bits(word, 20, 3);
    let unknown = |field| Err(Refusal::Value { field, value: how });
    let kind = match bits(word, 12, 3) {
        op @ (4 | 5) => Kind::Gradient {
            explicit: op == 4,
            no_bias: offset,
            no_clamp: shadow,
        },
        6 if shadow => Kind::Gather(0),
        6 => match how {
            1 => Kind::Fetch,
            4..=7 => Kind::Gather((how - 4) as u8),
            _ => return unknown("what a texture fetch takes"),
        },
        7 => Kind::Sample(match how {
            3 => LodMode::Gradient,
            4 => LodMode::Explicit,
            5 => LodMode::Bias,
            6 => LodMode::Zero,
            7 => LodMode::Computed,
            _ => return unknown("the level-of-detail mode of a texture operation"),
        }),
        value => {
            return Err(Refusal::Value {
                field: "the kind of a texture operation",
                value,
            });
        }
    };
    let gradient = matches!(kind, Kind::Gradient { .. });
    let (format, clamp) = result(bits(word, 24, 4))?;
    Ok(Single {
        kind,
        dimension: Dimension::from_bits(bits(word, 18, 2)),
        array: bits(word, 17, 1) == 1,
        // In a gradient operation, these two bits have another meaning.
        shadow: shadow && !gradient,
        offset: offset && !gradient,
        texture,
        sampler,
        format: if gradient { RegisterFormat::U32 } else { format },
        clamp,
        mask: bits(word, 28, 4) as u8,
    })
}

fn dual(word: u32) -> Result<Dual, Refusal> {
    let one = |sampler, texture, format, mask| -> Result<Single, Refusal> {
        let (format, clamp) = result(bits(word, format, 3))?;
        Ok(Single {
            texture: Index::Immediate(bits(word, texture, 2)),
            sampler: Index::Immediate(bits(word, sampler, 2)),
            clamp,
            mask: bits(word, mask, 4) as u8,
            // A compute shader has no derivatives, so its dual operations use level of detail 0.
            ..Single::simple(Dimension::D2, format, true)
        })
    };
    Ok(Dual {
        primary: one(0, 4, 25, 28)?,
        secondary: one(6, 8, 18, 21)?,
        secondary_register: bits(word, 12, 6),
    })
}

impl Single {
    /// Returns the operation of `TEXS_2D` and `TEXS_CUBE`. The numbers of the descriptors are in the instruction, and
    /// the caller fills them in.
    #[must_use]
    pub fn simple(dimension: Dimension, format: RegisterFormat, zero_lod: bool) -> Self {
        Self {
            kind: Kind::Sample(if zero_lod { LodMode::Zero } else { LodMode::Computed }),
            dimension,
            array: false,
            shadow: false,
            offset: false,
            texture: Index::Immediate(0),
            sampler: Index::Immediate(0),
            format,
            clamp: Clamp::None,
            mask: 15,
        }
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
