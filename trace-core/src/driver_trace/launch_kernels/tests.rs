//! Tests of kernels: a wrong name is worse than none.

use super::*;
use crate::GpuVa;
use crate::driver_trace::{DecodedSubmission, DriverTrace, SubmittedParameter};
use crate::progress::Progress;
use crate::recording::{
    ApiTraceMetadata, CALL_OF_GRAPH, CallFunction, CallRow, DriverTraceMetadata, EventsBuilder, RingEntryRow, TraceKind,
};

const THREAD: u32 = 5;
/// A parameter of eight bytes, and one of two with a gap before it.
const PARAMETERS: [[u32; 2]; 2] = [[0, 8], [12, 2]];

/// A launch of the program: function, blocks, the first parameter.
type Called = (u32, u32, u64);

/// The argument bytes with a value in the gap.
fn arguments(first: u64, gap: u8) -> Vec<u8> {
    let mut bytes = first.to_le_bytes().to_vec();
    bytes.extend([gap; 4]);
    bytes.extend([7, 0, gap, gap]);
    bytes
}

fn launch_row(b: &mut EventsBuilder, (function, blocks, first): Called, flags: u32) -> LaunchRow {
    let bytes = arguments(first, 0);
    LaunchRow {
        function,
        grid: [blocks, 1, 1],
        block: [64, 1, 1],
        arguments_at: b.call_bytes(&bytes),
        arguments: bytes.len() as u32,
        took: if flags == 0 { 50 } else { 0 },
        flags,
        ..LaunchRow::default()
    }
}

/// A recording of a call and its submission at event 0: a launch at event 1, or a graph launch at event 1 with launches.
fn recording(is_graph: bool, called: &[Called]) -> Recording {
    let mut b = EventsBuilder::new();
    b.ring_entry(120, THREAD, RingEntryRow::default());
    if is_graph {
        b.call(
            100,
            THREAD,
            CallRow {
                took: 50,
                ..CallRow::default()
            },
        );
    }
    for c in called {
        let row = launch_row(&mut b, *c, if is_graph { CALL_OF_GRAPH } else { 0 });
        b.launch(100, THREAD, row);
    }
    let mut recording = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    let function = CallFunction {
        parameters: PARAMETERS.to_vec(),
        ..CallFunction::default()
    };
    recording.metadata.kind = TraceKind::Api(ApiTraceMetadata {
        functions: vec![function.clone(), function],
        driver: Some(Box::new(DriverTraceMetadata::default())),
        ..ApiTraceMetadata::default()
    });
    recording
}

/// A launch of the GPU: blocks, and the first parameter if parameters are known.
fn submitted(word: u32, blocks: u32, first: Option<u64>) -> GpuWork {
    let bytes = first.map(|f| arguments(f, 0xff)).unwrap_or_default();
    GpuWork::Launch(Box::new(SubmittedLaunch {
        word,
        grid: [blocks, 1, 1],
        block: [64, 1, 1],
        parameters: SubmittedParameter::split(&bytes, &DriverTrace::default(), 0),
        program: GpuVa::new(0x1000),
        ..SubmittedLaunch::default()
    }))
}

/// Returns function and event of each launch of the GPU, by word.
fn find(recording: &Recording, launches: Vec<GpuWork>) -> Vec<Option<(u32, Option<u64>)>> {
    let trace = DriverTrace::from_recording(recording, &Progress::new())
        .unwrap()
        .unwrap();
    let calls = SubmissionCalls::from_recording(recording, &trace).unwrap();
    let words: Vec<u32> = launches.iter().map(GpuWork::word).collect();
    let decoded = DecodedSubmission {
        work: launches,
        ..DecodedSubmission::default()
    };
    let kernels = LaunchKernels::find(recording, &calls, &DriverWork::new(trace, vec![decoded]));
    for (word, event) in kernels.launches_of(0) {
        assert_eq!(kernels.find_launch(event), Some((0, word)));
    }
    let of = |word: &u32| kernels.kernel_of(0, *word).map(|k| (k.function, k.event));
    words.iter().map(of).collect()
}

#[test]
fn launch_has_the_kernel_of_its_call() {
    let r = recording(false, &[(1, 4, 0x10)]);
    assert_eq!(find(&r, vec![submitted(9, 4, Some(0x10))]), [Some((1, Some(1)))]);
    assert_eq!(
        find(&r, vec![submitted(9, 4, None)]),
        [Some((1, Some(1)))],
        "the only launch"
    );
}

#[test]
fn launches_of_the_driver_have_no_kernel() {
    let r = recording(false, &[(1, 4, 0x10)]);
    assert_eq!(find(&r, vec![submitted(9, 5, None)]), [None], "other blocks");
    assert_eq!(find(&r, vec![submitted(9, 4, Some(0x20))]), [None], "other arguments");
    let fill = vec![submitted(3, 8, None), submitted(9, 4, Some(0x10))];
    assert_eq!(find(&r, fill), [None, Some((1, Some(1)))]);
    let alike = vec![submitted(3, 4, None), submitted(9, 4, None)];
    assert_eq!(find(&r, alike), [None, None], "either may be the kernel");
    let twice = vec![submitted(3, 4, Some(0x10)), submitted(9, 4, Some(0x10))];
    assert_eq!(find(&r, twice), [None, None], "the program launched it once");
}

#[test]
fn launches_of_a_graph_need_their_arguments() {
    let r = recording(true, &[(0, 4, 0x10), (1, 4, 0x20)]);
    let both = vec![submitted(3, 4, Some(0x20)), submitted(9, 4, Some(0x10))];
    assert_eq!(find(&r, both), [Some((1, Some(3))), Some((0, Some(2)))]);
    assert_eq!(find(&r, vec![submitted(3, 4, None)]), [None]);
    let one = recording(true, &[(0, 4, 0x10)]);
    assert_eq!(
        find(&one, vec![submitted(3, 4, None)]),
        [None],
        "it may be a fill of the graph"
    );
    assert_eq!(find(&one, vec![submitted(3, 4, Some(0x10))]), [Some((0, Some(2)))]);
}

#[test]
fn equal_launches_have_a_kernel_and_no_event() {
    let same = recording(true, &[(1, 4, 0x10), (1, 4, 0x10)]);
    let two = || vec![submitted(3, 4, Some(0x10)), submitted(9, 4, Some(0x10))];
    assert_eq!(find(&same, two()), [Some((1, None)), Some((1, None))]);
    let others = recording(true, &[(0, 4, 0x10), (1, 4, 0x10)]);
    assert_eq!(
        find(&others, two()),
        [None, None],
        "two functions with the same arguments"
    );
}

#[test]
fn failed_and_captured_launches_name_nothing() {
    for (flags, result) in [(CALL_CAPTURED, 0), (0, 700)] {
        let mut b = EventsBuilder::new();
        b.ring_entry(120, THREAD, RingEntryRow::default());
        let row = launch_row(&mut b, (1, 4, 0x10), 0);
        b.launch(100, THREAD, LaunchRow { flags, result, ..row });
        let mut r = recording(false, &[]);
        r.events = b.finish();
        assert_eq!(find(&r, vec![submitted(9, 4, Some(0x10))]), [None]);
    }
}
