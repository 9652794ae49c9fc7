//! Floating-point arithmetic: sums, products, extremes, scaling, rounding to integers, comparisons, selections and
//! branch conditions.
//!
//! Known: each result is rounded once in the named mode, denormals are kept and zeros are signed, as in IEEE 754.
//! Mesa's `valhall/ISA.xml` describes Valhall's instructions of the same names. Mesa's newer compiler folds
//! comparisons, `gtlt` and `total`, and checks them against hardware. `BRANCH` compares two operands and `BRANCHZ` one
//! operand with zero, in the type of the name. The modifier selects parts of words. `.i16` without it is the low half,
//! as Mesa uses it.
//!
//! Inferred: a scaled sum (`FMA_RSCALE`, `FADD_RSCALE`, `LDEXP`) is rounded once, after scaling. A clamp to a range
//! that ends at zero turns NaN into zero. Extremes with `c` and `inverse_c` follow C's conditional, on the operands in
//! order and in reverse order.
//!
//! Open: the sign and payload of NaN, and the sign of a zero from an extreme or a clamp. The end of -1 to 1 that NaN
//! becomes is also open.

use super::number::{F16, F32, Format, Number};
use super::source::{self, float, floats, lane, number};
use super::value::{Check, Value};
use bifrost::{Instruction, Modifier, Op, Value as M};
use std::cmp::Ordering;

type Piece = (u32, Check);

/// Combines the pieces of a format into a value.
pub fn put(format: Format, pieces: &[Piece]) -> Option<Value> {
    match (format == F32, pieces) {
        (true, [(bits, check)]) => Some(Value::Word(*bits, *check)),
        (false, [a, b]) => Some(Value::Halves([(a.0 as u16, a.1), (b.0 as u16, b.1)])),
        _ => None,
    }
}

/// Rounds and clamps as the modifiers request.
pub fn clamped(i: &Instruction, format: Format, x: &Number) -> Piece {
    let mode = i.get(Modifier::Round);
    let zero_end = matches!(i.get(Modifier::Clamp), M::Clamp0Inf | M::Clamp01);
    let bits = x.rounded(format, mode);
    let clamp = i.get(Modifier::Clamp);
    if clamp == M::None {
        return if x.is_nan() {
            (bits, Check::Nan)
        } else {
            (bits, Check::Exact)
        };
    }
    if x.is_nan() {
        return (0, if zero_end { Check::Zero } else { Check::Free });
    }
    let value = Number::of(format, bits);
    let one = Number::of(format, format.one());
    let above = matches!(clamp, M::Clamp01 | M::ClampM11) && value.compare(&one) == Some(Ordering::Greater);
    let below_one = clamp == M::ClampM11 && value.compare(&one.clone().negated()) == Some(Ordering::Less);
    if above {
        (format.one(), Check::Exact)
    } else if below_one {
        (format.one() | format.sign(), Check::Exact)
    } else if zero_end && (value.is_negative() || value.is_zero()) {
        (0, Check::Zero)
    } else {
        (bits, Check::Exact)
    }
}

fn down(i: &Instruction) -> bool {
    i.get(Modifier::Round) == M::Rtn
}

fn each(format: Format, sources: &[Vec<Number>], mut f: impl FnMut(&[&Number]) -> Piece) -> Option<Value> {
    let count = sources.first()?.len();
    let pieces: Vec<Piece> = (0..count)
        .map(|n| f(&sources.iter().map(|s| &s[n]).collect::<Vec<_>>()))
        .collect();
    put(format, &pieces)
}

/// Returns the product. The modifier of `FMA_RSCALE` can make zero times NaN or infinity a number.
fn product(i: &Instruction, a: &Number, b: &Number) -> Number {
    let zero = a.is_zero() || b.is_zero();
    match i.get(Modifier::Special) {
        M::N if zero => Number::integer(0).with_sign(a.is_negative() != b.is_negative()),
        // "Treated as A" applies to any A.
        M::Left if zero => a.clone(),
        _ => a.times(b),
    }
}

/// Returns the exponent by which a result is scaled.
fn scale(i: &Instruction, word: u32) -> i64 {
    if i.get(Modifier::Special) == M::Scale16 {
        source::signed(word & 0xffff, 16)
    } else {
        i64::from(word as i32)
    }
}

/// Returns the maximum or minimum of two numbers.
fn extreme(i: &Instruction, format: Format, max: bool, a: &Number, b: &Number) -> Piece {
    let order = a.compare(b);
    let wins = |order| order == if max { Ordering::Greater } else { Ordering::Less };
    let chosen = match (i.get(Modifier::Sem), order) {
        (M::NanPropagate, None) => &Number::Nan,
        (M::NanSuppress, None) => {
            if a.is_nan() {
                b
            } else {
                a
            }
        }
        (M::C, order) => {
            if order.is_some_and(wins) {
                a
            } else {
                b
            }
        }
        (M::InverseC, order) => {
            if order.map(Ordering::reverse).is_some_and(wins) {
                b
            } else {
                a
            }
        }
        (_, Some(order)) => {
            if wins(order) {
                a
            } else {
                b
            }
        }
        _ => return (0, Check::Free),
    };
    let piece = clamped(i, format, chosen);
    if a.is_zero() && b.is_zero() && a.is_negative() != b.is_negative() {
        return (0, Check::Zero);
    }
    piece
}

/// Returns whether a condition holds for an order of two numbers. Returns `None` for `total`, which needs the bits.
pub fn condition(name: M, order: Option<Ordering>) -> Option<bool> {
    use Ordering::{Equal, Greater, Less};
    Some(match name {
        M::Eq => order == Some(Equal),
        M::Ne => order != Some(Equal),
        M::Gt => order == Some(Greater),
        M::Ge => matches!(order, Some(Greater | Equal)),
        M::Lt => order == Some(Less),
        M::Le => matches!(order, Some(Less | Equal)),
        M::Gtlt => matches!(order, Some(Greater | Less)),
        _ => return None,
    })
}

/// Compares two floats. The inner value is `None` if NaN makes the result open.
pub fn compared(name: M, a: &Number, b: &Number) -> Option<Option<bool>> {
    if name == M::Total {
        // "Total" means less in the order of all floats, where -0 is below 0. The order of NaN depends on its sign.
        return Some(match a.compare(b) {
            None => None,
            Some(Ordering::Equal) if a.is_zero() => Some(a.is_negative() && !b.is_negative()),
            Some(order) => Some(order == Ordering::Less),
        });
    }
    condition(name, a.compare(b)).map(Some)
}

/// Returns the result of a comparison in the requested type, for pieces of `bits` bits.
pub fn truth(result: M, bits: u32, yes: bool) -> Option<u32> {
    Some(match (yes, result) {
        (false, _) => 0,
        (_, M::I1) => 1,
        (_, M::M1) => u32::MAX >> (32 - bits),
        (_, M::F1) if bits == 32 => F32.one(),
        (_, M::F1) if bits == 16 => F16.one(),
        _ => return None,
    })
}

fn fcmp(i: &Instruction, format: Format, s: &[u32]) -> Option<Value> {
    let (a, b) = (floats(i, 0, s[0], format)?, floats(i, 1, s[1], format)?);
    let bits = if format == F32 { 32 } else { 16 };
    let mut pieces = Vec::new();
    for (a, b) in a.iter().zip(&b) {
        pieces.push(match compared(i.get(Modifier::Cmpf), a, b)? {
            Some(yes) => (truth(i.get(Modifier::ResultType), bits, yes)?, Check::Exact),
            None => (0, Check::Free),
        });
    }
    put(format, &pieces)
}

fn csel(i: &Instruction, format: Format, s: &[u32]) -> Option<Value> {
    let cmpf = i.get(Modifier::Cmpf);
    if format == F32 {
        let yes = condition(cmpf, float(i, 0, s[0])?.compare(&float(i, 1, s[1])?))?;
        return Some(Value::exact(if yes { s[2] } else { s[3] }));
    }
    let pieces: Option<Vec<Piece>> = (0..2)
        .map(|n| {
            let x = |k: usize| Number::of(F16, source::half(s[k], n));
            let yes = condition(cmpf, x(0).compare(&x(1)))?;
            Some((source::half(s[if yes { 2 } else { 3 }], n), Check::Exact))
        })
        .collect();
    put(F16, &pieces?)
}

/// The logarithm of infinity is infinite for any positive result here.
pub fn is_taken(i: &Instruction, s: &[u32]) -> Option<bool> {
    let name = i.op().name();
    let against_zero = name.starts_with("BRANCHZ.");
    if !against_zero && !name.starts_with("BRANCH.") {
        return None;
    }
    let part = |n: usize| match i.get([Modifier::Widen0, Modifier::Widen1][n]) {
        M::None if name.ends_with("16") => M::H0,
        part => part,
    };
    let order = if name.contains(".f") {
        let float = |n: usize| {
            let (bits, width) = lane(s[n], part(n))?;
            Some(Number::of(if width == 16 { F16 } else { F32 }, bits))
        };
        let second = if against_zero { Number::integer(0) } else { float(1)? };
        float(0)?.compare(&second)
    } else {
        let integer = |n: usize| number(s[n], part(n), name.contains(".s"));
        let second = if against_zero { 0 } else { integer(1)? };
        Some(integer(0)?.cmp(&second))
    };
    condition(i.get(Modifier::Cmpf), order)
}

/// Returns the result of an operation of this file. Returns `None` for other operations and for undefined results.
pub fn result(i: &Instruction, s: &[u32]) -> Option<Value> {
    let format = if i.op().name().ends_with("v2f16") { F16 } else { F32 };
    let all = |count: usize| -> Option<Vec<Vec<Number>>> { (0..count).map(|n| floats(i, n, s[n], format)).collect() };
    match i.op() {
        Op::FmaF32 | Op::FmaV2f16 => each(format, &all(3)?, |x| {
            clamped(i, format, &x[0].times(x[1]).plus(x[2], down(i)))
        }),
        Op::FaddF32 | Op::FaddV2f16 => each(format, &all(2)?, |x| clamped(i, format, &x[0].plus(x[1], down(i)))),
        Op::FmaRscaleF32 => each(format, &all(3)?, |x| {
            let sum = product(i, x[0], x[1]).plus(x[2], down(i));
            clamped(i, format, &sum.scaled(scale(i, s[3])))
        }),
        // No source describes the meaning of `special` for a sum.
        Op::FaddRscaleF32 if i.get(Modifier::Special) == M::None => each(format, &all(2)?, |x| {
            clamped(i, format, &x[0].plus(x[1], down(i)).scaled(scale(i, s[2])))
        }),
        Op::FmaxF32 | Op::FmaxV2f16 => each(format, &all(2)?, |x| extreme(i, format, true, x[0], x[1])),
        Op::FminF32 | Op::FminV2f16 => each(format, &all(2)?, |x| extreme(i, format, false, x[0], x[1])),
        Op::FroundF32 | Op::FroundV2f16 => each(format, &all(1)?, |x| {
            let whole = x[0].integral(i.get(Modifier::Round));
            (
                whole.rounded(format, M::None),
                if x[0].is_nan() { Check::Nan } else { Check::Exact },
            )
        }),
        Op::QuietF32 | Op::QuietV2f16 => each(format, &all(1)?, |x| {
            (
                x[0].rounded(format, M::None),
                if x[0].is_nan() { Check::Nan } else { Check::Exact },
            )
        }),
        // No source describes the modes "inf" and "inf0".
        Op::LdexpF32 | Op::LdexpV2f16 if !matches!(i.get(Modifier::Round), M::Inf | M::Inf0) => {
            let by = |n: u32| match format == F32 {
                true => i64::from(s[1] as i32),
                false => source::signed(source::half(s[1], n), 16),
            };
            let mut n = 0;
            each(format, &all(1)?, |x| {
                let scaled = x[0].clone().scaled(by(n));
                n += 1;
                clamped(i, format, &scaled)
            })
        }
        Op::FcmpF32 | Op::FcmpV2f16 => fcmp(i, format, s),
        Op::CselF32 | Op::CselV2f16 => csel(i, format, s),
        _ => None,
    }
}
