//! Tests of the oracle with results computed by hand.

use super::arithmetic::is_taken;
use super::generate::Rng;
use super::{result, value::Value};
use bifrost::{Instruction, Modifier, Op, Unit, Value as M};

/// Returns an operation with these modifiers and any source selectors.
fn operation(unit: Unit, op: Op, modifiers: &[(Modifier, M)]) -> Instruction {
    let mut rng = Rng::new(1);
    let fits = |i: &Instruction| {
        let usual = i.modifiers().all(|(m, v, shown)| {
            let requested = modifiers.iter().find(|(n, _)| *n == m);
            requested.map_or(!shown, |(_, want)| v == *want)
        });
        usual && modifiers.iter().all(|(m, v)| i.get(*m) == *v)
    };
    for (o, mask, exact) in Instruction::encodings(unit).filter(|(o, _, _)| *o == op) {
        for _ in 0..20_000 {
            let bits = exact | rng.next() as u32 & !mask & ((1 << unit.bits()) - 1);
            if let Some(i) = Instruction::decode(unit, bits)
                && i.op() == o
                && fits(&i)
            {
                return i;
            }
        }
    }
    panic!("{op:?} has no encoding with {modifiers:?}");
}

fn fma(op: Op, modifiers: &[(Modifier, M)], s: &[u32]) -> Value {
    result(&operation(Unit::Fma, op, modifiers), s).expect("known")
}

fn add(op: Op, modifiers: &[(Modifier, M)], s: &[u32]) -> Value {
    result(&operation(Unit::Add, op, modifiers), s).expect("known")
}

fn bits(x: f32) -> u32 {
    x.to_bits()
}

#[test]
fn a_product_and_sum_is_rounded_once() {
    let a = bits(1.0 + 2f32.powi(-12));
    // A product that is rounded first would lose 2^-24 of (1 + 2^-12)^2 - 1 = 2^-11 + 2^-24.
    let want = bits(2f32.powi(-11) + 2f32.powi(-24));
    assert_eq!(fma(Op::FmaF32, &[], &[a, a, bits(-1.0)]), Value::exact(want));
    let up = fma(Op::FaddF32, &[(Modifier::Round, M::Rtp)], &[bits(1.0), 1]);
    assert_eq!(up, Value::exact(0x3f80_0001));
    let to_odd = add(Op::FaddF32, &[(Modifier::Round, M::Rto)], &[bits(1.0), 1]);
    assert_eq!(to_odd, Value::exact(0x3f80_0001));
    let half = fma(Op::FmaV2f16, &[], &[0x3c00_4000, 0x4200_3c01, 0xbc00_0000]);
    assert_eq!(half.known(), Some(0x4000_4001));
}

#[test]
fn results_are_clamped_and_nan_becomes_zero() {
    let zero_one = [(Modifier::Clamp, M::Clamp01)];
    assert_eq!(fma(Op::FaddF32, &zero_one, &[bits(1.5), 0]), Value::exact(bits(1.0)));
    assert!(fma(Op::FaddF32, &zero_one, &[0x7fc0_0000, 0]).allows(0));
    assert!(!fma(Op::FaddF32, &zero_one, &[0x7fc0_0000, 0]).allows(0x7fc0_0000));
    let one = [(Modifier::Clamp, M::ClampM11)];
    assert_eq!(fma(Op::FaddF32, &one, &[bits(-7.0), 0]), Value::exact(bits(-1.0)));
}

#[test]
fn min_and_max_handle_nan_by_their_mode() {
    let nan = 0x7fc0_0000;
    let suppress = [(Modifier::Sem, M::NanSuppress)];
    assert_eq!(
        add(Op::FmaxF32, &suppress, &[nan, bits(-2.0)]),
        Value::exact(bits(-2.0))
    );
    let propagate = add(Op::FminF32, &[(Modifier::Sem, M::NanPropagate)], &[bits(1.0), nan]);
    assert!(propagate.allows(nan) && !propagate.allows(bits(1.0)));
    assert_eq!(
        add(Op::FminF32, &suppress, &[bits(3.0), bits(-4.0)]),
        Value::exact(bits(-4.0))
    );
}

#[test]
fn comparisons_return_the_requested_type() {
    let ge = |t| [(Modifier::Cmpf, M::Ge), (Modifier::ResultType, t)];
    let s = [bits(2.0), bits(2.0)];
    assert_eq!(add(Op::FcmpF32, &ge(M::F1), &s), Value::exact(bits(1.0)));
    assert_eq!(add(Op::FcmpF32, &ge(M::M1), &s), Value::exact(u32::MAX));
    let ne = [(Modifier::Cmpf, M::Ne), (Modifier::ResultType, M::I1)];
    assert_eq!(add(Op::FcmpF32, &ne, &[0x7fc0_0000, 0x7fc0_0000]), Value::exact(1));
    let total = [(Modifier::Cmpf, M::Total), (Modifier::ResultType, M::I1)];
    assert_eq!(add(Op::FcmpF32, &total, &[bits(-0.0), 0]), Value::exact(1));
    assert_eq!(add(Op::FcmpF32, &total, &[0, bits(-0.0)]), Value::exact(0));
    let less = [(Modifier::Cmpf, M::Lt), (Modifier::ResultType, M::M1)];
    assert_eq!(
        add(
            Op::IcmpV4s8,
            &[(Modifier::Cmpf, M::Gt), (Modifier::ResultType, M::M1)],
            &[0x017f_80ff, 0]
        )
        .known(),
        Some(0xffff_0000)
    );
    assert_eq!(add(Op::FcmpV2f16, &less, &[0x3c00_bc00, 0]).known(), Some(0x0000_ffff));
}

#[test]
fn mux_selects_sources_by_its_third_operand() {
    let s = [0xaaaa_aaaa, 0x5555_5555, 0];
    assert_eq!(add(Op::MuxI32, &[], &s).known(), Some(0xaaaa_aaaa));
    assert_eq!(add(Op::MuxI32, &[], &[s[0], s[1], 7]).known(), Some(0x5555_5555));
    // Mesa's compiler packs a cube coordinate like this: low 29 bits of the first source, upper three of the second.
    let bit = [(Modifier::Mux, M::Bit)];
    assert_eq!(
        add(Op::MuxI32, &bit, &[0x3f00_0000, 0x8000_0000, 0x1fff_ffff]).known(),
        Some(0x9f00_0000)
    );
    let zero = [(Modifier::Mux, M::FpZero)];
    assert_eq!(add(Op::MuxI32, &zero, &[1, 2, 0x8000_0000]).known(), Some(1));
    assert_eq!(
        add(
            Op::MuxV2i16,
            &[(Modifier::Mux, M::Neg)],
            &[0x1111_2222, 0x3333_4444, 0x8000_7fff]
        )
        .known(),
        Some(0x1111_4444)
    );
}

#[test]
fn lane_sums_saturate() {
    let sat = [(Modifier::Saturate, M::Sat)];
    assert_eq!(
        add(Op::IaddS32, &sat, &[i32::MAX as u32, 1]).known(),
        Some(i32::MAX as u32)
    );
    assert_eq!(add(Op::IaddU32, &sat, &[u32::MAX, 1]).known(), Some(u32::MAX));
    assert_eq!(add(Op::IsubU32, &sat, &[3, 4]).known(), Some(0));
    assert_eq!(
        add(Op::IaddV4u8, &sat, &[0x01ff_80fe, 0x0101_8001]).known(),
        Some(0x02ff_ffff)
    );
    assert_eq!(
        add(Op::IaddV2s16, &sat, &[0x7fff_8000, 0x0001_ffff]).known(),
        Some(0x7fff_8000)
    );
    assert_eq!(
        add(Op::IaddS32, &[(Modifier::Lanes1, M::B3)], &[10, 0xff00_0000]).known(),
        Some(9)
    );
    assert_eq!(
        add(Op::IaddU32, &[(Modifier::Lanes1, M::B3)], &[10, 0xff00_0000]).known(),
        Some(265)
    );
    assert_eq!(
        add(Op::HaddS32, &[(Modifier::Round, M::Rtn)], &[-3i32 as u32, 0]).known(),
        Some(-2i32 as u32)
    );
    assert_eq!(
        add(Op::HaddU32, &[(Modifier::Round, M::Rtp)], &[u32::MAX, u32::MAX]).known(),
        Some(u32::MAX)
    );
    assert_eq!(add(Op::IabsS32, &[], &[0x8000_0000]).known(), Some(0x8000_0000));
    assert_eq!(fma(Op::ImulI32, &[], &[0xffff_ffff, 0xffff_fffe]).known(), Some(2));
    let signs = [(Modifier::Sign0, M::Sext), (Modifier::Sign1, M::Zext)];
    assert_eq!(
        fma(Op::IdpV4i8, &signs, &[0x00ff_0102, 0x05ff_0304]).known(),
        Some((2 * 4 + 3 - 255) as u32)
    );
}

#[test]
fn shifts_take_the_low_bits_of_their_amount() {
    let not = [(Modifier::Not1, M::Not)];
    assert_eq!(fma(Op::LshiftOrI32, &not, &[1, !0, 33]).known(), Some(2));
    assert_eq!(fma(Op::RshiftAndI32, &[], &[0xff00, 0x0f, 8]).known(), Some(0x0f));
    let lane = [(Modifier::Lane2, M::B2)];
    assert_eq!(
        fma(Op::ArshiftI32, &lane, &[0x8000_0000, 0, 0x0004_0000]).known(),
        Some(0xf800_0000)
    );
    let both = [(Modifier::Lanes2, M::B02)];
    assert_eq!(
        fma(Op::LshiftXorV2i16, &both, &[0x0001_8001, 0, 0x0011_0001]).known(),
        Some(0x0002_0002)
    );
    assert_eq!(fma(Op::ClzU32, &[], &[0]).known(), Some(32));
    assert_eq!(
        fma(Op::ClzU32, &[(Modifier::Mask, M::Mask)], &[0]).known(),
        Some(u32::MAX)
    );
    assert_eq!(fma(Op::ClzV4u8, &[], &[0x0100_8040]).known(), Some(0x0708_0001));
    assert_eq!(fma(Op::BitrevI32, &[], &[0x0000_0006]).known(), Some(0x6000_0000));
    assert_eq!(fma(Op::PopcountI32, &[], &[0xf0f0_0001]).known(), Some(9));
}

#[test]
fn conversions_round_and_keep_within_bounds() {
    let rtz = [(Modifier::Round, M::Rtz)];
    assert_eq!(add(Op::F32ToS32, &rtz, &[bits(-2.9)]).known(), Some(-2i32 as u32));
    assert_eq!(add(Op::F32ToU32, &rtz, &[bits(-2.9)]).known(), Some(0));
    assert_eq!(add(Op::F32ToU32, &[], &[bits(2.5)]).known(), Some(2));
    assert_eq!(add(Op::F32ToU32, &[], &[0x7f80_0000]).known(), Some(u32::MAX));
    assert_eq!(add(Op::F32ToS32, &[], &[0x7fc0_0000]).known(), Some(0));
    assert_eq!(
        add(Op::U32ToF32, &[], &[0xffff_ffff]).known(),
        Some(bits(4_294_967_296.0))
    );
    assert_eq!(add(Op::U32ToF32, &rtz, &[0xffff_ffff]).known(), Some(0x4f7f_ffff));
    assert_eq!(add(Op::S32ToF32, &[], &[0x8000_0000]).known(), Some(0xcf00_0000));
    assert_eq!(add(Op::V2f16ToV2s16, &rtz, &[0xfc00_4100]).known(), Some(0x8000_0002));
    assert_eq!(
        add(Op::V2s8ToV2f16, &[(Modifier::Swz0, M::B30)], &[0x8000_0001]).known(),
        Some(0x3c00_d800)
    );
    let two = fma(Op::V2f32ToV2f16, &[], &[bits(1.0), bits(65520.0)]);
    assert_eq!(two.known(), Some(0x7c00_3c00));
    assert_eq!(
        add(Op::F16ToF32, &[(Modifier::Lane0, M::H1)], &[0x0001_0000]).known(),
        Some(bits(2f32.powi(-24)))
    );
}

#[test]
fn frexp_modes_split_numbers_for_sqrt_and_log() {
    let sqrt = [(Modifier::Sqrt, M::Sqrt)];
    let log = [(Modifier::Log, M::Log)];
    assert_eq!(add(Op::FrexpmF32, &[], &[bits(-6.0)]).known(), Some(bits(-0.75)));
    assert_eq!(
        add(Op::FrexpeF32, &[(Modifier::Neg0, M::Neg)], &[bits(-6.0)]).known(),
        Some(-3i32 as u32)
    );
    assert_eq!(add(Op::FrexpmF32, &sqrt, &[bits(8.0)]).known(), Some(bits(0.5)));
    assert_eq!(add(Op::FrexpeF32, &sqrt, &[bits(8.0)]).known(), Some(2));
    assert_eq!(add(Op::FrexpmF32, &sqrt, &[bits(4.0)]).known(), Some(bits(0.25)));
    assert_eq!(fma(Op::FrexpmF32, &log, &[bits(1.4)]).known(), Some(bits(1.4)));
    assert_eq!(fma(Op::FrexpeF32, &log, &[bits(1.5)]).known(), Some(1));
    assert_eq!(fma(Op::FrexpmF32, &log, &[0]).known(), Some(0));
    let lscale = fma(Op::FaddLscaleF32, &[], &[bits(-0.0), bits(-10.0)]);
    assert_eq!(lscale.known(), Some(bits(-1.25)));
    // G71 computes 1/x at both ends of the range.
    for x in [3.0f32, -0.1, 1e30, f32::INFINITY, -f32::INFINITY, 0.0, -0.0] {
        let word = |v: Value| match v {
            Value::Word(bits, _) => bits,
            Value::Halves(_) => panic!("the result must be a word"),
        };
        let x1 = word(add(Op::FrcpApproxF32, &[], &[bits(x)]));
        let m = word(add(Op::FrexpmF32, &[], &[bits(x)]));
        let e = word(add(Op::FrexpeF32, &[(Modifier::Neg0, M::Neg)], &[bits(x)]));
        let n = [(Modifier::Special, M::N), (Modifier::Neg1, M::Neg)];
        let t = word(fma(Op::FmaRscaleF32, &n, &[m, x1, bits(1.0), 0]));
        let r = word(fma(Op::FmaRscaleF32, &[(Modifier::Special, M::None)], &[t, x1, x1, e]));
        let (got, want) = (f32::from_bits(r), 1.0 / x);
        assert!(got == want || ((got - want) / want).abs() < 1e-6, "1/{x} = {got}");
    }
}

#[test]
fn branches_compare_the_selected_half() {
    let zero = operation(
        Unit::Add,
        Op::BranchzI16,
        &[(Modifier::Cmpf, M::Eq), (Modifier::Widen0, M::H0)],
    );
    assert_eq!(is_taken(&zero, &[0xffff_0000, 0]), Some(true));
    let less = operation(Unit::Add, Op::BranchS32, &[(Modifier::Cmpf, M::Gt)]);
    assert_eq!(is_taken(&less, &[0, u32::MAX, 0]), Some(true));
}
