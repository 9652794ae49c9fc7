//! Tests of memory contents and last writers at every event of random recordings. A walk over all events for each byte
//! and the real content of memory give the expected results.

use crate::calls::net::{Build, DeviceMemory, WINDOW};
use proptest::prelude::*;
use std::collections::BTreeMap;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, ContentState, UnknownReason};
use trace_core::progress::Progress;
use trace_core::recording::{AllocationKind, CallEvent, CallFunction, CopyKind, NO_CONTENT, OrderRow, Recording};

/// State of a byte, computed by a walk over the events.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NaiveState {
    NotAllocated,
    Never,
    Known(u8),
    Launch(u64),
    NotRecorded(u64),
}

/// Returns functions with different pointer parameters: writable, const, in a struct, and an integer.
fn functions() -> Vec<CallFunction> {
    let function = |demangled: &str, parameters: &[[u32; 2]]| CallFunction {
        name: demangled.split('(').next().unwrap().into(),
        demangled: demangled.into(),
        parameters: parameters.to_vec(),
        ..Default::default()
    };
    vec![
        function("plain(float*)", &[[0, 8]]),
        function("reads(float const*)", &[[0, 8]]),
        function("inside(Pair)", &[[0, 16]]),
        function("number(unsigned long)", &[[0, 8]]),
    ]
}

/// Returns address and size of the buffers that are allocated before an event.
pub fn live(r: &Recording, event: u64) -> BTreeMap<u64, u64> {
    let mut live = BTreeMap::new();
    for at in 0..event as usize {
        if let Some(CallEvent::Allocation(a)) = r.events.call(at) {
            match AllocationKind::from_raw(a.kind).unwrap() {
                AllocationKind::Take => live.insert(a.at.get(), a.bytes),
                _ => live.remove(&a.at.get()),
            };
        }
    }
    live
}

/// Returns address and size of the buffer that contains an address.
pub fn find_buffer(live: &BTreeMap<u64, u64>, address: u64) -> Option<(u64, u64)> {
    let buffer = live
        .iter()
        .find(|(at, bytes)| **at <= address && address < **at + **bytes);
    buffer.map(|(a, b)| (*a, *b))
}

/// Returns whether an event may write an unknown value to an address.
pub fn may_write(r: &Recording, event: u64, address: u64) -> bool {
    let Some(CallEvent::Launch(l)) = r.events.call(event as usize) else {
        return false;
    };
    let live = live(r, event);
    let Some((at, bytes)) = find_buffer(&live, address) else {
        return true;
    };
    let words = r.events.call_arguments(l.arguments_at, l.arguments).unwrap();
    let words: Vec<u64> = words
        .chunks(8)
        .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
        .collect();
    let into = |w: &u64| at <= *w && *w < at + bytes;
    match l.function {
        0 => into(&words[0]),
        2 => words.iter().any(into),
        _ => false,
    }
}

/// Returns the row and the offset in the row of an address in a copy or a fill.
fn locate_byte(at: u64, bytes: u64, rows: u64, pitch: u64, address: u64) -> Option<(u64, u64)> {
    (0..rows).find_map(|n| {
        let from = at + n * pitch;
        (from <= address && address < from + bytes).then(|| (n, address - from))
    })
}

/// Returns the state of a byte that a copy or a fill defines, or `None` for other events.
fn certain(r: &Recording, event: u64, address: u64) -> Option<NaiveState> {
    match r.events.call(event as usize)? {
        CallEvent::Copy(c) => match CopyKind::from_raw(c.kind)? {
            CopyKind::HostToDevice => {
                let (n, by) = locate_byte(c.to, c.bytes, c.rows, c.to_pitch, address)?;
                Some(match r.copy_content(&c) {
                    Some(all) => NaiveState::Known(all[(n * c.bytes + by) as usize]),
                    None => NaiveState::NotRecorded(event),
                })
            }
            CopyKind::DeviceToHost if c.pages_at != NO_CONTENT => {
                let (n, by) = locate_byte(c.from, c.bytes, c.rows, c.from_pitch, address)?;
                Some(NaiveState::Known(
                    r.copy_content(&c).unwrap()[(n * c.bytes + by) as usize],
                ))
            }
            CopyKind::DeviceToDevice => {
                let (n, by) = locate_byte(c.to, c.bytes, c.rows, c.to_pitch, address)?;
                Some(walk(r, c.from + n * c.from_pitch + by, event))
            }
            _ => None,
        },
        CallEvent::Fill(f) => {
            let (_, by) = locate_byte(f.to.get(), f.elements * u64::from(f.element), f.rows, f.pitch, address)?;
            Some(NaiveState::Known(
                f.value.to_le_bytes()[(by % u64::from(f.element)) as usize],
            ))
        }
        _ => None,
    }
}

/// Returns whether an event certainly writes to an address.
pub fn writes(r: &Recording, event: u64, address: u64) -> bool {
    match r.events.call(event as usize) {
        Some(CallEvent::Copy(c)) => {
            c.kind != CopyKind::DeviceToHost as u32 && locate_byte(c.to, c.bytes, c.rows, c.to_pitch, address).is_some()
        }
        Some(CallEvent::Fill(f)) => {
            locate_byte(f.to.get(), f.elements * u64::from(f.element), f.rows, f.pitch, address).is_some()
        }
        _ => false,
    }
}

/// Returns the state of a byte before an event, computed by a walk over all events.
fn walk(r: &Recording, address: u64, event: u64) -> NaiveState {
    let mut current = NaiveState::NotAllocated;
    let covers = |e: u64| match r.events.call(e as usize) {
        Some(CallEvent::Allocation(a)) if a.at <= GpuVa::new(address) && address < (a.at + a.bytes).get() => Some(a),
        _ => None,
    };
    for e in 0..event {
        if let Some(a) = covers(e) {
            current = if a.kind == AllocationKind::Take as u32 {
                NaiveState::Never
            } else {
                NaiveState::NotAllocated
            };
        } else if may_write(r, e, address) {
            current = NaiveState::Launch(e);
        } else if let Some(state) = certain(r, e, address) {
            current = state;
        }
    }
    if matches!(current, NaiveState::Known(_)) {
        return current;
    }
    for e in event..r.events.len() as u64 {
        if covers(e).is_some() || may_write(r, e, address) || writes(r, e, address) {
            break;
        }
        if let Some(CallEvent::Copy(c)) = r.events.call(e as usize)
            && c.kind == CopyKind::DeviceToHost as u32
            && let Some(state) = certain(r, e, address)
        {
            return state;
        }
    }
    current
}

/// A random call: its kind, and four parameters.
pub type Step = (u8, u64, u64, u8, bool);

/// Returns a recording of the valid steps, and the content of memory before each event.
pub fn build_recording(steps: &[Step]) -> (Recording, Vec<DeviceMemory>) {
    let mut b = Build::new();
    b.stream("default stream", 0);
    b.metadata.functions = functions();
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let mut contents = Vec::new();
    for (kind, one, two, value, with_content) in steps {
        // All events of a step share the content of memory before the step.
        let before = (b.event(), b.memory.clone());
        let slot = WINDOW + one % 4 * 16;
        let at = WINDOW + one % 70;
        let bytes = 1 + two % 12;
        match kind % 10 {
            0 if !live.contains_key(&slot) => {
                live.insert(slot, 1 + two % 16);
                b.take_at(slot, 1 + two % 16);
            }
            1 => {
                if let Some(bytes) = live.remove(&slot) {
                    b.give(slot, bytes);
                }
            }
            2 => {
                let content: Vec<u8> = (0..bytes).map(|n| value.wrapping_add(n as u8)).collect();
                b.copy_in(at, &content, (1, bytes), 0, *with_content);
            }
            3 => {
                let content: Vec<u8> = (0..6).map(|n| value.wrapping_add(n)).collect();
                b.copy_in(at, &content, (3, 2 + two % 4), 0, true);
            }
            4 => b.fill(
                at,
                (1 + two % 3, [1, 2, 4][*value as usize % 3]),
                u32::from(*value).wrapping_mul(0x0102_0304),
                (2, 16),
                0,
            ),
            5 => b.on_device(at, WINDOW + two % 70, 1 + u64::from(*value) % 9, 0),
            6 => {
                // A snapshot would define memory outside of all buffers, which this test does not cover.
                let snapshot = !with_content && find_buffer(&live, at).is_some();
                b.copy_out(at, bytes, if snapshot { OrderRow::NONE } else { 0 }, true);
            }
            7 => b.copy_out(at, bytes, 0, *with_content),
            _ => {
                let function = (*value % 4) as u32;
                let mut arguments = at.to_le_bytes().to_vec();
                if function == 2 {
                    arguments.extend_from_slice(&(WINDOW + two % 70).to_le_bytes());
                }
                let words: Vec<u64> = arguments
                    .chunks(8)
                    .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
                    .collect();
                b.launch(function, [1; 3], [1; 3], 0, &arguments);
                if function == 0 || function == 2 {
                    for w in words {
                        if let Some((from, length)) = find_buffer(&live, w) {
                            let new: Vec<u8> = (0..length)
                                .map(|n| value.wrapping_mul(3).wrapping_add(n as u8))
                                .collect();
                            b.set(from, &new);
                        }
                    }
                }
            }
        }
        for _ in before.0..b.event() {
            contents.push(before.1.clone());
        }
    }
    contents.push(b.memory.clone());
    (b.finish(), contents)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn memory_reads_match_a_naive_walk(
        steps in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), any::<u8>(), any::<bool>()), 1..40)
    ) {
        let (r, contents) = build_recording(&steps);
        let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        let range = WINDOW..WINDOW + 90;
        for event in 0..=r.events.len() as u64 {
            let read = api_trace.read(&r, GpuVa::new_range(range.clone()), event);
            let mut next = range.start;
            for p in &read.pieces {
                prop_assert_eq!(p.range.start.get(), next);
                prop_assert!(p.range.end.get() > next);
                next = p.range.end.get();
                for address in GpuVa::get_range(&p.range) {
                    let byte = read.bytes[(address - range.start) as usize];
                    let expected = walk(&r, address, event);
                    let state = match p.state {
                        ContentState::Known(..) => NaiveState::Known(byte),
                        ContentState::Unknown(UnknownReason::NotAllocated, _) => NaiveState::NotAllocated,
                        ContentState::Unknown(UnknownReason::NeverWritten, _) => NaiveState::Never,
                        ContentState::Unknown(UnknownReason::Launch { .. }, e) => NaiveState::Launch(e),
                        ContentState::Unknown(UnknownReason::NotRecorded, e) => NaiveState::NotRecorded(e),
                        ContentState::Unknown(..) => panic!("{:?}", p.state),
                    };
                    prop_assert_eq!(state, expected, "byte {} at {}", address - range.start, event);
                    if let NaiveState::Known(known) = state {
                        let real = contents[event as usize].get(address);
                        prop_assert_eq!(known, real, "byte {} at {}", address - range.start, event);
                    }
                }
            }
            prop_assert_eq!(next, range.end);
        }
    }

    #[test]
    fn last_writers_match_a_naive_walk(
        steps in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), any::<u8>(), any::<bool>()), 1..40)
    ) {
        let (r, _) = build_recording(&steps);
        let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        for event in 0..=r.events.len() as u64 {
            for address in (WINDOW..WINDOW + 80).step_by(3) {
                let writer = api_trace.find_last_writer(&r, GpuVa::new(address), event);
                let Some((at, bytes)) = find_buffer(&live(&r, event), address) else {
                    prop_assert_eq!(writer.location, None);
                    continue;
                };
                let location = writer.location.unwrap();
                let buffer = api_trace.buffers().get(location.buffer).unwrap();
                prop_assert_eq!((buffer.at.get(), buffer.bytes, location.offset), (at, bytes, address - at));
                prop_assert_eq!(api_trace.buffers().find(&buffer.name), Some(location.buffer));
                let since = writer.allocated_at.unwrap();
                let last = (since..event).rev().find(|e| writes(&r, *e, address));
                prop_assert_eq!(writer.certain.map(|c| c.0), last);
                let start = last.map_or(since, |l| l + 1);
                let launches: Vec<u64> = (start..event).rev().filter(|e| may_write(&r, *e, address)).collect();
                let entries: Vec<u64> = writer.launches.iter().map(|l| l.event).collect();
                prop_assert_eq!(&entries, &launches);
                let launched = |e: &u64| matches!(r.events.call(*e as usize), Some(CallEvent::Launch(_)));
                let all = (start..event).filter(launched).count() as u64;
                prop_assert_eq!(writer.others + writer.readers + launches.len() as u64, all);
            }
        }
    }
}
