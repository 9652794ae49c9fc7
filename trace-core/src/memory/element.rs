//! Conversion of elements to text and back: integers, floats, halves, hex.

use crate::recording::ElementType;

/// The reason why a text is not an element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// The text is not a number of this type.
    #[error("\"{text}\" is not a value of type {ty}", ty = .element.name())]
    NotANumber {
        /// The text.
        text: String,
        /// The type.
        element: ElementType,
    },
    /// The number does not fit.
    #[error("{text} does not fit in {ty}", ty = .element.name())]
    OutOfRange {
        /// The text.
        text: String,
        /// The type.
        element: ElementType,
    },
    /// Hex text with an invalid character or an incomplete byte.
    #[error("hex text, character {at}: expected two hex digits for each byte")]
    Hex {
        /// Position of the character, from 0.
        at: usize,
    },
}

/// Returns the exact value of an IEEE binary16. NaN payloads stay.
#[must_use]
pub fn f16_to_f32(bits: u16) -> f32 {
    if bits & 0x7fff > 0x7c00 {
        // `half` would make a signalling NaN quiet.
        return f32::from_bits(u32::from(bits & 0x8000) << 16 | 0x7f80_0000 | u32::from(bits & 0x3ff) << 13);
    }
    half::f16::from_bits(bits).to_f32()
}

/// Returns the nearest IEEE binary16, ties to even. Too large values become infinite; NaN stays NaN.
#[must_use]
pub fn f32_to_f16(value: f32) -> u16 {
    if value.is_nan() {
        // `half` and a conversion to f64 would make a signalling NaN quiet.
        let bits = value.to_bits();
        return half_nan((bits >> 16) as u16 & 0x8000, (bits >> 13) as u16 & 0x3ff);
    }
    half::f16::from_f32(value).to_bits()
}

/// Returns a NaN with the upper ten bits of a payload. If all these bits are zero it would be infinite, so it gets the
/// quiet bit.
fn half_nan(sign: u16, payload: u16) -> u16 {
    sign | 0x7c00 | payload | u16::from(payload == 0) << 9
}

/// Returns the nearest IEEE binary16, ties to even. Too large values become infinite; NaN stays NaN.
#[must_use]
pub fn f64_to_f16(value: f64) -> u16 {
    if value.is_nan() {
        let bits = value.to_bits();
        return half_nan((bits >> 48) as u16 & 0x8000, (bits >> 42) as u16 & 0x3ff);
    }
    half::f16::from_f32(round_to_odd(value)).to_bits()
}

/// Returns the exact value of a brain float: a binary32 represents all of them. `half` would make a signalling NaN
/// quiet.
#[must_use]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Returns the nearest brain float, ties to even. Too large values become infinite; NaN stays NaN.
#[must_use]
pub fn f64_to_bf16(value: f64) -> u16 {
    if value.is_nan() {
        let sign = (value.to_bits() >> 48 & 0x8000) as u16;
        return sign | 0x7fc0;
    }
    half::bf16::from_f32(round_to_odd(value)).to_bits()
}

/// Rounds to odd, so that the next rounding knows that a remainder exists, and its direction. `half` itself drops the
/// low bits of an f64 before it rounds, so its results are not always the nearest.
fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    let mut bits = near.to_bits();
    if f64::from(near) != value {
        if f64::from(near).abs() > value.abs() {
            bits -= 1;
        }
        bits |= 1;
    }
    f32::from_bits(bits)
}

/// Reads the element at the start of `bytes`; bytes past the end read as 0.
fn raw(element: ElementType, bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes.iter().take(element.bytes())) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

/// Formats the first element of `bytes`. [`parse_element`] reads the text back to the same bits, except NaN payloads.
/// Returns `None` if there are too few bytes.
#[must_use]
pub fn element_text(element: ElementType, bytes: &[u8]) -> Option<String> {
    if bytes.len() < element.bytes() {
        return None;
    }
    let v = raw(element, bytes);
    Some(match element {
        ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => v.to_string(),
        ElementType::I8 => (v as i8).to_string(),
        ElementType::I16 => (v as i16).to_string(),
        ElementType::I32 => (v as i32).to_string(),
        ElementType::I64 => (v as i64).to_string(),
        ElementType::F16 => short_text(f16_to_f32(v as u16), |text| f64_to_f16(text) == v as u16),
        ElementType::F32 => float_text(f32::from_bits(v as u32)),
        ElementType::F64 => float_text(f64::from_bits(v)),
        ElementType::BF16 => short_text(bf16_to_f32(v as u16), |text| f64_to_bf16(text) == v as u16),
    })
}

/// Returns the shortest text that reads back to the same value, with an exponent if plain digits would be long.
fn float_text<F: num::Float>(value: F) -> String {
    value.text()
}

/// Returns the shortest decimal that reads back to the same 16-bit value.
fn short_text(value: f32, is_same: impl Fn(f64) -> bool) -> String {
    if !value.is_finite() {
        return float_text(value);
    }
    for digits in 0..5 {
        let text = format!("{value:.digits$e}");
        if text.parse::<f64>().is_ok_and(&is_same) {
            return text.parse::<f32>().map_or(text, float_text);
        }
    }
    float_text(value)
}

mod num {
    //! The two float types under one name.

    /// A float that can be formatted.
    pub trait Float: Copy {
        /// Returns the shortest text that reads back to the same value.
        fn text(self) -> String;
    }

    macro_rules! float {
        ($t:ty) => {
            impl Float for $t {
                fn text(self) -> String {
                    let size = self.abs();
                    if size != 0.0 && size.is_finite() && !(1e-5..1e16).contains(&size) {
                        format!("{self:e}")
                    } else {
                        format!("{self}")
                    }
                }
            }
        };
    }
    float!(f32);
    float!(f64);
}

/// Formats all whole elements of `bytes`.
pub fn elements_text(element: ElementType, bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    bytes
        .chunks_exact(element.bytes())
        .filter_map(move |b| element_text(element, b))
}

/// Parses one element: decimal, `0x` hex (the bits in memory, for floats too), `nan`, `inf`, `-inf`. Returns its
/// little-endian bytes.
///
/// # Errors
///
/// When the text is no number of the type, or does not fit.
pub fn parse_element(element: ElementType, text: &str) -> Result<Vec<u8>, ElementError> {
    let t = text.trim();
    let not = || ElementError::NotANumber {
        text: t.to_owned(),
        element,
    };
    let out_of_range = || ElementError::OutOfRange {
        text: t.to_owned(),
        element,
    };
    let bits = element.bytes() * 8;
    let value: u64 = if let Some(hex) = t.strip_prefix("0x").or_else(|| t.strip_prefix("0X")) {
        let digits: String = hex.chars().filter(|c| *c != '_').collect();
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(not());
        }
        let v = u64::from_str_radix(&digits, 16).map_err(|_| out_of_range())?;
        if bits < 64 && v >> bits != 0 {
            return Err(out_of_range());
        }
        v
    } else {
        match element {
            e if e.is_float() => {
                let v: f64 = t.parse().map_err(|_| not())?;
                let infinite = v.is_infinite() && t.chars().any(|c| c.is_ascii_digit());
                match element {
                    ElementType::F16 => {
                        let h = f64_to_f16(v);
                        if infinite || v.is_finite() && h & 0x7fff == 0x7c00 {
                            return Err(out_of_range());
                        }
                        u64::from(h)
                    }
                    ElementType::BF16 => {
                        let b = f64_to_bf16(v);
                        if infinite || v.is_finite() && b & 0x7fff == 0x7f80 {
                            return Err(out_of_range());
                        }
                        u64::from(b)
                    }
                    ElementType::F32 => {
                        // Parsed directly as f32: through f64 it would be rounded twice.
                        let s: f32 = t.parse().map_err(|_| not())?;
                        if infinite || v.is_finite() && s.is_infinite() {
                            return Err(out_of_range());
                        }
                        u64::from(s.to_bits())
                    }
                    _ if infinite => return Err(out_of_range()),
                    _ => v.to_bits(),
                }
            }
            _ => {
                let v: i128 = t.parse().map_err(|_| not())?;
                let signed = matches!(
                    element,
                    ElementType::I8 | ElementType::I16 | ElementType::I32 | ElementType::I64
                );
                let (low, high) = if signed {
                    (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
                } else {
                    (0, (1i128 << bits) - 1)
                };
                if v < low || v > high {
                    return Err(out_of_range());
                }
                v as u64
            }
        }
    };
    Ok(value.to_le_bytes().into_iter().take(element.bytes()).collect())
}

/// Parses elements separated by commas, spaces or line ends.
///
/// # Errors
///
/// At the first invalid element.
pub fn parse_elements(element: ElementType, text: &str) -> Result<Vec<u8>, ElementError> {
    let mut out = Vec::new();
    for one in text
        .split(|c: char| c == ',' || c == ';' || c.is_whitespace())
        .filter(|t| !t.is_empty())
    {
        out.extend(parse_element(element, one)?);
    }
    Ok(out)
}

/// Parses bytes as hex digits, two per byte, with optional spaces, commas or `0x` between them.
///
/// # Errors
///
/// At the first invalid character.
pub fn parse_hex(text: &str) -> Result<Vec<u8>, ElementError> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let chars: Vec<char> = text.chars().collect();
    let digit = |at: usize| chars.get(at).and_then(|c| c.to_digit(16));
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        if c.is_whitespace() || matches!(c, ',' | ':' | '_') {
            at += 1;
        } else if *c == '0' && matches!(chars.get(at + 1), Some('x' | 'X')) {
            at += 2;
        } else {
            match (digit(at), digit(at + 1)) {
                (Some(high), Some(low)) => out.push((high << 4 | low) as u8),
                (Some(_), None) => return Err(ElementError::Hex { at: at + 1 }),
                _ => return Err(ElementError::Hex { at }),
            }
            at += 2;
        }
    }
    Ok(out)
}
