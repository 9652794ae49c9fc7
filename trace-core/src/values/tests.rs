//! Tests of values against a byte-by-byte reference, and of the pieces that a plot must show.

use super::{AccessFilter, Values, collect};
use crate::RegOffset;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, EventsBuilder, Hardware, PciFunction, Recording, Space, SpaceKind};
use crate::registers::{Accesses, Field, RecordedRegisters, history};
use proptest::prelude::*;
use std::collections::HashMap;

/// Returns a recording of a Radeon, whose registers support accesses of 1, 2 and 4 bytes. `CRTC_GEN_CNTL` is at 0x50
/// and has fields in each byte.
fn recording(accesses: &[Access]) -> Recording {
    let mut b = EventsBuilder::new();
    for (n, a) in accesses.iter().enumerate() {
        // Other events are between accesses.
        if n % 5 == 0 {
            b.mark(n as u64, "x");
        }
        b.access(n as u64 * 10, 1, *a);
    }
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.spaces = vec![Space {
        name: "bar2".into(),
        kind: SpaceKind::Registers,
        bytes: 1 << 16,
    }];
    r.set_hardware(&Hardware::Pci(PciFunction {
        vendor: 0x1002,
        device: 0x5159,
        ..PciFunction::default()
    }));
    r
}

const REGISTER: u32 = 0x50;

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let location = (0x4cu32..0x58, proptest::sample::select(&[1u8, 2, 4][..]));
    let access = (any::<bool>(), location, any::<u32>());
    let access = access.prop_map(|(write, (offset, width), value)| {
        let (offset, width) = (offset / u32::from(width) * u32::from(width), width);
        Access {
            space: 0,
            write,
            offset: RegOffset::new(offset),
            width,
            value: u64::from(value) & (u64::MAX >> (64 - u32::from(width) * 8)),
        }
    });
    prop::collection::vec(access, 0..60)
}

/// Returns the reference values: each access sets its own bytes of the window, and the register is its four bytes.
fn naive(recording: &Recording, field: Option<&Field>, filter: AccessFilter) -> Vec<(u32, u64)> {
    let mut bytes: HashMap<u32, u8> = HashMap::new();
    let mut out = Vec::new();
    for (event, a) in recording.events.accesses(0..recording.events.len()) {
        let mut bits = 0u64;
        for i in 0..u32::from(a.width) {
            let at = a.offset + i;
            bytes.insert(at.get(), (a.value >> (8 * i)) as u8);
            if (REGISTER..REGISTER + 4).contains(&at.get()) {
                bits |= 0xff << (8 * (at - RegOffset::new(REGISTER)));
            }
        }
        let value = (0..4)
            .map(|i| u64::from(bytes.get(&(REGISTER + i)).copied().unwrap_or(0)) << (8 * i))
            .sum();
        let is_selected = match field {
            Some(f) => (f.lo..=f.hi).any(|b| bits >> b & 1 == 1),
            None => bits != 0,
        };
        let kind = match filter {
            AccessFilter::Both => true,
            AccessFilter::Reads => !a.write,
            AccessFilter::Writes => a.write,
        };
        if is_selected && kind {
            out.push((event as u32, field.map_or(value, |f| f.extract(value))));
        }
    }
    out
}

/// Returns the accesses that cover the register.
fn covering_accesses(recording: &Recording) -> Accesses {
    let all = recording.events.accesses(0..recording.events.len());
    let touches = |a: &Access| {
        a.offset < RegOffset::new(REGISTER + 4) && a.offset + u32::from(a.width) > RegOffset::new(REGISTER)
    };
    all.filter(|(_, a)| touches(a))
        .map(|(e, a)| (e as u64, a.write))
        .collect()
}

/// Returns the visible values, one by one.
fn visible_values(events: &[u32], values: &[u64], from: f64, to: f64) -> Vec<(f64, u64)> {
    let all = events.iter().map(|e| f64::from(*e)).zip(values.iter().copied());
    all.filter(|(x, _)| *x >= from && *x <= to).collect()
}

proptest! {
    #[test]
    fn register_and_field_values_match_a_bytewise_scan(list in accesses()) {
        let r = recording(&list);
        let device = RecordedRegisters::new(&r).unwrap();
        let def = device.map().at(RegOffset::new(REGISTER)).unwrap();
        prop_assert_eq!(def.width, 4);
        prop_assert!(def.layout.fields.len() > 2);
        let events = covering_accesses(&r);
        for filter in AccessFilter::ALL {
            let fields = def.layout.fields.iter().map(Some);
            for field in std::iter::once(None).chain(fields) {
                let got = collect(&r, Some(device), RegOffset::new(REGISTER), field, &events, filter, &Progress::new()).unwrap();
                let got: Vec<_> = got.events().iter().copied().zip(got.values().iter().copied()).collect();
                prop_assert_eq!(got, naive(&r, field, filter));
            }
        }
    }

    #[test]
    fn register_value_at_an_event_is_the_last_recorded_one(list in accesses()) {
        let r = recording(&list);
        let device = RecordedRegisters::new(&r).unwrap();
        let sorted = history::by_register(&r, Some(device.map()), device.space(), &Progress::new()).unwrap();
        let covering_accesses = covering_accesses(&r);
        let register_accesses = sorted.get(&RegOffset::new(REGISTER)).cloned().unwrap_or_default();
        prop_assert_eq!(register_accesses.iter().collect::<Vec<_>>(), covering_accesses.iter().collect::<Vec<_>>());
        let values = collect(&r, Some(device), RegOffset::new(REGISTER), None, &register_accesses, AccessFilter::Both, &Progress::new()).unwrap();
        for event in 0..r.events.len() as u64 + 2 {
            let value = history::value_at(&r, Some(device), RegOffset::new(REGISTER), &register_accesses, event);
            prop_assert_eq!(value.map(|h| (h.event, h.value)), values.at(event));
            prop_assert_eq!(value.map(|h| register_accesses.all().get(h.place)), value.map(|h| Some(h.event)));
            prop_assert_eq!(value.map(|h| register_accesses.writes().contains(h.event)), value.map(|h| h.write));
        }
    }

    #[test]
    fn plot_pieces_keep_extremes_one_per_column(
        gaps in prop::collection::vec((0u32..400, prop_oneof![0u64..4, any::<u64>()]), 0..700),
        (a, b) in (0.0f64..1.0, 0.0f64..1.0),
        columns in 1usize..60,
    ) {
        let mut at = 0;
        let events: Vec<u32> = gaps.iter().map(|(g, _)| { at += g + 1; at }).collect();
        let values: Vec<u64> = gaps.iter().map(|g| g.1).collect();
        let v = Values::new(events.clone(), values.clone());
        let end = f64::from(at + 10);
        let (from, to) = (a.min(b) * end, a.max(b) * end);
        let (before, pieces) = v.pieces(&|e| e as f64, from, to, columns);
        prop_assert!(pieces.len() <= 2 * columns + 2, "{} pieces in {} columns", pieces.len(), columns);
        let expected = visible_values(&events, &values, from, to);
        let n = events.partition_point(|e| f64::from(*e) < from);
        prop_assert_eq!(before, n.checked_sub(1).map(|n| values[n]));
        let mut rest = expected.as_slice();
        let column = (to - from) / columns as f64;
        for p in &pieces {
            prop_assert!(p.to - p.from <= column, "a piece is wider than a column");
            let k = rest.partition_point(|(x, _)| *x <= p.to);
            let (covered, others) = rest.split_at(k);
            prop_assert!(!covered.is_empty());
            prop_assert_eq!((covered[0].0, covered[k - 1].0), (p.from, p.to));
            prop_assert_eq!((covered[0].1, covered[k - 1].1), (p.begin, p.end));
            prop_assert_eq!(covered.iter().map(|m| m.1).min(), Some(p.min));
            prop_assert_eq!(covered.iter().map(|m| m.1).max(), Some(p.max));
            rest = others;
        }
        prop_assert!(rest.is_empty(), "a visible value is missing");
        prop_assert_eq!(v.range(), values.iter().min().copied().zip(values.iter().max().copied()));
        for e in [0, at / 2, at, at + 5] {
            let n = events.partition_point(|x| *x <= e);
            let reported = n.checked_sub(1).map(|n| (u64::from(events[n]), values[n]));
            prop_assert_eq!(v.at(u64::from(e)), reported);
        }
    }
}

#[test]
fn plot_shows_a_single_outlier_at_any_width() {
    let events: Vec<u32> = (0..1_000_000).collect();
    let values: Vec<u64> = events.iter().map(|e| u64::from(*e == 654_321) * 7).collect();
    let v = Values::new(events, values);
    for columns in [1, 10, 1000] {
        let (_, pieces) = v.pieces(&|e| e as f64, 0.0, 1e6, columns);
        assert_eq!(pieces.iter().filter(|p| p.max == 7).count(), 1);
        assert!(pieces.len() <= 2 * columns + 2);
    }
    // The number of computed positions depends on the number of columns, not on the number of values.
    let calls = std::cell::Cell::new(0);
    let position = |e: u64| {
        calls.set(calls.get() + 1);
        e as f64
    };
    let _ = v.pieces(&position, 0.0, 1e6, 500);
    assert!(calls.get() < 500 * 40, "{} positions", calls.get());
}

#[test]
fn zero_or_one_value_has_pieces_and_collection_is_cancellable() {
    let none = Values::new(Vec::new(), vec![1]);
    assert_eq!((none.range(), none.at(5), none.len()), (None, None, 0));
    assert_eq!(none.pieces(&|e| e as f64, 0.0, 9.0, 5), (None, Vec::new()));
    let one = Values::new(vec![3], vec![9]);
    let (before, pieces) = one.pieces(&|e| e as f64, 4.0, 9.0, 5);
    assert_eq!((before, pieces.len()), (Some(9), 0));
    let cancelled = Progress::new();
    cancelled.cancel();
    let result = collect(
        &Recording::default(),
        None,
        RegOffset::ZERO,
        None,
        &[(1, false)].into_iter().collect(),
        AccessFilter::Both,
        &cancelled,
    );
    assert_eq!(result.err(), Some(Cancelled));
}
