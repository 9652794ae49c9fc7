//! HAL replays that IREE's own programs recorded. The counts are those of `iree-dump-replay`.

use std::path::Path;
use trace_core::GpuVa;
use trace_core::api_trace::ApiTrace;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{CallEvent, EventKind, Recording};
use trace_import::{OpenOptions, Opened, open};

fn import(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/iree").join(name);
    let opened = open(&path, &OpenOptions::default(), &Progress::new());
    opened.and_then(Opened::into_recording).unwrap()
}

fn count(recording: &Recording, kind: EventKind) -> usize {
    let events = &recording.events;
    (0..events.len()).filter(|e| events.kind(*e) == Some(kind)).count()
}

/// The trace, and the number of its first launch.
fn first_launch(recording: &Recording) -> (ApiTrace, usize) {
    let events = &recording.events;
    let launch = (0..events.len()).find(|e| events.kind(*e) == Some(EventKind::Launch));
    let trace = ApiTrace::from_recording(recording, &Progress::new()).unwrap().unwrap();
    (trace, launch.unwrap())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Addresses of the buffers of a launch, which has no constants.
fn buffers(recording: &Recording, launch: usize) -> Vec<GpuVa> {
    let Some(CallEvent::Launch(row)) = recording.events.call(launch) else {
        panic!("no launch")
    };
    let at = row.arguments_at as usize;
    let bytes = (at..at + row.arguments as usize).map(|i| recording.events.call_bytes.get(i).unwrap());
    let bytes: Vec<u8> = bytes.collect();
    let words = bytes.as_chunks().0.iter();
    words.map(|b| GpuVa::new(u64::from_le_bytes(*b))).collect()
}

#[test]
fn operations_of_a_replay_become_events_with_names_and_bytes() {
    let recording = import("vector-add.ireereplay");
    assert_eq!(recording.metadata.identity.tool, "IREE HAL replay 2.0");
    // 39 operations: 3 allocations and 1 in queue order, 2 mapped ranges with bytes, a dispatch, a copy.
    assert_eq!(recording.events.len(), 39);
    assert_eq!(count(&recording, EventKind::Allocation), 4);
    assert_eq!(count(&recording, EventKind::Copy), 3);
    assert_eq!(count(&recording, EventKind::Launch), 1);
    let (trace, launch) = first_launch(&recording);
    let metadata = trace.metadata();
    assert_eq!(metadata.functions[0].name, "add_dispatch_0_elementwise_64_f32");
    assert_eq!(metadata.modules[0].bytes, 3592);
    assert!(metadata.modules[0].origin.contains("embedded-elf-x86_64"));
    assert!(metadata.names.iter().all(|name| !name.starts_with("operation ")));
    let inputs = buffers(&recording, launch);
    for (input, value) in inputs.iter().zip([1.0, 2.0]) {
        let range = *input..input.saturating_add(256);
        let read = trace.read(&recording, range, launch as u64).bytes;
        assert_eq!(floats(&read), [value; 64]);
    }
}

#[test]
fn parameters_of_a_replay_are_memory_where_it_holds_them() {
    let expected: Vec<f32> = (0..1024u16).map(|i| f32::from(i) * 0.5).collect();
    for policy in ["capture-ranges", "capture-all"] {
        let recording = import(&format!("parameters-{policy}.ireereplay"));
        let (trace, launch) = first_launch(&recording);
        let parameters = buffers(&recording, launch).into_iter().any(|at| {
            let read = trace.read(&recording, at..at.saturating_add(4096), launch as u64);
            floats(&read.bytes) == expected
        });
        assert!(parameters, "{policy}");
        let is_missing = |f: &trace_core::finding::Finding| f.kind == FindingKind::NotRecorded;
        assert!(!recording.metadata.findings.iter().any(is_missing), "{policy}");
    }
    let recording = import("parameters-reference.ireereplay");
    let missing = recording
        .metadata
        .findings
        .iter()
        .find(|f| f.kind == FindingKind::NotRecorded);
    let message = &missing.unwrap().message;
    assert!(
        message.starts_with("1 reads of files have no bytes of w.safetensors"),
        "{message}"
    );
}
