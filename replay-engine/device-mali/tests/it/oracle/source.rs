//! Operands as an operation's modifiers select them: parts of a word, sign, absolute value.

use super::number::{F16, F32, Format, Number};
use bifrost::{Instruction, Modifier, Value as M};

/// Modifiers by the number of the source.
const WIDEN: [Modifier; 2] = [Modifier::Widen0, Modifier::Widen1];
const ABS: [Modifier; 3] = [Modifier::Abs0, Modifier::Abs1, Modifier::Abs2];
const NEG: [Modifier; 3] = [Modifier::Neg0, Modifier::Neg1, Modifier::Neg2];
const SWZ: [Modifier; 3] = [Modifier::Swz0, Modifier::Swz1, Modifier::Swz2];
const LANE: [Modifier; 4] = [Modifier::Lane0, Modifier::Lane1, Modifier::Lane2, Modifier::Lane3];

/// The byte of a word that a name like `b2` selects.
pub fn byte(word: u32, n: u32) -> u32 {
    word >> (8 * n) & 0xff
}

/// The half of a word.
pub fn half(word: u32, n: u32) -> u32 {
    word >> (16 * n) & 0xffff
}

/// Sign-extends the low bits.
pub fn signed(value: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    i64::from((value << unused) as i32 >> unused)
}

/// The part of a word that a lane names, and its width. `none` is all of it.
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

/// A lane as a number, sign-extended or not.
pub fn number(word: u32, name: M, sign: bool) -> Option<i64> {
    let (value, bits) = lane(word, name)?;
    Some(if sign { signed(value, bits) } else { i64::from(value) })
}

/// The lane of source `n` as the instruction's modifier of that name selects it.
pub fn lane_of(i: &Instruction, n: usize, word: u32) -> Option<(u32, u32)> {
    lane(word, i.get(LANE[n]))
}

/// Which parts a swizzle's name selects, from the lowest on: `h10` is 1, 0.
fn parts(name: M) -> Option<(char, Vec<u32>)> {
    let text = name.name();
    let kind = text.chars().next()?;
    let digits: Option<Vec<u32>> = text.get(1..)?.chars().map(|c| c.to_digit(10)).collect();
    matches!(kind, 'h' | 'b').then_some((kind, digits?))
}

/// Two halves as a swizzle selects them; bytes are extended to halves.
pub fn halves(word: u32, name: M, sign: bool) -> Option<[u32; 2]> {
    let (kind, which) = parts(name)?;
    let [a, b] = which[..] else { return None };
    Some([a, b].map(|n| match kind {
        'h' => half(word, n),
        _ if sign => signed(byte(word, n), 8) as u32 & 0xffff,
        _ => byte(word, n),
    }))
}

/// Four bytes as a swizzle selects them.
pub fn bytes(word: u32, name: M) -> Option<[u32; 4]> {
    let (kind, which) = parts(name)?;
    let [a, b, c, d] = which[..] else { return None };
    (kind == 'b').then(|| [a, b, c, d].map(|n| byte(word, n)))
}

/// Two bytes that two halves are shifted by, or four.
pub fn shifts<const N: usize>(word: u32, name: M) -> Option<[u32; N]> {
    let (kind, which) = parts(name)?;
    if kind != 'b' || which.len() != N {
        return None;
    }
    let all: Vec<u32> = which.into_iter().map(|n| byte(word, n)).collect();
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

/// Source `n` as a float of 32 bits, widened from a half where the modifier says so.
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

/// Whether source `n` is a denormal float of 32 bits, which the special functions may treat as they like.
pub fn denormal(i: &Instruction, n: usize, word: u32) -> bool {
    WIDEN.get(n).is_none_or(|m| i.get(*m) == M::None) && F32.is_denormal(word)
}

/// Source `n` as two floats of 16 bits.
pub fn float_halves(i: &Instruction, n: usize, word: u32) -> Option<[Number; 2]> {
    let swizzle = SWZ.get(n).map_or(M::None, |m| i.get(*m));
    let swizzle = if swizzle == M::None { M::H01 } else { swizzle };
    Some(halves(word, swizzle, false)?.map(|h| sign_modified(i, n, Number::of(F16, h))))
}

/// Source `n` as numbers of a format: one of 32 bits, or two of 16.
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
