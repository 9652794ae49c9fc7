//! Tests of fatbins: headers, iteration, decompression.
#![allow(clippy::unwrap_used)]

use crate::common;

use cuda_code::cubin::Cubin;
use cuda_code::fatbin::{Compression, Fatbin, Kind, Wrapper, images, total_bytes};
use cuda_code::ptx::Ptx;
use cuda_code::{Capability, Error, Form};

#[test]
fn fatbin_wrapper_points_to_its_image() {
    let mut bytes = 0x4662_43b1u32.to_le_bytes().to_vec();
    bytes.extend_from_slice(&2u32.to_le_bytes());
    bytes.extend_from_slice(&0x7fff_1234_5678u64.to_le_bytes());
    bytes.extend_from_slice(&0x9abcu64.to_le_bytes());
    let wrapper = Wrapper {
        version: 2,
        data: 0x7fff_1234_5678,
        more: 0x9abc,
    };
    assert_eq!(Wrapper::parse(&bytes), Ok(wrapper));
    assert!(matches!(
        Wrapper::parse(&bytes[..23]),
        Err(Error::Short { need: 24, left: 23, .. })
    ));
    bytes[0] = 0;
    let text = Wrapper::parse(&bytes).unwrap_err().to_string();
    assert_eq!(
        text,
        "byte 0x0: the magic of the wrapper is 0x46624300, expected 0x466243b1"
    );
}

#[test]
fn first_sixteen_bytes_give_the_image_size() {
    for file in common::all(".fatbin") {
        let bytes = common::bytes(&file);
        assert_eq!(total_bytes(&bytes[..16]), Ok(bytes.len() as u64), "{file}");
    }
    let mut huge = common::bytes("vecadd.none.fatbin")[..16].to_vec();
    huge[8..16].fill(0xff);
    assert!(matches!(total_bytes(&huge), Err(Error::Field { at: 8, .. })));
}

#[test]
fn all_fatbin_compressions_give_the_same_code() {
    let files = ["vecadd.none.fatbin", "vecadd.lz4.fatbin", "vecadd.zstd.fatbin"];
    let ways = [Compression::None, Compression::Lz4, Compression::Zstd];
    let mut codes = Vec::new();
    for (file, way) in files.iter().zip(ways) {
        let bytes = common::bytes(file);
        let entries: Vec<_> = Fatbin::parse(&bytes).unwrap().entries().map(Result::unwrap).collect();
        let kinds: Vec<_> = entries
            .iter()
            .map(|e| (e.kind, e.arch.number, e.compression()))
            .collect();
        assert_eq!(
            kinds,
            [(Kind::Elf, 80, way), (Kind::Elf, 90, way), (Kind::Ptx, 90, way)]
        );
        codes.push(
            entries
                .iter()
                .map(|e| e.code().unwrap().into_owned())
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(codes[0], codes[1]);
    assert_eq!(codes[0], codes[2]);
    // The cubins equal the compiler's separate output, and the PTX text is complete.
    assert_eq!(codes[0][0], common::bytes("vecadd.sm_80.cubin"));
    assert_eq!(codes[0][1], common::bytes("vecadd.sm_90.cubin"));
    assert_eq!(Ptx::parse(&codes[0][2]).unwrap().entries.len(), 1);
    assert!(
        codes[0][2].ends_with(b"}\n\n") || codes[0][2].ends_with(b"}"),
        "padding zeros are not removed"
    );
}

#[test]
fn fatbin_entries_unpack_to_their_declared_architecture() {
    for file in common::all(".fatbin") {
        let bytes = common::bytes(&file);
        for entry in Fatbin::parse(&bytes).unwrap().entries() {
            let entry = entry.unwrap();
            if entry.kind == Kind::Nvvm {
                // This crate does not read NVVM code, which is scrambled.
                assert!(matches!(entry.code(), Err(Error::Unpack { .. })), "{file}");
                continue;
            }
            let code = entry.code().unwrap();
            match entry.kind {
                Kind::Elf => assert_eq!(Cubin::parse(&code).unwrap().arch().number, entry.arch.number),
                Kind::Ptx => {
                    let ptx = Ptx::parse(&code).unwrap();
                    assert_eq!(
                        (ptx.arch, ptx.version),
                        (entry.arch, {
                            let (major, minor) = entry.code_version;
                            (major.into(), minor.into())
                        })
                    );
                }
                other => panic!("{file}: {other:?}"),
            }
        }
    }
}

#[test]
fn concatenated_fatbin_images_are_found() {
    let one = common::bytes("vecadd.zstd.fatbin");
    let two = common::bytes("templated.zstd.fatbin");
    let mut both = one.clone();
    both.extend_from_slice(&[0; 24]);
    both.extend_from_slice(&two);
    both.extend_from_slice(&[0; 5]);
    let found: Vec<_> = images(&both).map(|i| i.unwrap()).collect();
    let places: Vec<_> = found.iter().map(|i| (i.at(), i.header().total_bytes())).collect();
    assert_eq!(
        places,
        [(0, one.len() as u64), (one.len() as u64 + 24, two.len() as u64)]
    );
    let second = found[1].entries().next().unwrap().unwrap();
    assert_eq!(second.at, found[1].at() + 16);
    assert!(
        Cubin::parse(&second.code().unwrap())
            .unwrap()
            .contains_kernel("big_parameter")
    );
    // Offsets in errors count from the start of the input.
    both.truncate(both.len() - 6);
    let last = images(&both).last().unwrap().unwrap_err();
    assert!(
        matches!(last, Error::Short { at, .. } if at == one.len() as u64 + 24),
        "{last}"
    );
}

#[test]
fn broken_compression_is_an_error() {
    for (file, method) in [("vecadd.lz4.fatbin", "LZ4"), ("vecadd.zstd.fatbin", "zstd")] {
        let good = common::bytes(file);
        let at = |mut bytes: Vec<u8>, change: &dyn Fn(&mut Vec<u8>)| {
            change(&mut bytes);
            let entry = Fatbin::parse(&bytes).unwrap().entries().next().unwrap().unwrap();
            entry.code().unwrap_err()
        };
        // The header claims other sizes: one too few, one too many, more than its bytes can hold, more than 1 GiB.
        let size = u64::from_le_bytes(good[72..80].try_into().unwrap());
        for claim in [size - 1, size + 1] {
            let error = at(good.clone(), &|b| b[72..80].copy_from_slice(&claim.to_le_bytes()));
            assert!(
                matches!(&error, Error::Unpack { at: 80, method: m, .. } if *m == method),
                "{error}"
            );
        }
        for claim in [1 << 29, (1 << 30) + 1, u64::MAX] {
            let error = at(good.clone(), &|b| b[72..80].copy_from_slice(&claim.to_le_bytes()));
            let expected = matches!(error, Error::Field { at: 72, .. }) || method == "zstd" && claim == 1 << 29;
            assert!(expected, "{error}");
        }
        let error = at(good.clone(), &|b| b[32..36].copy_from_slice(&u32::MAX.to_le_bytes()));
        assert!(matches!(error, Error::Short { at: 80, .. }), "{error}");
        let error = at(good.clone(), &|b| b[80..90].fill(0xff));
        assert!(matches!(error, Error::Unpack { .. }), "{error}");
    }
}

#[test]
fn unknown_compression_fails_only_its_entry() {
    let image = common::fatbin(&[(2, 90, 0x1011, b"xxxxxxxx"), (1, 80, 0x11, b".version 7.0\n\0")]);
    let entries: Vec<_> = Fatbin::parse(&image).unwrap().entries().map(Result::unwrap).collect();
    assert_eq!(entries[0].compression(), Compression::Unknown);
    assert!(matches!(entries[0].code(), Err(Error::Unpack { .. })));
    assert_eq!(&*entries[1].code().unwrap(), b".version 7.0\n");
    assert_eq!(entries[1].form(), Some(Form::Ptx));
}

#[test]
fn entries_have_to_lie_within_their_image() {
    let good = common::fatbin(&[(2, 90, 0x11, b"12345678"), (2, 90, 0x11, b"12345678")]);
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        // Bytes after the image do not belong to it.
        bytes.extend_from_slice(&[0; 4096]);
        let image = Fatbin::parse(&bytes).unwrap();
        let all: Vec<_> = image.entries().collect();
        assert!(image.choose(Capability::new(9, 0)).is_err());
        all.into_iter().find_map(Result::err).unwrap()
    };
    assert!(matches!(
        error(&|b| b[20..24].fill(0)),
        Error::Field { at: 20, found: 0, .. }
    ));
    assert!(matches!(error(&|b| b[24..32].fill(0xff)), Error::Short { at: 80, .. }));
    assert!(matches!(
        error(&|b| b[24] = 200),
        Error::Short {
            at: 80,
            need: 200,
            left: 80,
            ..
        }
    ));
    assert!(matches!(
        error(&|b| b[24] = 72),
        Error::Short {
            at: 152,
            need: 48,
            left: 8,
            ..
        }
    ));
}
