//! Tests of memory traces of random recordings. Every known byte must have the real content of memory, and no known
//! byte may be lost. The changes of launches must be exact to the byte.

use crate::calls::naive::{Step, build_recording, find_buffer, live, may_write, writes};
use crate::calls::net::{DeviceMemory, WINDOW};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::api_trace::{
    ApiTrace, BufferKind, ContentSource, ContentState, MemorySample, MemoryTrace, MemoryTraceError, UnknownReason,
};
use trace_core::progress::Progress;
use trace_core::recording::{CallEvent, Recording};

/// Size of a block, bytes. Blocks of a device have 4096 bytes.
const BLOCK: u64 = 8;
const BLOCKS: u64 = 12;

type MemoryAtEvents = Vec<DeviceMemory>;

fn bytes_at(contents: &MemoryAtEvents, next_event: u64, at: u64) -> Vec<u8> {
    let byte = |a| contents[next_event as usize].get(a);
    (at..at + BLOCK).map(byte).collect()
}

/// Returns the memory trace of these blocks and events. With `initial`, it has the content of all blocks at the start.
fn build_trace(
    r: &Recording,
    contents: &MemoryAtEvents,
    events: Range<u64>,
    blocks: Range<u64>,
    initial: bool,
) -> MemoryTrace {
    let (mut samples, mut content) = (Vec::new(), Vec::new());
    let mut add_sample = |at: u64, next_event: u64| {
        if samples
            .iter()
            .any(|s: &MemorySample| (s.at, s.next_event) == (GpuVa::new(at), next_event))
        {
            return;
        }
        let from = content.len() as u64;
        content.extend(bytes_at(contents, next_event, at));
        samples.push(MemorySample {
            at: GpuVa::new(at),
            next_event,
            bytes: BLOCK as u32,
            content: from,
        });
    };
    let addresses = || blocks.clone().map(|n| WINDOW + n * BLOCK);
    if initial {
        addresses().for_each(|at| add_sample(at, events.start));
    }
    for e in events.clone().filter(|e| is_launch(r, *e)) {
        for at in addresses().filter(|at| bytes_at(contents, e, *at) != bytes_at(contents, e + 1, *at)) {
            add_sample(at, e);
            add_sample(at, e + 1);
        }
    }
    let range = WINDOW + blocks.start * BLOCK..WINDOW + blocks.end * BLOCK;
    let ranges = if range.is_empty() {
        Vec::new()
    } else {
        vec![GpuVa::new_range(range)]
    };
    let whole = blocks == (0..BLOCKS);
    MemoryTrace::new("board", events, whole, ranges, samples, content).unwrap()
}

fn is_launch(r: &Recording, event: u64) -> bool {
    matches!(r.events.call(event as usize), Some(CallEvent::Launch(_)))
}

/// Returns a random part of `0..max` from two numbers.
fn part(one: u64, two: u64, max: u64) -> Range<u64> {
    let (a, b) = (one % (max + 1), two % (max + 1));
    a.min(b)..a.max(b)
}

type TraceParameters = (u64, u64, u64, u64, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        (any::<u8>(), any::<u64>(), any::<u64>(), any::<u8>(), any::<bool>()),
        1..40,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn memory_trace_matches_the_content_and_loses_nothing(
        steps in steps(),
        parameters in prop::collection::vec(any::<TraceParameters>(), 1..4),
    ) {
        let (r, contents) = build_recording(&steps);
        let end = r.events.len() as u64;
        let bare = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        let mut api_trace = bare.clone();
        for (a, b, c, d, initial) in parameters {
            api_trace = api_trace.with_memory_trace(Arc::new(build_trace(&r, &contents, part(a, b, end), part(c, d, BLOCKS), initial)), &Progress::new()).unwrap();
        }
        let range = WINDOW..WINDOW + 90;
        for event in 0..=end {
            let (before, now) = (bare.read(&r, GpuVa::new_range(range.clone()), event), api_trace.read(&r, GpuVa::new_range(range.clone()), event));
            let state = |read: &trace_core::api_trace::DeviceBytes, at: u64| {
                read.pieces.iter().find(|p| p.range.contains(&GpuVa::new(at))).unwrap().state
            };
            for (n, at) in range.clone().enumerate() {
                let content_state = state(&now, at);
                if content_state.is_known() {
                    let real = contents[event as usize].get(at);
                    prop_assert_eq!(now.bytes[n], real, "byte {} at {}: {:?}", n, event, content_state);
                } else {
                    prop_assert!(!state(&before, at).is_known(), "byte {} at {}: {:?}", n, event, content_state);
                }
                // A byte that a copy on the device wrote can be uncertain because of its source.
                if let ContentState::Unknown(UnknownReason::Launch { .. }, launch) = content_state
                    && !(launch..event).any(|e| writes(&r, e, at))
                {
                    prop_assert!(!api_trace.is_traced(GpuVa::new(at), launch), "byte {} at {}: {:?}", n, event, content_state);
                }
            }
        }
    }

    #[test]
    fn recorded_memory_takes_precedence_over_a_memory_trace(
        steps in steps(),
        parameters in prop::collection::vec(any::<TraceParameters>(), 1..4),
    ) {
        let (r, contents) = build_recording(&steps);
        let end = r.events.len() as u64;
        let bare = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        // All bytes of this trace differ, as for a program whose results differ in every run.
        let other: MemoryAtEvents = contents.iter().map(|m| m.map(|b| b ^ 0xa5)).collect();
        let mut api_trace = bare.clone();
        for (a, b, c, d, initial) in parameters {
            api_trace = api_trace.with_memory_trace(Arc::new(build_trace(&r, &other, part(a, b, end), part(c, d, BLOCKS), initial)), &Progress::new()).unwrap();
        }
        let range = WINDOW..WINDOW + 90;
        for event in 0..=end {
            let (before, now) = (bare.read(&r, GpuVa::new_range(range.clone()), event), api_trace.read(&r, GpuVa::new_range(range.clone()), event));
            for p in before.pieces.iter().filter(|p| p.state.is_known()) {
                let part = (p.range.start - GpuVa::new(range.start)) as usize..(p.range.end - GpuVa::new(range.start)) as usize;
                prop_assert_eq!(&now.bytes[part.clone()], &before.bytes[part], "{:?} at {}", p, event);
            }
        }
    }

    #[test]
    fn memory_trace_narrows_the_last_writer_to_a_launch(
        steps in steps(),
        parameters in prop::collection::vec(any::<TraceParameters>(), 1..4),
    ) {
        let (r, contents) = build_recording(&steps);
        let end = r.events.len() as u64;
        let mut api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        for (a, b, c, d, initial) in parameters {
            api_trace = api_trace.with_memory_trace(Arc::new(build_trace(&r, &contents, part(a, b, end), part(c, d, BLOCKS), initial)), &Progress::new()).unwrap();
        }
        for event in 0..=end {
            for at in (WINDOW..WINDOW + 80).step_by(3) {
                if find_buffer(&live(&r, event), at).is_none() {
                    continue;
                }
                let writer = api_trace.find_last_writer(&r, GpuVa::new(at), event);
                let byte = |next_event: u64| contents[next_event as usize].get(at);
                let since = writer.allocated_at.unwrap();
                let last = (since..event).rev().find(|e| writes(&r, *e, at));
                prop_assert_eq!(writer.certain.map(|c| c.0), last);
                let start = last.map_or(since, |l| l + 1);
                let traced = |e: &u64| is_launch(&r, *e) && api_trace.is_traced(GpuVa::new(at), *e);
                let changed = (start..event).rev().find(|e| traced(e) && byte(*e) != byte(*e + 1));
                prop_assert_eq!(writer.change.map(|c| c.event), changed);
                if let Some(c) = writer.change {
                    prop_assert_eq!((c.before, c.after), (byte(c.event), byte(c.event + 1)));
                    prop_assert_eq!(api_trace.launches()[c.launch as usize].event, c.event);
                }
                let start = changed.map_or(start, |e| e + 1);
                let possible = (start..event).rev().filter(|e| may_write(&r, *e, at));
                let (excluded, possible): (Vec<u64>, Vec<u64>) = possible.partition(|e| api_trace.is_traced(GpuVa::new(at), *e));
                let entries: Vec<u64> = writer.launches.iter().map(|l| l.event).collect();
                prop_assert_eq!(entries, possible);
                prop_assert_eq!(writer.excluded, excluded.len() as u64);
            }
        }
    }

    #[test]
    fn complete_memory_trace_leaves_no_uncertain_launch(steps in steps()) {
        let (r, contents) = build_recording(&steps);
        let end = r.events.len() as u64;
        let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        let trace = build_trace(&r, &contents, 0..end, 0..BLOCKS, true);
        let api_trace = api_trace.with_memory_trace(Arc::new(MemoryTrace::from_bytes(&trace.to_bytes().unwrap()).unwrap()), &Progress::new());
        let api_trace = api_trace.unwrap();
        for event in 0..=end {
            for p in api_trace.pieces(&r, GpuVa::new(WINDOW)..GpuVa::new(WINDOW + BLOCKS * BLOCK), event) {
                let in_buffer = find_buffer(&live(&r, event), p.range.start.get()).is_some();
                let doubt = matches!(p.state, ContentState::Unknown(UnknownReason::Launch { .. }, _));
                prop_assert!(!in_buffer || !doubt, "{:?} at {}", p, event);
            }
        }
        // The reported changes of each launch must be all changes in its buffers.
        for l in api_trace.launches() {
            let changes = api_trace.launch_changes(l.event).unwrap();
            prop_assert!(changes.complete);
            let inside = changes.list.iter().filter(|l| l.buffer.is_some());
            let reported: u64 = inside.map(|l| l.bytes).sum();
            let (before, after) = (&contents[l.event as usize], &contents[l.event as usize + 1]);
            let byte = |contents: &DeviceMemory, a| contents.get(a);
            let all = WINDOW..WINDOW + BLOCKS * BLOCK;
            let all = all.filter(|a| byte(before, *a) != byte(after, *a)).count();
            prop_assert_eq!(reported, all as u64);
            for l in changes.list.iter().filter(|l| l.buffer.is_some()) {
                let b = api_trace.buffers().get(l.buffer.unwrap()).unwrap();
                prop_assert!(b.at <= l.span.start && l.span.end <= b.end() && b.kind == BufferKind::Allocated);
            }
        }
    }
}

/// A search among later writes can find that a piece ends within what a copy wrote.
#[test]
fn later_readback_after_the_rows_of_a_copy_takes_precedence_over_a_memory_trace() {
    let (r, contents) = build_recording(&[
        (0, 1, 12, 0, false),  // Allocates 13 bytes at offset 16.
        (8, 16, 0, 4, false),  // Launches a kernel that writes the buffer.
        (5, 16, 16, 3, false), // Copies 4 bytes on the device.
        (3, 16, 2, 9, false),  // Copies rows of 2 bytes, 4 bytes apart, from the host.
        (7, 16, 3, 0, true),   // Reads 4 bytes back.
    ]);
    let other: MemoryAtEvents = contents.iter().map(|m| m.map(|b| b ^ 0xa5)).collect();
    let bare = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
    let trace = Arc::new(build_trace(&r, &other, 0..2, 0..BLOCKS, true));
    let api_trace = bare.with_memory_trace(trace, &Progress::new()).unwrap();
    let state = |trace: &ApiTrace, offset: u64| {
        let read = trace.read(&r, GpuVa::new(WINDOW + 16)..GpuVa::new(WINDOW + 20), 3);
        let at = GpuVa::new(WINDOW + offset);
        read.pieces.iter().find(|p| p.range.contains(&at)).unwrap().state
    };
    let read_back = ContentState::Known(ContentSource::ReadBack, 4);
    assert_eq!((state(&bare, 18), state(&bare, 19)), (read_back, read_back));
    assert_eq!(state(&api_trace, 17), ContentState::Known(ContentSource::TraceAfter, 1));
    assert_eq!((state(&api_trace, 18), state(&api_trace, 19)), (read_back, read_back));
}

#[test]
fn invalid_memory_traces_are_refused() {
    let sample = |at, next_event, bytes, content| MemorySample {
        at,
        next_event,
        bytes,
        content,
    };
    let range = |from: u64, to: u64| GpuVa::new(from)..GpuVa::new(to);
    let trace = |ranges: Vec<Range<GpuVa>>, samples: Vec<MemorySample>| {
        MemoryTrace::new("b", 3..9, true, ranges, samples, vec![0; 100])
    };
    let all = || vec![range(0x1000, 0x9000)];
    assert!(
        trace(
            all(),
            vec![
                sample(GpuVa::new(0x1000), 3, 8, 0),
                sample(GpuVa::new(0x1000), 9, 8, 92)
            ]
        )
        .is_ok()
    );
    let invalid = [
        trace(vec![range(5, 5)], Vec::new()),
        trace(vec![range(5, 9), range(8, 12)], Vec::new()),
        trace(all(), vec![sample(GpuVa::new(0x1000), 3, 0, 0)]),
        trace(all(), vec![sample(GpuVa::new(0x1000), 3, 4097, 0)]),
        trace(all(), vec![sample(GpuVa::MAX, 3, 8, 0)]),
        trace(all(), vec![sample(GpuVa::new(0x1000), 2, 8, 0)]),
        trace(all(), vec![sample(GpuVa::new(0x1000), 10, 8, 0)]),
        trace(all(), vec![sample(GpuVa::new(0x1000), 3, 8, 93)]),
        trace(all(), vec![sample(GpuVa::new(0x1000), 3, 8, u64::MAX)]),
        trace(
            all(),
            vec![sample(GpuVa::new(0x1000), 3, 8, 0), sample(GpuVa::new(0x1004), 3, 8, 0)],
        ),
        trace(
            all(),
            vec![sample(GpuVa::new(0x1000), 3, 8, 0), sample(GpuVa::new(0x1000), 4, 9, 0)],
        ),
        trace(
            all(),
            vec![sample(GpuVa::new(0x1000), 3, 8, 0), sample(GpuVa::new(0x1000), 3, 8, 0)],
        ),
    ];
    for (n, w) in invalid.into_iter().enumerate() {
        assert!(matches!(w, Err(MemoryTraceError::Damaged { .. })), "{n}: {w:?}");
    }
    let good = trace(all(), vec![sample(GpuVa::new(0x1000), 3, 8, 0)]).unwrap();
    let bytes = good.to_bytes().unwrap();
    assert_eq!(MemoryTrace::from_bytes(&bytes).unwrap(), good);
    for cut in 0..bytes.len() {
        // The bytes of this file that follow its only sample may be missing without an error.
        let read = MemoryTrace::from_bytes(&bytes[..cut]);
        assert!(read.is_err() || cut >= bytes.len() - 92, "{cut}");
    }
}

#[test]
fn more_complete_memory_trace_replaces_its_predecessor() {
    let (r, _) = build_recording(&[(0, 0, 20, 0, false), (8, 0, 0, 0, false)]);
    let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
    let trace = |events: Range<u64>, to: u64| {
        let ranges = vec![GpuVa::new(WINDOW)..GpuVa::new(WINDOW + to)];
        Arc::new(MemoryTrace::new("b", events, false, ranges, Vec::new(), Vec::new()).unwrap())
    };
    let with = |c: &ApiTrace, w: Arc<MemoryTrace>| c.with_memory_trace(w, &Progress::new()).unwrap();
    let api_trace = with(&with(&api_trace, trace(0..1, 8)), trace(1..2, 16));
    assert_eq!(api_trace.memory_traces().len(), 2);
    assert_eq!(with(&api_trace, trace(0..2, 16)).memory_traces().len(), 1);
    assert_eq!(
        with(&api_trace, trace(0..2, 12)).memory_traces().len(),
        2,
        "the second trace has more memory"
    );
}
