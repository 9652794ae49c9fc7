//! Results of instructions that compute, at the edges where PTX differs from other machines.

use super::{fault, word, word32, word64};
use crate::FaultKind;

#[test]
fn integer_results_wrap_and_shifts_clamp() {
    assert_eq!(word32("add.u32 %r0, %r1, %r2;", &[u32::MAX, 2]), 1);
    assert_eq!(word32("sub.s32 %r0, %r1, 5;", &[3]), (-2i32) as u32);
    assert_eq!(word32("mul.lo.s32 %r0, %r1, %r2;", &[0x1_0001, 0x1_0001]), 0x2_0001);
    assert_eq!(word32("mul.hi.u32 %r0, %r1, %r2;", &[u32::MAX, u32::MAX]), u32::MAX - 1);
    assert_eq!(word32("mul.hi.s32 %r0, %r1, %r2;", &[u32::MAX, u32::MAX]), 0);
    assert_eq!(word64("mul.hi.u64 %d0, %d1, %d2;", &[u64::MAX, u64::MAX]), u64::MAX - 1);
    assert_eq!(word32("shl.b32 %r0, %r1, 32;", &[1]), 0);
    assert_eq!(word32("shr.u32 %r0, %r1, %r2;", &[u32::MAX, 33]), 0);
    assert_eq!(word32("shr.s32 %r0, %r1, %r2;", &[0x8000_0000, 99]), u32::MAX);
    assert_eq!(word64("mov.b32 %r1, 64;\nshr.s64 %d0, %d1, %r1;", &[1 << 63]), u64::MAX);
    assert_eq!(word64("shl.b64 %d0, %d1, 63;", &[3]), 1 << 63);
    assert_eq!(word32("shf.l.wrap.b32 %r0, %r1, %r1, %r2;", &[0x8000_0001, 36]), 0x18);
    assert_eq!(word32("shf.r.wrap.b32 %r0, %r1, %r2, 4;", &[0x10, 0xf]), 0xf000_0001);
    assert_eq!(word32("clz.b32 %r0, %r1;", &[0]), 32);
    assert_eq!(word64("clz.b64 %r0, %d1;\ncvt.u64.u32 %d0, %r0;", &[1]), 63);
    assert_eq!(word32("brev.b32 %r0, %r1;", &[1]), 1 << 31);
    assert_eq!(word64("popc.b64 %r0, %d1;\ncvt.u64.u32 %d0, %r0;", &[u64::MAX]), 64);
    assert_eq!(word32("abs.s32 %r0, %r1;", &[0x8000_0000]), 0x8000_0000);
    assert_eq!(word32("min.s32 %r0, %r1, %r2;", &[u32::MAX, 1]), u32::MAX);
    assert_eq!(word32("max.u32 %r0, %r1, %r2;", &[u32::MAX, 1]), u32::MAX);
    assert_eq!(
        word64("mov.b32 %r1, -2; mad.wide.s32 %d0, %r1, 16, %d1;", &[5]),
        (-27i64) as u64
    );
    assert_eq!(
        word64("mov.b32 %r1, -2; mad.wide.u32 %d0, %r1, 16, %d1;", &[5]),
        0xf_ffff_ffe5
    );
}

#[test]
fn fields_bytes_and_tables() {
    assert_eq!(word32("bfe.u32 %r0, %r1, 4, 8;", &[0xabcd_1234]), 0x23);
    assert_eq!(word32("bfe.s32 %r0, %r1, 24, 16;", &[0xab00_0000]), 0xffff_ffab);
    assert_eq!(word32("bfe.u32 %r0, %r1, 40, 8;", &[u32::MAX]), 0);
    assert_eq!(word64("bfe.s64 %d0, %d1, 60, 4;", &[0x8 << 60]), (-8i64) as u64);
    assert_eq!(word32("bfi.b32 %r0, %r1, %r2, 8, 4;", &[0xf, 0]), 0xf00);
    assert_eq!(word64("bfi.b64 %d0, %d1, %d2, 60, 8;", &[0xff, 1]), 0xf << 60 | 1);
    assert_eq!(
        word32("prmt.b32 %r0, %r1, %r2, 0x7a50;", &[0x8382_8180, 0x8786_8584]),
        0x87ff_8580
    );
    // a & b | !c
    assert_eq!(
        word32("lop3.b32 %r0, %r1, %r2, %r3, 0xd5;", &[0b1100, 0b1010, !0b0001]),
        0b1001
    );
}

#[test]
fn division_by_zero_is_a_fault_and_overflow_wraps() {
    assert_eq!(word32("div.s32 %r0, %r1, %r2;", &[(-7i32) as u32, 2]), (-3i32) as u32);
    assert_eq!(word32("rem.s32 %r0, %r1, %r2;", &[0x8000_0000, u32::MAX]), 0);
    assert_eq!(word64("rem.u64 %d0, %d1, 7;", &[u64::MAX]), u64::MAX % 7);
    for text in ["div.u32 %r0, 1, 0;", "rem.s32 %r0, 1, 0;"] {
        assert_eq!(fault(text).kind, FaultKind::DivisionByZero);
    }
    assert_eq!(
        fault("mov.b64 %d1, 0; div.s64 %d0, %d1, %d1;").kind,
        FaultKind::DivisionByZero
    );
}

#[test]
fn float_results_have_the_nans_of_the_hardware() {
    let zero_by_zero = "mov.f32 %f1, 0f00000000; div.rn.f32 %f0, %f1, %f1; st.global.f32 [%out], %f0;";
    assert_eq!(word(zero_by_zero), 0x7fff_ffff);
    assert_eq!(word64("div.rn.f64 %d0, %d1, %d1;", &[0]), 0xfff8_0000_0000_0000);
    assert_eq!(
        word64("add.rn.f64 %d0, %d1, 0d3FF0000000000000;", &[0x7ff0_0000_0000_1234]),
        0x7ff8_0000_0000_1234
    );
    assert_eq!(word32("sqrt.rn.f32 %r0, %r1;", &[(-1f32).to_bits()]), 0x7fff_ffff);
    // Not flushed to zero.
    assert_eq!(word32("mul.rn.f32 %r0, %r1, %r2;", &[1, 0.5f32.to_bits()]), 0);
    assert_eq!(word32("add.rn.f32 %r0, %r1, %r1;", &[1]), 2);
    let zeros = [0x8000_0000, 0];
    assert_eq!(word32("min.NaN.f32 %r0, %r2, %r1;", &zeros), 0x8000_0000);
    assert_eq!(word32("max.NaN.f32 %r0, %r1, %r2;", &zeros), 0);
    assert_eq!(word32("max.NaN.f32 %r0, %r1, %r2;", &[0x7fc0_0000, 0]), 0x7fff_ffff);
    assert_eq!(
        word64("min.f64 %d0, %d1, %d2;", &[0x7ff8_0000_0000_0000, 1f64.to_bits()]),
        1f64.to_bits()
    );
    assert_eq!(word64("min.f64 %d0, %d1, %d2;", &[0, 1 << 63]), 1 << 63);
}

#[test]
fn conversions_saturate_round_and_extend() {
    let bits = f32::to_bits;
    assert_eq!(word32("cvt.rzi.s32.f32 %r0, %r1;", &[bits(3e9)]), i32::MAX as u32);
    assert_eq!(word32("cvt.rzi.u32.f32 %r0, %r1;", &[bits(-5.0)]), 0);
    assert_eq!(word32("cvt.rzi.s32.f32 %r0, %r1;", &[0x7fc0_0000]), 0);
    assert_eq!(word64("cvt.rzi.s64.f64 %d0, %d1;", &[f64::NAN.to_bits()]), 1 << 63);
    assert_eq!(
        word64("cvt.rzi.u32.f64 %r0, %d1; cvt.u64.u32 %d0, %r0;", &[f64::NAN.to_bits()]),
        1 << 31
    );
    assert_eq!(word32("cvt.rni.f32.f32 %r0, %r1;", &[bits(2.5)]), bits(2.0));
    assert_eq!(word32("cvt.rpi.f32.f32 %r0, %r1;", &[bits(-0.5)]), bits(-0.0));
    assert_eq!(word32("cvt.rmi.f32.f32 %r0, %r1;", &[bits(-0.5)]), bits(-1.0));
    assert_eq!(
        word64("cvt.rn.f64.u64 %d0, %d1;", &[u64::MAX]),
        (u64::MAX as f64).to_bits()
    );
    assert_eq!(word32("cvt.rn.f32.s32 %r0, %r1;", &[16_777_217]), bits(16_777_216.0));
    assert_eq!(
        word64("cvt.rn.f32.f64 %r0, %d1; cvt.u64.u32 %d0, %r0;", &[f64::NAN.to_bits()]),
        0x7fff_ffff
    );
    assert_eq!(
        word64("mov.b32 %r1, 0x7f801234; cvt.f64.f32 %d0, %r1;", &[]),
        0x7ff8_0246_8000_0000
    );
    assert_eq!(word32("cvt.s32.s8 %r0, %r1;", &[0x1ff]), u32::MAX);
    assert_eq!(word32("cvt.u32.u16 %r0, %r1;", &[0x1_2345]), 0x2345);
    assert_eq!(
        word64("cvt.u32.u64 %r0, %d1; cvt.s64.s32 %d0, %r0;", &[0xf_8000_0000]),
        0xffff_ffff_8000_0000
    );
    assert_eq!(word32("cvt.u8.u32 %r0, %r1;", &[0x1ff]), 0xff);
}

#[test]
fn comparisons_order_nans_and_combine() {
    let compare = |text: &str, operands: &[u32]| word32(&format!("{text}\nselp.b32 %r0, 1, 0, %p0;"), operands);
    let nan = f32::NAN.to_bits();
    assert_eq!(compare("setp.lt.s32 %p0, %r1, %r2;", &[u32::MAX, 0]), 1);
    assert_eq!(compare("setp.lo.u32 %p0, %r1, %r2;", &[u32::MAX, 0]), 0);
    assert_eq!(compare("setp.eq.f32 %p0, %r1, %r1;", &[nan]), 0);
    assert_eq!(compare("setp.neu.f32 %p0, %r1, %r1;", &[nan]), 1);
    assert_eq!(compare("setp.ne.f32 %p0, %r1, %r1;", &[nan]), 0);
    assert_eq!(compare("setp.geu.f32 %p0, %r1, %r2;", &[nan, 0]), 1);
    assert_eq!(compare("setp.num.f32 %p0, %r1, %r2;", &[nan, 0]), 0);
    assert_eq!(compare("setp.nan.f32 %p0, %r1, %r2;", &[0, nan]), 1);
    assert_eq!(
        compare("setp.eq.b32 %p1, 1, 1; setp.lt.and.s32 %p0, %r1, 5, !%p1;", &[3]),
        0
    );
    assert_eq!(
        compare("setp.eq.b32 %p1, 1, 1; setp.lt.or.s32 %p2|%p0, %r1, 5, %p1;", &[3]),
        1
    );
    assert_eq!(compare("setp.gt.s32 %p1|%p0, %r1, 5;", &[3]), 1);
    assert_eq!(
        compare("mov.pred %p1, 1; not.pred %p2, %p1; xor.pred %p0, %p1, %p2;", &[]),
        1
    );
}

#[test]
fn values_move_between_halves() {
    let swap = "mov.b64 %d1, 0x1122334455667788; mov.b64 {%r1, %r2}, %d1; mov.b64 %d0, {%r2, %r1};";
    assert_eq!(word64(swap, &[]), 0x5566_7788_1122_3344);
    assert_eq!(
        word64("mov.b64 %d2, 0x100000002; mov.b64 %d0, {1, 2};", &[]),
        0x2_0000_0001
    );
    assert_eq!(
        word32("mov.b32 %r2, -1; selp.b32 %r0, %r1, -5, %p0;\n mov.b32 %r0, %r2;", &[1]),
        u32::MAX
    );
}
