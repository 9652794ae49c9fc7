//! Pixel formats: parser of the 22 bits of a descriptor into the memory layout of texels and the order of components.
//!
//! The numbers are from `genxml/v6.xml` and `v7.xml` and from `pan_format.c` of Mesa (Copyright 2019-2020 Collabora,
//! Ltd., MIT).

use super::refusal::Refusal;

/// GPU architecture, as far as descriptors differ: Mali-G71 is 6, Mali-G52 is 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// First generation of Bifrost.
    V6,
    /// Second generation of Bifrost.
    V7,
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V6 => "6",
            Self::V7 => "7",
        })
    }
}

/// Source of one of four components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A component by number: 0 (red) to 3 (alpha).
    Component(u8),
    /// Zero.
    Zero,
    /// One: 1.0, or the integer 1.
    One,
}

/// Sources of four components.
pub type Swizzle = [Channel; 4];

/// Parses a swizzle of four fields of three bits: 0 to 3 is a component, 4 is zero, 5 is one.
pub(super) fn swizzle(bits: u32, field: &'static str) -> Result<Swizzle, Refusal> {
    let mut out = [Channel::Zero; 4];
    for (i, c) in out.iter_mut().enumerate() {
        *c = match bits >> (3 * i) & 7 {
            4 => Channel::Zero,
            5 => Channel::One,
            n @ 0..=3 => Channel::Component(n as u8),
            value => return Err(Refusal::Value { field, value }),
        };
    }
    Ok(out)
}

/// Component orders by their number on architecture 7: number, and source of red, green, blue and alpha (0 to 3 is a
/// component of memory, 4 is zero, 5 is one). The name of an order lists memory from its start, so `ARGB` reads red
/// from the second component.
const ORDERS_V7: &[(u32, [u8; 4])] = &[
    (0, [0, 1, 2, 3]),
    (2, [1, 0, 2, 3]),
    (4, [2, 1, 0, 3]),
    (8, [1, 2, 3, 0]),
    (10, [2, 1, 3, 0]),
    (12, [3, 2, 1, 0]),
    (16, [0, 1, 2, 5]),
    (18, [1, 0, 2, 5]),
    (20, [2, 1, 0, 5]),
    (24, [1, 2, 3, 5]),
    (26, [2, 1, 3, 5]),
    (28, [3, 2, 1, 5]),
    (226, [0, 0, 0, 0]),
    (227, [0, 0, 0, 5]),
    (228, [0, 0, 0, 3]),
    (229, [4, 4, 4, 3]),
    (230, [4, 4, 4, 5]),
    (231, [4, 4, 4, 4]),
    (240, [0, 4, 4, 4]),
];

fn order_v7(bits: u32) -> Result<Swizzle, Refusal> {
    let (_, from) = ORDERS_V7.iter().find(|(n, _)| *n == bits).ok_or(Refusal::Value {
        field: "the component order of a pixel format",
        value: bits,
    })?;
    Ok(from.map(|n| match n {
        4 => Channel::Zero,
        5 => Channel::One,
        n => Channel::Component(n),
    }))
}

/// Kind of the numbers of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Real numbers, stored as `f32`.
    Float,
    /// Signed integers, stored as `i32`.
    Sint,
    /// Unsigned integers, stored as `u32`.
    Uint,
}

/// Encoding of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Unsigned normalised; the greatest value is 1.
    Unorm,
    /// Signed normalised; the greatest value is 1, and the two least values are both -1.
    Snorm,
    /// Unsigned integer.
    Uint,
    /// Signed integer.
    Sint,
    /// IEEE floating point of 16 or 32 bits.
    Float,
    /// Signed fixed point with 16 fractional bits.
    Fixed,
}

/// Memory layout of texels. Components are counted from the first byte, or from the lowest bit if they share a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// No memory: every texel is (0, 0, 0, 0). The driver binds this where the program binds nothing.
    Constant,
    /// `count` components of `bits` bits each: 8, 16 or 32.
    Plain {
        /// Encoding of each component.
        number: Number,
        /// Width of each component in bits.
        bits: u8,
        /// Number of components.
        count: u8,
    },
    /// Components of different widths in one little-endian word of 2 or 4 bytes. A component of width 0 does not exist.
    Packed {
        /// Encoding of each component.
        number: Number,
        /// Widths of the components in bits, starting with the lowest component.
        widths: [u8; 4],
    },
    /// Three unsigned floats of 11, 11 and 10 bits.
    R11G11B10,
    /// Three mantissas of 9 bits that share an exponent of 5 bits.
    Rgb9e5,
    /// 24-bit depth in a word of four bytes, starting at this bit.
    Depth24 {
        /// Lowest bit.
        shift: u8,
    },
    /// Depth as `f32` at this byte of eight bytes.
    Depth32In64 {
        /// First byte.
        at: u8,
    },
    /// Stencil byte, in the green component.
    Stencil {
        /// Size of a texel, bytes.
        bytes: u8,
        /// Offset of the stencil byte.
        at: u8,
    },
    /// Alpha only, 8 bits.
    Alpha8,
    /// Red and alpha, 8 bits each.
    RedAlpha8 {
        /// Whether alpha comes first.
        alpha_first: bool,
    },
    /// Block of 4x4 texels of the ETC2 family.
    Etc2(super::etc2::Etc2),
}

/// Extent and size of a unit of storage: a texel, or a compressed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of texels across.
    pub width: u32,
    /// Number of texels down.
    pub height: u32,
    /// Size, bytes.
    pub bytes: u32,
}

/// Supported pixel format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelFormat {
    /// Architecture whose table the number is from.
    pub arch: Arch,
    /// The 22 bits from the descriptor.
    pub raw: u32,
    /// Source of red, green, blue and alpha among the components in memory.
    pub order: Swizzle,
    /// Whether red, green and blue are stored with the sRGB curve.
    pub srgb: bool,
    /// Memory layout of texels.
    pub encoding: Encoding,
}

/// Returns the encoding of a format with 8, 16 or 32 bits per component. These formats form families of 32 numbers: two
/// bits count the components, three bits select the width.
fn family(index: u8) -> Option<Encoding> {
    use Number::{Float, Sint, Snorm, Uint, Unorm};
    let number = match index >> 5 {
        3 => Snorm,
        4 => Uint,
        5 => Unorm,
        6 => Sint,
        _ => return None,
    };
    let (number, bits) = match (number, index & 7) {
        (n, 3) => (n, 8),
        (n, 4) => (n, 16),
        (n, 5) => (n, 32),
        (Unorm, 7) => (Float, 32),
        (Sint, 7) => (Float, 16),
        _ => return None,
    };
    Some(Encoding::Plain {
        number,
        bits,
        count: (index >> 3 & 3) + 1,
    })
}

fn encoding(arch: Arch, index: u8) -> Option<Encoding> {
    use super::etc2::Etc2;
    use Number::{Fixed, Sint, Snorm, Uint, Unorm};
    let v7 = arch == Arch::V7;
    let packed = |number, widths| Some(Encoding::Packed { number, widths });
    match index {
        1 => Some(Encoding::Etc2(Etc2::Rgb8)),
        2 => Some(Encoding::Etc2(Etc2::R11 { signed: false })),
        3 => Some(Encoding::Etc2(Etc2::Rgba8)),
        4 => Some(Encoding::Etc2(Etc2::Rg11 { signed: false })),
        17 => Some(Encoding::Etc2(Etc2::R11 { signed: true })),
        18 => Some(Encoding::Etc2(Etc2::Rg11 { signed: true })),
        19 => Some(Encoding::Etc2(Etc2::Rgb8A1)),
        24 if v7 => Some(Encoding::RedAlpha8 { alpha_first: false }),
        25 if v7 => Some(Encoding::RedAlpha8 { alpha_first: true }),
        26 if v7 => Some(Encoding::Alpha8),
        64 => packed(Unorm, [5, 6, 5, 0]),
        65 => packed(Unorm, [5, 5, 5, 1]),
        67 => packed(Unorm, [10, 10, 10, 2]),
        69 => packed(Snorm, [10, 10, 10, 2]),
        71 => packed(Uint, [10, 10, 10, 2]),
        73 => packed(Sint, [10, 10, 10, 2]),
        75 if v7 => Some(Encoding::Plain {
            number: Unorm,
            bits: 16,
            count: 1,
        }),
        77 => Some(Encoding::Depth24 { shift: 0 }),
        78 => Some(Encoding::Depth24 { shift: 8 }),
        79 => Some(Encoding::Stencil { bytes: 8, at: 4 }),
        80 => Some(Encoding::Stencil { bytes: 8, at: 3 }),
        81..=84 => Some(Encoding::Plain {
            number: Fixed,
            bits: 32,
            count: index - 80,
        }),
        85 if v7 => Some(Encoding::Stencil { bytes: 4, at: 3 }),
        86 if v7 => Some(Encoding::Stencil { bytes: 4, at: 0 }),
        87 if v7 => Some(Encoding::Depth32In64 { at: 0 }),
        88 if v7 => Some(Encoding::Depth32In64 { at: 4 }),
        89 => Some(Encoding::R11G11B10),
        91 => Some(Encoding::Rgb9e5),
        93 if v7 => Some(Encoding::Stencil { bytes: 1, at: 0 }),
        95 => Some(Encoding::Constant),
        122 => packed(Snorm, [4, 4, 4, 4]),
        154 => packed(Uint, [4, 4, 4, 4]),
        186 => packed(Unorm, [4, 4, 4, 4]),
        218 => packed(Sint, [4, 4, 4, 4]),
        _ => family(index),
    }
}

impl PixelFormat {
    /// Parses the 22 bits of a descriptor.
    ///
    /// # Errors
    /// When the format, its order or a flag is not implemented.
    pub fn parse(arch: Arch, raw: u32) -> Result<Self, Refusal> {
        let raw = raw & 0x3f_ffff;
        let index = (raw >> 12 & 0xff) as u8;
        let encoding = encoding(arch, index).ok_or(Refusal::Format { arch, index })?;
        let order = match arch {
            Arch::V6 => swizzle(raw & 0xfff, "the swizzle of a pixel format")?,
            Arch::V7 => order_v7(raw & 0xfff)?,
        };
        if raw >> 21 & 1 != 0 {
            return Err(Refusal::Feature("a big-endian pixel format"));
        }
        let srgb = raw >> 20 & 1 != 0;
        let format = Self {
            arch,
            raw,
            order,
            srgb,
            encoding,
        };
        if srgb && !format.takes_srgb() {
            return Err(Refusal::Feature(
                "sRGB with a pixel format that has not 8 bits a component",
            ));
        }
        Ok(format)
    }

    /// Returns the number in the table of formats.
    #[must_use]
    pub fn index(&self) -> u8 {
        (self.raw >> 12 & 0xff) as u8
    }

    fn takes_srgb(&self) -> bool {
        use super::etc2::Etc2;
        match self.encoding {
            Encoding::Plain { number, bits, .. } => number == Number::Unorm && bits == 8,
            Encoding::RedAlpha8 { .. } | Encoding::Alpha8 => true,
            Encoding::Etc2(e) => matches!(e, Etc2::Rgb8 | Etc2::Rgba8 | Etc2::Rgb8A1),
            _ => false,
        }
    }

    /// Returns the kind of the numbers of a texel.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.encoding {
            Encoding::Plain { number, .. } | Encoding::Packed { number, .. } => match number {
                Number::Uint => Class::Uint,
                Number::Sint => Class::Sint,
                _ => Class::Float,
            },
            Encoding::Stencil { .. } => Class::Uint,
            _ => Class::Float,
        }
    }

    /// Returns the number of components in memory.
    #[must_use]
    pub fn components(&self) -> u8 {
        match self.encoding {
            Encoding::Constant | Encoding::Alpha8 | Encoding::RedAlpha8 { .. } => 4,
            Encoding::Plain { count, .. } => count,
            Encoding::Packed { widths, .. } => widths.iter().filter(|w| **w > 0).count() as u8,
            Encoding::R11G11B10 | Encoding::Rgb9e5 => 3,
            Encoding::Depth24 { .. } | Encoding::Depth32In64 { .. } => 1,
            Encoding::Stencil { .. } => 2,
            Encoding::Etc2(e) => e.components(),
        }
    }

    /// Returns whether the format is fixed-point depth, for which the reference is clamped to 0..1.
    #[must_use]
    pub fn is_unorm(&self) -> bool {
        match self.encoding {
            Encoding::Plain { number, .. } | Encoding::Packed { number, .. } => number == Number::Unorm,
            Encoding::Depth24 { .. } => true,
            _ => false,
        }
    }

    /// Returns the unit of storage.
    #[must_use]
    pub fn block(&self) -> Block {
        let texel = |bytes: u32| Block {
            width: 1,
            height: 1,
            bytes,
        };
        match self.encoding {
            Encoding::Constant => texel(0),
            Encoding::Plain { bits, count, .. } => texel(u32::from(bits) / 8 * u32::from(count)),
            Encoding::Packed { widths, .. } => texel(widths.iter().map(|w| u32::from(*w)).sum::<u32>().div_ceil(8)),
            Encoding::R11G11B10 | Encoding::Rgb9e5 | Encoding::Depth24 { .. } => texel(4),
            Encoding::Depth32In64 { .. } => texel(8),
            Encoding::Stencil { bytes, .. } => texel(u32::from(bytes)),
            Encoding::Alpha8 => texel(1),
            Encoding::RedAlpha8 { .. } => texel(2),
            Encoding::Etc2(e) => Block {
                width: 4,
                height: 4,
                bytes: e.bytes(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(index: u32, swizzle: u32) -> u32 {
        index << 12 | swizzle
    }

    #[test]
    fn families_give_width_and_count() {
        let cases = [
            (99, Number::Snorm, 8, 1),
            (124, Number::Snorm, 16, 4),
            (133, Number::Uint, 32, 1),
            (157, Number::Uint, 32, 4),
            (163, Number::Unorm, 8, 1),
            (187, Number::Unorm, 8, 4),
            (175, Number::Float, 32, 2),
            (223, Number::Float, 16, 4),
            (197, Number::Sint, 32, 1),
        ];
        for (index, number, bits, count) in cases {
            let f = PixelFormat::parse(Arch::V6, v6(index, 0o3210)).unwrap();
            assert_eq!(f.encoding, Encoding::Plain { number, bits, count }, "{index}");
            assert_eq!(f.block().bytes, u32::from(bits) / 8 * u32::from(count));
        }
    }

    #[test]
    fn unimplemented_texture_features_are_named() {
        let e = PixelFormat::parse(Arch::V7, 28 << 12).unwrap_err();
        assert_eq!(
            e.to_string(),
            "pixel format 28 (RAW10) of architecture 7 is not implemented"
        );
        let e = PixelFormat::parse(Arch::V6, 7 << 12).unwrap_err();
        assert_eq!(
            e.to_string(),
            "pixel format 7 (BC1 UNORM) of architecture 6 is not implemented"
        );
        assert!(PixelFormat::parse(Arch::V6, v6(187, 0o3210) | 1 << 21).is_err());
        assert!(PixelFormat::parse(Arch::V6, v6(187, 0o7210)).is_err());
        assert!(PixelFormat::parse(Arch::V6, v6(133, 0o3210) | 1 << 20).is_err());
        assert!(PixelFormat::parse(Arch::V7, 187 << 12 | 1).is_err());
    }

    #[test]
    fn v7_channel_orders_start_at_the_first_component() {
        let f = PixelFormat::parse(Arch::V7, 187 << 12 | 4).unwrap();
        assert_eq!(f.order, [2, 1, 0, 3].map(Channel::Component));
        let f = PixelFormat::parse(Arch::V7, 187 << 12 | 8).unwrap();
        assert_eq!(f.order, [1, 2, 3, 0].map(Channel::Component));
    }

    #[test]
    fn every_format_number_parses_or_is_refused_on_both_architectures() {
        for arch in [Arch::V6, Arch::V7] {
            for index in 0..=255u32 {
                let order = if arch == Arch::V6 { 0o3210 } else { 0 };
                match PixelFormat::parse(arch, v6(index, order)) {
                    Ok(f) => assert!(f.block().bytes <= 16 && f.components() <= 4),
                    Err(e) => assert!(matches!(e, Refusal::Format { .. })),
                }
            }
        }
    }
}
