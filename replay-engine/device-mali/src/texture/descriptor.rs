//! Descriptors of textures, their surfaces and samplers, taken apart.
//!
//! Fields and values are facts of Mesa's `genxml/v6.xml` and `v7.xml`, the order of surfaces that of `pan_texture.c`
//! (Copyright 2018-2020 Collabora, Ltd., Alyssa Rosenzweig, MIT). Both architectures have the same fields; they differ
//! in the pixel format's component order and in the order of surfaces.

use super::TexMemory;
use super::format::{Arch, PixelFormat, Swizzle, swizzle};
use super::refusal::{Refusal, TexError};
use super::tiling::Ordering;

/// Bytes of a texture descriptor, and of a sampler descriptor.
pub const DESCRIPTOR_BYTES: usize = 32;
/// Bytes of a surface descriptor.
pub const SURFACE_BYTES: u64 = 16;

/// Surfaces that are read with the texture; those of a texture with more are read as they are needed.
const MAX_CACHED_SURFACES: u32 = 64;

/// Shape of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Six square faces.
    Cube,
    /// A row; a texel buffer is one too.
    D1,
    /// A rectangle.
    D2,
    /// A box.
    D3,
}

impl Dimension {
    /// From the field: 0 cube, 1 to 3.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Cube,
            1 => Self::D1,
            2 => Self::D2,
            _ => Self::D3,
        }
    }

    /// In words.
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

/// Where one level of one layer (face, sample) lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Its first texel; tags of compressed layouts are in the low bits.
    pub pointer: u64,
    /// From one row of texels, blocks or tiles to the next, bytes.
    pub row_stride: i32,
    /// From one slice of a 3D texture to the next, bytes.
    pub surface_stride: i32,
}

/// A texture descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texture {
    /// The architecture it is for.
    pub arch: Arch,
    /// Its shape.
    pub dimension: Dimension,
    /// Its texels.
    pub format: PixelFormat,
    /// Texels across at level 0, 1 to 65536.
    pub width: u32,
    /// Texels down at level 0.
    pub height: u32,
    /// Slices at level 0; 1 for what has none.
    pub depth: u32,
    /// Where the four results come from, among red, green, blue and alpha.
    pub swizzle: Swizzle,
    /// Order of texels in surfaces.
    pub ordering: Ordering,
    /// Levels, 1 to 32.
    pub levels: u32,
    /// Samples a texel.
    pub samples: u32,
    /// Layers; of cubes, whole cubes.
    pub layers: u32,
    /// Least level of detail, 8 bits behind the point.
    pub min_lod: i32,
    /// Greatest level of detail, 8 bits behind the point.
    pub max_lod: i32,
    /// Address of the surfaces.
    pub surfaces: u64,
    kept: Vec<Surface>,
}

/// The word at index `i` of a descriptor.
pub(super) fn word(bytes: &[u8], i: usize) -> u32 {
    bytes
        .get(i * 4..i * 4 + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// A field of `size` bits, under 32.
fn field(word: u32, start: u32, size: u32) -> u32 {
    word >> start & ((1 << size) - 1)
}

impl Texture {
    /// Takes a descriptor apart, without its surfaces.
    ///
    /// # Errors
    /// It is no texture, or asks for something that is not implemented: AFBC, for one.
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
            surfaces: u64::from(w[4]) | u64::from(w[5]) << 32,
            kept: Vec::new(),
        })
    }

    /// Reads a descriptor, and its surfaces where they are not many. Surfaces that cannot be read now are read when
    /// they are needed, and fail then.
    ///
    /// # Errors
    /// As [`Texture::parse`], and the descriptor cannot be read.
    pub fn load<M: TexMemory>(arch: Arch, memory: &mut M, va: u64) -> Result<Self, TexError<M::Error>> {
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

    /// How many surfaces there are.
    #[must_use]
    pub fn surface_count(&self) -> u64 {
        [self.levels, self.dimension.faces(), self.samples]
            .into_iter()
            .fold(u64::from(self.layers), |n, by| n.saturating_mul(u64::from(by)))
    }

    /// Place of a surface in the array. Architecture 6 goes through layers, levels, faces, samples, the last fastest;
    /// 7 through layers, faces, samples, levels.
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
            pointer: u64::from(word(&bytes, 0)) | u64::from(word(&bytes, 1)) << 32,
            row_stride: word(&bytes, 2) as i32,
            surface_stride: word(&bytes, 3) as i32,
        })
    }

    /// The surface of a level of a layer, face and sample that there are.
    ///
    /// # Errors
    /// It cannot be read.
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

    /// Texels across, down and in depth at a level.
    #[must_use]
    pub fn extent(&self, level: u32) -> [u32; 3] {
        [self.width, self.height, self.depth].map(|n| n.checked_shr(level).unwrap_or(0).max(1))
    }
}

/// What happens to coordinates outside a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// They start again.
    Repeat,
    /// The texel at the edge.
    ClampToEdge,
    /// The border colour.
    ClampToBorder,
    /// They turn round at each edge.
    MirroredRepeat,
    /// They turn round once at 0, then the texel at the edge.
    MirroredClampToEdge,
    /// They turn round once at 0, then the border colour.
    MirroredClampToBorder,
}

/// Choice of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mipmap {
    /// Level 0 alone.
    None,
    /// The nearest level.
    Nearest,
    /// Between the two nearest.
    Trilinear,
}

/// A comparison: what is in the texture against the reference. The driver turns the API's functions round for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare(u8);

impl Compare {
    /// From the field: bit 0 less, bit 1 equal, bit 2 greater pass.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self((bits & 7) as u8)
    }

    /// Whether the comparison of a texel with the reference passes. Against a NaN only "always" and "not equal" do.
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

/// A sampler descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Across, down and in depth.
    pub wrap: [Wrap; 3],
    /// Take sRGB formats as linear.
    pub srgb_override: bool,
    /// Filter across the edges of a cube.
    pub seamless: bool,
    /// Coordinates go from 0 to 1 and not to the number of texels.
    pub normalized: bool,
    /// Integer coordinates of a fetch are clamped to the texture.
    pub clamp_integer_coordinates: bool,
    /// Layer numbers are clamped to those there are.
    pub clamp_layers: bool,
    /// Take the nearest texel when the texture is made smaller.
    pub minify_nearest: bool,
    /// Take the nearest texel when it is made larger.
    pub magnify_nearest: bool,
    /// Greatest level of detail that counts as making larger, 8 bits behind the point: 0 or 128.
    pub magnify_cutoff: i32,
    /// Choice of a level.
    pub mipmap: Mipmap,
    /// Least level of detail, 8 bits behind the point.
    pub min_lod: i32,
    /// Greatest level of detail.
    pub max_lod: i32,
    /// What is added to it.
    pub lod_bias: i32,
    /// Comparison of depths.
    pub compare: Compare,
    /// More than one sample along an elongated footprint.
    pub anisotropic: bool,
    /// The border colour: `f32` or integers, as the texture's format has them.
    pub border: [u32; 4],
}

fn wrap(value: u32) -> Result<Wrap, Refusal> {
    Ok(match value {
        8 => Wrap::Repeat,
        9 => Wrap::ClampToEdge,
        11 => Wrap::ClampToBorder,
        12 => Wrap::MirroredRepeat,
        13 => Wrap::MirroredClampToEdge,
        15 => Wrap::MirroredClampToBorder,
        value => {
            return Err(Refusal::Value {
                field: "the wrap mode of a sampler",
                value,
            });
        }
    })
}

impl Sampler {
    /// Takes a descriptor apart. It is the same on both architectures.
    ///
    /// # Errors
    /// It is no sampler, or asks for something that is not implemented.
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
    /// As [`Sampler::parse`], and it cannot be read.
    pub fn load<M: TexMemory>(memory: &mut M, va: u64) -> Result<Self, TexError<M::Error>> {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        memory.read(va, &mut bytes).map_err(TexError::Memory)?;
        Ok(Self::parse(&bytes)?)
    }
}

#[cfg(test)]
#[path = "descriptor_tests.rs"]
mod tests;
