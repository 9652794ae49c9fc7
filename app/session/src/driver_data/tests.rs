//! Tests of the derived data of driver traces.

use super::*;
use std::collections::HashSet;
use trace_core::GpuVa;
use trace_core::recording::{DriverTraceMetadata, EventsBuilder, ObjectKind, ObjectRow, TraceKind};

const CLIENT: u32 = 0xc1d0_0001;

fn row(action: ObjectAction, kind: ObjectKind, parent: u32, handle: u32) -> ObjectRow {
    ObjectRow {
        action: action as u32,
        kind: kind as u32,
        client: CLIENT,
        parent,
        handle,
        ..ObjectRow::default()
    }
}

fn create(kind: ObjectKind, parent: u32, handle: u32) -> ObjectRow {
    row(ObjectAction::Create, kind, parent, handle)
}

fn at(action: ObjectAction, handle: u32, va: u64, bytes: u64) -> ObjectRow {
    ObjectRow {
        address: GpuVa::new(va),
        bytes,
        second: 0,
        ..row(action, ObjectKind::Buffer, 0, handle)
    }
}

fn derive(rows: &[ObjectRow]) -> (Recording, DriverData) {
    let mut b = EventsBuilder::new();
    for (time, r) in (0u64..).zip(rows) {
        b.object(time, 1, *r);
    }
    let mut recording = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    recording.metadata.kind = TraceKind::Driver(DriverTraceMetadata::default());
    let data = DriverData::from_recording(&recording, &Progress::new());
    (recording, data.unwrap().unwrap())
}

/// A client with a device, of which each has a buffer; the second client has none.
fn two_clients() -> (Recording, DriverData) {
    use ObjectKind::{Buffer, Client, Device};
    let buffer = |parent, handle, bytes| ObjectRow {
        bytes,
        ..create(Buffer, parent, handle)
    };
    derive(&[
        create(Client, 0, CLIENT),
        create(Device, CLIENT, 1),
        buffer(1, 2, 0x4_0000),
        create(Client, 0, 9),
        buffer(CLIENT, 3, 0x1000),
        buffer(1, 4, 0x4_0000),
        row(ObjectAction::Free, Device, CLIENT, 1),
    ])
}

fn select(found: &(Recording, DriverData), text: &str, at: Option<u64>, folded: &[u32]) -> Vec<u32> {
    let filter = ObjectFilter {
        text: text.to_owned(),
        at,
    };
    let folded: HashSet<u32> = folded.iter().copied().collect();
    let rows = select_objects(&found.1, &found.0, &filter, &folded, &Progress::new()).unwrap();
    rows.iter().map(|n| found.1.tree[*n as usize].object).collect()
}

#[test]
fn objects_stand_before_their_children() {
    let (_, data) = two_clients();
    let tree: Vec<(u32, u16, u32)> = data.tree.iter().map(|r| (r.object, r.depth, r.end)).collect();
    assert_eq!(tree, [(0, 0, 5), (1, 1, 4), (2, 2, 3), (5, 2, 4), (4, 1, 5), (3, 0, 6)]);
    assert_eq!((data.row_of(3), data.row_of(99)), (Some(5), None));
}

#[test]
fn filters_keep_the_objects_above_a_match() {
    let found = two_clients();
    assert_eq!(select(&found, "", None, &[]), [0, 1, 2, 5, 4, 3]);
    assert_eq!(select(&found, "0x40000", None, &[]), [0, 1, 2, 5]);
    assert_eq!(select(&found, "buffer 0x3", None, &[]), [0, 4]);
    assert_eq!(select(&found, "", None, &[1]), [0, 1, 4, 3]);
    assert_eq!(
        select(&found, "0x40000", None, &[1]),
        [0, 1, 2, 5],
        "a filter looks below folded objects"
    );
    assert_eq!(select(&found, "", Some(2), &[]), [0, 1, 2]);
    assert_eq!(
        select(&found, "", Some(6), &[]),
        [0, 4, 3],
        "the device and its buffers are freed"
    );
}

#[test]
fn events_name_their_objects() {
    let (_, data) = two_clients();
    assert_eq!([2, 4, 6].map(|e| data.object_at(e)), [Some(2), Some(4), Some(1)]);
    assert_eq!(data.object_at(7), None);
}

#[test]
fn gaps_between_buffers_are_rows() {
    use ObjectAction::{Create, Map, Unmap};
    let buffer = |handle| ObjectRow {
        flags: ObjectRow::VIDEO_MEMORY,
        ..row(Create, ObjectKind::Buffer, 0, handle)
    };
    let (_, data) = derive(&[
        buffer(1),
        buffer(2),
        at(Map, 1, 0x1000, 0x2000),
        at(Map, 2, 0x10_0000, 0x1000),
        at(Unmap, 1, 0x1000, 0x2000),
        at(Map, 2, 0x2000, 0x1000),
    ]);
    let chart = &data.addresses;
    let rows: Vec<String> = chart
        .rows
        .iter()
        .map(|r| match &r.kind {
            AddressRowKind::Space(space) => format!("space {space:?}"),
            AddressRowKind::Gap { bytes } => format!("gap {bytes:#x}"),
            AddressRowKind::Addresses { start, end, segments } => {
                let events: Vec<(u64, u64)> = segments
                    .clone()
                    .map(|s| (chart.segments[s as usize].from, chart.segments[s as usize].to))
                    .collect();
                format!("{start}..{end} {events:?}")
            }
        })
        .collect();
    let end = u64::MAX;
    assert_eq!(
        rows,
        [
            "space None".to_owned(),
            "0x1000..0x2000 [(2, 4)]".to_owned(),
            format!("0x2000..0x3000 [(2, 4), (5, {end})]"),
            "gap 0xfd000".to_owned(),
            format!("0x100000..0x101000 [(3, {end})]"),
        ]
    );
    let now = |event| -> Vec<u64> {
        let ranges = chart.ranges_after(event).into_iter();
        ranges.map(|n| chart.ranges[n as usize].va.get()).collect()
    };
    assert_eq!(
        (now(1), now(3), now(5)),
        (vec![], vec![0x1000, 0x10_0000], vec![0x2000, 0x10_0000])
    );
    assert_eq!(chart.ranges[0].place, MemoryPlace::Video);
    let last = chart.range_of(1, 5).unwrap();
    assert_eq!(
        (chart.ranges[last as usize].va, chart.row_of_range(last)),
        (GpuVa::new(0x2000), Some(2))
    );
    assert_eq!(chart.row_at(chart.rows[3].top + 0.1), 3);
}

#[test]
fn first_segment_skips_those_that_ended() {
    use ObjectAction::{Create, Map, Unmap};
    let mut rows = vec![row(Create, ObjectKind::Buffer, 0, 1)];
    for _ in 0..50 {
        rows.push(at(Map, 1, 0x1000, 0x1000));
        rows.push(at(Unmap, 1, 0x1000, 0x1000));
    }
    let (_, data) = derive(&rows);
    let chart = &data.addresses;
    let Some(AddressRowKind::Addresses { segments, .. }) = chart.rows.last().map(|r| r.kind.clone()) else {
        panic!("a row with addresses");
    };
    assert_eq!(segments.len(), 50);
    let first = chart.first_segment(&segments, 41);
    assert_eq!(chart.segments[first as usize].from, 41);
}

#[test]
fn the_number_of_rows_is_limited() {
    use ObjectAction::{Create, Map};
    let mut rows = Vec::new();
    for n in 1..=6000u32 {
        rows.push(row(Create, ObjectKind::Buffer, 0, n));
        rows.push(at(Map, n, u64::from(n) << 16, 0x1000));
    }
    let (_, data) = derive(&rows);
    let with_addresses = |r: &&AddressRow| matches!(r.kind, AddressRowKind::Addresses { .. });
    let count = data.addresses.rows.iter().filter(with_addresses).count();
    assert_eq!((count, data.addresses.segments.len()), (3000, 6000));
}

#[test]
fn buffers_without_addresses_are_counted() {
    let channel = ObjectRow {
        address: GpuVa::new(0x10_0000),
        bytes: 0x1_0000,
        ..create(ObjectKind::Channel, 0, 7)
    };
    let (_, data) = derive(&[create(ObjectKind::Buffer, 0, 1), channel]);
    assert_eq!((data.addresses.without_address, data.addresses.ranges.len()), (1, 1));
    assert_eq!(data.addresses.ranges[0].place, MemoryPlace::PushBuffer);
}
