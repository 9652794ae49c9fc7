//! Replays made from the definitions of the format.

use super::*;
use crate::{OpenOptions, Opened, open};
use trace_core::GpuVa;
use trace_core::api_trace::ApiTrace;
use trace_core::recording::{CallEvent, EventKind};

/// Numbers of objects.
const BUFFER: u64 = 7;
const COMMANDS: u64 = 8;
const EXECUTABLE: u64 = 9;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A record of an operation.
fn operation(code: u32, payload_kind: u32, object: u64, related: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = words(&[
        96 + payload.len() as u64,
        payload.len() as u64,
        1,
        33,
        1,
        object,
        related,
    ]);
    out.extend(96u32.to_le_bytes());
    out.extend(3u16.to_le_bytes());
    out.extend(0u16.to_le_bytes());
    for n in [payload_kind, 0, code, 0, 0, 0] {
        out.extend(n.to_le_bytes());
    }
    out.resize(96, 0);
    out.extend(payload);
    out
}

fn reference(buffer: u64, slot: u32) -> Vec<u8> {
    let mut out = words(&[buffer, 0, 16]);
    out.extend(slot.to_le_bytes());
    out.extend([0; 4]);
    out
}

fn dispatch() -> Vec<u8> {
    let mut out = words(&[EXECUTABLE, 0]);
    for n in [2u32, 0, 64, 1, 1, 5, 1, 1] {
        out.extend(n.to_le_bytes());
    }
    out.extend(reference(0, 0));
    out.extend([0; 8]);
    out.extend(words(&[0, 0, 4, 1]));
    out.extend(3u32.to_le_bytes());
    out.extend(reference(0, 0));
    out
}

/// A file that allocates, writes, prepares code and executes a command buffer.
fn replay() -> Vec<u8> {
    let mut records = operation(102, 2, 2, BUFFER, &words(&[64, 0, 0, 0, 0]));
    let mut mapped = words(&[8, 8, 8]);
    mapped.extend([0; 16]);
    mapped.extend(1.5f64.to_le_bytes());
    records.extend(operation(203, 4, BUFFER, 0, &mapped));
    let mut prepare = words(&[0, 4, 0]);
    prepare.extend([0; 4]);
    prepare.extend(3u32.to_le_bytes());
    prepare.extend([0; 8]);
    prepare.extend(b"elfCODE");
    records.extend(operation(402, 7, 4, EXECUTABLE, &prepare));
    records.extend(operation(300, 0, COMMANDS, 0, &[]));
    let mut fill = reference(0, 0);
    fill.extend(words(&[0, 4]));
    fill.extend([7, 0, 0, 0]);
    records.extend(operation(309, 18, COMMANDS, 0, &fill));
    records.extend(operation(313, 8, COMMANDS, EXECUTABLE, &dispatch()));
    let mut execute = words(&[COMMANDS, 0, 0, 0, 0, 1]);
    execute.extend(reference(BUFFER, 0));
    records.extend(operation(22, 9, 1, COMMANDS, &execute));
    let mut out = b"IRRP\x01\0\0\0\x18\0\0\0\0\0\0\0".to_vec();
    out.extend((24 + records.len() as u64).to_le_bytes());
    out.extend(records);
    out
}

fn import_bytes(bytes: &[u8]) -> Result<Recording, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay");
    std::fs::write(&path, bytes).unwrap();
    open(&path, &OpenOptions::default(), &Progress::new()).and_then(Opened::into_recording)
}

#[test]
fn work_happens_when_its_command_buffer_is_executed() {
    let recording = import_bytes(&replay()).unwrap();
    use EventKind as K;
    let kinds: Vec<_> = (0..recording.events.len())
        .map(|i| recording.events.kind(i).unwrap())
        .collect();
    let expected = [K::Allocation, K::Copy, K::Call, K::Call, K::Call, K::Fill, K::Launch];
    assert_eq!(kinds, expected);
    let trace = ApiTrace::from_recording(&recording, &Progress::new()).unwrap().unwrap();
    let base = trace.metadata().window.base.get();
    let Some(CallEvent::Launch(row)) = recording.events.call(6) else {
        panic!("no launch")
    };
    assert_eq!((row.grid, row.block), ([5, 1, 1], [64, 1, 1]));
    let first = row.arguments_at as usize;
    let bytes = (first..first + row.arguments as usize).map(|i| recording.events.call_bytes.get(i).unwrap());
    let mut expected = words(&[3]);
    expected.extend(base.to_le_bytes());
    assert_eq!(bytes.collect::<Vec<u8>>(), expected);
    let function = &trace.metadata().functions[0];
    assert_eq!(
        (function.name.as_str(), function.module),
        ("executable 9, entry 2", Some(0))
    );
    assert_eq!(trace.metadata().modules[0].bytes, 4);
    let read = |event| {
        trace
            .read(&recording, GpuVa::new(base + 8)..GpuVa::new(base + 16), event)
            .bytes
    };
    assert_eq!(read(2), 1.5f64.to_le_bytes());
    assert_eq!(read(6), [7, 0, 0, 0, 7, 0, 0, 0]);
}

#[test]
fn cut_and_damaged_files_are_read_as_far_as_they_go() {
    let bytes = replay();
    let is_cut = |r: &Recording| {
        let mut findings = r.metadata.findings.iter();
        findings.any(|f| f.kind == FindingKind::TruncatedSection)
    };
    assert!(!is_cut(&import_bytes(&bytes).unwrap()));
    for cut in [bytes.len() - 1, bytes.len() - 100, 400] {
        assert!(is_cut(&import_bytes(&bytes[..cut]).unwrap()), "{cut}");
    }
    let mut damaged = bytes.clone();
    damaged[24 + 96 + 40] = 1;
    assert!(is_cut(&import_bytes(&damaged).unwrap()));
    let mut later = bytes;
    later[4] = 3;
    let error = import_bytes(&later).unwrap_err().to_string();
    assert!(
        error.contains("a HAL replay of IREE of version 3.0 (at byte 0x4; versions 1 and 2 are read)"),
        "{error}"
    );
}
