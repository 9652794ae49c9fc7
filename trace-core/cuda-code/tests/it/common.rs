//! Readers and builders of fixtures, for all tests of this crate.
#![allow(clippy::panic, clippy::type_complexity, reason = "a test panics when it fails")]
#![allow(dead_code)]

use std::path::PathBuf;

/// Returns the folder of the fixtures.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Returns the bytes of a fixture.
pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns the text of a fixture.
pub fn text(name: &str) -> String {
    String::from_utf8(bytes(name)).unwrap()
}

/// Returns the names of the fixtures that end in `tail`, sorted.
pub fn all(tail: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder())
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = files.filter(|name| name.ends_with(tail)).collect();
    names.sort();
    assert!(!names.is_empty(), "no fixtures end in {tail}");
    names
}

/// Creates a fatbin of uncompressed entries: kind, architecture, flags, code.
pub fn fatbin(entries: &[(u16, u32, u64, &[u8])]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (kind, arch, flags, code) in entries {
        let padded = code.len().next_multiple_of(8);
        payload.extend_from_slice(&kind.to_le_bytes());
        payload.extend_from_slice(&0x101u16.to_le_bytes());
        payload.extend_from_slice(&64u32.to_le_bytes());
        payload.extend_from_slice(&(padded as u64).to_le_bytes());
        payload.extend_from_slice(&[0; 12]);
        payload.extend_from_slice(&arch.to_le_bytes());
        payload.extend_from_slice(&[0; 8]);
        payload.extend_from_slice(&flags.to_le_bytes());
        payload.extend_from_slice(&[0; 16]);
        payload.extend_from_slice(code);
        payload.resize(payload.len() + padded - code.len(), 0);
    }
    let mut image = 0xba55_ed50u32.to_le_bytes().to_vec();
    image.extend_from_slice(&[1, 0, 16, 0]);
    image.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    image.extend_from_slice(&payload);
    image
}
