//! Tests of objects, mappings and channels on small recordings.

use super::*;
use crate::RegOffset;
use crate::recording::{
    Access, DriverTraceMetadata, EventsBuilder, NO_CONTENT, ObjectAction, ObjectRow, RingEntryRow, Space, SpaceKind,
    TraceKind,
};

const CLIENT: u32 = 0xc1d0_0001;

fn row(action: ObjectAction, kind: ObjectKind, parent: u32, handle: u32) -> ObjectRow {
    ObjectRow {
        client: CLIENT,
        parent,
        handle,
        action: action as u32,
        kind: kind as u32,
        ..ObjectRow::default()
    }
}

fn derive(rows: &[ObjectRow]) -> DriverTrace {
    let mut b = EventsBuilder::new();
    for (n, row) in rows.iter().enumerate() {
        b.object(n as u64, 1, *row);
    }
    derive_events(b)
}

fn derive_events(b: EventsBuilder) -> DriverTrace {
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.kind = TraceKind::Driver(DriverTraceMetadata::default());
    r.metadata.spaces = vec![Space {
        name: "usermode".into(),
        kind: SpaceKind::Registers,
        bytes: 0x1_0000,
    }];
    DriverTrace::from_recording(&r, &Progress::new()).unwrap().unwrap()
}

#[test]
fn freeing_a_parent_frees_everything_below_it() {
    use ObjectAction::{Create, Free};
    let trace = derive(&[
        row(Create, ObjectKind::Client, 0, CLIENT),
        row(Create, ObjectKind::Device, CLIENT, 2),
        row(Create, ObjectKind::Buffer, 2, 3),
        row(Create, ObjectKind::Buffer, 2, 4),
        row(Free, ObjectKind::Buffer, 2, 4),
        row(Free, ObjectKind::Client, 0, CLIENT),
        row(Create, ObjectKind::Client, 0, CLIENT),
    ]);
    let ends: Vec<Option<u64>> = trace.objects().iter().map(|o| o.free_event).collect();
    assert_eq!(ends, [Some(5), Some(5), Some(5), Some(4), None]);
    assert_eq!(trace.children(Some(1)).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(trace.children(None).collect::<Vec<_>>(), [0, 4]);
    assert!(trace.objects()[3].exists_at(4) && !trace.objects()[3].exists_at(5));
}

#[test]
fn buffers_are_found_at_their_mappings_while_these_exist() {
    use ObjectAction::{Create, Map, Unmap};
    let at = |action, handle, va, bytes, offset| ObjectRow {
        address: GpuVa::new(va),
        bytes,
        second: offset,
        space: 9,
        ..row(action, ObjectKind::Buffer, 0, handle)
    };
    let trace = derive(&[
        row(Create, ObjectKind::Buffer, 0, 3),
        at(Map, 3, 0x1000, 0x2000, 0x100),
        at(Unmap, 0, 0x1000, 0x2000, ObjectRow::UNKNOWN),
        row(Create, ObjectKind::Buffer, 0, 4),
        at(Map, 4, 0x2000, 0x1000, 0),
        // It replaces the mapping of the other buffer.
        at(Map, 3, 0x2000, 0x1000, 0),
    ]);
    let find = |va, event| trace.find_buffer(GpuVa::new(va), event);
    assert_eq!(find(0x1010, 1), None);
    assert_eq!(find(0x1010, 2), Some((0, 0x110)));
    assert_eq!(find(0x3000, 2), None, "an address after the end");
    assert_eq!(find(0x1010, 3), None);
    assert_eq!(find(0x2004, 5), Some((1, 4)));
    assert_eq!(find(0x2004, 6), Some((0, 4)));
    assert_eq!(trace.objects()[0].address, Some(GpuVa::new(0x1000)));
}

#[test]
fn source_without_handles_frees_by_address_or_the_newest() {
    use ObjectAction::{Create, Free};
    let at = |action, address| ObjectRow {
        client: 0,
        address: GpuVa::new(address),
        ..row(action, ObjectKind::Buffer, 0, 0)
    };
    let unknown = ObjectRow::UNKNOWN;
    let trace = derive(&[
        at(Create, 0x1000),
        at(Create, 0x2000),
        at(Create, unknown),
        at(Free, 0x1000),
        at(Free, unknown),
        at(Free, 0x3000),
    ]);
    let ends: Vec<Option<u64>> = trace.objects().iter().map(|o| o.free_event).collect();
    assert_eq!(ends, [Some(3), None, Some(4)]);
}

#[test]
fn refused_requests_make_no_object() {
    let refused = ObjectRow {
        result: 0x51,
        ..row(ObjectAction::Create, ObjectKind::Buffer, 0, 3)
    };
    assert!(derive(&[refused]).objects().is_empty());
}

#[test]
fn doorbells_announce_the_entries_before_them() {
    let mut b = EventsBuilder::new();
    let channel = |handle| ObjectRow {
        second: 0x5000,
        ..row(ObjectAction::Create, ObjectKind::Channel, 0, handle)
    };
    b.object(0, 1, channel(7));
    b.object(1, 1, channel(8));
    let entry = |channel| RingEntryRow {
        client: CLIENT,
        channel,
        bytes: 8,
        pages_at: NO_CONTENT,
        ..RingEntryRow::default()
    };
    let store = Access {
        space: 0,
        write: true,
        offset: RegOffset::new(0x90),
        width: 4,
        value: 1,
    };
    b.ring_entry(2, 1, entry(8));
    b.ring_entry(3, 1, entry(8));
    b.access(4, 1, store);
    b.ring_entry(5, 1, entry(7));
    b.access(6, 1, store);
    // Its channel was made before the recording began.
    b.ring_entry(7, 1, entry(99));
    let trace = derive_events(b);
    let counts: Vec<(u64, u64)> = trace.channels().iter().map(|c| (c.submits, c.doorbells)).collect();
    assert_eq!(counts, [(1, 1), (2, 1), (1, 0)]);
    let doorbells: Vec<Option<u64>> = trace.submissions().iter().map(|s| s.doorbell).collect();
    assert_eq!(doorbells, [Some(4), Some(4), Some(6), None]);
    assert_eq!(trace.objects()[0].ring, Some(GpuVa::new(0x5000)));
    assert_eq!(trace.objects()[2].alloc_event, None);
}

#[test]
fn other_recordings_have_no_driver_trace() {
    let found = DriverTrace::from_recording(&Recording::default(), &Progress::new());
    assert_eq!(found, Ok(None));
}

#[test]
fn nearest_buffer_has_a_distance() {
    use ObjectAction::{Create, Map, Unmap};
    let at = |action, handle, va, bytes| ObjectRow {
        address: GpuVa::new(va),
        bytes,
        second: 0,
        ..row(action, ObjectKind::Buffer, 0, handle)
    };
    let trace = derive(&[
        row(Create, ObjectKind::Buffer, 0, 3),
        at(Map, 3, 0x10_0000, 0x1000),
        row(Create, ObjectKind::Buffer, 0, 4),
        at(Map, 4, 0x80_0000, 0x1000),
        at(Unmap, 4, 0x80_0000, 0x1000),
    ]);
    let describe = |va, event| {
        let va = GpuVa::new(va);
        trace.describe_nearest(va, trace.find_nearest_buffer(va, event))
    };
    assert_eq!(describe(0x10_0010, 9), "0x100010 is in buffer 0x3 + 0x10");
    assert_eq!(describe(0x10_1000, 9), "0x101000 is 0 bytes above buffer 0x3");
    assert_eq!(describe(0xf_ffff, 9), "0xfffff is 1 byte below buffer 0x3");
    assert_eq!(describe(0x30_1000, 9), "0x301000 is 2.0 MiB above buffer 0x3");
    assert_eq!(describe(0x7f_0000, 4), "0x7f0000 is 64.0 KiB below buffer 0x4");
    assert_eq!(
        describe(0x80_0800, 9),
        "0x800800 was in buffer 0x4 + 0x800, whose address ended at event 4"
    );
    assert_eq!(describe(0x7f00_0000_0000, 9), "no buffer is mapped near 0x7f0000000000");
}
