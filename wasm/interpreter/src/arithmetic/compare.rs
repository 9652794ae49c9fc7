//! Comparisons: each gives 1 or 0.

use super::Binary;
use crate::types::Type;
use std::cmp::Ordering::{Equal, Greater, Less};

macro_rules! comparison {
    ($type:ty, $operator:tt) => {
        |a, b| u64::from((a as $type) $operator (b as $type))
    };
}

/// Returns a comparison of integers or bits by its name.
fn integer(name: &str, operands: Type) -> Option<Binary> {
    Some(match (name, operands) {
        ("eq", Type::Bits(4) | Type::Unsigned(4) | Type::Signed(4)) => comparison!(u32, ==),
        ("ne", Type::Bits(4) | Type::Unsigned(4) | Type::Signed(4)) => comparison!(u32, !=),
        ("lt" | "lo", Type::Unsigned(4)) => comparison!(u32, <),
        ("le" | "ls", Type::Unsigned(4)) => comparison!(u32, <=),
        ("gt" | "hi", Type::Unsigned(4)) => comparison!(u32, >),
        ("ge" | "hs", Type::Unsigned(4)) => comparison!(u32, >=),
        ("lt", Type::Signed(4)) => comparison!(i32, <),
        ("le", Type::Signed(4)) => comparison!(i32, <=),
        ("gt", Type::Signed(4)) => comparison!(i32, >),
        ("ge", Type::Signed(4)) => comparison!(i32, >=),
        ("eq", Type::Bits(8) | Type::Unsigned(8) | Type::Signed(8)) => comparison!(u64, ==),
        ("ne", Type::Bits(8) | Type::Unsigned(8) | Type::Signed(8)) => comparison!(u64, !=),
        ("lt" | "lo", Type::Unsigned(8)) => comparison!(u64, <),
        ("le" | "ls", Type::Unsigned(8)) => comparison!(u64, <=),
        ("gt" | "hi", Type::Unsigned(8)) => comparison!(u64, >),
        ("ge" | "hs", Type::Unsigned(8)) => comparison!(u64, >=),
        ("lt", Type::Signed(8)) => comparison!(i64, <),
        ("le", Type::Signed(8)) => comparison!(i64, <=),
        ("gt", Type::Signed(8)) => comparison!(i64, >),
        ("ge", Type::Signed(8)) => comparison!(i64, >=),
        _ => return None,
    })
}

macro_rules! float_comparisons {
    ($name:expr, $type:ident, $bits:ty) => {{
        macro_rules! compare {
            (|$a:ident, $b:ident| $result:expr) => {
                |a, b| {
                    let ($a, $b) = ($type::from_bits(a as $bits), $type::from_bits(b as $bits));
                    u64::from($result)
                }
            };
        }
        let function: Binary = match $name {
            "eq" => compare!(|x, y| x == y),
            "ne" => compare!(|x, y| matches!(x.partial_cmp(&y), Some(Less | Greater))),
            "lt" => compare!(|x, y| x < y),
            "le" => compare!(|x, y| x <= y),
            "gt" => compare!(|x, y| x > y),
            "ge" => compare!(|x, y| x >= y),
            "equ" => compare!(|x, y| matches!(x.partial_cmp(&y), None | Some(Equal))),
            "neu" => compare!(|x, y| x != y),
            "ltu" => compare!(|x, y| matches!(x.partial_cmp(&y), None | Some(Less))),
            "leu" => compare!(|x, y| x.partial_cmp(&y) != Some(Greater)),
            "gtu" => compare!(|x, y| matches!(x.partial_cmp(&y), None | Some(Greater))),
            "geu" => compare!(|x, y| x.partial_cmp(&y) != Some(Less)),
            "num" => compare!(|x, y| !x.is_nan() && !y.is_nan()),
            "nan" => compare!(|x, y| x.is_nan() || y.is_nan()),
            _ => return None,
        };
        Some(function)
    }};
}

fn float_32(name: &str) -> Option<Binary> {
    float_comparisons!(name, f32, u32)
}

fn float_64(name: &str) -> Option<Binary> {
    float_comparisons!(name, f64, u64)
}

/// Returns the comparison with a name for operands of a type. Unordered names are true for a NaN.
pub fn find(name: &str, operands: Type) -> Option<Binary> {
    match operands {
        Type::Float(4) => float_32(name),
        Type::Float(8) => float_64(name),
        _ => integer(name, operands),
    }
}
