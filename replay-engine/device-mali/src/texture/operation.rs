//! Texture operations as instructions hold them: the word that `TEXC` takes, and the registers around it.
//!
//! Fields and the order of staging registers are facts of Mesa's `bifrost.h` and `bifrost_compile.c` (Copyright
//! 2019-2022 Collabora, Ltd., Alyssa Rosenzweig, MIT).

use super::TexMemory;
use super::cube;
use super::descriptor::{Dimension, Sampler, Texture};
use super::format::{Class, Encoding};
use super::level::{Derivatives, Lod};
use super::refusal::{Refusal, TexError};
use super::register::RegisterFormat;
use super::sample::{Place, Request, fetch, gather, sample};
use super::texel::Texel;

/// Most staging registers that an operation reads.
pub const MAX_STAGING: usize = 9;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Filtered sampling.
    Sample(LodMode),
    /// A texel by its numbers.
    Fetch,
    /// One component of four texels.
    Gather(u8),
    /// The level of detail that derivatives give.
    Gradient {
        /// They are operands; otherwise they are those of the coordinates.
        explicit: bool,
        /// Do not add the sampler's bias.
        no_bias: bool,
        /// Do not clamp to the sampler's limits.
        no_clamp: bool,
    },
}

/// Where the level of detail of a sample comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LodMode {
    /// Two staging registers that a gradient operation made.
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

/// A limit on results that are floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clamp {
    /// None.
    None,
    /// Not negative.
    Positive,
    /// From -1 to 1.
    Signed,
    /// From 0 to 1.
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

    /// NaN becomes the lower limit, where there is one.
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

/// Where the number of a descriptor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// The operation itself.
    Immediate(u32),
    /// A staging register.
    Staging,
}

/// An operation on one texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// What it does.
    pub kind: Kind,
    /// Shape of the texture that the instruction takes it for.
    pub dimension: Dimension,
    /// A staging register holds the layer.
    pub array: bool,
    /// A staging register holds a reference, and depths are compared with it.
    pub shadow: bool,
    /// A staging register holds offsets and the number of a sample.
    pub offset: bool,
    /// Number of the texture.
    pub texture: Index,
    /// Number of the sampler.
    pub sampler: Index,
    /// Format of results.
    pub format: RegisterFormat,
    /// Limit on results.
    pub clamp: Clamp,
    /// Components that are written, a bit each.
    pub mask: u8,
}

/// An operation on two textures at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dual {
    /// Its results go where a single operation's go.
    pub primary: Single,
    /// Its results go elsewhere.
    pub secondary: Single,
    /// First register of the second's results.
    pub secondary_register: u32,
}

/// What a word of `TEXC` says.
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
    /// Takes the word apart.
    ///
    /// # Errors
    /// It asks for something that is not implemented.
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
        // Of a gradient, these two bits are its own.
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
            // A compute shader has no derivatives: its pairs are at level of detail 0.
            ..Single::simple(Dimension::D2, format, true)
        })
    };
    Ok(Dual {
        primary: one(0, 4, 25, 28)?,
        secondary: one(6, 8, 18, 21)?,
        secondary_register: bits(word, 12, 6),
    })
}

/// Takes staging registers one after another; one that is not there is 0.
struct Staging<'a>(std::slice::Iter<'a, u32>);

impl Staging<'_> {
    fn take(&mut self, present: bool) -> u32 {
        if present {
            self.0.next().copied().unwrap_or(0)
        } else {
            0
        }
    }
}

impl Single {
    /// The operation of `TEXS_2D` and `TEXS_CUBE`; the numbers of the descriptors stand in the instruction and are to
    /// be filled in.
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

    /// Registers that hold coordinates or derivatives beyond the first two operands.
    fn coordinates_staged(&self) -> usize {
        let solid = usize::from(self.dimension == Dimension::D3);
        match self.kind {
            Kind::Gradient { explicit: true, .. } => match self.dimension {
                Dimension::D1 => 1,
                Dimension::D2 | Dimension::Cube => 2,
                Dimension::D3 => 4,
            },
            _ => solid,
        }
    }

    fn lods_staged(&self) -> usize {
        match self.kind {
            Kind::Sample(LodMode::Gradient) => 2,
            Kind::Sample(LodMode::Explicit | LodMode::Bias) | Kind::Fetch | Kind::Gather(_) => 1,
            Kind::Sample(LodMode::Zero | LodMode::Computed) | Kind::Gradient { .. } => 0,
        }
    }

    /// How many staging registers it reads, at most [`MAX_STAGING`].
    #[must_use]
    pub fn staging(&self) -> usize {
        let flags = [
            self.shadow,
            self.array,
            self.offset,
            self.sampler == Index::Staging,
            self.texture == Index::Staging,
        ];
        self.coordinates_staged() + self.lods_staged() + flags.iter().filter(|f| **f).count()
    }

    /// Numbers of the texture and of the sampler, given the staging registers.
    #[must_use]
    pub fn indices(&self, staging: &[u32]) -> (u32, u32) {
        let count = self.staging();
        let last = |back: usize| {
            count
                .checked_sub(back)
                .and_then(|i| staging.get(i))
                .copied()
                .unwrap_or(0)
        };
        let texture_staged = self.texture == Index::Staging;
        let texture = match self.texture {
            Index::Immediate(n) => n,
            Index::Staging => last(1),
        };
        let sampler = match self.sampler {
            Index::Immediate(n) => n,
            Index::Staging => last(1 + usize::from(texture_staged)),
        };
        (texture, sampler)
    }

    /// Registers that it writes, a bit each from the first.
    #[must_use]
    pub fn written(&self) -> u8 {
        if self.format.is_half() {
            u8::from(self.mask & 3 != 0) | u8::from(self.mask & 12 != 0) << 1
        } else {
            self.mask
        }
    }

    /// Whether it wants to know how coordinates change from thread to thread.
    #[must_use]
    pub fn needs_derivatives(&self) -> bool {
        matches!(
            self.kind,
            Kind::Sample(LodMode::Computed | LodMode::Bias) | Kind::Gradient { explicit: false, .. }
        )
    }

    /// Carries it out for one thread: `x` and `y` are its two operands, `derivatives` count where
    /// [`Single::needs_derivatives`] says so. Returned are four registers, of which [`Single::written`] are written.
    ///
    /// # Errors
    /// Memory cannot be read, or something is not implemented.
    pub fn run<M: TexMemory>(
        &self,
        memory: &mut M,
        texture: &Texture,
        sampler: &Sampler,
        (x, y): (u32, u32),
        staging: &[u32],
        derivatives: Derivatives,
    ) -> Result<[u32; 4], TexError<M::Error>> {
        let (mut s, mut face) = (f32::from_bits(x), 0);
        if self.dimension == Dimension::Cube {
            (face, s) = cube::unpack(x);
        }
        self.run_at(
            memory,
            texture,
            sampler,
            (x, s, f32::from_bits(y), y, face),
            staging,
            derivatives,
        )
    }

    /// The same for `TEXS_CUBE`, whose face stands in a register of its own, in the three highest bits.
    ///
    /// # Errors
    /// As [`Single::run`].
    pub fn run_cube<M: TexMemory>(
        &self,
        memory: &mut M,
        texture: &Texture,
        sampler: &Sampler,
        (s, t, face): (u32, u32, u32),
        derivatives: Derivatives,
    ) -> Result<[u32; 4], TexError<M::Error>> {
        let place = (s, f32::from_bits(s), f32::from_bits(t), t, face >> 29);
        self.run_at(memory, texture, sampler, place, &[], derivatives)
    }

    fn run_at<M: TexMemory>(
        &self,
        memory: &mut M,
        texture: &Texture,
        sampler: &Sampler,
        (x, s, t, y, face): (u32, f32, f32, u32, u32),
        staging: &[u32],
        derivatives: Derivatives,
    ) -> Result<[u32; 4], TexError<M::Error>> {
        if let Kind::Gradient {
            explicit,
            no_bias,
            no_clamp,
        } = self.kind
        {
            let d = if explicit {
                self.explicit(x, y, staging)
            } else {
                derivatives
            };
            let mut lod = d.lod(texture.extent(0), sampler.normalized);
            if !no_bias {
                lod += sampler.lod_bias;
            }
            if !no_clamp {
                lod = lod.min(sampler.max_lod).max(sampler.min_lod);
            }
            let lod = lod.clamp(i32::from(i16::MIN), i32::from(i16::MAX));
            return Ok([lod as u32 & 0xffff, 0, 0, 0]);
        }
        // What is bound where nothing is bound is zero in every format, and of every shape.
        if texture.format.encoding == Encoding::Constant {
            return Ok([0; 4]);
        }
        if texture.dimension != self.dimension {
            return Err(TexError::Refused(Refusal::Operation {
                operation: "an operation for a texture of another dimension",
                dimension: texture.dimension.name(),
            }));
        }
        let mut rest = Staging(staging.iter());
        let z = rest.take(self.dimension == Dimension::D3);
        let lod = rest.take(self.lods_staged() > 0);
        rest.take(self.lods_staged() > 1);
        let reference = self.shadow.then(|| f32::from_bits(rest.take(true)));
        let layer = rest.take(self.array);
        let [ox, oy, oz, number] = rest.take(self.offset).to_le_bytes();
        let mut request = Request {
            coordinates: [s, t, f32::from_bits(z)],
            face,
            layer,
            offset: [ox, oy, oz].map(|b| b as i8),
            lod: Lod::Zero,
            reference,
        };
        let texel = match self.kind {
            Kind::Fetch => {
                let offsets = request.offset.map(i32::from);
                let place = Place {
                    texel: [0, 1, 2].map(|i| ([x, y, z][i] as i32).saturating_add(offsets[i])),
                    face: lod >> 16,
                    layer,
                    level: lod >> 8 & 0xff,
                    sample: u32::from(number),
                };
                fetch(memory, texture, sampler, &place)?
            }
            Kind::Gather(component) => gather(
                memory,
                texture,
                sampler,
                &request,
                usize::from(component),
                lod >> 8 & 0xff,
            )?,
            Kind::Sample(mode) => {
                request.lod = match mode {
                    LodMode::Zero => Lod::Zero,
                    LodMode::Explicit | LodMode::Gradient => Lod::Explicit(lod as u16 as i16),
                    LodMode::Computed => Lod::Computed { derivatives, bias: 0 },
                    LodMode::Bias if lod >> 16 != 0 => {
                        return Err(TexError::Refused(Refusal::Feature(
                            "a bias with a least level of detail",
                        )));
                    }
                    LodMode::Bias => Lod::Computed {
                        derivatives,
                        bias: lod as u16 as i16,
                    },
                };
                sample(memory, texture, sampler, &request)?
            }
            Kind::Gradient { .. } => Texel::zero(Class::Uint),
        };
        Ok(self.registers(texel)?)
    }

    fn registers(&self, texel: Texel) -> Result<[u32; 4], Refusal> {
        let clamped = if texel.class == Class::Float && self.clamp != Clamp::None {
            Texel::floats(texel.as_floats().map(|x| self.clamp.apply(x)))
        } else {
            texel
        };
        Ok(self.format.pack(self.format.convert(&clamped)?))
    }

    /// Derivatives that are operands: those across begin in the operands, those down follow.
    fn explicit(&self, x: u32, y: u32, staging: &[u32]) -> Derivatives {
        let mut rest = Staging(staging.iter());
        let two = self.dimension != Dimension::D1;
        let three = self.dimension == Dimension::D3;
        let dx = [x, if two { y } else { 0 }, rest.take(three)];
        let dy = [rest.take(true), rest.take(two), rest.take(three)];
        Derivatives {
            dx: dx.map(f32::from_bits),
            dy: dy.map(f32::from_bits),
        }
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
