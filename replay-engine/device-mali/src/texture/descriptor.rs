//! Parsers of texture, surface and sampler descriptors.
//!
//! The fields and values are from Mesa's `genxml/v6.xml` and `v7.xml`, the order of surfaces from `pan_texture.c`
//! (Copyright 2018-2020 Collabora, Ltd., Alyssa Rosenzweig, MIT). Both architectures have the same fields. They differ
//! in the pixel format's component order and in the order of surfaces.

use super::TexMemory;
use super::format::{Arch, PixelFormat, Swizzle, swizzle};
use super::refusal::{Refusal, TexError};
use super::tiling::Ordering;
use num_enum::TryFromPrimitive;
use trace_core::GpuVa;

/// Size of a texture descriptor and of a sampler descriptor, bytes.
pub const DESCRIPTOR_BYTES: usize = 32;
/// Size of a surface descriptor, bytes.
pub const SURFACE_BYTES: u64 = 16;

/// Maximum number of surfaces that are read with the texture. If a texture has more, they are read when needed.
const MAX_CACHED_SURFACES: u32 = 64;

/// Dimension of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Six square faces.
    Cube,
    /// One row; a texel buffer has this dimension too.
    D1,
    /// A rectangle.
    D2,
    /// A box.
    D3,
}

impl Dimension {
    /// Converts the field: 0 is cube, 1 to 3 are the other dimensions.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Cube,
            1 => Self::D1,
            2 => Self::D2,
            _ => Self::D3,
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cube => "cube",
            Self::D1 => "1D",
            Self::D2 => "2D",
            Self::D3 => "3D",
        }
    }

    pub(super) fn faces(self) -> u32 {
        if self == Self::Cube { 6 } else { 1 }
    }
}

/// Location of one level of one layer (face, sample).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Address of the first texel. The low bits hold tags of compressed layouts.
    pub pointer: GpuVa,
    /// Distance from one row of texels, blocks or tiles to the next, bytes.
    pub row_stride: i32,
    /// Distance from one slice of a 3D texture to the next, bytes.
    pub surface_stride: i32,
}

/// Parsed texture descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texture {
    /// Architecture of the descriptor.
    pub arch: Arch,
    /// Dimension of the texture.
    pub dimension: Dimension,
    /// Format of the texels.
    pub format: PixelFormat,
    /// Number of texels across at level 0, 1 to 65536.
    pub width: u32,
    /// Number of texels down at level 0.
    pub height: u32,
    /// Number of slices at level 0; 1 if the texture has no depth.
    pub depth: u32,
    /// Source of each of the four results, among red, green, blue and alpha.
    pub swizzle: Swizzle,
    /// Order of texels in surfaces.
    pub ordering: Ordering,
    /// Number of levels, 1 to 32.
    pub levels: u32,
    /// Number of samples per texel.
    pub samples: u32,
    /// Number of layers; for cubes, the number of whole cubes.
    pub layers: u32,
    /// Minimum level of detail, with 8 fractional bits.
    pub min_lod: i32,
    /// Maximum level of detail, with 8 fractional bits.
    pub max_lod: i32,
    /// Address of the surfaces.
    pub surfaces: GpuVa,
    kept: Vec<Surface>,
}

/// Returns the word at index `i` of a descriptor.
pub(super) fn word(bytes: &[u8], i: usize) -> u32 {
    bytes
        .get(i * 4..i * 4 + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// Returns a field of `size` bits, below 32.
fn field(word: u32, start: u32, size: u32) -> u32 {
    word >> start & ((1 << size) - 1)
}

impl Texture {
    /// Parses a descriptor without its surfaces.
    ///
    /// # Errors
    /// When it is not a texture descriptor, or requests an unsupported feature, for example AFBC.
    pub fn parse(arch: Arch, bytes: &[u8; DESCRIPTOR_BYTES]) -> Result<Self, Refusal> {
        let w: [u32; 8] = std::array::from_fn(|i| word(bytes, i));
        let found = field(w[0], 0, 4);
        if found != 2 {
            return Err(Refusal::DescriptorType {
                what: "texture",
                found,
                expected: 2,
            });
        }
        if field(w[0], 8, 1) != 0 {
            return Err(Refusal::Feature("a texture sampled at the corners of texels"));
        }
        if field(w[0], 9, 1) != 0 {
            return Err(Refusal::Feature("a texture that normalises coordinates"));
        }
        let format = PixelFormat::parse(arch, w[0] >> 10)?;
        let block = format.block();
        let ordering = match field(w[2], 12, 4) {
            1 => Ordering::Interleaved {
                side: if block.width > 1 { 4 } else { 16 },
            },
            2 => Ordering::Linear,
            12 => return Err(Refusal::Feature("a texture compressed with AFBC")),
            value => {
                return Err(Refusal::Value {
                    field: "the texel ordering of a texture",
                    value,
                });
            }
        };
        if field(w[2], 24, 5) != 0 {
            return Err(Refusal::Feature("a texture whose least level is not 0"));
        }
        let dimension = Dimension::from_bits(field(w[0], 4, 2));
        let solid = dimension == Dimension::D3;
        Ok(Self {
            arch,
            dimension,
            format,
            width: field(w[1], 0, 16) + 1,
            height: field(w[1], 16, 16) + 1,
            depth: if solid { field(w[7], 0, 16) + 1 } else { 1 },
            swizzle: swizzle(field(w[2], 0, 12), "the swizzle of a texture")?,
            ordering,
            levels: field(w[2], 16, 5) + 1,
            samples: if solid { 1 } else { 1 << field(w[3], 13, 3) },
            layers: field(w[6], 0, 16) + 1,
            min_lod: field(w[3], 0, 13) as i32,
            max_lod: field(w[3], 16, 13) as i32,
            surfaces: GpuVa::new(u64::from(w[4]) | u64::from(w[5]) << 32),
            kept: Vec::new(),
        })
    }

    /// Reads a descriptor, and its surfaces if there are few. Surfaces that cannot be read now are read when they are
    /// needed, and fail then.
    ///
    /// # Errors
    /// Returns the errors of [`Texture::parse`], and an error if the descriptor cannot be read.
    pub fn load<M: TexMemory>(arch: Arch, memory: &mut M, va: GpuVa) -> Result<Self, TexError<M::Error>> {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        memory.read(va, &mut bytes).map_err(TexError::Memory)?;
        let mut texture = Self::parse(arch, &bytes)?;
        let count = texture.surface_count();
        if count <= u64::from(MAX_CACHED_SURFACES) && texture.format.block().bytes > 0 {
            let mut kept = Vec::with_capacity(count as usize);
            for index in 0..count {
                match texture.read_surface(memory, index) {
                    Ok(s) => kept.push(s),
                    Err(_) => return Ok(texture),
                }
            }
            texture.kept = kept;
        }
        Ok(texture)
    }

    /// Returns the number of surfaces.
    #[must_use]
    pub fn surface_count(&self) -> u64 {
        [self.levels, self.dimension.faces(), self.samples]
            .into_iter()
            .fold(u64::from(self.layers), |n, by| n.saturating_mul(u64::from(by)))
    }

    /// Returns the index of a surface in the array. The order on architecture 6 is layers, levels, faces, samples, with
    /// the last fastest; on architecture 7 it is layers, faces, samples, levels.
    fn surface_index(&self, layer: u32, face: u32, sample: u32, level: u32) -> u64 {
        let [layer, face, sample, level] = [layer, face, sample, level].map(u64::from);
        let [faces, samples, levels] = [self.dimension.faces(), self.samples, self.levels].map(u64::from);
        match self.arch {
            Arch::V6 => ((layer * levels + level) * faces + face) * samples + sample,
            Arch::V7 => ((layer * faces + face) * samples + sample) * levels + level,
        }
    }

    fn read_surface<M: TexMemory>(&self, memory: &mut M, index: u64) -> Result<Surface, TexError<M::Error>> {
        let at = index
            .checked_mul(SURFACE_BYTES)
            .and_then(|d| self.surfaces.checked_add(d))
            .ok_or(Refusal::Address)?;
        let mut bytes = [0; SURFACE_BYTES as usize];
        memory.read(at, &mut bytes).map_err(TexError::Memory)?;
        Ok(Surface {
            pointer: GpuVa::new(u64::from(word(&bytes, 0)) | u64::from(word(&bytes, 1)) << 32),
            row_stride: word(&bytes, 2) as i32,
            surface_stride: word(&bytes, 3) as i32,
        })
    }

    /// Returns the surface of an existing level of a layer, face and sample.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn surface<M: TexMemory>(
        &self,
        memory: &mut M,
        layer: u32,
        face: u32,
        sample: u32,
        level: u32,
    ) -> Result<Surface, TexError<M::Error>> {
        let index = self.surface_index(layer, face, sample, level);
        match usize::try_from(index).ok().and_then(|i| self.kept.get(i)) {
            Some(s) => Ok(*s),
            None => self.read_surface(memory, index),
        }
    }

    /// Returns the number of texels across, down and in depth at a level.
    #[must_use]
    pub fn extent(&self, level: u32) -> [u32; 3] {
        [self.width, self.height, self.depth].map(|n| n.checked_shr(level).unwrap_or(0).max(1))
    }
}

/// Wrap mode for coordinates outside a texture. The numbers are those of sampler descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromPrimitive)]
#[repr(u32)]
pub enum Wrap {
    /// Coordinates repeat.
    Repeat = 8,
    /// Coordinates are clamped to the texel at the edge.
    ClampToEdge = 9,
    /// The border colour.
    ClampToBorder = 11,
    /// Coordinates are mirrored at each edge.
    MirroredRepeat = 12,
    /// Coordinates are mirrored once at 0, then clamped to the texel at the edge.
    MirroredClampToEdge = 13,
    /// Coordinates are mirrored once at 0, then use the border colour.
    MirroredClampToBorder = 15,
}

/// Selection of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mipmap {
    /// Level 0 only.
    None,
    /// The nearest level.
    Nearest,
    /// Interpolation between the two nearest levels.
    Trilinear,
}

/// Comparison of a texel with the reference. The driver reverses the API's functions for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare(u8);

impl Compare {
    /// Converts the field: bit 0 set means less passes, bit 1 equal, bit 2 greater.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self((bits & 7) as u8)
    }

    /// Returns whether the comparison of a texel with the reference passes. With a NaN, only "always" and "not equal"
    /// pass.
    #[must_use]
    pub fn passes(self, texel: f32, reference: f32) -> bool {
        match texel.partial_cmp(&reference) {
            Some(std::cmp::Ordering::Less) => self.0 & 1 != 0,
            Some(std::cmp::Ordering::Equal) => self.0 & 2 != 0,
            Some(std::cmp::Ordering::Greater) => self.0 & 4 != 0,
            None => self.0 == 7 || self.0 == 5,
        }
    }
}

/// Parsed sampler descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Wrap modes across, down and in depth.
    pub wrap: [Wrap; 3],
    /// Whether sRGB formats are read as linear.
    pub srgb_override: bool,
    /// Whether filtering crosses the edges of a cube.
    pub seamless: bool,
    /// Whether coordinates range from 0 to 1 instead of to the number of texels.
    pub normalized: bool,
    /// Whether integer coordinates of a fetch are clamped to the texture.
    pub clamp_integer_coordinates: bool,
    /// Whether layer numbers are clamped to the existing layers.
    pub clamp_layers: bool,
    /// Whether minification uses the nearest texel.
    pub minify_nearest: bool,
    /// Whether magnification uses the nearest texel.
    pub magnify_nearest: bool,
    /// Maximum level of detail that counts as magnification, with 8 fractional bits: 0 or 128.
    pub magnify_cutoff: i32,
    /// Selection of a level.
    pub mipmap: Mipmap,
    /// Minimum level of detail, with 8 fractional bits.
    pub min_lod: i32,
    /// Maximum level of detail, with 8 fractional bits.
    pub max_lod: i32,
    /// Bias that is added to the level of detail.
    pub lod_bias: i32,
    /// Comparison of depths.
    pub compare: Compare,
    /// Whether more than one sample is taken along an elongated footprint.
    pub anisotropic: bool,
    /// Border colour: `f32` or integers, as the texture's format requires.
    pub border: [u32; 4],
}

fn wrap(value: u32) -> Result<Wrap, Refusal> {
    Wrap::try_from(value).map_err(|_| Refusal::Value {
        field: "the wrap mode of a sampler",
        value,
    })
}

impl Sampler {
    /// Parses a descriptor. Its layout is the same on both architectures.
    ///
    /// # Errors
    /// When it is not a sampler descriptor, or requests an unsupported feature.
    pub fn parse(bytes: &[u8; DESCRIPTOR_BYTES]) -> Result<Self, Refusal> {
        let w: [u32; 8] = std::array::from_fn(|i| word(bytes, i));
        let found = field(w[0], 0, 4);
        if found != 1 {
            return Err(Refusal::DescriptorType {
                what: "sampler",
                found,
                expected: 1,
            });
        }
        let flag = |bit: u32| field(w[0], bit, 1) == 1;
        Ok(Self {
            wrap: [
                wrap(field(w[0], 16, 4))?,
                wrap(field(w[0], 12, 4))?,
                wrap(field(w[0], 8, 4))?,
            ],
            srgb_override: flag(22),
            seamless: flag(23),
            clamp_integer_coordinates: flag(24),
            normalized: flag(25),
            clamp_layers: flag(26),
            minify_nearest: flag(27),
            magnify_nearest: flag(28),
            magnify_cutoff: if flag(29) { 128 } else { 0 },
            mipmap: match w[0] >> 30 {
                0 => Mipmap::Nearest,
                1 => Mipmap::None,
                3 => Mipmap::Trilinear,
                value => {
                    return Err(Refusal::Value {
                        field: "the mipmap mode of a sampler",
                        value,
                    });
                }
            },
            min_lod: field(w[1], 0, 13) as i32,
            compare: Compare::from_bits(field(w[1], 13, 3)),
            max_lod: field(w[1], 16, 13) as i32,
            lod_bias: i32::from(w[2] as u16 as i16),
            anisotropic: match field(w[2], 24, 2) {
                0 => false,
                3 => true,
                value => {
                    return Err(Refusal::Value {
                        field: "the level-of-detail algorithm of a sampler",
                        value,
                    });
                }
            },
            border: [w[4], w[5], w[6], w[7]],
        })
    }

    /// Reads a descriptor.
    ///
    /// # Errors
    /// Returns the errors of [`Sampler::parse`], and an error if it cannot be read.
    pub fn load<M: TexMemory>(memory: &mut M, va: GpuVa) -> Result<Self, TexError<M::Error>> {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        memory.read(va, &mut bytes).map_err(TexError::Memory)?;
        Ok(Self::parse(&bytes)?)
    }
}

#[cfg(test)]
#[path = "descriptor_tests.rs"]
mod tests;
