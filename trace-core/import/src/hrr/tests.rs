//! Archives made from the definitions of the format.

use super::*;
use crate::{OpenOptions, Opened, open};
use std::fs;
use tempfile::TempDir;
use trace_core::GpuVa;
use trace_core::api_trace::ApiTrace;
use trace_core::recording::{CallEvent, EventKind};

const HASH: [u64; 2] = [0x1122_3344_5566_7788, 0x99aa_bbcc_ddee_ff00];
const DEVICE: u64 = 0x7f00_0000_1010;

/// A record of a call.
fn record(call: u16, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = call.to_le_bytes().to_vec();
    for word in [sequence, 1_000 + sequence * 10, 77] {
        out.extend(word.to_le_bytes());
    }
    out.extend((32 + payload.len() as u32).to_le_bytes());
    out.extend([0; 2]);
    out.extend(payload);
    out
}

/// A result of 0, and words of eight bytes.
fn words(words: &[u64]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    out
}

fn launch() -> Vec<u8> {
    let mut out = 0x55u64.to_le_bytes().to_vec();
    out.extend(5u16.to_le_bytes());
    out.extend(b"saxpy");
    out.extend(HASH.iter().flat_map(|w| w.to_le_bytes()));
    for n in [4u32, 1, 1, 64, 1, 1, 256] {
        out.extend(n.to_le_bytes());
    }
    out.extend(3u16.to_le_bytes());
    out.extend(0u16.to_le_bytes());
    // A number, an address, and a structure with an address in it.
    out.push(0);
    out.extend(4u16.to_le_bytes());
    out.extend(2.5f32.to_le_bytes());
    out.push(1);
    out.extend(8u16.to_le_bytes());
    out.extend(DEVICE.to_le_bytes());
    out.push(3);
    out.extend(16u16.to_le_bytes());
    out.extend([9; 16]);
    out.extend(1u16.to_le_bytes());
    out.extend(8u16.to_le_bytes());
    out
}

fn copy(kind: u32) -> Vec<u8> {
    let (to, from) = if kind == 1 { (DEVICE, 0x10) } else { (0x10, DEVICE) };
    let mut out = words(&[to, from, 8]);
    out.extend(kind.to_le_bytes());
    out.extend(HASH.iter().flat_map(|w| w.to_le_bytes()));
    out
}

/// The file with the calls; records are not in the order of their sequence numbers.
pub(super) fn events(version: u16) -> Vec<u8> {
    let mut out = b"EHRR".to_vec();
    out.extend(version.to_le_bytes());
    out.extend([0; 2]);
    let memset = {
        let mut out = words(&[DEVICE]);
        out.extend(7i32.to_le_bytes());
        out.extend(8u64.to_le_bytes());
        out
    };
    out.extend(record(271, 2, &copy(1)));
    out.extend(record(224, 1, &words(&[DEVICE, 0x100])));
    out.extend(record(300, 3, &memset));
    out.extend(record(321, 4, &launch()));
    out.extend(record(75, 5, &words(&[])));
    out.extend(record(271, 6, &copy(2)));
    out.extend(record(112, 7, &words(&[0x1234])));
    out.extend(record(99, 8, &words(&[DEVICE])));
    let mut end = 8u64.to_le_bytes().to_vec();
    end.extend(b"HEOF");
    out.extend(record(0xffff, 9, &end));
    out
}

fn archive(events: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let process = folder.path().join("pid-12");
    let name = "112233445566778899aabbccddeeff00";
    for inner in ["blobs/11", "code_objects"] {
        fs::create_dir_all(process.join(inner)).unwrap();
    }
    fs::write(folder.path().join("manifest.json"), "{}").unwrap();
    fs::write(process.join("events.bin"), events).unwrap();
    fs::write(process.join(format!("blobs/11/{name}.blob")), 1.5f64.to_le_bytes()).unwrap();
    fs::write(process.join(format!("code_objects/{name}.hsaco")), b"\x7fELF code").unwrap();
    folder
}

fn import(path: &Path) -> Result<Recording, ImportError> {
    open(path, &OpenOptions::default(), &Progress::new()).and_then(Opened::into_recording)
}

#[test]
fn calls_become_events_in_the_order_of_their_sequence() {
    for version in [3, 4] {
        let folder = archive(&events(version));
        let recording = import(folder.path()).unwrap();
        use EventKind as K;
        let kinds: Vec<_> = (0..recording.events.len())
            .map(|i| recording.events.kind(i).unwrap())
            .collect();
        let expected = [
            K::Allocation,
            K::Copy,
            K::Fill,
            K::Launch,
            K::Order,
            K::Copy,
            K::Call,
            K::Allocation,
        ];
        assert_eq!(kinds, expected);
        let Some(CallEvent::Launch(row)) = recording.events.call(3) else {
            panic!("no launch")
        };
        assert_eq!((row.grid, row.block, row.shared), ([4, 1, 1], [64, 1, 1], 256));
        assert_eq!(row.arguments, 32);
        let trace = ApiTrace::from_recording(&recording, &Progress::new()).unwrap().unwrap();
        assert_eq!(trace.metadata().functions[0].parameters, [[0, 4], [8, 8], [16, 16]]);
        assert_eq!(trace.metadata().modules[0].bytes, 9);
        assert_eq!(trace.metadata().process.number, 12);
        // The memory of the device after the copy to it.
        let read = trace.read(&recording, GpuVa::new(DEVICE)..GpuVa::new(DEVICE + 8), 2);
        assert_eq!(read.bytes, 1.5f64.to_le_bytes());
        let kinds: Vec<_> = recording.metadata.findings.iter().map(|f| f.kind).collect();
        assert_eq!(kinds, [FindingKind::Assumed]);
    }
}

#[test]
fn cut_archives_are_read_as_far_as_they_go() {
    let bytes = events(3);
    for cut in [bytes.len() - 1, bytes.len() - 44, bytes.len() - 60] {
        let folder = archive(&bytes[..cut]);
        let recording = import(folder.path()).unwrap();
        assert!(recording.events.len() >= 7);
        let mut findings = recording.metadata.findings.iter();
        assert!(findings.any(|f| f.kind == FindingKind::TruncatedSection), "{cut}");
    }
}

#[test]
fn later_versions_and_missing_files_are_named() {
    let folder = archive(&events(6));
    let error = import(folder.path()).unwrap_err().to_string();
    assert!(error.contains("of version 6 (at byte 0x4 of events.bin"), "{error}");
    let process = folder.path().join("pid-12");
    fs::remove_file(process.join("events.bin")).unwrap();
    fs::write(process.join(MANIFEST), "{}").unwrap();
    let error = import(&process).unwrap_err().to_string();
    assert!(error.contains("events.bin is missing"), "{error}");
}

#[test]
fn the_process_with_the_most_calls_is_taken() {
    let folder = archive(&events(3));
    let other = folder.path().join("pid-9");
    fs::create_dir(&other).unwrap();
    let mut few = b"EHRR\x03\0\0\0".to_vec();
    few.extend(record(211, 1, &words(&[])));
    fs::write(other.join("events.bin"), few).unwrap();
    let recording = import(folder.path()).unwrap();
    assert_eq!(recording.events.len(), 8);
    let mut findings = recording.metadata.findings.iter();
    assert!(findings.any(|f| f.message.contains("pid-9")));
    assert_eq!(import(&other).unwrap().events.len(), 1);
}

#[test]
fn missing_content_is_told() {
    let folder = archive(&events(3));
    fs::remove_dir_all(folder.path().join("pid-12/blobs")).unwrap();
    let recording = import(folder.path()).unwrap();
    let mut findings = recording.metadata.findings.iter();
    assert!(findings.any(|f| f.message.starts_with("2 copies from or to the host have no content")));
}
