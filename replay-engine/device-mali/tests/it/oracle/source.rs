//! Operands as the modifiers of an operation select them: parts of a word, sign and absolute value.

use super::number::{F16, F32, Format, Number};
use bifrost::{Instruction, Modifier, Value as M};

/// Modifiers by source number.
const WIDEN: [Modifier; 2] = [Modifier::Widen0, Modifier::Widen1];
const ABS: [Modifier; 3] = [Modifier::Abs0, Modifier::Abs1, Modifier::Abs2];
const NEG: [Modifier; 3] = [Modifier::Neg0, Modifier::Neg1, Modifier::Neg2];
const SWZ: [Modifier; 3] = [Modifier::Swz0, Modifier::Swz1, Modifier::Swz2];
const LANE: [Modifier; 4] = [Modifier::Lane0, Modifier::Lane1, Modifier::Lane2, Modifier::Lane3];

/// Returns byte `n` of a word, which a name like `b2` selects.
pub fn byte(word: u32, n: u32) -> u32 {
    word >> (8 * n) & 0xff
}

/// Returns half `n` of a word.
pub fn half(word: u32, n: u32) -> u32 {
    word >> (16 * n) & 0xffff
}

/// Sign-extends the low bits.
pub fn signed(value: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    i64::from((value << unused) as i32 >> unused)
}

/// Returns the part of a word that a lane selects, and its width. `none` selects the whole word.
pub fn lane(word: u32, name: M) -> Option<(u32, u32)> {
    Some(match name {
        M::None => (word, 32),
        M::H0 => (half(word, 0), 16),
        M::H1 => (half(word, 1), 16),
        M::B0 => (byte(word, 0), 8),
        M::B1 => (byte(word, 1), 8),
        M::B2 => (byte(word, 2), 8),
        M::B3 => (byte(word, 3), 8),
        _ => return None,
    })
}

/// Returns a lane as a number, sign-extended or not.
pub fn number(word: u32, name: M, sign: bool) -> Option<i64> {
    let (value, bits) = lane(word, name)?;
    Some(if sign { signed(value, bits) } else { i64::from(value) })
}

/// Returns the lane of source `n` that the instruction's modifier selects.
pub fn lane_of(i: &Instruction, n: usize, word: u32) -> Option<(u32, u32)> {
    lane(word, i.get(LANE[n]))
}

/// Returns the parts that a swizzle selects, lowest first: `h10` selects 1, 0.
fn parts(name: M) -> Option<(char, Vec<u32>)> {
    let text = name.name();
    let kind = text.chars().next()?;
    let digits: Option<Vec<u32>> = text.get(1..)?.chars().map(|c| c.to_digit(10)).collect();
    matches!(kind, 'h' | 'b').then_some((kind, digits?))
}

/// Returns the two halves that a swizzle selects. Bytes are extended to halves.
pub fn halves(word: u32, name: M, sign: bool) -> Option<[u32; 2]> {
    let (kind, selectors) = parts(name)?;
    let [a, b] = selectors[..] else { return None };
    Some([a, b].map(|n| match kind {
        'h' => half(word, n),
        _ if sign => signed(byte(word, n), 8) as u32 & 0xffff,
        _ => byte(word, n),
    }))
}

/// Returns the four bytes that a swizzle selects.
pub fn bytes(word: u32, name: M) -> Option<[u32; 4]> {
    let (kind, selectors) = parts(name)?;
    let [a, b, c, d] = selectors[..] else { return None };
    (kind == 'b').then(|| [a, b, c, d].map(|n| byte(word, n)))
}

/// Returns the shift amounts: two bytes for two halves, or four bytes.
pub fn shifts<const N: usize>(word: u32, name: M) -> Option<[u32; N]> {
    let (kind, selectors) = parts(name)?;
    if kind != 'b' || selectors.len() != N {
        return None;
    }
    let all: Vec<u32> = selectors.into_iter().map(|n| byte(word, n)).collect();
    all.try_into().ok()
}

fn sign_modified(i: &Instruction, n: usize, x: Number) -> Number {
    let x = match ABS.get(n).map(|m| i.get(*m)) {
        Some(M::Abs) => x.with_sign(false),
        _ => x,
    };
    match NEG.get(n).map(|m| i.get(*m)) {
        Some(M::Neg) => x.negated(),
        _ => x,
    }
}

/// Returns source `n` as a 32-bit float. The modifier can widen it from a half.
pub fn float(i: &Instruction, n: usize, word: u32) -> Option<Number> {
    let widen = WIDEN.get(n).map_or(M::None, |m| i.get(*m));
    let (bits, width) = lane(word, widen)?;
    let format = match width {
        32 => F32,
        16 => F16,
        _ => return None,
    };
    Some(sign_modified(i, n, Number::of(format, bits)))
}

/// Returns whether source `n` is a denormal 32-bit float. Special functions may treat these in any way.
pub fn denormal(i: &Instruction, n: usize, word: u32) -> bool {
    WIDEN.get(n).is_none_or(|m| i.get(*m) == M::None) && F32.is_denormal(word)
}

/// Returns source `n` as two 16-bit floats.
pub fn float_halves(i: &Instruction, n: usize, word: u32) -> Option<[Number; 2]> {
    let swizzle = SWZ.get(n).map_or(M::None, |m| i.get(*m));
    let swizzle = if swizzle == M::None { M::H01 } else { swizzle };
    Some(halves(word, swizzle, false)?.map(|h| sign_modified(i, n, Number::of(F16, h))))
}

/// Returns source `n` as numbers of a format: one of 32 bits, or two of 16.
pub fn floats(i: &Instruction, n: usize, word: u32, format: Format) -> Option<Vec<Number>> {
    if format == F32 {
        Some(vec![float(i, n, word)?])
    } else {
        Some(float_halves(i, n, word)?.to_vec())
    }
}

#[test]
fn swizzles_name_the_lowest_part_first() {
    assert_eq!(halves(0xaaaa_bbbb, M::H10, false), Some([0xaaaa, 0xbbbb]));
    assert_eq!(halves(0x80ff_7f01, M::B23, true), Some([0xffff, 0xff80]));
    assert_eq!(halves(0x80ff_7f01, M::B23, false), Some([0xff, 0x80]));
    assert_eq!(bytes(0x4433_2211, M::B3210), Some([0x44, 0x33, 0x22, 0x11]));
    assert_eq!(shifts::<2>(0x0403_0201, M::B02), Some([1, 3]));
    assert_eq!(number(0xffff_8000, M::H0, true), Some(-32768));
}
