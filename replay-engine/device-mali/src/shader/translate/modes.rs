//! Clause modes of float operations, and the modes that are not implemented.
//!
//! Two modes are implemented:
//!
//! - Flush-to-zero, always: for conversions between 16 and 32 bits, the only operations for which Mesa's compiler sets
//!   it. Its `fquantize2f16` defines the effect: a number below the smallest normal half becomes a zero of its sign,
//!   before any rounding.
//! - Suppression of infinity and of NaN: for operations that return floats by plain arithmetic. `bifrost.h` defines the
//!   effect: infinity becomes the greatest number of its sign, NaN becomes `+0`.
//!
//! Mesa names the other flush modes, but nobody describes them. The same holds for precise division and roots. Of write
//! elision it is only known that something is not written. Each of these is rejected by name.

use super::ClauseTranslation;
use crate::shader::lanes::{Kind, Step};
use crate::shader::mods::Mods;
use crate::shader::scalar::{Scalar, suppressed16, suppressed32, wide_sum};
use bifrost::{Flow, Header, Instruction, Modifier, Op, Value};

/// Bits of the header that have no meaning.
const RESERVED: u64 = 0x1f | 1 << 14;

/// Behaviour of an operation for infinities and NaN in its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultKind {
    /// Plain arithmetic on one 32-bit float or two 16-bit floats.
    Float { bits: u32 },
    /// Comparison of floats, or conversion of floats to integers.
    Integer,
    /// An approximation, a table or a message, for which the effect of suppression is not documented.
    Other,
}

/// Returns whether an operation reads or returns floats.
fn is_float_op(i: &Instruction) -> bool {
    let name = i.op().name();
    let bound = ["TEX", "LD_ATTR", "LD_CVT", "ST_CVT", "VAR_TEX", "LD_VAR"];
    name.starts_with('F')
        || name.contains("f16")
        || name.contains("f32")
        || name.contains("F16")
        || name.contains("F32")
        || name.starts_with("CUBE")
        || bound.iter().any(|b| name.starts_with(b))
        || i.get(Modifier::Mux) == Value::FpZero
}

fn result_kind(op: Op) -> ResultKind {
    match op {
        Op::FaddF32
        | Op::FmaF32
        | Op::FmaRscaleF32
        | Op::FaddRscaleF32
        | Op::FmaxF32
        | Op::FminF32
        | Op::FroundF32
        | Op::LdexpF32
        | Op::QuietF32
        | Op::F16ToF32
        | Op::S32ToF32
        | Op::U32ToF32
        | Op::S16ToF32
        | Op::U16ToF32
        | Op::S8ToF32
        | Op::U8ToF32 => ResultKind::Float { bits: 32 },
        Op::FaddV2f16
        | Op::FmaV2f16
        | Op::FmaRscaleV2f16
        | Op::FmaxV2f16
        | Op::FminV2f16
        | Op::FroundV2f16
        | Op::LdexpV2f16
        | Op::QuietV2f16
        | Op::V2f32ToV2f16
        | Op::V2s16ToV2f16
        | Op::V2u16ToV2f16
        | Op::V2s8ToV2f16
        | Op::V2u8ToV2f16 => ResultKind::Float { bits: 16 },
        Op::FcmpF32
        | Op::FcmpV2f16
        | Op::F16ToS32
        | Op::F16ToU32
        | Op::F32ToS32
        | Op::F32ToU32
        | Op::V2f16ToV2s16
        | Op::V2f16ToV2u16
        | Op::BranchF16
        | Op::BranchF32
        | Op::BranchzF16
        | Op::BranchzF32 => ResultKind::Integer,
        _ => ResultKind::Other,
    }
}

fn has_suppression(h: Header) -> bool {
    h.suppress_inf() || h.suppress_nan()
}

impl ClauseTranslation<'_, '_> {
    /// Rejects header modes that are not documented.
    pub(super) fn header(&mut self) {
        let h = self.clause.header;
        match h.flush_to_zero() {
            1 => self.push_unknown("flush-to-zero as DirectX 11 has it"),
            3 => self.push_unknown("flush-to-zero, abrupt"),
            _ => {}
        }
        match h.exceptions() {
            2 => self.push_unknown("exceptions for precise division"),
            3 => self.push_unknown("exceptions for precise square roots"),
            // Counting of exceptions does not affect any result.
            _ => {}
        }
        if matches!(h.flow(), Flow::Elision | Flow::ElisionReconverge) {
            self.push_unknown("write elision");
        }
        if h.bits & RESERVED != 0 {
            self.push_unknown("a reserved bit of the header");
        }
    }

    /// Rejects an operation whose result in the modes of its clause is not known.
    pub(super) fn check_modes(&mut self, i: &Instruction) {
        let h = self.clause.header;
        if h.flush_to_zero() != 2 && !has_suppression(h) || !is_float_op(i) {
            return;
        }
        let named = |mode: &str| format!("{}{} with {mode}", i.unit().sign(), i.op().name());
        if h.flush_to_zero() == 2 {
            let nearest = i.get(Modifier::Round) == Value::None;
            match i.op() {
                Op::F16ToF32 => {}
                Op::V2f32ToV2f16 if nearest => {}
                _ => self.push_unknown(named("flush-to-zero")),
            }
        }
        if has_suppression(h) && result_kind(i.op()) == ResultKind::Other {
            self.push_unknown(named("suppression of infinity or NaN"));
        }
    }

    /// Returns the modifiers of an operation, including the modes of its clause.
    pub(super) fn mods(&self, i: &Instruction) -> Mods {
        Mods {
            flushes: self.clause.header.flush_to_zero() == 2 && is_float_op(i),
            ..Mods::from_instruction(i)
        }
    }

    /// Removes the values that the clause suppresses from a result.
    pub(super) fn suppress(&mut self, i: &Instruction, place: u16) {
        let h = self.clause.header;
        let ResultKind::Float { bits } = result_kind(i.op()) else {
            return;
        };
        if !has_suppression(h) {
            return;
        }
        let of: Scalar = if bits == 32 { suppressed32 } else { suppressed16 };
        let mut s = Step::new(Kind::Scalar(of), [place, 0, 0, 0], place);
        s.mods = Some(Box::new(Mods {
            no_infinity: h.suppress_inf(),
            no_nan: h.suppress_nan(),
            ..Mods::from_instruction(i)
        }));
        self.steps.push(s);
    }

    /// Translates a 64-bit sum: FMA computes its low word, `SHADDXH` in the same tuple the high word.
    pub(super) fn high_sum(&mut self, i: &Instruction, fma: &Instruction, tuple: usize, to: u16) {
        let Some(of) = wide_sum(fma.op()) else {
            self.push_unknown(format!("+{} next to *{}", i.op().name(), fma.op().name()));
            return;
        };
        let (low, high) = (self.operands(fma, tuple), self.operands(i, tuple));
        let from = [low[0], low[1], high[0], high[1]];
        let mut s = Step::new(Kind::Scalar(of), from, to);
        s.mods = Some(Box::new(Mods::from_instruction(fma)));
        self.steps.push(s);
    }

    /// Rejects a 64-bit sum of FMA that goes into the address of the tuple's message, which is not implemented.
    pub(super) fn refuse_sent_sum(&mut self, fma: &Instruction, add: &Instruction) {
        let addressed = !matches!(add.op().message(), bifrost::Message::None | bifrost::Message::Barrier);
        if addressed && wide_sum(fma.op()).is_some() {
            let (fma, add) = (fma.op().name(), add.op().name());
            self.push_unknown(format!("+{add} next to *{fma}"));
        }
    }
}
