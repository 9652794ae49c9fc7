//! Parts of numbers, approximations and tables. Reciprocals, roots, exponentials, logarithms, sines and cube maps
//! consist of these operations.
//!
//! Sources: Mesa's `Notes.txt` from the first disassembler, `valhall/ISA.xml`, and a test of Mesa's newer compiler on
//! hardware. The sequences of `bifrost_compile.c` must also compute the functions in their names.
//!
//! Known:
//! - `FREXPM` keeps the sign: the reciprocal of a negative number is its product with the approximation. It returns
//!   zero, infinity and NaN unchanged.
//! - `FREXPE` returns 0 for zero, infinity and NaN.
//! - With `sqrt`, both operations split by a power of four. With `log`, the magnitude is from 0.75 to 1.5.
//! - `FADD_LSCALE` adds its second source, scaled as by `FREXPM.log` with the sign kept.
//! - `FRCP_APPROX` is a table of the reciprocal of the result of `FREXPM`. `FRSQ_APPROX` does the same for the root and
//!   `FREXPM.sqrt`. Both have the special cases of their function.
//! - `FRCP.f16` and `FRSQ.f16` return a zero upper half.
//! - `FEXP_TABLE.u4` is two to the power of a sixteenth of the low four bits.
//! - Sine and cosine tables use the low six bits in steps of pi/32.
//! - `FLOGD` is log2(a)/(a-1) of a number scaled as by `FREXPM.log`. It is infinite at 0, so that the logarithm of 0 is
//!   infinite.
//! - `FLOG_TABLE.red` has at most five significant bits. It is 1 for zero, infinity and NaN.
//!
//! Approximations are within 1e-6 of the function, because the hardware's tables are not public.
//!
//! Open: denormals, `FREXPM.log` of infinity, the modifiers `adj`, `offset`, `scale`, `precision` and `divzero`, and
//! the exact content of `FLOG_TABLE`. `FLOG_TABLE.red` and `FLOG_TABLE.base2` share this content.

use super::number::{F16, F32, Format, Number};
use super::source::{self, denormal, float, floats, lane_of};
use super::value::{Check, Value};
use bifrost::{Instruction, Modifier, Op, Value as M};
use std::f64::consts::{LN_2, PI};

const NEAR: Check = Check::Near { flat: false };

/// How a number is split.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    Plain,
    Sqrt,
    Log,
}

fn parts(i: &Instruction) -> Parts {
    match (i.get(Modifier::Sqrt), i.get(Modifier::Log)) {
        (M::Sqrt, _) => Parts::Sqrt,
        (_, M::Log) => Parts::Log,
        _ => Parts::Plain,
    }
}

/// Returns two exponents of two: the one by which the number is divided, and the reported one.
fn exponents(x: &Number, how: Parts) -> Option<(i64, i64)> {
    let plain = x.exponent()?;
    Some(match how {
        Parts::Plain => (plain, plain),
        Parts::Sqrt => {
            let fours = (plain + 1).div_euclid(2);
            (2 * fours, fours)
        }
        Parts::Log => {
            let scaled = x.clone().with_sign(false).scaled(-plain);
            let three_quarters = Number::integer(3).scaled(-2);
            let low = scaled.compare(&three_quarters) == Some(std::cmp::Ordering::Less);
            (plain - i64::from(low), plain - i64::from(low))
        }
    })
}

fn scaled(x: &Number, how: Parts) -> Number {
    exponents(x, how).map_or_else(|| x.clone(), |(by, _)| x.clone().scaled(-by))
}

fn pieces(format: Format, values: Vec<(u32, Check)>) -> Option<Value> {
    super::arithmetic::put(format, &values)
}

/// Returns a number as the host's double, which represents all floats and halves.
fn double(x: &Number) -> f64 {
    f64::from(f32::from_bits(x.rounded(F32, M::None)))
}

fn near(x: f64) -> Value {
    let bits = (x as f32).to_bits();
    match () {
        () if x.is_nan() => Value::Word(bits, Check::Nan),
        () if F32.is_denormal(bits) => Value::FREE,
        () => Value::Word(bits, NEAR),
    }
}

/// Returns the mantissas. A denormal piece is free, because hardware may treat it in any way.
fn mantissa(i: &Instruction, format: Format, s: &[u32]) -> Option<Value> {
    let values = floats(i, 0, s[0], format)?.into_iter();
    let free = |n: usize| match format == F32 {
        true => denormal(i, 0, s[0]),
        false => open_halves(i, s[0]).is_none_or(|open| open[n]),
    };
    let how = parts(i);
    pieces(
        format,
        values
            .enumerate()
            .map(|(n, x)| {
                let bits = scaled(&x, how).rounded(format, M::None);
                let check = if x.is_nan() { Check::Nan } else { Check::Exact };
                // Infinity is open for `log`. If it stayed infinite, the log sequence would square y = a - 1 with both
                // signs and return NaN. Hardware is not known to do that.
                let infinite = how == Parts::Log && matches!(x, Number::Infinite { .. });
                (bits, if free(n) || infinite { Check::Free } else { check })
            })
            .collect(),
    )
}

/// Returns which halves of a source are denormal.
fn open_halves(i: &Instruction, word: u32) -> Option<[bool; 2]> {
    let swizzle = i.get(Modifier::Swz0);
    Some(source::halves(word, swizzle, false)?.map(|h| F16.is_denormal(h)))
}

fn exponent(i: &Instruction, format: Format, s: &[u32]) -> Option<Value> {
    let how = parts(i);
    let negate = i.get(Modifier::Neg0) == M::Neg;
    // The modifier `neg` applies to the result here. The sign of the source does not matter.
    let describe = |x: &Number| exponents(x, how).map_or(0, |(_, reported)| if negate { -reported } else { reported });
    let values: Vec<i64> = floats(i, 0, s[0], format)?.iter().map(describe).collect();
    if format == F32 {
        if denormal(i, 0, s[0]) {
            return Some(Value::FREE);
        }
        return Some(Value::exact(*values.first()? as u32));
    }
    let open = open_halves(i, s[0])?;
    let piece = |n: usize| (values[n] as u16, if open[n] { Check::Free } else { Check::Exact });
    Some(Value::Halves([piece(0), piece(1)]))
}

/// Returns the reciprocal, or that of the square root, with the special cases of IEEE 754. `None` means open.
fn reciprocal(x: &Number, root: bool) -> Option<f64> {
    let value = double(x);
    match (root, value) {
        (false, _) => Some(1.0 / value),
        (true, v) if v == 0.0 && x.is_negative() => None,
        (true, _) => Some(1.0 / value.sqrt()),
    }
}

fn approximation(i: &Instruction, s: &[u32], root: bool) -> Option<Value> {
    if i.get(Modifier::Divzero) != M::None {
        return None;
    }
    if denormal(i, 0, s[0]) {
        return Some(Value::FREE);
    }
    let x = float(i, 0, s[0])?;
    let reduced = scaled(&x, if root { Parts::Sqrt } else { Parts::Plain });
    Some(reciprocal(&reduced, root).map_or(Value::FREE, near))
}

fn whole_reciprocal(i: &Instruction, s: &[u32], root: bool) -> Option<Value> {
    if i.get(Modifier::Divzero) != M::None {
        return None;
    }
    if i.op() == Op::FrcpF32 || i.op() == Op::FrsqF32 {
        if denormal(i, 0, s[0]) {
            return Some(Value::FREE);
        }
        return Some(reciprocal(&float(i, 0, s[0])?, root).map_or(Value::FREE, near));
    }
    let (half, _) = lane_of(i, 0, s[0])?;
    let mut x = Number::of(F16, half);
    if i.get(Modifier::Abs0) == M::Abs {
        x = x.with_sign(false);
    }
    if i.get(Modifier::Neg0) == M::Neg {
        x = x.negated();
    }
    let upper = (0, Check::Exact);
    let Some(value) = reciprocal(&x, root).filter(|_| !F16.is_denormal(half)) else {
        return Some(Value::Halves([(0, Check::Free), upper]));
    };
    let bits = Number::of(F32, (value as f32).to_bits()).rounded(F16, M::None);
    let check = match () {
        () if value.is_nan() => Check::Nan,
        () if F16.is_denormal(bits) => Check::Free,
        () => NEAR,
    };
    Some(Value::Halves([(bits as u16, check), upper]))
}

/// Returns two to the power of a fixed-point number. The float source of that number decides the special cases.
fn power(s: &[u32]) -> Value {
    let fixed = s[0] as i32;
    let float = f64::from(f32::from_bits(s[1]));
    match () {
        () if float.is_nan() => Value::Word(F32.quiet_nan(), Check::Nan),
        () if float == f64::INFINITY && fixed == i32::MAX => Value::exact(F32.infinity()),
        () if float == f64::NEG_INFINITY && fixed == i32::MIN => Value::Word(0, Check::Zero),
        // The result is free if the two sources are different numbers.
        () if (float - f64::from(fixed)).abs() > 0.5 => Value::FREE,
        () => near((f64::from(fixed) / f64::from(1 << 24)).exp2()),
    }
}

fn logarithm_quotient(x: &Number) -> Value {
    if x.is_zero() {
        return Value::exact(F32.infinity());
    }
    if x.is_nan() || x.is_negative() {
        return Value::Word(F32.quiet_nan(), Check::Nan);
    }
    if x.exponent().is_none() {
        // The logarithm of infinity is infinite for any positive result here.
        return Value::FREE;
    }
    let a = double(&scaled(x, Parts::Log));
    near(if a == 1.0 { 1.0 / LN_2 } else { a.log2() / (a - 1.0) })
}

fn logarithm_table(i: &Instruction, s: &[u32]) -> Option<Value> {
    let bare = i.get(Modifier::Precision) == M::None && i.get(Modifier::Divzero) == M::None;
    if !bare {
        return None;
    }
    let x = float(i, 0, s[0])?;
    if denormal(i, 0, s[0]) || x.exponent().is_some() && !x.is_negative() {
        return Some(Value::FREE);
    }
    Some(match i.get(Modifier::Mode) {
        M::Red if x.exponent().is_none() => Value::exact(F32.one()),
        M::Red => Value::FREE,
        _ if x.is_zero() => Value::exact(F32.infinity() | F32.sign()),
        _ if x.is_nan() || x.is_negative() => Value::Word(F32.quiet_nan(), Check::Nan),
        _ => Value::exact(F32.infinity()),
    })
}

/// Returns the face of a cube that a direction meets: 0 to 5 for +x, -x, +y, -y, +z, -z. Returns `None` between faces.
pub fn cube_face(direction: &[Number; 3]) -> Option<u32> {
    let size = |n: usize| direction[n].clone().with_sign(false);
    let longest = (0..3).find(|n| {
        (0..3)
            .filter(|m| m != n)
            .all(|m| size(*n).compare(&size(m)) == Some(std::cmp::Ordering::Greater))
    })?;
    Some(2 * longest as u32 + u32::from(direction[longest].is_negative()))
}

/// Returns the direction that a cube operation uses.
pub fn direction(i: &Instruction, s: &[u32]) -> Option<[Number; 3]> {
    Some([float(i, 0, s[0])?, float(i, 1, s[1])?, float(i, 2, s[2])?])
}

fn cube_length(i: &Instruction, s: &[u32]) -> Option<Value> {
    let sizes = direction(i, s)?.map(|x| x.with_sign(false));
    if sizes.iter().any(Number::is_nan) {
        return Some(Value::FREE);
    }
    let [a, b, c] = sizes;
    let larger = |a: Number, b: Number| {
        if a.compare(&b) == Some(std::cmp::Ordering::Less) {
            b
        } else {
            a
        }
    };
    Some(Value::exact(larger(larger(a, b), c).rounded(F32, M::None)))
}

/// Returns a coordinate on a face, as OpenGL defines it. S is selected from z and x, T from y and z.
fn cube_coordinate(i: &Instruction, s: &[u32], is_s: bool) -> Option<Value> {
    let negated = |n: usize| s[n] ^ F32.sign();
    let modified = |n: usize, m| if i.get(m) == M::Neg { negated(n) } else { s[n] };
    let (first, second) = (modified(0, Modifier::Neg0), modified(1, Modifier::Neg1));
    let (bits, minus) = match (is_s, s[2] >> 29) {
        (true, 0) => (first, true),
        (true, 1) => (first, false),
        (true, 2..=4) => (second, false),
        (true, 5) => (second, true),
        (false, 0 | 1 | 4 | 5) => (first, true),
        (false, 2) => (second, false),
        (false, 3) => (second, true),
        _ => return Some(Value::FREE),
    };
    if F32.is_nan(bits) {
        return Some(Value::Word(bits, Check::Nan));
    }
    Some(Value::exact(if minus { bits ^ F32.sign() } else { bits }))
}

/// Returns the result of an operation of this file. Returns `None` for other operations and for undefined results.
pub fn result(i: &Instruction, s: &[u32]) -> Option<Value> {
    let flat = |x: f64| Value::Word((x as f32).to_bits(), Check::Near { flat: true });
    let step = || f64::from(s[0] & 63) * PI / 32.0;
    match i.op() {
        Op::FrexpmF32 => mantissa(i, F32, s),
        Op::FrexpmV2f16 => mantissa(i, F16, s),
        Op::FrexpeF32 => exponent(i, F32, s),
        Op::FrexpeV2f16 => exponent(i, F16, s),
        Op::FaddLscaleF32 if F32.is_denormal(s[1]) => Some(Value::FREE),
        Op::FaddLscaleF32 => {
            let sum = float(i, 0, s[0])?.plus(&scaled(&float(i, 1, s[1])?, Parts::Log), false);
            let check = if sum.is_nan() { Check::Nan } else { Check::Exact };
            Some(Value::Word(sum.rounded(F32, M::None), check))
        }
        Op::FrcpApproxF32 => approximation(i, s, false),
        Op::FrsqApproxF32 => approximation(i, s, true),
        Op::FrcpF32 | Op::FrcpF16 => whole_reciprocal(i, s, false),
        Op::FrsqF32 | Op::FrsqF16 => whole_reciprocal(i, s, true),
        Op::FexpF32 => Some(power(s)),
        Op::FexpTableU4 if i.get(Modifier::Adj) == M::None => Some(near((f64::from(s[0] & 15) / 16.0).exp2())),
        Op::FsinTableU6 if i.get(Modifier::Offset) == M::None => Some(flat(step().sin())),
        Op::FcosTableU6 if i.get(Modifier::Offset) == M::None => Some(flat(step().cos())),
        Op::FlogdF32 if F32.is_denormal(s[0]) => Some(Value::FREE),
        Op::FlogdF32 => Some(logarithm_quotient(&float(i, 0, s[0])?)),
        Op::FlogTableF32 => logarithm_table(i, s),
        Op::Cubeface1 => cube_length(i, s),
        Op::CubeSsel => cube_coordinate(i, s, true),
        Op::CubeTsel => cube_coordinate(i, s, false),
        _ => None,
    }
}
