//! Streams made by the programs of each packing, unpacked in pieces of every size; damaged ones.

use super::*;
use std::fs;
use std::io::Cursor;
use std::path::Path;

const NAMES: [&str; 7] = ["log.gz", "log.xz", "log.bz2", "log.zst", "one.xz", "one.bz2", "one.zst"];

fn packed(name: &str) -> (Packing, Vec<u8>) {
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packed").join(name)).unwrap();
    (Packing::detect(&bytes).unwrap(), bytes)
}

fn unpack(packing: Packing, bytes: &[u8], piece: usize) -> (Vec<u8>, std::io::Result<usize>) {
    let mut from = packing.unpack(Cursor::new(bytes.to_vec()));
    let mut out = Vec::new();
    let mut part = vec![0; piece];
    loop {
        match from.read(&mut part) {
            Ok(0) => return (out, Ok(0)),
            Ok(n) => out.extend_from_slice(&part[..n]),
            Err(e) => return (out, Err(e)),
        }
    }
}

#[test]
fn streams_are_the_same_in_any_pieces() {
    let (packing, bytes) = packed("log.gz");
    let (expected, end) = unpack(packing, &bytes, 1 << 16);
    assert!(end.is_ok() && expected.ends_with(b"0x0 0\n"));
    for name in NAMES {
        let (packing, bytes) = packed(name);
        for piece in [1, 77, 4096, 1 << 20] {
            let (read, end) = unpack(packing, &bytes, piece);
            assert!(end.is_ok(), "{name}: {end:?}");
            assert!(read == expected, "{name} in pieces of {piece}");
        }
    }
}

#[test]
fn cut_streams_give_their_start_and_then_an_error() {
    let (packing, bytes) = packed("log.gz");
    let (whole, _) = unpack(packing, &bytes, 1 << 16);
    for name in NAMES {
        let (packing, bytes) = packed(name);
        for cut in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            let (read, end) = unpack(packing, &bytes[..cut], 1 << 16);
            assert!(whole.starts_with(&read), "{name} cut at {cut}");
            // Between two streams, nothing is missing that could be known.
            assert!(end.is_err() || cut > bytes.len() / 4, "{name} cut at {cut}");
        }
    }
}

#[test]
fn damaged_streams_end() {
    for name in NAMES {
        let (packing, bytes) = packed(name);
        for at in (0..bytes.len()).step_by(bytes.len() / 200 + 1) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let (read, _) = unpack(packing, &damaged, 1 << 16);
            assert!(read.len() < 64 << 20, "{name} damaged at {at}");
        }
    }
}
