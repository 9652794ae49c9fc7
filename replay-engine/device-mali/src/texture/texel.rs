//! Texels: conversion between the bytes of memory and four numbers.

use super::format::{Channel, Class, Encoding, Number, PixelFormat, Swizzle};
use super::number::{
    f16_to_f32, f32_to_f16, f32_to_r11g11b10, f32_to_rgb9e5, f32_to_snorm, f32_to_unorm, fixed_to_f32,
    r11g11b10_to_f32, rgb9e5_to_f32, sign_extend, snorm_to_f32, unorm_to_f32,
};
use super::refusal::Refusal;
use super::srgb::{linear_to_srgb, srgb_value_to_linear};

/// Four numbers with their class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texel {
    /// Class of the bits: `f32`, `i32` or `u32`.
    pub class: Class,
    /// Red, green, blue, alpha.
    pub bits: [u32; 4],
}

impl Texel {
    /// Returns a texel of zeros.
    #[must_use]
    pub fn zero(class: Class) -> Self {
        Self { class, bits: [0; 4] }
    }

    /// Creates a texel of real numbers.
    #[must_use]
    pub fn floats(values: [f32; 4]) -> Self {
        Self {
            class: Class::Float,
            bits: values.map(f32::to_bits),
        }
    }

    /// Returns the bits as real numbers; meaningful for that class only.
    #[must_use]
    pub fn as_floats(&self) -> [f32; 4] {
        self.bits.map(f32::from_bits)
    }

    /// Returns the components in another order.
    #[must_use]
    pub fn swizzled(&self, order: &Swizzle) -> Self {
        Self {
            class: self.class,
            bits: order.map(|c| match c {
                Channel::Component(n) => self.bits.get(usize::from(n)).copied().unwrap_or(0),
                Channel::Zero => 0,
                Channel::One => one(self.class),
            }),
        }
    }
}

/// Returns one in this class.
fn one(class: Class) -> u32 {
    match class {
        Class::Float => 1f32.to_bits(),
        Class::Sint | Class::Uint => 1,
    }
}

/// Decodes the number in the low `bits` bits.
fn decode_number(number: Number, bits: u8, value: u32) -> u32 {
    match number {
        Number::Unorm => unorm_to_f32(value, bits).to_bits(),
        Number::Snorm => snorm_to_f32(value, bits).to_bits(),
        Number::Uint => value,
        Number::Sint => sign_extend(value, bits) as u32,
        Number::Float if bits == 16 => f16_to_f32(value as u16).to_bits(),
        Number::Float => value,
        Number::Fixed => fixed_to_f32(value as i32).to_bits(),
    }
}

/// Encodes the nearest number of `bits` bits. Integers are saturated.
fn encode_number(number: Number, bits: u8, value: u32) -> u32 {
    let max = u32::MAX >> (32 - u32::from(bits.clamp(1, 32)));
    match number {
        Number::Unorm => f32_to_unorm(f32::from_bits(value), bits),
        Number::Snorm => f32_to_snorm(f32::from_bits(value), bits),
        Number::Uint => value.min(max),
        Number::Sint => {
            let half = (max >> 1) as i32;
            (value as i32).clamp(-half - 1, half) as u32 & max
        }
        Number::Float if bits == 16 => u32::from(f32_to_f16(f32::from_bits(value))),
        Number::Float | Number::Fixed => value,
    }
}

/// Returns component `i` of components of `bits` bits, which start at byte boundaries.
fn plain(bytes: &[u8; 16], bits: u8, i: usize) -> u32 {
    let size = usize::from(bits / 8);
    let mut word = [0; 4];
    if let (Some(from), Some(to)) = (bytes.get(i * size..(i + 1) * size), word.get_mut(..size)) {
        to.copy_from_slice(from);
    }
    u32::from_le_bytes(word)
}

fn word(bytes: &[u8; 16]) -> u32 {
    plain(bytes, 32, 0)
}

impl PixelFormat {
    /// Decodes one texel from the unit of storage that contains it. `x` and `y` select the texel in block formats. sRGB
    /// is decoded if `srgb` is set and the format has it.
    #[must_use]
    pub fn decode(&self, bytes: &[u8; 16], x: u32, y: u32, srgb: bool) -> Texel {
        let class = self.class();
        let mut bits = [0, 0, 0, one(class)];
        let mut real = |values: &[f32]| {
            for (to, v) in bits.iter_mut().zip(values) {
                *to = v.to_bits();
            }
        };
        match self.encoding {
            Encoding::Constant => bits = [0; 4],
            Encoding::Plain {
                number,
                bits: width,
                count,
            } => {
                for (i, to) in bits.iter_mut().enumerate().take(usize::from(count)) {
                    *to = decode_number(number, width, plain(bytes, width, i));
                }
            }
            Encoding::Packed { number, widths } => {
                let (word, mut at) = (word(bytes), 0);
                for (to, width) in bits.iter_mut().zip(widths).filter(|(_, w)| *w > 0) {
                    let value = word >> at & (u32::MAX >> (32 - u32::from(width)));
                    *to = decode_number(number, width, value);
                    at += u32::from(width);
                }
            }
            Encoding::R11G11B10 => real(&r11g11b10_to_f32(word(bytes))),
            Encoding::Rgb9e5 => real(&rgb9e5_to_f32(word(bytes))),
            Encoding::Depth24 { shift } => real(&[unorm_to_f32(word(bytes) >> shift, 24)]),
            Encoding::Depth32In64 { at } => bits[0] = plain(bytes, 32, usize::from(at / 4)),
            Encoding::Stencil { at, .. } => bits[1] = plain(bytes, 8, usize::from(at)),
            Encoding::Alpha8 => real(&[0.0, 0.0, 0.0, unorm_to_f32(plain(bytes, 8, 0), 8)]),
            Encoding::RedAlpha8 { alpha_first } => {
                let [a, b] = [0, 1].map(|i| unorm_to_f32(plain(bytes, 8, i), 8));
                let (red, alpha) = if alpha_first { (b, a) } else { (a, b) };
                real(&[red, 0.0, 0.0, alpha]);
            }
            Encoding::Etc2(e) => real(&e.texel(bytes, x, y)),
        }
        let mut texel = Texel { class, bits }.swizzled(&self.order);
        if self.srgb && srgb {
            // Alpha is always linear.
            for c in &mut texel.bits[..3] {
                *c = srgb_value_to_linear(f32::from_bits(*c)).to_bits();
            }
        }
        texel
    }

    /// Encodes a texel to as many bytes as [`PixelFormat::block`] says. Memory components that no channel of the format
    /// reads are 0.
    ///
    /// # Errors
    /// When the format is read-only.
    pub fn encode(&self, texel: &Texel) -> Result<[u8; 16], Refusal> {
        // Each memory component holds the first channel that is read from it.
        let mut values = [0; 4];
        for (i, to) in values.iter_mut().enumerate() {
            let channel = self.order.iter().position(|c| *c == Channel::Component(i as u8));
            if let Some(c) = channel {
                *to = texel.bits[c];
                if self.srgb && c < 3 {
                    let code = linear_to_srgb(f32::from_bits(*to));
                    *to = unorm_to_f32(u32::from(code), 8).to_bits();
                }
            }
        }
        let mut bytes = [0; 16];
        let reals = values.map(f32::from_bits);
        match self.encoding {
            Encoding::Plain { number, bits, count } if number != Number::Fixed => {
                let size = usize::from(bits / 8);
                for (to, v) in bytes.chunks_exact_mut(size).zip(values).take(usize::from(count)) {
                    let encoded = encode_number(number, bits, v).to_le_bytes();
                    to.copy_from_slice(encoded.get(..size).unwrap_or(&[]));
                }
            }
            Encoding::Packed { number, widths } => {
                let (mut word, mut at) = (0, 0);
                for (v, width) in values.into_iter().zip(widths).filter(|(_, w)| *w > 0) {
                    word |= encode_number(number, width, v) << at;
                    at += u32::from(width);
                }
                bytes[..4].copy_from_slice(&word.to_le_bytes());
            }
            Encoding::R11G11B10 => {
                let word = f32_to_r11g11b10([reals[0], reals[1], reals[2]]);
                bytes[..4].copy_from_slice(&word.to_le_bytes());
            }
            Encoding::Rgb9e5 => {
                let word = f32_to_rgb9e5([reals[0], reals[1], reals[2]]);
                bytes[..4].copy_from_slice(&word.to_le_bytes());
            }
            Encoding::Alpha8 => bytes[0] = f32_to_unorm(reals[3], 8) as u8,
            Encoding::RedAlpha8 { alpha_first } => {
                let [red, alpha] = [0, 3].map(|i| f32_to_unorm(reals[i], 8) as u8);
                let pair = if alpha_first { [alpha, red] } else { [red, alpha] };
                bytes[..2].copy_from_slice(&pair);
            }
            _ => {
                return Err(Refusal::Store {
                    arch: self.arch,
                    index: self.index(),
                });
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "texel_tests.rs"]
mod tests;
