//! Executor of a texture operation for one thread: it reads the registers in their order and accesses the texture.
//!
//! The order of staging registers is from Mesa's `bifrost_compile.c` (Copyright 2019-2022 Collabora, Ltd., Alyssa
//! Rosenzweig, MIT).

use super::{Clamp, Index, Kind, LodMode, Single};
use crate::texture::TexMemory;
use crate::texture::cube;
use crate::texture::descriptor::{Dimension, Sampler, Texture};
use crate::texture::format::{Class, Encoding};
use crate::texture::level::{Derivatives, Lod};
use crate::texture::refusal::{Refusal, TexError};
use crate::texture::sample::{FetchRequest, SampleRequest, fetch, gather, sample};
use crate::texture::texel::Texel;

/// Iterator over staging registers; a missing register is 0.
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
    /// Returns the number of registers that hold coordinates or derivatives beyond the first two operands.
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

    /// Returns the number of staging registers that the operation reads, at most [`MAX_STAGING`].
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

    /// Returns the numbers of the texture and of the sampler for the given staging registers.
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

    /// Returns the registers that the operation writes, one bit each, starting with the first.
    #[must_use]
    pub fn written_mask(&self) -> u8 {
        if self.format.is_half() {
            u8::from(self.mask & 3 != 0) | u8::from(self.mask & 12 != 0) << 1
        } else {
            self.mask
        }
    }

    /// Returns whether the operation needs the change of coordinates between threads.
    #[must_use]
    pub fn needs_derivatives(&self) -> bool {
        matches!(
            self.kind,
            Kind::Sample(LodMode::Computed | LodMode::Bias) | Kind::Gradient { explicit: false, .. }
        )
    }

    /// Executes the operation for one thread. `x` and `y` are its two operands. `derivatives` are used if
    /// [`Single::needs_derivatives`] returns `true`. Returns four registers, of which those in [`Single::written_mask`]
    /// are written.
    ///
    /// # Errors
    /// When memory cannot be read, or something is not implemented.
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

    /// Does the same for `TEXS_CUBE`, whose face is in its own register, in the three highest bits.
    ///
    /// # Errors
    /// Returns the errors of [`Single::run`].
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
        // The placeholder for an unbound texture is zero in every format and every dimension.
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
        let mut request = SampleRequest {
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
                let place = FetchRequest {
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

    /// Returns derivatives that are operands: those across start in the operands, and those down follow.
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
