//! Memory and its writers at every event of recordings that are made up at random, compared with a walk over the events
//! for each byte, and with what the memory held.

use crate::calls::net::{Build, DeviceMemory, WINDOW};
use proptest::prelude::*;
use std::collections::BTreeMap;
use trace_core::api_trace::{ApiTrace, ContentState, UnknownReason};
use trace_core::progress::Progress;
use trace_core::recording::{AllocationKind, CallEvent, CallFunction, CopyKind, NO_CONTENT, OrderRow, Recording};

/// What a walk tells of a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NaiveState {
    NotTaken,
    Never,
    Known(u8),
    Launch(u64),
    NotHeld(u64),
}

/// Functions: how a pointer is given, and whether it may write.
fn functions() -> Vec<CallFunction> {
    let of = |demangled: &str, parameters: &[[u32; 2]]| CallFunction {
        name: demangled.split('(').next().unwrap().into(),
        demangled: demangled.into(),
        parameters: parameters.to_vec(),
        ..Default::default()
    };
    vec![
        of("plain(float*)", &[[0, 8]]),
        of("reads(float const*)", &[[0, 8]]),
        of("inside(Pair)", &[[0, 16]]),
        of("number(unsigned long)", &[[0, 8]]),
    ]
}

/// Addresses of buffers that a walk finds live before an event.
pub fn live(r: &Recording, event: u64) -> BTreeMap<u64, u64> {
    let mut live = BTreeMap::new();
    for at in 0..event as usize {
        if let Some(CallEvent::Allocation(a)) = r.events.call(at) {
            match AllocationKind::from_raw(a.kind).unwrap() {
                AllocationKind::Take => live.insert(a.at, a.bytes),
                _ => live.remove(&a.at),
            };
        }
    }
    live
}

pub fn holds(live: &BTreeMap<u64, u64>, address: u64) -> Option<(u64, u64)> {
    let found = live
        .iter()
        .find(|(at, bytes)| **at <= address && address < **at + **bytes);
    found.map(|(a, b)| (*a, *b))
}

/// Whether an event may write a byte without saying what.
pub fn may_write(r: &Recording, event: u64, address: u64) -> bool {
    let Some(CallEvent::Launch(l)) = r.events.call(event as usize) else {
        return false;
    };
    let live = live(r, event);
    let Some((at, bytes)) = holds(&live, address) else {
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

/// The byte that a copy or a fill writes to an address: where it is from.
fn place(at: u64, bytes: u64, rows: u64, pitch: u64, address: u64) -> Option<(u64, u64)> {
    (0..rows).find_map(|n| {
        let from = at + n * pitch;
        (from <= address && address < from + bytes).then(|| (n, address - from))
    })
}

/// What an event writes or reads back for certain at an address.
fn certain(r: &Recording, event: u64, address: u64) -> Option<NaiveState> {
    match r.events.call(event as usize)? {
        CallEvent::Copy(c) => match CopyKind::from_raw(c.kind)? {
            CopyKind::HostToDevice => {
                let (n, by) = place(c.to, c.bytes, c.rows, c.to_pitch, address)?;
                Some(match r.copy_content(&c) {
                    Some(all) => NaiveState::Known(all[(n * c.bytes + by) as usize]),
                    None => NaiveState::NotHeld(event),
                })
            }
            CopyKind::DeviceToHost if c.pages_at != NO_CONTENT => {
                let (n, by) = place(c.from, c.bytes, c.rows, c.from_pitch, address)?;
                Some(NaiveState::Known(
                    r.copy_content(&c).unwrap()[(n * c.bytes + by) as usize],
                ))
            }
            CopyKind::DeviceToDevice => {
                let (n, by) = place(c.to, c.bytes, c.rows, c.to_pitch, address)?;
                Some(walk(r, c.from + n * c.from_pitch + by, event))
            }
            _ => None,
        },
        CallEvent::Fill(f) => {
            let (_, by) = place(f.to, f.elements * u64::from(f.element), f.rows, f.pitch, address)?;
            Some(NaiveState::Known(
                f.value.to_le_bytes()[(by % u64::from(f.element)) as usize],
            ))
        }
        _ => None,
    }
}

/// Whether an event writes a byte for certain.
pub fn wrote(r: &Recording, event: u64, address: u64) -> bool {
    match r.events.call(event as usize) {
        Some(CallEvent::Copy(c)) => {
            c.kind != CopyKind::DeviceToHost as u32 && place(c.to, c.bytes, c.rows, c.to_pitch, address).is_some()
        }
        Some(CallEvent::Fill(f)) => place(f.to, f.elements * u64::from(f.element), f.rows, f.pitch, address).is_some(),
        _ => false,
    }
}

/// What is known of a byte before an event, by a walk over all events.
fn walk(r: &Recording, address: u64, event: u64) -> NaiveState {
    let mut now = NaiveState::NotTaken;
    let covers = |e: u64| match r.events.call(e as usize) {
        Some(CallEvent::Allocation(a)) if a.at <= address && address < a.at + a.bytes => Some(a),
        _ => None,
    };
    for e in 0..event {
        if let Some(a) = covers(e) {
            now = if a.kind == AllocationKind::Take as u32 {
                NaiveState::Never
            } else {
                NaiveState::NotTaken
            };
        } else if may_write(r, e, address) {
            now = NaiveState::Launch(e);
        } else if let Some(report) = certain(r, e, address) {
            now = report;
        }
    }
    if matches!(now, NaiveState::Known(_)) {
        return now;
    }
    for e in event..r.events.len() as u64 {
        if covers(e).is_some() || may_write(r, e, address) || wrote(r, e, address) {
            break;
        }
        if let Some(CallEvent::Copy(c)) = r.events.call(e as usize)
            && c.kind == CopyKind::DeviceToHost as u32
            && let Some(report) = certain(r, e, address)
        {
            return report;
        }
    }
    now
}

/// A call that is made up: what, and four numbers.
pub type Step = (u8, u64, u64, u8, bool);

/// A recording of steps that make sense, and what memory held before each event.
pub fn make(steps: &[Step]) -> (Recording, Vec<DeviceMemory>) {
    let mut b = Build::new();
    b.stream("default stream", 0);
    b.metadata.functions = functions();
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let mut held = Vec::new();
    for (what, one, two, value, held_content) in steps {
        // What memory held before the event; a step of several events keeps it for each.
        let before = (b.event(), b.memory.clone());
        let slot = WINDOW + one % 4 * 16;
        let at = WINDOW + one % 70;
        let bytes = 1 + two % 12;
        match what % 10 {
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
                b.copy_in(at, &content, (1, bytes), 0, *held_content);
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
                // A snapshot tells of memory that no call took: that is another test's.
                let snapshot = !held_content && holds(&live, at).is_some();
                b.copy_out(at, bytes, if snapshot { OrderRow::NONE } else { 0 }, true);
            }
            7 => b.copy_out(at, bytes, 0, *held_content),
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
                        if let Some((from, length)) = holds(&live, w) {
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
            held.push(before.1.clone());
        }
    }
    held.push(b.memory.clone());
    (b.finish(), held)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn memory_reads_match_a_naive_walk(
        steps in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), any::<u8>(), any::<bool>()), 1..40)
    ) {
        let (r, held) = make(&steps);
        let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        let range = WINDOW..WINDOW + 90;
        for event in 0..=r.events.len() as u64 {
            let read = api_trace.read(&r, range.clone(), event);
            let mut next = range.start;
            for p in &read.pieces {
                prop_assert_eq!(p.range.start, next);
                prop_assert!(p.range.end > next);
                next = p.range.end;
                for address in p.range.clone() {
                    let byte = read.bytes[(address - range.start) as usize];
                    let report = walk(&r, address, event);
                    let mine = match p.state {
                        ContentState::Known(..) => NaiveState::Known(byte),
                        ContentState::Unknown(UnknownReason::NotAllocated, _) => NaiveState::NotTaken,
                        ContentState::Unknown(UnknownReason::NeverWritten, _) => NaiveState::Never,
                        ContentState::Unknown(UnknownReason::Launch { .. }, e) => NaiveState::Launch(e),
                        ContentState::Unknown(UnknownReason::NotRecorded, e) => NaiveState::NotHeld(e),
                        ContentState::Unknown(..) => panic!("{:?}", p.state),
                    };
                    prop_assert_eq!(mine, report, "byte {} at {}", address - range.start, event);
                    if let NaiveState::Known(known) = mine {
                        let was = held[event as usize].get(address);
                        prop_assert_eq!(known, was, "byte {} at {}", address - range.start, event);
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
        let (r, _) = make(&steps);
        let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        for event in 0..=r.events.len() as u64 {
            for address in (WINDOW..WINDOW + 80).step_by(3) {
                let who = api_trace.find_last_writer(&r, address, event);
                let Some((at, bytes)) = holds(&live(&r, event), address) else {
                    prop_assert_eq!(who.location, None);
                    continue;
                };
                let place = who.location.unwrap();
                let buffer = api_trace.buffers().get(place.buffer).unwrap();
                prop_assert_eq!((buffer.at, buffer.bytes, place.offset), (at, bytes, address - at));
                prop_assert_eq!(api_trace.buffers().find(&buffer.name), Some(place.buffer));
                let since = who.allocated_at.unwrap();
                let last = (since..event).rev().find(|e| wrote(&r, *e, address));
                prop_assert_eq!(who.certain.map(|c| c.0), last);
                let behind = last.map_or(since, |l| l + 1);
                let launches: Vec<u64> = (behind..event).rev().filter(|e| may_write(&r, *e, address)).collect();
                let entries: Vec<u64> = who.launches.iter().map(|l| l.event).collect();
                prop_assert_eq!(&entries, &launches);
                let launched = |e: &u64| matches!(r.events.call(*e as usize), Some(CallEvent::Launch(_)));
                let all = (behind..event).filter(launched).count() as u64;
                prop_assert_eq!(who.others + who.readers + launches.len() as u64, all);
            }
        }
    }
}
