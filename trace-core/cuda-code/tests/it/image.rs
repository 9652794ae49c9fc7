//! Tests of container detection, and of the search for the code of a kernel in each container.
#![allow(clippy::unwrap_used)]

use crate::common;

use cuda_code::cubin::Cubin;
use cuda_code::ptx::Ptx;
use cuda_code::{Arch, Capability, Error, Form, Image, ImageKind};

const H200: Capability = Capability::new(9, 0);

#[test]
fn image_kinds_are_detected_from_bytes() {
    let kind = |bytes: &[u8]| Image::detect(bytes).kind;
    for (tail, expected) in [
        (".fatbin", ImageKind::Fatbin),
        (".cubin", ImageKind::Cubin),
        (".ptx", ImageKind::Ptx),
    ] {
        for file in common::all(tail) {
            assert_eq!(kind(&common::bytes(&file)), expected, "{file}");
        }
    }
    assert_eq!(
        kind(b"\n/* a */ // b\n\t.version 8.0\n.target sm_90\0\0\0"),
        ImageKind::Ptx
    );
    assert_eq!(kind(b""), ImageKind::Unknown);
    assert_eq!(kind(b"\0.version 8.0"), ImageKind::Unknown);
    assert_eq!(kind(b".versions 8.0"), ImageKind::Unknown);
    assert_eq!(kind(&std::fs::read("/proc/self/exe").unwrap()), ImageKind::Unknown);
}

#[test]
fn a_kernel_is_found_in_every_container() {
    let long = "_ZN6layers6detail10scale_tileIdLi8ELi16ELb1EEEvPNS0_4TileIT_XT0_EXT1_EEEcsNS0_5MixedENS0_6VectorEi";
    let cases = [
        ("templated.sm_90.cubin", long, Form::Machine, 90, None),
        ("templated.zstd.fatbin", long, Form::Machine, 90, Some(())),
        ("templated.compute_80.ptx", long, Form::Ptx, 80, None),
        ("vecadd.lz4.fatbin", "_Z6vecaddPKfS0_Pfi", Form::Machine, 90, Some(())),
        ("named.fatbin", "_Z6vecaddPKfS0_Pfi", Form::Ptx, 80, Some(())),
        ("required.ptx", "nothing", Form::Ptx, 80, None),
    ];
    for (file, name, form, arch, entry) in cases {
        let bytes = common::bytes(file);
        let found = Image::detect(&bytes).find_kernel(name, H200).unwrap();
        assert_eq!(
            (found.form, found.arch.number, found.entry.map(drop)),
            (form, arch, entry),
            "{file}"
        );
        assert_eq!(Image::detect(&bytes).code(H200).unwrap(), found, "{file}");
        match form {
            Form::Machine => assert!(Cubin::parse(&found.code).unwrap().contains_kernel(name)),
            Form::Ptx => assert!(Ptx::parse(&found.code).unwrap().entry(name).is_some()),
        }
        // A part of a name is not a match.
        for other in [&name[..name.len() - 1], &format!("{name}_"), ""] {
            let error = Image::detect(&bytes).find_kernel(other, H200).unwrap_err();
            assert!(
                matches!(&error, Error::NoKernel { name, .. } if name == other),
                "{file}: {error}"
            );
        }
    }
}

#[test]
fn architecture_specific_code_is_preferred() {
    let bytes = common::bytes("many.fatbin");
    let found = |major, minor| {
        let found = Image::detect(&bytes).code(Capability::new(major, minor)).unwrap();
        (found.form, found.arch.to_string())
    };
    assert_eq!(found(9, 0), (Form::Machine, "sm_90a".into()));
    assert_eq!(found(8, 0), (Form::Machine, "sm_80".into()));
    assert_eq!(found(8, 9), (Form::Machine, "sm_86".into()));
    assert_eq!(found(10, 0), (Form::Machine, "sm_100f".into()));
    assert_eq!(found(10, 3), (Form::Machine, "sm_103".into()));
    assert_eq!(found(11, 0), (Form::Ptx, "sm_90".into()));
    assert_eq!(found(12, 1), (Form::Machine, "sm_120f".into()));
    let error = Image::detect(&bytes)
        .code(Capability::new(7, 5))
        .unwrap_err()
        .to_string();
    let available = "sm_80, sm_86, sm_90a, sm_90a, sm_90, sm_90, sm_100f, sm_103, …";
    assert_eq!(
        error,
        format!("no code for compute capability 7.5; there is code for {available}")
    );
}

#[test]
fn kernels_for_other_architectures_are_not_found() {
    let old = Capability::new(7, 5);
    for file in ["vecadd.sm_80.cubin", "vecadd.compute_80.ptx", "vecadd.zstd.fatbin"] {
        let bytes = common::bytes(file);
        let error = Image::detect(&bytes)
            .find_kernel("_Z6vecaddPKfS0_Pfi", old)
            .unwrap_err();
        assert!(matches!(error, Error::NoCode { .. }), "{file}: {error}");
    }
    let cubin = common::bytes("vecadd.sm_90a.cubin");
    assert_eq!(Cubin::parse(&cubin).unwrap().arch(), Arch::from_name("sm_90a").unwrap());
    assert!(Image::detect(&cubin).code(Capability::new(9, 1)).is_err());
    assert_eq!(Image::detect(b"PK\x03\x04").code(H200), Err(Error::Unknown));
}

#[test]
fn find_kernel_picks_the_fatbin_that_contains_it() {
    let mut both = common::bytes("vecadd.zstd.fatbin");
    let first = both.len() as u64;
    both.extend(common::bytes("templated.zstd.fatbin"));
    let found = Image::detect(&both).find_kernel("big_parameter", H200).unwrap();
    assert!(found.entry.unwrap() > first);
    // `code` reads only the first fatbin.
    let loaded = Image::detect(&both).code(H200).unwrap();
    assert!(!Cubin::parse(&loaded.code).unwrap().contains_kernel("big_parameter"));
}

#[test]
fn code_error_names_its_fatbin_entry() {
    let image = common::fatbin(&[
        (1, 80, 0x11, b".version 7.0\n.target sm_80\n"),
        (2, 90, 0x11, b"\x7fELFnot!"),
    ]);
    let error = Image::detect(&image).find_kernel("k", H200).unwrap_err();
    assert!(matches!(error, Error::Entry { entry: 112, .. }), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("in the code of the entry at byte 0x70: byte 0x0: not a cubin: "),
        "{error}"
    );
}
