//! Conversions between types.

use super::Unary;
use crate::types::Type;

const NAN_32: u64 = 0x7fff_ffff;
const QUIET_64: u64 = 1 << 51;
const SIGN_64: u64 = 1 << 63;

/// Sign or zero extension from a size. The result is right for every destination: its unused bits are ignored, and those
/// of a narrow destination are the low ones.
fn extend(source: Type) -> Option<Unary> {
    Some(match source {
        Type::Unsigned(1) => |a| u64::from(a as u8),
        Type::Unsigned(2) => |a| u64::from(a as u16),
        Type::Unsigned(4) => |a| u64::from(a as u32),
        Type::Signed(1) => |a| a as i8 as u64,
        Type::Signed(2) => |a| a as i16 as u64,
        Type::Signed(4) => |a| a as i32 as u64,
        Type::Unsigned(8) | Type::Signed(8) => |a| a,
        _ => return None,
    })
}

/// Truncation to a destination that is narrower than its source. A register that is wider than the destination gets the
/// extended value.
fn truncate(destination: Type) -> Option<Unary> {
    extend(destination)
}

fn integer(destination: Type, source: Type) -> Option<Unary> {
    if destination.bytes() < source.bytes() {
        truncate(destination)
    } else if destination.bytes() == source.bytes() && destination.bytes() < 4 {
        // Extension into the wider register follows the type of the destination.
        extend(destination)
    } else if destination.bytes() < 4 && destination.is_signed() != source.is_signed() {
        // Two extensions, which no operation does at once.
        None
    } else {
        extend(source)
    }
}

macro_rules! round {
    ($mode:expr, $type:ident, $bits:ty, $nan:expr) => {{
        macro_rules! rounding {
            ($function:ident) => {
                |a| {
                    let value = $type::from_bits(a as $bits);
                    let nan: fn(u64) -> u64 = $nan;
                    if value.is_nan() {
                        nan(a)
                    } else {
                        u64::from(value.$function().to_bits())
                    }
                }
            };
        }
        let function: Unary = match $mode {
            "rni" => rounding!(round_ties_even),
            "rzi" => rounding!(trunc),
            "rmi" => rounding!(floor),
            "rpi" => rounding!(ceil),
            _ => return None,
        };
        Some(function)
    }};
}

fn round_32(mode: &str) -> Option<Unary> {
    round!(mode, f32, u32, |_| NAN_32)
}

fn round_64(mode: &str) -> Option<Unary> {
    round!(mode, f64, u64, |a| a | QUIET_64)
}

/// Conversion of a float to an integer: saturates. A NaN gives 0, and the top bit alone where a size is 64 bits.
macro_rules! to_integer {
    ($mode:expr, $float:ident, $bits:ty, $integer:ty, $nan:expr) => {{
        macro_rules! conversion {
            ($function:ident) => {
                |a| {
                    let value = $float::from_bits(a as $bits);
                    if value.is_nan() {
                        $nan
                    } else {
                        value.$function() as $integer as u64
                    }
                }
            };
        }
        let function: Unary = match $mode {
            "rni" => conversion!(round_ties_even),
            "rzi" => conversion!(trunc),
            "rmi" => conversion!(floor),
            "rpi" => conversion!(ceil),
            _ => return None,
        };
        Some(function)
    }};
}

fn float_to_integer(mode: &str, destination: Type, source: Type) -> Option<Unary> {
    match (source, destination) {
        (Type::Float(4), Type::Unsigned(4)) => to_integer!(mode, f32, u32, u32, 0),
        (Type::Float(4), Type::Signed(4)) => to_integer!(mode, f32, u32, i32, 0),
        (Type::Float(4), Type::Unsigned(8)) => to_integer!(mode, f32, u32, u64, SIGN_64),
        (Type::Float(4), Type::Signed(8)) => to_integer!(mode, f32, u32, i64, SIGN_64),
        (Type::Float(8), Type::Unsigned(4)) => to_integer!(mode, f64, u64, u32, 1 << 31),
        (Type::Float(8), Type::Signed(4)) => to_integer!(mode, f64, u64, i32, 1 << 31),
        (Type::Float(8), Type::Unsigned(8)) => to_integer!(mode, f64, u64, u64, SIGN_64),
        (Type::Float(8), Type::Signed(8)) => to_integer!(mode, f64, u64, i64, SIGN_64),
        _ => None,
    }
}

fn integer_to_float(destination: Type, source: Type) -> Option<Unary> {
    Some(match (destination, source) {
        (Type::Float(4), Type::Unsigned(4)) => |a| u64::from((a as u32 as f32).to_bits()),
        (Type::Float(4), Type::Signed(4)) => |a| u64::from((a as i32 as f32).to_bits()),
        (Type::Float(4), Type::Unsigned(8)) => |a| u64::from((a as f32).to_bits()),
        (Type::Float(4), Type::Signed(8)) => |a| u64::from((a as i64 as f32).to_bits()),
        (Type::Float(8), Type::Unsigned(4)) => |a| f64::from(a as u32).to_bits(),
        (Type::Float(8), Type::Signed(4)) => |a| f64::from(a as i32).to_bits(),
        (Type::Float(8), Type::Unsigned(8)) => |a| (a as f64).to_bits(),
        (Type::Float(8), Type::Signed(8)) => |a| (a as i64 as f64).to_bits(),
        _ => return None,
    })
}

/// Widens. A NaN keeps its sign and payload, and becomes quiet.
fn promote(a: u64) -> u64 {
    let value = f32::from_bits(a as u32);
    if value.is_nan() {
        let (sign, payload) = (a << 32 & SIGN_64, (a & 0x7f_ffff) << 29);
        return sign | 0x7ff0_0000_0000_0000 | payload | QUIET_64;
    }
    f64::from(value).to_bits()
}

fn demote(a: u64) -> u64 {
    let value = f64::from_bits(a);
    if value.is_nan() {
        NAN_32
    } else {
        u64::from((value as f32).to_bits())
    }
}

/// Returns the conversion from `source` to `destination` with a rounding mode, or none without one.
pub fn find(mode: Option<&str>, destination: Type, source: Type) -> Option<Unary> {
    match (destination.is_float(), source.is_float(), mode) {
        (false, false, None) => integer(destination, source),
        (false, true, Some(mode)) => float_to_integer(mode, destination, source),
        (true, false, Some("rn")) => integer_to_float(destination, source),
        (true, true, mode) => match (destination.bytes(), source.bytes(), mode) {
            (4, 4, Some(mode)) => round_32(mode),
            (8, 8, Some(mode)) => round_64(mode),
            (8, 4, None) => Some(promote),
            (4, 8, Some("rn")) => Some(demote),
            _ => None,
        },
        _ => None,
    }
}
