//! Fuzz target for memory traces of another machine, and for every query on them.

use std::sync::Arc;
use trace_core::api_trace::{ApiTrace, ContentState, MemoryTrace, UnknownReason};
use trace_core::progress::Progress;
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CallFunction, CallStream, EventsBuilder, FillRow, LaunchRow,
    OrderRow, TraceKind,
};
use trace_core::{GpuVa, Recording};

/// Base address of the recording's memory.
pub const BASE: u64 = 0x1539_4000_0000;
/// Size of the memory, bytes.
pub const BYTES: u64 = 3 * 4096;

/// Returns a recording with memory, a fill, and four launches that take its address.
fn recording() -> Recording {
    let mut events = EventsBuilder::new();
    let arguments_at = events.call_bytes(&BASE.to_le_bytes());
    events.allocation(
        0,
        1,
        AllocationRow {
            at: GpuVa::new(BASE),
            bytes: BYTES,
            kind: AllocationKind::Take as u32,
            stream: OrderRow::NONE,
            ..AllocationRow::default()
        },
    );
    for time in 1..6 {
        if time == 3 {
            let fill = FillRow {
                to: GpuVa::new(BASE),
                elements: 100,
                rows: 1,
                element: 1,
                value: 9,
                ..FillRow::default()
            };
            events.fill(time, 1, fill);
        } else {
            let launch = LaunchRow {
                arguments_at,
                arguments: 8,
                grid: [1; 3],
                block: [1; 3],
                ..LaunchRow::default()
            };
            events.launch(time, 1, launch);
        }
    }
    let mut recording = Recording {
        events: events.finish(),
        ..Recording::default()
    };
    recording.metadata.kind = TraceKind::Api(ApiTraceMetadata {
        api: Api::Cuda,
        functions: vec![CallFunction {
            name: "k".to_owned(),
            demangled: "k(float*)".to_owned(),
            parameters: vec![[0, 8]],
            ..CallFunction::default()
        }],
        streams: vec![CallStream::default()],
        ..ApiTraceMetadata::default()
    });
    recording
}

/// Fuzzes a memory trace of a target, as bytes. Returns whether it was accepted.
pub fn watched(data: &[u8]) -> bool {
    let Ok(watched) = MemoryTrace::from_bytes(data) else {
        return false;
    };
    let reread = watched.to_bytes().map(|bytes| MemoryTrace::from_bytes(&bytes));
    assert!(
        matches!(reread, Ok(Ok(ref w)) if *w == watched),
        "a memory trace reads back differently"
    );
    let r = recording();
    let Ok(Some(untraced)) = ApiTrace::from_recording(&r, &Progress::new()) else {
        panic!("the recording is not an API trace");
    };
    let Ok(api_trace) = untraced.with_memory_trace(Arc::new(watched), &Progress::new()) else {
        panic!("the memory trace does not apply");
    };
    let end = r.events.len() as u64;
    for event in 0..=end {
        let range = BASE - 100..BASE + BYTES + 100;
        let read = api_trace.read(&r, GpuVa::new_range(range.clone()), event);
        assert_eq!(read.bytes.len() as u64, range.end - range.start);
        let mut at = range.start;
        for p in &read.pieces {
            assert!(
                p.range.start == GpuVa::new(at) && p.range.end > GpuVa::new(at),
                "a gap between pieces"
            );
            at = p.range.end.get();
            if let ContentState::Unknown(UnknownReason::Launch { .. }, launch) = p.state {
                assert!(
                    !api_trace.is_traced(p.range.start, launch),
                    "the content after a traced launch is unknown"
                );
            }
        }
        assert_eq!(at, range.end);
        for address in [BASE, BASE + 99, BASE + 4096, BASE + BYTES - 1, BASE + BYTES] {
            let writer = api_trace.find_last_writer(&r, GpuVa::new(address), event);
            assert!(writer.launches.iter().all(|l| l.event < event));
            let _ = api_trace.list_changes(&r, GpuVa::new(address), 0..event, 10);
        }
        let changes = api_trace.launch_changes(event);
        assert!(changes.is_none_or(|l| l.list.iter().all(|l| l.bytes > 0 && l.span.start < l.span.end)));
    }
    true
}
