//! Selection of the vector form or the scalar definition of each operation.

use super::lanes::{Kind, Step};
use super::mods::{Cmp, Mods, Mux, Round, Truth};
use super::scalar::scalar;
use bifrost::Op;

fn truth_word(t: Truth) -> u32 {
    match t {
        Truth::One => 1,
        Truth::Float => 1f32.to_bits(),
        Truth::Mask => u32::MAX,
    }
}

/// Returns the kind of a comparison, and whether its operands are exchanged.
pub(crate) fn comparison(cmp: Cmp, float: bool, signed: bool) -> Option<(Kind, bool)> {
    Some(match (cmp, float, signed) {
        (Cmp::Eq, false, _) => (Kind::IcmpEq, false),
        (Cmp::Ne, false, _) => (Kind::IcmpNe, false),
        (Cmp::Gt, false, false) => (Kind::IcmpUGt, false),
        (Cmp::Ge, false, false) => (Kind::IcmpUGe, false),
        (Cmp::Lt, false, false) => (Kind::IcmpUGt, true),
        (Cmp::Le, false, false) => (Kind::IcmpUGe, true),
        (Cmp::Gt, false, true) => (Kind::IcmpSGt, false),
        (Cmp::Ge, false, true) => (Kind::IcmpSGe, false),
        (Cmp::Lt, false, true) => (Kind::IcmpSGt, true),
        (Cmp::Le, false, true) => (Kind::IcmpSGe, true),
        (Cmp::Eq, true, _) => (Kind::FcmpEq, false),
        (Cmp::Ne, true, _) => (Kind::FcmpNe, false),
        (Cmp::Gt, true, _) => (Kind::FcmpGt, false),
        (Cmp::Ge, true, _) => (Kind::FcmpGe, false),
        (Cmp::Lt, true, _) => (Kind::FcmpGt, true),
        (Cmp::Le, true, _) => (Kind::FcmpGe, true),
        (Cmp::GtLt | Cmp::Total, ..) => return None,
    })
}

/// Returns the vector form of an operation, or its scalar form, or `None` if it has neither.
pub(crate) fn step(op: Op, m: Mods, from: [u16; 4], to: u16) -> Option<Step> {
    if m.unknown.is_some() {
        return None;
    }
    if let Some(s) = vector(op, &m, from, to).filter(|_| !m.flushes) {
        return Some(s);
    }
    let mut s = Step::new(Kind::Scalar(scalar(op)?), from, to);
    s.mods = Some(Box::new(m));
    Some(s)
}

fn exchanged(from: [u16; 4], exchange: bool) -> [u16; 4] {
    if exchange {
        [from[1], from[0], from[2], from[3]]
    } else {
        from
    }
}

fn vector(op: Op, m: &Mods, from: [u16; 4], to: u16) -> Option<Step> {
    let plain = |kind| Some(Step::new(kind, from, to));
    let whole = |n: usize| m.pick.get(n).is_some_and(|p| p.bits == 32);
    let floats = |kind, count: usize| {
        if !(0..count).all(whole) || m.round != Round::Even {
            return None;
        }
        let mut s = Step::new(kind, from, to);
        s.and = m.abs.map(|abs| if abs { 0x7fff_ffff } else { u32::MAX });
        s.xor = m.neg.map(|neg| if neg { 0x8000_0000 } else { 0 });
        s.clamp = m.clamp;
        Some(s)
    };
    let shift = |kind| {
        let mut s = Step::new(kind, from, to);
        s.numbers[0] = 8 * u32::from(m.pick[2].at[0]) * u32::from(m.pick[2].bits == 8);
        s.xor[1] = if m.not1 { u32::MAX } else { 0 };
        s.xor[2] = if m.not_result { u32::MAX } else { 0 };
        Some(s)
    };
    let part = |signed: bool| {
        let p = m.pick[0];
        let mut s = Step::new(if signed { Kind::ExtractSigned } else { Kind::Extract }, from, to);
        let (bits, at) = (u32::from(p.bits), u32::from(p.at[0]));
        if bits == 32 {
            return Some(Step::new(Kind::Mov, from, to));
        }
        s.numbers = if signed {
            [32 - bits * (at + 1), 32 - bits]
        } else {
            [bits * at, (1 << bits) - 1]
        };
        Some(s)
    };
    match op {
        Op::MovI32 => plain(Kind::Mov),
        Op::IaddS32 | Op::IaddU32 if whole(1) && !m.saturate => plain(Kind::Add),
        Op::IsubS32 | Op::IsubU32 if whole(1) && !m.saturate => plain(Kind::Sub),
        Op::ImulI32 if whole(1) => plain(Kind::Mul),
        Op::LshiftOrI32 => shift(Kind::LshiftOr),
        Op::LshiftAndI32 => shift(Kind::LshiftAnd),
        Op::LshiftXorI32 => shift(Kind::LshiftXor),
        Op::RshiftOrI32 => shift(Kind::RshiftOr),
        Op::RshiftAndI32 => shift(Kind::RshiftAnd),
        Op::RshiftXorI32 => shift(Kind::RshiftXor),
        Op::ArshiftI32 => shift(Kind::Arshift),
        Op::IcmpI32 | Op::IcmpU32 | Op::IcmpS32 => {
            let (kind, exchange) = comparison(m.cmp, false, op == Op::IcmpS32)?;
            let mut s = Step::new(kind, exchanged(from, exchange), to);
            s.numbers[0] = truth_word(m.truth);
            Some(s)
        }
        Op::FcmpF32 => {
            let (kind, exchange) = comparison(m.cmp, true, false)?;
            let mut s = floats(kind, 2)?;
            if exchange {
                s.from = exchanged(from, true);
                s.and.swap(0, 1);
                s.xor.swap(0, 1);
            }
            s.numbers[0] = truth_word(m.truth);
            Some(s)
        }
        Op::CselI32 | Op::CselU32 | Op::CselS32 | Op::CselF32 => {
            let (float, signed) = (op == Op::CselF32, op == Op::CselS32);
            let (kind, exchange, other) = match (m.cmp, float, signed) {
                (Cmp::Eq, false, _) => (Kind::CselEq, false, false),
                (Cmp::Ne, false, _) => (Kind::CselEq, false, true),
                (Cmp::Gt, false, false) => (Kind::CselUGt, false, false),
                (Cmp::Ge, false, false) => (Kind::CselUGe, false, false),
                (Cmp::Lt, false, false) => (Kind::CselUGt, true, false),
                (Cmp::Le, false, false) => (Kind::CselUGe, true, false),
                (Cmp::Gt, false, true) => (Kind::CselSGt, false, false),
                (Cmp::Ge, false, true) => (Kind::CselSGe, false, false),
                (Cmp::Lt, false, true) => (Kind::CselSGt, true, false),
                (Cmp::Le, false, true) => (Kind::CselSGe, true, false),
                (Cmp::Eq, true, _) => (Kind::CselFEq, false, false),
                (Cmp::Ne, true, _) => (Kind::CselFEq, false, true),
                (Cmp::Gt, true, _) => (Kind::CselFGt, false, false),
                (Cmp::Ge, true, _) => (Kind::CselFGe, false, false),
                (Cmp::Lt, true, _) => (Kind::CselFGt, true, false),
                (Cmp::Le, true, _) => (Kind::CselFGe, true, false),
                (Cmp::GtLt | Cmp::Total, ..) => return None,
            };
            let mut from = exchanged(from, exchange);
            if other {
                from.swap(2, 3);
            }
            Some(Step::new(kind, from, to))
        }
        Op::MuxI32 => match m.mux {
            Mux::IntZero => plain(Kind::MuxZero),
            Mux::Negative => plain(Kind::MuxNegative),
            Mux::Bit => plain(Kind::MuxBit),
            Mux::FloatZero => None,
        },
        Op::FaddF32 => floats(Kind::Fadd, 2),
        Op::FmaF32 => floats(Kind::Fma, 3),
        Op::FmaxF32 if !m.nan_propagates => floats(Kind::Fmax, 2),
        Op::FminF32 if !m.nan_propagates => floats(Kind::Fmin, 2),
        Op::FroundF32 if whole(0) => {
            let kind = match m.round {
                Round::Even => Kind::RoundEven,
                Round::Up => Kind::RoundUp,
                Round::Down => Kind::RoundDown,
                Round::Zero => Kind::RoundZero,
                Round::Away | Round::Odd => return None,
            };
            let mut s = Step::new(kind, from, to);
            s.and[0] = if m.abs[0] { 0x7fff_ffff } else { u32::MAX };
            s.xor[0] = if m.neg[0] { 0x8000_0000 } else { 0 };
            Some(s)
        }
        Op::U32ToF32 if m.round == Round::Even => plain(Kind::FromUnsigned),
        Op::S32ToF32 if m.round == Round::Even => plain(Kind::FromSigned),
        Op::F32ToU32 if m.round == Round::Zero => plain(Kind::ToUnsigned),
        Op::F32ToS32 if m.round == Round::Zero => plain(Kind::ToSigned),
        Op::U16ToU32 | Op::U8ToU32 => part(false),
        Op::S16ToS32 | Op::S8ToS32 => part(true),
        Op::F16ToF32 => {
            let mut s = Step::new(Kind::Widen16, from, to);
            s.numbers[0] = 16 * u32::from(m.pick[0].at[0] & 1) * u32::from(m.pick[0].bits == 16);
            Some(s)
        }
        Op::MkvecV2i16 => {
            let mut s = Step::new(Kind::Pack, from, to);
            for (number, p) in s.numbers.iter_mut().zip(m.pick) {
                *number = 16 * u32::from(p.at[0] & 1) * u32::from(p.bits == 16);
            }
            Some(s)
        }
        _ => None,
    }
}
