//! Texts that are refused, with place and reason.

use super::{module, parse_error};
use crate::{ParseErrorKind, Program};

#[test]
fn errors_have_a_place() {
    let error = Program::parse(".version 7.8\n.target sm_80\n  .entry k() { ret; wait; }").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3, column 21: instruction wait is outside the subset"
    );
    let error = Program::parse(".version 7.8\n/* a\n b */ .alias f;").unwrap_err();
    assert_eq!((error.line, error.column), (3, 7));
}

#[test]
fn types_of_operands_are_checked() {
    for body in [
        "add.s32 %r0, %r1, %d0;",
        "add.rn.f32 %f0, %f1, %g0;",
        "add.s32 %r0, %f0, 1;",
        "mov.b64 %d0, %r0;",
        "selp.b32 %r0, 1, 2, %r1;",
        "setp.eq.s32 %r0, %r1, 2;",
        "ld.global.b64 %r0, [%out];",
        "ld.global.b32 %r0, [%r1];",
        "@%r0 bra L; L:",
        "cvt.u32.u64 %r0, %r1;",
        "and.pred %p0, %p1, %r0;",
    ] {
        assert!(
            matches!(parse_error("", body), ParseErrorKind::TypeMismatch { .. }),
            "{body}"
        );
    }
}

#[test]
fn instructions_outside_the_subset_are_refused() {
    for body in [
        "add.f32 %f0, %f1, %f2;",
        "fma.rn.f32 %f0, %f1, %f2, %f0;",
        "min.NaN.f64 %g0, %g1, %g2;",
        "ld.global %r0, [%out];",
        "ld.shared.b32 %r0, [%out];",
        "trap;",
        "shl.s32 %r0, %r1, 1;",
        "setp.lt.b32 %p0, %r1, %r2;",
        "cvt.f32.s32 %f0, %r0;",
        "mul.s32 %r0, %r1, %r2;",
        "st.const.b32 [%out], 1;",
        "bra.a.b.c.d.e.f.g.h L;",
    ] {
        assert!(
            matches!(parse_error("", body), ParseErrorKind::UnknownInstruction(_)),
            "{body}"
        );
    }
}

#[test]
fn names_and_numbers_are_checked() {
    assert_eq!(parse_error("", "bra L;"), ParseErrorKind::UnknownName("L".to_owned()));
    assert_eq!(
        parse_error("", "L: L: ret;"),
        ParseErrorKind::DuplicateName("L".to_owned())
    );
    assert_eq!(
        parse_error("", "mov.b32 %r32, 1;"),
        ParseErrorKind::UnknownName("%r32".to_owned())
    );
    assert_eq!(
        parse_error("", ".reg .b32 %out;"),
        ParseErrorKind::DuplicateName("%out".to_owned())
    );
    assert!(matches!(
        parse_error("", "mov.b32 %r0, 0x100000000;"),
        ParseErrorKind::NumberOutOfRange(_)
    ));
    assert!(matches!(
        parse_error("", "mov.b32 %r0, -2147483649;"),
        ParseErrorKind::NumberOutOfRange(_)
    ));
    assert!(matches!(
        parse_error("", "mov.f32 %f0, 1;"),
        ParseErrorKind::NumberOutOfRange(_)
    ));
    assert!(matches!(
        parse_error("", "mov.f32 %f0, 0f12;"),
        ParseErrorKind::NumberOutOfRange(_)
    ));
    assert!(matches!(
        parse_error("", ".reg .b32 %x<4294967295>;"),
        ParseErrorKind::Limit(_)
    ));
    assert!(matches!(
        parse_error(".global .b8 x[4294967295];", ""),
        ParseErrorKind::Limit(_)
    ));
    assert!(matches!(
        parse_error(".global .b8 x[1] = {1, 2};", ""),
        ParseErrorKind::Limit(_)
    ));
}

#[test]
fn every_prefix_of_a_text_is_refused_or_accepted() {
    let before = ".func (.param .align 8 .b8 r[16]) f(.param .b64 a, .reg .pred %q) { st.param.b32 [r], 1; ret; }";
    let text = module(
        before,
        "@!%p0 setp.lt.and.s32 %p0|%p1, %r0, -5, %p2;\nL: .branchtargets A, A;\nA: brx.idx %r0, L;",
    );
    assert!(Program::parse(&text).is_ok());
    for end in 0..text.len() {
        let _ = Program::parse(&text[..end]);
        let mut changed = text.clone().into_bytes();
        changed[end] = b'(';
        let _ = Program::parse(&String::from_utf8(changed).unwrap());
    }
}
