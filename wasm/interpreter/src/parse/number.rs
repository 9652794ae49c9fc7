//! Numbers in a text.

use crate::types::Type;

/// A number as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    Integer {
        negative: bool,
        magnitude: u64,
    },
    /// Bits of a 32-bit float, written `0f` and 8 digits.
    Float32(u32),
    /// Bits of a 64-bit float, written `0d` and 16 digits.
    Float64(u64),
}

/// Parses a number without its sign. Returns `None` if the word is none, or if it does not fit 64 bits.
pub fn parse(word: &str) -> Option<Number> {
    let hexadecimal = |digits: &str, count: usize| {
        let valid = digits.len() == count && digits.bytes().all(|b| b.is_ascii_hexdigit());
        valid.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let prefix = word.get(..2).unwrap_or("");
    let rest = word.get(2..).unwrap_or("");
    match prefix {
        "0f" | "0F" => return hexadecimal(rest, 8).map(|bits| Number::Float32(bits as u32)),
        "0d" | "0D" => return hexadecimal(rest, 16).map(Number::Float64),
        _ => {}
    }
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let word = word.strip_suffix('U').unwrap_or(word);
    let rest = word.get(2..).unwrap_or("");
    let (digits, radix) = match prefix {
        "0x" | "0X" => (rest, 16),
        "0b" | "0B" => (rest, 2),
        _ if word.len() > 1 && word.starts_with('0') => (word, 8),
        _ => (word, 10),
    };
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    Some(Number::Integer {
        negative: false,
        magnitude,
    })
}

/// Parses a number that fits 32 bits.
pub fn parse_u32(word: &str) -> Option<u32> {
    match parse(word)? {
        Number::Integer { magnitude, .. } => u32::try_from(magnitude).ok(),
        _ => None,
    }
}

impl Number {
    /// Returns the number with the opposite sign, or `None` for a float: its sign is in its bits.
    pub fn negated(self) -> Option<Self> {
        match self {
            Self::Integer { negative, magnitude } => Some(Self::Integer {
                negative: !negative,
                magnitude,
            }),
            _ => None,
        }
    }

    /// Returns the bits of the number as a value of a type, or `None` if it does not fit.
    pub fn bits(self, t: Type) -> Option<u64> {
        match (self, t) {
            (Self::Float32(bits), Type::Float(4) | Type::Bits(4)) => Some(u64::from(bits)),
            (Self::Float64(bits), Type::Float(8) | Type::Bits(8)) => Some(bits),
            (Self::Integer { magnitude, .. }, Type::Pred) => (magnitude <= 1).then_some(magnitude),
            (Self::Integer { negative, magnitude }, Type::Bits(n) | Type::Unsigned(n) | Type::Signed(n)) => {
                let bits = u32::from(n) * 8;
                let mask = u64::MAX >> (64 - bits);
                if negative {
                    (magnitude <= 1 << (bits - 1)).then_some(magnitude.wrapping_neg() & mask)
                } else {
                    (magnitude <= mask).then_some(magnitude)
                }
            }
            _ => None,
        }
    }
}
