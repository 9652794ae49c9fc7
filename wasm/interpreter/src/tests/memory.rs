//! Accesses of all state spaces.

use super::{BASE, ONE, fault, module, parse_error, regions, run_text, word, word64};
use crate::{FaultKind, GlobalAddress, LaunchShape, Limits, ParseErrorKind, Region, Regions};

#[test]
fn accesses_extend_and_need_alignment() {
    assert_eq!(
        word64("st.global.b32 [%out+8], 0x8081; ld.global.s8 %d0, [%out+8];", &[]),
        0xffff_ffff_ffff_ff81
    );
    assert_eq!(
        word64("st.global.b32 [%out+8], 0x8081; ld.global.u16 %d0, [%out+8];", &[]),
        0x8081
    );
    let at = GlobalAddress(BASE + 2);
    let misaligned = fault("ld.global.b32 %r0, [%out+2];");
    assert_eq!(
        (misaligned.kind, misaligned.address),
        (FaultKind::MisalignedAddress(at), Some(at))
    );
    assert_eq!(
        fault("ld.global.b32 %r0, [%out+4096];").kind,
        FaultKind::IllegalAddress(GlobalAddress(BASE + 4096))
    );
    assert!(matches!(
        fault("ld.global.b64 %d0, [%out+-8];").kind,
        FaultKind::IllegalAddress(_)
    ));
}

#[test]
fn vectors_load_before_they_change_their_base() {
    let body = "st.global.v4.b32 [%out+16], {1, 2, 3, 4}; add.s64 %d0, %out, 16;\n\
                ld.global.v2.b64 {%d0, %d1}, [%d0]; add.s64 %d0, %d0, %d1; st.global.b64 [%out], %d0;";
    assert_eq!(word(body), 0x6_0000_0004);
    assert!(matches!(
        fault("ld.global.v4.b32 {%r0,%r1,%r2,%r3}, [%out+8];").kind,
        FaultKind::MisalignedAddress(_)
    ));
}

#[test]
fn local_and_constant_arrays() {
    let before = ".const .align 4 .b8 digits[6] = {1, 2, 3, 4};\n.global .f32 half = 0f3F000000;";
    let body = ".local .align 8 .b8 array[32]; mov.u64 %d1, array; add.s64 %d1, %d1, 8;\n\
                ld.const.u32 %r0, [digits]; st.local.b32 [%d1+4], %r0; ld.local.u8 %r1, [array+13];\n\
                ld.global.f32 %f0, [half]; add.rn.f32 %f0, %f0, %f0; cvt.rzi.u32.f32 %r2, %f0; add.s32 %r1, %r1, %r2;\n\
                st.global.b32 [%out], %r1;";
    let mut memory = regions();
    run_text(&module(before, body), &mut memory, ONE, Limits::default()).unwrap();
    assert_eq!(memory.bytes(GlobalAddress(BASE)).unwrap()[0], 3);
    let outside = ".local .b8 array[16]; ld.local.b64 %d0, [array+16];";
    assert!(matches!(fault(outside).kind, FaultKind::IllegalAddress(_)));
    let read_only = run_text(
        &module(before, "st.global.b32 [half], 1;"),
        &mut memory,
        ONE,
        Limits::default(),
    );
    assert!(matches!(read_only.unwrap_err().kind, FaultKind::IllegalAddress(_)));
}

#[test]
fn parameters_have_bounds() {
    assert!(matches!(
        parse_error("", "ld.param.b64 %d0, [out+8];"),
        ParseErrorKind::ParameterAccess(_)
    ));
    assert!(matches!(
        parse_error("", "ld.param.b32 %r0, [out+2];"),
        ParseErrorKind::ParameterAccess(_)
    ));
    assert!(matches!(
        parse_error("", "ld.param.b32 %r0, [in];"),
        ParseErrorKind::UnknownName(_)
    ));
    let body = "{ .param .align 8 .b8 a[16]; st.param.b32 [a+4], 0x80000000; st.param.b8 [a+3], 7; st.param.b16 [a], 1;\n\
                st.param.b8 [a+2], 0; ld.param.b64 %d0, [a]; ld.param.s8 %d1, [a+7]; }\nadd.s64 %d0, %d0, %d1;\n\
                st.global.b64 [%out], %d0;";
    assert_eq!(word(body), 0x8000_0000_0700_0001_u64.wrapping_sub(128));
}

#[test]
fn threads_know_their_place_and_add_atomically() {
    let body = "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r0, %r1, %r2;\n\
                mad.wide.u32 %d0, %r3, 4, %out; mov.u32 %r4, %laneid; activemask.b32 %r5; shl.b32 %r4, 1, %r4;\n\
                setp.eq.b32 %p0, %r4, %r5; @%p0 st.global.b32 [%d0+8], %r3; bar.warp.sync -1;\n\
                red.global.add.u64 [%out], 1;";
    let mut memory = regions();
    let shape = LaunchShape { blocks: 3, threads: 40 };
    run_text(&module("", body), &mut memory, shape, Limits::default()).unwrap();
    let words: Vec<u32> = memory
        .bytes(GlobalAddress(BASE))
        .unwrap()
        .chunks(4)
        .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(words[0], 120);
    assert!((0..120).all(|n| words[n as usize + 2] == n));
}

#[test]
fn registers_hold_no_zeros_at_entry() {
    assert_ne!(word("st.global.b64 [%out], %d9;"), 0);
}

#[test]
fn regions_do_not_overlap_and_may_be_read_only() {
    let mut memory = regions();
    let region = |base, writable| Region {
        base: GlobalAddress(base),
        bytes: vec![1; 16],
        writable,
    };
    assert!(!memory.add_region(region(BASE + 4095, true)));
    assert!(!memory.add_region(region(u64::MAX - 3, true)));
    assert!(memory.add_region(region(BASE + 4096, false)));
    let store = run_text(
        &module("", "st.global.b32 [%out+4096], 1;"),
        &mut memory,
        ONE,
        Limits::default(),
    );
    assert!(matches!(store.unwrap_err().kind, FaultKind::IllegalAddress(_)));
    let _: Regions = Regions::default();
}
