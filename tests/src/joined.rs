//! A recording of calls and of the requests below them: the log of a CUDA program on an H100, with a call around one of its
//! launches.

use std::path::PathBuf;
use trace_core::driver_trace::join_driver_trace;
use trace_core::recording::{
    ApiTraceMetadata, CallFunction, CallStream, EventsBuilder, LaunchRow, Recording, TraceKind,
};

/// Number of the submission with the launch.
pub const SUBMISSION: u32 = 221;
/// Event of this submission in the log.
const RING_ENTRY: usize = 1215;
/// Start of the times of both recordings on the clock of the machine, nanoseconds.
const CLOCK_START: u64 = 1_000_000_000;
/// Offsets and sizes of the parameters of the kernel: three pointers and a number.
const PARAMETERS: [[u32; 2]; 4] = [[0, 8], [8, 8], [16, 8], [24, 4]];

/// Returns the log of the project that [`add_launch`] needs.
#[must_use]
pub fn vadd_log() -> PathBuf {
    crate::root().join("trace-core/import/tests/nvidia/h100-cuda-vadd.klog.gz")
}

/// Adds a call to the recording of [`vadd_log`]: a launch of `vadd(float const*, float const*, float*, int)` with 4 blocks of
/// 256 threads.
///
/// # Panics
/// If it is another recording.
#[must_use]
pub fn add_launch(mut driver: Recording) -> Recording {
    let TraceKind::Driver(requests) = &mut driver.metadata.kind else {
        panic!("the log is a driver trace");
    };
    requests.clock_start = Some(CLOCK_START);
    let process = requests.process.unwrap_or(1);
    let events = &driver.events;
    let time = events.time.get(RING_ENTRY).unwrap_or(1);
    let thread = events.thread.get(RING_ENTRY).unwrap_or(0);
    let mut b = EventsBuilder::new();
    let mut arguments = Vec::new();
    for pointer in [0x7f2b_d080_0000u64, 0x7f2b_d080_1000, 0x7f2b_d080_2000] {
        arguments.extend(pointer.to_le_bytes());
    }
    arguments.extend(1000u32.to_le_bytes());
    let row = LaunchRow {
        grid: [4, 1, 1],
        block: [256, 1, 1],
        arguments_at: b.call_bytes(&arguments),
        arguments: arguments.len() as u32,
        took: 2,
        ..LaunchRow::default()
    };
    b.launch(time.saturating_sub(1), thread, row);
    let mut calls = ApiTraceMetadata {
        functions: vec![CallFunction {
            name: "_Z4vaddPKfS0_Pfi".into(),
            demangled: "vadd(float const*, float const*, float*, int)".into(),
            parameters: PARAMETERS.to_vec(),
            ..CallFunction::default()
        }],
        streams: vec![CallStream::default()],
        clock_start: Some(CLOCK_START),
        ..ApiTraceMetadata::default()
    };
    calls.process.number = process;
    let mut api = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    api.metadata.kind = TraceKind::Api(calls);
    join_driver_trace(&api, &driver).unwrap_or_else(|e| panic!("{e}"))
}
