//! Tests of the oracle against itself and against the host's arithmetic.

use super::generate::{self, Choice, Rng};
use super::number::{F16, F32, Number};
use super::{result, run};
use bifrost::{Source, Unit, Value as M};

#[test]
fn generated_clauses_are_valid_and_run() {
    let choice = Choice::new(|_| true);
    let mut rng = Rng::new(3);
    for _ in 0..200 {
        let clause = choice.clause(&mut rng);
        assert!(clause.is_sound());
        let lanes = generate::lanes(&mut rng, 8);
        let push: Vec<u64> = (0..16).map(|_| rng.next() << 32 | rng.next()).collect();
        assert_eq!(run(&clause, &lanes, &push).unwrap().len(), 8);
    }
}

#[test]
fn single_tuple_clause_writes_its_operation_result() {
    let mut rng = Rng::new(5);
    for encoding in generate::encodings(Unit::Fma) {
        let ports = |_: &bifrost::Instruction, s| matches!(s, Source::Port(_) | Source::Stage | Source::Uniform { .. });
        let Some(i) = generate::instruction(&mut rng, Unit::Fma, encoding, ports) else {
            continue;
        };
        let constant = rng.next();
        let clause = generate::alone(i.bits(), generate::nop(Unit::Add), false, constant);
        let lanes = generate::lanes(&mut rng, 1);
        let r = &lanes[0];
        let s: Vec<u32> = (0..i.source_count())
            .map(|n| match i.source(n) {
                Some(Source::Port(p)) => r[1 + usize::from(p)],
                Some(Source::Uniform { high: false }) => constant as u32,
                Some(Source::Uniform { high: true }) => (constant >> 32) as u32,
                _ => 0,
            })
            .collect();
        let after = run(&clause, &lanes, &[]).unwrap();
        assert_eq!(Some(after[0][5]), result(&i, &s), "{}", i.op().name());
        assert_eq!(after[0][6].known(), Some(r[6]));
    }
}

#[test]
fn every_operation_that_recorded_compute_shaders_use_is_known() {
    // These are the arithmetic operations of both units in 75 shaders of 45 programs. Memory, branches and textures are
    // left out.
    const USED: &str = "+IADD.s32 +MUX.i32 *FMA.f32 *LSHIFT_OR.i32 +ICMP.s32 +ICMP.u32 *IMUL.i32 +MOV.i32 *CSEL.i32 \
        +U16_TO_U32 *U16_TO_U32 *FADD.f32 *FMA_RSCALE.f32 +FADD.f32 *MOV.i32 *LSHIFT_AND.i32 +ISUB.s32 *LSHIFT_XOR.i32 \
        *MKVEC.v2i16 *RSHIFT_OR.i32 *CSEL.s32 +FREXPE.f32 +FROUND.f32 +FRCP_APPROX.f32 +FMAX.f32 +F32_TO_U32 \
        +U32_TO_F32 +F32_TO_S32 *FCMP.f32 +FCMP.f32 +S32_TO_F32 +FREXPM.f32 *FREXPM.f32 +IABS.s32 +ICMP.i32 +FRCP.f32 \
        +V2F32_TO_V2F16 *F16_TO_F32 *ARSHIFT.i32 +FRSQ_APPROX.f32 +FRSQ.f32 +FEXP_TABLE.u4 +FEXP.f32 *FMA.v2f16 \
        +MKVEC.v2i16 *FROUND.f32 +F16_TO_F32 +S8_TO_F32 +U8_TO_F32 *CLZ.u32 +FMIN.f32 +FLOG_TABLE.f32 +FSIN_TABLE.u6 \
        +FCOS_TABLE.u6 +S8_TO_S32 *FREXPE.f32 +U8_TO_U32 *S8_TO_S32 *POPCOUNT.i32 *FADD_LSCALE.f32 +FLOGD.f32 *CSEL.u32 \
        +LDEXP.f32 *BITREV.i32 +IADD.u32 *V2F32_TO_V2F16 +FMAX.v2f16";
    let known = |unit: Unit| {
        generate::encodings(unit)
            .into_iter()
            .map(move |e| format!("{}{}", unit.sign(), e.0.name()))
    };
    let all: Vec<String> = known(Unit::Fma).chain(known(Unit::Add)).collect();
    for name in USED.split_whitespace() {
        assert!(all.iter().any(|n| n == name), "{name}");
    }
}

#[test]
fn nearest_rounding_matches_the_host() {
    let mut rng = Rng::new(11);
    for _ in 0..200_000 {
        let [a, b, c] = [0; 3].map(|_| generate::word(&mut rng));
        let [x, y, z] = [a, b, c].map(f32::from_bits);
        let n = |w: u32| Number::of(F32, w);
        let same = |number: Number, host: f32| {
            let got = number.rounded(F32, M::None);
            assert!(
                got == host.to_bits() || host.is_nan() && F32.is_nan(got),
                "{a:#x} {b:#x} {c:#x}: {got:#x} {host}"
            );
        };
        same(n(a).plus(&n(b), false), x + y);
        same(n(a).times(&n(b)), x * y);
        same(n(a).times(&n(b)).plus(&n(c), false), x.mul_add(y, z));
        assert_eq!(n(a).compare(&n(b)), x.partial_cmp(&y));
        if !x.is_nan() {
            assert_eq!(
                n(a).to_integer(M::Rtz, i64::from(i32::MIN), i64::from(i32::MAX)),
                i64::from(x as i32)
            );
            assert_eq!(
                n(a).to_integer(M::None, 0, i64::from(u32::MAX)),
                i64::from(x.round_ties_even() as u32)
            );
            for (mode, whole) in [
                (M::Rtn, x.floor()),
                (M::Rtp, x.ceil()),
                (M::Rtz, x.trunc()),
                (M::Rtna, x.round()),
            ] {
                same(n(a).integral(mode), whole);
            }
        }
        same(Number::integer(i64::from(a as i32)), a as i32 as f32);
    }
}

#[test]
fn rounding_modes_bracket_the_exact_value() {
    use std::cmp::Ordering::{Greater, Less};
    let mut rng = Rng::new(13);
    for _ in 0..50_000 {
        let [a, b, c] = [0; 3].map(|_| Number::of(F32, generate::word(&mut rng)));
        let exact = a.times(&b).plus(&c, false);
        if exact.is_nan() || exact.is_zero() {
            continue;
        }
        for format in [F32, F16] {
            let back = |mode| Number::of(format, exact.rounded(format, mode));
            assert_ne!(back(M::Rtn).compare(&exact), Some(Greater));
            assert_ne!(back(M::Rtp).compare(&exact), Some(Less));
            let toward = if exact.is_negative() { M::Rtp } else { M::Rtn };
            assert_eq!(back(M::Rtz), back(toward));
            let both = [back(M::Rtn), back(M::Rtp)];
            assert!(both.contains(&back(M::None)) && both.contains(&back(M::Rtna)));
            let whole = both[0] == both[1];
            assert_eq!(whole, back(M::Rtn).compare(&exact) == Some(std::cmp::Ordering::Equal));
            // Rounding to odd sets the last bit of an inexact result.
            let odd = exact.rounded(format, M::Rto);
            let infinite = matches!(exact, Number::Infinite { .. });
            assert!(infinite || whole && odd == exact.rounded(format, M::Rtz) || odd & 1 == 1);
            // Opposite numbers round to opposite numbers.
            let mirrored = exact.clone().negated();
            assert_eq!(
                mirrored.rounded(format, M::Rtp),
                exact.rounded(format, M::Rtn) ^ format.sign()
            );
        }
    }
}
