//! Vector arithmetic for all lanes of a wave at once.
//!
//! A step refers to its operands by their location in a register file of vectors, with one word per lane. The loops
//! over lanes are short, of constant length and without branches, so that the compiler generates vector instructions.
//! `fearless_simd` compiles them for several instruction sets and selects the one of the host. The results are those of
//! [`super::scalar`]: operations without a vector form are executed lane by lane.

use super::float::{NAN, widen16};
use super::mods::{Clamp, Mods};
use super::scalar::Scalar;
pub(crate) use crate::compute::trace::{LANES, Vector};
use fearless_simd::{Level, dispatch};

/// Number of locations in the file: registers, temporaries, then uniforms and constants.
pub(crate) const PLACES: usize = 1024;
/// First temporary. Each unit has two, used alternately by the tuples of a clause. Further ones hold operands.
pub(crate) const TEMPORARIES: u16 = 64;
/// First location that keeps its value for a whole wave.
pub(crate) const SPECIAL: u16 = 78;
/// First location of uniforms and constants.
pub(crate) const CONSTANTS: u16 = 80;

/// Register file of a wave.
pub(crate) struct RegisterFile(Box<[Vector; PLACES]>);

impl RegisterFile {
    pub(crate) fn new() -> Self {
        Self(
            vec![[0; LANES]; PLACES]
                .into_boxed_slice()
                .try_into()
                .unwrap_or_else(|_| Box::new([[0; LANES]; PLACES])),
        )
    }

    /// Returns a location. Numbers after the last one wrap around, but no translation uses them.
    #[inline(always)]
    pub(crate) fn at(&self, place: u16) -> &Vector {
        &self.0[usize::from(place) % PLACES]
    }

    #[inline(always)]
    pub(crate) fn at_mut(&mut self, place: u16) -> &mut Vector {
        &mut self.0[usize::from(place) % PLACES]
    }

    /// Clears the state of the previous wave: registers, temporaries and scratch become zero.
    pub(crate) fn clear(&mut self) {
        self.0[..usize::from(SPECIAL)].fill([0; LANES]);
    }

    /// Returns the registers.
    pub(crate) fn registers(&mut self) -> &mut [Vector] {
        &mut self.0[..usize::from(TEMPORARIES)]
    }
}

/// Operation of a step. Comparisons that are missing here are done with exchanged operands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Mov,
    Add,
    Sub,
    Mul,
    LshiftOr,
    LshiftAnd,
    LshiftXor,
    RshiftOr,
    RshiftAnd,
    RshiftXor,
    Arshift,
    IcmpEq,
    IcmpNe,
    IcmpUGt,
    IcmpUGe,
    IcmpSGt,
    IcmpSGe,
    CselEq,
    CselUGt,
    CselUGe,
    CselSGt,
    CselSGe,
    CselFEq,
    CselFGt,
    CselFGe,
    MuxZero,
    MuxNegative,
    MuxBit,
    Fadd,
    Fma,
    Fmax,
    Fmin,
    FcmpEq,
    FcmpNe,
    FcmpGt,
    FcmpGe,
    RoundEven,
    RoundUp,
    RoundDown,
    RoundZero,
    FromUnsigned,
    FromSigned,
    ToUnsigned,
    ToSigned,
    /// Extracts a part of the word, by shift and mask.
    Extract,
    /// Extracts a part of the word, by two shifts, of which the second is arithmetic.
    ExtractSigned,
    /// Packs two halves, each shifted.
    Pack,
    Widen16,
    /// Executes a scalar operation lane by lane.
    Scalar(Scalar),
    /// Writes the word of the step to all lanes.
    Splat,
    /// Copies a temporary to a register, for the active lanes.
    Write,
    WriteLow,
    WriteHigh,
}

/// Operation with resolved operands.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub kind: Kind,
    /// Locations of the operands.
    pub from: [u16; 4],
    /// Location of the result.
    pub to: u16,
    /// Masks with which float operands are first ANDed and then XORed, for magnitude and negation. For shifts: masks
    /// with which the second operand and the result are XORed.
    pub and: [u32; 3],
    pub xor: [u32; 3],
    pub clamp: Clamp,
    /// Numbers that the operation needs: a shift amount, the result of a comparison, or the word itself.
    pub numbers: [u32; 2],
    /// Modifiers of a scalar operation.
    pub mods: Option<Box<Mods>>,
}

impl Step {
    pub(crate) fn new(kind: Kind, from: [u16; 4], to: u16) -> Self {
        Self {
            kind,
            from,
            to,
            and: [u32::MAX; 3],
            xor: [0; 3],
            clamp: Clamp::None,
            numbers: [0; 2],
            mods: None,
        }
    }
}

#[inline(always)]
fn one(file: &mut RegisterFile, s: &Step, of: impl Fn(u32) -> u32) {
    let a = *file.at(s.from[0]);
    let out = file.at_mut(s.to);
    for i in 0..LANES {
        out[i] = of(a[i]);
    }
}

#[inline(always)]
fn two(file: &mut RegisterFile, s: &Step, of: impl Fn(u32, u32) -> u32) {
    let (a, b) = (*file.at(s.from[0]), *file.at(s.from[1]));
    let out = file.at_mut(s.to);
    for i in 0..LANES {
        out[i] = of(a[i], b[i]);
    }
}

#[inline(always)]
fn three(file: &mut RegisterFile, s: &Step, of: impl Fn(u32, u32, u32) -> u32) {
    let (a, b, c) = (*file.at(s.from[0]), *file.at(s.from[1]), *file.at(s.from[2]));
    let out = file.at_mut(s.to);
    for i in 0..LANES {
        out[i] = of(a[i], b[i], c[i]);
    }
}

#[inline(always)]
fn four(file: &mut RegisterFile, s: &Step, of: impl Fn(u32, u32, u32, u32) -> u32) {
    let (a, b) = (*file.at(s.from[0]), *file.at(s.from[1]));
    let (c, d) = (*file.at(s.from[2]), *file.at(s.from[3]));
    let out = file.at_mut(s.to);
    for i in 0..LANES {
        out[i] = of(a[i], b[i], c[i], d[i]);
    }
}

/// Executes the shift kinds. The shift amount is a byte of the third operand.
#[inline(always)]
fn shift(file: &mut RegisterFile, s: &Step, of: impl Fn(u32, u32, u32) -> u32) {
    let (byte, second, result) = (s.numbers[0] & 31, s.xor[1], s.xor[2]);
    three(file, s, |a, b, c| of(a, b ^ second, c >> byte & 31) ^ result);
}

#[inline(always)]
fn compare(file: &mut RegisterFile, s: &Step, of: impl Fn(u32, u32) -> bool) {
    let yes = s.numbers[0];
    two(file, s, |a, b| if of(a, b) { yes } else { 0 });
}

#[inline(always)]
fn select(file: &mut RegisterFile, s: &Step, of: impl Fn(u32, u32) -> bool) {
    four(file, s, |a, b, c, d| if of(a, b) { c } else { d });
}

#[inline(always)]
fn float(word: u32, and: u32, xor: u32) -> f32 {
    f32::from_bits(word & and ^ xor)
}

/// Returns the word of a float result, with a single NaN.
#[inline(always)]
fn result(x: f32) -> u32 {
    if x.is_nan() { NAN } else { x.to_bits() }
}

#[inline(always)]
fn float_two(file: &mut RegisterFile, s: &Step, of: impl Fn(f32, f32) -> f32) {
    let (and, xor) = (s.and, s.xor);
    two(file, s, |a, b| {
        result(of(float(a, and[0], xor[0]), float(b, and[1], xor[1])))
    });
    clamp(file, s);
}

#[inline(always)]
fn float_compare(file: &mut RegisterFile, s: &Step, of: impl Fn(f32, f32) -> bool) {
    let (and, xor) = (s.and, s.xor);
    compare(file, s, |a, b| of(float(a, and[0], xor[0]), float(b, and[1], xor[1])));
}

#[inline(always)]
fn clamp(file: &mut RegisterFile, s: &Step) {
    if s.clamp == Clamp::None {
        return;
    }
    let out = file.at_mut(s.to);
    let to = s.clamp;
    for x in out.iter_mut() {
        *x = super::float::clamp(f32::from_bits(*x), to).to_bits();
    }
}

/// Rounds to an integer that keeps its sign.
#[inline(always)]
fn whole(file: &mut RegisterFile, s: &Step, of: impl Fn(f32) -> f32) {
    let (and, xor) = (s.and[0], s.xor[0]);
    one(file, s, |a| {
        let x = float(a, and, xor);
        result(of(x).copysign(x))
    });
}

/// Converts a number to an unsigned integer, rounded towards 0 and clamped. NaN becomes 0.
#[inline(always)]
fn to_unsigned(x: f32) -> u32 {
    x as u32
}

/// Runs steps on a register file. `mask` has all bits set for each lane that writes registers, and none for the others.
pub(crate) fn run(level: Level, file: &mut RegisterFile, steps: &[Step], mask: &Vector) {
    // Only code that is completely inlined here is compiled for the selected instruction set.
    dispatch!(level, _ => run_steps(file, steps, mask));
}

#[inline(always)]
fn run_steps(file: &mut RegisterFile, steps: &[Step], mask: &Vector) {
    for s in steps {
        match s.kind {
            Kind::Mov => one(file, s, |a| a),
            Kind::Add => two(file, s, u32::wrapping_add),
            Kind::Sub => two(file, s, u32::wrapping_sub),
            Kind::Mul => two(file, s, u32::wrapping_mul),
            Kind::LshiftOr => shift(file, s, |a, b, by| a << by | b),
            Kind::LshiftAnd => shift(file, s, |a, b, by| a << by & b),
            Kind::LshiftXor => shift(file, s, |a, b, by| a << by ^ b),
            Kind::RshiftOr => shift(file, s, |a, b, by| a >> by | b),
            Kind::RshiftAnd => shift(file, s, |a, b, by| a >> by & b),
            Kind::RshiftXor => shift(file, s, |a, b, by| a >> by ^ b),
            Kind::Arshift => shift(file, s, |a, _, by| (a as i32 >> by) as u32),
            Kind::IcmpEq => compare(file, s, |a, b| a == b),
            Kind::IcmpNe => compare(file, s, |a, b| a != b),
            Kind::IcmpUGt => compare(file, s, |a, b| a > b),
            Kind::IcmpUGe => compare(file, s, |a, b| a >= b),
            Kind::IcmpSGt => compare(file, s, |a, b| a as i32 > b as i32),
            Kind::IcmpSGe => compare(file, s, |a, b| a as i32 >= b as i32),
            Kind::CselEq => select(file, s, |a, b| a == b),
            Kind::CselUGt => select(file, s, |a, b| a > b),
            Kind::CselUGe => select(file, s, |a, b| a >= b),
            Kind::CselSGt => select(file, s, |a, b| a as i32 > b as i32),
            Kind::CselSGe => select(file, s, |a, b| a as i32 >= b as i32),
            Kind::CselFEq => select(file, s, |a, b| f32::from_bits(a) == f32::from_bits(b)),
            Kind::CselFGt => select(file, s, |a, b| f32::from_bits(a) > f32::from_bits(b)),
            Kind::CselFGe => select(file, s, |a, b| f32::from_bits(a) >= f32::from_bits(b)),
            Kind::MuxZero => three(file, s, |a, b, c| if c == 0 { a } else { b }),
            Kind::MuxNegative => three(file, s, |a, b, c| if (c as i32) < 0 { a } else { b }),
            Kind::MuxBit => three(file, s, |a, b, c| a & c | b & !c),
            Kind::Fadd => float_two(file, s, |a, b| a + b),
            Kind::Fma => {
                let (and, xor) = (s.and, s.xor);
                three(file, s, |a, b, c| {
                    let (a, b) = (float(a, and[0], xor[0]), float(b, and[1], xor[1]));
                    result(a.mul_add(b, float(c, and[2], xor[2])))
                });
                clamp(file, s);
            }
            // Of two zeros the positive one is greater. NaN loses against any number.
            Kind::Fmax => float_two(file, s, |a, b| {
                let (greater, tie) = (if a > b { a } else { b }, f32::from_bits(a.to_bits() & b.to_bits()));
                let both = if a == b { tie } else { greater };
                if a.is_nan() {
                    b
                } else if b.is_nan() {
                    a
                } else {
                    both
                }
            }),
            Kind::Fmin => float_two(file, s, |a, b| {
                let (lesser, tie) = (if a < b { a } else { b }, f32::from_bits(a.to_bits() | b.to_bits()));
                let both = if a == b { tie } else { lesser };
                if a.is_nan() {
                    b
                } else if b.is_nan() {
                    a
                } else {
                    both
                }
            }),
            Kind::FcmpEq => float_compare(file, s, |a, b| a == b),
            Kind::FcmpNe => float_compare(file, s, |a, b| a != b),
            Kind::FcmpGt => float_compare(file, s, |a, b| a > b),
            Kind::FcmpGe => float_compare(file, s, |a, b| a >= b),
            Kind::RoundEven => whole(file, s, f32::round_ties_even),
            Kind::RoundUp => whole(file, s, f32::ceil),
            Kind::RoundDown => whole(file, s, f32::floor),
            Kind::RoundZero => whole(file, s, f32::trunc),
            Kind::FromUnsigned => one(file, s, |a| (a as f32).to_bits()),
            Kind::FromSigned => one(file, s, |a| (a as i32 as f32).to_bits()),
            Kind::ToUnsigned => one(file, s, |a| to_unsigned(f32::from_bits(a))),
            Kind::ToSigned => one(file, s, |a| f32::from_bits(a) as i32 as u32),
            Kind::Extract => {
                let (by, mask) = (s.numbers[0] & 31, s.numbers[1]);
                one(file, s, |a| a >> by & mask);
            }
            Kind::ExtractSigned => {
                let (left, right) = (s.numbers[0] & 31, s.numbers[1] & 31);
                one(file, s, |a| ((a << left) as i32 >> right) as u32);
            }
            Kind::Pack => {
                let (low, high) = (s.numbers[0] & 31, s.numbers[1] & 31);
                two(file, s, |a, b| a >> low & 0xffff | (b >> high) << 16);
            }
            Kind::Widen16 => {
                let by = s.numbers[0] & 31;
                one(file, s, |a| result(widen16((a >> by) as u16)));
            }
            Kind::Scalar(of) => {
                if let Some(m) = &s.mods {
                    by_lane(file, s, m, of);
                }
            }
            Kind::Splat => *file.at_mut(s.to) = [s.numbers[0]; LANES],
            Kind::Write => write(file, s, mask, u32::MAX),
            Kind::WriteLow => write(file, s, mask, 0xffff),
            Kind::WriteHigh => {
                write(file, s, mask, 0xffff_0000);
            }
        }
    }
}

/// Writes the bits `keep` of a temporary to the same bits of the register.
#[inline(always)]
fn write(file: &mut RegisterFile, s: &Step, mask: &Vector, keep: u32) {
    let from = *file.at(s.from[0]);
    let to = file.at_mut(s.to);
    for i in 0..LANES {
        let m = mask[i] & keep;
        to[i] = to[i] & !m | from[i] & m;
    }
}

#[inline(never)]
fn by_lane(file: &mut RegisterFile, s: &Step, m: &Mods, of: Scalar) {
    let from = s.from.map(|p| *file.at(p));
    let out = file.at_mut(s.to);
    for (i, out) in out.iter_mut().enumerate() {
        *out = of(m, from.map(|v| v[i]));
    }
}
