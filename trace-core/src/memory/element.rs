//! Elements as text and back: integers, floats, halves, hex.

use crate::recording::ElementType;

/// Why a text is not an element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// It is not a number of this type.
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
    /// Hex text with a character that is no digit, or half a byte.
    #[error("hex text, character {at}, expected two hex digits a byte")]
    Hex {
        /// Position of the character, from 0.
        at: usize,
    },
}

/// The value of an IEEE binary16, exactly.
#[must_use]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 31);
    let fraction = u32::from(bits & 0x3ff);
    match (exponent, fraction) {
        (31, f) => f32::from_bits(sign | 0x7f80_0000 | f << 13),
        (0, f) => {
            // Subnormal: the fraction counts steps of 2^-24, which a float holds exactly.
            let magnitude = f as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(sign | magnitude.to_bits())
        }
        (e, f) => f32::from_bits(sign | (e + 112) << 23 | f << 13),
    }
}

/// The nearest IEEE binary16, ties to even; what is too large becomes infinite, NaN stays NaN.
#[must_use]
pub fn f32_to_f16(value: f32) -> u16 {
    if value.is_nan() {
        // The bits themselves: a conversion to f64 would make a signalling NaN quiet.
        let bits = value.to_bits();
        return half_nan((bits >> 16) as u16 & 0x8000, (bits >> 13) as u16 & 0x3ff);
    }
    // Every f32 is an f64 exactly, so there is one rounding.
    f64_to_f16(f64::from(value))
}

/// A NaN with the upper ten bits of a payload. One whose kept bits are all zero would read as infinite, so it gets the
/// quiet bit.
fn half_nan(sign: u16, payload: u16) -> u16 {
    sign | 0x7c00 | payload | u16::from(payload == 0) << 9
}

/// The nearest IEEE binary16, ties to even; what is too large becomes infinite, NaN stays NaN.
#[must_use]
pub fn f64_to_f16(value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 48) & 0x8000) as u16;
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 1024 {
        return match fraction {
            0 => sign | 0x7c00,
            _ => half_nan(sign, (fraction >> 42) as u16),
        };
    }
    if exponent > 15 {
        return sign | 0x7c00;
    }
    if exponent < -25 {
        return sign;
    }
    // The significand with its leading one, and how many of its bits a half drops.
    let significand = fraction | 1 << 52;
    let (drop, base) = if exponent < -14 {
        ((42 - 14 - exponent) as u32, 0)
    } else {
        (42, ((exponent + 14) as u64) << 10)
    };
    let kept = significand >> drop;
    let rest = significand & ((1 << drop) - 1);
    let half = 1u64 << (drop - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    // A normal's leading one adds one to the exponent field, and a carry out of rounding adds the next.
    sign | (base + kept + u64::from(up)) as u16
}

/// The value of a brain float, every one of which a binary32 holds.
#[must_use]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest brain float, ties to even; what is too large becomes infinite, NaN stays NaN.
#[must_use]
pub fn f64_to_bf16(value: f64) -> u16 {
    if value.is_nan() {
        let sign = (value.to_bits() >> 48 & 0x8000) as u16;
        return sign | 0x7fc0;
    }
    let near = value as f32;
    let mut bits = near.to_bits();
    // Rounded to odd first: then the second rounding sees that something was left, and on which side.
    if f64::from(near) != value {
        if f64::from(near).abs() > value.abs() {
            bits -= 1;
        }
        bits |= 1;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Reads the element at the start of `bytes`; bytes past the end read as 0.
fn raw(element: ElementType, bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes.iter().take(element.bytes())) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

/// The first element of `bytes` as text that [`parse_element`] reads back to the same bits, NaN payloads apart.
/// `None` when there are too few bytes.
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

/// Shortest text that reads back to the same value, with an exponent where plain digits would be long.
fn float_text<F: num::Float>(value: F) -> String {
    value.text()
}

/// The shortest decimal of a value of 16 bits that reads back as the same.
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

    /// A float that can be shown.
    pub trait Float: Copy {
        /// Shortest text that reads back to the same value.
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

/// All whole elements of `bytes` as text.
pub fn elements_text(element: ElementType, bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    bytes
        .chunks_exact(element.bytes())
        .filter_map(move |b| element_text(element, b))
}

/// Reads one element: decimal, `0x` hex (the bits as they lie in memory, for floats too), `nan`, `inf`, `-inf`.
/// Gives its little-endian bytes.
///
/// # Errors
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
                        // Parsed as f32 itself: through f64 it would be rounded twice.
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

/// Reads elements that commas, spaces or line ends separate.
///
/// # Errors
/// At the first that is none.
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

/// Reads bytes as hex digits, two a byte, with spaces, commas or `0x` between them as a person likes.
///
/// # Errors
/// At the first character that does not fit.
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
