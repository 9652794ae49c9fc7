//! Memory traces of targets, on random recordings: every known byte is the content of memory, no known byte is lost,
//! and launches are reported to the byte.

use crate::calls::naive::{Step, holds, live, make, may_write, wrote};
use crate::calls::net::{DeviceMemory, WINDOW};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use trace_core::api_trace::{
    ApiTrace, BufferKind, ContentState, MemorySample, MemoryTrace, MemoryTraceError, UnknownReason,
};
use trace_core::progress::Progress;
use trace_core::recording::{CallEvent, Recording};

/// Bytes of a place; those of a device have 4096.
const PLACE: u64 = 8;
const PLACES: u64 = 12;

type MemoryAtEvents = Vec<DeviceMemory>;

fn bytes_at(held: &MemoryAtEvents, next_event: u64, at: u64) -> Vec<u8> {
    let byte = |a| held[next_event as usize].get(a);
    (at..at + PLACE).map(byte).collect()
}

/// The memory trace of a target over these ranges and events, with the initial content of all ranges on request.
fn build_trace(
    r: &Recording,
    held: &MemoryAtEvents,
    events: Range<u64>,
    places: Range<u64>,
    look: bool,
) -> MemoryTrace {
    let (mut samples, mut content) = (Vec::new(), Vec::new());
    let mut see = |at: u64, next_event: u64| {
        if samples
            .iter()
            .any(|s: &MemorySample| (s.at, s.next_event) == (at, next_event))
        {
            return;
        }
        let from = content.len() as u64;
        content.extend(bytes_at(held, next_event, at));
        samples.push(MemorySample {
            at,
            next_event,
            bytes: PLACE as u32,
            content: from,
        });
    };
    let each = || places.clone().map(|n| WINDOW + n * PLACE);
    if look {
        each().for_each(|at| see(at, events.start));
    }
    for e in events.clone().filter(|e| is_launch(r, *e)) {
        for at in each().filter(|at| bytes_at(held, e, *at) != bytes_at(held, e + 1, *at)) {
            see(at, e);
            see(at, e + 1);
        }
    }
    let range = WINDOW + places.start * PLACE..WINDOW + places.end * PLACE;
    let ranges = if range.is_empty() { Vec::new() } else { vec![range] };
    let whole = places == (0..PLACES);
    MemoryTrace::new("board", events, whole, ranges, samples, content).unwrap()
}

fn is_launch(r: &Recording, event: u64) -> bool {
    matches!(r.events.call(event as usize), Some(CallEvent::Launch(_)))
}

/// A part of `0..most`, by two numbers.
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
        asks in prop::collection::vec(any::<TraceParameters>(), 1..4),
    ) {
        let (r, held) = make(&steps);
        let end = r.events.len() as u64;
        let bare = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        let mut api_trace = bare.clone();
        for (a, b, c, d, look) in asks {
            api_trace = api_trace.with_memory_trace(Arc::new(build_trace(&r, &held, part(a, b, end), part(c, d, PLACES), look)), &Progress::new()).unwrap();
        }
        let range = WINDOW..WINDOW + 90;
        for event in 0..=end {
            let (before, now) = (bare.read(&r, range.clone(), event), api_trace.read(&r, range.clone(), event));
            let state = |read: &trace_core::api_trace::DeviceBytes, at: u64| {
                read.pieces.iter().find(|p| p.range.contains(&at)).unwrap().state
            };
            for (n, at) in range.clone().enumerate() {
                let content_state = state(&now, at);
                if content_state.is_known() {
                    let was = held[event as usize].get(at);
                    prop_assert_eq!(now.bytes[n], was, "byte {} at {}: {:?}", n, event, content_state);
                } else {
                    prop_assert!(!state(&before, at).is_known(), "byte {} at {}: {:?}", n, event, content_state);
                }
                // What was copied on the device is in doubt where it came from.
                if let ContentState::Unknown(UnknownReason::Launch { .. }, launch) = content_state
                    && !(launch..event).any(|e| wrote(&r, e, at))
                {
                    prop_assert!(!api_trace.is_traced(at, launch), "byte {} at {}: {:?}", n, event, content_state);
                }
            }
        }
    }

    #[test]
    fn recorded_memory_takes_precedence_over_a_memory_trace(
        steps in steps(),
        asks in prop::collection::vec(any::<TraceParameters>(), 1..4),
    ) {
        let (r, held) = make(&steps);
        let end = r.events.len() as u64;
        let bare = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        // Everything that this target reports differs, like the results of a program that leaves other sums each time.
        let other: MemoryAtEvents = held.iter().map(|m| m.map(|b| b ^ 0xa5)).collect();
        let mut api_trace = bare.clone();
        for (a, b, c, d, look) in asks {
            api_trace = api_trace.with_memory_trace(Arc::new(build_trace(&r, &other, part(a, b, end), part(c, d, PLACES), look)), &Progress::new()).unwrap();
        }
        let range = WINDOW..WINDOW + 90;
        for event in 0..=end {
            let (before, now) = (bare.read(&r, range.clone(), event), api_trace.read(&r, range.clone(), event));
            for p in before.pieces.iter().filter(|p| p.state.is_known()) {
                let part = (p.range.start - range.start) as usize..(p.range.end - range.start) as usize;
                prop_assert_eq!(&now.bytes[part.clone()], &before.bytes[part], "{:?} at {}", p, event);
            }
        }
    }

    #[test]
    fn memory_trace_narrows_the_last_writer_to_a_launch(
        steps in steps(),
        asks in prop::collection::vec(any::<TraceParameters>(), 1..4),
    ) {
        let (r, held) = make(&steps);
        let end = r.events.len() as u64;
        let mut api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        for (a, b, c, d, look) in asks {
            api_trace = api_trace.with_memory_trace(Arc::new(build_trace(&r, &held, part(a, b, end), part(c, d, PLACES), look)), &Progress::new()).unwrap();
        }
        for event in 0..=end {
            for at in (WINDOW..WINDOW + 80).step_by(3) {
                if holds(&live(&r, event), at).is_none() {
                    continue;
                }
                let who = api_trace.find_last_writer(&r, at, event);
                let byte = |next_event: u64| held[next_event as usize].get(at);
                let since = who.allocated_at.unwrap();
                let last = (since..event).rev().find(|e| wrote(&r, *e, at));
                prop_assert_eq!(who.certain.map(|c| c.0), last);
                let behind = last.map_or(since, |l| l + 1);
                let watched = |e: &u64| is_launch(&r, *e) && api_trace.is_traced(at, *e);
                let changed = (behind..event).rev().find(|e| watched(e) && byte(*e) != byte(*e + 1));
                prop_assert_eq!(who.change.map(|c| c.event), changed);
                if let Some(c) = who.change {
                    prop_assert_eq!((c.before, c.after), (byte(c.event), byte(c.event + 1)));
                    prop_assert_eq!(api_trace.launches()[c.launch as usize].event, c.event);
                }
                let behind = changed.map_or(behind, |e| e + 1);
                let may = (behind..event).rev().filter(|e| may_write(&r, *e, at));
                let (sure, doubt): (Vec<u64>, Vec<u64>) = may.partition(|e| api_trace.is_traced(at, *e));
                let entries: Vec<u64> = who.launches.iter().map(|l| l.event).collect();
                prop_assert_eq!(entries, doubt);
                prop_assert_eq!(who.excluded, sure.len() as u64);
            }
        }
    }

    #[test]
    fn complete_memory_trace_leaves_no_uncertain_launch(steps in steps()) {
        let (r, held) = make(&steps);
        let end = r.events.len() as u64;
        let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        let trace = build_trace(&r, &held, 0..end, 0..PLACES, true);
        let api_trace = api_trace.with_memory_trace(Arc::new(MemoryTrace::from_bytes(&trace.to_bytes().unwrap()).unwrap()), &Progress::new());
        let api_trace = api_trace.unwrap();
        for event in 0..=end {
            for p in api_trace.pieces(&r, WINDOW..WINDOW + PLACES * PLACE, event) {
                let in_buffer = holds(&live(&r, event), p.range.start).is_some();
                let doubt = matches!(p.state, ContentState::Unknown(UnknownReason::Launch { .. }, _));
                prop_assert!(!in_buffer || !doubt, "{:?} at {}", p, event);
            }
        }
        // What each launch changed, by buffers, is all that it changed in them.
        for l in api_trace.launches() {
            let left = api_trace.launch_changes(l.event).unwrap();
            prop_assert!(left.complete);
            let inside = left.list.iter().filter(|l| l.buffer.is_some());
            let reported: u64 = inside.map(|l| l.bytes).sum();
            let (was, is) = (&held[l.event as usize], &held[l.event as usize + 1]);
            let byte = |held: &DeviceMemory, a| held.get(a);
            let all = WINDOW..WINDOW + PLACES * PLACE;
            let all = all.filter(|a| byte(was, *a) != byte(is, *a)).count();
            prop_assert_eq!(reported, all as u64);
            for l in left.list.iter().filter(|l| l.buffer.is_some()) {
                let b = api_trace.buffers().get(l.buffer.unwrap()).unwrap();
                prop_assert!(b.at <= l.span.start && l.span.end <= b.end() && b.kind == BufferKind::Allocated);
            }
        }
    }
}

#[test]
fn invalid_memory_traces_are_refused() {
    let sample = |at, next_event, bytes, content| MemorySample {
        at,
        next_event,
        bytes,
        content,
    };
    let range = |from: u64, to: u64| from..to;
    let of = |ranges: Vec<Range<u64>>, samples: Vec<MemorySample>| {
        MemoryTrace::new("b", 3..9, true, ranges, samples, vec![0; 100])
    };
    let all = || vec![range(0x1000, 0x9000)];
    assert!(of(all(), vec![sample(0x1000, 3, 8, 0), sample(0x1000, 9, 8, 92)]).is_ok());
    let wrong = [
        of(vec![range(5, 5)], Vec::new()),
        of(vec![range(5, 9), range(8, 12)], Vec::new()),
        of(all(), vec![sample(0x1000, 3, 0, 0)]),
        of(all(), vec![sample(0x1000, 3, 4097, 0)]),
        of(all(), vec![sample(u64::MAX, 3, 8, 0)]),
        of(all(), vec![sample(0x1000, 2, 8, 0)]),
        of(all(), vec![sample(0x1000, 10, 8, 0)]),
        of(all(), vec![sample(0x1000, 3, 8, 93)]),
        of(all(), vec![sample(0x1000, 3, 8, u64::MAX)]),
        of(all(), vec![sample(0x1000, 3, 8, 0), sample(0x1004, 3, 8, 0)]),
        of(all(), vec![sample(0x1000, 3, 8, 0), sample(0x1000, 4, 9, 0)]),
        of(all(), vec![sample(0x1000, 3, 8, 0), sample(0x1000, 3, 8, 0)]),
    ];
    for (n, w) in wrong.into_iter().enumerate() {
        assert!(matches!(w, Err(MemoryTraceError::Damaged { .. })), "{n}: {w:?}");
    }
    let good = of(all(), vec![sample(0x1000, 3, 8, 0)]).unwrap();
    let bytes = good.to_bytes().unwrap();
    assert_eq!(MemoryTrace::from_bytes(&bytes).unwrap(), good);
    for cut in 0..bytes.len() {
        // A missing end is detected where a sample lies in it.
        let read = MemoryTrace::from_bytes(&bytes[..cut]);
        assert!(read.is_err() || cut >= bytes.len() - 92, "{cut}");
    }
}

#[test]
fn more_complete_memory_trace_replaces_its_predecessor() {
    let (r, _) = make(&[(0, 0, 20, 0, false), (8, 0, 0, 0, false)]);
    let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
    let of = |events: Range<u64>, to: u64| {
        let ranges = std::iter::once(WINDOW..WINDOW + to).collect();
        Arc::new(MemoryTrace::new("b", events, false, ranges, Vec::new(), Vec::new()).unwrap())
    };
    let with = |c: &ApiTrace, w: Arc<MemoryTrace>| c.with_memory_trace(w, &Progress::new()).unwrap();
    let api_trace = with(&with(&api_trace, of(0..1, 8)), of(1..2, 16));
    assert_eq!(api_trace.memory_traces().len(), 2);
    assert_eq!(with(&api_trace, of(0..2, 16)).memory_traces().len(), 1);
    assert_eq!(
        with(&api_trace, of(0..2, 12)).memory_traces().len(),
        2,
        "the second one watched more memory"
    );
}
