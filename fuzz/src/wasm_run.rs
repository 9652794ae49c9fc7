//! Fuzz target for recordings of WebAssembly runs: sections, rows, arguments and names with arbitrary contents.

use crate::input::Input;
use trace_core::container;
use trace_core::progress::Progress;
use trace_core::recording::Recording;
use wasm_recording::{CopyStream, WasmDifference, WasmRun};

/// Maximum number of system calls of a copy that are read.
const MAX_CALLS: usize = 64;

/// Fuzzes the reader of runs. The input is a `.kine` file, whose digests are not checked: it is unpacked, then its parts
/// are changed as the bytes after it say. The size of the file comes first, in four bytes.
pub fn wasm_run(data: &[u8]) -> bool {
    let mut input = Input(data);
    let size = usize::try_from(input.u32()).unwrap_or(usize::MAX).min(input.0.len());
    let (file, changes) = input.0.split_at(size);
    let Ok(mut recording) = container::from_bytes(file.to_vec()) else {
        return false;
    };
    change(&mut recording, Input(changes));
    let Ok(run) = WasmRun::from_recording(&recording, &Progress::new()) else {
        return false;
    };
    query_all(&run);
    let found = WasmDifference::find(&run, &run, &Progress::new());
    if let Ok(found) = found {
        let names: std::collections::BTreeSet<&str> = run.copies().iter().map(|c| c.name.as_str()).collect();
        assert!(
            found.is_same() || names.len() < run.copies().len(),
            "a run differs from itself"
        );
    }
    true
}

/// Changes sections and arguments of calls: each change is a kind, a position, and a byte.
fn change(recording: &mut Recording, mut changes: Input<'_>) {
    let mut bytes: Vec<u8> = recording.events.call_bytes.iter().collect();
    while !changes.is_empty() {
        let kind = changes.u8();
        let (position, value) = (usize::from(changes.u16()), changes.u8());
        let section = match kind % 3 {
            0 => recording.extras.get_mut("wasm-run"),
            1 => recording.extras.get_mut("wasm-profile"),
            _ => Some(&mut bytes),
        };
        if let Some(byte) = section.and_then(|s| s.get_mut(position)) {
            *byte = value;
        }
    }
    recording.events.call_bytes = bytes.into();
}

fn query_all(run: &WasmRun) {
    let events = run.recording().events.len() as u64;
    for (number, copy) in run.copies().iter().enumerate() {
        assert!(copy.events.end <= events && copy.events.start < copy.events.end);
        assert!(copy.events.start < copy.call_events.start && copy.call_events.end < copy.events.end);
        assert_eq!(run.find_copy_at(copy.events.start), Some(number));
        for stream in CopyStream::ALL {
            let bytes = run.stream(number, stream).map(|b| b.len() as u64);
            assert!(bytes.is_none_or(|n| Some(&n) == copy.stream_bytes.get(stream as usize)));
        }
        if let Some(input) = run.input(number) {
            let more: usize = input.more_requests.iter().map(Vec::len).sum();
            assert_eq!((input.bytes.len() + more) as u64, copy.stream_bytes[0]);
        }
        let _ = run.result(number);
        for call in run.calls(number).take(MAX_CALLS) {
            assert!(copy.call_events.contains(&call.event));
            let _ = call.call.to_string();
        }
    }
    for event in 0..run.recording().events.len() {
        let _ = run.recording().describe_call(event);
    }
    let _ = (run.options(), run.target(), run.launches().len(), run.profile().len());
}

/// Returns the input that makes a recording of a file with these changes: kind, position and byte.
#[must_use]
pub fn encode(file: &[u8], changes: &[(u8, u16, u8)]) -> Vec<u8> {
    let mut out = (file.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(file);
    for (kind, position, value) in changes {
        out.push(*kind);
        out.extend_from_slice(&position.to_le_bytes());
        out.push(*value);
    }
    out
}
