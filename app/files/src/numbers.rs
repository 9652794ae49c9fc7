//! Number formats for the values of registers and memory. Addresses and offsets are hex in every format.

use serde::{Deserialize, Serialize};

/// Space between groups of digits.
const THIN: char = '\u{2009}';

/// The format of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumberFormat {
    /// All hex digits, `0x00000041`.
    #[default]
    Hex,
    /// Unsigned integer, digits in groups of three.
    Decimal,
    /// The bits as an IEEE 754 number, for values of two, four and eight bytes; others stay hex.
    Float,
    /// All bits, in groups of eight.
    Binary,
}

impl NumberFormat {
    /// All formats, in the order in which one key cycles through them.
    pub const ALL: [Self; 4] = [Self::Hex, Self::Decimal, Self::Float, Self::Binary];

    /// Returns the next format; the first follows the last.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Hex => Self::Decimal,
            Self::Decimal => Self::Float,
            Self::Float => Self::Binary,
            Self::Binary => Self::Hex,
        }
    }

    /// Returns the name of the format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Decimal => "decimal",
            Self::Float => "float",
            Self::Binary => "binary",
        }
    }

    /// Formats a value of `width` bytes. Widths other than 1, 2, 4 or 8 are formatted as 4 bytes. A value that does not
    /// fit is written in full.
    #[must_use]
    pub fn format(self, value: u64, width: u8) -> String {
        let bytes = match width {
            1 | 2 | 8 => width,
            _ => 4,
        };
        let fits = bytes == 8 || value >> (u32::from(bytes) * 8) == 0;
        match self {
            Self::Decimal => grouped(&value.to_string(), 3),
            Self::Binary => {
                let bits = usize::from(bytes) * 8;
                format!("0b{}", grouped(&format!("{value:0bits$b}"), 8))
            }
            Self::Float if fits && bytes > 1 => float(value, bytes),
            Self::Hex | Self::Float => {
                let digits = usize::from(bytes) * 2 + 2;
                format!("{value:#0digits$x}")
            }
        }
    }

    /// Formats a value of unknown width, for example of a field: without leading zeros, and never as a float.
    #[must_use]
    pub fn format_unsized(self, value: u64) -> String {
        match self {
            Self::Hex | Self::Float => format!("{value:#x}"),
            Self::Decimal => grouped(&value.to_string(), 3),
            Self::Binary => format!("0b{}", grouped(&format!("{value:b}"), 8)),
        }
    }
}

/// Formats IEEE 754 bits as the shortest decimal that parses to the same number.
fn float(bits: u64, bytes: u8) -> String {
    match bytes {
        2 => {
            // Every half is exact as a single, and the shortest decimal of a half needs at most five digits.
            let v = trace_core::recording::ElementType::F16;
            crate::values::format_element(v, &(bits as u16).to_le_bytes())
        }
        8 => format!("{:?}", f64::from_bits(bits)),
        _ => format!("{:?}", f32::from_bits(bits as u32)),
    }
}

/// Groups digits from the right.
fn grouped(digits: &str, by: usize) -> String {
    let mut out = String::with_capacity(digits.len() * 2);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(by) {
            out.push(THIN);
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_formatted_in_every_number_format() {
        let all = |v, w| NumberFormat::ALL.map(|n| n.format(v, w).replace(THIN, " "));
        assert_eq!(
            all(0x3f80_0000, 4),
            [
                "0x3f800000",
                "1 065 353 216",
                "1.0",
                "0b00111111 10000000 00000000 00000000"
            ]
        );
        assert_eq!(
            all(0x41, 1),
            ["0x41", "65", "0x41", "0b01000001"],
            "a byte is not a float"
        );
        assert_eq!(all(0x3c00, 2)[..3], ["0x3c00", "15 360", "1"]);
        assert_eq!(all(0x4009_21fb_5444_2d18, 8)[2], "3.141592653589793");
        assert_eq!(all(0xffff_ffff, 4)[2], "NaN");
        assert_eq!(all(1, 4)[2], "1e-45");
        // A value that does not fit its width is written in full.
        assert_eq!(
            all(0x1_0000_0000, 4)[..3],
            ["0x100000000", "4 294 967 296", "0x100000000"]
        );
        assert_eq!(all(7, 3)[0], "0x00000007");
    }

    #[test]
    fn a_field_has_no_leading_zeros() {
        let all = NumberFormat::ALL.map(|n| n.format_unsized(0x1ff).replace(THIN, " "));
        assert_eq!(all, ["0x1ff", "511", "0x1ff", "0b1 11111111"]);
    }

    #[test]
    fn number_formats_cycle() {
        let mut at = NumberFormat::default();
        for n in NumberFormat::ALL {
            assert_eq!(at, n);
            at = at.next();
        }
        assert_eq!(at, NumberFormat::Hex);
    }
}
