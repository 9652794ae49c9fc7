//! Tests that damaged input gives a result or an error: without a panic, in memory of a small multiple of the input.
#![allow(clippy::unwrap_used)]

use crate::common;

use cuda_code::cubin::Cubin;
use cuda_code::fatbin::images;
use cuda_code::ptx::{Change, LaunchBounds, Ptx, with_launch_bounds};
use cuda_code::{Capability, Image};
use proptest::prelude::*;

const H200: Capability = Capability::new(9, 0);

/// Runs all parsers on `bytes`, whatever format it starts with.
fn read_all(bytes: &[u8]) {
    let image = Image::detect(bytes);
    let _ = image.find_kernel("_Z6vecaddPKfS0_Pfi", H200);
    for fatbin in images(bytes).flatten() {
        for entry in fatbin.entries().flatten() {
            if let Ok(code) = entry.code() {
                read_code(&code);
            }
        }
    }
    read_code(bytes);
}

fn read_code(bytes: &[u8]) {
    if let Ok(cubin) = Cubin::parse(bytes) {
        let _ = (cubin.kernels(), cubin.contains_kernel("vecadd"), cubin.constant_banks());
        let _ = crate::load::load(bytes);
        if let Ok(variables) = cubin.variables() {
            for variable in variables {
                assert!(variable.initial.is_none_or(|b| b.len() as u64 == variable.bytes));
            }
        }
    }
    if let Ok(ptx) = Ptx::parse(bytes) {
        let change = LaunchBounds {
            max_threads: Change::Set([64, 1, 1]),
            ..Default::default()
        };
        for entry in ptx.entries.iter().take(4) {
            if let Ok(changed) = with_launch_bounds(bytes, entry.name, &change) {
                let again = Ptx::parse(&changed).unwrap();
                assert_eq!(again.entry(entry.name).unwrap().max_threads, Some([64, 1, 1]));
            }
        }
    }
}

/// Limits the address space of the process to 1 GiB more than it has now.
fn bound_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmSize:")).unwrap();
        let now: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        let limit = (now << 10) + (1 << 30);
        let old = getrlimit(Resource::As);
        setrlimit(
            Resource::As,
            Rlimit {
                current: Some(limit),
                maximum: old.maximum,
            },
        )
        .unwrap();
    }
}

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let files = [".fatbin", ".cubin", ".ptx"].into_iter().flat_map(common::all);
    files.map(|file| (file.clone(), common::bytes(&file))).collect()
}

#[test]
fn every_truncation() {
    bound_memory();
    for (file, bytes) in fixtures() {
        for len in 0..bytes.len() {
            read_all(&bytes[..len]);
            if file.ends_with(".fatbin") {
                assert!(
                    Image::detect(&bytes[..len]).code(H200).is_err(),
                    "{file} cut to {len} bytes is accepted"
                );
            }
        }
    }
}

#[test]
fn two_thousand_flipped_bytes() {
    bound_memory();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below as u64).unwrap()
    };
    for (_, good) in fixtures() {
        for turn in 0..2000 {
            let mut bytes = good.clone();
            // Later turns change more bytes. Every second turn changes only the first 256 bytes, which hold headers.
            for _ in 0..=turn / 500 {
                let at = if turn % 2 == 0 {
                    next(bytes.len())
                } else {
                    next(bytes.len().min(256))
                };
                bytes[at] = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
            }
            read_all(&bytes);
        }
    }
}

#[test]
fn sections_and_names_that_overlap_are_refused() {
    // The ELF file has 4000 sections with copies of one header, so all of them read the same bytes.
    let good = common::bytes("vecadd.sm_90.cubin");
    let table = u64::from_le_bytes(good[40..48].try_into().unwrap()) as usize;
    let count = 4000u16;
    let mut bytes = good.clone();
    let info = (0..u16::from_le_bytes(good[60..62].try_into().unwrap()))
        .map(|i| table + usize::from(i) * 64)
        .find(|at| good[at + 4..at + 8] == 0x7000_0000u32.to_le_bytes())
        .unwrap();
    let header = good[info..info + 64].to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let moved = bytes.len();
    bytes.extend_from_slice(&good[table..table + 64 * usize::from(u16::from_le_bytes([good[60], good[61]]))]);
    while (bytes.len() - moved) / 64 < usize::from(count) {
        bytes.extend_from_slice(&header);
    }
    bytes[40..48].copy_from_slice(&(moved as u64).to_le_bytes());
    bytes[60..62].copy_from_slice(&count.to_le_bytes());
    // 4000 sections of 36 bytes are accepted, because the sum is less than the size of the file.
    assert!(Cubin::parse(&bytes).unwrap().kernels().is_ok());
    let zeros = bytes.len();
    bytes.resize(zeros + (1 << 16), 0);
    for section in 0..usize::from(count) {
        let at = moved + section * 64;
        if bytes[at + 4..at + 8] == 0x7000_0000u32.to_le_bytes() {
            bytes[at + 24..at + 32].copy_from_slice(&(zeros as u64).to_le_bytes());
            bytes[at + 32..at + 40].copy_from_slice(&(1u64 << 16).to_le_bytes());
        }
    }
    for at in (zeros..bytes.len()).step_by(4) {
        bytes[at..at + 4].copy_from_slice(&[3, 0, 0, 0]);
    }
    let error = Cubin::parse(&bytes).unwrap().kernels().unwrap_err();
    assert!(
        matches!(error, cuda_code::Error::Overlap { what: "sections", .. }),
        "{error}"
    );
}

/// Generates a token of PTX.
fn ptx_piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        ".version 8.0",
        ".target sm_90",
        ".entry",
        ".param",
        ".u64",
        ".align",
        ".b8",
        ".global",
        ".const",
        "=",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        ";",
        "k",
        "8",
        "16",
        ".maxntid",
        ".reqntid",
        ".maxnreg",
        ".ptr",
        ".v4",
        "\"",
        "/*",
        "*/",
        "//",
        "\n",
        ".attribute",
        ".pragma",
        ".extern",
        "0xffffffffffffffff",
        ".func",
    ])
}

proptest! {
    #[test]
    fn cuda_image_parsers_accept_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_all(&bytes);
    }

    #[test]
    fn ptx_parser_accepts_arbitrary_tokens(pieces in prop::collection::vec(ptx_piece(), 0..60)) {
        let text = format!(".version 8.0 .target sm_90 {}", pieces.join(" "));
        read_all(text.as_bytes());
    }

    #[test]
    fn fatbin_parser_accepts_arbitrary_entries(kind in 0u16..4, arch: u32, flags: u64, code in prop::collection::vec(any::<u8>(), 0..64)) {
        read_all(&common::fatbin(&[(kind, arch, flags, &code), (1, 80, 0x11, b".version 8.0 .target sm_80")]));
    }
}
