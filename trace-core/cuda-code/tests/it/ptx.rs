//! Tests of the PTX parser and of changed launch bounds.
#![allow(clippy::unwrap_used)]

use crate::common;

use cuda_code::Error;
use cuda_code::ptx::{Change, LaunchBounds, Pointer, Ptx, Space, with_launch_bounds};

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// Returns a PTX module: the header and this text.
fn module(text: &str) -> Vec<u8> {
    format!("{HEAD}{text}").into_bytes()
}

#[test]
fn hand_written_ptx_module_is_parsed() {
    let bytes = common::bytes("required.ptx");
    let ptx = Ptx::parse(&bytes).unwrap();
    assert_eq!(
        (ptx.version, ptx.address_bits, &ptx.target[..]),
        ((7, 0), 64, &["sm_80"][..])
    );
    let names: Vec<_> = ptx.entries.iter().map(|e| e.name).collect();
    assert_eq!(
        names,
        ["required", "nothing"],
        "commented-out kernels and device functions are not entries"
    );
    let required = ptx.entry("required").unwrap();
    assert_eq!(required.required_threads, Some([32, 4, 2]));
    assert_eq!(required.max_registers, Some(64));
    assert_eq!((required.max_threads, required.min_blocks), (None, None));
    let parameters: Vec<_> = required
        .parameters
        .iter()
        .map(|p| (p.name, p.element.name, p.elements, p.alignment, p.offset, p.bytes))
        .collect();
    let expected = [
        ("out", "u64", None, 8, 0, 8),
        ("block", "b8", Some(24), 16, 16, 24),
        ("small", "u8", None, 1, 40, 1),
    ];
    assert_eq!(parameters, expected);
    assert_eq!(
        required.parameters[0].pointer,
        Some(Pointer {
            space: Some("global"),
            alignment: 16
        })
    );
    assert_eq!(required.parameter_bytes(), 41);
    let nothing = ptx.entry("nothing").unwrap();
    assert_eq!((nothing.max_threads, nothing.min_blocks), (Some([16, 16, 1]), Some(2)));
    let variables: Vec<_> = ptx
        .variables
        .iter()
        .map(|v| {
            (
                v.name,
                v.space == Space::Constant,
                v.alignment,
                v.elements,
                v.bytes,
                v.initialised,
            )
        })
        .collect();
    let expected = [
        ("lookup", true, 8, Some(64), Some(64), false),
        ("factors", true, 4, Some(3), Some(12), true),
        ("corner", false, 16, None, Some(16), true),
        ("shared_count", false, 8, None, Some(8), false),
        ("pair", false, 2, Some(6), Some(12), false),
        ("greeting", false, 1, Some(3), Some(3), true),
    ];
    assert_eq!(variables, expected);
}

#[test]
fn parameters_have_the_offsets_of_the_cubin() {
    for name in ["vecadd", "globals", "bounds", "templated"] {
        let (text, code) = (
            common::bytes(&format!("{name}.compute_80.ptx")),
            common::bytes(&format!("{name}.sm_90.cubin")),
        );
        let ptx = Ptx::parse(&text).unwrap();
        let kernels = cuda_code::cubin::Cubin::parse(&code).unwrap().kernels().unwrap();
        assert_eq!(ptx.entries.len(), kernels.len());
        for kernel in kernels {
            let entry = ptx.entry(kernel.name).unwrap();
            assert_eq!(entry.max_threads, kernel.max_threads);
            assert_eq!(entry.parameter_bytes(), u64::from(kernel.parameter_bytes));
            let parsed: Vec<_> = entry.parameters.iter().map(|p| (p.offset, p.bytes)).collect();
            let expected: Vec<_> = kernel
                .parameters
                .iter()
                .map(|p| (p.offset.into(), p.bytes.into()))
                .collect();
            assert_eq!(parsed, expected, "{}", kernel.name);
        }
    }
}

#[test]
fn compiler_generated_ptx_is_parsed() {
    let text = module(
        ".file 1 \"a { b.cu\"\n.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
         .extern .global .align 4 .u32 elsewhere;\n.extern .const .align 8 .b8 table[];\n\
         .global .texref tex;\n.global .u64 link[2] = {generic(a), mask(0xff, b)}, last = 7;\n\
         .global .b8 rows[][2] = {{1, 2}, {3, 4}, {5, 6},};\n.const .f16x2 h;\n\
         .weak .entry k$1(.param.u64 p_0,.param .align 4 .v2 .f32 p_1,.param .b128 p_2, .param .samplerref s)\n\
         .pragma \"nounroll\";.reqnctapercluster 2, 1 .maxclusterrank 0x8 // {\n{ .pragma \"}\"; { } ret; }\n\
         .visible .entry later(.param .u32 a);\n.section .debug_str { info: .b8 1,2,3 }\n\
         .visible .entry later(.param .u32 a) { ret; }\n",
    );
    let ptx = Ptx::parse(&text).unwrap();
    let variables: Vec<_> = ptx.variables.iter().map(|v| (v.name, v.bytes, v.external)).collect();
    let expected = [
        ("elsewhere", Some(4), true),
        ("table", None, true),
        ("tex", None, false),
        ("link", Some(16), false),
        ("last", Some(8), false),
        ("rows", Some(6), false),
        ("h", Some(4), false),
    ];
    assert_eq!(variables, expected);
    let names: Vec<_> = ptx.entries.iter().map(|e| e.name).collect();
    assert_eq!(names, ["k$1", "later"]);
    let offsets: Vec<_> = ptx.entries[0].parameters.iter().map(|p| (p.offset, p.bytes)).collect();
    assert_eq!(offsets, [(0, 8), (8, 8), (16, 16), (32, 8)]);
    assert_eq!(
        (ptx.entries[0].cluster, ptx.entries[0].max_cluster),
        (Some([2, 1, 1]), Some(8))
    );
}

#[test]
fn ptx_errors_give_position_and_cause() {
    let error = |text: &str| Ptx::parse(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error("hello"), "byte 0x0: expected \".version\", found \"hello\"");
    assert_eq!(error(".version 8"), "byte 0x9: expected a version, found \"8\"");
    assert_eq!(
        error(".version 8.0\n"),
        "byte 0xd: expected \".target\", found \"the end\""
    );
    let parse_error = |text: &str| Ptx::parse(&module(text)).unwrap_err();
    let base = HEAD.len() as u64;
    for (text, offset) in [
        (".entry k(.param .pred p) {}", 16),
        (".entry k(.param .u32 p", 22),
        (".entry k(.param .u32 p[]) {}", 23),
        (".entry k(.param .align 3 .u32 p) {}", 23),
        (".entry k() { ret;", 11),
        (".entry k()", 10),
        (".global .u32 a", 14),
        (".global a;", 8),
        (".entry k() .maxntid x {}", 20),
        (".global .attribute(.managed .u32 a;", 35),
    ] {
        let error = parse_error(text);
        assert!(
            matches!(error, Error::Text { at, .. } if at == base + offset),
            "{text}: {error}"
        );
    }
    for huge in [
        ".global .u64 a[0x2000000000000000];",
        ".entry k(.param .b8 p[0xffffffffffffffff], .param .u64 q) {}",
        ".entry k(.param .u64 p[0xffffffffffffffff]) {}",
    ] {
        assert!(matches!(parse_error(huge), Error::Field { .. }), "{huge}");
    }
}

#[test]
fn launch_bounds_are_replaced_and_the_rest_stays() {
    let text = common::text("bounds.compute_80.ptx");
    let change = LaunchBounds {
        max_threads: Change::Set([64, 2, 1]),
        min_blocks: Change::Remove,
        max_registers: Change::Set(24),
    };
    let out = with_launch_bounds(text.as_bytes(), "bounded", &change).unwrap();
    let expected = text.replace(
        ".maxntid 128, 1, 1\n.minnctapersm 4\n{",
        ".maxntid 64, 2, 1\n\n.maxnreg 24\n{",
    );
    assert_ne!(expected, text);
    assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
    let ptx = Ptx::parse(&out).unwrap();
    let entry = ptx.entry("bounded").unwrap();
    assert_eq!(
        (entry.max_threads, entry.min_blocks, entry.max_registers),
        (Some([64, 2, 1]), None, Some(24))
    );
    // The default changes nothing.
    assert_eq!(
        with_launch_bounds(text.as_bytes(), "bounded", &LaunchBounds::default()).unwrap(),
        text.as_bytes()
    );
}

#[test]
fn launch_bounds_are_added_if_missing() {
    let text = module(".entry a(.param .u32 x) // {\n{ ret; }\n.entry b .maxntid 8 .maxntid 9 { ret; }\n\0left");
    let change = LaunchBounds {
        max_threads: Change::Set([32, 1, 1]),
        min_blocks: Change::Set(3),
        ..Default::default()
    };
    let out = String::from_utf8(with_launch_bounds(&text, "a", &change).unwrap()).unwrap();
    let tail = ".entry a(.param .u32 x)\n.maxntid 32, 1, 1\n.minnctapersm 3 // {\n{ ret; }\n\
                .entry b .maxntid 8 .maxntid 9 { ret; }\n";
    assert_eq!(out, format!("{HEAD}{tail}"));
    let out = String::from_utf8(with_launch_bounds(&text, "b", &change).unwrap()).unwrap();
    assert!(
        out.ends_with("\n.entry b .maxntid 32, 1, 1 \n.minnctapersm 3 { ret; }\n"),
        "{out}"
    );
}

#[test]
fn impossible_launch_bounds_are_errors() {
    let text = common::bytes("required.ptx");
    let fails = |name: &str, change: LaunchBounds| {
        let error = with_launch_bounds(&text, name, &change).unwrap_err();
        assert!(matches!(error, Error::Bounds(_)), "{error}");
    };
    let threads = |t| LaunchBounds {
        max_threads: Change::Set(t),
        ..Default::default()
    };
    fails("absent", LaunchBounds::default());
    fails("required", threads([32, 1, 1]));
    fails("nothing", threads([0, 1, 1]));
    fails("nothing", threads([1025, 1, 1]));
    fails("nothing", threads([u32::MAX, u32::MAX, u32::MAX]));
    fails(
        "nothing",
        LaunchBounds {
            max_registers: Change::Set(256),
            ..Default::default()
        },
    );
    fails(
        "nothing",
        LaunchBounds {
            min_blocks: Change::Set(0),
            ..Default::default()
        },
    );
    let blocks_only = LaunchBounds {
        max_threads: Change::Remove,
        min_blocks: Change::Set(1),
        ..Default::default()
    };
    fails("nothing", blocks_only);
    let blocks = LaunchBounds {
        min_blocks: Change::Set(2),
        ..Default::default()
    };
    assert!(with_launch_bounds(&text, "required", &blocks).is_ok());
}
