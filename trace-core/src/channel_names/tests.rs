//! Tests of the names of channels.

use super::*;
use crate::recording::{DriverTraceMetadata, EventsBuilder, ObjectRow, RingEntryRow, TraceKind};

const CLIENT: u32 = 0xc1d0_0001;

#[test]
fn names_come_from_the_classes_of_engine_objects() {
    let mut b = EventsBuilder::new();
    let mut create = |kind: ObjectKind, parent, handle, class, result| {
        let row = ObjectRow {
            action: ObjectAction::Create as u32,
            kind: kind as u32,
            client: CLIENT,
            parent,
            handle,
            class,
            result,
            ..ObjectRow::default()
        };
        b.object(0, 1, row);
    };
    for channel in [0x10, 0x20, 0x30, 0x40] {
        create(ObjectKind::Channel, 1, channel, 0xc86f, 0);
    }
    create(ObjectKind::Channel, 1, 0x50, 0xc86f, 0x1f);
    create(ObjectKind::Engine, 0x10, 0x11, 0xc8b5, 0);
    for (parent, class) in [(0x20, 0xc8b5), (0x20, 0xcbc0), (0x30, 0xcbc0), (0x30, 0xcb97)] {
        create(ObjectKind::Engine, parent, parent + class, class, 0);
    }
    let entry = RingEntryRow {
        client: CLIENT,
        channel: 0x60,
        ..RingEntryRow::default()
    };
    b.ring_entry(1, 1, entry);
    let mut recording = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    recording.metadata.kind = TraceKind::Driver(DriverTraceMetadata::default());
    let names = ChannelNames::from_recording(&recording);
    let list: Vec<String> = names.list().iter().map(ChannelName::describe).collect();
    assert_eq!(
        list,
        [
            "compute 0: channel 0x20, graphics and compute",
            "graphics 0: channel 0x30, graphics and compute",
            "channel 0: channel 0x40",
            "channel 1: channel 0x60",
            "copy 0: channel 0x10, copy engine",
        ]
    );
    assert_eq!(
        names.find(CLIENT, 0x30).map(ChannelName::format),
        Some("graphics 0".into())
    );
    assert_eq!((names.find(CLIENT, 0x50), names.find(1, 0x30)), (None, None));
}
