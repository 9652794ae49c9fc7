//! Tests of the calls of submissions: nested calls, graph launches, threads, long calls.

use super::*;
use crate::progress::Progress;
use crate::recording::{ApiTraceMetadata, CALL_OF_GRAPH, DriverTraceMetadata, EventsBuilder, RingEntryRow, TraceKind};

const THREAD: u32 = 5;

fn call(took: u32) -> CallRow {
    CallRow {
        took,
        ..CallRow::default()
    }
}

fn joined(events: EventsBuilder) -> Recording {
    let mut recording = Recording {
        events: events.finish(),
        ..Recording::default()
    };
    recording.metadata.kind = TraceKind::Api(ApiTraceMetadata {
        driver: Some(Box::new(DriverTraceMetadata::default())),
        ..ApiTraceMetadata::default()
    });
    recording
}

fn find(recording: &Recording) -> SubmissionCalls {
    let trace = DriverTrace::from_recording(recording, &Progress::new())
        .unwrap()
        .unwrap();
    SubmissionCalls::from_recording(recording, &trace).unwrap()
}

#[test]
fn submissions_belong_to_the_shortest_call_of_their_thread() {
    let mut b = EventsBuilder::new();
    b.ring_entry(120, THREAD, RingEntryRow::default());
    b.ring_entry(130, 6, RingEntryRow::default());
    b.call(115, THREAD, call(10));
    b.ring_entry(140, THREAD, RingEntryRow::default());
    b.call(100, THREAD, call(50));
    b.ring_entry(160, THREAD, RingEntryRow::default());
    let calls = find(&joined(b));
    let of: Vec<Option<u64>> = (0..5).map(|n| calls.call_of(n)).collect();
    assert_eq!(of, [Some(2), None, Some(4), None, None]);
    assert_eq!((calls.submissions_of(2), calls.submissions_of(4)), (&[0][..], &[2][..]));
    assert!(calls.submissions_of(1).is_empty());
}

#[test]
fn requests_are_no_calls_of_the_program() {
    let mut b = EventsBuilder::new();
    b.ring_entry(120, THREAD, RingEntryRow::default());
    let request = CallRow {
        flags: CallRow::REQUEST,
        ..call(50)
    };
    b.call(100, THREAD, request);
    b.call(90, THREAD, call(100));
    assert_eq!(find(&joined(b)).call_of(0), Some(2));
}

#[test]
fn calls_of_unknown_length_end_where_they_are() {
    let mut b = EventsBuilder::new();
    b.ring_entry(6_000_000_000, THREAD, RingEntryRow::default());
    b.call(100, THREAD, call(u32::MAX));
    b.ring_entry(7_000_000_000, THREAD, RingEntryRow::default());
    let calls = find(&joined(b));
    assert_eq!((calls.call_of(0), calls.call_of(1)), (Some(1), None));
}

#[test]
fn work_of_a_graph_has_the_submissions_of_its_launch() {
    let mut b = EventsBuilder::new();
    b.ring_entry(100, THREAD, RingEntryRow::default());
    b.call(100, THREAD, call(20));
    b.call(100, 6, call(1));
    let launch = LaunchRow {
        flags: CALL_OF_GRAPH,
        ..LaunchRow::default()
    };
    b.launch(100, THREAD, launch);
    b.copy(
        100,
        THREAD,
        CopyRow {
            flags: CALL_OF_GRAPH,
            ..CopyRow::default()
        },
    );
    let calls = find(&joined(b));
    assert_eq!(calls.call_of(0), Some(1), "nodes take no time and are no calls");
    for event in [1, 3, 4] {
        assert_eq!(calls.submissions_of(event), [0], "event {event}");
    }
    assert_eq!(calls.graph_kernels_of(1), [3]);
    assert_eq!((calls.graph_launch_of(4), calls.graph_launch_of(1)), (Some(1), None));
}

#[test]
fn recordings_of_one_level_have_none() {
    let mut recording = joined(EventsBuilder::new());
    recording.metadata.kind = TraceKind::Driver(DriverTraceMetadata::default());
    assert_eq!(
        SubmissionCalls::from_recording(&recording, &DriverTrace::default()),
        None
    );
    recording.metadata.kind = TraceKind::Api(ApiTraceMetadata::default());
    assert_eq!(
        SubmissionCalls::from_recording(&recording, &DriverTrace::default()),
        None
    );
}
