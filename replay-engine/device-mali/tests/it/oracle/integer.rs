//! Integer operations: sums, products, shifts, bits, comparisons, selections and moves of parts of words.
//!
//! Known: Mesa's compiler (`bifrost_compile.c`), its constant folding and its tests use these operations. Valhall's
//! documentation describes instructions of the same names. Folding in Mesa's newer compiler is checked against hardware
//! (shifts by the low bits of their amount, `CLZ.mask`, `MUX` in all four modes).
//!
//! Inferred: a carry or borrow into `IADDC` and `ISUBB` is 0 or 1. Other values are open.

use super::arithmetic::{condition, truth};
use super::number::{F16, F32, Number};
use super::source::{byte, bytes, halves, lane_of, number, shifts, signed};
use super::value::Value;
use bifrost::{Instruction, Modifier, Op, Value as M};

/// Lanes of a word: their number and their width in bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    count: u32,
    bits: u32,
}

impl Shape {
    /// Returns the shape that the suffix of an operation's name selects, and whether it is signed.
    fn of(i: &Instruction) -> Option<(Self, bool)> {
        let suffix = i.op().name().rsplit('.').next()?;
        let shape = |count, bits| Self { count, bits };
        let found = match suffix.trim_start_matches("v2").trim_start_matches("v4").get(1..)? {
            "32" => shape(1, 32),
            "16" => shape(2, 16),
            "8" => shape(4, 8),
            _ => return None,
        };
        Some((found, suffix.contains('s')))
    }

    fn mask(self) -> u32 {
        u32::MAX >> (32 - self.bits)
    }

    /// Returns the lanes of a word in order.
    fn lanes(self, word: u32) -> Vec<u32> {
        (0..self.count).map(|n| word >> (n * self.bits) & self.mask()).collect()
    }

    /// Returns the lanes that a swizzle selects. Narrower lanes are extended.
    fn swizzled(self, word: u32, name: M, sign: bool) -> Option<Vec<u32>> {
        match (self.count, name) {
            (1, _) => Some(vec![number(word, name, sign)? as u32]),
            (_, M::None) => Some(self.lanes(word)),
            (2, _) => Some(halves(word, name, sign)?.to_vec()),
            _ => Some(bytes(word, name)?.to_vec()),
        }
    }

    fn value(self, lane: u32, sign: bool) -> i64 {
        if sign { signed(lane, self.bits) } else { i64::from(lane) }
    }

    fn join(self, lanes: impl IntoIterator<Item = u32>) -> Value {
        let join = |word, (n, lane): (u32, u32)| word | (lane & self.mask()) << (n * self.bits);
        Value::exact((0..).zip(lanes).fold(0, join))
    }

    fn bounds(self, sign: bool) -> (i64, i64) {
        match sign {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }
}

/// Returns a sum or difference. The modifier selects whether it saturates.
fn sum(i: &Instruction, s: &[u32], subtract: bool) -> Option<Value> {
    let (shape, sign) = Shape::of(i)?;
    let a = shape.swizzled(s[0], i.get(Modifier::Lanes0), sign)?;
    let b = shape.swizzled(s[1], i.get(Modifier::Lanes1), sign)?;
    let (min, max) = shape.bounds(sign);
    let lanes = a.into_iter().zip(b).map(|(a, b)| {
        let (a, b) = (shape.value(a, sign), shape.value(b, sign));
        let exact = if subtract { a - b } else { a + b };
        match i.get(Modifier::Saturate) {
            M::Sat => exact.clamp(min, max) as u32,
            _ => exact as u32,
        }
    });
    Some(shape.join(lanes))
}

/// Returns half of a sum, rounded as the modifier selects.
fn halved(i: &Instruction, s: &[u32]) -> Option<Value> {
    let (shape, sign) = Shape::of(i)?;
    let up = match i.get(Modifier::Round) {
        M::Rtn => 0,
        M::Rtp => 1,
        _ => return None,
    };
    let a = shape.swizzled(s[0], i.get(Modifier::Swap0), sign)?;
    let b = shape.swizzled(s[1], i.get(Modifier::Swap1), sign)?;
    let lanes = a.into_iter().zip(b);
    Some(shape.join(lanes.map(|(a, b)| ((shape.value(a, sign) + shape.value(b, sign) + up) >> 1) as u32)))
}

fn product(i: &Instruction, s: &[u32]) -> Option<Value> {
    match i.op() {
        Op::ImulI32 => {
            let by = number(s[1], i.get(Modifier::Widen1), i.get(Modifier::Extend) == M::Sext)?;
            Some(Value::exact((i64::from(s[0]).wrapping_mul(by)) as u32))
        }
        Op::ImulV2i16 => {
            let shape = Shape { count: 2, bits: 16 };
            let a = shape.swizzled(s[0], i.get(Modifier::Swz0), false)?;
            let b = shape.swizzled(s[1], i.get(Modifier::Swz1), false)?;
            Some(shape.join(a.into_iter().zip(b).map(|(a, b)| a * b)))
        }
        _ => {
            let shape = Shape { count: 4, bits: 8 };
            let a = shape.swizzled(s[0], i.get(Modifier::Replicate0), false)?;
            let b = shape.swizzled(s[1], i.get(Modifier::Replicate1), false)?;
            Some(shape.join(a.into_iter().zip(b).map(|(a, b)| a * b)))
        }
    }
}

/// Direction and kind of a shift.
#[derive(Clone, Copy)]
enum Way {
    Left,
    Right,
    Arithmetic,
}

/// Shifts the first source, then combines it with the second source in a bitwise operation.
fn shift(i: &Instruction, s: &[u32], way: Way, combine: impl Fn(u32, u32) -> u32) -> Option<Value> {
    let (shape, _) = Shape::of(i)?;
    let by: Vec<u32> = match shape.count {
        1 => vec![lane_of(i, 2, s[2])?.0],
        2 => shifts::<2>(s[2], i.get(Modifier::Lanes2))?.to_vec(),
        _ => shifts::<4>(s[2], i.get(Modifier::Lanes2))?.to_vec(),
    };
    let invert = |name| if i.get(name) == M::Not { u32::MAX } else { 0 };
    let lanes = shape.lanes(s[0]).into_iter().zip(by).map(|(a, by)| {
        let by = by & (shape.bits - 1);
        match way {
            Way::Left => a << by,
            Way::Right => a >> by,
            Way::Arithmetic => (signed(a, shape.bits) >> by) as u32,
        }
    });
    let Value::Word(shifted, check) = shape.join(lanes) else {
        return None;
    };
    let word = combine(shifted, s[1] ^ invert(Modifier::Not1)) ^ invert(Modifier::NotResult);
    Some(Value::Word(word, check))
}

fn compare(i: &Instruction, s: &[u32]) -> Option<Value> {
    let (shape, sign) = Shape::of(i)?;
    let swizzle = |m| if shape.count == 2 { i.get(m) } else { M::None };
    let a = shape.swizzled(s[0], swizzle(Modifier::Swz0), sign)?;
    let b = shape.swizzled(s[1], swizzle(Modifier::Swz1), sign)?;
    let lanes: Option<Vec<u32>> = a
        .into_iter()
        .zip(b)
        .map(|(a, b)| {
            let order = shape.value(a, sign).cmp(&shape.value(b, sign));
            truth(
                i.get(Modifier::ResultType),
                shape.bits,
                condition(i.get(Modifier::Cmpf), Some(order))?,
            )
        })
        .collect();
    Some(shape.join(lanes?))
}

fn select(i: &Instruction, s: &[u32]) -> Option<Value> {
    let (shape, sign) = Shape::of(i)?;
    let lanes: Option<Vec<u32>> = (0..shape.count as usize)
        .map(|n| {
            let x = |k: usize| shape.lanes(s[k])[n];
            let order = shape.value(x(0), sign).cmp(&shape.value(x(1), sign));
            Some(if condition(i.get(Modifier::Cmpf), Some(order))? {
                x(2)
            } else {
                x(3)
            })
        })
        .collect();
    Some(shape.join(lanes?))
}

/// Returns the first source where the third selects it, and the second elsewhere.
fn mux(i: &Instruction, s: &[u32]) -> Option<Value> {
    let (shape, _) = Shape::of(i)?;
    let swap = |m| if shape.count == 2 { i.get(m) } else { M::None };
    let a = shape.swizzled(s[0], swap(Modifier::Swap0), false)?;
    let b = shape.swizzled(s[1], swap(Modifier::Swap1), false)?;
    let c = shape.swizzled(s[2], swap(Modifier::Swap2), false)?;
    let lanes: Option<Vec<u32>> = (0..shape.count as usize)
        .map(|n| {
            let (a, b, c) = (a[n], b[n], c[n]);
            let first = match i.get(Modifier::Mux) {
                M::Neg => c >> (shape.bits - 1) == 1,
                M::IntZero => c == 0,
                M::FpZero if shape.bits == 32 => Number::of(F32, c).is_zero(),
                M::FpZero if shape.bits == 16 => Number::of(F16, c).is_zero(),
                M::Bit => return Some(a & c | b & !c),
                _ => return None,
            };
            Some(if first { a } else { b })
        })
        .collect();
    Some(shape.join(lanes?))
}

/// Returns the number of zeros above the highest set bit.
fn leading_zeros(i: &Instruction, s: &[u32]) -> Option<Value> {
    let (shape, _) = Shape::of(i)?;
    let swizzle = if shape.count == 2 {
        i.get(Modifier::Swz0)
    } else {
        M::None
    };
    let lanes = shape.swizzled(s[0], swizzle, false)?.into_iter().map(|lane| {
        let zeros = (0..shape.bits).rev().take_while(|n| lane >> n & 1 == 0).count() as u32;
        match i.get(Modifier::Mask) {
            M::Mask if lane == 0 => u32::MAX,
            _ => zeros,
        }
    });
    Some(shape.join(lanes))
}

fn absolute(i: &Instruction, s: &[u32]) -> Option<Value> {
    let (shape, _) = Shape::of(i)?;
    let swizzle = if shape.count == 2 {
        i.get(Modifier::Swz0)
    } else {
        M::None
    };
    let lanes = shape.swizzled(s[0], swizzle, true)?;
    Some(
        shape.join(
            lanes
                .into_iter()
                .map(|lane| shape.value(lane, true).unsigned_abs() as u32),
        ),
    )
}

fn dot(i: &Instruction, s: &[u32]) -> Option<Value> {
    let sign = |m| match i.get(m) {
        M::Sext => Some(true),
        M::Zext => Some(false),
        _ => None,
    };
    let (a, b) = (sign(Modifier::Sign0)?, sign(Modifier::Sign1)?);
    let value = |word, n, sign| {
        if sign {
            signed(byte(word, n), 8)
        } else {
            i64::from(byte(word, n))
        }
    };
    let sum: i64 = (0..4).map(|n| value(s[0], n, a) * value(s[1], n, b)).sum();
    Some(Value::exact(sum as u32))
}

/// Returns the 64-bit sum of the first operand and the shifted second operand, each with its low and high word.
pub fn wide_sum(i: &Instruction, low: [u32; 2], high: [u32; 2]) -> Option<u64> {
    let by = i.immediate("shift");
    let b = match i.op() {
        Op::ShaddxlI64 => u64::from(low[1]) | u64::from(high[1]) << 32,
        Op::ShaddxlS32 => number(low[1], i.get(Modifier::Lane1), true)? as u64,
        Op::ShaddxlU32 => number(low[1], i.get(Modifier::Lane1), false)? as u64,
        _ => return None,
    };
    let a = u64::from(low[0]) | u64::from(high[0]) << 32;
    Some(a.wrapping_add(b << by))
}

/// Returns the result of an operation of this file. Returns `None` for other operations and for undefined results.
pub fn result(i: &Instruction, s: &[u32]) -> Option<Value> {
    match i.op() {
        Op::MovI32 => Some(Value::exact(s[0])),
        Op::IaddS32 | Op::IaddU32 | Op::IaddV2s16 | Op::IaddV2u16 | Op::IaddV4s8 | Op::IaddV4u8 => sum(i, s, false),
        Op::IsubS32 | Op::IsubU32 | Op::IsubV2s16 | Op::IsubV2u16 | Op::IsubV4s8 | Op::IsubV4u8 => sum(i, s, true),
        Op::IaddcI32 if s[2] > 1 => Some(Value::FREE),
        Op::IaddcI32 => Some(Value::exact(s[0].wrapping_add(s[1]).wrapping_add(s[2]))),
        Op::IsubbI32 if s[2] > 1 => Some(Value::FREE),
        Op::IsubbI32 => Some(Value::exact(s[0].wrapping_sub(s[1]).wrapping_sub(s[2]))),
        Op::HaddS32 | Op::HaddU32 | Op::HaddV2s16 | Op::HaddV2u16 | Op::HaddV4s8 | Op::HaddV4u8 => halved(i, s),
        Op::ImulI32 | Op::ImulV2i16 | Op::ImulV4i8 => product(i, s),
        Op::ShaddxlI64 | Op::ShaddxlS32 | Op::ShaddxlU32 => {
            Some(Value::exact(wide_sum(i, [s[0], s[1]], [0, 0])? as u32))
        }
        Op::LshiftAndI32 | Op::LshiftAndV2i16 | Op::LshiftAndV4i8 => shift(i, s, Way::Left, |a, b| a & b),
        Op::LshiftOrI32 | Op::LshiftOrV2i16 | Op::LshiftOrV4i8 => shift(i, s, Way::Left, |a, b| a | b),
        Op::LshiftXorI32 | Op::LshiftXorV2i16 | Op::LshiftXorV4i8 => shift(i, s, Way::Left, |a, b| a ^ b),
        Op::RshiftAndI32 | Op::RshiftAndV2i16 | Op::RshiftAndV4i8 => shift(i, s, Way::Right, |a, b| a & b),
        Op::RshiftOrI32 | Op::RshiftOrV2i16 | Op::RshiftOrV4i8 => shift(i, s, Way::Right, |a, b| a | b),
        Op::RshiftXorI32 | Op::RshiftXorV2i16 | Op::RshiftXorV4i8 => shift(i, s, Way::Right, |a, b| a ^ b),
        // The second source is always zero here and has no effect.
        Op::ArshiftI32 | Op::ArshiftV2i16 | Op::ArshiftV4i8 => shift(i, s, Way::Arithmetic, |a, _| a),
        Op::IcmpI32 | Op::IcmpS32 | Op::IcmpU32 => compare(i, s),
        Op::IcmpV2i16 | Op::IcmpV2s16 | Op::IcmpV2u16 => compare(i, s),
        Op::IcmpV4i8 | Op::IcmpV4s8 | Op::IcmpV4u8 => compare(i, s),
        Op::CselI32 | Op::CselS32 | Op::CselU32 | Op::CselV2i16 | Op::CselV2s16 | Op::CselV2u16 => select(i, s),
        Op::MuxI32 | Op::MuxV2i16 | Op::MuxV4i8 => mux(i, s),
        Op::ClzU32 | Op::ClzV2u16 | Op::ClzV4u8 => leading_zeros(i, s),
        Op::IabsS32 | Op::IabsV2s16 | Op::IabsV4s8 => absolute(i, s),
        Op::IdpV4i8 => dot(i, s),
        Op::PopcountI32 => Some(Value::exact((0..32).filter(|n| s[0] >> n & 1 == 1).count() as u32)),
        Op::BitrevI32 => Some(Value::exact((0..32).map(|n| (s[0] >> n & 1) << (31 - n)).sum())),
        Op::SwzV2i16 => {
            let [a, b] = halves(s[0], i.get(Modifier::Swz0), false)?;
            Some(Value::exact(a | b << 16))
        }
        Op::SwzV4i8 => {
            let [a, b, c, d] = bytes(s[0], i.get(Modifier::Swz0))?;
            Some(Value::exact(a | b << 8 | c << 16 | d << 24))
        }
        Op::MkvecV2i16 => {
            let [a, b] = [lane_of(i, 0, s[0])?.0, lane_of(i, 1, s[1])?.0];
            Some(Value::exact(a | b << 16))
        }
        Op::MkvecV4i8 => {
            let part = |n: usize| Some(lane_of(i, n, s[n])?.0 << (8 * n));
            Some(Value::exact(part(0)? | part(1)? | part(2)? | part(3)?))
        }
        Op::S8ToS32 | Op::S16ToS32 => Some(Value::exact(number(s[0], i.get(Modifier::Lane0), true)? as u32)),
        Op::U8ToU32 | Op::U16ToU32 => Some(Value::exact(number(s[0], i.get(Modifier::Lane0), false)? as u32)),
        Op::V2s8ToV2s16 | Op::V2u8ToV2u16 => {
            let [a, b] = halves(s[0], i.get(Modifier::Swz0), i.op() == Op::V2s8ToV2s16)?;
            Some(Value::exact(a | b << 16))
        }
        _ => None,
    }
}
