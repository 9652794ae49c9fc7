//! Instructions that compute: from their names to their functions.

use super::{Binary, Division, Quaternary, Ternary, Unary, float, integer};
use crate::types::{F32, F64, Type, U32};

/// Function of an instruction, with the types of its operands. The last type of an instruction is that of its result,
/// except where `result` says otherwise.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Unary(Unary),
    Binary(Binary),
    /// A shift: the second operand is a 32-bit count.
    Shift(Binary),
    Division(Division),
    Ternary(Ternary),
    /// The third operand has the type of the result, as in `mad.wide`.
    TernaryWide(Ternary),
    /// Two operands of the type, then a 32-bit one.
    TernaryCount(Ternary),
    /// One operand of the type, then two 32-bit ones.
    Extract(Ternary),
    /// `bfi`: two operands of the type, then two 32-bit ones.
    Insert(Quaternary),
}

fn is_integer(t: Type) -> bool {
    matches!(t, Type::Unsigned(4 | 8) | Type::Signed(4 | 8))
}

/// Returns the function of an instruction by its name, the modifiers between name and type, and its type; and the type of
/// its result.
pub fn find(name: &str, modifiers: &[&str], t: Type) -> Option<(Shape, Type)> {
    let double = Type::Unsigned(8);
    let same = |shape| Some((shape, t));
    match (name, modifiers, t) {
        ("add" | "sub", [], _) if is_integer(t) => {
            same(Shape::Binary(if name == "add" { integer::add } else { integer::sub }))
        }
        ("mul", ["lo"], _) if is_integer(t) => same(Shape::Binary(integer::mul_lo)),
        ("mul", ["hi"], _) => same(Shape::Binary(match t {
            Type::Unsigned(4) => integer::mul_hi_u32,
            Type::Signed(4) => integer::mul_hi_s32,
            Type::Unsigned(8) => integer::mul_hi_u64,
            Type::Signed(8) => integer::mul_hi_s64,
            _ => return None,
        })),
        ("mul", ["wide"], Type::Unsigned(4)) => Some((Shape::Binary(integer::mul_wide_u32), double)),
        ("mul", ["wide"], Type::Signed(4)) => Some((Shape::Binary(integer::mul_wide_s32), Type::Signed(8))),
        ("mad", ["lo"], _) if is_integer(t) => same(Shape::Ternary(integer::mad_lo)),
        ("mad", ["wide"], Type::Unsigned(4)) => Some((Shape::TernaryWide(integer::mad_wide_u32), double)),
        ("mad", ["wide"], Type::Signed(4)) => Some((Shape::TernaryWide(integer::mad_wide_s32), Type::Signed(8))),
        ("div" | "rem", [], _) => same(Shape::Division(match (name, t) {
            ("div", Type::Unsigned(4)) => integer::div_u32,
            ("div", Type::Signed(4)) => integer::div_s32,
            ("div", Type::Unsigned(8)) => integer::div_u64,
            ("div", Type::Signed(8)) => integer::div_s64,
            ("rem", Type::Unsigned(4)) => integer::rem_u32,
            ("rem", Type::Signed(4)) => integer::rem_s32,
            ("rem", Type::Unsigned(8)) => integer::rem_u64,
            ("rem", Type::Signed(8)) => integer::rem_s64,
            _ => return None,
        })),
        ("neg", [], Type::Signed(4 | 8)) => same(Shape::Unary(integer::neg)),
        ("abs", [], Type::Signed(4)) => same(Shape::Unary(integer::abs_s32)),
        ("abs", [], Type::Signed(8)) => same(Shape::Unary(integer::abs_s64)),
        ("min" | "max", ..) => same(Shape::Binary(extreme(name, modifiers, t)?)),
        ("and" | "or" | "xor", [], Type::Pred | Type::Bits(4 | 8)) => same(Shape::Binary(match name {
            "and" => integer::and,
            "or" => integer::or,
            _ => integer::xor,
        })),
        ("not", [], Type::Bits(4 | 8)) => same(Shape::Unary(integer::not)),
        ("not", [], Type::Pred) => same(Shape::Unary(integer::not_pred)),
        ("shl", [], Type::Bits(4)) => same(Shape::Shift(integer::shl_32)),
        ("shl", [], Type::Bits(8)) => same(Shape::Shift(integer::shl_64)),
        ("shr", [], Type::Bits(4) | Type::Unsigned(4)) => same(Shape::Shift(integer::shr_u32)),
        ("shr", [], Type::Bits(8) | Type::Unsigned(8)) => same(Shape::Shift(integer::shr_u64)),
        ("shr", [], Type::Signed(4)) => same(Shape::Shift(integer::shr_s32)),
        ("shr", [], Type::Signed(8)) => same(Shape::Shift(integer::shr_s64)),
        ("shf", ["l", "wrap"], Type::Bits(4)) => same(Shape::TernaryCount(integer::shf_l_wrap)),
        ("shf", ["r", "wrap"], Type::Bits(4)) => same(Shape::TernaryCount(integer::shf_r_wrap)),
        ("brev", [], Type::Bits(4)) => same(Shape::Unary(integer::brev_32)),
        ("brev", [], Type::Bits(8)) => same(Shape::Unary(integer::brev_64)),
        ("clz", [], Type::Bits(4)) => Some((Shape::Unary(integer::clz_32), U32)),
        ("clz", [], Type::Bits(8)) => Some((Shape::Unary(integer::clz_64), U32)),
        ("popc", [], Type::Bits(4)) => Some((Shape::Unary(integer::popc_32), U32)),
        ("popc", [], Type::Bits(8)) => Some((Shape::Unary(integer::popc_64), U32)),
        ("bfe", [], Type::Unsigned(4)) => same(Shape::Extract(integer::bfe_u32)),
        ("bfe", [], Type::Signed(4)) => same(Shape::Extract(integer::bfe_s32)),
        ("bfe", [], Type::Unsigned(8)) => same(Shape::Extract(integer::bfe_u64)),
        ("bfe", [], Type::Signed(8)) => same(Shape::Extract(integer::bfe_s64)),
        ("bfi", [], Type::Bits(4)) => same(Shape::Insert(integer::bfi_32)),
        ("bfi", [], Type::Bits(8)) => same(Shape::Insert(integer::bfi_64)),
        ("prmt", [], Type::Bits(4)) => same(Shape::Ternary(integer::prmt)),
        ("add" | "sub" | "mul" | "div", ["rn"], F32 | F64) => same(Shape::Binary(match (name, t) {
            ("add", F32) => float::add_f32,
            ("sub", F32) => float::sub_f32,
            ("mul", F32) => float::mul_f32,
            (_, F32) => float::div_f32,
            ("add", _) => float::add_f64,
            ("sub", _) => float::sub_f64,
            ("mul", _) => float::mul_f64,
            _ => float::div_f64,
        })),
        ("sqrt", ["rn"], F32) => same(Shape::Unary(float::sqrt_f32)),
        ("sqrt", ["rn"], F64) => same(Shape::Unary(float::sqrt_f64)),
        _ => None,
    }
}

fn extreme(name: &str, modifiers: &[&str], t: Type) -> Option<Binary> {
    Some(match (name, modifiers, t) {
        ("min", [], Type::Unsigned(4)) => integer::min_u32,
        ("min", [], Type::Signed(4)) => integer::min_s32,
        ("min", [], Type::Unsigned(8)) => integer::min_u64,
        ("min", [], Type::Signed(8)) => integer::min_s64,
        ("min", ["NaN"], F32) => float::min_nan_f32,
        ("min", [], F64) => float::min_f64,
        ("max", [], Type::Unsigned(4)) => integer::max_u32,
        ("max", [], Type::Signed(4)) => integer::max_s32,
        ("max", [], Type::Unsigned(8)) => integer::max_u64,
        ("max", [], Type::Signed(8)) => integer::max_s64,
        ("max", ["NaN"], F32) => float::max_nan_f32,
        ("max", [], F64) => float::max_f64,
        _ => return None,
    })
}
