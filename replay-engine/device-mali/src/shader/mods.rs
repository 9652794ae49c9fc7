//! Modifiers of an operation, parsed once from its encoding into a form for execution.

use bifrost::{Instruction, Modifier, Op, Value};

/// Parts of a source that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// Width of a part in bits: 32, 16 or 8.
    pub bits: u8,
    /// Number of the part for each element of the result.
    pub at: [u8; 4],
}

impl Pick {
    const WHOLE: Self = Self {
        bits: 32,
        at: [0, 1, 2, 3],
    };

    /// Parses names such as `h1`, `h10`, `b0123`. All other names select the whole word.
    fn from_value(value: Value) -> Self {
        let name = value.name().as_bytes();
        let (bits, digits) = match name {
            [b'h', digits @ ..] => (16, digits),
            [b'b', digits @ ..] => (8, digits),
            _ => return Self::WHOLE,
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Self::WHOLE;
        }
        let at = std::array::from_fn(|n| digits.get(n).or(digits.first()).map_or(0, |d| d - b'0'));
        Self { bits, at }
    }

    #[inline(always)]
    fn part(self, word: u32, n: usize, signed: bool) -> u32 {
        let at = u32::from(self.at[n]);
        match (self.bits, signed) {
            (16, false) => word >> (16 * (at & 1)) & 0xffff,
            (16, true) => (word >> (16 * (at & 1))) as i16 as u32,
            (8, false) => word >> (8 * (at & 3)) & 0xff,
            (8, true) => (word >> (8 * (at & 3))) as i8 as u32,
            _ => word,
        }
    }

    /// Returns one part, extended to a word.
    #[inline(always)]
    pub(crate) fn word(self, word: u32, signed: bool) -> u32 {
        self.part(word, 0, signed)
    }

    /// Returns two parts, extended to words. For a whole word, these are its halves.
    #[inline(always)]
    pub(crate) fn pair(self, word: u32, signed: bool) -> [u32; 2] {
        let this = if self.bits == 32 {
            Self {
                bits: 16,
                ..Self::WHOLE
            }
        } else {
            self
        };
        [this.part(word, 0, signed), this.part(word, 1, signed)]
    }

    /// Returns four bytes. For a whole word, these are all its bytes.
    #[inline(always)]
    pub(crate) fn bytes(self, word: u32) -> [u8; 4] {
        let this = if self.bits == 32 {
            Self { bits: 8, ..Self::WHOLE }
        } else {
            self
        };
        std::array::from_fn(|n| this.part(word, n, false) as u8)
    }
}

/// Rounding mode of a result between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// To nearest, ties to even.
    Even,
    /// Towards positive infinity.
    Up,
    /// Towards negative infinity.
    Down,
    /// Towards zero.
    Zero,
    /// To nearest, ties away from zero.
    Away,
    /// To the neighbour whose last bit is set.
    Odd,
}

/// Range to which a float result is clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clamp {
    None,
    /// 0 and above.
    Positive,
    /// -1 to 1.
    Signed,
    /// 0 to 1.
    Unit,
}

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
    /// Less or greater: the operands differ, and neither is NaN.
    GtLt,
    /// Less in the total order of floats: -0 before +0, NaN at the ends.
    Total,
}

/// Result of a comparison that holds. The result is 0 otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// 1.
    One,
    /// 1.0.
    Float,
    /// All bits set.
    Mask,
}

/// Condition that selects one of two sources by a third source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mux {
    /// Selects the first if the third is negative.
    Negative,
    /// Selects the first if the third is 0.
    IntZero,
    /// Selects the first if the third is a zero float.
    FloatZero,
    /// Selects bit by bit: the first where the third's bit is set.
    Bit,
}

/// Special behaviour of a fused multiply-add with scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    None,
    /// A product with 0 is 0, whatever the other factor is.
    Zero,
    /// A product with 0 is its first factor.
    Left,
    /// The exponent is the low half of its word.
    Scale16,
}

/// Lane that a cross-lane operation reads its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneOp {
    /// The given lane.
    None,
    /// The own lane number XOR the given number.
    Xor,
    /// The own lane number plus the given number.
    Accumulate,
    /// The own lane number minus the given number.
    Shift,
}

/// Modifiers of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mods {
    pub abs: [bool; 3],
    pub neg: [bool; 3],
    pub pick: [Pick; 4],
    pub not1: bool,
    pub not_result: bool,
    pub clamp: Clamp,
    pub round: Round,
    pub cmp: Cmp,
    pub truth: Truth,
    pub mux: Mux,
    pub saturate: bool,
    /// Whether narrow sources are signed: `extend`, `sign0`, `sign1`.
    pub signed: [bool; 2],
    /// Whether a count of leading zeros returns all ones for 0.
    pub masks: bool,
    pub log: bool,
    pub sqrt: bool,
    pub special: Special,
    /// `sem=nan_propagate`.
    pub nan_propagates: bool,
    pub lane_op: LaneOp,
    /// Number of lanes of a subgroup.
    pub subgroup: u8,
    pub inactive: Value,
    /// Number in the encoding: a shift amount or a fill bit.
    pub number: u32,
    pub mode: Value,
    /// Whether the result is the high word of a two-word result.
    pub high: bool,
    /// Whether denormal halves become zeros of their sign. This is a mode of the clause, as are the next two.
    pub flushes: bool,
    /// Whether an infinite result becomes the greatest number of its sign.
    pub no_infinity: bool,
    /// Whether a NaN result becomes `+0`.
    pub no_nan: bool,
    /// A modifier that this model does not implement, if one is set.
    pub unknown: Option<&'static str>,
}

/// Modifiers of which only the default value is implemented.
const DEFAULTS_ONLY: [Modifier; 10] = [
    Modifier::Adj,
    Modifier::Offset,
    Modifier::Precision,
    Modifier::Divzero,
    Modifier::Scale,
    Modifier::PreserveNull,
    Modifier::Bytes2,
    Modifier::H,
    Modifier::L,
    Modifier::Func,
];

impl Mods {
    /// Parses the modifiers of an instruction.
    pub(crate) fn from_instruction(i: &Instruction) -> Self {
        use Modifier as M;
        let is = |m, v| i.get(m) == v;
        let pick = |names: [Modifier; 6]| {
            let found = names
                .into_iter()
                .map(|m| Pick::from_value(i.get(m)))
                .find(|p| p.bits != 32);
            found.unwrap_or(Pick::WHOLE)
        };
        let round = match i.get(M::Round) {
            Value::Rtp => Round::Up,
            Value::Rtn => Round::Down,
            Value::Rtz => Round::Zero,
            Value::Rtna => Round::Away,
            Value::Rto => Round::Odd,
            _ => Round::Even,
        };
        let mut unknown = DEFAULTS_ONLY
            .into_iter()
            .find(|m| i.get(*m) != Value::None)
            .map(Modifier::name);
        if matches!(i.get(M::Round), Value::Inf | Value::Inf0) {
            unknown = Some("round to infinity");
        }
        if !matches!(i.get(M::Sem), Value::None | Value::NanSuppress | Value::NanPropagate) {
            unknown = Some("sem");
        }
        // The effect on a product is known, and a sum has none.
        if i.op() == Op::FaddRscaleF32 && i.get(M::Special) != Value::None {
            unknown = Some("special");
        }
        Self {
            abs: [
                is(M::Abs0, Value::Abs),
                is(M::Abs1, Value::Abs),
                is(M::Abs2, Value::Abs),
            ],
            neg: [
                is(M::Neg0, Value::Neg),
                is(M::Neg1, Value::Neg),
                is(M::Neg2, Value::Neg),
            ],
            pick: [
                pick([M::Lane0, M::Lanes0, M::Swz0, M::Swap0, M::Widen0, M::Replicate0]),
                pick([M::Lane1, M::Lanes1, M::Swz1, M::Swap1, M::Widen1, M::Replicate1]),
                pick([M::Lane2, M::Lanes2, M::Swz2, M::Swap2, M::Lane2, M::Lane2]),
                pick([M::Lane3, M::Lane3, M::Lane3, M::Lane3, M::Lane3, M::Lane3]),
            ],
            not1: is(M::Not1, Value::Not),
            not_result: is(M::NotResult, Value::Not),
            clamp: match i.get(M::Clamp) {
                Value::Clamp0Inf => Clamp::Positive,
                Value::ClampM11 => Clamp::Signed,
                Value::Clamp01 => Clamp::Unit,
                _ => Clamp::None,
            },
            round,
            cmp: match i.get(M::Cmpf) {
                Value::Ne => Cmp::Ne,
                Value::Gt => Cmp::Gt,
                Value::Ge => Cmp::Ge,
                Value::Lt => Cmp::Lt,
                Value::Le => Cmp::Le,
                Value::Gtlt => Cmp::GtLt,
                Value::Total => Cmp::Total,
                _ => Cmp::Eq,
            },
            truth: match i.get(M::ResultType) {
                Value::F1 => Truth::Float,
                Value::M1 => Truth::Mask,
                _ => Truth::One,
            },
            mux: match i.get(M::Mux) {
                Value::Neg => Mux::Negative,
                Value::FpZero => Mux::FloatZero,
                Value::Bit => Mux::Bit,
                _ => Mux::IntZero,
            },
            saturate: is(M::Saturate, Value::Sat),
            signed: [
                is(M::Extend, Value::Sext) || is(M::Sign0, Value::Sext),
                is(M::Extend, Value::Sext) || is(M::Sign1, Value::Sext),
            ],
            masks: is(M::Mask, Value::Mask),
            log: is(M::Log, Value::Log),
            sqrt: is(M::Sqrt, Value::Sqrt),
            special: match i.get(M::Special) {
                Value::N => Special::Zero,
                Value::Left => Special::Left,
                Value::Scale16 => Special::Scale16,
                _ => Special::None,
            },
            nan_propagates: is(M::Sem, Value::NanPropagate),
            lane_op: match i.get(M::LaneOp) {
                Value::Xor => LaneOp::Xor,
                Value::Accumulate => LaneOp::Accumulate,
                Value::Shift => LaneOp::Shift,
                _ => LaneOp::None,
            },
            subgroup: match i.get(M::Subgroup) {
                Value::Subgroup2 => 2,
                Value::Subgroup8 => 8,
                Value::Subgroup16 => 16,
                _ => 4,
            },
            inactive: i.get(M::InactiveResult),
            number: i.immediates().next().map_or(0, |(_, v)| v),
            mode: i.get(M::Mode),
            high: is(M::ResultWord, Value::W1),
            flushes: false,
            no_infinity: false,
            no_nan: false,
            unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzle_selectors_pick_and_extend_parts() {
        let p = Pick::from_value(Value::H10);
        assert_eq!(p.pair(0x8001_0002, false), [0x8001, 2]);
        assert_eq!(p.pair(0x8001_0002, true), [0xffff_8001, 2]);
        let p = Pick::from_value(Value::B2);
        assert_eq!(p.word(0x0180_0000, true), 0xffff_ff80);
        assert_eq!(p.word(0x0180_0000, false), 0x80);
        assert_eq!(
            Pick::from_value(Value::B0101).bytes(0x4433_2211),
            [0x11, 0x22, 0x11, 0x22]
        );
        assert_eq!(
            Pick::from_value(Value::None).bytes(0x4433_2211),
            [0x11, 0x22, 0x33, 0x44]
        );
        assert_eq!(Pick::from_value(Value::None).word(7, true), 7);
    }
}
